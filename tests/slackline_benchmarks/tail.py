"""Benchmarks of what waits: results of a node under a steady load, with a log and without, its longest pause, and a restart.

``durability.tail``: the latency (ms) that 1 % of results exceed, of a node that keeps a log beside one that keeps none;
``durability.worst``: the largest. ``durability.pause``: the largest with 100,000 keys, while checkpoints are made of them.
``durability.restart``: how many seconds a node with 1,000,000 keys needs to take up its checkpoint, beside 10;
``durability.restart.cpu``: the same by processor time, which is what it is on a machine with nothing else to do.
``durability.20k.p99`` and ``.p99.9``, ``durability.100k.p99`` and ``.p99.9``: the latencies (ms) that 1 % and 0.1 % exceed with
10,000 keys, at 20,000 and 100,000 events per second, beside the node without a log, in one run of 3 s for each round: 15 s by
default, three minutes with ``--rounds 60``. The node has a process of its own, as always; latency counts from when an event was
due, so that nothing that waits is missed. A machine that runs anything else adds its own pauses, to the baseline as well: judge
by pairs, or give the benchmark a real-time priority (``chrt -r 5 slackline bench durability``).

Aims: tail at most 20 ms and 3 times that without a log; worst at most 100 ms, pause 50 ms, restart 10 s; p99 20 ms, p99.9 60.
Latencies are of results, from the clock of this process to its clock: what the publisher and the reader in it, and whatever
else runs on the machine, keep waiting counts too, in the baseline as well. They are of one run of 12 s each, if nothing else is
reported, and omit the load before it.
The detector has a key; what a checkpoint takes of other state stands in decision 033.
"""

from __future__ import annotations

import gc
import multiprocessing
import resource
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from middleware.broker.broker import Broker
from middleware.broker.log.log import Log
from middleware.durability.durable_core import DurableCore
from middleware.durability.state_encoding import uncollected
from middleware.model.change import Batch, Delta, Insert
from middleware.model.detector import Detector
from middleware.model.event import Event, EventTypes
from middleware.model.time import MILLISECOND, SECOND
from middleware.ordering.hierarchy import Hierarchy
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.loop import durable_runner
from middleware.runtime.loop.durable_runner import DurableRunner
from middleware.runtime.loop.garbage import short_collections
from middleware.runtime.node import Node
from middleware.runtime.report import Reporter
from middleware.runtime.storage.store import Store

RATE = 20_000
KEYS = 100_000

MANY = 1_000_000

_FEW = 50
_SAMPLED = 10
"""Every so-manieth reading has a result."""

_LONG, _LONG_KEYS, _LONG_RATES = 3.0, 10_000, {"20k": 20_000, "100k": 100_000}
"""Seconds for each round; the keys; and the rates, events per second."""

_MOST_PAIRS = 3
"""Rounds of the rows that take half a minute each, at most: a benchmark nobody waits for is not run."""

_RESTART = 10.0
_SECONDS = 12.0
_TICK = 5 * MILLISECOND
_BETWEEN = 2 * SECOND
"""Work between two checkpoints: less than usual, so that a short run sees several."""


class Reading(Event):
    """What is measured somewhere."""

    place: int
    value: float


class Total(Event):
    """The sum of all that was measured there."""

    place: int
    total: float


class Totals(Detector):
    """Sums by place, printed now and then: often enough to see what waits, and so that no client is what is measured."""

    subscribes, publishes, key = (Reading,), (Total,), "place"

    def __init__(self) -> None:
        self.total = 0.0

    def on_event(self, event: Reading) -> Total | None:
        self.total += event.value
        return Total(event.place, self.total, ts=event.ts) if event.id % _SAMPLED == 0 else None


TYPES = EventTypes([Reading, Total])


def bench_tail(rounds: int) -> list[dict[str, Any]]:
    """The rows, each the median of ``rounds``, but of 3 at most; disk and memory in turn. The restart is measured once."""
    few, many = ([_pair(keys) for _ in range(min(rounds, _MOST_PAIRS))] for keys in (_FEW, KEYS))
    with TemporaryDirectory(prefix="slackline-bench-") as folder:
        restarted = restart(Path(folder), MANY)
    return [
        _entry("durability.tail", few, 0.99),
        _entry("durability.worst", few, 1.0),
        _entry("durability.pause", many, 1.0),
        *bench_long(rounds * _LONG),
        *(
            {"name": f"durability.restart{kind}", "value": spent, "unit": "s", "baseline": _RESTART, "ratio": spent / _RESTART}
            for kind, spent in zip(("", ".cpu"), restarted, strict=True)
        ),
    ]


def bench_long(seconds: float) -> list[dict[str, Any]]:
    """What few results exceed in a run of so many seconds, at two rates."""
    entries = []
    for name, rate in _LONG_RATES.items():
        pairs = [_pair(_LONG_KEYS, seconds, rate)]
        entries += [_entry(f"durability.{name}.p{share:g}", pairs, share / 100) for share in (99, 99.9)]
    return entries


def _pair(keys: int, seconds: float = _SECONDS, rate: int = RATE) -> tuple[Waits, Waits]:
    memory = run(None, keys, seconds, rate)
    with TemporaryDirectory(prefix="slackline-bench-") as folder:
        return run(Path(folder), keys, seconds, rate), memory


def _entry(name: str, pairs: list[tuple[Waits, Waits]], share: float) -> dict[str, Any]:
    values = [(disk.quantile(share), memory.quantile(share)) for disk, memory in pairs]
    value, base = (statistics.median(each) for each in zip(*values, strict=True))
    ratio = statistics.median(disk / memory for disk, memory in values)
    return {"name": name, "value": value, "unit": "ms", "baseline": base, "ratio": ratio}


class Waits(msgspec.Struct):
    """Latencies of one run, ns, in order of size; the largest resident size of the node, and that before the load (bytes)."""

    latencies: list[int]
    memory: int
    before: int

    def quantile(self, share: float) -> float:
        """In ms."""
        return self.latencies[min(int(share * len(self.latencies)), len(self.latencies) - 1)] / MILLISECOND


def run(folder: Path | None, keys: int, seconds: float = _SECONDS, rate: int = RATE) -> Waits:
    """Feed a node in a process of its own with readings of so many places; how long their totals take."""
    with _node(folder) as (address, pipe):
        subscriber = Subscriber(address, [Total])
        subscriber.wait_ready(10)
        with subscriber, Publisher(address, types=[Reading]) as publisher:
            latencies: list[int] = []
            before_it, in_all = (len(range(0, count, _SAMPLED)) for count in (keys, keys + int(rate * seconds)))
            listener = threading.Thread(target=_listen, args=(subscriber, before_it, in_all, latencies))
            listener.start()
            for start in range(0, keys, 1_000):  # in order, as all that follows: what waits, waits for no slack
                now = time.time_ns() - start
                publisher.publish([_reading(place, place, now + place) for place in range(start, min(start + 1_000, keys))])
            publisher.flush(120)
            pipe.send("memory")
            before = pipe.recv()
            gc.collect()
            gc.disable()
            _feed(publisher, keys, seconds, rate)
            gc.enable()
            publisher.flush(60)
            listener.join(60)
        pipe.send("memory")
        return Waits(sorted(latencies), pipe.recv(), before)


def _reading(place: int, number: int, ts: int) -> Reading:
    return Reading(place, 1.0, ts=ts, id=number, source="sensors")


def _feed(publisher: Publisher, keys: int, seconds: float, rate: int) -> None:
    """Readings at their rate, each tick those that have become due."""
    rng = Random(7)
    start, sent, every = time.time_ns(), 0, SECOND // rate
    total = int(rate * seconds)
    while sent < total:
        due = min(total, (time.time_ns() - start) // every)
        if due > sent:
            publisher.publish([_reading(rng.randrange(keys), keys + at, start + at * every) for at in range(sent, due)])
            sent = due
        time.sleep(max(0.0, (_TICK - (time.time_ns() - start) % _TICK) / SECOND))


def _listen(subscriber: Subscriber, skip: int, count: int, latencies: list[int]) -> None:
    came = 0
    while came < count:
        changes = subscriber.receive(30)
        now = time.time_ns()
        if not changes:
            return
        for change in changes:
            if isinstance(change, Insert):
                came += 1
                if came > skip:
                    latencies.append(now - change.event.ts)


def restart(folder: Path, keys: int) -> tuple[float, float]:
    """Seconds from opening the store of a node with so many keys to when it has taken up its checkpoint; of processor, too."""
    store = Store(folder, "bench")
    hierarchy = Hierarchy([Totals()])
    now = time.time_ns()
    with uncollected():
        for start in range(0, keys, 1_000):
            readings: list[Event] = [_reading(place, place, now + place) for place in range(start, min(start + 1_000, keys))]
            hierarchy.process(Batch({"Reading": Delta(readings)}, {}, now + start))
        broker = _broker(store, hierarchy)
        core = DurableCore(broker, hierarchy, TYPES)
        core.checkpoint_due = True
        _, write = core.settle(0)
        if write is not None:
            store.write(write)
        while core.checkpointing:
            if (piece := core.resume(1_000)) is not None:
                store.write(piece)
        store.close()
        del hierarchy, core, broker
    gc.collect()
    began, worked = time.monotonic(), time.process_time()
    store = Store(folder, "bench")
    hierarchy = Hierarchy([Totals()])
    DurableRunner(_broker(store, hierarchy), hierarchy, TYPES, store)
    spent, work = time.monotonic() - began, time.process_time() - worked
    store.close()
    (statistics_of,) = hierarchy.statistics()
    assert statistics_of.keys == keys
    return spent, work


def _broker(store: Store, hierarchy: Hierarchy) -> Broker:
    reads, makes = hierarchy.subscriptions, hierarchy.publications
    log = Log(store.line, store.read)
    return Broker("bench", store.epoch, 0, types=TYPES, subscriptions=reads, publications=makes, log=log)


@contextmanager
def _node(folder: Path | None) -> Iterator[tuple[str, Connection]]:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, folder), daemon=True)
    process.start()
    try:
        yield here.recv(), here
    finally:
        here.send("stop")
        process.join()


def _serve(pipe: Connection, folder: Path | None) -> None:
    durable_runner.TARGET = _BETWEEN
    store = Store(folder, "bench") if folder is not None else None
    processor = Reporter(Hierarchy([Totals()], timer=time.perf_counter_ns))
    node = Node("bench", "tcp://127.0.0.1:*", {}, processor, TYPES, store=store)
    pipe.send(node.address)
    asked = threading.Thread(target=_answer, args=(pipe, node), daemon=True)
    asked.start()
    with short_collections():
        node.run()


def _answer(pipe: Connection, node: Node) -> None:
    while pipe.recv() == "memory":
        pipe.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    node.stop()
