"""``slackline bench types``: a node with 500 types and a detector for each, beside the same node with one of both.

``types.throughput``: events per second until the reader has the last result. ``types.latency``: the median latency (ms) of
results at 5,000 events per second; ``types.p99``: the latency that 1 % exceed. Publisher, node and reader are three processes;
both nodes get the same events, in the same batches, with types by turns. Aims: 100,000 events/s, and a median of 10 ms.
``types.step``: processor time (us) of a step of the pure node (broker and detectors, no sockets) that takes 25 events, as 5,000
per second are; ``types.promised``: the same where each batch comes with promises for all types. Other work on the machine
hardly changes these two.
"""

from __future__ import annotations

import multiprocessing as mp
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import msgspec
import structlog

from middleware.broker.broker import Broker
from middleware.delivery.publication import Publication
from middleware.link.codec import Interest, encode
from middleware.link.frames import decode_frame
from middleware.link.link import Link
from middleware.model.change import Insert
from middleware.model.detector import Detector
from middleware.model.event import Event, EventType, EventTypes, type_name
from middleware.model.time import SECOND
from middleware.ordering.hierarchy import Hierarchy
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.loop.garbage import short_collections
from middleware.runtime.node import Node
from middleware.runtime.report import Reporter

MANY = 500
RATE = 5_000
_EVENTS = 300_000
_BATCH = 8_000
_SECONDS = 8.0
_TICK = SECOND // 200
_QUIET, _STEPS = 20, 400
"""Steps in which links come up, and steps with events; the first quarter of these does not count."""

_SAMPLED = 10
"""Every so-manieth event has a result: so the node is what is measured, not the reader."""

_SPAWN = mp.get_context("spawn")


class _Totals(Detector):
    """Sums values, and publishes some of the sums."""

    total_type: Any

    def __init__(self) -> None:
        self.total = 0.0

    def on_event(self, event: Any) -> Event | None:
        self.total += event.value
        return self.total_type(self.total, ts=event.ts) if event.id % _SAMPLED == 0 else None


def _event_type(name: str, field: str) -> EventType:
    made: Any = msgspec.defstruct(name, [(field, float)], bases=(Event,), module=__name__, frozen=True)
    event_type: EventType = made
    return event_type


def readings(count: int) -> list[EventType]:
    """So many types of events with a ``value``."""
    return [_event_type(f"Reading{number}", "value") for number in range(count)]


def detectors(reading_types: list[EventType]) -> dict[str, Detector]:
    """A detector for each type, which publishes a type of its own."""
    found: dict[str, Detector] = {}
    for number, reading in enumerate(reading_types):
        total = _event_type(f"Total{number}", "total")
        attributes = {"subscribes": (reading,), "publishes": (total,), "total_type": total}
        found[f"totals{number}"] = type(f"Totals{number}", (_Totals,), attributes)()
    return found


def bench_types(rounds: int) -> list[dict[str, Any]]:
    """The rows, each the median of ``rounds``; many types and one in turn."""
    runs: dict[int, list[tuple[float, ...]]] = {MANY: [], 1: []}
    for _ in range(rounds):
        for count, measured in runs.items():
            measured.append((_throughput(count), *_latencies(count)))
    entries: list[dict[str, Any]] = []
    for place, (name, unit) in enumerate((("throughput", "events/s"), ("latency", "ms"), ("p99", "ms"))):
        value, baseline = (statistics.median(each[place] for each in runs[count]) for count in (MANY, 1))
        ratio = statistics.median(many[place] / one[place] for many, one in zip(runs[MANY], runs[1], strict=True))
        entries.append({"name": f"types.{name}", "value": value, "unit": unit, "baseline": baseline, "ratio": ratio})
    for name, promises in (("step", False), ("promised", True)):
        spent = [(_step(MANY, promises), _step(1, promises)) for _ in range(rounds)]
        value, baseline = (statistics.median(each) for each in zip(*spent, strict=True))
        ratio = statistics.median(many / one for many, one in spent)
        entries.append({"name": f"types.{name}", "value": value, "unit": "us", "baseline": baseline, "ratio": ratio})
    return entries


def _step(count: int, promises: bool) -> float:
    """Mean processor time (us) of a step that takes 25 events of so many types."""
    raw = readings(count)
    own = detectors(raw)
    totals = [detector.publishes[0] for detector in own.values()]
    hierarchy, now = Hierarchy(own, timer=time.perf_counter_ns), SECOND
    reads, makes = hierarchy.subscriptions, hierarchy.publications
    broker = Broker("bench", 1, now, types=EventTypes([*raw, *totals]), subscriptions=reads, publications=makes)
    publication = Publication(raw)
    publisher, reader = (Link(role, role, 1, now, dials=True) for role in ("publisher", "subscriber"))
    publisher.greeting, reader.greeting = publication.greeting, [encode(Interest(1, [type_name(each) for each in totals]))]
    links, worked = {"publisher": publisher, "reader": reader}, 0
    for step in range(-_QUIET, _STEPS):
        now += 25 * SECOND // RATE
        if step >= 0:
            first = step * 25
            events = [_reading(raw, number, SECOND + number * SECOND // RATE) for number in range(first, first + 25)]
            for frame in publication.frames(events):
                publisher.send(publication.payload_of(frame))
            if promises:
                publisher.send(publication.promise(raw, events[-1].ts - 1))
        sent: list[tuple[str, Any]] = []
        for channel, link in links.items():
            link.tick(now)
            link.settle(now)
            sent += [(channel, parts) for parts in link.outbox]
            link.outbox.clear()
        start = time.thread_time_ns()
        for channel, parts in sent:
            broker.receive(channel, parts, now)
        batch = broker.take(now)
        for result in hierarchy.process(batch) if batch is not None else ():
            broker.publish(result, now)
        hierarchy.take_listed()
        effects = broker.settle(now)
        worked += time.thread_time_ns() - start if step >= _STEPS // 4 else 0
        for destination, parts in effects.sends:
            link = links[str(destination)]
            if link.receive(decode_frame(parts[0]), parts[1:], now) is not None:
                link.consume()
    return worked / (_STEPS - _STEPS // 4) / 1e3


def _throughput(count: int) -> float:
    """Events per second from the first one published to the last result received."""
    with _node(count) as address, _source(address, count, _EVENTS, 0) as pipe, _reader(address) as subscriber:
        pipe.send("go")
        start, missing = time.perf_counter(), _EVENTS // _SAMPLED
        while missing > 0 and (changes := subscriber.receive(30)):
            missing -= sum(isinstance(change, Insert) for change in changes)
        if missing > 0:
            raise RuntimeError(f"{missing} results did not come")
        return _EVENTS / (time.perf_counter() - start)


def _latencies(count: int) -> tuple[float, float]:
    """Median, and what 1 % exceed, of the time (ms) from when an event is due to its result at the reader."""
    events = int(RATE * _SECONDS)
    with _node(count) as address, _source(address, count, events, RATE) as pipe, _reader(address) as subscriber:
        pipe.send("go")
        found: list[int] = []
        while len(found) < events // _SAMPLED and (changes := subscriber.receive(30)):
            now = time.time_ns()
            found += [now - change.event.ts for change in changes if isinstance(change, Insert)]
        found = sorted(found[len(found) // 8 :])  # the load has begun
        return found[len(found) // 2] / 1e6, found[len(found) * 99 // 100] / 1e6


@contextmanager
def _reader(address: str) -> Iterator[Subscriber]:
    totals = [detector.publishes[0] for detector in detectors(readings(MANY)).values()]
    with Subscriber(address, totals) as subscriber:
        subscriber.wait_ready(10)
        yield subscriber


@contextmanager
def _node(count: int) -> Iterator[str]:
    with _process(_serve, count) as (pipe, address):
        yield address
        pipe.send("stop")


@contextmanager
def _source(address: str, count: int, events: int, rate: int) -> Iterator[Connection]:
    with _process(_publish, address, count, events, rate) as (pipe, _):
        yield pipe
        pipe.send("done")


@contextmanager
def _process(target: Any, *arguments: Any) -> Iterator[tuple[Connection, Any]]:
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=target, args=(theirs, *arguments), daemon=True)
    process.start()
    try:
        yield ours, ours.recv()
    finally:
        process.join(10)
        process.kill()


def _serve(pipe: Connection, count: int) -> None:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    raw = readings(count)
    own = detectors(raw)
    types = EventTypes([*raw, *(detector.publishes[0] for detector in own.values())])
    node = Node("bench", "tcp://127.0.0.1:*", {}, Reporter(Hierarchy(own, timer=time.perf_counter_ns)), types)
    pipe.send(node.address)
    threading.Thread(target=_stop_when_told, args=(pipe, node), daemon=True).start()
    with short_collections():
        node.run()


def _stop_when_told(pipe: Connection, node: Node) -> None:
    pipe.recv()
    node.stop()


def _publish(pipe: Connection, address: str, count: int, events: int, rate: int) -> None:
    types = readings(count)
    with Publisher(address, types=types) as publisher:
        made = [] if rate else [_reading(types, number, time.time_ns() + number) for number in range(events)]
        publisher.flush()
        pipe.send("ready")
        pipe.recv()
        if rate:
            _publish_paced(publisher, types, events, rate)
        for start in range(0, len(made), _BATCH):
            publisher.publish(made[start : start + _BATCH])
        publisher.flush(60)
        pipe.recv()


def _publish_paced(publisher: Publisher, types: list[EventType], events: int, rate: int) -> None:
    """Each tick, the events that have become due."""
    start, every, sent = time.time_ns(), SECOND // rate, 0
    while sent < events:
        due = min(events, (time.time_ns() - start) // every)
        if due > sent:
            publisher.publish([_reading(types, number, start + number * every) for number in range(sent, due)])
            sent = due
        time.sleep(max(0.0, (_TICK - (time.time_ns() - start) % _TICK) / SECOND))


def _reading(types: list[EventType], number: int, ts: int) -> Event:
    """Events of one type have numbers that are not all sampled, or none: types go by turns, shifted each time round."""
    event_type: Any = types[(number + number // len(types)) % len(types)]
    made: Event = event_type(1.0, ts=ts, id=number, source="sensors")
    return made
