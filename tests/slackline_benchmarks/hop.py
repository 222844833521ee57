"""Benchmark of one hop: publish -> node -> subscriber, against plain ZeroMQ moving the same encoded batches.

Source, middle and sink are three processes. The baseline's middle is ZeroMQ's own proxy (a loop in C, PULL to PUSH), so
nothing plainer can stand there. Both sinks leave the events encoded: what a broker adds is what is measured.
"""

from __future__ import annotations

import multiprocessing as mp
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection as Pipe
from typing import Any

import zmq

from middleware.link.codec import encode
from middleware.model.event import Event, EventTypes
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.node import Node

BATCH = 512
"""Events in a batch: what a sensor recording gives in a quarter of a second at 2 kHz."""

_BATCHES = 4_000
_PINGS = 300
_SOURCE = "bench"


class Reading(Event):
    """What the benchmark moves: a reading of a moving transmitter."""

    x: float
    y: float
    z: float
    speed: float


_NAME = Reading.__name__


def _batch(first: int, count: int) -> bytes:
    return encode([Reading(1.5, 2.5, 3.5, 4.5, ts=1_000 + n, id=n, source=_SOURCE) for n in range(first, first + count)])


def bench_hop(rounds: int) -> list[dict[str, Any]]:
    """Median throughput (events/s) and latency (us, one event there and back) over ``rounds``, baseline interleaved.

    ``ratio`` is candidate over baseline: of throughput higher is better, of latency lower.
    """
    context = mp.get_context("spawn")
    rates: dict[str, list[float]] = {"node": [], "plain": []}
    delays: dict[str, list[float]] = {"node": [], "plain": []}
    for _ in range(rounds):
        for kind, middle, measure in (("plain", _plain_middle, _measure_plain), ("node", _node_middle, _measure_node)):
            ours, theirs = context.Pipe()
            process = context.Process(target=middle, args=(theirs,), daemon=True)
            process.start()
            try:
                rate, delay = measure(ours.recv(), context)
            finally:
                process.terminate()
                process.join()
            rates[kind].append(rate)
            delays[kind].append(delay)
    return [
        _entry("hop.throughput", "events/s", rates),
        _entry("hop.latency", "us", delays),
    ]


def _entry(name: str, unit: str, measured: dict[str, list[float]]) -> dict[str, Any]:
    value, baseline = (statistics.median(measured[kind]) for kind in ("node", "plain"))
    return {"name": name, "value": value, "unit": unit, "baseline": baseline, "ratio": value / baseline}


def _node_middle(pipe: Pipe) -> None:
    import structlog

    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    node = Node("hop", "tcp://127.0.0.1:*", types=EventTypes([Reading]))
    pipe.send(node.address)
    node.run()


def _plain_middle(pipe: Pipe) -> None:
    context = zmq.Context()
    front, back = context.socket(zmq.PULL), context.socket(zmq.PUSH)
    ports = [socket.bind_to_random_port("tcp://127.0.0.1") for socket in (front, back)]
    pipe.send([f"tcp://127.0.0.1:{port}" for port in ports])
    zmq.proxy(front, back)


def _node_source(address: str, pipe: Pipe) -> None:
    batches = [_batch(at * BATCH, BATCH) for at in range(_BATCHES)]
    with Publisher(address, types=[Reading]) as publisher:
        pipe.send("ready")
        pipe.recv()
        for at, batch in enumerate(batches):
            first = at * BATCH
            publisher.publish_encoded(_NAME, batch, BATCH, 1_000 + first + BATCH, [(_SOURCE, first, first + BATCH - 1)])
        publisher.flush()
        pipe.recv()


def _plain_source(address: str, pipe: Pipe) -> None:
    batches = [_batch(at * BATCH, BATCH) for at in range(_BATCHES)]
    with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
        socket.connect(address)
        pipe.send("ready")
        pipe.recv()
        for batch in batches:
            socket.send(batch)
        pipe.recv()


def _timed(context: Any, source: Callable[..., None], address: str, receive: Callable[[], int]) -> float:
    """Events per second at the sink, from the word go."""
    ours, theirs = context.Pipe()
    process = context.Process(target=source, args=(address, theirs), daemon=True)
    process.start()
    ours.recv()
    start, count = time.perf_counter(), 0
    ours.send("go")
    while count < BATCH * _BATCHES:
        count += receive()
    rate = count / (time.perf_counter() - start)
    ours.send("done")
    process.join()
    return rate


def _measure_node(address: str, context: Any) -> tuple[float, float]:
    with Subscriber(address, Reading) as subscriber:
        subscriber.wait_ready()
        rate = _timed(context, _node_source, address, lambda: sum(head.inserts for head, _ in subscriber.receive_encoded()))
        with Publisher(address, types=[Reading]) as publisher:

            def ping(number: int) -> None:
                publisher.publish_encoded(_NAME, _batch(number, 1), 1, number, [(_SOURCE, number, number)])
                while not subscriber.receive_encoded():
                    pass

            return rate, _latency(ping)


def _measure_plain(addresses: list[str], context: Any) -> tuple[float, float]:
    front, back = addresses
    with zmq.Context() as zcontext, zcontext.socket(zmq.PULL) as sink, zcontext.socket(zmq.PUSH) as socket:
        sink.connect(back)

        def receive() -> int:
            sink.recv()
            return BATCH

        rate = _timed(context, _plain_source, front, receive)
        socket.connect(front)

        def ping(number: int) -> None:
            socket.send(_batch(number, 1))
            sink.recv()

        return rate, _latency(ping)


def _latency(ping: Callable[[int], None]) -> float:
    """Median of some pings, in microseconds."""
    took = []
    for at in range(_PINGS):
        start = time.perf_counter()
        ping(_BATCHES * BATCH + at)
        took.append((time.perf_counter() - start) * 1e6)
    return statistics.median(took)
