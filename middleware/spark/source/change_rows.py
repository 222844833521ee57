"""Changes of one event type as rows: the columns of the event and, if they are early changes, what happened to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from typing import TYPE_CHECKING

from middleware.model.block.block import Block
from middleware.model.change import Delta
from middleware.model.errors import EventError
from middleware.model.event import Event, EventType, type_name
from middleware.runtime.clients.subscriber import Consistency
from middleware.spark.schemas import schema_of

if TYPE_CHECKING:
    import pyarrow as pa

OP = "op"
"""The column of early changes before those of the event: insert, revise (the event as it is now) or retract."""


def columns(event_type: EventType, consistency: Consistency) -> dict[str, str]:
    """The columns of what is read, with their types in Spark's DDL. Raises EventError for a field of the name ``OP``."""
    own = {column.name: column.kind.ddl for column in schema_of(event_type).columns}
    if consistency != "final" and OP in own:
        raise EventError(f"{type_name(event_type)}.{OP}: early changes have a column of this name; read finals, or rename it")
    return own if consistency == "final" else {OP: "string", **own}


def batch_of(event_type: EventType, consistency: Consistency, deltas: Sequence[Delta]) -> pa.RecordBatch:
    """Changes as a record batch, those of a delta in the order of ``Delta.changes``. O(n); no event is made of columns."""
    import pyarrow as pa

    schema = schema_of(event_type)
    parts = [part for delta in deltas for part in _parts(delta) if part[1]]
    batches: list[pa.RecordBatch] = []
    for are_columns, same in groupby((events for _, events in parts), lambda part: isinstance(part, Block)):
        each = list(same)
        batches += map(schema.batch, each) if are_columns else [schema.batch(list(chain.from_iterable(each)))]
    batch = pa.concat_batches(batches) if batches else schema.batch([])
    if consistency == "final":
        return batch
    ops = pa.chunked_array([pa.repeat(op, len(events)) for op, events in parts], pa.string()).combine_chunks()
    return pa.RecordBatch.from_arrays([ops, *batch.columns], [OP, *batch.schema.names])


def _parts(delta: Delta) -> Iterator[tuple[str, Sequence[Event]]]:
    yield "retract", delta.retracts
    yield "revise", [new for _, new in delta.revises]
    yield "insert", delta.columns if delta.columns is not None else delta.inserts
