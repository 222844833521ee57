"""A run says which events it skipped as late, and a lateness that takes them all."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slackline import (
    COUNT,
    Detector,
    Event,
    LateEventError,
    LateEventWarning,
    Lateness,
    Policies,
    Run,
    Tumbling,
    Windows,
    run,
)

from middleware.ordering.records import LateSummary
from middleware.ordering.slack.kslack import FixedSlack


class Reading(Event):
    lane: int


class Sum(Event):
    total: int


class Twice(Event):
    total: int


class Counted(Event):
    start: int
    end: int
    count: int


class Sums(Detector):
    subscribes, publishes, key = (Reading,), (Sum,), "lane"

    def __init__(self) -> None:
        self.total = 0

    def on_event(self, event: Reading) -> Sum:
        self.total += event.ts
        return Sum(self.total, ts=event.ts)


class Doubles(Detector):
    """Reads what is derived, and what may come late."""

    subscribes, publishes = (Sum, Reading), (Twice,)

    def on_event(self, event: Sum | Reading) -> Twice | None:
        return Twice(2 * event.total, ts=event.ts) if isinstance(event, Sum) else None


def readings(times: list[int]) -> list[Reading]:
    return [Reading(number % 2, ts=ts, id=number, source="plc") for number, ts in enumerate(times)]


def within(floor: int, alpha: float = 0.0, learns: bool = True) -> Policies:
    """An allowed lateness that follows from delays, too, or is fixed."""
    slack = None if learns else lambda: FixedSlack(0)
    return Policies(alpha=alpha, slack=slack, lateness=Lateness(floor=floor))


def silent(call: Callable[[], Run]) -> Run:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LateEventWarning)
        return call()


def test_a_run_warns_once_of_events_that_came_too_late() -> None:
    times = [10, 100, 90, 89, 40, 110]
    with pytest.warns(LateEventWarning) as found:
        result = run(readings(times), [Sums(), Doubles()], policies=within(10), batch=1)
    (warning,) = found
    assert warning.filename == __file__, "the line that called run, not one of ours"
    text = str(warning.message)
    assert "3 events came too late and are skipped, at most by 50ns" in text
    assert "Sums 3" in text and "Doubles 3" in text and "Lateness(floor=61)" in text and "61ns takes all" in text
    with pytest.raises(LateEventError, match="3 events came too late"):
        result.check_nothing_late()


def test_one_late_event_is_no_plural() -> None:
    with pytest.warns(LateEventWarning, match=r"^1 event came too late and is skipped, by 0ns \(Sums 1\)"):
        run(readings([100, 90]), [Sums()], policies=within(10), batch=1)


def test_a_run_in_time_is_silent_and_passes_the_check() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(readings([10, 100, 91, 110]), [Sums(), Doubles()], policies=within(10), batch=1).check_nothing_late()


@given(
    times=st.lists(st.integers(0, 400), min_size=2, max_size=40),
    lateness=st.integers(1, 60),
    batch=st.integers(1, 6),
    alpha=st.sampled_from([0.0, 0.5, 1.0]),
    learns=st.booleans(),
)
def test_the_lateness_that_it_names_takes_all(times: list[int], lateness: int, batch: int, alpha: float, learns: bool) -> None:
    def again(floor: int) -> Run:
        detectors = [Sums(), Doubles(), Windows(Reading, Tumbling(20), {"count": COUNT}, result=Counted)]
        return silent(lambda: run(readings(times), detectors, policies=within(floor, alpha, learns), batch=batch))

    first = again(lateness)
    summary = LateSummary.of(first.late)
    if summary is None:
        first.check_nothing_late()
        return
    late = {entry.event.id for entries in first.late.values() for entry in entries}
    assert summary.events == len(late)
    assert summary.worst == max(entry.final - entry.event.ts for entries in first.late.values() for entry in entries)
    again(summary.lateness).check_nothing_late()
    if summary.lateness < 100 and not learns:  # two digits are not rounded, so that one less is too little
        assert LateSummary.of(again(summary.lateness - 1).late) is not None
