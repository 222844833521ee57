"""Benchmarks of durability: what a log costs a node, and how fast a killed one is back.

``durability.throughput``: events per second through a node that keeps its log on disk, against one that keeps none, both with
the soccer detectors of the node that is fed. ``durability.recovery``: how many seconds of the match a second of recovery
takes again; ``durability.recovery.cpu``: the same by processor time, which is what it is on a machine with nothing else to do.
The other rows are those of ``bench_tail`` and ``bench_sources``.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from slackline_benchmarks.sources import bench_sources
from slackline_benchmarks.tail import bench_tail

from middleware.broker.broker import Broker
from middleware.broker.log.log import Log
from middleware.model.event import Event, type_name
from middleware.ordering.hierarchy import Hierarchy
from middleware.runtime.clients import Publisher
from middleware.runtime.loop.durable_runner import DurableRunner
from middleware.runtime.node import Node
from middleware.runtime.report import Reporter
from middleware.runtime.scenario import Scenario, load_scenario
from middleware.runtime.storage.store import Store
from scenarios.soccer.match import events as soccer_events

_SECONDS = 3.0
_BATCH = 2_000


def bench_durability(rounds: int) -> list[dict[str, Any]]:
    """All rows, each the median of ``rounds``; disk and memory in turn."""
    scenario = load_scenario("soccer")
    events: list[Event] = list(soccer_events(7, _SECONDS))
    disk: list[float] = []
    memory: list[float] = []
    recovery: list[float] = []
    work: list[float] = []
    for _ in range(rounds):
        memory.append(_throughput(scenario, events, None))
        with _folder() as folder:
            disk.append(_throughput(scenario, events, folder))
            wall, processor = _recovery(scenario, folder)
            recovery.append(wall)
            work.append(processor)
    shares = [one / other for one, other in zip(disk, memory, strict=True)]
    throughput = _entry("durability.throughput", disk, memory, "events/s", shares)
    real_time = [1.0] * rounds
    return [
        throughput,
        _entry("durability.recovery", recovery, real_time, "s of events / s", recovery),
        _entry("durability.recovery.cpu", work, real_time, "s of events / s of processor", work),
        *bench_tail(rounds),
        *bench_sources(),
    ]


def _entry(name: str, values: list[float], baseline: list[float], unit: str, ratios: list[float]) -> dict[str, Any]:
    value, base, ratio = (statistics.median(each) for each in (values, baseline, ratios))
    return {"name": name, "value": value, "unit": unit, "baseline": base, "ratio": ratio}


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="slackline-bench-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _hierarchy(scenario: Scenario) -> Hierarchy:
    return Hierarchy(scenario.detectors, scenario.placement[scenario.entry], scenario.policies(1.0), timer=time.perf_counter_ns)


def _throughput(scenario: Scenario, events: list[Event], folder: Path | None) -> float:
    """Events per second until the node has acknowledged, and so stored, all of them; leaves its files as after a kill."""
    store = Store(folder, "bench") if folder is not None else None
    node = Node("bench", "tcp://127.0.0.1:*", {}, Reporter(_hierarchy(scenario)), scenario.types, store=store)
    thread = threading.Thread(target=node.run)
    thread.start()
    kinds = sorted({type_name(event.__class__) for event in events})
    with Publisher(node.address, types=kinds) as publisher:
        publisher.flush()
        start = time.perf_counter()
        for at in range(0, len(events), _BATCH):
            publisher.publish(events[at : at + _BATCH])
        publisher.flush()
        spent = time.perf_counter() - start
    if store is not None and folder is not None:
        shutil.copytree(folder, folder / "killed", ignore=shutil.ignore_patterns("killed"))  # as it is found after a kill
    node.stop()
    thread.join()
    return len(events) / spent


def _recovery(scenario: Scenario, folder: Path) -> tuple[float, float]:
    """Seconds of the recording that are taken again in a second, and in a second of processor time."""
    store = Store(folder / "killed", "bench")
    reporter = Reporter(_hierarchy(scenario))
    log = Log(store.line, store.read)
    start, worked = time.perf_counter(), time.thread_time()
    reads, makes = reporter.subscriptions, reporter.publications
    broker = Broker("bench", store.epoch, 0, types=scenario.types, subscriptions=reads, publications=makes, log=log)
    runner = DurableRunner(broker, reporter, scenario.types, store)
    spent, worked = time.perf_counter() - start, time.thread_time() - worked
    store.close()
    assert runner.recovered.records, "nothing was recovered"
    return _SECONDS / spent, _SECONDS / worked
