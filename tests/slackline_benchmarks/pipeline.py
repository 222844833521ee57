"""``slackline bench pipeline``: publisher, node and final subscriber over TCP, a process each, beside a bare loop in one.

The publisher sends Event objects in batches of 256 as fast as it may; the subscriber (this process) takes what is final, as
objects, too. ``.columns``: the publisher has tables, and the subscriber takes tables; of 256 rows, and of 4,096 and 65,536.
The node buffers (alpha = 1); ``.early``: it speculates, alpha = 0, and the results go to the same subscriber as they come.
The baseline is the fastest plain loop over the same batches, which encodes nothing and sends nothing. Throughput is by the
clock: three processes on two cores share them. ``.cpu`` is processor time of the node alone, per event, beside that of the
loop.
``pipeline.idle`` is what an idle node takes.
"""

from __future__ import annotations

import gc
import multiprocessing
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from statistics import median
from typing import Any, NamedTuple

import psutil
import pyarrow as pa
from slackline_benchmarks import by_hand
from slackline_benchmarks.sequence import NEGATION, TYPES
from slackline_benchmarks.window_by_key import averages
from slackline_benchmarks.workload import (
    ALARM,
    EVENTS,
    Alarm,
    Average,
    Found,
    Reading,
    batches,
    delayed,
    readings,
    tagged,
    timed,
)

from detectors.sequence.sequence_operator import SequenceQuery
from middleware.model.block.block import Block
from middleware.model.change import grouped
from middleware.model.detector import Detector
from middleware.model.event import END, Event, EventTypes
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.policies import Policies
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.loop.garbage import short_collections
from middleware.runtime.node import Node

BATCH = 256
EARLY = ".early"
FORMS = ("", ".columns", ".columns@4096", ".columns@65536", f".columns@4096{EARLY}")
"""As rows; as tables, of as many events as a batch of rows has, or of more."""

IDLE = 0.5
"""What an idle node may take, per cent of a core."""

PATIENCE = 120.0
"""The subscriber stops after so many seconds without a result."""


class Alarms(Detector):
    """An exponentially smoothed value by sensor; an alarm as it rises above the limit."""

    subscribes, publishes, key = (Reading,), (Alarm,), "sensor"

    def __init__(self) -> None:
        self.smoothed = 0.0

    def on_event(self, event: Reading) -> Alarm | None:
        before = self.smoothed
        self.smoothed = smoothed = before + 0.2 * (event.value - before)
        return Alarm(event.sensor, smoothed, ts=event.ts) if smoothed > ALARM >= before else None


class Task(NamedTuple):
    """What is measured: made in each process anew."""

    detector: Callable[[], Detector]
    events: Callable[[int], list[Event]]
    result: type[Event]
    loop: Callable[[list[list[Any]]], Any]


TASKS = {
    "detector": Task(Alarms, readings, Alarm, by_hand.alarms),
    "sequence": Task(lambda: SequenceQuery(NEGATION, TYPES, "Bench"), tagged, Found, by_hand.negation),
    "window": Task(averages, readings, Average, by_hand.windows),
}


class Run(NamedTuple):
    """Seconds from the first event to the last result; of the node's processor; and the results."""

    seconds: float
    cpu: float
    results: int


def bench_pipeline(rounds: int, events: int = EVENTS) -> list[dict[str, Any]]:
    """Events per second from publisher to final subscriber, and processor time of the node (ns an event)."""
    entries = []
    for name, form in [(name, form) for name in TASKS for form in FORMS]:
        task = TASKS[name]
        given = batches(delayed(task.events(events)), BATCH)
        runs = [(run(name, events, form), timed(lambda t=task, g=given: t.loop(g))) for _ in range(rounds)]  # type: ignore[misc]
        for suffix, unit, value, baseline, ratio in (
            (
                "",
                "events/s",
                [events / ours.seconds for ours, _ in runs],
                [events / bare for _, bare in runs],
                [bare / ours.seconds for ours, bare in runs],
            ),
            (
                ".cpu",
                "ns/event",
                [ours.cpu / events * 1e9 for ours, _ in runs],
                [bare / events * 1e9 for _, bare in runs],
                [ours.cpu / bare for ours, bare in runs],
            ),
        ):
            of = {"value": median(value), "unit": unit, "baseline": median(baseline), "ratio": median(ratio)}
            entries.append({"name": f"pipeline.{name}{form}{suffix}", **of})
    spent = median(idle() for _ in range(rounds))
    return [*entries, {"name": "pipeline.idle", "value": spent, "unit": "% of a core", "baseline": IDLE, "ratio": spent / IDLE}]


def run(name: str, events: int, form: str = "") -> Run:
    """One run of a task through sockets, in one of FORMS."""
    context = multiprocessing.get_context("spawn")
    (node, of_node), (source, of_source) = context.Pipe(), context.Pipe()
    serving = context.Process(target=_serve, args=(of_node, name, float(not form.endswith(EARLY))), daemon=True)
    serving.start()
    address = node.recv()
    publishing = context.Process(target=_publish, args=(of_source, address, name, events, form), daemon=True)
    publishing.start()
    try:
        source.recv()
        with Subscriber(address, [TASKS[name].result], consistency="final", patience=PATIENCE) as subscriber:
            subscriber.wait_ready(PATIENCE)
            gc.collect()
            start, results = time.perf_counter(), 0
            source.send("go")
            while not subscriber.has_ended:
                if form:
                    results += subscriber.receive_table(PATIENCE).num_rows
                else:
                    results += sum(len(delta.inserts) for delta in subscriber.receive_batch(PATIENCE).deltas.values())
            seconds = time.perf_counter() - start
        node.send("stop")
        return Run(seconds, node.recv(), results)
    finally:
        for process in (publishing, serving):
            process.terminate()
            process.join()


def idle(settling: float = 3.0, seconds: float = 10.0) -> float:
    """Per cent of a core that an idle node takes, all threads, while a publisher and a subscriber stay attached."""
    context = multiprocessing.get_context("spawn")
    node, of_node = context.Pipe()
    serving = context.Process(target=_serve, args=(of_node, "detector"), daemon=True)
    serving.start()
    address = node.recv()
    try:
        with Subscriber(address, [Alarm]) as subscriber, Publisher(address, types=[Reading]) as publisher:
            subscriber.wait_ready(PATIENCE)
            publisher.publish(readings(BATCH))
            publisher.flush(PATIENCE)
            process = psutil.Process(serving.pid)
            time.sleep(settling)
            before = sum(process.cpu_times()[:2])
            time.sleep(seconds)
            return float(100 * (sum(process.cpu_times()[:2]) - before) / seconds)
    finally:
        serving.terminate()
        serving.join()


def _publish(pipe: Connection, address: str, name: str, events: int, form: str) -> None:
    task = TASKS[name]
    ordered = task.events(events)
    given = batches(delayed(ordered), int(form.removesuffix(EARLY).partition("@")[2] or BATCH))
    tables = [_tables(batch) for batch in given] if form else []
    gc.freeze()
    types = {type(event) for event in ordered}
    with Publisher(address, types=types, patience=PATIENCE) as publisher:
        pipe.send("ready")
        pipe.recv()
        for batch in given if not form else ():
            publisher.publish(batch)
        for each in tables:
            publisher.publish_tables(each)
        publisher.advance(types, END)
        publisher.flush(PATIENCE)
        pipe.recv()


def _tables(events: list[Event]) -> dict[type[Event], Any]:
    """The events as a table for each type, with their order of arrival."""
    tables = {}
    for delta in grouped(events).values():
        kind = type(delta.inserts[0])
        arrivals = delta.arrival_order if delta.arrival_order is not None else range(len(delta.inserts))
        tables[kind] = Block.from_events(kind, delta.inserts).batch.append_column("arrival", pa.array(arrivals, pa.int64()))
    return tables


def _serve(pipe: Connection, name: str, alpha: float = 1.0) -> None:
    import structlog

    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    detector = TASKS[name].detector()
    types = EventTypes([*detector.subscribes, *detector.publishes])
    if name == "sequence":
        types = EventTypes(TYPES)
    processor = Hierarchy({"Bench": detector}, policies=Policies(alpha=alpha), timer=time.perf_counter_ns)
    node = Node("bench", "tcp://127.0.0.1:*", processor=processor, types=types)
    threading.Thread(target=_stop, args=(pipe, node), daemon=True).start()
    pipe.send(node.address)
    pa.array(pa.array([0]).to_pylist())  # what Arrow loads once in the life of a process, pandas among it, is loaded
    gc.collect()
    began = time.process_time()
    with short_collections():
        node.run()
    pipe.send(time.process_time() - began)


def _stop(pipe: Connection, node: Node) -> None:
    pipe.recv()
    node.stop()
