"""A reader that keeps its own offset reads the log of a node from there: the same changes in the same order."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from middleware.model.change import Change, Delta, Insert, Watermark
from middleware.model.detector import Detector
from middleware.model.errors import EventError, NetworkError
from middleware.model.event import END, ORDER, Event, EventTypes
from middleware.ordering.hierarchy import Hierarchy
from middleware.runtime.clients import Publisher
from middleware.runtime.clients.log_reader import LogReader, extent
from middleware.runtime.clients.subscriber import Consistency
from middleware.runtime.node import Node
from middleware.runtime.storage.store import Store

pytestmark = pytest.mark.system

DEADLINE = 60.0


class Tick(Event):
    price: int


class Rise(Event):
    by: int


class Rises(Detector):
    subscribes, publishes = (Tick,), (Rise,)

    def __init__(self) -> None:
        self.price = 0

    def on_event(self, event: Tick) -> Rise | None:
        before, self.price = self.price, event.price
        return Rise(event.price - before, ts=event.ts) if event.price > before else None


TYPES = EventTypes([Tick, Rise])
TICKS = [Tick((n * 7) % 31, ts=n * 10**9, id=n, source="exchange") for n in range(1, 1_001)]
DISORDERED = [TICKS[n ^ 3] for n in range(1_000)]


@contextmanager
def durable_node(folder: Path) -> Iterator[Node]:
    node = Node("hub", "tcp://127.0.0.1:*", processor=Hierarchy([Rises()]), types=TYPES, store=Store(folder, "hub"))
    thread = threading.Thread(target=node.run)
    thread.start()
    try:
        yield node
    finally:
        node.stop()
        thread.join(DEADLINE)
        assert not thread.is_alive()


def published(node: Node, ticks: list[Tick], end: bool = False) -> None:
    with Publisher(node.address, types=[Tick]) as publisher:
        for start in range(0, len(ticks), 200):  # blocks that are read as columns, and smaller ones at the end of some ticks
            publisher.publish(ticks[start : start + 200])
            publisher.flush(DEADLINE)
        publisher.advance([Tick], END if end else max(tick.ts for tick in ticks))
        publisher.flush(DEADLINE)


def read(reader: LogReader, offset: int) -> list[Change]:
    """All changes up to an offset of the log."""
    found: list[Change] = []
    while reader.seen < offset:
        found += reader.changes(DEADLINE)
    return [change for change in found if not isinstance(change, Watermark)]


def test_the_log_is_read_from_any_offset_with_the_same_changes_in_the_same_order(tmp_path: Path) -> None:
    with durable_node(tmp_path) as node:
        published(node, DISORDERED)
        held = extent(node.address, Tick, name="r")
        assert held.oldest == 0
        with LogReader(node.address, Tick, (held.line, 0), consistency="early", name="r") as reader:
            whole = read(reader, held.offset)
            assert [change.event for change in whole if isinstance(change, Insert)] == DISORDERED
            assert reader.reached == (held.line, reader.seen, None)
            assert not reader.gaps
        for offset in (1, held.offset // 2, held.offset):
            extent(node.address, Tick, name="r")
            with LogReader(node.address, Tick, (held.line, offset), consistency="early", name="r") as reader:
                rest = read(reader, held.offset)
                assert rest == whole[len(whole) - len(rest) :]
                assert not reader.gaps


def test_the_node_keeps_what_was_not_committed(tmp_path: Path) -> None:
    with durable_node(tmp_path) as node:
        begun = extent(node.address, Tick, resume="sql")
        published(node, DISORDERED)
        end = extent(node.address, Tick, name="other").offset
        with LogReader(node.address, Tick, (begun.line, begun.offset), consistency="early", resume="sql") as reader:
            read(reader, end)
        assert extent(node.address, Tick, resume="sql").offset == begun.offset, "what was read may have to be read again"
        with LogReader(node.address, Tick, (begun.line, begun.offset), consistency="early", resume="sql") as reader:
            read(reader, end)
            reader.commit_at(begun.line, end - 1, None)
        assert any(extent(node.address, Tick, resume="sql").offset == end - 1 for _ in range(200)), "it takes a moment"


@pytest.mark.parametrize("fields", [[("amount", int)], [("price", str)], [("price", int), ("amount", int)]], ids=str)
@pytest.mark.parametrize("consistency", ["early", "final"])
def test_a_class_that_is_not_that_of_the_log_is_an_error(tmp_path: Path, fields: list[Any], consistency: Consistency) -> None:
    other: Any = msgspec.defstruct("Tick", fields, bases=(Event,), frozen=True, array_like=True)
    with durable_node(tmp_path) as node:
        published(node, DISORDERED)
        held = extent(node.address, other, name="r")
        with (
            LogReader(node.address, other, (held.line, 0), consistency=consistency, name="r") as reader,
            pytest.raises(EventError, match=r"no Tick \(.*; take the class with which they were published"),
        ):
            read(reader, held.offset)


def test_finals_resume_after_the_last_one_taken_wherever_that_was(tmp_path: Path) -> None:
    with durable_node(tmp_path) as node:
        held = extent(node.address, Rise, resume="sql")
        published(node, DISORDERED, end=True)
        finals: list[Event] = []
        reached = held.line, held.offset, None
        while True:  # a new reader each time, which has only what the last one wrote down
            line, offset, after = reached
            with LogReader(node.address, Rise, (line, offset), consistency="final", resume="sql", after=after) as reader:
                while not (changes := reader.changes(DEADLINE)):
                    pass
                assert not reader.gaps
                new = [change.event for change in changes if isinstance(change, Insert)]
                finals += new[:200]
                if len(new) <= 200 and reader.watermark == END:
                    break
                reached = (line, offset, ORDER(new[199])) if len(new) > 200 else reader.reached
    price, expected = 0, []
    for tick in TICKS:
        if tick.price > price:
            expected.append((tick.ts, tick.price - price))
        price = tick.price
    assert [(event.ts, event.by) for event in finals if isinstance(event, Rise)] == expected


def test_finals_come_in_columns_each_once_and_in_total_order(tmp_path: Path) -> None:
    with durable_node(tmp_path) as node:
        published(node, DISORDERED[:500])
        published(node, DISORDERED[500:], end=True)
        held = extent(node.address, Tick, name="r")
        deltas: list[Delta] = []
        with LogReader(node.address, Tick, (held.line, 0), consistency="final", name="r") as reader:
            while reader.watermark != END:
                deltas += reader.deltas(DEADLINE)
            assert not reader.gaps
        assert all(delta.columns is not None for delta in deltas)
        assert [event for delta in deltas for event in delta.inserts] == TICKS


def test_an_offset_of_another_log_is_a_gap_and_a_node_without_a_log_says_so(tmp_path: Path) -> None:
    with durable_node(tmp_path) as node:
        published(node, DISORDERED)
        held = extent(node.address, Tick, name="r")
        with LogReader(node.address, Tick, (held.line + 1, 3), consistency="early", name="r") as reader:
            reader.changes(1.0)
            assert reader.gaps == 1
    node = Node("plain", "tcp://127.0.0.1:*", types=TYPES)
    thread = threading.Thread(target=node.run)
    thread.start()
    with pytest.raises(NetworkError, match="keeps no log"):
        extent(node.address, Tick)
    node.stop()
    thread.join(DEADLINE)
