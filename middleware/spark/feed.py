"""Feeding a trace: Spark executors publish its events to a node in arrival order, paced, in step, held back by credits."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from middleware.clock import MILLISECOND
from middleware.errors import SlacklineError, TraceError
from middleware.event import END
from middleware.spark.coordinator import Coordinator
from middleware.spark.publishing import FeedPartition, PartitionReport
from middleware.spark.rows import assign
from middleware.spark.session import FailedRunError, interruptible, reason, spark_session
from middleware.spark.traces import Trace, load_trace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SKEW = 100 * MILLISECOND
FLUSH_TIMEOUT = 60.0


class Timetable(msgspec.Struct, frozen=True):
    """How arrival times map to wall time: an event with arrival ``a`` is sent at start + (a - first_arrival) / speed.

    ``start``
        Unix time (ns) of the first arrival.
    ``first_arrival``, ``last_arrival``
        of the trace (ns).
    ``speed``
        None: as fast as it goes; wall time then says nothing about arrival time.
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
    """What a feed did.

    ``max_skew``
        how far (ns of arrival) a partition was seen ahead of another, at most.
    ``attempts``
        above 1 if Spark had to start over: events were then sent again, and the node dropped them as duplicates.
    """

    timetable: Timetable
    events: int
    bytes: int
    seconds: float
    events_per_second: float
    max_skew: int
    attempts: int
    partitions: list[PartitionReport]


@dataclass(frozen=True)
class Connect:
    """Opens publishers to a node, on the driver and on executors.

    ``keys``
        key file and allow-list. Each process reads them itself: secrets do not travel through Spark.
    ``node``
        name of the node, where the allow-list has several.
    """

    address: str
    types: tuple[str, ...]
    keys: tuple[str, str] | None = None
    node: str | None = None

    def __call__(self, name: str) -> Any:
        from middleware.runtime.clients import Publisher
        from middleware.runtime.keys import Keys

        keys = Keys.load(*self.keys) if self.keys else None
        return Publisher(self.address, name=f"{name}-{os.getpid()}", types=self.types, keys=keys, node=self.node)


Progress = Callable[[int, int], None]
"""Is told, from another thread, how many events were sent and up to which arrival time all were."""


def feed(
    path: str | Path,
    address: str,
    *,
    speed: float | None = 1.0,
    partitions: int = 2,
    skew: int = SKEW,
    announce: str | Path | None = None,
    keys: tuple[str | Path, str | Path] | None = None,
    node: str | None = None,
    ended: Collection[str] = (),
    progress: Progress = lambda events, arrival: None,
    connect: Callable[[str], Any] | None = None,
) -> FeedReport:
    """Publish the trace at ``path`` to the node at ``address``; then say that its types have ended.

    ``speed``
        arrival time per wall time: 1 as recorded, 10 ten times as fast, None as fast as it goes.
    ``partitions``
        executors that publish at the same time, each the events of some sources.
    ``skew``
        how far (ns of arrival time) a partition may be ahead of another.
    ``announce``
        a file that gets the ``Timetable`` as JSON before the first event is sent.
    ``keys``, ``node``
        key file and allow-list, and the node's name if the list has several, for nodes that ask for keys.
    ``ended``
        further types, of which the trace has no event: that none will come is said at the end, too.
    ``connect``
        opens a publisher of a given name (default: ``middleware.runtime.clients.Publisher`` to ``address``).

    Events of a source keep their order. Raises TraceError if a partition fails; the end is then not announced.
    """
    trace = load_trace(path)
    if speed is not None and not speed > 0:
        raise TraceError(f"a speed of {speed} does not move: give more than 0")
    if skew <= 0 or partitions <= 0:
        raise TraceError(f"a feed needs at least one partition and a skew above 0, not {partitions} and {skew} ns")
    sources = trace.sources()
    shares = assign(sources, min(partitions, len(sources)))
    folder = str(Path(path).resolve())
    started: list[Timetable] = []

    def on_start(start: int) -> None:
        started.append(
            Timetable(folder, address, start, trace.first_arrival, trace.last_arrival, speed, list(trace.types), trace.events)
        )
        if announce is not None:
            _write_whole(Path(announce), started[-1])

    key_files = (str(Path(keys[0]).resolve()), str(Path(keys[1]).resolve())) if keys else None
    connect = connect or Connect(address, tuple(trace.types), key_files, node)
    with spark_session(cores=len(shares)) as spark, connect("feed") as ending:
        with Coordinator(len(shares), skew, on_start, progress) as coordinator:
            task = FeedPartition(folder, connect, coordinator.address, shares, trace.first_arrival, skew, speed, FLUSH_TIMEOUT)
            reports = _run(spark, task, coordinator, trace)
        ending.advance([*trace.types, *ended], END)
        ending.flush(FLUSH_TIMEOUT)
    seconds = max(report.seconds for report in reports)
    events = sum(report.events for report in reports)
    total = sum(report.bytes for report in reports)
    rate = events / seconds if seconds else 0.0
    skewed = coordinator.lockstep.max_skew
    return FeedReport(started[-1], events, total, seconds, rate, skewed, coordinator.attempts, reports)


def _run(spark: SparkSession, task: FeedPartition, coordinator: Coordinator, trace: Trace) -> list[PartitionReport]:
    """Run all partitions at the same time (a barrier stage), and see that they sent everything."""
    context = spark.sparkContext
    partitions = len(task.shares)
    if context.defaultParallelism < partitions:
        raise TraceError(f"this Spark session runs {context.defaultParallelism} tasks at a time, the feed needs {partitions}")

    def run(numbers: Iterable[int]) -> Iterable[PartitionReport]:
        return [task(number) for number in numbers]

    try:
        job = context.parallelize(range(partitions), partitions).barrier().mapPartitions(run)
        reports = interruptible(job.collect)
    except Exception as error:
        if isinstance(coordinator.failure, SlacklineError):
            raise coordinator.failure from error
        why = coordinator.reason or reason(error)
        raise FailedRunError(f"the feed failed: {why}; its end was not announced to the node") from error
    sent = sum(report.events for report in reports)
    if sent != trace.events:
        raise TraceError(
            f"the feed sent {sent} of {trace.events} events: the trace changed under it; its end was not announced"
        )
    return reports


def _write_whole(file: Path, timetable: Timetable) -> None:
    """Write a file that is never seen half written."""
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        part.write_bytes(msgspec.json.encode(timetable) + b"\n")
        part.replace(file)
    except OSError as error:
        raise TraceError(f"{file} cannot be written: {error.strerror}; name another file with --announce") from None
