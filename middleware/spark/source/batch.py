"""Reading what the log of a node holds now, as a batch."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from middleware.model.errors import TraceError
from middleware.model.event import NEVER
from middleware.runtime.clients.log_reader import LogReader, extent
from middleware.spark.by_value import dump_by_value, load_by_value
from middleware.spark.source.change_rows import batch_of
from middleware.spark.source.source_options import Options

if TYPE_CHECKING:
    import pyarrow as pa

PATIENCE = 30.0
"""Seconds within which a node must continue with what it has."""

SETTLED = 2.0
"""Seconds after which nothing is expected to become final of what there was."""


class LogRange(InputPartition):
    """The log after offset ``start``, up to ``end`` at least."""

    def __init__(self, line: int, start: int, end: int) -> None:
        super().__init__((line, start, end))
        self.line, self.start, self.end = line, start, end


class LogBatchReader(DataSourceReader):
    """Reads all that the log holds of a type, in its order, in one task."""

    def __init__(self, options: Options) -> None:
        self._packed = dump_by_value(options)  # a user's event type goes by value

    def partitions(self) -> list[LogRange]:
        target = load_by_value(self._packed).target
        log_extent = extent(target.address, target.event_type, keys=target.keys, node=target.node)
        return [LogRange(log_extent.line, log_extent.oldest, log_extent.offset)]

    def read(self, partition: LogRange) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        options: Options = load_by_value(self._packed)
        yield batch_of(options.target.event_type, options.consistency, [])
        if partition.start < partition.end:
            yield from _read(options, partition)


def _read(options: Options, part: LogRange) -> Iterator[pa.RecordBatch]:
    target, name = options.target, f"spark-{uuid.uuid4().hex}"
    log_extent = extent(target.address, target.event_type, name=name, keys=target.keys, node=target.node)
    where = f"the log of the node at {target.address}"
    if log_extent.line != part.line:
        raise TraceError(f"{where} is another one than a moment ago: read it again")
    with LogReader(
        target.address,
        target.event_type,
        (part.line, part.start),
        consistency=options.consistency,
        name=name,
        keys=target.keys,
        node=target.node,
    ) as reader:
        is_final = options.consistency == "final"
        while reader.seen < part.end or (is_final and reader.watermark == NEVER):
            before = reader.seen
            is_there = before >= part.end
            rows = _next(reader, options, SETTLED if is_there else PATIENCE)
            if reader.gaps:
                raise TraceError(f"{where} no longer has what follows offset {before or part.start}: it was cut off meanwhile")
            if reader.seen == before and not rows.num_rows:
                if is_there:
                    return  # nothing is final yet
                raise TraceError(f"{where} gave nothing for {PATIENCE:g} s after offset {before}, of {part.end}")
            yield rows


def _next(reader: LogReader, options: Options, timeout: float) -> pa.RecordBatch:
    """The next arrivals, as rows; none if nothing arrives in time."""
    return batch_of(options.target.event_type, options.consistency, reader.deltas(timeout))
