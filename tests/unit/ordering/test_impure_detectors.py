"""Detectors that raise where they did not before: their unit continues, and the events at which they raised are listed."""

from __future__ import annotations

import pytest

from middleware.model.change import Delta
from middleware.model.detector import Detector
from middleware.model.event import END, Event
from middleware.ordering.hierarchy import unit_for


class Step(Event):
    room: int


class Seen(Event):
    count: int


class Mood:
    """What detectors take from elsewhere, as they should not."""

    calls = 0
    changed = False


class Counting(Detector):
    """As after a change of code without a change of its version: what was stored of it lacks an attribute."""

    subscribes, publishes = (Step,), (Seen,)

    def __init__(self) -> None:
        self.count = 0

    def on_event(self, event: Step) -> Seen:
        self.count += 1
        if Mood.changed:
            raise AttributeError("'Counting' object has no attribute 'total'")
        return Seen(self.count, ts=event.ts)

    def snapshot(self) -> int:
        return self.count

    def restore(self, state: int) -> None:
        self.count = state


class CountingRooms(Counting):
    key = "room"


class Moody(Counting):
    """Raises at each third call, whatever it is given."""

    def on_event(self, event: Step) -> Seen:
        Mood.calls += 1
        if Mood.calls % 3 == 0:
            raise RuntimeError("not now")
        return Seen(event.room, ts=event.ts)


class MoodyRooms(Moody):
    key = "room"


def step(ts: int) -> Step:
    return Step(ts % 2, ts=ts, id=ts, source="s")


@pytest.mark.parametrize("detector", [Counting, CountingRooms])
def test_what_was_taken_before_the_code_changed_does_not_end_the_unit(
    detector: type[Counting], monkeypatch: pytest.MonkeyPatch
) -> None:
    unit = unit_for("Counting", detector())
    out = unit.push(Delta([step(ts) for ts in range(1, 9)]), 8)
    monkeypatch.setattr(Mood, "changed", True)
    out += unit.push(Delta([step(9), step(10)]), 10)
    monkeypatch.setattr(Mood, "changed", False)
    out += unit.push(Delta([step(11), step(12)]), END, END, is_open=False)
    unit.check()
    assert sorted(published.cause.ts for published in unit.quarantine) == [9, 10]
    assert [event.ts for delta in out for event in delta.inserts] == [*range(1, 9), 11, 12]


@pytest.mark.parametrize("detector", [Moody, MoodyRooms])
def test_one_that_raises_when_it_likes_ends_nothing(detector: type[Moody]) -> None:
    unit = unit_for("Moody", detector())
    for ts in (*range(1, 60, 2), *range(58, 0, -2)):
        unit.push(Delta([step(ts)]), 60)
    unit.push(Delta(), END, END, is_open=False)
    unit.check()
    assert unit.quarantine
