"""State that ``vars()`` does not show: kept wherever a detector goes back, restarts or has keys, or refused by name."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.durability.state_encoding import decode_state, encode_state
from middleware.model.change import Delta
from middleware.model.detector import Detector
from middleware.model.errors import DetectorError
from middleware.model.event import END, EventTypes
from middleware.ordering.hierarchy import unit_for
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import Lateness
from middleware.runtime.engine import run
from middleware.testing.conformance import check_detector
from tests.property.ordering.hidden_state import CHANGING, KEPT, REFUSED, Said, Step

ALL_IN_TIME = Lateness(2, 10**6)
TYPES = EventTypes([Step, Said])


def keyed(detector_class: type[Detector]) -> type[Detector]:
    return type(detector_class.__name__, (detector_class,), {"key": "room"})


def by_hand(detector_class: type[Detector], events: list[Step], has_key: bool) -> list[str]:
    """What a plain loop over the sorted events says, with an instance for each key."""
    made: dict[Any, Any] = {}
    texts = []
    for event in sorted(events, key=lambda event: event.ts):
        key = event.room if has_key else None
        if key not in made:
            made[key] = detector_class([]) if detector_class.__name__ == "SharedDefault" else detector_class()
        texts.append(made[key].on_event(event).text)
    return texts


@pytest.mark.parametrize("has_key", [True, False])
@pytest.mark.parametrize("detector_class", KEPT)
@settings(max_examples=15, deadline=None)
@given(
    numbers=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), min_size=1, max_size=25),
    seed=st.integers(0, 99),
    batch=st.sampled_from([1, 3, 100]),
    spacing=st.sampled_from([1, 3, 8]),
)
def test_any_order_of_arrival_comes_out_as_a_plain_loop(detector_class, has_key, numbers, seed, batch, spacing):
    events = [Step(room, a, ts=ts, id=ts, source="s") for ts, (room, a) in enumerate(numbers, 1)]
    arrived = random.Random(seed).sample(events, len(events))
    detector = (keyed(detector_class) if has_key else detector_class)()
    ran = run(arrived, [detector], policies=Policies(alpha=0.0, lateness=ALL_IN_TIME, spacing=spacing), batch=batch)
    assert [result.text for result in ran.finals[detector_class.__name__]] == by_hand(detector_class, events, has_key)


@pytest.mark.parametrize("has_key", [True, False])
@pytest.mark.parametrize("detector_class", KEPT)
def test_a_unit_that_restarts_goes_on_from_what_was_saved(detector_class, has_key):
    events = [Step(number % 3, number % 7 + 1, ts=number, id=number, source="s") for number in range(1, 40)]
    random.Random(1).shuffle(events)
    name, chosen = detector_class.__name__, keyed(detector_class) if has_key else detector_class
    unit = unit_for(name, chosen(), 1, Policies(alpha=0.0, lateness=ALL_IN_TIME, spacing=4))
    texts: dict[int, str] = {}
    for number, event in enumerate(events):
        if number % 10 == 5:
            state = unit.state()
            parts = list(iter(lambda unit=unit: unit.part(2), []))
            data, rest = encode_state(state, TYPES), encode_state(parts, TYPES)
            unit = unit_for(name, chosen(), 1, Policies(alpha=0.0, lateness=ALL_IN_TIME, spacing=4))
            unit.restore(decode_state(data, TYPES))
            for part in decode_state(rest, TYPES):
                unit.restore_part(part)
        for delta in unit.push(Delta([event])):
            texts.update({each.ts: each.text for each in delta.inserts} | {each.ts: each.text for _, each in delta.revises})
    unit.push(Delta(), promised=END, is_open=False)
    assert [texts[ts] for ts in sorted(texts)] == by_hand(detector_class, events, has_key)


@pytest.mark.parametrize("detector_class", REFUSED)
def test_what_cannot_be_saved_is_refused_where_it_is_deployed_by_detector_and_attribute(detector_class):
    for chosen in (detector_class, keyed(detector_class)):
        with pytest.raises(DetectorError, match=rf"{detector_class.__name__}\.held"):
            run([], [chosen()])
    assert f"{detector_class.__name__}.held" in check_detector(detector_class, count=1)[0].problem


@pytest.mark.parametrize("has_key", [True, False])
@pytest.mark.parametrize("kind", CHANGING)
def test_what_a_class_holds_cannot_change_unseen(kind, has_key):
    made = CHANGING[kind]()
    made.key = "room" if has_key else None
    events = [Step(number % 3, number % 7 + 1, ts=number, id=number, source="s") for number in range(1, 6)]
    with pytest.raises(DetectorError, match=r"Changing changes what all its instances share: Changing\.held"):
        run(events, [made()])


def test_a_class_that_changes_late_is_found_before_its_results_are_given_out():
    made = CHANGING["dict"]()
    plain = made.on_event
    made.on_event = lambda self, event: plain(self, event) if event.ts == 5_000 else None
    events = [Step(0, 1, ts=number, id=number, source="s") for number in range(1, 6_000)]
    with pytest.raises(DetectorError, match=r"Changing\.held"):
        run(events, [made()], batch=7)


def test_a_detector_that_is_a_collection_is_refused():
    class Both(Detector, dict):  # type: ignore[type-arg]
        subscribes, publishes = (Step,), (Said,)

    with pytest.raises(DetectorError, match="Both is a collection itself"):
        run([], [Both()])


def test_a_method_put_in_place_of_on_event_is_refused():
    class Switching(Detector):
        subscribes, publishes = (Step,), (Said,)

        def on_event(self, event):
            self.on_event = self.second
            return Said("first", ts=event.ts)

        def second(self, event):
            return Said("second", ts=event.ts)

    events = [Step(0, 1, ts=number, id=number, source="s") for number in range(1, 6)]
    with pytest.raises(DetectorError, match="Switching sets its own on_event"):
        run(events, [Switching()])
