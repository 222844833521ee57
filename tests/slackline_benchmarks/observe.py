"""Benchmark of what it costs to be seen: a node with detectors, scraped each second, against the same node by itself.

Publisher, node and subscriber are processes of their own, as in ``hop``; the node runs detectors with all that is measured in
either case, so what is compared is the scraping. Rounds alternate which of the two goes first.
"""

from __future__ import annotations

import multiprocessing as mp
import statistics
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe
from typing import Any

from slackline_benchmarks.observe_view import bench_view

from middleware.link.codec import encode
from middleware.model.detector import Detector
from middleware.model.event import END, Event, EventTypes
from middleware.observe.exposition import Exposition
from middleware.ordering.hierarchy import Adaptation, Hierarchy
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.loop.garbage import short_collections
from middleware.runtime.node import Node
from middleware.runtime.report import Reporter

_BATCH, _BATCHES = 512, 6_000
_EVERY = 1.0
"""Seconds between two scrapes: as often as anybody scrapes."""

_SOURCE = "bench"
_DETECTORS = 40


class Reading(Event):
    """What is published."""

    x: float


class Peak(Event):
    """What the detectors make of it, now and then."""

    x: float


class Peaks(Detector):
    """One of many, so that there is something to tell of; only the first does any work worth it."""

    subscribes, publishes = (Reading,), (Peak,)

    def __init__(self) -> None:
        self.count = 0

    def on_event(self, reading: Event) -> Event | None:
        self.count += 1
        return Peak(0.5, ts=reading.ts) if self.count % 100 == 0 else None


class Peaked(Event):
    """What the idle ones would publish."""


class Idle(Detector):
    """Waits for what never comes."""

    subscribes, publishes = (Peak,), (Peaked,)

    def on_event(self, peak: Event) -> None:
        return None


TYPES = EventTypes([Reading, Peak, Peaked])


def bench_observe(rounds: int) -> list[dict[str, Any]]:
    """Ratios of a node that is looked at to one that is not; ``rounds`` of each in turn."""
    return [*bench_metrics(rounds), *bench_view(rounds)]


def bench_metrics(rounds: int) -> list[dict[str, Any]]:
    """Throughput (events/s), and events by second of the node's own processor time, with metrics scraped each second to none.

    The second one is what a machine that does other things at the same time does not blur.
    """
    measured: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for number in range(rounds):
        for is_scraped in (False, True) if number % 2 else (True, False):
            measured[is_scraped].append(_measured(is_scraped))
    return [
        _entry("observe.metrics", "events/s", measured, 0),
        _entry("observe.metrics.cpu", "events/CPU s", measured, 1),
    ]


def _entry(name: str, unit: str, measured: dict[bool, list[tuple[float, float]]], which: int) -> dict[str, Any]:
    """Medians, and the median of the ratios of each round."""
    with_it, without = ([each[which] for each in measured[kind]] for kind in (True, False))
    ratio = statistics.median(one / other for one, other in zip(with_it, without, strict=True))
    value, baseline = statistics.median(with_it), statistics.median(without)
    return {"name": name, "value": value, "unit": unit, "baseline": baseline, "ratio": ratio}


def _node(pipe: Pipe, is_scraped: bool) -> None:
    import structlog

    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    detectors: dict[str, Detector] = {"Peaks": Peaks()} | {f"Idle{n}": Idle() for n in range(_DETECTORS)}
    hierarchy = Hierarchy(detectors, adaptation=Adaptation.EACH, timer=time.perf_counter_ns)
    node = Node("observed", "tcp://127.0.0.1:*", processor=Reporter(hierarchy), types=TYPES)
    with Exposition("127.0.0.1:*") as exposition, short_collections():
        exposition.watch(node)
        pipe.send((node.address, exposition.address if is_scraped else ""))
        threading.Thread(target=_tell_time, args=[pipe, node], daemon=True).start()
        node.run()


def _tell_time(pipe: Pipe, node: Node) -> None:
    """Answer each question with the processor time of this process so far; the last one ends the node."""
    while pipe.recv() == "time":
        pipe.send(time.process_time())
    node.stop()


def _source(pipe: Pipe, address: str) -> None:
    batches = [
        encode([Reading(1.5, ts=1_000_000 * n, id=n, source=_SOURCE) for n in range(at * _BATCH, (at + 1) * _BATCH)])
        for at in range(_BATCHES)
    ]
    with Publisher(address, types=[Reading]) as publisher:
        pipe.send("ready")
        pipe.recv()
        for at, batch in enumerate(batches):
            first = at * _BATCH
            last = first + _BATCH - 1
            publisher.publish_encoded("Reading", batch, _BATCH, 1_000_000 * last, [(_SOURCE, first, last)])
        publisher.advance(Reading, END)
        publisher.flush()


def _measured(is_scraped: bool) -> tuple[float, float]:
    """Events by second, and by second of the node's processor time, from the word go to the end of what is derived."""
    context = mp.get_context("spawn")
    ours, theirs = context.Pipe()
    mine, its = context.Pipe()
    node = context.Process(target=_node, args=(theirs, is_scraped), daemon=True)
    node.start()
    address, metrics = ours.recv()
    source = context.Process(target=_source, args=(its, address), daemon=True)
    source.start()
    mine.recv()
    with Subscriber(address, [Peak], event_types=TYPES) as subscriber, _scraping(metrics):
        subscriber.wait_ready()
        before, start = _asked(ours), time.perf_counter()
        mine.send("go")
        count = 0
        while count < _BATCH * _BATCHES // 100:
            count += sum(len(delta.inserts) - len(delta.retracts) for delta in subscriber.receive_batch(1.0).deltas.values())
        took, cpu = time.perf_counter() - start, _asked(ours) - before
    source.join()
    ours.send("end")
    node.join()
    return _BATCH * _BATCHES / took, _BATCH * _BATCHES / cpu


def _asked(pipe: Pipe) -> float:
    pipe.send("time")
    return float(pipe.recv())


@contextmanager
def _scraping(address: str) -> Iterator[None]:
    """Scrape each second meanwhile, if there is an address."""
    over = threading.Event()

    def scrape() -> None:
        while address and not over.wait(_EVERY):
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
                answer.read()

    scraper = threading.Thread(target=scrape)
    scraper.start()
    try:
        yield
    finally:
        over.set()
        scraper.join()
