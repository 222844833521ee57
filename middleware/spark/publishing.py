"""What one executor does in a feed: publish its sources' events in arrival order, on time, in step with the others."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from middleware.clock import MILLISECOND
from middleware.event import END, NEVER
from middleware.spark.coordinator import Place
from middleware.spark.rows import Encoded, RowStream, Run
from middleware.spark.traces import load_trace

PACED_WINDOW = 5 * MILLISECOND
"""At a given speed, events due within this time (wall clock, ns) of each other go out together, when the last is due."""


class EventPublisher(Protocol):
    """What the feed needs of ``middleware.runtime.clients.Publisher``."""

    def publish_encoded(
        self, type_name: str, records: bytes, count: int, clock: int, runs: list[Run] | None = None
    ) -> None: ...
    def flush(self, timeout: float) -> object: ...


Connect = Callable[[str], AbstractContextManager[EventPublisher]]
"""Opens a publisher of a given name."""


class PartitionReport(msgspec.Struct):
    """What one partition sent. ``held_back``: seconds spent in publishing and flushing (the node's credits), ``waited``:
    seconds spent waiting for other partitions, ``behind``: the furthest (ns) that it fell behind its timetable."""

    partition: int
    sources: int
    events: int = 0
    bytes: int = 0
    batches: int = 0
    seconds: float = 0.0
    held_back: float = 0.0
    waited: float = 0.0
    behind: int = 0


@dataclass(frozen=True)
class FeedPartition:
    """One partition of a feed; runs on an executor.

    ``speed``
        arrival time per wall time; None: as fast as it goes.
    """

    trace: str
    connect: Connect
    coordinator: str
    shares: list[list[str]]
    first_arrival: int
    skew: int
    speed: float | None
    timeout: float

    def __call__(self, partition: int) -> PartitionReport:
        path = Path(self.trace)
        trace = load_trace(path)
        sources = self.shares[partition]
        with Place(self.coordinator, partition) as place:
            only = frozenset(sources) if len(self.shares) > 1 else None
            streams = [RowStream(path, trace, name, only) for name in trace.types]
            with self.connect(f"feed-{partition}") as publisher:
                report = PartitionReport(partition, len(sources))
                self._send(streams, publisher, place, report)
        return report

    def _send(self, streams: list[RowStream], publisher: EventPublisher, place: Place, report: PartitionReport) -> None:
        following, last = earliest(streams), NEVER
        pace = Pace(place.join(following), self.first_arrival, self.speed)
        window = self.skew // 2 if self.speed is None else max(1, min(self.skew // 2, int(PACED_WINDOW * self.speed)))
        pace.wait(self.first_arrival)
        began = time.monotonic()
        while following != END:
            bound = min(place.limit(following), following + window)
            taken = [some for stream in streams if (some := stream.take(bound))]
            last = max(some.last for some in taken)
            pace.wait(last)
            report.held_back += publish(publisher, taken)
            report.events += sum(some.events for some in taken)
            report.bytes += sum(len(some.records) for some in taken)
            report.batches += len(taken)
            following = earliest(streams)
            if following != END:
                place.report(following, last, report.events)
        before = time.monotonic()
        publisher.flush(self.timeout)
        report.held_back += time.monotonic() - before
        report.seconds = time.monotonic() - began
        report.waited = place.waited
        report.behind = pace.behind
        place.report(END, last, report.events)


def earliest(streams: list[RowStream]) -> int:
    """The arrival of the next event of all streams; END if there is none."""
    return min((stream.following for stream in streams if stream.following is not None), default=END)


def publish(publisher: EventPublisher, taken: list[Encoded]) -> float:
    """Publish encoded events; the seconds that it took."""
    before = time.monotonic()
    for some in taken:
        publisher.publish_encoded(some.type_name, some.records, some.events, some.clock, some.runs)
    return time.monotonic() - before


class Pace:
    """The timetable of a feed: an event that arrived ``d`` after the first is due ``d / speed`` after the start."""

    def __init__(self, start: int, first_arrival: int, speed: float | None) -> None:
        # The start is wall time, which all executors share; what runs from it must not jump with the wall clock.
        self._start = start - time.time_ns() + time.monotonic_ns()
        self._first = first_arrival
        self._speed = speed
        self.behind = 0

    def wait(self, arrival: int) -> None:
        """Wait until an event with this arrival is due."""
        due = self._start if self._speed is None else self._start + round((arrival - self._first) / self._speed)
        ahead = due - time.monotonic_ns()
        if ahead > 0:
            time.sleep(ahead / 1e9)
        elif self._speed is not None:
            self.behind = max(self.behind, -ahead)
