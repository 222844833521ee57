"""Feeds a trace: Spark executors encode it, and one publisher sends it to a node in the order of its arrivals, on time.

There is one publisher, because with several for one recording, the node would measure the distance between them: as delays,
and as one running ahead of the other.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from middleware.broker.ingress.checks import UNCOMPARED
from middleware.link.codec import BlockHead
from middleware.model.errors import SlacklineError, TraceError
from middleware.model.event import END
from middleware.recordings.feed.feed_pacing import FeedPace, window_of
from middleware.recordings.feed.groups import owners, slices
from middleware.recordings.feed.trace_rows import FeedFrame, TypeRows, frames
from middleware.recordings.traces import load_trace
from middleware.spark.by_value import make_portable
from middleware.spark.feed.coordinator import Coordinator
from middleware.spark.feed.feed_partition import FeedPartition, PartitionReport
from middleware.spark.feed.meeting import host_of
from middleware.spark.jobs import in_background
from middleware.spark.session import FailedRunError, reason, spark_session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from middleware.runtime.clients.publisher import Receipt

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

    ``seconds``
        from the first event sent until the node had all, without what Spark takes to end its job.
    ``blocked``
        seconds during which the node had no room for more.
    ``behind``
        the most (ns) that the feed fell behind its timetable.
    ``attempts``
        more than 1 if Spark had to start over; nothing was sent twice.
    ``repeats``
        events that the node had already.
    ``rejected``
        events that the node rejected, by reason.
    """

    timetable: Timetable
    events: int
    bytes: int
    seconds: float
    events_per_second: float
    blocked: float
    behind: int
    attempts: int
    partitions: list[PartitionReport]
    repeats: int = 0
    rejected: dict[str, int] = {}


class EventPublisher(Protocol):
    """The part of ``middleware.runtime.clients.Publisher`` that the feed needs."""

    def publish_blocks(self, blocks: Sequence[tuple[BlockHead, bytes]]) -> None: ...
    def advance(self, types: Sequence[str], watermark: int) -> None: ...
    def flush(self, timeout: float) -> Receipt | None: ...


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
    end: bool = False,
    ended: Collection[str] = (),
    advertise: str | None = None,
    progress: Progress = lambda events, arrival: None,
    connect: Callable[[str], AbstractContextManager[EventPublisher]] | None = None,
    in_process: bool = False,
    master: str | None = None,
    spark: SparkSession | None = None,
) -> FeedReport:
    """Publish the trace at ``path`` to the node at ``address``.

    ``speed``
        arrival time / wall time: 1 as recorded, 10 ten times as fast, None as fast as possible.
    ``partitions``
        executors that read and encode at the same time, at most one for each row group. The node gets the same, however many
        there are.
    ``announce``
        a file that gets the ``Timetable`` as JSON before the first event is sent.
    ``keys``, ``node``
        key file and allow-list, and the node's name if the list has several, for nodes that require keys.
    ``end``
        announce the end of the trace's types, and of those in ``ended``: no event of them follows, from anyone. Without it,
        another trace may be fed into the same node, or live events follow.
    ``advertise``
        HOST or HOST:PORT under which executors reach this process (default: the host of Spark's driver).
    ``connect``
        opens a publisher of a given name (default: ``middleware.runtime.clients.Publisher`` to ``address``).
    ``in_process``
        read and encode in this process, without Spark; the node gets the same.
    ``master``, ``spark``
        whose Spark encodes: see ``spark_session``.

    Events go out in the order in which they arrived in the recording, at any speed. Raises TraceError if a partition fails;
    the end is then not announced. The report has what the node did not take.
    """
    trace = load_trace(path)
    if speed is not None and not speed > 0:
        raise TraceError(f"a speed of {speed} does not move: give more than 0")
    if partitions <= 0:
        raise TraceError(f"a feed needs at least one partition, not {partitions}")
    folder = Path(path).resolve()
    cuts = slices(folder, trace)
    shares = owners(folder, trace, cuts, partitions)
    partitions = max(shares) + 1
    timetable = Timetable(
        str(folder), address, 0, trace.first_arrival, trace.last_arrival, speed, list(trace.types), trace.events
    )
    task_of = partial(FeedPartition, str(folder), cuts=cuts, owners=shares, window=window_of(speed))
    connect = connect or partial(_publisher, address, timetable.types, keys, node)
    if in_process:
        with connect("feed") as publisher:
            sender = _Sender(timetable, publisher, progress, Path(announce) if announce is not None else None)
            sender.send(frames([TypeRows(folder, trace, name) for name in trace.types], window_of(speed)))
            sender.finish([*trace.types, *ended] if end else [])
        return sender.report(1, [])
    with spark_session(partitions, master=master, spark=spark) as session, connect("feed") as publisher:
        sender = _Sender(timetable, publisher, progress, Path(announce) if announce is not None else None)
        meeting = host_of(session, advertise)
        coordinator = Coordinator(partitions, len(shares), meeting)
        task = task_of(coordinator=coordinator.address)
        with in_background(partial(_encoded_by, session, task, partitions)) as job, coordinator:
            job.add_done_callback(lambda done: coordinator.is_over() if done.exception() is not None else None)
            sender.send(coordinator.frames())
            reports = _reports(job, coordinator)
        if sender.events != trace.events:
            raise TraceError(
                f"the feed sent {sender.events} of {trace.events} events: the trace changed under it; its end was not announced"
            )
        sender.finish([*trace.types, *ended] if end else [])
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
    slots = _slots(spark)
    if slots is not None and slots < partitions:
        raise TraceError(f"this Spark session runs {slots} tasks at a time, the feed needs {partitions} (--partitions)")

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            reports = [msgspec.msgpack.encode(task(number)) for number in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_pydict({"report": pa.array(reports, pa.binary())})

    rows = spark.range(0, partitions, 1, partitions).mapInArrow(make_portable(run), "report binary", barrier=True).collect()
    reports = [msgspec.msgpack.decode(bytes(row.report), type=PartitionReport) for row in rows]
    return sorted(reports, key=lambda report: report.partition)


def _slots(spark: SparkSession) -> int | None:
    """How many tasks run at a time; None if only the server of Spark Connect knows."""
    from pyspark.errors import PySparkAttributeError

    try:
        return spark.sparkContext.defaultParallelism
    except PySparkAttributeError:
        return None


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
        self._blocked = 0.0
        self._seconds = 0.0
        self._rejected: dict[str, int] = {}
        self._repeats = 0
        self._pace = FeedPace(0, timetable.first_arrival, None)

    def send(self, frames: Iterable[FeedFrame]) -> None:
        """Send all frames; the first one starts the clock."""
        for frame in frames:
            if not self.events:
                self._start()
            self._pace.wait(frame.last)
            before = time.monotonic()
            with _as_feed_error():
                self._publisher.publish_blocks(frame.blocks)
            self._blocked += time.monotonic() - before
            self.events += frame.events
            self.bytes += frame.size
            self._progress(self.events, frame.last)
        self._seconds = time.monotonic() - self._began

    def _start(self) -> None:
        self.timetable = msgspec.structs.replace(self.timetable, start=time.time_ns())
        if self._announce is not None:
            _write_whole(self._announce, self.timetable)
        self._began = time.monotonic()
        self._pace = FeedPace(self.timetable.start, self.timetable.first_arrival, self.timetable.speed)

    def finish(self, ended: Sequence[str]) -> None:
        """After all is sent: announce the end of these types, and wait until the node has everything."""
        began = time.monotonic()
        with _as_feed_error():
            if ended:
                self._publisher.advance(ended, END)
            if (receipt := self._publisher.flush(FLUSH_TIMEOUT)) is not None:
                self._rejected = {why: count for why, count in receipt.rejected.items() if why != UNCOMPARED}
                self._repeats = receipt.repeats + receipt.rejected.get(UNCOMPARED, 0)
        self._seconds += time.monotonic() - began

    def report(self, attempts: int, partitions: list[PartitionReport]) -> FeedReport:
        """The report of what was sent so far."""
        seconds = self._seconds
        rate = self.events / seconds if seconds else 0.0
        blocked, behind = self._blocked, self._pace.behind
        return FeedReport(
            self.timetable,
            self.events,
            self.bytes,
            seconds,
            rate,
            blocked,
            behind,
            attempts,
            partitions,
            self._repeats,
            self._rejected,
        )


@contextmanager
def _as_feed_error() -> Iterator[None]:
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
