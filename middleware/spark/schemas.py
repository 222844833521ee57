"""Event types as schemas of Spark and Arrow, and events to and from columns.

An event is a row: its own fields, then ``ts`` (bigint, ns), ``id`` (bigint), ``source`` (string) and ``level`` (bigint). Values
for which Spark has no type are texts: ISO 8601 for times of day and for date-times that do not say whether they have a zone;
JSON for fields of any type, or of several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import inspect
from msgspec.structs import astuple

from middleware.model.block.block import Block, spelled_out
from middleware.model.block.rows import needs_conversion, values
from middleware.model.errors import EventError
from middleware.model.event import Event, EventType, check_event_type, type_name
from middleware.model.schema import arrow_schema
from middleware.model.values.carried import all_carried

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

STAMP = ("ts", "id", "source", "level")
"""The columns that every event has, after its own."""

Convert = Callable[[Any], Any]


class Kind(NamedTuple):
    """A type of values: in Spark's DDL, in Arrow, and how they are turned into Arrow's values and back (None: as they are)."""

    ddl: str
    arrow: pa.DataType
    out: Convert | None = None
    back: Convert | None = None


class EventColumn(NamedTuple):
    """A field of an event as a column; ``nullable``: whether it may be None."""

    name: str
    kind: Kind
    nullable: bool = False


class EventSchema:
    """The columns of one event type. Raises EventError if a field has no form on the wire, and so none here."""

    def __init__(self, event_type: EventType) -> None:
        import pyarrow as pa

        check_event_type(event_type)
        self.type = event_type
        self.name = type_name(event_type)
        try:
            fields = inspect.type_info(event_type).fields  # type: ignore[attr-defined]
        except TypeError as error:
            raise EventError(f"{self.name} has no schema: {error}") from None
        own = [self._column(field) for field in fields[: -len(STAMP)]]
        whole = Kind("bigint", pa.int64())
        stamp = [EventColumn(name, Kind("string", pa.string()) if name == "source" else whole) for name in STAMP]
        self.columns: list[EventColumn] = [*own, *stamp]
        self._list = list[event_type]  # type: ignore[valid-type]
        self.has_columns = self._is_arrow_schema()
        """Whether the columns hold the fields' values as they are, as those of ``Block`` do."""

    def _column(self, field: inspect.Field) -> EventColumn:
        try:
            kind, nullable = _kind(field.type)
        except _NoKindError as error:
            raise EventError(f"{self.name}.{field.name} has no schema: {error}") from None
        return EventColumn(field.name, kind, nullable)

    def _is_arrow_schema(self) -> bool:
        try:
            schema = arrow_schema(self.type)
        except EventError:
            return False
        own = self.columns[: -len(STAMP)]
        return all(column.kind.back is None and column.kind.arrow == schema.field(column.name).type for column in own)

    @property
    def ddl(self) -> str:
        """The schema as Spark takes it: ``readStream.schema(...)``, ``mapInArrow(..., schema)``."""
        return ddl(self.columns)

    @property
    def arrow(self) -> pa.Schema:
        """The schema as Arrow has it."""
        import pyarrow as pa

        return pa.schema([(column.name, column.kind.arrow) for column in self.columns])

    def batch(self, events: Sequence[Event]) -> pa.RecordBatch:
        """Events of this type as a record batch, in order. Raises EventError for a value that no column can hold. O(n).

        No event is made of a ``Block`` whose columns hold all fields.
        """
        import pyarrow as pa

        if isinstance(events, Block) and self.has_columns and not needs_conversion(self.type):
            given = spelled_out(events.batch)
            return pa.RecordBatch.from_arrays([given[name] for name in self.arrow.names], schema=self.arrow)
        rows = zip(*map(astuple, events), strict=True) if events else [()] * len(self.columns)
        arrays = [self._array(column, values) for column, values in zip(self.columns, rows, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow)

    def _array(self, column: EventColumn, values: Iterable[Any]) -> pa.Array:
        import pyarrow as pa

        try:
            out = column.kind.out
            return pa.array([None if v is None else out(v) for v in values] if out else values, column.kind.arrow)
        except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
            raise EventError(
                f"a value of {self.name}.{column.name} has no place in a column of {column.kind.ddl}: {error}"
            ) from None

    def events(self, columns: Mapping[str, pa.Array]) -> list[Event]:
        """Events from columns by name; without ``level``, they are raw. Raises EventError for nulls and misfits. O(n)."""
        import pyarrow as pa

        if self.has_columns:
            given = [column.name for column in self.columns if column.name in columns]
            for column in self.columns:
                _check_nulls(self.name, column, columns.get(column.name))
            return Block(self.type, pa.record_batch([columns[name] for name in given], names=given)).events()
        length = len(columns["ts"])
        lists = [_values(self.name, column, columns[column.name]) for column in self.columns if column.name in columns]
        if "level" not in columns:
            lists.append([0] * length)
        try:
            found = msgspec.convert(list(zip(*lists, strict=True)), self._list)
        except msgspec.ValidationError as error:
            raise EventError(f"a row does not fit {self.name}: {error}") from None
        return all_carried(self.type, found)

    def check(self, frame: DataFrame, where: str, also: Sequence[SparkColumn] = ()) -> DataFrame:
        """The frame with just the columns of this type, in its order; ``level`` only if it has one. ``also``: others to keep.

        Whole numbers and floats may be narrower than the type's. Raises EventError that names what is missing or mistyped.
        """
        from pyspark.sql import functions as sql

        found = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
        columns = [column for column in self.columns if column.name != "level" or "level" in found]
        if missing := [column.name for column in columns if column.name not in found]:
            raise EventError(
                f"{where} lacks {', '.join(missing)} for {self.name}: it has {', '.join(found) or 'no columns'}; "
                f"it must have {self.ddl}"
            )
        self.check_kinds(found, where)
        own = [sql.col(f"`{column.name}`").cast(_simple(column.kind.ddl)).alias(column.name) for column in columns]
        return frame.select(*own, *also)

    def check_kinds(self, found: Mapping[str, str], where: str) -> None:
        """Raise EventError if a column, by name its type as Spark prints it, is neither of this type's nor narrower."""
        for column in self.columns:
            check_kind(found.get(column.name), column.name, column.kind.ddl, where, f"{self.name}.{column.name} is")


def check_kind(given: str | None, name: str, ddl: str, where: str, what: str) -> None:
    """Raise EventError if a column of the type ``given``, as Spark prints it, is neither of the type ``ddl`` nor narrower."""
    needed = _simple(ddl)
    if given is not None and _simple(given) != needed and given not in ("void", *_NARROWER.get(needed, ())):  # void: only nulls
        hint = f"; write unix_micros({name}) * 1000" if needed == "bigint" and given.startswith("timestamp") else ""
        raise EventError(f"{where}: {name} is {given}, but {what} {needed}{hint}")


@cache
def schema_of(event_type: EventType) -> EventSchema:
    """The schema of an event type. Raises EventError."""
    return EventSchema(event_type)


def ddl(columns: Iterable[EventColumn]) -> str:
    """Columns as Spark's DDL."""
    return ", ".join(f"`{column.name}` {column.kind.ddl}" for column in columns)


_NARROWER = {"bigint": ("int", "smallint", "tinyint"), "double": ("float",)}


def _simple(ddl: str) -> str:
    """A type as Spark prints it."""
    return ddl.replace("`", "").replace(": ", ":")


def _values(name: str, column: EventColumn, array: pa.Array) -> list[Any]:
    """A column as Python values, as ``msgspec.convert`` takes them."""
    import pyarrow as pa

    _check_nulls(name, column, array)
    if array.type != column.kind.arrow and "timestamp" in str(array.type):
        with suppress(pa.ArrowNotImplementedError):
            array = array.cast(column.kind.arrow)  # Spark gives times in the session's zone
    back, found = column.kind.back, values(array)
    return [None if value is None else back(value) for value in found] if back else found


def _check_nulls(name: str, column: EventColumn, array: pa.Array | None) -> None:
    if array is not None and array.null_count and not column.nullable:
        raise EventError(f"{name} has a row without {column.name}: every event must have one")


class _NoKindError(Exception):
    """A type that has no schema."""


def _scalar_kinds() -> dict[type, Kind]:
    import pyarrow as pa

    text = pa.string()
    return {
        inspect.IntType: Kind("bigint", pa.int64()),
        inspect.FloatType: Kind("double", pa.float64()),
        inspect.StrType: Kind("string", text),
        inspect.BoolType: Kind("boolean", pa.bool_()),
        inspect.BytesType: Kind("binary", pa.binary()),
        inspect.DateType: Kind("date", pa.date32()),
        inspect.TimeType: Kind("string", text, lambda value: value.isoformat()),
        inspect.TimeDeltaType: Kind("interval day to second", pa.duration("us")),
        inspect.UUIDType: Kind("string", text, str),
        inspect.DecimalType: Kind("string", text, str),
    }


def _kind(kind: inspect.Type, above: tuple[object, ...] = ()) -> tuple[Kind, bool]:
    """The kind of a field's type, and whether it may be None. ``above``: the types that this one is a part of."""
    import pyarrow as pa

    if isinstance(kind, inspect.Metadata):
        return _kind(kind.type, above)
    if isinstance(kind, inspect.UnionType):
        rest = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
        nullable = len(rest) < len(kind.types)
        return (_kind(rest[0], above)[0] if len(rest) == 1 else _json(kind)), nullable
    if isinstance(kind, inspect.AnyType | inspect.NoneType):
        return _json(kind), True
    if isinstance(
        kind, inspect.CustomType | inspect.RawType | inspect.ExtType | inspect.ByteArrayType | inspect.MemoryViewType
    ):
        raise _NoKindError(f"{getattr(kind, 'cls', type(kind))} is no type that events on the wire can have")
    if isinstance(kind, inspect.DateTimeType):
        if kind.tz is None:
            return Kind("string", pa.string(), lambda value: value.isoformat()), False
        return Kind("timestamp", pa.timestamp("us", "UTC")) if kind.tz else Kind("timestamp_ntz", pa.timestamp("us")), False
    if isinstance(kind, inspect.EnumType | inspect.LiteralType):
        return _of_enum(kind), False
    scalar = _scalar_kinds().get(type(kind))
    return scalar or _nested(kind, above), False


def _of_enum(kind: inspect.EnumType | inspect.LiteralType) -> Kind:
    import pyarrow as pa

    is_enum = isinstance(kind, inspect.EnumType)
    values = [each.value for each in kind.cls] if isinstance(kind, inspect.EnumType) else list(kind.values)
    out = attrgetter("value") if is_enum else None
    if all(type(value) is int for value in values):
        return Kind("bigint", pa.int64(), out)
    if all(type(value) is str for value in values):
        return Kind("string", pa.string(), out)
    raise _NoKindError(f"{kind} has values that are neither all texts nor all whole numbers")


def _nested(kind: inspect.Type, above: tuple[object, ...]) -> Kind:
    """Lists, maps, and structs of named fields."""
    import pyarrow as pa

    if isinstance(
        kind, inspect.ListType | inspect.VarTupleType | inspect.SetType | inspect.FrozenSetType | inspect.CollectionType
    ):
        item, _ = _kind(kind.item_type, above)
        return Kind(f"array<{item.ddl}>", pa.list_(item.arrow), _each(item.out), _each(item.back) if item.back else None)
    if isinstance(kind, inspect.DictType):
        key, value = _kind(kind.key_type, above)[0], _kind(kind.value_type, above)[0]
        return Kind(
            f"map<{key.ddl},{value.ddl}>",
            pa.map_(key.arrow, value.arrow),
            _pairs(key.out, value.out),
            _dict(key.back, value.back),
        )
    if isinstance(kind, inspect.TupleType):
        parts = [(f"_{at}", _kind(each, above)[0]) for at, each in enumerate(kind.item_types, 1)]
        return _struct(parts, lambda value: value, lambda values: values)
    declared = getattr(kind, "cls", None)
    if declared in above or getattr(kind, "tag", None) is not None:  # it has itself as a part, or says what it is
        return _json(declared)
    if isinstance(kind, inspect.NamedTupleType | inspect.StructType | inspect.DataclassType):
        fields = [(field.name, _kind(field.type, (*above, declared))[0]) for field in kind.fields]
        names = [field.name for field in kind.fields]
        by_name = isinstance(kind, inspect.DataclassType) or (isinstance(kind, inspect.StructType) and not kind.array_like)
        encoded = [field.encode_name for field in kind.fields]

        def parts_of(value: Any) -> tuple[Any, ...]:
            return tuple([getattr(value, name) for name in names])

        return _struct(fields, parts_of, (lambda values: dict(zip(encoded, values, strict=True))) if by_name else list)
    return _json(declared if declared is not None else kind)


def _struct(parts: list[tuple[str, Kind]], parts_of: Convert, whole: Convert) -> Kind:
    import pyarrow as pa

    names = [name for name, _ in parts]
    outs, backs = [kind.out for _, kind in parts], [kind.back for _, kind in parts]
    ddl = ",".join(f"`{name}`: {kind.ddl}" for name, kind in parts)

    def out(value: Any) -> dict[str, Any]:
        return dict(zip(names, map(_given, outs, parts_of(value)), strict=True))

    def back(value: dict[str, Any]) -> Any:
        return whole(list(map(_given, backs, value.values())))

    return Kind(f"struct<{ddl}>", pa.struct([(name, kind.arrow) for name, kind in parts]), out, back)


def _given(convert: Convert | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)


def _each(convert: Convert | None) -> Convert:
    return lambda values: [_given(convert, value) for value in values]


def _pairs(key: Convert | None, value: Convert | None) -> Convert:
    return lambda items: [(_given(key, name), _given(value, item)) for name, item in items.items()]


def _dict(key: Convert | None, value: Convert | None) -> Convert:
    return lambda pairs: {_given(key, name): _given(value, item) for name, item in pairs}


def _json(kind: object) -> Kind:
    """Values of any type, as JSON. Raises EventError for one that would not come back as it is."""
    import pyarrow as pa

    def out(value: Any) -> str:
        text = msgspec.json.encode(value)
        whole = value if isinstance(kind, inspect.AnyType) else msgspec.to_builtins(value, builtin_types=(bytes,))
        if not isinstance(kind, type) and msgspec.json.decode(text) != whole:
            raise ValueError(f"{value!r} has no form in JSON")
        return text.decode()

    return Kind("string", pa.string(), out, msgspec.json.decode)
