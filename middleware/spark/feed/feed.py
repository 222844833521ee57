"""Feeds a trace: Spark executors encode it, and one publisher sends it to a node in the order of its arrivals, on time.

There is one publisher, because with several for one recording, the node would measure the distance between them: as delays,
and as one running ahead of the other.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from middleware.link.codec import BlockHead
from middleware.model.errors import SlacklineError, TraceError
from middleware.model.event import END
from middleware.spark.feed.coordinator import Coordinator
from middleware.spark.feed.encoding import FeedPartition, PartitionReport
from middleware.spark.feed.groups import slices
from middleware.spark.feed.pacing import Pace, window_of
from middleware.spark.feed.rows import Frame
from middleware.spark.session import FailedRunError, reason, spark_session
from middleware.spark.traces import load_trace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLUSH_TIMEOUT = 60.0


class Timetable(msgspec.Struct, frozen=True):
    """How arrival times map to wall time: an event with arrival ``a`` is sent at start + (a - first_arrival) / speed.

    ``start``
        Unix time (ns) of the first arrival.
    ``first_arrival``, ``last_arrival``
        those of the trace (ns).
    ``speed``
        None: as fast as possible; then wall time says nothing about arrival time.
    """

    trace: str
    address: str
    start: int
    first_arrival: int
    last_arrival: int
    speed: float | None
    types: list[str]
    events: int


class FeedReport(msgspec.Struct):
    """The report of a feed.

    ``held_back``
        seconds during which the node had no room for more.
    ``behind``
        the most (ns) that the feed fell behind its timetable.
    ``attempts``
        more than 1 if Spark had to start over; nothing was sent twice.
    """

    timetable: Timetable
    events: int
    bytes: int
    seconds: float
    events_per_second: float
    held_back: float
    behind: int
    attempts: int
    partitions: list[PartitionReport]


class EventPublisher(Protocol):
    """The part of ``middleware.runtime.clients.Publisher`` that the feed needs."""

    def publish_blocks(self, blocks: Sequence[tuple[BlockHead, bytes]]) -> None: ...
    def advance(self, types: Sequence[str], watermark: int) -> None: ...
    def flush(self, timeout: float) -> object: ...


Progress = Callable[[int, int], None]
"""Called from another thread with the number of events sent, and the arrival time up to which all are sent."""


def feed(
    path: str | Path,
    address: str,
    *,
    speed: float | None = 1.0,
    partitions: int = 2,
    announce: str | Path | None = None,
    keys: tuple[str | Path, str | Path] | None = None,
    node: str | None = None,
    ended: Collection[str] = (),
    progress: Progress = lambda events, arrival: None,
    connect: Callable[[str], AbstractContextManager[EventPublisher]] | None = None,
    master: str | None = None,
    spark: SparkSession | None = None,
) -> FeedReport:
    """Publish the trace at ``path`` to the node at ``address``; then announce the end of its types.

    ``speed``
        arrival time / wall time: 1 as recorded, 10 ten times as fast, None as fast as possible.
    ``partitions``
        executors that read and encode at the same time. The node gets the same, however many there are.
    ``announce``
        a file that gets the ``Timetable`` as JSON before the first event is sent.
    ``keys``, ``node``
        key file and allow-list, and the node's name if the list has several, for nodes that require keys.
    ``ended``
        further types, of which the trace has no event: their end is announced, too.
    ``connect``
        opens a publisher of a given name (default: ``middleware.runtime.clients.Publisher`` to ``address``).
    ``master``, ``spark``
        whose Spark encodes: see ``spark_session``.

    Events go out in the order in which they arrived in the recording, at any speed. Raises TraceError if a partition fails;
    the end is then not announced.
    """
    trace = load_trace(path)
    if speed is not None and not speed > 0:
        raise TraceError(f"a speed of {speed} does not move: give more than 0")
    if partitions <= 0:
        raise TraceError(f"a feed needs at least one partition, not {partitions}")
    folder = Path(path).resolve()
    cuts = slices(folder, trace)
    partitions = min(partitions, len(cuts) - 1)
    timetable = Timetable(
        str(folder), address, 0, trace.first_arrival, trace.last_arrival, speed, list(trace.types), trace.events
    )
    task_of = partial(FeedPartition, str(folder), partitions=partitions, cuts=cuts, window=window_of(speed))
    connect = connect or partial(_publisher, address, timetable.types, keys, node)
    with spark_session(partitions, master=master, spark=spark) as session, connect("feed") as publisher:
        sender = _Sender(timetable, publisher, progress, Path(announce) if announce is not None else None)
        with ThreadPoolExecutor(1, "spark-job") as pool, Coordinator(partitions, len(cuts) - 1) as coordinator:
            job = pool.submit(_encoded_by, session, task_of(coordinator=coordinator.address), partitions)
            job.add_done_callback(lambda done: coordinator.is_over() if done.exception() is not None else None)
            sender.send(coordinator.frames())
            reports = _reports(job, coordinator)
        if sender.events != trace.events:
            raise TraceError(
                f"the feed sent {sender.events} of {trace.events} events: the trace changed under it; its end was not announced"
            )
        sender.end(ended)
    return sender.report(coordinator.attempts, reports)


def _publisher(
    address: str, types: Sequence[str], keys: tuple[str | Path, str | Path] | None, node: str | None, name: str
) -> AbstractContextManager[EventPublisher]:
    from middleware.runtime.clients import Publisher
    from middleware.runtime.transport.keys import Keys

    own = Keys.load(*keys) if keys else None
    return Publisher(address, name=f"{name}-{os.getpid()}", types=types, keys=own, node=node)


def _encoded_by(spark: SparkSession, task: FeedPartition, partitions: int) -> list[PartitionReport]:
    """Run all partitions at the same time (as a barrier stage): each waits for its turn."""
    context = spark.sparkContext
    if context.defaultParallelism < partitions:
        raise TraceError(f"this Spark session runs {context.defaultParallelism} tasks at a time, the feed needs {partitions}")

    def run(numbers: Iterable[int]) -> Iterable[PartitionReport]:
        return [task(number) for number in numbers]

    return list(context.parallelize(range(partitions), partitions).barrier().mapPartitions(run).collect())


def _reports(job: Future[list[PartitionReport]], coordinator: Coordinator) -> list[PartitionReport]:
    """The final reports of the partitions. Raises TraceError, FailedRunError if one of them failed."""
    try:
        return job.result()
    except TraceError:
        raise
    except Exception as error:
        why = coordinator.reason or reason(error)
        raise FailedRunError(f"the feed failed: {why}; its end was not announced to the node") from error


class _Sender:
    """Publishes the frames of a feed on time, in the one order in which they arrived."""

    def __init__(self, timetable: Timetable, publisher: EventPublisher, progress: Progress, announce: Path | None) -> None:
        self.timetable = timetable
        self.events = self.bytes = 0
        self._publisher, self._progress, self._announce = publisher, progress, announce
        self._began = time.monotonic()
        self._held_back = 0.0
        self._pace = Pace(0, timetable.first_arrival, None)

    def send(self, frames: Iterable[Frame]) -> None:
        """Send all frames; the first one starts the clock."""
        for frame in frames:
            if not self.events:
                self._start()
            self._pace.wait(frame.last)
            before = time.monotonic()
            with _told():
                self._publisher.publish_blocks(frame.blocks)
            self._held_back += time.monotonic() - before
            self.events += frame.events
            self.bytes += frame.size
            self._progress(self.events, frame.last)

    def _start(self) -> None:
        self.timetable = msgspec.structs.replace(self.timetable, start=time.time_ns())
        if self._announce is not None:
            _write_whole(self._announce, self.timetable)
        self._began = time.monotonic()
        self._pace = Pace(self.timetable.start, self.timetable.first_arrival, self.timetable.speed)

    def end(self, ended: Collection[str]) -> None:
        """After all is sent: wait until the node has it, and announce the end of all types."""
        with _told():
            self._publisher.advance([*self.timetable.types, *ended], END)
            self._publisher.flush(FLUSH_TIMEOUT)

    def report(self, attempts: int, partitions: list[PartitionReport]) -> FeedReport:
        """The report of what was sent so far."""
        seconds = time.monotonic() - self._began
        rate = self.events / seconds if seconds else 0.0
        held, behind = self._held_back, self._pace.behind
        return FeedReport(self.timetable, self.events, self.bytes, seconds, rate, held, behind, attempts, partitions)


@contextmanager
def _told() -> Iterator[None]:
    """Turn errors of publishing into an error of the feed."""
    try:
        yield
    except Exception as error:
        why = str(error) if isinstance(error, SlacklineError) else f"{type(error).__name__}: {error}"
        raise FailedRunError(f"the feed failed: {why}; its end was not announced to the node") from error


def _write_whole(file: Path, timetable: Timetable) -> None:
    """Write a file that is never seen half written."""
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        part.write_bytes(msgspec.json.encode(timetable) + b"\n")
        part.replace(file)
    except OSError as error:
        raise TraceError(f"{file} cannot be written: {error.strerror}; name another file with --announce") from None
