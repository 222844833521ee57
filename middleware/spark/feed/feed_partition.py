"""The work of one executor in a feed: it reads its slices of the trace, and sends the encoded events to the driver."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from socket import gethostname

import msgspec

from middleware.model.errors import TraceError
from middleware.recordings.feed.trace_rows import FeedFrame, TypeRows, frames
from middleware.recordings.traces import load_trace
from middleware.spark.feed.coordinator import PartitionConnection, SliceFrame
from middleware.spark.feed.meeting import Meeting


class PartitionReport(msgspec.Struct):
    """Counts of one partition. ``waited``: seconds spent waiting for its turn, or for the node to take more; ``groups``: row
    groups read.
    """

    partition: int
    slices: int = 0
    events: int = 0
    bytes: int = 0
    frames: int = 0
    seconds: float = 0.0
    waited: float = 0.0
    groups: int = 0


@dataclass(frozen=True)
class FeedPartition:
    """One of the partitions of a feed; runs on an executor.

    ``cuts``
        where slices begin and end (see ``groups.slices``).
    ``owners``
        the partition of each slice (see ``groups.owners``).
    ``window``
        the longest span of arrival time (ns) that goes out together; None: any.
    """

    trace: str
    coordinator: Meeting
    cuts: list[int]
    owners: list[int]
    window: int | None

    def __call__(self, partition: int) -> PartitionReport:
        path = Path(self.trace)
        report = PartitionReport(partition)
        with PartitionConnection(self.coordinator, partition) as connection:
            types = self._types(path)
            first = connection.join()
            began = time.monotonic()
            for number, owner in enumerate(self.owners):
                if owner == partition and number >= first:
                    self._send(number, frames(types, self.window, *self.cuts[number : number + 2]), connection, report)
            report.seconds, report.waited = time.monotonic() - began, connection.waited
            report.groups = sum(rows.read for rows in types)
        return report

    def _types(self, path: Path) -> list[TypeRows]:
        try:
            trace = load_trace(path)
            return [TypeRows(path, trace, name) for name in trace.types]
        except TraceError as error:
            raise TraceError(f"on {gethostname()}, where executors read the trace by the same path as here: {error}") from None

    def _send(
        self, number: int, of_slice: Iterator[FeedFrame], connection: PartitionConnection, report: PartitionReport
    ) -> None:
        position = 0
        for position, frame in enumerate(of_slice, 1):
            report.events += frame.events
            report.bytes += frame.size
            heads = [head for head, _ in frame.blocks]
            connection.send(SliceFrame(number, position - 1, frame.last, heads), [block for _, block in frame.blocks])
        report.slices += 1
        report.frames += position
        connection.send(SliceFrame(number, position, 0, [], ends=True), [])
