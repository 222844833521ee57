"""Benchmark of what it costs to be looked at: the match through its two nodes, with one page open, against the same without.

Nodes, the page with its visitor, and the source are processes of their own. The nodes are fed as fast as they go, so whatever
the page costs them shows. Rounds alternate which of the two goes first.
"""

from __future__ import annotations

import multiprocessing as mp
import statistics
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from multiprocessing.connection import Connection as Pipe
from typing import Any

import psutil

from middleware.link.codec import encode
from middleware.model.errors import RunError
from middleware.model.event import END, type_name
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.cluster import Cluster
from middleware.runtime.scenario import Scenario, load_scenario

_SECONDS = 8.0
_BATCH = 512
_PATIENCE = 120.0
_FEWEST = 8
"""Frames that a page is sent in a round at least, or it was not looked at."""


Batch = tuple[bytes, int, int, list[tuple[str, int, int]]]
"""Encoded positions, how many, the largest time, and who sent them."""


def bench_view(rounds: int) -> list[dict[str, Any]]:
    """Throughput (events/s) with a page open to none, and events by second of the nodes' own processor time.

    The second one is what a machine with too few cores for all the processes does not blur.
    """
    scenario, batches = load_scenario("soccer"), _batches()
    measured: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for number in range(rounds):
        for is_open in (False, True) if number % 2 else (True, False):
            measured[is_open].append(_measured(scenario, batches, is_open))
    return [_entry("observe.view", "events/s", measured, 0), _entry("observe.view.cpu", "events/CPU s", measured, 1)]


def _entry(name: str, unit: str, measured: dict[bool, list[tuple[float, float]]], which: int) -> dict[str, Any]:
    """Medians, and the median of the ratios of each round."""
    with_it, without = ([each[which] for each in measured[kind]] for kind in (True, False))
    ratio = statistics.median(one / other for one, other in zip(with_it, without, strict=True))
    value, baseline = statistics.median(with_it), statistics.median(without)
    return {"name": name, "value": value, "unit": unit, "baseline": baseline, "ratio": ratio}


def _batches() -> list[Batch]:
    from slackline_benchmarks.screenshots import disordered

    events = [event for slice_ in disordered(_SECONDS) for event in slice_]
    parts = [events[at : at + _BATCH] for at in range(0, len(events), _BATCH)]
    return [
        (encode(part), len(part), max(event.ts for event in part), [(event.source, event.id, event.id) for event in part])
        for part in parts
    ]


def _measured(scenario: Scenario, batches: list[Batch], is_open: bool) -> tuple[float, float]:
    """Events by second, and by second of the nodes' processor time, from the first event to the last final."""
    raw = type_name(next(iter(scenario.detectors["Motions"].subscribes)))
    count = sum(each[1] for each in batches)
    with Cluster(scenario, alpha=0.5) as cluster:
        with (
            Subscriber(cluster.addresses["match"], scenario.plan.results, event_types=scenario.types) as subscriber,
            Publisher(cluster.addresses["field"], name="bench", types=[raw]) as publisher,
        ):
            cluster.await_ready(subscriber.wait_ready)
            with _page(cluster, is_open):
                before, start = _nodes_time(), time.perf_counter()
                for records, number, clock, runs in batches:
                    publisher.publish_encoded(raw, records, number, clock, runs)
                publisher.advance(raw, END)
                while subscriber.receive_batch(_PATIENCE).watermarks.get(scenario.plan.results[0]) != END:
                    pass
                took, cpu = time.perf_counter() - start, _nodes_time() - before
        return count / took, count / cpu


def _nodes_time() -> float:
    """Processor time that the nodes have used so far, s: what starting them has cost is not to count."""
    nodes = [each for each in psutil.Process().children() if "node" in each.cmdline()]
    return float(sum(each.cpu_times().user + each.cpu_times().system for each in nodes))


@contextmanager
def _page(cluster: Cluster, is_open: bool) -> Iterator[None]:
    """A page in a process of its own, with a visitor that reads all it is sent; nothing if it is not to be open."""
    if not is_open:
        yield
        return
    ours, theirs = mp.Pipe()
    process = mp.get_context("spawn").Process(target=_serve, args=(theirs, cluster.addresses), daemon=True)
    process.start()
    ours.recv()
    yield
    ours.send("end")
    if (frames := ours.recv()) < _FEWEST:
        raise RunError(f"the page was sent {frames} frames only: nothing was looked at")
    process.join()


def _serve(pipe: Pipe, addresses: dict[str, str]) -> None:
    import threading

    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect

    from middleware.cli.meshes.view import watching
    from middleware.observe.view.server import Page

    with closing(Page("127.0.0.1:0")) as page:
        page.start()
        with watching(page, list(addresses.values()), load_scenario("soccer"), "bench"):
            frames = 0

            def visit() -> None:
                nonlocal frames
                with suppress(ConnectionClosed), connect(page.url.replace("http", "ws") + "live") as visitor:
                    for _ in visitor:
                        frames += 1

            threading.Thread(target=visit, daemon=True).start()
            while not frames:
                time.sleep(0.01)
            pipe.send("open")
            pipe.recv()
            pipe.send(frames)
