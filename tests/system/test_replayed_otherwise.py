"""Logs that are replayed at another alpha than that of life, or by other detectors: finals are right, and published once.

A copy of a quiet node's folder stands for what a kill leaves.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from slackline import END, Detector, Event, Insert, Policies
from test_network import DEADLINE, node_thread, poll_until

from middleware.model.event import EventTypes
from middleware.model.time import SECOND
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.slack.kslack import FixedSlack
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.node import Node
from middleware.runtime.storage.store import Store

pytestmark = pytest.mark.system


class Tick(Event):
    number: int


class Mid(Event):
    number: int
    of: int = 0


class Out(Event):
    number: int
    count: int


TYPES = EventTypes([Tick, Mid, Out])


def mids(name: str, version: int = 1) -> Detector:
    """A detector of this name that says each tick again."""

    class Mids(Detector):
        subscribes, publishes = (Tick,), (Mid,)

        def on_event(self, event: Tick) -> Mid:
            return Mid(event.number, self.version, ts=event.ts)

    Mids.__name__ = Mids.__qualname__ = name
    Mids.version = version
    return Mids()


class Gaps(Detector):
    subscribes, publishes = (Tick,), (Mid,)

    def __init__(self) -> None:
        self.last = 0

    def on_event(self, event: Tick) -> Mid | None:
        gap, self.last = event.number - self.last, event.number
        return Mid(event.number, gap, ts=event.ts) if gap > 1 else None


class CountsMids(Detector):
    subscribes: tuple[type[Event], ...] = (Mid,)
    publishes = (Out,)

    def __init__(self) -> None:
        self.count = 0

    def on_event(self, event: Mid | Tick) -> Out:
        self.count += 1
        return Out(event.number, self.count, ts=event.ts)


class CountsTicks(CountsMids):
    subscribes = (Tick,)


@contextmanager
def node(folder: Path, detectors: list[Detector], alpha: float | None = None, rebuild: bool = False) -> Iterator[Node]:
    policies = None if alpha is None else Policies(alpha=alpha, slack=lambda: FixedSlack(5 * SECOND))
    processor, store = Hierarchy(detectors, policies=policies), Store(folder, "a")
    with node_thread("a", "tcp://127.0.0.1:*", processor=processor, types=TYPES, store=store, rebuild=rebuild) as running:
        yield running


@contextmanager
def reader(at: Node, result: type[Event], name: str) -> Iterator[Subscriber]:
    with Subscriber(at.address, result, event_types=TYPES, consistency="final", resume=name) as subscriber:
        subscriber.wait_ready(DEADLINE)
        yield subscriber


@contextmanager
def clients(at: Node, result: type[Event], name: str = "finals") -> Iterator[tuple[Publisher, Subscriber]]:
    with Publisher(at.address, name="feeder", types=[Tick]) as publisher, reader(at, result, name) as subscriber:
        yield publisher, subscriber


def ticks(*numbers: int) -> list[Event]:
    return [Tick(number, ts=number * SECOND, id=number, source="s") for number in numbers]


def say(publisher: Publisher, *numbers: int) -> None:
    """Each in a step of its own."""
    for tick in ticks(*numbers):
        publisher.publish([tick])
        publisher.flush(DEADLINE)


def finals(subscriber: Subscriber, count: int | None = None) -> list[Event]:
    """So many, or all up to the end."""
    found: list[Event] = []

    def is_over() -> bool:
        found.extend(change.event for change in subscriber.receive(0.1) if isinstance(change, Insert))
        return subscriber.has_ended if count is None else len(found) >= count

    poll_until(is_over, "finals")
    subscriber.commit()
    return found


def killed(folder: Path) -> Path:
    """The folder as a kill now would leave it."""
    return Path(shutil.copytree(folder, folder.with_name(f"{folder.name} killed")))


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_a_result_that_a_replay_makes_before_its_reader_came_stays(tmp_path: Path, alpha: float) -> None:
    with node(tmp_path / "a", [mids("Mids")], alpha=1.0) as a, Publisher(a.address, name="feeder", types=[Tick]) as publisher:
        say(publisher, 1, 10)  # the second waits
        with clients(a, Mid) as (_, subscriber):
            say(publisher, 17)  # now it is published, and somebody wants it
            poll_until(lambda: bool(subscriber.receive(0.1)) or subscriber.position > 0, "the log has it")
            folder = killed(tmp_path / "a")
    with node(folder, [mids("Mids")], alpha=alpha) as a, clients(a, Mid) as (publisher, subscriber):
        publisher.advance(Tick, END)
        assert [event.number for event in finals(subscriber)] == [10, 17]  # type: ignore[attr-defined]
        assert not subscriber.statistics().violations


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_a_result_that_was_withdrawn_before_the_kill_is_not_put_back(tmp_path: Path, alpha: float) -> None:
    with node(tmp_path / "a", [Gaps()], alpha=0.0) as a, Publisher(a.address, name="feeder", types=[Tick]) as publisher:
        say(publisher, 1, 3)  # a gap, which nobody reads
        with clients(a, Mid):
            say(publisher, 2)  # there is none
            folder = killed(tmp_path / "a")
    with node(folder, [Gaps()], alpha=alpha) as a, clients(a, Mid) as (publisher, subscriber):
        publisher.advance(Tick, END)
        assert finals(subscriber) == []


@pytest.mark.parametrize(("name", "version"), [("Ups", 2), ("Others", 1)])
def test_a_detector_that_was_changed_or_renamed_leaves_nothing_late_for_those_above(
    tmp_path: Path, name: str, version: int
) -> None:
    with node(tmp_path / "a", [mids("Ups"), CountsMids()]) as a, Publisher(a.address, name="feeder", types=[Tick]) as publisher:
        publisher.advance(Tick, 2 * SECOND)
        say(publisher, 3)
        for first in range(1, 31, 3):
            say(publisher, first + 5, first + 3, first + 4)
            publisher.advance(Tick, (first + 5) * SECOND)
    detectors = [mids(name, version), CountsMids()]
    with node(tmp_path / "a", detectors, rebuild=True) as a, clients(a, Out) as (publisher, subscriber):
        publisher.publish(ticks(100))
        publisher.advance(Tick, END)
        assert [(event.number, event.count) for event in finals(subscriber)] == [(100, 32)]  # type: ignore[attr-defined]


def test_a_detector_that_was_away_gets_what_came_after_an_end_meanwhile(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    for is_there, first in ((True, 1), (False, 11), (True, 21)):
        detectors = [mids("Mids"), CountsTicks()] if is_there else [mids("Mids")]
        with node(tmp_path / "a", detectors, rebuild=first > 1) as a, clients(a, Out) as (publisher, subscriber):
            say(publisher, first, first + 1)
            publisher.advance(Tick, END)
            publisher.flush(DEADLINE)
            if is_there:  # the stream of the life before has ended, and resumes
                calls += [(event.number, event.count) for event in finals(subscriber, 2 if first == 1 else 4)]  # type: ignore[attr-defined]
    assert calls == [(1, 1), (2, 2), (11, 3), (12, 4), (21, 5), (22, 6)]


def test_what_was_final_of_a_detector_stays_when_another_takes_its_place(tmp_path: Path) -> None:
    with (
        node(tmp_path / "a", [mids("Ups")]) as a,
        clients(a, Mid, "one") as (publisher, one),
        reader(a, Mid, "two") as two,
    ):
        say(publisher, 1, 2)
        publisher.advance(Tick, 2 * SECOND)
        assert len(finals(two, 2)) == 2
        two.close()
        say(publisher, 3, 4, 5)
        publisher.advance(Tick, 5 * SECOND)
        assert len(finals(one, 5)) == 5
    with (
        node(tmp_path / "a", [mids("Others", 2)], rebuild=True) as a,
        clients(a, Mid, "one") as (publisher, one),
        reader(a, Mid, "two") as two,
    ):
        say(publisher, 6, 7)
        publisher.advance(Tick, END)
        later = [("Others", 6), ("Others", 7)]
        assert [(event.source, event.number) for event in finals(one)] == later  # type: ignore[attr-defined]
        assert [(event.source, event.number) for event in finals(two)] == [  # type: ignore[attr-defined]
            ("Ups", 3),
            ("Ups", 4),
            ("Ups", 5),
            *later,
        ]
