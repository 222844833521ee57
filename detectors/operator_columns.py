"""Operators on columns: what they read of columns that come, and results as columns that go out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from middleware import native
from middleware.model.block.arrays import to_column
from middleware.model.block.rows import reader_of
from middleware.model.event import Event, EventType
from middleware.model.schema import arrow_schema, fields_of, without_none

if TYPE_CHECKING:
    import pyarrow as pa

    from middleware.model.block.block import Block
    from middleware.native._core import Stamping

Given = tuple[Any, Any]
"""A column: an array of values (or a list of them, or the array's bytes), and a byte for each that says whether it is there;
None if all are."""

Later = Callable[[], "pa.Array"]
"""A column that is made when it is asked for."""

KINDS: dict[type | None, str] = {float: "f", int: "i", bool: "b", str: "s"}
"""The kinds of columns, as numpy and the native core call them ("s", texts, is the core's alone)."""

_PLAIN = (int, float, str, bool)


@cache
def plain_kinds(event_type: EventType) -> dict[str, type | None]:
    """The plain types of a class's fields, by name: None for one whose column does not say all that its type says, as none does
    where making an event runs code of its class."""
    is_made = hasattr(event_type, "__post_init__")
    return {name: None if is_made else _plain(hint) for name, hint in fields_of(event_type).items()}


def _plain(hint: Any) -> type | None:
    kind = without_none(hint)
    return kind if kind in _PLAIN else None


def keys(columns: Block, fields: Sequence[str]) -> Any:
    """Keys for the native core: (), an array of integers, codes and the list of what they stand for, or a list of tuples."""
    import pyarrow as pa

    from middleware.model.block.rows import values

    if not fields:
        return ()
    if len(fields) > 1:
        return list(zip(*(values(columns.column(field)) for field in fields), strict=True))
    column = columns.column(fields[0])
    if isinstance(column, pa.Int64Array) and not column.null_count:
        return column.to_numpy()
    encoded = column.dictionary_encode("encode")
    return encoded.indices.to_numpy().astype("int64"), encoded.dictionary.to_pylist()


def stamping(event_type: EventType, source: str, level: int) -> Stamping | None:
    """The core's maker of blocks of an operation's results; None if their type has none."""
    reader = reader_of(event_type)
    return None if reader is None else (reader, source, level)


class ResultColumns:
    """Makes columns of results of one operation, which are stamped with its name and level."""

    def __init__(self, event_type: EventType, source: str, level: int) -> None:
        import pyarrow as pa

        from middleware.model.block.block import Block

        self._pa, self._columns, self._event_type = pa, Block, event_type
        self._source, self._level, self._reader = source, level, reader_of(event_type)
        fields = list(arrow_schema(event_type))
        stamp = [pa.field("ts", pa.int64(), False), pa.field("id", pa.int64(), False)]
        stamp += [pa.field("source", pa.dictionary(pa.int32(), pa.string()), False), pa.field("level", pa.int64(), False)]
        self._kinds, self._int64 = [field.type for field in fields[:-3]], pa.int64()
        self._schema = pa.schema([*fields[:-3], *stamp])

    def made(self, columns: Sequence[Given | Later], times: Any, ids: Any, in_time: bool = False) -> Block:
        """Results from their fields' columns, in order, times and ids; a block is made of them when it is asked for.

        ``in_time``: whether they are in order of time.
        """
        if isinstance(times, list):
            import numpy as np

            times = np.array(times, np.int64)
        return self._columns(self._event_type, None, None, times, partial(self._block, columns, times, ids), in_time)

    def _block(self, columns: Sequence[Given | Later], times: Any, ids: Any) -> pa.RecordBatch | native.CoreBlock:
        """By the core, where it has all columns as they are. O(values)."""
        given = [each for each in columns if not callable(each)]
        if self._reader is not None and len(given) == len(columns):
            block = native.result_block(self._reader, given, times, ids, self._source, self._level)
            if block is not None:
                return block
        return self._batch(columns, times, ids)

    def _batch(self, columns: Sequence[Given | Later], times: Any, ids: Any) -> pa.RecordBatch:
        import numpy as np

        pa, count = self._pa, len(times)
        given = zip(self._kinds, columns, strict=True)
        arrays = [each() if callable(each) else _array(kind, each, count) for kind, each in given]
        stamps = [_array(self._int64, (each, None), count) for each in (times, ids)]
        sources = pa.DictionaryArray.from_arrays(to_column(np.zeros(count, np.int32)), pa.array([self._source], pa.string()))
        levels = to_column(np.full(count, self._level, np.int64))
        return pa.RecordBatch.from_arrays([*arrays, *stamps, sources, levels], schema=self._schema)


def _array(kind: pa.DataType, given: Given, count: int) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    values, there = given
    if values is None:
        return pa.nulls(count, kind)
    if isinstance(values, list):
        return pa.array(values, kind)
    if isinstance(values, bytes):
        values = np.frombuffer(values, kind.to_pandas_dtype())
    if there is not None:
        return pa.array(values, mask=~np.frombuffer(there, np.bool_)).cast(kind)
    if values.dtype == np.bool_:
        return pa.array(values)
    if values.dtype.kind == "i" and pa.types.is_floating(kind):
        values = values.astype(np.float64)
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(np.ascontiguousarray(values))])  # faster than pa.array


@cache
def has_plain_columns(event_type: EventType) -> bool:
    """Whether columns say all that the type says of its fields."""
    return all(kind is not None for kind in plain_kinds(event_type).values())


def joined(columns: Block | None, events: list[Event]) -> list[Event]:
    """Results as events, where some have no place in columns."""
    return events if columns is None else [*columns.events(), *events]
