"""Changes of one event type as rows: the columns of the event and, if they are early changes, what happened to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from middleware.model.change import Change, Delta, Insert, Retract, Revise, Watermark
from middleware.model.event import Event, EventType
from middleware.runtime.clients.subscriber import Consistency
from middleware.spark.schemas import schema_of

if TYPE_CHECKING:
    import pyarrow as pa

OP = "op"
"""The column of early changes before those of the event: insert, revise (the event as it is now) or retract."""

_OPS: dict[type[Change], str] = {Insert: "insert", Revise: "revise", Retract: "retract"}


def columns(event_type: EventType, consistency: Consistency) -> dict[str, str]:
    """The columns of what is read, with their types in Spark's DDL."""
    own = {column.name: column.kind.ddl for column in schema_of(event_type).columns}
    return own if consistency == "final" else {OP: "string", **own}


def batch_of(event_type: EventType, consistency: Consistency, changes: Sequence[Change]) -> pa.RecordBatch:
    """Changes as a record batch, in order, without watermarks. O(n)."""
    events: list[Event] = []
    ops: list[str] = []
    for change in changes:
        if not isinstance(change, Watermark):
            events.append(change.event)
            ops.append(_OPS[type(change)])
    return _batch(event_type, events, None if consistency == "final" else ops)


def batch_of_deltas(event_type: EventType, deltas: Sequence[Delta]) -> pa.RecordBatch:
    """The same of early changes as they stand in blocks. O(n)."""
    events: list[Event] = []
    ops: list[str] = []
    for delta in deltas:  # in the order of ``Delta.changes``
        events += [*delta.retracts, *(new for _, new in delta.revises), *delta.inserts]
        ops += ["retract"] * len(delta.retracts) + ["revise"] * len(delta.revises) + ["insert"] * len(delta.inserts)
    return _batch(event_type, events, ops)


def _batch(event_type: EventType, events: list[Event], ops: list[str] | None) -> pa.RecordBatch:
    import pyarrow as pa

    batch = schema_of(event_type).batch(events)
    if ops is None:
        return batch
    return pa.RecordBatch.from_arrays([pa.array(ops, pa.string()), *batch.columns], [OP, *batch.schema.names])
