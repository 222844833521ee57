"""Keyed lanes hold what may still be disturbed, and little more, in Python as in the native core."""

import gc
import random

import pytest

from middleware.model.change import Delta
from middleware.model.detector import Detector, key_function
from middleware.model.event import Event
from middleware.model.identity import Derivation
from middleware.ordering.hierarchy import unit_for
from middleware.ordering.lanes.batch_lane import DerivationByKey
from middleware.ordering.lanes.lane import Settings
from middleware.ordering.lanes.lanes import keyed_lanes
from middleware.ordering.lanes.ready_events import ReadyEvents
from middleware.ordering.policies import Policies
from tests.oracles import keyed_lanes as oracle


class Step(Event):
    sensor: int


class Result(Event):
    count: int


class Counter(Detector):
    subscribes, publishes, key = (Step,), (Result,), "sensor"

    def __init__(self):
        self.count = 0

    def on_event(self, event):
        self.count += 1
        return Result(self.count, ts=event.ts)


KINDS = [oracle.KeyedLanes, keyed_lanes]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__module__)
@pytest.mark.parametrize(("size", "delay"), [(28, 80), (7, 30), (40, 100)])
def test_a_lane_that_is_corrected_all_the_time_forgets_as_well(kind, size, delay):
    """Replays take the snapshots of such a lane, so that it seldom takes one in order, where it would look back."""
    detector, rng = Counter(), random.Random(1)
    lanes = kind("Counter", detector, 1, Settings(), key_function(detector))
    arrived = sorted(
        (Step(0, ts=ts, id=ts, source="s") for ts in range(4_000)), key=lambda step: step.ts + rng.random() * delay
    )
    newest, most = 0, 0
    for at in range(0, len(arrived), size):
        batch = arrived[at : at + size]
        newest = max(newest, *(event.ts for event in batch))
        lanes.emit(ReadyEvents([], batch), [], newest, delay, newest - delay - 1)
        lanes.check()
        most = max(most, lanes.held)
    assert delay <= most <= delay + 256 + size


def test_lanes_to_which_little_comes_keep_nothing_that_is_final():
    detector = Counter()
    lanes = keyed_lanes("Counter", detector, 1, Settings(), key_function(detector))
    for ts in range(0, 20_000, 100):
        lanes.emit(
            ReadyEvents([Step(key, ts=ts + key, id=ts + key, source="s") for key in range(100)], []), [], ts, 100, ts - 1
        )
        lanes.check()
        assert lanes.held == 100


@pytest.mark.parametrize("of_each", [3, 10, 40])
def test_lanes_to_which_events_keep_coming_in_order_keep_little_that_is_final(of_each):
    """No snapshot is taken for the sake of replays, as nothing is out of order: each lane kept up to 256 final events."""
    keys, lateness = 100, 1_000
    lanes = keyed_lanes("Counter", Counter(), 1, Settings(spacing=512), key_function(Counter()))
    step, number, results = lateness // of_each, 0, []
    for ts in range(0, 40 * lateness, step):
        steps = [Step(key, ts=ts, id=(number := number + 1), source="s") for key in range(keys)]
        for delta in lanes.emit(ReadyEvents([], steps), [], ts, 0, ts - lateness):
            results += delta.inserts
        assert lanes.held <= keys * (2 * of_each + 2 * 16)
    lanes.check()
    assert [event.count for event in results] == [1 + at // keys for at in range(number)]


def test_keys_that_come_and_go_leave_few_events_behind():
    unit = unit_for("Counter", Counter(), policies=Policies(alpha=0.0))
    for first in range(0, 120_000, 1_000):
        steps = [Step(at // 40, ts=at, id=at, source="s") for at in range(first, first + 1_000)]
        unit.push(Delta(steps), None, first + 999, False)
    statistics = unit.statistics()
    assert statistics.keys == 3_000
    assert statistics.held < 5 * statistics.keys


def derivations() -> int:
    return sum(isinstance(each, Derivation) for each in gc.get_objects())


def test_of_many_keys_some_derivations_are_kept_and_the_others_are_made_again():
    derive = DerivationByKey("Counter", Counter(), 1)

    def ids(key):
        return [event.id for event in derive(Step(key, ts=7, id=key, source="s"), [Result(1, ts=7), Result(2, ts=7)])]

    first, before = ids(0), derivations()
    assert all(len(set(ids(key))) == 2 for key in range(1, 40_000))
    assert derivations() - before < 20_000
    assert ids(0) == first
