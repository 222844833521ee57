"""Windows as operators: what they refuse, what they quarantine, and that they run wherever detectors do."""

from typing import Annotated

import pytest
from msgspec import Meta
from slackline import Delta, Event

from detectors.window import (
    CONCAT,
    COUNT,
    LAST,
    MAX,
    MEAN,
    MIN,
    SUM,
    VARIANCE,
    Counted,
    Hopping,
    Landmark,
    Session,
    Sliding,
    Tumbling,
    WindowKind,
    Windows,
)
from middleware.model.errors import WindowError
from middleware.model.event import END
from middleware.runtime import engine
from middleware.testing.operator_checks import check_operator

SECOND = 1_000_000_000


class Reading(Event):
    sensor: Annotated[int, Meta(ge=0, le=2)]
    value: float | None
    count: int


class Wrong(Event):
    start: int
    end: int
    total: float


class Texts(Event):
    start: int
    end: int
    highest: str


VALUES = {"readings": COUNT, "highest": (MAX, "value"), "sum": (SUM, "count"), "last": (LAST, "count")}


@pytest.mark.parametrize("emit", ["close", "change", "final"])
@pytest.mark.parametrize(
    "kind",
    [Hopping(40, 15), Tumbling(20), Sliding((10, 30)), Session(8), Landmark(0, 20, 60), Counted(3), Counted(4, 3)],
    ids=repr,
)
def test_the_conformance_suite_passes(kind, emit):
    verdicts = check_operator(Windows(Reading, kind, VALUES, key="sensor", emit=emit), count=6, length=30)
    assert {verdict.name: verdict.state for verdict in verdicts if verdict.state != "pass"} == {}


def test_the_suite_passes_in_the_native_core():
    figures = {"mean": (MEAN, "value"), "least": (MIN, "value"), "sum": (SUM, "count")}
    verdicts = check_operator(Windows(Reading, Hopping(40, 15), figures, key=("sensor", "count")), count=10, length=40)
    assert {verdict.state for verdict in verdicts} == {"pass"}


def test_without_a_key_and_with_several():
    events = [Reading(n % 2, float(n), n, ts=n, id=n, source="ab"[n % 3 == 0]) for n in range(1, 10)]
    for key, count in (((), 1), ("sensor", 2), (("sensor", "count"), 9)):
        for aggregate in (SUM, VARIANCE):  # in the core, and not
            found = (
                Windows(Reading, Tumbling(10), {"x": (aggregate, "value")}, key=key)
                .start("w", 1)
                .apply(Delta(events), END, END)
            )
            assert len(found.inserts) == count


def test_none_is_left_out_and_still_counts_as_an_event():
    events = [Reading(1, None, 1, ts=5, id=1), Reading(1, 2.0, 1, ts=6, id=2)]
    for more in ({}, {"all": (CONCAT, "value")}):
        plan = Windows(Reading, Tumbling(10), {"n": COUNT, "mean": (MEAN, "value"), **more})
        (result,) = plan.start("w", 1).apply(Delta(events), 10, 10).inserts
        assert (result.n, result.mean) == (2, 2.0)


@pytest.mark.parametrize("more", [{}, {"all": (CONCAT, "value")}], ids=["core", "plain"])
def test_what_cannot_be_read_is_quarantined(more):
    plan = Windows(Reading, Tumbling(10), {"mean": (MEAN, "value"), **more})
    operation = plan.start("w", 1)
    bad, good = Reading(1, "high", 1, ts=5, id=1), Reading(1, 2.0, 1, ts=6, id=2)
    assert [event.mean for event in operation.apply(Delta([bad, good]), 10, 4).inserts] == [2.0]
    assert [event for event, _ in operation.failed(4)] == []
    assert operation.apply(Delta([], [], [bad]), 10, 4) == Delta()
    assert operation.held == 1 and operation.keys == 1 and operation.failures == {}


def test_equal_keys_are_one_key():
    events = [Reading(key, 1.0, 1, ts=5, id=number) for number, key in enumerate([1, 1.0, True])]
    for aggregate in (SUM, VARIANCE):
        (result,) = (
            Windows(Reading, Tumbling(10), {"x": (aggregate, "value")}, key="sensor")
            .start("w", 1)
            .apply(Delta(events), END, END)
            .inserts
        )
        assert result.sensor == 1 and type(result.sensor) is int


def test_what_makes_no_sense_is_refused():
    refusals = {
        "above 0": lambda: Tumbling(0),
        "different": lambda: Sliding((5, 5)),
        "multiple of every": lambda: Landmark(0, 7, 20),
        "no field 'heat'": lambda: Windows(Reading, Tumbling(1), {"x": (MAX, "heat")}),
        "needs no field": lambda: Windows(Reading, Tumbling(1), {"x": MAX}),
        "keyed by": lambda: Windows(Reading, Tumbling(1), {"x": COUNT}, key="place"),
        "emit must be": lambda: Windows(Reading, Tumbling(1), {"x": COUNT}, emit="never"),
        "no kind of windows": lambda: Windows(Reading, 10, {"x": COUNT}),
        "just the fields": lambda: Windows(Reading, Tumbling(1), {"x": COUNT}, result=Wrong),
        "source already": lambda: Windows(Reading, Tumbling(1), {"x": COUNT}, key="source"),
        "end already": lambda: Windows(Reading, Tumbling(1), {"end": COUNT}),
        "is no aggregate": lambda: Windows(Reading, Tumbling(1), {"x": "count"}),
    }
    for message, make in refusals.items():
        with pytest.raises(WindowError, match=message):
            make()


def test_a_result_type_that_does_not_fit_is_named():
    operation = Windows(Reading, Tumbling(10), {"highest": (MAX, "value")}, result=Texts).start("w", 1)
    assert not operation.apply(Delta([Reading(1, 2.0, 1, ts=5)]), END, END)
    ((_, failure),) = operation.failed(END)
    assert "Texts does not take what was aggregated at 10 ns: Expected `str`" in failure


def test_windows_run_in_a_unit_with_late_events():
    values = [(0.2, 1.0), (1.5, 2.0), (0.9, 3.0), (1.1, 4.0), (9.0, 0.0)]
    events = [Reading(1, value, 1, ts=int(at * SECOND), id=number) for number, (at, value) in enumerate(values)]
    for kind, totals in ((Tumbling(SECOND), [4.0, 6.0, 0.0]), (Session(SECOND), [10.0, 0.0])):
        for aggregate in ({"total": (SUM, "value")}, {"total": (SUM, "value"), "all": (CONCAT, "value")}):
            found = engine.run(events, [Windows(Reading, kind, aggregate, name="Totals")], batch=1)
            assert [each.total for each in found.finals["Totals"]] == totals
            assert found.corrected > 0 or isinstance(kind, Session)


def test_sparse_windows_cost_nothing_in_between():
    """Ends are gone through by what is held, not by the clock: years lie between these."""
    year = 365 * 86_400 * SECOND
    events = [Reading(1, 1.0, 1, ts=1 + number * year, id=number) for number in range(20)]
    for aggregate in (SUM, VARIANCE):
        plan = Windows(Reading, Hopping(3, 1), {"x": (aggregate, "value")})
        assert len(plan.start("w", 1).apply(Delta(events), END, END).inserts) == 60


def test_kinds_are_told_apart():
    assert isinstance(Tumbling(5), WindowKind) and Tumbling(5) == Hopping(5, 5)
