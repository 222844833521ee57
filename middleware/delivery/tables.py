"""The changes that a subscription reads, as Arrow tables: always the same columns for one type, however the events came."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING

from middleware import native
from middleware.model.block.block import Block, has_columns, spelled_out
from middleware.model.change import Delta
from middleware.model.errors import EventError
from middleware.model.event import Event, EventType
from middleware.model.schema import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa


def finals_table(columns: Block) -> pa.Table:
    """Events as a table: the fields of their type, ts (ns), id, source, level. O(rows) for the texts of sources."""
    import pyarrow as pa

    block, schema = columns.core_block, _schema(columns.event_type)
    if block is not None:  # what Arrow would do loads a module at the first call: 60 ms
        stamps = pa.record_batch(native.spelled_out(block)).columns
        return pa.Table.from_arrays([*columns.batch.columns[: len(schema) - len(stamps)], *stamps], schema=schema)
    given = spelled_out(columns.batch)
    return pa.Table.from_arrays([given[name] for name in schema.names], schema=schema)


@cache
def _schema(event_type: EventType) -> pa.Schema:
    import pyarrow as pa

    return arrow_schema(event_type).append(pa.field("level", pa.int64()))


def has_form(event_type: EventType, count: int, drops: Counter[str]) -> bool:
    """Whether a type has columns; if not, ``count`` events of it are counted as skipped."""
    if has_columns(event_type):
        return True
    drops["a type has no columns"] += count
    return False


def fitting(event_type: EventType, events: list[Event], drops: Counter[str]) -> Block:
    """Events as columns, without those with a value that no column holds (a number of more than 64 bits), which are counted.
    Raises EventError for a type that has no columns. O(values)."""
    try:
        return Block.from_events(event_type, events)
    except EventError:
        kept = [event for event in events if _fits(event_type, event)]
    drops["a value has no place in a column"] += len(events) - len(kept)
    return Block.from_events(event_type, kept)


def _fits(event_type: EventType, event: Event) -> bool:
    try:
        Block.from_events(event_type, [event])
    except EventError:
        return False
    return True


def changes_table(event_type: EventType, delta: Delta, drops: Counter[str]) -> pa.Table:
    """Changes of one type as such a table, with a column ``op`` in front: retract, revise (the event as it is now), insert.
    ``drops``: see ``fitting``."""
    import pyarrow as pa

    new = delta.columns if delta.columns is not None else fitting(event_type, delta.inserts, drops)
    gone = fitting(event_type, delta.retracts, drops)
    now = fitting(event_type, [after for _, after in delta.revises], drops)
    places = [0] * len(gone) + [1] * len(now) + [2] * len(new)
    ops = pa.DictionaryArray.from_arrays(pa.array(places, pa.int8()), ["retract", "revise", "insert"])
    return finals_table(gone.joined([now, new])).add_column(0, "op", ops.cast(pa.string()))


def empty_table(event_type: EventType, with_op: bool) -> pa.Table:
    """Such a table without rows."""
    return changes_table(event_type, Delta(), Counter()) if with_op else finals_table(Block.from_events(event_type, []))
