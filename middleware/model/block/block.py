"""A block: the events of one type, as objects, as the core has them, or as columns of Arrow."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import chain, compress
from typing import TYPE_CHECKING, Any, overload

import msgspec

from middleware import native
from middleware.model.block.arrays import integers, spelled, text_column, to_array, to_column
from middleware.model.block.rows import needs_conversion, reader_of, rows_of, source_codes, values
from middleware.model.errors import EventError
from middleware.model.event import MAX_TS, MIN_TS, NEVER, Event, EventType, type_name
from middleware.model.schema import arrow_schema, is_optional, plain_type

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


Test = Callable[[Any], bool]
"""Whether a type of Arrow is of some kind."""


class Block(Sequence[Event]):
    """Events of one type in their order of arrival.

    A block has one of three forms from the start: event objects, a block of the core, or a record batch of Arrow. The others
    are made when they are asked for, once, and kept. As a sequence it is one of events.

    ``batch``
        columns for the type's fields, in order, as ``arrow_schema`` has them; then ``ts`` (ns) and ``id``, int64, and
        ``source``, of strings, or of a dictionary of them; and ``level``, int64, unless all events are raw. Nulls only where a
        field is optional. The caller vouches for that; ``of`` checks it.
    ``events``
        the event objects.
    ``times``, ``later``
        occurrence times, and the function that gives one of the other forms when it is needed.
    ``in_time``
        whether the events are known to be in order of time.
    ``block``
        the events as the core has them.
    """

    __slots__ = ("_arrays", "_batch", "_block", "_events", "_in_core", "_later", "_length", "_parts", "event_type", "in_time")

    def __init__(
        self,
        event_type: EventType,
        batch: pa.RecordBatch | None,
        events: list[Event] | None = None,
        times: np.ndarray[Any, Any] | None = None,
        later: Callable[[], pa.RecordBatch | native.CoreBlock] | None = None,
        in_time: bool = False,
        block: native.CoreBlock | None = None,
    ) -> None:
        self.event_type = event_type
        self.in_time = in_time
        self._batch = batch
        self._in_core: native.EventBatch | None = None
        self._later = later
        self._block = block
        self._parts: Sequence[Block] = ()
        self._events = events
        known = block if block is not None else times if times is not None else events or ()
        self._length = batch.num_rows if batch is not None else len(known)
        self._arrays: dict[str, np.ndarray[Any, Any]] = {} if times is None else {"ts": times}

    @classmethod
    def of(cls, event_type: EventType, table: pa.RecordBatch | pa.Table, source: str | None = None) -> Block:
        """The rows of a table as events, checked. O(values).

        Columns may come in any order; whole numbers and floats may be narrower than the type's, texts encoded in a
        dictionary, ``ts`` a timestamp. ``source``: whose events they are, if there is no such column. Raises EventError that
        names the column, and the row where there is one: for columns that are missing, of no field, or of another type; for
        nulls where none may be; for times out of bounds; for a table that is damaged.
        """
        import numpy as np
        import pyarrow as pa

        name = type_name(event_type)
        batch = one_batch(table, name)
        if _is_as_wanted(event_type, batch):
            made = cls(event_type, batch)
            made._check_times(name)
            return made
        given = dict(zip(batch.schema.names, batch.columns, strict=True))
        has_twins = len(given) < batch.num_columns
        if "source" not in given and source is not None:
            codes = to_column(np.zeros(len(batch), np.int32))
            given["source"] = pa.DictionaryArray.from_arrays(codes, text_column([source]))
        expected = _schema(event_type)
        if "level" in given:
            expected = expected.append(pa.field("level", pa.int64(), nullable=False))
        if has_twins or (stray := given.keys() - set(expected.names)):
            what = "two of one name" if has_twins else ", ".join(sorted(stray))
            raise EventError(f"{name}: columns that no field has: {what}; it has {', '.join(expected.names)}")
        if missing := [each for each in expected.names if each not in given]:
            raise EventError(f"{name}: the table lacks {', '.join(missing)}; it has {', '.join(batch.schema.names)}")
        columns = [_fitted(name, field, given[field.name]) for field in expected]
        schema = pa.schema([field.with_type(column.type) for field, column in zip(expected, columns, strict=True)])
        made = cls(event_type, pa.record_batch(columns, schema=schema))
        made._check_times(name)
        if needs_conversion(event_type):
            made.events()  # what the types of its fields say besides is checked by making the events
        return made

    @classmethod
    def from_events(cls, event_type: EventType, events: Iterable[Event]) -> Block:
        """Events of this very type as columns. Raises EventError for a value that has no place in its column. O(values)."""
        events = list(events)
        made = as_block(event_type, events)
        return made if made is not None else cls(event_type, _batch_of(event_type, events), events)

    @classmethod
    def from_core(cls, event_type: EventType, block: native.CoreBlock, in_time: bool = False) -> Block:
        """The block in the core; Arrow sees it when somebody asks."""
        return cls(event_type, None, in_time=in_time, block=block)

    @property
    def core_block(self) -> native.CoreBlock | None:
        """See above."""
        if self._later is not None:
            self._make(self._later)
        return self._block

    def _make(self, later: Callable[[], pa.RecordBatch | native.CoreBlock]) -> None:
        made = later()
        self._later, self._parts = None, ()
        if isinstance(made, native.CoreBlock):
            self._block = made
        else:
            self._batch = made

    @property
    def pieces(self) -> Sequence[Block]:
        """The columns of each type: these alone (see ``MixedBlock``)."""
        return (self,)

    @property
    def core_blocks(self) -> list[native.CoreBlock]:
        """The events as blocks of the core, one after another; none if the core does not have all of them so. O(blocks)."""
        if self._parts:
            parts = [part.core_blocks for part in self._parts]
            return [block for part in parts for block in part] if all(parts) else []
        return [] if self.core_block is None else [self.core_block]

    def as_core_blocks(self) -> list[native.CoreBlock]:
        """The events as blocks of the core, made if need be; none if the core has no blocks for their type. O(values), once."""
        if not (blocks := self.core_blocks) and (reader := reader_of(self.event_type)) is not None:
            self._block = native.block_of(reader, self.in_core)
            blocks = self.core_blocks
        return blocks

    @property
    def batch(self) -> pa.RecordBatch:
        """See above."""
        if self._batch is None:
            import pyarrow as pa

            block = self.core_block
            if self._batch is None:
                made = Block.from_events(self.event_type, self.events()) if block is None else None
                self._batch = made.batch if made is not None else pa.record_batch(block)
        return self._batch

    @property
    def _is_of_events(self) -> bool:
        """Whether the batch is still to be made of the events: of some types there is none, as Arrow has no such columns."""
        return self._events is not None and self._batch is None and self._block is None and self._later is None

    @property
    def in_core(self) -> native.EventBatch:
        """The batch as the native core reads it, looked up once. O(columns)."""
        if self._in_core is None:
            given = self.core_block or self.batch
            self._in_core = native.EventBatch(given, len(self.event_type.__struct_fields__) - 4)
        return self._in_core

    def array(self, name: str) -> np.ndarray[Any, Any]:
        """A field, or ts, id, source or level, as an array that cannot be written to; for numbers a view where it can be one.

        Fields of int, float and bool are int64, float64 and bool; all others, and those that may be None, are objects. Raises
        EventError if there is no such field, or a value does not fit.
        """
        found = self._arrays.get(name)
        if found is None:
            kind = dtypes(self.event_type).get(name)
            if kind is None:
                raise EventError(f"{type_name(self.event_type)} has no {name!r}; it has {', '.join(dtypes(self.event_type))}")
            found = self._array(name, kind)
            found.flags.writeable = False
            self._arrays[name] = found
        return found

    def _array(self, name: str, kind: str) -> np.ndarray[Any, Any]:
        import numpy as np

        block = self.core_block
        if name == "ts" and block is not None:
            return integers(block.times())
        if self._batch is None and block is None:
            return plain_array_of(self.events(), name, kind)
        if name == "level" and self.levels is None:
            return np.zeros(len(self), np.int64)
        column = self.column(name)
        if kind != "object":
            return to_array(column)
        listed = values(column) if not needs_conversion(self.event_type) else [getattr(each, name) for each in self.events()]
        return _objects(listed)

    @property
    def times(self) -> np.ndarray[Any, Any]:
        """Occurrence times, int64 ns; a view of the column."""
        return self.array("ts")

    @property
    def newest(self) -> int:
        """The latest time; NEVER if there are no events. O(1) for what is a block, or in order of time."""
        if self._block is not None:
            return self._block.newest
        if not self._length:
            return NEVER
        return int(self.times[-1] if self.in_time else self.times.max())

    @property
    def ids(self) -> np.ndarray[Any, Any]:
        """Ids, int64; a view of the column."""
        return self.array("id")

    def column(self, name: str) -> pa.Array:
        """A field, or ts, id or source, as Arrow has it; found by its place, which is faster than by name."""
        return self.batch.column(self.event_type.__struct_fields__.index(name))

    @property
    def levels(self) -> np.ndarray[Any, Any] | None:
        """Levels, int64; None if all are 0."""
        is_given = self.batch.num_columns == len(self.event_type.__struct_fields__)
        return to_array(self.batch.column("level")) if is_given else None

    @property
    def size(self) -> int:
        """How many bytes the columns take. O(columns)."""
        blocks = self.core_blocks
        return sum(block.size for block in blocks) if blocks else self.batch.nbytes

    def sources(self) -> list[str]:
        """The sources of these events, each once. O(events), O(1) if a dictionary has one name."""
        names, codes = source_codes(self.batch)
        return names if len(names) == 1 and len(codes) else [names[code] for code in dict.fromkeys(codes.tolist())]

    def of_types(self, types: Collection[EventType]) -> np.ndarray[Any, Any]:
        """Which of the events are of one of these types."""
        import numpy as np

        return np.full(len(self), self.event_type in types)

    def source(self, place: int) -> str:
        """The source of an event. Raises IndexError if there is no such event."""
        return self.in_core.source(place)

    def last_source(self) -> str:
        """The source of the last event. Raises IndexError if there is none."""
        return self.source(len(self) - 1)

    def events(self) -> list[Event]:
        """Return the events as objects; do not change the list. O(values), once."""
        if self._events is None:
            self._events = next(self.runs(len(self)), [])
        return self._events

    def runs(self, size: int) -> Iterator[list[Event]]:
        """Return the events in runs of so many, each made when it is asked for, and not kept."""
        if self._events is not None:
            yield from (self._events[start : start + size] for start in range(0, len(self), size))
        elif len(self):
            block = self.core_block
            rows = block if block is not None else rows_of(self.event_type, self.batch)
            yield from (rows.events(start, min(start + size, len(self))) for start in range(0, len(self), size))

    def filter(self, mask: Any) -> Block:
        """The events where ``mask`` (booleans, one an event) is true, in order."""
        import numpy as np

        chosen = np.asarray(mask, dtype=np.bool_)
        if len(chosen) != len(self):
            raise ValueError(f"{len(chosen)} truth values for {len(self)} events")
        events = None if self._events is None else list(compress(self._events, chosen.tolist()))
        batch = None if self._is_of_events else self.batch.filter(to_column(chosen))
        return Block(self.event_type, batch, events)

    def slice(self, start: int, stop: int) -> Block:
        """The events from place ``start`` to before ``stop``; shares the columns. O(columns)."""
        start, stop, _ = builtins.slice(start, stop).indices(len(self))
        events = None if self._events is None else self._events[start:stop]
        known = self._arrays.get("ts")
        times = None if known is None else known[start:stop]
        batch = None if self._is_of_events else self.batch.slice(start, max(0, stop - start))
        return Block(self.event_type, batch, events, times, in_time=self.in_time)

    def rest(self, start: int) -> Block:
        """The events from place ``start`` on, copied: what a slice shares lives as long as the slice."""
        found = self.take(range(start, len(self)))
        found.in_time = self.in_time
        return found

    def take(self, indices: Any) -> Block:
        """The events at these places, in this order."""
        import numpy as np

        places = np.asarray(indices, dtype=np.int64)
        events = None if self._events is None else [self._events[at] for at in places.tolist()]
        batch = None if self._is_of_events else self.batch.take(to_column(places))
        return Block(self.event_type, batch, events)

    def joined(self, others: Sequence[Block]) -> Block:
        """These events, then those of others of the same type. O(events); a batch of them all is made when it is asked for."""
        import numpy as np

        assert all(each.event_type is self.event_type for each in others), "columns of several types"
        parts = [each for each in (self, *others) if len(each)]
        if len(parts) < 2:
            return parts[0] if parts else self
        events = None
        if all(each._events is not None for each in parts):
            events = [event for each in parts for event in each.events()]
        times = np.concatenate([each.times for each in parts])
        joined = Block(self.event_type, None, events, times, partial(_concatenated, parts))
        joined._parts = parts
        return joined

    def _check_times(self, name: str) -> None:
        outside = (self.times <= MIN_TS) | (self.times >= MAX_TS)
        if outside.any():
            row = int(outside.argmax())
            raise EventError(f"{name}.ts: {self.times[row]} in row {row} is no time between {MIN_TS} and {MAX_TS} ns")

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events())

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: builtins.slice) -> list[Event]: ...
    def __getitem__(self, index: int | builtins.slice) -> Event | list[Event]:
        if self._events is not None:
            return self._events[index]
        if not isinstance(index, builtins.slice):
            return self.slice(index, index + 1 or len(self)).events()[0]
        return self.slice(*index.indices(len(self))[:2]).events() if index.step is None else self.events()[index]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Block):
            return self is other or self.events() == other.events()
        return self.events() == other if isinstance(other, list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        """As columns of Arrow: what the core has of them stays in this process."""
        return Block, (self.event_type, self.batch, None, None, None, self.in_time)

    def __repr__(self) -> str:
        return f"<Block: {len(self):,} of {type_name(self.event_type)}>"


def one_batch(table: pa.RecordBatch | pa.Table, name: str) -> pa.RecordBatch:
    """The table as one record batch that is sound. Raises EventError if it is damaged: offsets, lengths, texts."""
    import pyarrow as pa

    try:
        at = table.schema.get_field_index("ts")
        if at >= 0 and isinstance(kind := table.schema.field(at).type, pa.BaseExtensionType):
            raise EventError(f"{name}.ts is of {kind} in the table, but must be of int64, or timestamps")
        table.validate(full=True)
        if isinstance(table, pa.RecordBatch):
            return table
        batches = table.combine_chunks().to_batches()
    except pa.ArrowException as error:
        raise EventError(f"{name}: the table is damaged: {error}") from None
    if len(batches) > 1:
        raise EventError(f"{name}: {table.num_rows:,} rows are too many for one batch: give slices of the table")
    return batches[0] if batches else pa.record_batch([pa.nulls(0, pa.null()) for _ in table.schema], table.schema.names)


def _fitted(name: str, field: pa.Field, column: pa.Array) -> pa.Array:
    """A column as the schema has it. Raises EventError."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type) and (field.name != "source" or column.dictionary.null_count):
        column = spelled(column)
    if column.null_count and not field.nullable:
        row = column.is_null().index(True).as_py()
        raise EventError(f"{name}.{field.name} is null in row {row}, and may not be")
    if column.type == field.type:
        return column
    if not len(column):  # a file of just a header, or a frame without rows, has no types
        return pa.array([], field.type)
    if pa.types.is_dictionary(column.type) and _same_kind(column.type.value_type, field):
        return column.cast(pa.dictionary(pa.int32(), pa.string()))
    if not _same_kind(column.type, field):
        raise EventError(f"{name}.{field.name} is of {column.type} in the table, but must be of {field.type}")
    try:
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ns", column.type.tz))
        return column.cast(field.type)
    except pa.ArrowException as error:
        raise EventError(f"{name}.{field.name}: {error}") from None


def _same_kind(given: pa.DataType, field: pa.Field) -> bool:
    """Whether values of one type can be those of the field, without loss where they can be at all."""
    import pyarrow as pa

    is_a, expected = pa.types, field.type
    if is_a.is_null(given):
        return bool(field.nullable)
    if is_a.is_int64(expected) and field.name == "ts" and is_a.is_timestamp(given):
        return True
    if is_a.is_list(expected) and (is_a.is_list(given) or is_a.is_large_list(given)):
        return given.value_type == expected.value_type or _same_kind(given.value_type, expected.value_field)
    narrower: list[tuple[Test, tuple[Test, ...]]] = [
        (is_a.is_int64, (is_a.is_integer,)),
        (is_a.is_float64, (is_a.is_floating, is_a.is_integer)),
        (is_a.is_string, (is_a.is_string, is_a.is_large_string, is_a.is_string_view)),
        (is_a.is_binary, (is_a.is_large_binary, is_a.is_binary_view)),
    ]
    return any(is_kind(expected) and any(test(given) for test in tests) for is_kind, tests in narrower)


def _concatenated(parts: list[Block]) -> pa.RecordBatch | native.CoreBlock:
    import pyarrow as pa

    blocks = [part.core_blocks for part in parts]
    if all(blocks) and (whole := native.joined(list(chain.from_iterable(blocks)))) is not None:
        return whole
    return pa.concat_batches(_alike([part.batch for part in parts]))


def _alike(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Batches of one schema: those of one type may differ in how sources are encoded, and in whether all levels are 0."""
    import pyarrow as pa

    if all(batch.schema == batches[0].schema for batch in batches[1:]):
        return batches
    names = max((batch.schema.names for batch in batches), key=len)
    alike = []
    for batch in batches:
        columns = spelled_out(batch)
        alike.append(pa.record_batch([columns[name] for name in names], names=names))
    return alike


def spelled_out(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    """The columns of a batch of events by name: sources as texts, and levels even if all are 0. O(rows)."""
    import numpy as np
    import pyarrow as pa

    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns["source"] = columns["source"].cast(pa.string())
    if "level" not in columns:
        columns["level"] = to_column(np.zeros(len(batch), np.int64))
    return columns


def as_block(event_type: EventType, events: list[Event]) -> Block | None:
    """Events as columns that are a block of the core. None if the core has none for their type, or a value is not just as its
    field says."""
    reader = reader_of(event_type)
    block = native.in_columns(reader, events) if reader is not None else None
    return Block(event_type, None, events, block=block) if block is not None else None


def _batch_of(event_type: EventType, events: list[Event]) -> pa.RecordBatch:
    import pyarrow as pa

    schema = _schema(event_type)
    if any(event.level for event in events):
        schema = schema.append(pa.field("level", pa.int64(), nullable=False))
    columns = []
    for field in schema:
        try:
            columns.append(pa.array([getattr(event, field.name) for event in events], field.type))
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise EventError(f"{type_name(event_type)}.{field.name}: a value has no place in a column: {error}") from None
    return pa.record_batch(columns, schema=schema)


_DTYPES = {int: "int64", float: "float64", bool: "bool"}


@cache
def dtypes(event_type: EventType) -> dict[str, str]:
    """The kind of array that ``Block.array`` gives, by name of the column."""
    types = {field.name: field.type for field in msgspec.structs.fields(event_type)}
    return {name: "object" if is_optional(kind) else _DTYPES.get(plain_type(kind), "object") for name, kind in types.items()}


def plain_array_of(events: list[Event], name: str, kind: str) -> np.ndarray[Any, Any]:
    """A field of events of one type as an array of this kind. Raises EventError for a value that is none. O(events)."""
    import numpy as np

    listed = [getattr(event, name) for event in events]
    if kind == "object":
        return _objects(listed)
    made = np.array(listed)
    if not np.can_cast(made.dtype, kind):
        raise EventError(f"{type_name(events[0].__class__)}.{name}: a value has no place in a column of {kind}")
    return made.astype(kind)


def _objects(listed: list[Any]) -> np.ndarray[Any, Any]:
    import numpy as np

    found = np.empty(len(listed), object)
    found[:] = listed
    return found


@cache
def _schema(event_type: EventType) -> pa.Schema:
    """``arrow_schema``, where what every event has is never null."""
    import pyarrow as pa

    fields = list(arrow_schema(event_type))
    return pa.schema([*fields[:-3], *(field.with_nullable(False) for field in fields[-3:])])


@cache
def _with_dictionary(event_type: EventType) -> pa.Schema:
    """The schema of a type with sources encoded in a dictionary, as blocks have them."""
    import pyarrow as pa

    schema = _schema(event_type)
    at = schema.get_field_index("source")
    return schema.set(at, schema.field(at).with_type(pa.dictionary(pa.int32(), pa.string())))


@cache
def has_columns(event_type: EventType) -> bool:
    """Whether there are columns for all fields of the type."""
    try:
        return bool(arrow_schema(event_type))
    except EventError:
        return False


def has_own_form(event_type: EventType, schema: pa.Schema) -> bool:
    """Whether these are just the columns of the type, sources encoded in a dictionary, and then, it may be, levels."""
    expected = _with_dictionary(event_type)
    own = list(zip(expected.names, expected.types, strict=True))
    return list(zip(schema.names, schema.types, strict=True)) in (own, [*own, ("level", expected.field("ts").type)])


def _is_as_wanted(event_type: EventType, batch: pa.RecordBatch) -> bool:
    """Whether a batch is one of events without any change: asked first, as nearly all small batches from other nodes are."""
    if not batch.schema.equals(_with_dictionary(event_type)) or needs_conversion(event_type):
        return False
    fields = zip(batch.schema, batch.columns, strict=True)
    return not any(column.null_count and not field.nullable for field, column in fields) and not (
        batch.column("source").dictionary.null_count
    )
