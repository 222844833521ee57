"""Values that a replay must give back as they were, and results that are the same: neither is revised, or changed."""

from __future__ import annotations

import cmath
import datetime as dt
import itertools
import math
import random
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from slackline import Detector, Event, Lateness, Policies, run

from detectors.sequence.sequence_operator import SequenceQuery
from detectors.window import ARGMIN, LAST, SUM, Tumbling, Windows
from middleware.model.errors import DetectorError

WIDE = Policies(alpha=0.0, lateness=Lateness(floor=10**6), spacing=1)
MISSING = object()


class Tick(Event):
    v: int


class Sample(Event):
    re: float
    im: float


class Out(Event):
    value: float


class Said(Event):
    value: Any


@dataclass(frozen=True)
class Place:
    x: float


class Seen(Event):
    at: dt.datetime
    of_day: dt.time
    place: Place


class Seeing(Detector):
    subscribes, publishes = (Tick,), (Seen,)

    def on_event(self, event):
        at = dt.datetime.fromisoformat("2024-01-01T00:00:00+01:00")
        return Seen(at, dt.time(12, tzinfo=at.tzinfo), Place(float(event.v)), ts=event.ts)


def ticks(times: list[int]) -> list[Event]:
    return [Tick(ts, ts=ts, id=ts, source="s") for ts in times]


def test_equal_results_are_not_revised_and_stand() -> None:
    outcomes = []
    result = run(
        ticks([1, 3, 4, 2]),
        [Seeing()],
        batch=1,
        watch=lambda batch: outcomes.extend(pair for delta in batch.deltas.values() for pair in delta.revises),
    )
    assert (result.corrected, outcomes) == (0, [])
    assert result.why(result.finals["Seeing"][0]).stands


class Phases(Detector):
    """The phase of the sample before."""

    subscribes, publishes = (Sample,), (Out,)

    def __init__(self) -> None:
        self.last = 1 + 0j

    def on_event(self, event):
        before, self.last = self.last, complex(event.re, event.im)
        return Out(cmath.phase(before), ts=event.ts)


class Columns(Detector):
    """An array whose memory is not in the order of new ones."""

    subscribes, publishes = (Tick,), (Out,)

    def __init__(self) -> None:
        self.m = None

    def on_event(self, event):
        if self.m is None:
            self.m = np.zeros((16, 16), order="F")
        self.m[event.v % 16, event.ts % 16] += 0.1 * event.v
        return Out(float(self.m.ravel("K") @ np.arange(256)), ts=event.ts)


class Marked(Detector):
    """An object stands for nothing yet."""

    subscribes, publishes = (Tick,), (Said,)

    def __init__(self) -> None:
        self.last: object = MISSING
        self.more = [1, (2, [3])]  # so that the state is more than plain values

    def on_event(self, event):
        was, self.last = self.last, event.v
        return Said("first" if was is MISSING else was, ts=event.ts)


class Rises(Detector):
    """A NaN as a default is no change of what instances share."""

    subscribes, publishes = (Tick,), (Out,)
    least = math.nan

    def __init__(self, first: float = math.nan) -> None:
        self.last = first

    def on_event(self, event):
        before, self.last = self.last, event.v
        return Out(event.v - before, ts=event.ts) if event.v > before else None


@pytest.mark.parametrize("kind", [Phases, Columns, Marked, Rises])
def test_finals_are_those_of_sorted_input(kind: type[Detector]) -> None:
    if kind is Phases:
        events: list[Event] = [Sample(-1.0, im, ts=ts, id=ts) for ts, im in ((1, 0.0), (2, -0.0), (3, 0.0))]
        arrivals = [list(each) for each in itertools.permutations(events)]
    else:
        events, rng = ticks(list(range(1, 60))), random.Random(1)
        arrivals = [sorted(events, key=lambda event: event.ts + rng.randrange(9)) for _ in range(3)]
    expected = [repr(event) for event in run(events, [kind()]).finals[kind.__name__]]
    for arrived in arrivals:
        found = run(arrived, [kind()], batch=1, policies=WIDE).finals[kind.__name__]
        assert [repr(event) for event in found] == expected


def test_what_is_chosen_of_values_with_a_nan_hangs_on_no_order() -> None:
    values = [0.0, math.nan, -5.0, math.nan, -9.0, 3.0] * 10
    events: list[Event] = [Out(x, ts=ts, id=ts, source="s") for ts, x in enumerate(values, 1)]
    window = {"least": (ARGMIN, lambda event: (event.value, event.id))}
    found = [
        repr(run(some, [Windows(Out, Tumbling(100), window)], batch=1, policies=WIDE).finals["OutWindows"])
        for some in (events, events[::-1], events[30:] + events[:30])
    ]
    assert len(set(found)) == 1 and "nan, 2" in found[0]


def test_windows_over_what_may_be_missing_stay_whole_and_texts_are_taken() -> None:
    class Sent(Event):
        at: int | None
        by: str

    large = 1_715_587_200_000_000_123
    events = [Sent(large, "b", ts=1, id=1), Sent(large + 2, "a", ts=2, id=2), Sent(None, "c", ts=3, id=3)]
    window = Windows(Sent, Tumbling(10), {"all": (SUM, "at"), "last": (LAST, "at"), "by": (LAST, "by")})
    (found,) = run(events, [window]).finals["SentWindows"]
    assert (found.all, found.last, found.by) == (2 * large + 2, large + 2, "c")  # type: ignore[attr-defined]


def test_a_whole_number_in_a_field_of_floats_is_a_float() -> None:
    found = run([Out(5, ts=1, id=1), Out(2.5, ts=2, id=2)], [Echo()]).finals["Echo"]
    assert repr([event.value for event in found]) == "[5.0, 2.5]"  # type: ignore[attr-defined]


class Echo(Detector):
    subscribes, publishes = (Out,), (Said,)

    def on_event(self, event):
        return Said(event.value, ts=event.ts)


class Capped(Event):
    k: int
    v: int

    def __post_init__(self) -> None:
        if self.v > 3:
            msgspec.structs.force_setattr(self, "v", 3)


class Small(Event):
    k: int
    v: int

    def __post_init__(self) -> None:
        if self.v > 5:
            raise ValueError("too much")


def test_code_that_makes_events_is_run_for_columns_too() -> None:
    second = 10**9
    table = pa.table({"k": [0] * 6, "v": range(6), "ts": [10**18 + at * second for at in range(6)], "id": range(1, 7)})
    rows = [Capped(0, at, ts=10**18 + at * second, id=at + 1) for at in range(6)]
    found = [
        [event.v for event in run(given, [Windows(Capped, Tumbling(10 * second), {"v": (SUM, "v")}, key="k")]).finals[name]]  # type: ignore[attr-defined]
        for given in (table, rows)
        for name in ("CappedWindows",)
    ]
    assert found[0] == found[1] == [0, 12]


def test_a_result_that_its_class_refuses_is_quarantined_alone() -> None:
    text = "EVENT SEQ(Capped a, Capped b) WHERE [k] WITHIN 1 seconds RETURN Small(a.k AS k, coalesce(a.v * 2 + b.v, 0) AS v)"
    query = SequenceQuery(text, [Capped, Small])
    events = [Capped(0, v, ts=at * 10**9, id=at + 1) for at, v in enumerate([1, 2, 3, 0, 1, 2])]
    result = run(events, [query], failing="skip", batch=1)
    assert [event.v for event in result.finals["Small"]] == [4, 1, 4]  # type: ignore[attr-defined]
    assert [each.event.v for each in result.failures["Small"]] == [7, 6]  # type: ignore[attr-defined]
    assert not result.halted


def test_declarations_that_lead_to_no_result_are_refused() -> None:
    class Far(Detector):
        subscribes, publishes, backdate = (Tick,), (Out,), 2**63

        def on_event(self, event):
            return None

    with pytest.raises(DetectorError, match=r"Far\.backdate"):
        run(ticks([1]), [Far()])


class Marked(Detector):
    """The first tick, and the first after each zero."""

    NOTHING = object()
    subscribes, publishes = (Tick,), (Out,)

    def __init__(self) -> None:
        self.last: Any = self.NOTHING

    def on_event(self, event):
        is_first, self.last = self.last is self.NOTHING, event.v if event.v % 3 else self.NOTHING
        return Out(float(event.v), ts=event.ts) if is_first else None


class MarkedElsewhere(Marked):
    """As one in a module that imports its base: what stands for nothing is not in it."""

    __module__ = "elsewhere"


@pytest.mark.parametrize("kind", [Marked, MarkedElsewhere])
def test_what_stands_for_nothing_may_belong_to_the_class_or_to_a_base(kind: type[Detector]) -> None:
    for order in ([1, 2, 3, 4, 5, 6, 7], [2, 1, 3, 5, 4, 7, 6]):
        result = run(ticks(order), [kind()], policies=WIDE, batch=1)
        assert [event.value for event in result.finals[kind.__name__]] == [1.0, 4.0, 7.0]  # type: ignore[attr-defined]


class Arrays(Detector):
    subscribes, publishes = (Tick,), (Said,)

    def __init__(self) -> None:
        self.count = 0

    def on_event(self, event):
        self.count += 1
        return Said(np.zeros(2) + self.count, ts=event.ts)


def test_arrays_are_lists_as_on_any_other_node() -> None:
    result = run(ticks([1, 2, 4, 3]), [Arrays()], batch=1, failing="skip")
    assert [event.value for event in result.finals["Arrays"]] == [[1, 1], [2, 2], [3, 3], [4, 4]]  # type: ignore[attr-defined]
