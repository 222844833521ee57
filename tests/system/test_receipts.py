"""A publisher learns what became of what it sent, from real nodes that are killed in between; ``pub`` says it to people."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from test_network import DEADLINE, Echo, Hit, Other, hits, node_thread
from test_network_cli import slackline

from middleware.model.change import Insert
from middleware.model.event import Event, EventTypes
from middleware.model.schema import fields_of
from middleware.runtime.clients import Publisher, Receipt, Subscriber
from middleware.runtime.node import Node
from middleware.runtime.storage.late_ledger import Ledger, read_ledger
from middleware.runtime.storage.store import Store

pytestmark = pytest.mark.system

TYPES = EventTypes([Hit])
FIELDS = ", ".join(fields_of(Hit))


@contextmanager
def durable(folder: Path, bind: str = "tcp://127.0.0.1:*") -> Iterator[Node]:
    with node_thread("a", bind, types=TYPES, store=Store(folder, "a"), ledger=Ledger("a", folder)) as node:
        yield node


def test_flush_says_what_was_rejected_and_what_was_a_repeat(tmp_path: Path) -> None:
    with durable(tmp_path) as node, Publisher(node.address) as publisher:
        publisher.publish(hits(0, 10))
        assert publisher.flush(DEADLINE) == Receipt(taken=10)
        assert publisher.flush(DEADLINE) == Receipt(), "it is what has become of what followed the last one"
        publisher.publish([*hits(5, 10), Other(ts=1, id=1, source="o"), Echo(1.5, ts=1, id=2, source="o")])
        publisher.publish(hits(0, 3, text="another"))
        receipt = publisher.flush(DEADLINE)
        assert (receipt.taken, receipt.repeats, receipt.unknown) == (5, 5, 0)
        assert receipt.rejected == {"clash": 3, "unknown type": 2}
        assert not receipt.is_whole
        assert {sample.type for sample in receipt.samples} == {"Hit", "Other", "Echo"}
        with Publisher(node.address) as other:
            other.publish_encoded("Hit", [b"\x96\xa1x\xa0\x01\x02\xa1s\x00"], 1, 1)
            receipt = other.flush(DEADLINE)
            assert receipt.rejected == {"malformed event": 1}
            assert receipt.samples[0].details == "Expected `float`, got `str` - at `$[0][0]`"
        with Publisher(node.address, shares=True) as former:
            swapped = msgspec.defstruct("Hit", [("note", str), ("peak", float)], bases=(Event,), frozen=True, array_like=True)
            former.publish([swapped("", 0.5, ts=1, id=1, source="former")])  # type: ignore[list-item]
            former.publish(hits(50, 1))
            receipt = former.flush(DEADLINE)
            assert (receipt.taken, receipt.rejected) == (1, {"other fields": 1})
            assert receipt.samples[0].details == f"where it is taken, Hit has the fields {FIELDS}, in this order"
    listed = read_ledger(tmp_path)
    assert [(entry.reason, entry.id) for entry in listed] == [("clash", 0), ("clash", 1), ("clash", 2)]
    assert "another" not in listed[0].details and "came first" in listed[0].details


@pytest.mark.parametrize("ends_in_order", [True, False], ids=["with a checkpoint", "from the log alone"])
def test_promises_hold_in_the_next_life_which_still_knows_what_came_first(tmp_path: Path, ends_in_order: bool) -> None:
    with durable(tmp_path / "one") as node, Publisher(node.address) as publisher:
        publisher.publish(hits(0, 200))
        assert publisher.flush(DEADLINE).taken == 200
        if not ends_in_order:  # as the disk is at this moment
            shutil.copytree(tmp_path / "one", tmp_path / "two", ignore=shutil.ignore_patterns("*.lock"))
    folder = tmp_path / ("one" if ends_in_order else "two")
    with durable(folder) as node, Publisher(node.address) as publisher:
        publisher.publish([*hits(0, 150), *hits(150, 50, text="another"), *hits(200, 7)])
        receipt = publisher.flush(DEADLINE)
        assert (receipt.taken, receipt.repeats, receipt.rejected) == (7, 150, {"clash": 50})


def test_a_publisher_that_lives_through_a_crash_counts_nothing_twice_and_says_what_it_cannot_know(tmp_path: Path) -> None:
    with durable(tmp_path) as node:
        bind = node.address
        publisher = Publisher(bind)
        publisher.publish(hits(0, 50))
        assert publisher.flush(DEADLINE).taken == 50
        publisher.publish(hits(50, 50))
    thread = threading.Thread(target=publisher.publish, args=(hits(100, 50),))
    thread.start()
    with durable(tmp_path, bind):
        thread.join()
        receipt = publisher.flush(DEADLINE)
        publisher.close()
    assert receipt.taken + receipt.repeats + receipt.unknown == 100
    assert not receipt.rejected
    assert receipt.unknown in (0, 50), "those that the first life acknowledged when it left"


def lines_of(peak: float) -> str:
    return "\n".join(f'{{"type": "Hit", "peak": {peak}, "ts": {n}}}' for n in range(1, 31))


def test_pub_says_what_was_rejected_and_ends_with_1(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(lines_of(0.5).replace("Hit", "Other"))
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node:
        process = slackline(tmp_path, "pub", node.address, "in.jsonl", "--types-from", "test_network", "--json", "out.json")
        out, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 1, errors
    assert "published 0 of 30 events" in out and "30 rejected: unknown type" in out
    result = json.loads((tmp_path / "out.json").read_text())
    assert (result["taken"], result["rejected"], result["unknown"]) == (0, {"unknown type": 30}, 0)


def test_pub_twice_loses_nothing_and_under_a_name_counts_once(tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_text(lines_of(0.5))
    (tmp_path / "two.jsonl").write_text(lines_of(2.5))

    def pub(address: str, file: str, *options: str) -> tuple[int, str]:
        process = slackline(tmp_path, "pub", address, file, "--types-from", "test_network", *options)
        out, _ = process.communicate(timeout=DEADLINE)
        return process.returncode, out

    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node:
        for file in ("one.jsonl", "two.jsonl", "one.jsonl"):
            assert pub(node.address, file) == (0, "published 30 events; 0 broken records skipped\n")
        assert pub(node.address, "one.jsonl", "--source", "day")[0] == 0
        code, out = pub(node.address, "one.jsonl", "--source", "day")
        assert code == 0 and "30 of them it had before" in out
        code, out = pub(node.address, "two.jsonl", "--source", "day")
        assert code == 1 and "published 0 of 30" in out and "30 rejected: clash" in out


FORGETFUL = """
import sys
from test_network import hits
from middleware.runtime.clients import Publisher
publisher = Publisher(sys.argv[1])
for number in range(500):
    publisher.publish(hits(number, 1))
{end}
"""


@pytest.mark.parametrize("end", ["", "raise RuntimeError"], ids=["ends", "fails"])
def test_a_program_that_ends_without_closing_its_publisher_loses_nothing(end: str) -> None:
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node, Subscriber(node.address, Hit) as subscriber:
        subscriber.wait_ready(DEADLINE)
        script, path = FORGETFUL.format(end=end), os.pathsep.join(sys.path)
        subprocess.run([sys.executable, "-c", script, node.address], env={**os.environ, "PYTHONPATH": path}, check=not end)
        found: list[int] = []
        while len(found) < 500 and (changes := subscriber.receive(DEADLINE)):
            found += [change.event.id for change in changes if isinstance(change, Insert)]
        assert found == list(range(500))
