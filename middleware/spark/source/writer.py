"""Publishing the rows of a frame into a node: each event once, however often Spark runs a task again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from middleware.broker.ingress.checks import UNCOMPARED
from middleware.model.errors import TraceError
from middleware.model.event import END, type_name
from middleware.runtime.clients.publisher import Publisher
from middleware.spark.by_value import dump_by_value, load_by_value
from middleware.spark.schemas import schema_of
from middleware.spark.source.source_options import NodeTarget, Options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

FLUSH_TIMEOUT = 60.0
_A_BATCH = 2**32
"""Ids that a task may make in a batch."""


@dataclass
class WriteReport(WriterCommitMessage):
    """The number of events that a task has published."""

    events: int


class EventWriter(DataSourceArrowWriter):
    """A batch. Rows without ``source`` and ``id`` get them from the option ``source``, the task, and their position in it."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._packed = dump_by_value(options)
        _check(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriteReport:
        return WriteReport(_publish(load_by_value(self._packed), iterator, 0))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        options: Options = load_by_value(self._packed)
        if options.end:
            with _publisher(options.target, "end") as publisher:
                publisher.advance([options.target.event_type], END)
                publisher.flush(FLUSH_TIMEOUT)


class EventStreamWriter(DataSourceStreamArrowWriter):
    """A stream. The number of the micro-batch is part of the ids that are made."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._packed = dump_by_value(options)
        _check(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriteReport:
        return WriteReport(_publish(load_by_value(self._packed), iterator, _batch_number()))


def _check(options: Options, schema: StructType) -> None:
    """Raise TraceError, EventError unless rows of this schema can be events of the type."""
    columns = {column.name: column.kind.ddl for column in schema_of(options.target.event_type).columns}
    found = {field.name: field.dataType.simpleString() for field in schema.fields}
    name = type_name(options.target.event_type)
    optional = {"level"} | (set() if options.source is None else {"id", "source"})
    missing = [column for column in columns if column not in found and column not in optional]
    if missing:
        hint = "; without source and id, name a source: .option('source', ...)" if {*missing} <= {"id", "source"} else ""
        raise TraceError(f"the frame lacks {', '.join(missing)} for {name}: it has {', '.join(found)}{hint}")
    if unknown := [column for column in found if column not in columns]:
        raise TraceError(f"{name} has no field {', '.join(unknown)}: it has {', '.join(columns)}; select what it has")
    schema_of(options.target.event_type).check_kinds(found, "the frame")
    if options.source is not None and (given := {"id", "source"} & found.keys()):
        raise TraceError(f"the frame has {', '.join(sorted(given))}, so drop the option 'source', or drop the columns")


def _batch_number() -> int:
    """The number of the micro-batch of this task, which Spark gives nowhere else."""
    from pyspark import TaskContext

    context = TaskContext.get()
    number = context.getLocalProperty("streaming.sql.batchId") if context is not None else None
    if number is None:
        raise TraceError("Spark does not say which micro-batch this is")
    return int(number)


def _publish(options: Options, batches: Iterator[pa.RecordBatch], number: int) -> int:
    """Publish the rows of a task; returns how many. Raises TraceError if the node does not take them all."""
    from pyspark import TaskContext

    context = TaskContext.get()
    part, made, schema = context.partitionId() if context else 0, 0, schema_of(options.target.event_type)
    with _publisher(options.target, f"{part}") as publisher:
        for batch in batches:
            if not batch.num_rows:
                continue
            columns: dict[str, Any] = dict(zip(batch.schema.names, batch.columns, strict=True))
            for column in schema.columns:  # they may be narrower
                if column.name in columns and columns[column.name].type != column.kind.arrow:
                    columns[column.name] = columns[column.name].cast(column.kind.arrow)
            if options.source is not None:
                columns |= _identities(f"{options.source}-{part}", number * _A_BATCH + made, batch.num_rows)
            publisher.publish(schema.events(columns))
            made += batch.num_rows
        receipt = publisher.flush(FLUSH_TIMEOUT)
        if rejected := {why: count for why, count in receipt.rejected.items() if why != UNCOMPARED}:
            reasons = ", ".join(f"{count:,} {why}" for why, count in rejected.items())
            raise TraceError(f"the node at {options.target.address} did not take all events: {reasons}")
    return made


def _identities(source: str, first: int, rows: int) -> dict[str, pa.Array]:
    import pyarrow as pa

    return {"source": pa.array([source] * rows), "id": pa.array(range(first, first + rows), pa.int64())}


def _publisher(target: NodeTarget, part: str) -> Publisher:
    return Publisher(
        target.address,
        name=f"spark-{os.getpid()}-{part}",
        types=[target.event_type],
        keys=target.keys,
        node=target.node,
        shares=True,  # several tasks of one write may have rows of one source
    )
