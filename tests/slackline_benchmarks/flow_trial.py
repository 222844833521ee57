"""One trial: pages at a steady rate into real nodes, and what comes to the barrier at the sink."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import msgspec
from slackline_benchmarks.flow_input import arriving

from middleware.delivery.barrier import Barrier
from middleware.model.change import Batch
from middleware.model.errors import RunError
from middleware.model.event import END, Event
from middleware.runtime.clients import Subscriber
from middleware.runtime.cluster import Cluster
from middleware.testing.flows import sequential
from scenarios.search.index import Posted, flow
from scenarios.search.workers import PATIENCE, Mode, Writer, placed


class Trial(msgspec.Struct, kw_only=True):
    """What one trial came to.

    ``arrived``, ``valid``
        items and tombstones that came to the barrier (an item in another's place is both), and results.
    ``changes``
        changes of any kind that nodes sent to each other and to the sink.
    ``release``, ``early``
        milliseconds, mean over the results, from the publication of the page to when the barrier let the result go, and to
        when it was there, in the end right, before the barrier.
    ``late``, ``behind``
        99th percentile of ``release``; by how many milliseconds the pages fell behind their rate at most.
    """

    mode: Mode
    workers: int
    rate: float
    pages: int
    arrived: int
    valid: int
    changes: int
    release: float
    late: float
    early: float
    behind: float
    cpu: float
    text: str = "zipf"
    late_share: float = 0.0

    @property
    def ratio(self) -> float:
        """Arrivals at the barrier by results: Figure 9 of the paper."""
        return self.arrived / self.valid


class Sink:
    """The one barrier, and what passes it."""

    def __init__(self, subscriber: Subscriber, writer: Writer) -> None:
        self.arrived = 0
        self.results: list[Event] = []
        self.released: list[int] = []
        self.there: dict[int, int] = {}
        self.barrier = Barrier(["search.Posted"])
        self._subscriber, self._writer = subscriber, writer

    def take_all(self, deadline: float) -> None:
        """Take in whatever comes, to the end of the stream. Raises RunError if that does not come."""
        while self.barrier.watermark < END:
            if time.monotonic() > deadline or self._writer.failure:
                raise RunError(
                    f"the index did not come to its end: {self._writer.failure or 'the nodes are too slow, or stuck'}"
                )
            self._take(self._subscriber.receive_batch(0.1))

    def _take(self, batch: Batch) -> None:
        now = time.monotonic_ns()
        for delta in batch.deltas.values():
            self.arrived += len(delta.inserts) + len(delta.retracts) + 2 * len(delta.revises)
            for event in delta.inserts:
                self.there[event.id] = now
            for _, event in delta.revises:
                self.there[event.id] = now
        free = self.barrier.take(batch)
        self.results += free
        self.released += [now] * len(free)


def trial(
    mode: Mode,
    workers: int,
    rate: float,
    seconds: float,
    seed: int = 7,
    punctuation: int = 10,
    text: str = "zipf",
    late: float = 0.0,
) -> Trial:
    """Run one over ``flow_input.arriving``, and hold its results against the sequential run. Raises RunError if they differ."""
    given = arriving(text, seconds, rate, late, seed)
    scenario = placed(workers, mode)
    with Cluster(scenario) as cluster:
        address = cluster.addresses[list(scenario.placement)[-1]]
        writer = Writer(cluster.addresses[scenario.entry], given, rate, punctuation)
        with Subscriber(address, [Posted], name="sink") as subscriber:
            cluster.await_ready(subscriber.wait_ready)
            sink = Sink(subscriber, writer)
            writer.start()
            sink.take_all(time.monotonic() + seconds + PATIENCE)
        writer.join()
    reports = cluster.reports.values()
    _hold_against_the_sequential_run(sink, given)
    written = writer.written
    waits = sorted((when - written[event.ts]) / 1e6 for event, when in zip(sink.results, sink.released, strict=True))
    early = fmean((sink.there[event.id] - written[event.ts]) / 1e6 for event in sink.results)
    return Trial(
        mode=mode,
        workers=workers,
        rate=rate,
        pages=len(given),
        arrived=sink.arrived,
        valid=len(sink.results),
        changes=sum(report.broker.events_out for report in reports),
        release=fmean(waits),
        late=waits[int(len(waits) * 0.99)],
        early=early,
        behind=writer.behind / 1e6,
        cpu=sum(report.cpu for report in reports),
        text=text,
        late_share=late,
    )


def _hold_against_the_sequential_run(sink: Sink, given: Sequence[Event]) -> None:
    expected = [(result.ts, *result.fields) for result in sequential(flow(updates=False).nodes, given)]
    got: list[Any] = sorted(sink.results, key=lambda event: (event.ts, event.cause))
    if [(each.ts, each.word, each.page, each.places, each.rank, each.before) for each in got] != expected:
        raise RunError(f"the index is not that of the sequential run: {len(got)} postings, {len(expected)} expected")
    if sink.barrier.violations:
        raise RunError(f"final postings were changed: {dict(sink.barrier.violations)}")
