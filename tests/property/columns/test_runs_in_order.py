"""A run over events that arrive in order, which has large steps without histories, finds what one in small steps finds."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.model.detector import Detector
from middleware.model.errors import DetectorError
from middleware.model.event import Event
from middleware.model.identity import named
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import Lateness
from middleware.runtime import engine
from middleware.runtime.engine import Run
from middleware.runtime.failures import DetectorFailedError
from middleware.runtime.local.arrivals import ArrivedEvents
from middleware.testing.simulation.applications import (
    Echo,
    High,
    Level,
    Low,
    Pairs,
    Probe,
    Reading,
    Summaries,
    Totals,
    Unruly,
    UnrulyByKey,
)

from .applications import APPLICATIONS
from .test_runs_over_columns import columns_of

Arriving = Callable[[list[Event]], Any]
"""Makes of events what a run takes: columns, or themselves."""


class Timed(Detector):
    """Its results have identities by their times: the first event of a time has some."""

    subscribes, publishes, key, identity = (Reading, Low), (High,), "sensor", "time"

    def __init__(self) -> None:
        self.count, self.last = 0, -1

    def on_event(self, event: Reading | Low) -> tuple[Event, ...]:
        self.count += 1
        before, self.last = self.last, event.ts
        return tuple(High(event.sensor, self.count, ts=event.ts) for _ in range(self.count % 3 if before != event.ts else 0))


DETECTORS = [Level, Totals, Pairs, Summaries, Echo, Timed, Unruly, UnrulyByKey]


def arrivals(rng: Random, count: int, values: list[int], has_ties: bool) -> list[Event]:
    moments = sorted(rng.choices(range(count), k=count) if has_ties else rng.sample(range(9 * count), count))
    kinds = rng.choice([(Reading,), (Reading, Reading, Probe)])
    numbers = rng.sample(range(1_000), count) if rng.random() < 0.5 else range(count)
    return [
        rng.choice(kinds)(rng.randint(0, 2), rng.choice(values), ts=ts, id=number, source=rng.choice("ab"))
        for number, ts in zip(numbers, moments, strict=True)
    ]


def found(result: Run) -> Any:
    finals = {name: [repr(event) for event in events] for name, events in result.finals.items()}
    failures = {name: [repr(each.event) for each in own] for name, own in result.failures.items()}
    return finals, failures, result.late, result.events, result.duplicates, result.halted


def counted(result: Run) -> list[Any]:
    names = ("detector", "received", "emitted", "executed", "keys", "inserted", "k", "clk", "final")
    return [[getattr(each, name) for name in names] for each in result.statistics]


@pytest.mark.parametrize("arriving", [columns_of, list])
@given(
    st.integers(0, 2**32),
    st.lists(st.sampled_from(DETECTORS), min_size=1, max_size=4, unique=True),
    st.sampled_from([[0, 1, 2, 3, 4, 6, 7], [0, 1, 2, 3, 4, 6, 7, 5]]),
    st.booleans(),
    st.sampled_from([0.0, 1.0]),
    st.sampled_from([0, 5, 1_000]),
)
@settings(max_examples=40, deadline=None)
def test_both_ways_find_the_same(
    arriving: Arriving,
    seed: int,
    kinds: list[Any],
    values: list[int],
    has_ties: bool,
    alpha: float,
    floor: int,
) -> None:
    events = arrivals(Random(seed), 40, values, has_ties)
    detectors, policies = named([kind() for kind in kinds]), Policies(alpha=alpha, lateness=Lateness(1.0, floor))
    at_once = engine.run(arriving(events), detectors, policies=policies, failing="skip")
    in_steps = engine.run(arriving(events), detectors, policies=policies, failing="skip", watch=lambda batch: None, batch=7)
    assert found(at_once) == found(in_steps)
    if all(unit.level == 1 for unit in Hierarchy(detectors).units) and not has_ties and not at_once.failures:
        assert counted(at_once) == counted(in_steps)


@pytest.mark.parametrize("arriving", [columns_of, list])
@pytest.mark.parametrize("application", APPLICATIONS)
@given(st.integers(0, 2**32), st.booleans(), st.sampled_from([0.0, 1.0]), st.sampled_from([0, 5, 1_000]))
@settings(max_examples=25, deadline=None)
def test_operators_find_the_same_in_large_steps(
    application: str, arriving: Arriving, seed: int, has_ties: bool, alpha: float, floor: int
) -> None:
    events = arrivals(Random(seed), 40, list(range(10)), has_ties)
    policies = Policies(alpha=alpha, lateness=Lateness(1.0, floor))
    in_large, in_small = both_ways(application, arriving, seed, events, policies)
    assert in_large == in_small


@pytest.mark.parametrize("arriving", [columns_of, list])
@pytest.mark.parametrize("application", ["windows", "sequences", "cql", "columns"])
@pytest.mark.parametrize("has_ties", [True, False])
def test_and_in_several_large_steps(application: str, arriving: Arriving, has_ties: bool) -> None:
    events = arrivals(Random(4), 20_000, list(range(10)), has_ties)
    in_large, in_small = both_ways(application, arriving, 4, events, Policies(alpha=0.0, lateness=Lateness(1.0, 5)), 100)
    assert in_large == in_small
    assert sum(map(len, in_large[0].values())) > 1_000


def both_ways(
    application: str, arriving: Arriving, seed: int, events: list[Event], policies: Policies, batch: int = 7
) -> list[Any]:
    """What a run finds that may take large steps, and what one in small steps."""
    asked: list[dict[str, Any]] = [{}, {"watch": lambda batch: None}]
    ran = [
        engine.run(
            arriving(events), APPLICATIONS[application](Random(seed)), policies=policies, failing="skip", batch=batch, **more
        )
        for more in asked
    ]
    return list(map(found, ran))


def is_in_large_steps(run: Run) -> bool:
    """Whether a run of a detector took all as final as it came: it keeps nothing then, and takes no snapshot."""
    return all(unit.snapshots == 0 for unit in run.statistics)


def readings(times: list[int], value: int = 1) -> list[Event]:
    return [Reading(place % 3, value, ts=ts, id=place, source="a") for place, ts in enumerate(times)]


@pytest.mark.parametrize(
    ("times", "floor", "is_taken"),
    [
        ([1, 2, 3], 0, True),
        ([1, 2, 2], 1_000, True),
        ([1, 2, 2], 0, False),  # the second of a time is late, if it comes in another batch
        ([1, 3, 2], 1_000, False),
        ([], 1_000, True),
    ],
)
def test_which_arrivals_are_in_order(times: list[int], floor: int, is_taken: bool) -> None:
    events = readings(times) or [Reading(0, 0, ts=0, source="a")]
    for arrived in (columns_of(events), events):
        run = engine.run(arrived, [Totals()], policies=Policies(lateness=Lateness(1.0, floor)), batch=1)
        assert is_in_large_steps(run) == is_taken


def test_events_that_come_twice_are_run_in_steps() -> None:
    _, first, second = readings([0, 1, 2])
    again = Reading(0, 7, ts=3, id=first.id, source="a")
    assert ArrivedEvents([first, second, again]).in_total_order() is None
    done = engine.run([first, second, again], [Totals()])
    assert (done.events, done.duplicates) == (2, 1)


def test_many_events_of_two_types_are_made_piece_by_piece() -> None:
    rng = Random(4)
    events = arrivals(rng, 1_000, [1, 2, 3], False) + arrivals(rng, 1_000, [1, 2, 3], True)
    events = [
        type(each)(each.sensor, each.value, ts=20_000 + 7 * at, id=at, source=each.source)  # type: ignore[attr-defined]
        for at, each in enumerate(events * 6)
    ]
    detectors = named([Totals(), Pairs()])
    taken = engine.run(columns_of(events), detectors)
    assert is_in_large_steps(taken)
    in_steps = engine.run(columns_of(events), detectors, watch=lambda batch: None)
    assert taken.finals == in_steps.finals
    assert sum(map(len, taken.finals.values())) > 10_000


def test_a_failure_is_raised_as_in_steps() -> None:
    for watch in (None, lambda batch: None):
        with pytest.raises(DetectorFailedError, match="five"):
            engine.run(columns_of(readings([1, 2, 3], value=5)), [Level()], watch=watch)


class Sharing(Detector):
    """Changes what all its instances share."""

    subscribes, publishes = (Reading,), ()
    seen: ClassVar[dict[int, int]] = {}

    def on_event(self, event: Reading) -> None:
        self.seen[event.ts] = event.value
        assert event.ts < 4


@pytest.mark.parametrize("times", [[1, 2, 3], [1, 2, 3, 4]])
def test_what_instances_share_must_not_change(times: list[int]) -> None:
    with pytest.raises(DetectorError, match="Sharing changes what all its instances share"):
        engine.run(columns_of(readings(times)), [Sharing()])
    Sharing.seen.clear()


class Uncopied(Detector):
    """Its state cannot be copied any more, once it is 3."""

    subscribes, publishes = (Reading,), ()

    def __init__(self) -> None:
        self.now: Any = None

    def on_event(self, event: Reading) -> None:
        self.now = (each for each in ()) if event.ts == 3 else event.ts


def test_a_state_that_cannot_be_copied_is_a_failure() -> None:
    for watch in (None, lambda batch: None):
        with pytest.raises(DetectorFailedError, match="Uncopied"):
            engine.run(columns_of(readings([1, 2, 3])), [Uncopied()], watch=watch)
