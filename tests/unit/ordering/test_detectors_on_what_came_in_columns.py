"""Detectors whose events wait in columns: the end, and repeats."""

from __future__ import annotations

import itertools

import pytest

from middleware.model.block.block import Block
from middleware.model.change import Delta
from middleware.model.detector import Detector
from middleware.model.event import END, NEVER, Event
from middleware.ordering.hierarchy import unit_for
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import FixedSlack
from middleware.ordering.unit import Unit

FORMS = ["rows", "columns"]


class Seen(Event):
    number: int


class Told(Event):
    number: int


class Ahead(Detector):
    """Tells of one event long before its time."""

    subscribes, publishes, key = (Seen,), (Told,), "number"

    def on_event(self, event: Seen) -> Told | None:
        return Told(event.number, ts=event.ts + 3_000) if event.id == 5 else None


class Telling(Detector):
    subscribes, publishes = (Seen,), (Told,)

    def on_event(self, event: Seen) -> Told:
        return Told(event.number, ts=event.ts)


def unit_of(detector: Detector, slack: int) -> Unit:
    return unit_for("Bench", detector, policies=Policies(alpha=1.0, slack=lambda: FixedSlack(slack)), resumes=True)


def given(form: str, events: list[Event]) -> Delta:
    return Delta(events) if form == "rows" else Delta(Block.from_events(Seen, events))


@pytest.mark.parametrize("ends", ["at once", "later"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("count", [10, 2_500])
def test_what_was_told_for_a_later_time_is_reached_though_lanes_forgot_it(count: int, form: str, ends: str) -> None:
    unit = unit_of(Ahead(), 10_000)
    delta = given(form, [Seen(n % 2, ts=n, id=n, source="s") for n in range(count)])
    results = unit.push(delta, promised=END if ends == "at once" else NEVER, is_open=False)
    results += unit.push(Delta(), promised=END, is_open=False)
    assert [event.ts for out in results for event in out.inserts] == [3_005]
    assert unit.reached == 3_005


@pytest.mark.parametrize("form", FORMS)
def test_a_unit_remembers_it_in_its_next_life(form: str) -> None:
    unit, again = unit_of(Ahead(), 0), unit_of(Ahead(), 0)
    unit.push(given(form, [Seen(0, ts=n, id=n, source="s") for n in range(20)]), promised=19, is_open=False)
    assert unit.final == 19
    again.restore(unit.state())
    again.restore_part(unit.part(10))
    again.push(Delta(), promised=END, is_open=False)
    assert again.reached == 3_005


@pytest.mark.parametrize(("first", "second"), list(itertools.product(FORMS, FORMS)))
def test_of_an_event_that_comes_twice_the_first_counts(first: str, second: str) -> None:
    unit = unit_of(Telling(), 100)
    results = unit.push(given(first, [Seen(0, ts=10, id=0, source="s"), Seen(1, ts=20, id=7, source="s")]))
    results += unit.push(given(second, [Seen(0, ts=5, id=1, source="s"), Seen(2, ts=20, id=7, source="s")]))
    results += unit.push(Delta(), promised=END, is_open=False)
    assert [event.number for out in results for event in out.inserts if event.ts == 20] == [1]
    assert unit.statistics().duplicates == 1
