"""Rows of Arrow as events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from middleware.model.columns import values
from middleware.model.errors import TraceError
from middleware.model.event import Event, EventType, type_name

if TYPE_CHECKING:
    import pyarrow as pa


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
