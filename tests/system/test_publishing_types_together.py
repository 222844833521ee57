"""What is published at once reaches the node at once, whatever its types: none makes the others late."""

from __future__ import annotations

import threading

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


class Hot(Event, frozen=True):
    text: str = ""


class Cold(Event, frozen=True):
    text: str = ""


class Felt(Event, frozen=True):
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
    frames = [decode_payload(publication.said(frame)) for frame in publication.frames(hot_and_cold(size))]
    assert len(frames) == 1 if not size else len(frames) > 4
    for frame in frames:
        assert isinstance(frame, Changes) and frame.clock == max(head.newest for head in frame.blocks)


@pytest.mark.parametrize("size", [0, 2_000])
def test_no_type_overtakes_another(size: int) -> None:
    events = hot_and_cold(size)
    hierarchy = Hierarchy([Feeling()])
    node = Node("a", "tcp://127.0.0.1:*", processor=hierarchy, types=EventTypes([Hot, Cold, Felt]))
    thread = threading.Thread(target=node.run)
    thread.start()
    found = []
    with (
        Subscriber(node.address, Felt, consistency="final") as subscriber,
        Publisher(node.address, types=[Hot, Cold]) as publisher,
    ):
        subscriber.wait_ready(DEADLINE)
        publisher.publish(events)
        publisher.advance([Hot, Cold], END)
        for change in subscriber:
            if isinstance(change, Insert):
                found.append(change.event.ts)
    node.stop()
    thread.join()
    assert found == [event.ts for event in events]
    (unit,) = hierarchy.units
    assert not unit.late and unit.clock.k == 0, "they came in order"
