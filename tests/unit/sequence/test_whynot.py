"""The explanation of an event that is in no match."""

from __future__ import annotations

from detectors.sequence import SequenceQuery
from detectors.sequence.whynot import why_not
from middleware.model.event import Event


class A(Event):
    x: float | None


class B(Event):
    x: float | None


def explanation(text: str, events: list[Event], event: Event) -> str:
    return "\n".join(why_not(SequenceQuery(text, [A, B]).plan, events, event))


def test_values_are_those_of_the_variable_that_is_named() -> None:
    events = [A(1.0, ts=1, id=1, source="a"), B(None, ts=2, id=2, source="b")]
    assert "fails a.x < b.x (a.x is 1.0, b.x is None)" in explanation(
        "EVENT SEQ(A a, B b) WHERE a.x < b.x WITHIN 9 ns", events, events[0]
    )


def test_events_of_one_time_are_said_to_be_in_no_sequence() -> None:
    events = [A(1.0, ts=5, id=1, source="a"), B(2.0, ts=5, id=2, source="b")]
    for event, side in zip(events, ("no B for B b within 9ns after it", "no A for A a within 9ns before it"), strict=True):
        text = explanation("EVENT SEQ(A a, B b) WITHIN 9 ns", events, event)
        assert f"{side}; 1 at the same time, which is not in sequence" in text


def test_groups_of_several_are_said_not_to_be_tried() -> None:
    events = [A(1.0, ts=at, id=at, source="a") for at in (1, 2)]
    text = explanation("EVENT SEQ(A+ a[]) WHERE count(a) = 2 WITHIN 9 ns", events, events[0])
    assert "with one event in each group (larger ones are not tried)" in text
