"""Reading what the log of a node holds now, as a batch."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from middleware.model.errors import TraceError
from middleware.model.event import NEVER, type_name
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
        options: Options = load_by_value(self._packed)
        target = options.target
        log_extent = extent(target.address, target.event_type, keys=target.keys, node=target.node)
        start = options.starting.offset_in(log_extent, "earliest")
        part = LogRange(log_extent.line, start, log_extent.offset)
        return [part if options.consistency == "final" or start == part.end else _behind_gaps(options, part)]

    def read(self, partition: LogRange) -> Iterator[pa.RecordBatch]:  # type: ignore[override]
        options: Options = load_by_value(self._packed)
        yield batch_of(options.target.event_type, options.consistency, [])
        if partition.start < partition.end:
            yield from _read(options, partition)


def _behind_gaps(options: Options, part: LogRange) -> LogRange:
    """The part of a range behind the last gap in it. O(bytes of the type), undecoded.

    Early changes on both sides of a gap have no net effect: what revised or withdrew those before it may be missing. Finals
    need none of this: those before a gap are right, and what could not become final there is never given.
    """
    with _reader(options, part) as reader:
        while reader.seen < part.end:
            before = reader.seen
            reader.skip(PATIENCE)
            if reader.seen == before:
                raise _silent(options, before, part)
        if not reader.gaps:
            return part
        _warn(options, reader.behind_gap)
        return LogRange(part.line, max(part.start, reader.behind_gap), part.end)


def _where(options: Options) -> str:
    return f"the log of the node at {options.target.address}"


def _silent(options: Options, before: int, part: LogRange) -> TraceError:
    return TraceError(f"{_where(options)} gave nothing for {PATIENCE:g} s after offset {before}, of {part.end}")


def _warn(options: Options, behind: int) -> None:
    warnings.warn(
        f"{_where(options)} lacks changes of {type_name(options.target.event_type)} up to offset {behind}: they were cut off, "
        "are damaged, or nobody had subscribed to them under a name; what is read begins behind them. "
        f'.option("startingOffsets", {behind}) begins there, too, without this warning',
        stacklevel=2,
    )


def _reader(options: Options, part: LogRange) -> LogReader:
    """A reader from the start of a range. Raises TraceError if the node has another log by now."""
    target, name = options.target, f"spark-{uuid.uuid4().hex}"
    log_extent = extent(target.address, target.event_type, name=name, keys=target.keys, node=target.node)
    if log_extent.line != part.line:
        raise TraceError(f"{_where(options)} is another one than a moment ago: read it again")
    return LogReader(
        target.address,
        target.event_type,
        (part.line, part.start),
        consistency=options.consistency,
        name=name,
        keys=target.keys,
        node=target.node,
    )


def _read(options: Options, part: LogRange) -> Iterator[pa.RecordBatch]:
    is_final, gaps = options.consistency == "final", 0
    with _reader(options, part) as reader:
        while reader.seen < part.end or (is_final and reader.watermark == NEVER):
            before = reader.seen
            is_there = before >= part.end
            rows = _next(reader, options, SETTLED if is_there else PATIENCE)
            if reader.gaps > gaps and not is_final:
                missing = before or part.start
                raise TraceError(f"{_where(options)} no longer has what follows offset {missing}: it was cut off meanwhile")
            if reader.gaps > gaps:
                gaps = reader.gaps
                _warn(options, reader.behind_gap)
            if reader.seen == before and not rows.num_rows:
                if is_there:
                    return  # nothing is final yet
                raise _silent(options, before, part)
            yield rows


def _next(reader: LogReader, options: Options, timeout: float) -> pa.RecordBatch:
    """The next arrivals, as rows; none if nothing arrives in time."""
    return batch_of(options.target.event_type, options.consistency, reader.deltas(timeout))
