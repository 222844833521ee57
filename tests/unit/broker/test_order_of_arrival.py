"""A batch keeps the order in which its events arrived, across types, from the publisher to the units."""

from __future__ import annotations

from itertools import groupby
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.broker.inbox import Inbox
from middleware.broker.ingress.checks import Ingress
from middleware.broker.ingress.publisher_admission import Admission
from middleware.broker.log.log_records import PeerKey
from middleware.broker.watermarks.combining import CombinedWatermarks
from middleware.broker.watermarks.tracker import WatermarkTracker
from middleware.delivery.publication import Publication
from middleware.link.codec import BlockHead, Changes, Drops, EventCodec, decode_payload, encode, name_of
from middleware.link.frames import Parts
from middleware.model.change import Batch, Delta, grouped
from middleware.model.detector import Detector
from middleware.model.event import IDENTITY, Event, EventTypes, Identity
from middleware.model.time import SECOND
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import MaxSlack
from middleware.testing.simulation.network import Faults, SimulatedNode, SimulatedPublisher, Simulation


class Hot(Event):
    text: str = ""


class Cold(Event):
    text: str = ""


class Warm(Event):
    text: str = ""


TYPES = EventTypes([Hot, Cold, Warm])
NAMES = frozenset(["Hot", "Cold", "Warm"])


class Feeling(Detector):
    subscribes, publishes = (Hot, Cold), ()

    def on_event(self, event: Event) -> None: ...


def mixed(rng: Random, count: int, first: int = 1, source: str = "s", text: str = "") -> list[Event]:
    """Events of three types, in no order of time."""
    kinds = [Hot, Cold, Warm]
    return [
        rng.choice(kinds)(text, ts=rng.randint(1, 10) * SECOND + number, id=number, source=source)
        for number in range(first, first + count)
    ]


def came(batch: Batch | None) -> list[Identity]:
    """The identities in a batch, in the order of arrival that it names."""
    assert batch is not None
    placed = [pair for delta in batch.deltas.values() for pair in zip(delta.arrival_order or (), delta.inserts, strict=True)]
    assert len({place for place, _ in placed}) == len(placed)
    return [IDENTITY(event) for _, event in sorted(placed, key=lambda pair: pair[0])]


class Door:
    """Where publishers come in, and what waits there for the detectors."""

    def __init__(self) -> None:
        codec = EventCodec(TYPES)
        self.ingress = Ingress(TYPES, codec, Drops())
        self.admission = Admission(TYPES, WatermarkTracker(()).publishers, None, 0)
        self.inbox = Inbox(NAMES, codec, Drops(), self.ingress)

    def take(self, payload: Parts, key: PeerKey = ("publisher", "p")) -> None:
        changes = decode_payload(payload)
        assert isinstance(changes, Changes)
        self.admission.sources.attach(key, 0)
        admitted, _ = self.admission.admit(key, changes, payload[1:], self.ingress, NAMES, 0)
        for head, block, delta in admitted:
            self.inbox.put(key, head, block, delta)

    def batch(self) -> Batch | None:
        return self.inbox.take(CombinedWatermarks(), None, ())


@given(seed=st.integers(0, 2**32), again=st.integers(0, 30))
def test_what_is_skipped_leaves_the_others_in_their_order(seed: int, again: int) -> None:
    events, door = mixed(Random(seed), 30), Door()
    repeated = Random(seed).sample(events, again)
    for event in repeated:
        door.ingress.seen.add(event.source, event.id)
    publication = Publication()
    (frame,) = publication.frames(events)
    door.take(publication.payload_of(frame))
    left = [IDENTITY(event) for event in events if event not in repeated]
    batch = door.batch()
    if batch is not None and len(batch.deltas) > 1:
        assert came(batch) == left


def test_payloads_of_several_publishers_come_one_after_the_other() -> None:
    rng, door = Random(3), Door()
    parts = [mixed(rng, 5, 1, "a"), mixed(rng, 1, 1, "b"), mixed(rng, 5, 6, "a")]
    for events, name in zip(parts, "aba", strict=True):
        publication = Publication()
        for frame in publication.frames(events):
            door.take(publication.payload_of(frame), ("publisher", name))
    assert came(door.batch()) == [IDENTITY(event) for events in parts for event in events]


@given(seed=st.integers(0, 2**32))
def test_encoded_batches_that_go_together_come_in_the_order_in_which_they_were_given(seed: int) -> None:
    rng, door, publication = Random(seed), Door(), Publication()
    events = mixed(rng, 40)
    given: list[Event] = []
    while len(given) < len(events):
        bundle, following = publication.bundle, events[len(given) : len(given) + rng.randint(1, 3)]
        same = next(list(group) for _, group in groupby(following, key=type))
        frame = publication.encoded(name_of(same[0]), encode(same), len(same), max(event.ts for event in same))
        if not bundle.takes(frame, bundle.weight(frame)) or (bundle.events and rng.random() < 0.3):
            door.take(publication.payload_of(publication.gathered(True)))
        bundle.add(frame, bundle.weight(frame))
        given += same
    door.take(publication.payload_of(publication.gathered(True)))
    assert publication.waiting == 0 and came(door.batch()) == list(map(IDENTITY, events))


def test_what_a_node_would_refuse_as_a_whole_goes_alone() -> None:
    publication, many = Publication(), encode([Hot(ts=1, id=1, source="s")] * 3)
    weight = Publication().bundle.weight
    assert weight(publication.encoded("Hot", many, 3, 1)) > len(many)
    lies = [
        ("Hot", many, 4, 1, None),
        ("Hot", b"", 0, 1, None),
        ("Hot", b"nonsense", 5, 1, None),
        ("H" * 300, many, 3, 1, None),
    ]
    wrong: Any = [("Hot", many, 3, 1, [("s", "1", 3)]), ("Hot", many, 3, 1, [("s", 1, 2**70)])]
    assert not any(weight(publication.encoded(*lie)) for lie in [*lies, *wrong])
    large = publication.encoded("Hot", encode([Hot("x" * 2**18, ts=1, id=1, source="s")]), 1, 1)
    publication.bundle.add(publication.encoded("Hot", many, 3, 1), 100)
    assert not publication.bundle.takes(large, weight(large)) and not publication.bundle.is_full


def test_a_publisher_of_one_type_sends_nothing_more_than_before() -> None:
    (frame,) = Publication().frames([Hot(ts=ts, id=ts, source="s") for ts in (3, 1, 2)])
    assert [head.arrival_order for head, _ in frame.blocks] == [None]


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), size=st.sampled_from([0, 30_000]))
def test_the_order_outlasts_forwarding_in_frames_of_any_size(seed: int, size: int) -> None:
    simulation = Simulation(seed, Faults(drop=0.1, duplicate=0.1))
    for name in "ab":
        node = SimulatedNode(simulation, name, "ab", TYPES, reads=NAMES if name == "b" else ())
    publisher = SimulatedPublisher(simulation, "p", "a", [Hot, Cold, Warm])
    events = mixed(Random(seed), 40, text="x" * size)
    simulation.run(SECOND)
    publisher.publish(events)
    simulation.run(20 * SECOND)
    batches = [batch for batch in node.batches if batch.deltas]
    found = [came(batch) if len(batch.deltas) > 1 else _only(batch) for batch in batches]
    assert all(part == sorted(part) for part in found), "identities were counted up"
    assert sorted(identity for part in found for identity in part) == [IDENTITY(event) for event in events]


def _only(batch: Batch) -> list[Identity]:
    (delta,) = batch.deltas.values()
    return [IDENTITY(event) for event in delta.inserts]


@pytest.mark.parametrize("size", [1, 2, 10])
def test_a_type_that_is_late_against_another_in_its_batch_is_measured(size: int) -> None:
    """However the arrivals are cut into batches."""
    hot = [Hot(ts=second * SECOND, id=second, source="h") for second in range(1, 6)]
    cold = [Cold(ts=second * SECOND, id=second, source="c") for second in range(1, 6)]
    events = [hot[0], hot[1], cold[0], hot[2], cold[1], hot[3], cold[2], hot[4], cold[3], cold[4]]
    hierarchy = Hierarchy([Feeling()], policies=Policies(slack=MaxSlack))
    for start in range(0, len(events), size):
        hierarchy.process(Batch(grouped(events[start : start + size])))
    assert hierarchy.units[0].clock.k >= SECOND


def test_events_without_places_come_at_their_times() -> None:
    """As from a publisher of a former version, or as results that were made in one step."""
    hierarchy = Hierarchy([Feeling()], policies=Policies(slack=MaxSlack))
    deltas = {
        "Hot": Delta([Hot(ts=ts, id=ts, source="h") for ts in (2, 4)]),
        "Cold": Delta([Cold(ts=ts, id=ts) for ts in (1, 3)]),
    }
    hierarchy.process(Batch(deltas))
    assert hierarchy.units[0].clock.k == 0 and not hierarchy.units[0].late


class FormerHead(msgspec.Struct, array_like=True):
    """A head as it was before places, as far as this test goes."""

    type: str
    inserts: int


def test_heads_of_former_versions_are_understood_and_understand() -> None:
    former = msgspec.msgpack.encode(["Hot", 2, 0, 0, True, True, None, 1, 2])
    head = msgspec.msgpack.decode(former, type=BlockHead)
    assert (head.inserts, head.arrival_order, head.arrival) == (2, None, 0)
    now = msgspec.msgpack.encode(BlockHead("Hot", 2, arrival_order=b"\0\0\1\0", arrival=7))
    assert msgspec.msgpack.decode(now, type=FormerHead) == FormerHead("Hot", 2)
