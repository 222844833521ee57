"""Tables of Arrow as events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from middleware.model.block.block import Block
from middleware.model.errors import EventError, TraceError
from middleware.model.event import EventType, field_names, type_name

if TYPE_CHECKING:
    import pyarrow as pa


def columns_of(table: pa.Table, event_type: EventType) -> Block:
    """The rows of a table as columns of a type: it has the type's fields, in any order, and ts, id and source, among others.

    Raises TraceError if a value does not fit the class. O(values).
    """
    names = [*field_names(event_type), "ts", "id", "source"]
    try:
        return Block.of(event_type, table.select(names))
    except EventError as error:
        raise TraceError(f"an event of {type_name(event_type)} does not fit its class: {error}") from None
