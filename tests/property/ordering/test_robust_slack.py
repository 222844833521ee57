"""K and the allowed lateness are learnt from what can be in time: no source moves them alone; what many show is followed."""

import pickle
import random
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.model.change import Batch, Delta
from middleware.model.detector import Detector
from middleware.model.event import type_name
from middleware.model.time import MILLISECOND, SECOND
from middleware.ordering.hierarchy import Hierarchy, unit_for
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import MOST, Lateness, MaxSlack, QuantileSlack
from middleware.ordering.slack.robust import RobustSlack
from middleware.ordering.unit import Unit

from .streams import KeyedFold, Reading, Top, Upper

HOUR = 3_600 * SECOND
START = 10**18
SOURCES = 10
STEP = 10 * MILLISECOND  # between two events: a hundred a second

USUAL = 100 * MILLISECOND  # what delays of up to 50 ms come to, measured against the next event

Row = tuple[int, int, str]
"""Arrival, occurrence, source."""


def rows(
    rng: random.Random, seconds: float, delay: int, begin: float = 0, sources: int = SOURCES, offset: int = START
) -> list[Row]:
    """What ``sources`` send in turn, each event up to ``delay`` late."""
    first = offset + round(begin * SECOND)
    return [
        (ts + rng.randint(0, delay), ts, f"s{number % sources}")
        for number, ts in enumerate(range(first, first + round(seconds * SECOND), STEP))
    ]


def events_of(arrivals: Iterable[Row], first: int = 0) -> list[Reading]:
    return [Reading(0, 0, ts=ts, id=first + n, source=source) for n, (_, ts, source) in enumerate(sorted(arrivals))]


class Nothing(Detector):
    """The unit's clock is what counts here."""

    subscribes, publishes = (Reading,), ()

    def on_event(self, event: Reading) -> None:
        """Nothing comes of it."""


def a_unit(policies: Policies | None = None) -> Unit:
    return unit_for("d", Nothing(), 1, policies or Policies())


def feed(unit: Unit, events: Iterable[Reading], size: int = 1) -> None:
    events = list(events)
    for at in range(0, len(events), size):
        unit.push(Delta(events[at : at + size]))


def taught(seed: int, size: int = 1, delay: int = 50 * MILLISECOND, policies: Policies | None = None) -> Unit:
    """A unit after half a minute of its usual delays."""
    unit = a_unit(policies)
    feed(unit, events_of(rows(random.Random(seed), 30, delay)), size)
    return unit


@pytest.mark.parametrize("size", [1, 16, 256])
@pytest.mark.parametrize("age", [2 * SECOND, 60 * SECOND, 2 * HOUR, 24 * 365 * HOUR])
def test_an_outlier_changes_nothing(age: int, size: int):
    unit = taught(1, size)
    k, lateness, final = unit.clock.k, unit.lateness, unit.final
    feed(unit, [Reading(0, 0, ts=unit.clock.clk - age, id=10**6, source="s3")])
    assert (unit.clock.k, unit.lateness, unit.final) == (k, lateness, final) and unit.statistics().late == 1
    feed(unit, events_of(rows(random.Random(2), 1, 0, begin=31), 10**6 + 1), size)
    assert unit.clock.clk - unit.final == SECOND, "and finals continue at once"


def test_the_maximum_of_the_paper_can_be_had_and_follows_every_outlier():
    unit = taught(1, policies=Policies(slack=MaxSlack))
    feed(unit, [Reading(0, 0, ts=unit.clock.clk - 2 * HOUR, id=10**6, source="s3")])
    assert unit.clock.k == 2 * HOUR and unit.lateness == 4 * HOUR


def test_a_quantile_does_not_count_what_comes_too_late():
    unit = taught(1, policies=Policies(slack=QuantileSlack))
    k = unit.clock.k
    feed(unit, [Reading(0, 0, ts=unit.clock.clk - 2 * HOUR, id=10**6 + n, source="s3") for n in range(1_000)])
    assert unit.clock.k == k


@pytest.mark.parametrize("size", [1, 64])
@pytest.mark.parametrize("order", ["oldest first", "newest first", "drawn"])
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_a_flood_of_late_events_by_one_source_changes_nothing_for_others(share: float, order: str, size: int):
    rng = random.Random(3)
    unit, usual = taught(3, size), rows(rng, 60, 50 * MILLISECOND, begin=30)
    backlog = [START - round(2 * HOUR * n / 6_000) + 27 * SECOND for n in range(round(len(usual) * share / (1 - share)))]
    backlog.sort(reverse=order == "newest first")
    if order == "drawn":
        rng.shuffle(backlog)
    step = 60 * SECOND / len(backlog)
    flood = [(START + 30 * SECOND + round(n * step), ts, "offline") for n, ts in enumerate(backlog)]
    feed(unit, events_of([*usual, *flood], 10**6), size)
    assert unit.clock.k <= USUAL and unit.lateness == SECOND
    assert {late.event.source for late in unit.late} == {"offline"} and len(unit.late) == len(flood)


def test_a_source_that_creeps_back_doubles_the_lateness_a_minute_at_most():
    """Newest first, just within the allowed lateness each time: the worst that events in time can do."""
    unit, usual = taught(4), events_of(rows(random.Random(4), 60, 0, begin=31), 10**6)
    for number, event in enumerate(usual):
        within = max(unit.final + 1, event.ts - unit.lateness * 9 // 10)
        feed(unit, [event, Reading(0, 0, ts=within, id=number, source="creeps")])
    assert unit.lateness <= 4 * SECOND
    feed(unit, events_of(rows(random.Random(5), 66, 50 * MILLISECOND, begin=92), 10**7))
    assert unit.lateness == SECOND and unit.clock.k <= USUAL, "and a minute later all is as it was"


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6), sources=st.integers(1, 12), size=st.sampled_from([1, 16, 256]))
def test_delays_of_all_sources_that_grow_tenfold_are_followed_within_a_minute_and_forgotten_within_one(seed, sources, size):
    rng, usual, long = random.Random(seed), 400 * MILLISECOND, 4 * SECOND
    unit = a_unit()
    feed(unit, events_of(rows(rng, 30, usual, sources=sources)), size)
    feed(unit, events_of(rows(rng, 60, long, begin=31, sources=sources), 10**6), size)
    late = unit.statistics().late
    assert long // 2 <= unit.clock.k <= long * 1.2 and unit.lateness >= long
    feed(unit, events_of(rows(rng, 30, long, begin=96, sources=sources), 10**7), size)
    assert unit.statistics().late == late, "none of the new delays is late any more"
    feed(unit, events_of(rows(rng, 70, usual, begin=131, sources=sources), 10**8), size)
    assert unit.clock.k <= usual * 1.5 and unit.lateness <= 1.5 * SECOND


@pytest.mark.parametrize("lag", [5 * SECOND, 60 * SECOND])
def test_a_lag_that_most_sources_have_is_followed_though_none_of_it_is_in_time(lag: int):
    rng = random.Random(6)
    punctual = rows(rng, 150, 0, sources=3)
    lagging = [(at + lag, ts, f"slow-{source}") for at, ts, source in rows(rng, 150, 0, sources=3)]
    unit = a_unit()
    feed(unit, events_of([*punctual, *lagging]))
    lost = [late.event.ts for late in unit.late]
    assert lag <= unit.clock.k <= lag + STEP and max(lost) < START + lag, "but for what was final before any of it came"


@settings(max_examples=6, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    size=st.sampled_from([1, 7, 64]),
    first=st.sampled_from([-2 * HOUR, -SECOND, 0, 100 * MILLISECOND]),
)
def test_it_starts_well_whatever_comes_first(seed: int, size: int, first: int):
    rng = random.Random(seed)
    ordered = events_of(rows(rng, 90, 700 * MILLISECOND), 1)
    unit = a_unit()
    feed(unit, [Reading(0, 0, ts=START + first, id=0, source="s0"), *ordered], size)
    assert not [late for late in unit.late if late.event.id], "the others are all in time"
    assert unit.clock.k <= SECOND and unit.lateness <= 2 * SECOND


@pytest.mark.parametrize("size", [1, 64])
def test_a_source_that_begins_with_a_backlog_holds_nobody_up(size: int):
    rng = random.Random(7)
    backlog = [(START + n * STEP // 5, START - 2 * HOUR + n * SECOND, "s0") for n in range(5_000)]
    unit = a_unit()
    feed(unit, events_of([*backlog, *rows(rng, 60, 50 * MILLISECOND, begin=1)]), size)
    assert unit.lateness <= 2 * SECOND and unit.clock.k <= unit.lateness
    assert {late.event.source for late in unit.late} == {"s0"}


def test_a_silence_is_no_delay():
    unit = taught(8)
    last = Reading(0, 0, ts=unit.clock.clk - MILLISECOND, id=10**6, source="s0")
    feed(unit, [last, Reading(0, 0, ts=unit.clock.clk + 14 * HOUR, id=10**6 + 1, source="s0")])
    assert unit.clock.k <= USUAL and unit.lateness == SECOND


def test_no_delay_moves_k_beyond_the_most():
    unit = a_unit(Policies(slack=lambda: RobustSlack(Lateness(), 2 * SECOND)))
    feed(unit, events_of(rows(random.Random(9), 60, 30 * SECOND)))
    assert unit.clock.k <= 2 * SECOND and unit.lateness == 4 * SECOND
    with pytest.raises(ValueError, match="most"):
        RobustSlack(most=0)
    assert MOST == 600 * SECOND


def test_an_outlier_changes_nothing_for_the_units_above():
    hierarchy = Hierarchy([KeyedFold(), Upper(), Top()], policies=Policies(alpha=0.5))
    rng = random.Random(10)

    def process(events: list[Reading]) -> None:
        for event in events:
            clock = max(event.ts, hierarchy.clock or 0)
            hierarchy.process(Batch({type_name(Reading): Delta([event])}, {}, clock))

    process(events_of(rows(rng, 20, 50 * MILLISECOND)))
    before = [unit.clock.k for unit in hierarchy.units]
    process([Reading(0, 0, ts=START - 2 * HOUR, id=10**6, source="s1")])
    assert [unit.clock.k for unit in hierarchy.units] == before
    process(events_of(rows(rng, 20, 50 * MILLISECOND, begin=21), 10**7))
    assert all(unit.clock.k <= 200 * MILLISECOND for unit in hierarchy.units)
    assert all(hierarchy.clock - unit.final <= SECOND + 200 * MILLISECOND for unit in hierarchy.units)


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6), cut=st.integers(1, 5_000))
def test_what_it_has_learnt_outlasts_a_restart_at_any_moment(seed: int, cut: int):
    rng = random.Random(seed)
    mixed = [*rows(rng, 25, 400 * MILLISECOND), *rows(rng, 25, 4 * SECOND, begin=25)]
    events = events_of([*mixed, *((at, ts - 2 * HOUR, "s9") for at, ts, _ in rng.sample(mixed, 50))])
    one, other = a_unit(), a_unit()
    feed(one, events[:cut])
    other.restore(pickle.loads(pickle.dumps(one.state())))
    assert (one.clock.k, one.lateness) == (other.clock.k, other.lateness)
    for event in events[cut:]:
        one.push(Delta([event]))
        other.push(Delta([event]))
        assert (one.clock.k, one.lateness, one.final) == (other.clock.k, other.lateness, other.final)


def test_what_the_maximum_had_learnt_before_is_forgotten_at_a_restart():
    before = taught(1, policies=Policies(slack=MaxSlack))
    feed(before, [Reading(0, 0, ts=before.clock.clk - 2 * HOUR, id=10**6, source="s3")])
    after = a_unit()
    after.restore(pickle.loads(pickle.dumps(before.state())))
    assert after.clock.k == 0 and after.lateness == SECOND and after.final == before.final
