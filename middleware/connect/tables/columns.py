"""Columns of Arrow as Python values, and rows as events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from middleware.model.errors import TraceError
from middleware.model.event import Event, EventType, type_name

if TYPE_CHECKING:
    import pyarrow as pa


def values(column: pa.Array) -> list[object]:
    """A column as Python values, at C speed."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        return list(map(column.dictionary.to_pylist().__getitem__, column.indices.to_numpy().tolist()))
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        column = column.to_numpy(zero_copy_only=False)
        return list(column.tolist())
    return list(column.to_pylist())


def events_of(table: pa.Table, event_type: EventType) -> list[Event]:
    """The rows of a table as events of a type: its columns are the type's fields, in any order, and ts, id and source.

    Raises TraceError if a value does not fit the class. O(rows).
    """
    names = [*event_type.__struct_fields__[: -len(Event.__struct_fields__)], "ts", "id", "source"]
    columns = [values(table[name].combine_chunks()) for name in names]
    try:
        found: list[Event] = msgspec.convert(list(zip(*columns, strict=True)), list[event_type])  # type: ignore[valid-type]
    except msgspec.ValidationError as error:
        raise TraceError(f"an event of {type_name(event_type)} does not fit its class: {error}") from None
    return found
