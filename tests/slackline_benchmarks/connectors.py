"""What benchmarks of connectors share: events and messages, a node beside, a feed and a sink under the clock."""

from __future__ import annotations

import multiprocessing as mp
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec

from middleware.connect.feeding import Feed
from middleware.connect.messages.reading import MessageReader
from middleware.connect.messages.source import Source
from middleware.model.event import Event, EventTypes
from middleware.runtime.clients import Publisher
from middleware.runtime.node import Node
from middleware.runtime.storage.late_ledger import Ledger

EVENTS = 60_000
BATCH = 2_000


class Place(Event):
    """A location, as trackers send it."""

    tag: str
    x: float
    y: float


TYPES = EventTypes([Place])


def row(name: str, rounds: int, count: int, ours: Callable[[int], float], alone: Callable[[int], float]) -> dict[str, Any]:
    """Both in turn; each is given the number of the round, and returns seconds."""
    both = [(count / alone(each), count / ours(each)) for each in range(rounds)]
    value, base = statistics.median(own for _, own in both), statistics.median(other for other, _ in both)
    return {
        "name": name,
        "value": value,
        "unit": "events/s",
        "baseline": base,
        "ratio": statistics.median(own / other for other, own in both),
    }


def place(number: int) -> Place:
    return Place(f"t{number % 50}", number * 0.5, 1.0, ts=10**18 + number, id=number, source="bench", level=1)


def messages(count: int) -> list[bytes]:
    each = map(place, range(count))
    return [msgspec.json.encode({"tag": one.tag, "x": one.x, "y": one.y, "ts": one.ts}) for one in each]


class Fields(msgspec.Struct):
    """What a program without Slackline would decode."""

    tag: str
    x: float
    y: float
    ts: int


@contextmanager
def node() -> Iterator[str]:
    """The address of a node, a process of its own, as it would be."""
    context = mp.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=[theirs], daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        process.terminate()
        process.join()


def _serve(pipe: Connection) -> None:
    node = Node("bench", "tcp://127.0.0.1:*", {}, types=TYPES)
    pipe.send(node.address)
    node.run()


def fed(make: Callable[[], Source], topic: str, folder: Path, count: int) -> float:
    """Seconds until so many messages are acknowledged, from the first on."""
    reader = MessageReader({topic: "Place"}, TYPES)
    with node() as address, Publisher(address, types=[Place]) as publisher, closing(Ledger("bench", folder)) as ledger:
        began, ended = list[float](), list[float]()

        class Counted:
            def __init__(self, source: Source) -> None:
                self.left, self.receive_, self.acknowledge_ = count, source.receive, source.acknowledge

            def receive(self, timeout: float) -> Any:
                messages = self.receive_(timeout)
                if messages and not began:
                    began.append(time.perf_counter())
                return messages

            def acknowledge(self, messages: Any) -> None:
                self.acknowledge_(messages)
                self.left -= len(messages)
                ended[:] = [time.perf_counter()]

            def close(self) -> None:
                pass

        with closing(make()) as source:
            counted = Counted(source)
            Feed(publisher, reader, ledger, lambda: counted.left <= 0).run(counted)
        return ended[0] - began[0]


def taken(take: Callable[[list[Event]], None], count: int = EVENTS) -> float:
    """Seconds for all events, in batches."""
    events: list[Event] = list(map(place, range(count)))
    start = time.perf_counter()
    for at in range(0, len(events), BATCH):
        take(events[at : at + BATCH])
    return time.perf_counter() - start
