"""``slackline query`` over what a running node publishes."""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from slackline_benchmarks.servers import free_port
from test_network import DEADLINE, node_thread, poll_until
from test_network_cli import finished, slackline

from middleware.model.event import END, EventTypes
from middleware.runtime.clients import Publisher
from scenarios.bookstore.shop import TYPES, Checkout, Exit, Shelf

pytestmark = pytest.mark.system

SECOND = 10**9
QUERY = "EVENT SEQ(Shelf s, !(Checkout c), Exit e) WHERE [tag] WITHIN 1 min RETURN Left(s.tag)"


def test_results_are_withdrawn_when_the_checkout_reports_late(tmp_path: Path) -> None:
    with node_thread("shop", "tcp://127.0.0.1:*", types=EventTypes(TYPES)) as node:
        arguments = ["--types-from", "scenarios.bookstore.shop", "--lateness", "1min", "--changes", "--json", "-"]
        query = slackline(tmp_path, "query", QUERY, node.address, *arguments)
        poll_until(lambda: any(peer.reads for peer in node.statistics().peers), "query has attached")
        with Publisher(node.address) as publisher:
            publisher.publish(
                [Shelf(7, 1, 1, ts=SECOND, id=1, source="shelf"), Shelf(8, 1, 1, ts=2 * SECOND, id=2, source="shelf")]
            )
            publisher.publish(
                [Exit(7, 1, 1, ts=20 * SECOND, id=1, source="gate"), Exit(8, 1, 1, ts=21 * SECOND, id=2, source="gate")]
            )
            publisher.flush()
            lines = [json.loads(query.stdout.readline()) for _ in range(2)]
            publisher.publish([Checkout(8, 1, ts=9 * SECOND, id=1, source="counter")])
            publisher.advance(["shop.Shelf", "shop.Checkout", "shop.Exit"], END)
            publisher.flush()
        lines += map(json.loads, finished(query).splitlines())
    assert sorted((line["change"], line["tag"]) for line in lines) == [("insert", 7), ("insert", 8), ("retract", 8)]


OVEN = """
from slackline import Detector, Event

class Reading(Event):
    machine: str
    celsius: float

class Overheated(Event):
    machine: str
    readings: int

class Overheating(Detector):
    subscribes, publishes, key = (Reading,), (Overheated,), "machine"

    def __init__(self):
        self.hot = 0

    def on_event(self, event):
        self.hot = self.hot + 1 if event.celsius > 90 else 0
        return Overheated(event.machine, self.hot, ts=event.ts) if self.hot == 3 else None
"""
NODES = """
name = "oven"
about = "a node that keeps nothing"
detectors = ["oven:Overheating"]
recording = {{ generate = "oven:none", seconds = 1.0, delay = "uniform(1ms, 80ms)" }}
policies = {{ lateness = "5s" }}
nodes = [{{ name = "a", address = "tcp://127.0.0.1:{port}", detectors = ["*"], durability = "memory" }}]
"""
ASKED = {
    "query": ["query", "EVENT SEQ(Overheated a) RETURN Alarm(a.readings)", "ADDRESS", "--changes"],
    "sql": ["sql", "--connect", "ADDRESS", "-e", "SELECT readings FROM Overheated"],
}


@pytest.mark.parametrize("asked", ASKED)
def test_nothing_is_final_once_changes_are_missing(tmp_path: Path, asked: str) -> None:
    """An early alarm, and then the node, which keeps nothing, is killed before it hears of the reading that takes it back."""
    port = free_port()
    address, module = f"tcp://127.0.0.1:{port}", ["--types-from", "oven"]
    (tmp_path / "oven.py").write_text(OVEN)
    (tmp_path / "nodes.toml").write_text(NODES.format(port=port))
    now = time.time_ns()
    lines = [
        json.dumps({"type": "Reading", "machine": "press", "celsius": heat, "ts": now + n, "id": n, "source": "plc"})
        for n, heat in enumerate((95.0, 96.0, 80.0, 97.0))
    ]
    (tmp_path / "all.jsonl").write_text("\n".join(lines))
    (tmp_path / "some.jsonl").write_text("\n".join(lines[:2] + lines[3:]))
    with ExitStack() as stack:

        def started(*arguments: str) -> subprocess.Popen[str]:
            process = slackline(tmp_path, *arguments)
            stack.callback(process.kill)
            return process

        node = started("node", ".", "a", "--alpha", "0")
        words = [address if each == "ADDRESS" else each for each in ASKED[asked]]
        asking = started(*words, *module, "--results", "finals.jsonl")
        assert "connected to node a" in asking.stderr.readline()
        finished(started("pub", address, "some.jsonl", *module))
        assert "3" in asking.stdout.readline(), "it came early"
        node.kill()
        node.wait(DEADLINE)
        started("node", ".", "a", "--alpha", "0")
        finished(started("pub", address, "all.jsonl", "--end", *module))
        _, errors = asking.communicate(timeout=DEADLINE)
        assert asking.returncode == 1 and "changes are missing" in errors, errors
        assert (tmp_path / "finals.jsonl").read_text() == ""
