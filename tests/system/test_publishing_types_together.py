"""What is published at once reaches the node at once, whatever its types: none makes the others late."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from test_network import DEADLINE

from middleware.delivery.publication import Publication
from middleware.link.codec import Changes, decode_payload
from middleware.model.change import Insert
from middleware.model.detector import Detector
from middleware.model.event import END, Event, EventTypes
from middleware.ordering.hierarchy import Hierarchy
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.node import Node

pytestmark = pytest.mark.system


class Hot(Event):
    text: str = ""


class Cold(Event):
    text: str = ""


class Felt(Event):
    kind: str


class Feeling(Detector):
    subscribes, publishes = (Hot, Cold), (Felt,)

    def on_event(self, event: Hot | Cold) -> Felt:
        return Felt(type(event).__name__, ts=event.ts)


def hot_and_cold(size: int) -> list[Event]:
    """2,000 events in order, of both types in turn, each of this size and a little."""
    text = "x" * size
    return [(Hot if number % 3 else Cold)(text, ts=number * 10**9, id=number, source="s") for number in range(1, 2_001)]


@pytest.mark.parametrize("size", [0, 2_000])
def test_no_frame_speaks_of_what_is_in_a_later_one(size: int) -> None:
    publication = Publication([Hot, Cold])
    frames = [decode_payload(publication.payload_of(frame)) for frame in publication.frames(hot_and_cold(size))]
    assert len(frames) == 1 if not size else len(frames) > 4
    for frame in frames:
        assert isinstance(frame, Changes) and frame.clock == max(head.newest for head in frame.blocks)


@contextmanager
def running() -> Iterator[tuple[Hierarchy, Node]]:
    hierarchy = Hierarchy([Feeling()])
    node = Node("a", "tcp://127.0.0.1:*", processor=hierarchy, types=EventTypes([Hot, Cold, Felt]))
    thread = threading.Thread(target=node.run)
    thread.start()
    yield hierarchy, node
    node.stop()
    thread.join()


@pytest.mark.parametrize("size", [0, 2_000])
def test_no_type_overtakes_another(size: int) -> None:
    events, found = hot_and_cold(size), []
    with (
        running() as (hierarchy, node),
        Subscriber(node.address, Felt, consistency="final") as subscriber,
        Publisher(node.address, types=[Hot, Cold]) as sender,
    ):
        subscriber.wait_ready(DEADLINE)
        sender.publish(events)
        sender.advance([Hot, Cold], END)
        for change in subscriber:
            if isinstance(change, Insert):
                found.append(change.event.ts)
    assert found == [event.ts for event in events]
    (unit,) = hierarchy.units
    assert not unit.late and unit.clock.k == 0, "they came in order"


class Holding(Publisher):
    """Holds whatever is published until it is to say something else, or its thread sends it."""

    pause = 10**19


def test_what_is_held_leaves_without_another_call() -> None:
    with running() as (_, node), Subscriber(node.address, Hot) as subscriber:
        subscriber.wait_ready(DEADLINE)
        with Holding(node.address) as sender:
            for number in range(4):
                sender.publish([Hot(ts=number, id=number, source="s")])
                assert sender.statistics().events == number + 1
                if number < 3:
                    assert inserted(subscriber) == [number]
        assert inserted(subscriber) == [3], "sent as the publisher closes, at the latest"


def test_nothing_overtakes_what_is_held() -> None:
    events, found = hot_and_cold(0)[:400], []
    with (
        running() as (hierarchy, node),
        Subscriber(node.address, Felt, consistency="final") as subscriber,
        Holding(node.address, types=[Hot, Cold]) as sender,
    ):
        subscriber.wait_ready(DEADLINE)
        sender.advance([Hot, Cold], 0)  # from now on nothing becomes final by the clock alone
        for start in range(0, 400, 10):
            last = events[start + 9]
            sender.publish(events[start : start + 10])
            sender.retract(events[start])
            sender.advance([Hot, Cold], last.ts)
            sender.publish([Hot("\x00", ts=last.ts + 1, id=3_000 + start, source="s")])
        assert sender.flush(DEADLINE).taken == 400 + 40 + 40
        sender.advance([Hot, Cold], END)
        for change in subscriber:
            if isinstance(change, Insert):
                found.append(change.event.ts)
    assert found == sorted(
        [*(event.ts for at, event in enumerate(events) if at % 10), *(event.ts + 1 for event in events[9::10])]
    )
    assert not hierarchy.units[0].late


def inserted(subscriber: Subscriber) -> list[int]:
    return [change.event.id for change in subscriber.receive(DEADLINE) if isinstance(change, Insert)]
