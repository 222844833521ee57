"""A real node lists what came too late, on disk, before it acknowledges it; what is listed can be fed in again."""

from __future__ import annotations

import multiprocessing as mp
import sqlite3
import threading
from contextlib import closing
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import pytest
from test_network import DEADLINE, TYPES, Echo, Hit, collect, node_thread, poll_until
from typer.testing import CliRunner

from middleware.cli.questions.late import app
from middleware.model.detector import Detector
from middleware.model.errors import NetworkError
from middleware.model.event import END, Event, EventTypes
from middleware.model.time import SECOND
from middleware.ordering.hierarchy import Hierarchy
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.node import Node
from middleware.runtime.report import Reporter
from middleware.runtime.storage.late_ledger import FILE, SPILL, Ledger, read_ledger
from middleware.runtime.storage.store import Retention, Store

pytestmark = pytest.mark.system


class Echoing(Detector):
    subscribes, publishes = (Hit,), (Echo,)

    def on_event(self, event: Event) -> Event:
        if event.id == 13:
            raise ValueError("thirteen")
        return Echo(0.5, ts=event.ts)


def run_node(pipe: Pipe, state: Path, *, is_bare: bool = True) -> None:
    """A node with nothing around its detectors (``is_bare``), or with what writes its report."""
    hierarchy = Hierarchy([Echoing()])
    processor = hierarchy if is_bare else Reporter(hierarchy)
    node = Node("a", "tcp://127.0.0.1:*", None, processor, TYPES, ledger=Ledger("a", state))
    pipe.send(node.address)
    node.run()


def hit(ts: int, number: int) -> Event:
    return Hit(0.5, ts=ts, id=number, source="ball")


def test_late_events_are_listed_before_they_are_acknowledged_and_can_be_replayed(tmp_path: Path) -> None:
    context = mp.get_context("spawn")
    ours, theirs = context.Pipe()
    process: Any = context.Process(target=run_node, args=(theirs, tmp_path), daemon=True)
    process.start()
    try:
        address = ours.recv()
        with Publisher(address, types=[Hit]) as publisher, Publisher(address, types=[Hit], shares=True) as liar:
            publisher.publish([hit(100 * SECOND, 1)])
            publisher.flush(DEADLINE)
            publisher.publish([hit(50 * SECOND, 2), hit(101 * SECOND, 3)])
            liar.publish([hit(2 * 10**18, 4)])
            liar.flush(DEADLINE)
            publisher.flush(DEADLINE)  # acknowledged: so it is on disk
            process.kill()
    finally:
        process.kill()
        process.join()
    entries = {entry.id: entry for entry in read_ledger(tmp_path)}
    assert {number: (entry.detector, entry.reason) for number, entry in entries.items()} == {
        2: ("Echoing", "late"),
        4: ("", "ahead"),
    }
    assert entries[2].lateness == entries[2].bound - 50 * SECOND > 0 and (entries[2].clk or 0) >= 100 * SECOND
    with node_thread("second", "tcp://127.0.0.1:*", types=TYPES) as node, Subscriber(node.address, Hit) as subscriber:
        subscriber.wait_ready(DEADLINE)
        result = CliRunner().invoke(app, ["replay", str(tmp_path), node.address, "--reason", "late"])
        assert "published 1 events" in result.stdout and result.exit_code == 0, result.output
        assert collect(subscriber, 1) == [hit(50 * SECOND, 2)]
    with node_thread("third", "tcp://127.0.0.1:*", types=EventTypes([Echo])) as node:
        result = CliRunner().invoke(app, ["replay", str(tmp_path), node.address, "--reason", "late"])
        assert (
            "published 0 of 1 events" in result.stdout and "1 rejected: unknown type" in result.stdout and result.exit_code == 1
        )


@pytest.mark.parametrize("is_bare", [True, False])
def test_the_event_at_which_a_detector_raises_is_in_the_ledger_and_in_the_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], is_bare: bool
) -> None:
    context = mp.get_context("spawn")
    ours, theirs = context.Pipe()
    process: Any = context.Process(target=run_node, args=(theirs, tmp_path), kwargs={"is_bare": is_bare}, daemon=True)
    process.start()
    try:
        address = ours.recv()
        with Subscriber(address, [Echo], consistency="final") as subscriber, Publisher(address, types=[Hit]) as publisher:
            subscriber.wait_ready(DEADLINE)
            publisher.publish([hit(SECOND, 1), hit(2 * SECOND, 13), hit(3 * SECOND, 3)])
            publisher.advance(Hit, END)
            publisher.flush(DEADLINE)
            assert [event.ts for event in collect(subscriber, 2)] == [SECOND, 3 * SECOND]
            poll_until(lambda: bool(read_ledger(tmp_path)), "it is listed")
    finally:
        process.kill()
        process.join()
    (entry,) = read_ledger(tmp_path)
    assert (entry.reason, entry.detector, entry.id) == ("failed", "Echoing", 13)
    assert entry.details.endswith("ValueError: thirteen\n")
    log = capfd.readouterr().out
    assert is_bare or ("a detector has raised" in log and "test_late_ledger.py:" in log)
    assert "thirteen" not in log, "no payload gets into logs"


def run_durable(pipe: Pipe, state: Path) -> None:
    store = Store(state, "a", Retention(behind=1))  # a checkpoint after each step
    node = Node("a", "tcp://127.0.0.1:*", types=TYPES, ledger=Ledger("a", state), store=store)
    pipe.send(node.address)
    node.run()


def checkpoint_of(state: Path) -> int:
    with closing(sqlite3.connect(f"{(state / 'log.sqlite').as_uri()}?mode=ro", uri=True)) as log:
        return int(log.execute("SELECT coalesce(MAX(number), 0) FROM checkpoint").fetchone()[0])


def test_a_locked_ledger_holds_nobody_up_and_forgets_nothing(tmp_path: Path) -> None:
    context = mp.get_context("spawn")
    ours, theirs = context.Pipe()
    process: Any = context.Process(target=run_durable, args=(theirs, tmp_path), daemon=True)
    process.start()
    try:
        address = ours.recv()
        with Publisher(address, types=[Hit]) as publisher, closing(locking(tmp_path)):
            publisher.advance([Hit], 1_000)
            publisher.publish([hit(ts, ts) for ts in range(1, 11)])  # late: its publisher breaks its promise
            publisher.flush(DEADLINE)
            listed = checkpoint_of(tmp_path)
            publisher.publish([hit(2_000, 2_000)])
            publisher.flush(DEADLINE)
            poll_until(lambda: checkpoint_of(tmp_path) > listed, "a checkpoint of later")
            process.kill()
            process.join()
    finally:
        process.kill()
        process.join()
    Ledger("a", tmp_path).close()  # the next life; its log need not know any more
    assert [entry.id for entry in read_ledger(tmp_path)] == list(range(1, 11))


def locking(state: Path) -> sqlite3.Connection:
    """As another program that is about to write the ledger."""
    other = sqlite3.connect(state / FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    return other


def test_what_the_disk_refuses_to_list_is_not_acknowledged(tmp_path: Path) -> None:
    state = tmp_path / "state"
    ledger, store = Ledger("a", state), Store(state, "a")
    with (
        node_thread("a", "tcp://127.0.0.1:*", types=TYPES, ledger=ledger, store=store) as node,
        Publisher(node.address, types=[Hit]) as publisher,
    ):
        publisher.advance([Hit], 1_000)
        publisher.flush(DEADLINE)
        with closing(locking(state)):
            (state / SPILL).mkdir()  # and no room beside it
            publisher.publish([hit(1, 1), hit(2_000, 2)])
            with pytest.raises(NetworkError, match="has not taken"):
                publisher.flush(1.0)
        publisher.flush(DEADLINE)
        assert [entry.id for entry in read_ledger(state)] == [1]


class Mark(Event):
    note: str


class Both(Detector):
    subscribes, publishes = (Hit, Mark), (Echo,)

    def on_event(self, event: Event) -> None:
        return None


def test_late_events_of_several_types_are_replayed_in_order_of_time(tmp_path: Path) -> None:
    types = EventTypes([Hit, Mark, Echo])
    with (
        node_thread("a", "tcp://127.0.0.1:*", types=types, ledger=Ledger("a", tmp_path)) as first,
        Publisher(first.address, types=[Hit, Mark]) as publisher,
    ):
        publisher.advance([Hit, Mark], 10**15)
        text = "x" * 900
        hits = [Hit(0.5, text, ts=20 * number * SECOND, id=number, source="ball") for number in range(1, 1_001)]
        marks = [Mark(text, ts=(20 * number + 10) * SECOND, id=number, source="line") for number in range(1, 1_001)]
        publisher.publish([event for pair in zip(hits, marks, strict=True) for event in pair])
        publisher.flush(DEADLINE)
    hierarchy = Hierarchy([Both()])
    with node_thread("b", "tcp://127.0.0.1:*", None, hierarchy, types) as second:
        result = CliRunner().invoke(app, ["replay", str(tmp_path), second.address])
        assert "published 2,000 events" in result.stdout and result.exit_code == 0, result.output
        poll_until(lambda: hierarchy.units[0].received == 2_000, "all have come")
    assert not hierarchy.units[0].late


def test_large_late_events_are_replayed_in_several_batches(tmp_path: Path) -> None:
    with (
        node_thread("a", "tcp://127.0.0.1:*", types=TYPES, ledger=Ledger("a", tmp_path)) as first,
        Publisher(first.address, types=[Hit]) as publisher,
    ):
        publisher.advance([Hit], 10_000)
        publisher.publish([Hit(0.5, "x" * 9_000, ts=number, id=number, source="ball") for number in range(1, 1_025)])
        publisher.flush(DEADLINE)
    with node_thread("b", "tcp://127.0.0.1:*", types=TYPES) as second, Subscriber(second.address, Hit) as subscriber:
        subscriber.wait_ready(DEADLINE)
        got: list[Event] = []
        reader = threading.Thread(target=lambda: got.extend(collect(subscriber, 1_024)), daemon=True)
        reader.start()  # as they come: who does not read holds the publisher up
        result = CliRunner().invoke(app, ["replay", str(tmp_path), second.address])
        assert "published 1,024 events" in result.stdout, result.output
        reader.join(DEADLINE)
        assert [event.id for event in got] == list(range(1, 1_025))
