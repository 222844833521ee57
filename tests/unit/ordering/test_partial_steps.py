"""A partial step costs what came: units that read none of it are skipped, and lose nothing by that."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from middleware.model.change import Batch, Delta
from middleware.model.detector import Detector
from middleware.model.event import END, Event, EventType
from middleware.model.operator import Operation, Operator
from middleware.ordering.detector_unit import DetectorUnit
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.operator_unit import OperatorUnit
from middleware.ordering.policies import Policies
from middleware.ordering.unit import Unit

MANY = 60


def event_type(name: str) -> EventType:
    return type(Event)(name, (Event,), {"__annotations__": {"value": int}, "__module__": __name__}, frozen=True)


RAW = [event_type(f"Raw{number}") for number in range(MANY)]
SUMS = [event_type(f"Sum{number}") for number in range(MANY)]
TOPS = [event_type(f"Top{number}") for number in range(MANY)]


class Adding(Detector):
    """Adds up values."""

    result: EventType

    def __init__(self) -> None:
        self.total = 0

    def on_event(self, event: Any) -> Event:
        self.total += event.value
        return self.result(self.total, ts=event.ts)


def adding(name: str, reads: EventType, result: EventType) -> Detector:
    return type(name, (Adding,), {"subscribes": (reads,), "publishes": (result,), "result": result})()


def two_levels() -> Hierarchy:
    low = {f"low{number}": adding(f"Low{number}", RAW[number], SUMS[number]) for number in range(MANY)}
    high = {f"high{number}": adding(f"High{number}", SUMS[number], TOPS[number]) for number in range(MANY)}
    return Hierarchy({**low, **high}, policies=Policies(alpha=0.0))


def batch(*events: Event, clock: int, is_partial: bool = True, watermarks: dict[str, int] | None = None) -> Batch:
    deltas: dict[str, Delta] = {}
    for event in events:
        deltas.setdefault(type(event).__name__, Delta([])).inserts.append(event)
    return Batch(deltas, watermarks or {}, clock, is_partial=is_partial)


@pytest.fixture
def visits(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each unit was looked at."""
    counted: Counter[str] = Counter()
    for kind, name in ((Unit, "push"), (DetectorUnit, "pass_time"), (OperatorUnit, "pass_time")):
        original = getattr(kind, name)

        def counting(self: Unit, *args: Any, original: Any = original, **options: Any) -> Any:
            counted[self.name] += 1
            return original(self, *args, **options)

        monkeypatch.setattr(kind, name, counting)
    return counted


def test_only_the_units_that_what_came_concerns_are_visited(visits: Counter[str]) -> None:
    hierarchy = two_levels()
    hierarchy.process(batch(RAW[3](1, ts=10, id=1, source="s"), RAW[5](1, ts=11, id=2, source="s"), clock=11))
    assert set(visits) == {"low3", "high3", "low5", "high5"}
    visits.clear()
    hierarchy.process(batch(clock=12))
    assert not visits
    hierarchy.process(batch(clock=12, is_partial=False))
    assert len(visits) == 2 * MANY


def test_units_that_were_left_out_measure_delays_by_the_clock_of_the_node() -> None:
    partly, wholly = two_levels(), two_levels()
    for is_partial, hierarchy in ((True, partly), (False, wholly)):
        hierarchy.process(batch(RAW[0](1, ts=100, id=1, source="s"), clock=100, is_partial=is_partial))
        hierarchy.process(batch(RAW[1](1, ts=9_000, id=2, source="s"), clock=9_000, is_partial=is_partial))
        hierarchy.process(batch(RAW[0](1, ts=150, id=3, source="s"), clock=9_000, is_partial=is_partial))
    assert [hierarchy.units[0].clock.k for hierarchy in (partly, wholly)] == [8_850] * 2


class Breaking(Operation):
    """Raises at its first event."""

    def apply(self, delta: Delta, emitted: int, final: int) -> Delta:
        if delta.inserts:
            raise ZeroDivisionError
        return Delta()

    def snapshot(self) -> None:
        return None

    def restore(self, state: Any) -> None: ...


class Fragile(Operator):
    name, subscribes, publishes = "Fragile", (RAW[0],), (SUMS[0],)

    def start(self, name: str, level: int) -> Operation:
        return Breaking()


def test_readers_of_a_unit_that_stops_in_a_partial_step_stop_too() -> None:
    high, other = adding("High", SUMS[0], TOPS[0]), adding("Other", RAW[1], SUMS[1])
    hierarchy = Hierarchy({"low": Fragile(), "high": high, "other": other}, policies=Policies(alpha=0.0))
    out = hierarchy.process(batch(RAW[0](1, ts=10, id=1, source="s"), clock=10))
    assert set(hierarchy.halted) == {"low", "high"}
    assert out[-1].stopped == ["Sum0", "Top0"]


def net(results: list[Batch], into: dict[tuple[str, int], Event]) -> None:
    for each in results:
        for name, delta in each.deltas.items():
            for event in delta.retracts:
                del into[name, event.id]
            for old, new in delta.revises:
                del into[name, old.id]
                into[name, new.id] = new
            for event in delta.inserts:
                into[name, event.id] = event


@pytest.mark.parametrize("seed", range(12))
def test_partial_steps_lead_to_the_results_and_promises_of_whole_ones(seed: int) -> None:
    rng = Random(seed)
    partly, wholly = two_levels(), two_levels()
    found: tuple[dict[Any, Event], dict[Any, Event]] = ({}, {})
    clock, number, watermarks, given_watermarks = 0, 0, dict.fromkeys((kind.__name__ for kind in RAW), 0), dict[str, int]()
    for _ in range(60):
        events = []
        for _ in range(rng.randrange(4)):
            number += 1
            kind = rng.choice(RAW)
            ts = max(watermarks[kind.__name__] + 1, clock + rng.randrange(-50, 20))
            events.append(kind(rng.randrange(9), ts=ts, id=number, source="s"))
        clock = max([clock, *(event.ts for event in events)])
        is_partial = rng.random() < 0.7
        if not is_partial:
            given_watermarks = {name: max(until, clock - rng.randrange(40, 90)) for name, until in watermarks.items()}
        for hierarchy, into, partial in ((partly, found[0], is_partial), (wholly, found[1], False)):
            net(hierarchy.process(batch(*events, clock=clock, is_partial=partial, watermarks=watermarks)), into)
        watermarks = given_watermarks or watermarks
    for hierarchy, into in zip((partly, wholly), found, strict=True):
        net(hierarchy.process(batch(clock=clock, is_partial=False, watermarks=dict.fromkeys(watermarks, END))), into)
    assert number > 50 and found[0] == found[1]
    assert partly.finals() == wholly.finals() and partly.promised == wholly.promised


def test_what_a_unit_lists_in_a_partial_step_is_taken_once() -> None:
    hierarchy = two_levels()
    hierarchy.process(batch(clock=10, is_partial=False, watermarks={"Raw7": 50}))
    hierarchy.take_listed()
    hierarchy.process(batch(RAW[7](1, ts=20, id=1, source="s"), clock=20, watermarks={"Raw7": 50}))
    hierarchy.process(batch(RAW[8](1, ts=20, id=2, source="s"), clock=20, watermarks={"Raw7": 50}))
    (listed,) = hierarchy.take_listed()
    assert listed.unit == "low7" and [late.event.id for late in listed.late] == [1]
    assert hierarchy.take_listed() == []
