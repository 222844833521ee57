"""Changes that publishers make to what they sent: each once, however often it comes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from middleware.broker.ingress.changed import ChangedEvents, Refusal, version
from middleware.model.event import Event


class Reading(Event):
    value: int


def reading(value: int, number: int = 1, ts: int = 5) -> Reading:
    return Reading(value, ts=ts, id=number, source="p")


def test_a_withdrawal_counts_once_and_nothing_changes_what_is_withdrawn() -> None:
    events = ChangedEvents()
    assert events.change("Reading", reading(1), None) == "new"
    assert events.change("Reading", reading(1), None) == "again"
    assert events.change("Reading", reading(1), reading(2)) == "again"
    assert events.change("Reading", reading(1, number=2), None) == "new"


@pytest.mark.parametrize("reason", ["late", "ahead"])
def test_nothing_rests_on_what_was_refused(reason: Refusal) -> None:
    events = ChangedEvents()
    stands, refused, further = reading(1), reading(2, ts=9), reading(3, ts=12)
    assert events.change("Reading", stands, refused) == "new"
    events.refuse("Reading", ("p", 1), 9, version(stands), reason)
    assert events.change("Reading", refused, further) == reason
    assert events.change("Reading", further, None) == reason
    events.forget("Reading", 11)
    assert events.change("Reading", further, reading(4, ts=13)) == reason, "as long as it could be taken for something new"
    restored = ChangedEvents()
    restored.restore(events.state())
    assert restored.change("Reading", stands, reading(5)) == "new", "what it is can be changed"
    assert restored.change("Reading", reading(5), None) == "new"


@given(st.lists(st.integers(0, 3), min_size=2, max_size=8), st.data())
def test_revisions_that_come_again_from_some_point_on_lead_to_the_same_end(values: list[int], data: st.DataObject) -> None:
    """What was not acknowledged is sent again, in its order: a suffix of what was sent."""
    steps = [(reading(one), reading(other)) for one, other in itertools.pairwise(values)]
    again = steps[data.draw(st.integers(0, len(steps))) :]
    events, now = ChangedEvents(), reading(values[0])
    for old, new in steps + again:
        if events.change("Reading", old, new) == "new":
            assert now == old, "who reads it has what is to be replaced"
            now = new
    assert now == reading(values[-1])


def test_memory_goes_back_once_nothing_can_change_any_more() -> None:
    events = ChangedEvents(unchecked=10)
    for number in range(1_000):
        events.change("Reading", reading(1, number, ts=number), None)
        events.forget("Reading", number - 5)
    assert len(events) <= 20
    restored = ChangedEvents()
    restored.restore(events.state())
    assert restored.change("Reading", reading(1, 999, ts=999), None) == "again"
