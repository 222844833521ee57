"""Buffering as in the paper's baseline: nothing is ever corrected, and nothing is kept to go back to."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.model.change import Delta
from middleware.model.detector import takes_batches
from middleware.model.event import END, IDENTITY, ORDER
from middleware.ordering.hierarchy import unit_for
from middleware.ordering.policies import Policies
from middleware.ordering.unit import Unit
from middleware.testing.oracle import in_order, oracle
from tests.property.strategies import SLACK, policies

from .streams import Filter, Fold, KeyedFold, KeyedWindows, Mode, Reading, Totals, TotalsOnColumns, Windows, arrivals, batches
from .test_unit import Consumer

BUFFERING = policies(slack=SLACK, alpha=st.just("buffering"), failing=st.just("stop"))
SOUND = [Fold, KeyedFold, Filter, Mode, Windows, KeyedWindows]


def accepted(arrived: list[Reading], unit: Unit) -> list[Reading]:
    """What was not late: a late arrival is the last of its identity that has not been struck out yet."""
    kept = arrived[::-1]
    for entry in unit.late:
        kept.remove(next(event for event in kept if IDENTITY(event) == IDENTITY(entry.event)))
    return kept[::-1]


@pytest.mark.parametrize("detector", SOUND)
@settings(max_examples=100, deadline=None)
@given(data=st.data(), arrived=arrivals(), policy=BUFFERING)
def test_results_come_once_and_for_good(detector, data, arrived, policy):
    unit = unit_for(detector.__name__, detector(), 1, policy)
    consumer = Consumer()
    for batch in batches(data.draw, arrived):
        unit.alpha = data.draw(st.sampled_from([1.0, 0.0]))  # however alpha is steered
        deltas = unit.push(Delta(batch))
        assert not any(delta.retracts or delta.revises for delta in deltas)
        assert not any(any(delta.k_plus or ()) for delta in deltas), "a final result is not early"
        consumer.take(deltas)
        consumer.advance(unit.watermark)
        unit.check()
        statistics = unit.statistics()
        assert (statistics.snapshots, statistics.held, statistics.rollbacks) == (0, 0, 0)
    consumer.take(unit.push(Delta(), promised=END, is_open=False))
    assert consumer.finals() == oracle(accepted(arrived, unit), [detector()])[detector.__name__]


@pytest.mark.parametrize("detector", [*SOUND, TotalsOnColumns])
@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32), policy=BUFFERING)
def test_upstreams_that_change_their_mind_disturb_nothing(detector, seed, policy):
    unit = unit_for(detector.__name__, detector(), 2, policy)
    rng, stands, promised, consumer = random.Random(seed), dict[int, Reading](), 0, Consumer()
    for number in range(rng.randrange(1, 40)):
        event = Reading(rng.randrange(4), rng.randrange(8), ts=promised + rng.randint(1, 9), id=number, source="a")
        delta = Delta([event])
        if (open_ones := [each for each in stands.values() if each.ts > promised]) and rng.random() < 0.5:
            old = stands.pop(rng.choice(open_ones).id)
            if rng.random() < 0.5:
                delta.retracts.append(old)
            else:
                new = Reading(old.sensor, (old.value + 1) % 9, ts=promised + rng.randint(1, 9), id=old.id, source="a")
                stands[old.id] = new
                delta.revises.append((old, new))
        stands[number] = event
        promised += rng.choice([0, 0, 2, 5])
        consumer.take(unit.push(delta, promised=promised, is_open=False))
        consumer.advance(unit.watermark)
    consumer.take(unit.push(Delta(), promised=END, is_open=False))
    assert not unit.late
    assert unit.statistics().retracted == unit.statistics().revised == 0
    assert consumer.finals() == sorted(in_order(detector.__name__, detector(), 2, stands.values()), key=ORDER)


@pytest.mark.parametrize("detector", SOUND)
@settings(max_examples=100, deadline=None)
@given(
    data=st.data(),
    arrived=arrivals(),
    first=st.one_of(policies(slack=SLACK), BUFFERING),
    then=st.one_of(policies(slack=SLACK), BUFFERING),
)
def test_a_unit_goes_on_with_another_policy(detector, data, arrived, first, then):
    """It may have emitted events early in its former life: those can still be disturbed, and their results corrected."""
    unit = unit_for(detector.__name__, detector(), 1, first)
    consumer = Consumer()
    parts = batches(data.draw, arrived)
    change = data.draw(st.integers(0, len(parts)))
    for number, batch in enumerate(parts):
        if number == change:
            before, lanes = unit.state(), unit.part(1_000)
            unit = unit_for(detector.__name__, detector(), 1, then)
            unit.restore(before)
            unit.restore_part(lanes)
            unit.alpha = then.initial_alpha
        consumer.take(unit.push(Delta(batch)))
        consumer.advance(unit.watermark)
        unit.check()
    consumer.take(unit.push(Delta(), promised=END, is_open=False))
    assert consumer.finals() == oracle(accepted(arrived, unit), [detector()])[detector.__name__]


@settings(max_examples=100, deadline=None)
@given(data=st.data(), arrived=arrivals(), policy=BUFFERING)
def test_a_detector_that_raises_stops_for_its_key(data, arrived, policy):
    unit = unit_for("Totals", Totals(), 1, policy)
    consumer, failed = Consumer(), []
    for batch in batches(data.draw, arrived):
        consumer.take(unit.push(Delta(batch)))
        consumer.advance(unit.watermark)
    consumer.take(unit.push(Delta(), promised=END, is_open=False))
    failed = [published.cause for published in unit.quarantine]
    kept, stopped, due = accepted(arrived, unit), set(), []
    plain: dict[int, Totals] = {}
    for event in sorted({IDENTITY(event): event for event in reversed(kept)}.values(), key=ORDER):
        detector = plain.setdefault(event.sensor, Totals())
        try:
            results = list(detector.on_event(event)) if event.sensor not in stopped else None
        except RuntimeError:
            results = None
            stopped.add(event.sensor)
        if results is None:
            due.append(event)
    assert sorted(failed, key=ORDER) == due
    sound = [event for event in kept if event not in due]
    assert consumer.finals() == oracle(sound, [Totals()])["Totals"]


def test_a_detector_on_columns_keeps_what_it_needs_to_find_a_failure():
    assert takes_batches(TotalsOnColumns)
    unit = unit_for("T", TotalsOnColumns(), 1, Policies(alpha="buffering", failing="stop"))
    unit.push(Delta([Reading(0, 1, ts=ts, id=ts, source="a") for ts in range(10)]))
    unit.push(Delta(), promised=END, is_open=False)
    assert unit.statistics().executed == 10
    assert unit.statistics().retracted == 0
