"""A real node lists what came too late, on disk, before it acknowledges it; what is listed can be fed in again."""

from __future__ import annotations

import multiprocessing as mp
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import pytest
from test_network import DEADLINE, TYPES, Echo, Hit, collect, node_thread, poll_until
from typer.testing import CliRunner

from middleware.cli.late import app
from middleware.clock import SECOND
from middleware.detector import Detector
from middleware.event import END, Event
from middleware.ordering.hierarchy import Hierarchy
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.ledger import Ledger, read_ledger
from middleware.runtime.node import Node
from middleware.runtime.report import Reporter

pytestmark = pytest.mark.system


class Echoing(Detector):
    subscribes, publishes = (Hit,), (Echo,)

    def on_event(self, event: Event) -> Event:
        if event.id == 13:
            raise ValueError("thirteen")
        return Echo(0.5, ts=event.ts)


def run_node(pipe: Pipe, state: Path) -> None:
    ledger = Ledger("a", state)
    reporter = Reporter(Hierarchy([Echoing()]), ledger)
    node = Node("a", "tcp://127.0.0.1:*", None, reporter, TYPES, ledger=ledger)
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
        with Publisher(address, types=[Hit]) as publisher, Publisher(address, types=[Hit]) as liar:
            publisher.publish([hit(100 * SECOND, 1)])
            publisher.flush(DEADLINE)
            publisher.publish([hit(50 * SECOND, 2), hit(101 * SECOND, 3)])
            liar.publish([hit(10**16, 4)])
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
        told = CliRunner().invoke(app, ["replay", str(tmp_path), node.address, "--reason", "late"])
        assert "published 1 events" in told.stdout, told.output
        assert collect(subscriber, 1) == [hit(50 * SECOND, 2)]


def test_what_made_a_detector_raise_is_told_and_listed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    context = mp.get_context("spawn")
    ours, theirs = context.Pipe()
    process: Any = context.Process(target=run_node, args=(theirs, tmp_path), daemon=True)
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
    assert entry.told.endswith("ValueError: thirteen\n")
    log = capfd.readouterr().out
    assert "a detector has raised" in log and "test_late_ledger.py:" in log
    assert "thirteen" not in log, "no payload gets into logs"
