"""Changes of one event type as rows: the columns of the event and, if they are early changes, what happened to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from middleware.model.change import Change, Insert, Retract, Revise
from middleware.model.event import Event, EventType
from middleware.runtime.clients.subscriber import Consistency
from middleware.spark.schemas import schema_of

if TYPE_CHECKING:
    import pyarrow as pa

OP = "op"
"""The column of early changes before those of the event: insert, revise (the event as it is now) or retract."""


def columns(event_type: EventType, consistency: Consistency) -> dict[str, str]:
    """The columns of what is read, with their types in Spark's DDL."""
    own = {column.name: column.kind.ddl for column in schema_of(event_type).columns}
    return own if consistency == "final" else {OP: "string", **own}


def batch_of(event_type: EventType, consistency: Consistency, changes: Sequence[Change]) -> pa.RecordBatch:
    """Changes (not watermarks) as a record batch, in order. O(n)."""
    import pyarrow as pa

    events: list[Event] = []
    ops: list[str] = []
    for change in changes:
        if isinstance(change, Revise):
            ops.append("revise")
            events.append(change.new)
        elif isinstance(change, Insert | Retract):
            ops.append("insert" if isinstance(change, Insert) else "retract")
            events.append(change.event)
    batch = schema_of(event_type).batch(events)
    if consistency == "final":
        return batch
    return pa.RecordBatch.from_arrays([pa.array(ops, pa.string()), *batch.columns], [OP, *batch.schema.names])
