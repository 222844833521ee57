"""Durations are texts, timedeltas or numbers, in whatever a program makes; errors name the parameter."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slackline import (
    COUNT,
    SECOND,
    SUM,
    Detector,
    Duration,
    Event,
    Hopping,
    Landmark,
    Lateness,
    Publisher,
    Session,
    SharedWindows,
    SlacklineError,
    Sliding,
    Subscriber,
    Tumbling,
    Windows,
    free_addresses,
    one,
    run,
    seq,
)

from middleware.broker.ingress.sources import SourcePolicy
from middleware.model.quantities import NANOSECONDS, duration_of, seconds_of
from middleware.ordering.slack.kslack import FixedSlack, QuantileSlack
from middleware.ordering.slack.robust import RobustSlack
from middleware.runtime.storage.store import Retention


class Tag(Event):
    x: float


class Hot(Event):
    x: float


@given(st.decimals(-(10**6), 10**6, places=6), st.sampled_from(sorted(NANOSECONDS)), st.sampled_from(["", " ", "  "]))
def test_a_text_is_its_number_times_its_unit_to_the_nearest_nanosecond(number: Any, unit: str, between: str) -> None:
    assert duration_of(f"{number:f}{between}{unit}", "size") == round(Fraction(number) * NANOSECONDS[unit])


@given(st.timedeltas(timedelta(-50_000), timedelta(50_000)))
def test_a_timedelta_is_its_microseconds(length: timedelta) -> None:
    assert duration_of(length, "size") == length // timedelta(microseconds=1) * 1_000


@given(st.integers())
def test_a_number_keeps_its_meaning(number: int) -> None:
    assert duration_of(number, "size") == number
    assert duration_of(number, "timeout", SECOND) == number * SECOND
    assert seconds_of(number, "timeout") == number


def test_timedeltas_of_pandas_keep_their_nanoseconds() -> None:
    pandas = pytest.importorskip("pandas")
    assert duration_of(pandas.Timedelta(1_500_000_007, "ns"), "size") == 1_500_000_007


SAME: list[tuple[Callable[[Any], Any], int]] = [
    (Tumbling, 5 * SECOND),
    (lambda length: Tumbling(10 * SECOND, offset=length), 5 * SECOND),
    (lambda length: Hopping((10 * SECOND, length), every=length), 5 * SECOND),
    (Sliding, 5 * SECOND),
    (Session, 5 * SECOND),
    (lambda length: Landmark(0, length, period=10 * SECOND), 5 * SECOND),
    (lambda length: Landmark(0, SECOND, period=length), 5 * SECOND),
    (lambda length: Lateness(floor=length), 5 * SECOND),
    (lambda length: SourcePolicy(length, length, length), 5 * SECOND),
    (lambda length: Retention(age=length), 5 * SECOND),
    (lambda length: FixedSlack(length).k, 5 * SECOND),
    (lambda length: vars(RobustSlack(most=length)), 5 * SECOND),
    (lambda length: vars(QuantileSlack(most=length)), 5 * SECOND),
    (lambda length: seq(one(Tag, "a"), one(Hot, "b")).within(length).tree, 5 * SECOND),
]


@pytest.mark.parametrize(("make", "length"), SAME)
def test_all_ways_to_write_a_duration_make_the_same(make: Callable[[Duration], Any], length: int) -> None:
    numbers = make(length)
    for written in ("5s", "5 s", "5000 ms", timedelta(seconds=5)):
        made = make(written)
        assert repr(made) == repr(numbers) and (made == numbers or not hasattr(made, "__dict__"))


def test_windows_of_durations_find_what_those_of_nanoseconds_find() -> None:
    events = [Tag(float(n), ts=n * SECOND, id=n, source="plc") for n in range(40)]
    numbers, texts = (
        Windows(Tag, Hopping(*lengths), {"tags": COUNT}, name="w")
        for lengths in ((10 * SECOND, 5 * SECOND), ("10s", timedelta(seconds=5)))
    )
    assert numbers.definition == texts.definition, "the same windows are the same ones in stored state"
    assert list(map(repr, run(events, [numbers]).finals["w"])) == list(map(repr, run(events, [texts]).finals["w"]))


def test_shared_windows_take_durations() -> None:
    shared = SharedWindows(SUM.of(int), retention="60s")
    shared.open("short", timedelta(seconds=10))
    assert shared.retention == 60 * SECOND and shared.open_queries == {"short": 10 * SECOND}


@pytest.mark.parametrize("length", ["1 s", timedelta(seconds=1), SECOND])
def test_a_detector_stamps_results_within_its_backdate(length: Duration) -> None:
    class Sooner(Detector):
        subscribes, publishes, backdate = (Tag,), (Hot,), length

        def on_event(self, event: Tag) -> Hot:
            return Hot(event.x, ts=event.ts - round(event.x))

    found = run([Tag(float(SECOND), ts=5 * SECOND, id=1, source="plc")], [Sooner()])
    assert [hot.ts for hot in found.of(Hot)] == [4 * SECOND]
    with pytest.raises(SlacklineError, match="backdate = 1000000000"):
        run([Tag(float(SECOND + 1_000), ts=5 * SECOND, id=1, source="plc")], [Sooner()])


class Sooner(Detector):
    subscribes, publishes, backdate = (Tag,), (Hot,), "soon"

    def on_event(self, event: Tag) -> None:
        return None


WRONG: list[tuple[str, Callable[[], Any]]] = [
    ("size: '5 sek' is no duration: write a number and a unit .* did you mean 5 sec", lambda: Tumbling("5 sek")),
    ("size: 5.0 is no duration: give a text such as", lambda: Sliding(5.0)),  # type: ignore[arg-type]
    ("every: None is no duration", lambda: Hopping("5s", None)),  # type: ignore[arg-type]
    ("gap must be a duration above 0, not '0s'", lambda: Session("0s")),
    ("period .1h. must be a multiple of every .25min.", lambda: Landmark(0, "25min", "1h")),
    ("floor: '5' is no duration", lambda: Lateness(floor="5")),
    ("hold is a duration above 0, not -1", lambda: SourcePolicy(hold=-1)),
    ("age: 'long' is no duration", lambda: Retention(age="long")),
    ("k: 1.5 is no duration", lambda: FixedSlack(1.5)),  # type: ignore[arg-type]
    ("within: 'a day' is no duration", lambda: seq(one(Tag, "a")).within("a day")),
    ("longer than time lasts", lambda: seq(one(Tag, "a")).within("10000 weeks")),
    ("Sooner.backdate: 'soon' is no duration", lambda: run([], [Sooner()])),
    ("patience: 'never' is no duration", lambda: Publisher(free_addresses(1)[0], patience="never")),
    ("patience: 'never' is no duration", lambda: Subscriber(free_addresses(1)[0], Tag, patience="never")),
]


@pytest.mark.parametrize(("message", "make"), WRONG)
def test_errors_name_the_parameter(message: str, make: Callable[[], Any]) -> None:
    with pytest.raises((SlacklineError, ValueError), match=message):
        make()


def test_clients_wait_as_long_as_a_text_says() -> None:
    (address,) = free_addresses(1)
    with Subscriber(address, Tag, patience="1 min") as reader:
        assert reader.receive(timeout=timedelta(milliseconds=1)) == []
        assert reader.receive(timeout="1 ms") == reader.receive(timeout=0.001) == []
        with pytest.raises(SlacklineError, match="timeout: 'soon' is no duration"):
            reader.receive(timeout="soon")
