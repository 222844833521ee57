"""One source does not move the clock of others: events far ahead, promises far ahead, and replays beside live data."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from test_network import DEADLINE, Hit, node_thread

from middleware.model.change import Insert
from middleware.model.detector import Detector
from middleware.model.event import Event, EventTypes
from middleware.model.time import MILLISECOND, SECOND
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.policies import Policies
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.node import Node
from middleware.runtime.storage.late_ledger import Ledger, read_ledger
from middleware.runtime.storage.store import Store

pytestmark = pytest.mark.system

HOUR = 3_600 * SECOND
AHEAD = HOUR - 60 * SECOND


class Seen(Event):
    text: str


class Sees(Detector):
    subscribes, publishes = (Hit,), (Seen,)

    def on_event(self, event: Event) -> Event:
        return Seen(event.source, ts=event.ts)


TYPES = EventTypes([Hit, Seen])


@contextmanager
def node(folder: Path, name: str = "a", peers: dict[str, str] | None = None, bind: str = "tcp://127.0.0.1:*") -> Iterator[Node]:
    """A node with a log and a detector."""
    hierarchy = Hierarchy([Sees()], None, Policies())
    with node_thread(
        name, bind, peers or {}, hierarchy, TYPES, store=Store(folder / name, name), ledger=Ledger(name, folder / name)
    ) as started:
        yield started


class Live:
    """An honest publisher, whose events have the time at which they are sent."""

    def __init__(self, publisher: Publisher, source: str = "honest", promises: bool = False) -> None:
        self.publisher, self.source, self.promises, self.sent = publisher, source, promises, 0

    def send(self, count: int = 20) -> None:
        """Send some events, and ask what became of them: each is to be taken."""
        for _ in range(count):
            self.sent += 1
            now = time.time_ns()
            self.publisher.publish([Hit(0.5, ts=now, id=self.sent, source=self.source)])
            if self.promises:
                self.publisher.advance(Hit, now - 1)
        receipt = self.publisher.flush(DEADLINE)
        assert (receipt.taken, receipt.rejected) == (count, {}), "nobody makes them late"


def finals(subscriber: Subscriber, live: Live) -> None:
    """Wait until all that a publisher sent is final and was received: more events move the clock on."""
    seen, ticks = 0, 0
    deadline = time.monotonic() + DEADLINE
    while seen < live.sent:
        assert time.monotonic() < deadline, f"{seen} of {live.sent} are final"
        ticks += 1
        live.publisher.publish([Hit(0.5, ts=time.time_ns(), id=ticks, source=f"ticks of {live.source}")])
        if live.promises:
            live.publisher.advance(Hit, time.time_ns() - 1)
        while changes := subscriber.receive(0.05):
            seen += sum(isinstance(each, Insert) and each.event.text == live.source for each in changes)  # type: ignore[attr-defined]


@pytest.mark.parametrize("promises", [False, True], ids=["by the clock", "by promises"])
def test_one_event_59_minutes_ahead_makes_nothing_late(tmp_path: Path, promises: bool) -> None:
    with ExitStack() as stack:
        here = stack.enter_context(node(tmp_path))
        reader = stack.enter_context(Subscriber(here.address, [Seen], consistency="final"))
        reader.wait_ready(DEADLINE)
        live = Live(stack.enter_context(Publisher(here.address)), promises=promises)
        live.send()
        with Publisher(here.address) as liar:
            liar.publish([Hit(0.5, ts=time.time_ns() + AHEAD, id=1, source="liar")])
            assert liar.flush(DEADLINE).taken == 1, "it waits, and is not lost"
        live.send()
        finals(reader, live)
    assert read_ledger(tmp_path / "a") == []


@pytest.mark.parametrize("ends_in_order", [True, False], ids=["with a checkpoint", "from the log alone"])
def test_it_waits_in_the_next_life_too(tmp_path: Path, ends_in_order: bool) -> None:
    with node(tmp_path / "one") as here, Publisher(here.address) as publisher, Publisher(here.address, name="liar") as liar:
        Live(publisher).send()
        liar.publish([Hit(0.5, ts=time.time_ns() + AHEAD, id=1, source="liar")])
        liar.flush(DEADLINE)
        if not ends_in_order:
            shutil.copytree(tmp_path / "one", tmp_path / "two", ignore=shutil.ignore_patterns("*.lock"))  # as after kill -9
    if ends_in_order:
        shutil.copytree(tmp_path / "one", tmp_path / "two", ignore=shutil.ignore_patterns("*.lock"))
    with (
        node(tmp_path / "two") as here,
        Subscriber(here.address, [Seen], consistency="final") as reader,
        Publisher(here.address) as publisher,
    ):
        reader.wait_ready(DEADLINE)
        assert here.status().withheld["liar"][0] == 1
        live = Live(publisher, "again")
        live.send()
        finals(reader, live)
    assert read_ledger(tmp_path / "two" / "a") == []


def test_the_event_waits_at_another_node_too(tmp_path: Path) -> None:
    with ExitStack() as stack:
        here = stack.enter_context(node(tmp_path))
        there = stack.enter_context(node_thread("b", "tcp://127.0.0.1:*", {"a": here.address}, None, TYPES))
        reader = stack.enter_context(Subscriber(here.address, [Seen], consistency="final"))
        reader.wait_ready(DEADLINE)
        live = Live(stack.enter_context(Publisher(here.address)))
        live.send()
        with Publisher(there.address) as liar:
            liar.publish([Hit(0.5, ts=time.time_ns() + AHEAD, id=1, source="liar")])
            liar.flush(DEADLINE)
        live.send()
        finals(reader, live)
    assert read_ledger(tmp_path / "a") == []


def test_a_promise_a_year_ahead_binds_the_one_who_made_it(tmp_path: Path) -> None:
    with ExitStack() as stack:
        here = stack.enter_context(node(tmp_path))
        liar = stack.enter_context(Publisher(here.address))
        with Publisher(here.address) as publisher:
            Live(publisher).send()
        liar.advance(Hit, time.time_ns() + 365 * 24 * HOUR)  # while the honest publisher is away
        liar.flush(DEADLINE)
        live = Live(stack.enter_context(Publisher(here.address)), "back")
        live.send(10)
        reader = stack.enter_context(Subscriber(here.address, [Seen], consistency="final"))
        reader.wait_ready(DEADLINE)
        live = Live(live.publisher, "later")
        live.send(10)
        finals(reader, live)
    assert read_ledger(tmp_path / "a") == []


def test_a_replay_of_old_events_turns_no_live_event_away(tmp_path: Path) -> None:
    with node(tmp_path) as here, Publisher(here.address) as replay, Publisher(here.address) as publisher:
        live, old = Live(publisher), time.time_ns() - 2 * HOUR
        for number in range(10):
            replay.publish([Hit(0.5, ts=old + number * 200 * MILLISECOND, id=number, source="replay")])
            replay.flush(DEADLINE)
            live.send()
    assert all(entry.source == "replay" for entry in read_ledger(tmp_path / "a"))
