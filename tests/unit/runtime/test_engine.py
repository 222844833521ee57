"""``run`` in process: failures are reported, wrong input is refused, and its result is a short line."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import polars
import pytest

from detectors.window import COUNT, SUM, Tumbling, Windows
from middleware.link.codec import encode
from middleware.model.detector import Detector
from middleware.model.errors import DetectorError, EventError, WindowError
from middleware.model.event import Event
from middleware.ordering.policies import Policies
from middleware.runtime.engine import run
from middleware.runtime.failures import DetectorFailedError


class Tick(Event):
    price: float


class Rise(Event):
    by: float
    at: int = 0


class Failing(Detector):
    """Its results are wrong in the way that is asked for, at every second event."""

    subscribes, publishes = (Tick,), (Rise,)

    def __init__(self, how: str = "raise") -> None:
        self.how = how

    def on_event(self, tick: Tick) -> Any:
        if tick.id % 2 == 0:
            return Rise(tick.price, ts=tick.ts)
        if self.how == "raise":
            return 1 / 0
        wrong = {"number": 7, "type": tick, "back": Rise(1.0, ts=tick.ts - 1), "field": Rise("x", ts=tick.ts)}  # type: ignore[arg-type]
        return wrong[self.how]


class FailingByPrice(Failing):
    key = "price"


class Fine(Failing):
    def on_event(self, tick: Tick) -> Any:
        return Rise(tick.price, ts=tick.ts)


class ByPrice(Fine):
    key = "price"


def ticks(count: int = 10) -> list[Event]:
    return [Tick(float(n), ts=100 * n + 1, id=n, source="x") for n in range(count)]


@pytest.mark.parametrize("made", [Failing, FailingByPrice])
@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("raise", "ZeroDivisionError: division by zero"),
        ("number", "returned 7; on_event returns None, an event, or an iterable"),
        ("type", "returned Tick, but declares that it publishes Rise"),
        ("back", "stamped Rise 1 ns before its cause"),
        ("field", "Expected `float`, got `str`"),
    ],
)
def test_the_first_failure_is_raised_with_event_place_and_traceback(made, how, message):
    with pytest.raises(DetectorFailedError) as caught:
        run(ticks(), [made(how)])
    failure = caught.value.failure
    assert failure.event == ticks()[1]
    assert message in failure.error
    line = str(caught.value).splitlines()[0]
    assert repr(ticks()[1]) in line
    assert re.search(r"test_engine\.py:\d+\)$", line), "in the code of the user"
    assert "Traceback (most recent call last)" in str(caught.value)


@pytest.mark.parametrize("made", [Failing, FailingByPrice])
def test_failures_that_are_skipped_are_listed_and_show(made):
    result = run(ticks(), [made()], failing="skip")
    assert [failure.event.id for failure in result.failures[made.__name__]] == [1, 3, 5, 7, 9]
    assert [rise.by for rise in result.finals[made.__name__]] == [0, 2, 4, 6, 8]
    assert repr(result) == f"<Run: 10 events; 5 finals ({made.__name__} 5); 5 failures ({made.__name__} 5)>"


def test_what_fails_only_while_events_are_missing_is_no_failure():
    class Pairs(Fine):
        def __init__(self) -> None:
            self.last = -1

        def on_event(self, tick: Tick) -> Any:
            if tick.id != self.last + 1:
                raise ValueError("one is missing")
            self.last = tick.id

    run([*ticks()[5:], *ticks()[:5]], [Pairs()], batch=1, policies=Policies(alpha=0.0))


def test_an_operator_that_fails_is_reported_with_the_function_of_the_user():
    def broken(tick: Event) -> float:
        raise RuntimeError("odd")

    with pytest.raises(DetectorFailedError, match=r"RuntimeError: odd \(.*test_engine\.py:\d+\)"):
        run(ticks(), [Windows(Tick, Tumbling(100), {"total": (SUM, broken)})])


def test_the_repr_of_a_run_is_one_short_line():
    many = {f"detector_{number}": Fine() for number in range(50)}
    text = repr(run([*ticks(500), *ticks(5)], many))
    assert text == ("<Run: 500 events; 25,000 finals (detector_0 500, detector_1 500, detector_10 500 and 47 more); 5 repeats>")


@pytest.mark.parametrize("source", ["", "x"])
def test_events_without_ids_are_numbered(source):
    events = [Tick(float(n // 2), ts=n // 2, source=source) for n in range(10)]
    assert [rise.by for rise in run(events, [Fine()]).finals["Fine"]] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_events_of_which_some_have_ids_are_refused():
    events = [Tick(float(n), ts=n, source="x", id=n % 2 * n) for n in range(10)]
    with pytest.raises(EventError, match="5 events of source 'x' have no id, others have one"):
        run(events, [Fine()])


def test_an_event_with_id_0_may_come_again():
    assert run([*ticks(3), *ticks(3)], [Fine()]).duplicates == 3


@pytest.mark.parametrize("made", [Fine, ByPrice])
def test_scalars_of_numpy_are_taken(made):
    events = [Tick(np.float32(n), ts=np.int64(100 * n + 1), id=np.int16(n), source=np.str_("x")) for n in range(10)]
    assert run(events, [made()]).finals == run(ticks(), [made()]).finals


def test_scalars_of_numpy_in_results_are_taken():
    class Numpy(Fine):
        def on_event(self, tick: Tick) -> Any:
            return Rise(np.float64(tick.price), np.int32(3), ts=np.int64(tick.ts))

    finals = run(ticks(), [Numpy()]).finals["Numpy"]
    assert [(rise.by, rise.at) for rise in finals] == [(float(n), 3) for n in range(10)]
    assert {type(value) for rise in finals for value in (rise.by, rise.at, rise.ts)} == {float, int}


def test_scalars_of_numpy_go_over_the_wire():
    assert encode(Rise(np.float64(1.5), np.int8(3), ts=np.int64(7))) == encode(Rise(1.5, 3, ts=7))
    with pytest.raises(TypeError, match="object is unsupported"):
        encode(object())


@pytest.mark.parametrize(
    ("events", "detectors", "message"),
    [
        ([], [Fine], r"Fine is a class: give an instance of it, Fine\(\)"),
        ([], Fine(), r"detectors come in a list, or a dict by name, such as \[Fine\(\)\]"),
        ([], Fine, r"such as \[Fine\(\)\]"),
        ([], [Tick], "Tick is an event type: give detectors"),
        ([], "Fine", "detectors come in a list"),
        ([], None, "detectors come in a list"),
        ([], [7], "7 is no detector"),
        ([], {"fine": Fine}, "Fine is a class"),
        ([], {7: Fine()}, "by name"),
        ({"a": 1}, [Fine()], "events come in a list"),
        ("abc", [Fine()], "events come in a list"),
        (None, [Fine()], "events come in a list"),
        (polars.LazyFrame(), [Fine()], r"LazyFrame at \w+>: collect\(\) it first"),
        (Tick(1.0, ts=1), [Fine()], "events come in a list"),
        ([(1, 2)], [Fine()], r"event 0 is none: \(1, 2\)"),
        ([Tick], [Fine()], "event 0 is none"),
        ([Tick(1.0, ts=1.5)], [Fine()], "ts must be whole nanoseconds, not 1.5"),  # type: ignore[arg-type]
        ([Tick(1.0, ts=2**63)], [Fine()], "ts must lie within 146 years"),
    ],
)
def test_what_is_given_wrongly_is_refused_with_what_to_give(events, detectors, message):
    with pytest.raises((DetectorError, EventError), match=message):
        run(events, detectors)


def test_settings_that_would_do_nothing_are_refused():
    for batch in (0, "3", 2.5):
        with pytest.raises(ValueError, match="how many events arrive at once, at least 1"):
            run(ticks(), [Fine()], batch=batch)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="watch=1: give a function"):
        run(ticks(), [Fine()], watch=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='"raise" or "skip"'):
        run(ticks(), [Fine()], failing="stop")  # type: ignore[arg-type]
    with pytest.raises(DetectorError, match="policies are Policies"):
        run(ticks(), [Fine()], policies="fast")  # type: ignore[arg-type]
    with pytest.raises(DetectorError, match="given for Fin: there is no such detector"):
        run(ticks(), [Fine()], policies={"Fin": Policies()})


def test_windows_need_no_key_and_refuse_what_is_none():
    (window,) = run(ticks(), [Windows(Tick, Tumbling(10_000), {"count": COUNT}, key=None)]).finals.values()
    assert [each.count for each in window] == [10]
    with pytest.raises(WindowError, match="key names fields"):
        Windows(Tick, Tumbling(10_000), {"count": COUNT}, key=7)  # type: ignore[arg-type]


@pytest.mark.parametrize("source", [["a"], {"a"}, 3])
def test_a_source_that_is_no_text_is_reported(source: Any) -> None:
    with pytest.raises(EventError, match="source must be of type str"):
        run([Tick(1.0, ts=1, source=source)], [Failing()])
