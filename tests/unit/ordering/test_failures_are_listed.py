"""What makes a detector raise is listed once it is final, however slow the stream is."""

from __future__ import annotations

import pytest

from detectors.window import SUM, Tumbling, Windows
from middleware.model.change import Delta
from middleware.model.detector import Detector
from middleware.model.event import Event
from middleware.model.time import SECOND
from middleware.ordering.hierarchy import unit_for


class Step(Event):
    room: int


class Held(Event):
    start: int
    end: int
    total: float


class Raising(Detector):
    subscribes, publishes = (Step,), (Held,)

    def on_event(self, event: Step) -> None:
        if event.id % 2:
            raise RuntimeError("odd")


class RaisingRooms(Raising):
    key = "room"


def broken(event: Step) -> int:
    if event.id % 2:
        raise RuntimeError("odd")
    return event.id


DETECTORS = {
    "one lane": Raising,
    "lanes": RaisingRooms,
    "windows": lambda: Windows(Step, Tumbling(SECOND), {"total": (SUM, broken)}, result=Held),
}


@pytest.mark.parametrize("kind", DETECTORS)
def test_failures_of_a_slow_stream(kind: str) -> None:
    unit = unit_for(kind, DETECTORS[kind]())
    for number in range(1, 12):
        ts = number * 10 * SECOND
        unit.push(Delta([Step(number % 3, ts=ts, id=number, source="s")]), ts)
        unit.push(Delta(), ts)
        assert sorted(each.cause.id for each in unit.quarantine) == list(range(1, number, 2)), "all but the last, at once"
        unit.check()
    unit.push(Delta(), 120 * SECOND)
    assert sorted(each.cause.id for each in unit.quarantine) == [1, 3, 5, 7, 9, 11], "the clock alone makes it final"
