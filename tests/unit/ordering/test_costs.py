import random
from itertools import count

import pytest

from middleware.model.change import Delta
from middleware.model.detector import Detector
from middleware.model.event import END, Event
from middleware.ordering.alpha.costs import Costs, RetractionChoice, Step
from middleware.ordering.hierarchy import unit_for
from middleware.ordering.lanes.lane import SPACING
from middleware.ordering.lanes.retraction import Retraction
from middleware.ordering.policies import Policies


class Reading(Event):
    value: int


class Result(Event):
    value: int


class Relay(Detector):
    """Publishes what it reads: a late event changes one result, and full retraction withdraws them all."""

    subscribes, publishes = (Reading,), (Result,)

    def on_event(self, event):
        return Result(event.value, ts=event.ts)


class Chain(Detector):
    """Every result depends on all before: a late event changes all that follow, in either mode."""

    subscribes, publishes = (Reading,), (Result,)

    def __init__(self):
        self.sum = 0

    def on_event(self, event):
        self.sum += event.value + 1
        return Result(self.sum, ts=event.ts)


def disordered(total, late, seed=1):
    rng = random.Random(seed)
    events = [Reading(rng.randrange(9), ts=n, id=n, source="s") for n in range(total)]
    return sorted(events, key=lambda event: event.ts + (rng.randrange(60) if rng.random() < late else 0))


def run(detector, late, **settings):
    unit = unit_for("unit", detector, 1, Policies(alpha=0.0, **settings))
    arrived = disordered(6_000, late)
    for at in range(0, len(arrived), 10):
        unit.push(Delta(arrived[at : at + 10]))
    unit.push(Delta(), promised=END, is_open=False)
    return unit.statistics()


def test_auto_keeps_to_on_demand_where_little_changes():
    auto = run(Relay(), 0.05, retraction=Retraction.AUTO)
    assert auto.retraction == "on-demand"
    full = run(Relay(), 0.05, retraction=Retraction.FULL)
    on_demand = run(Relay(), 0.05)
    assert on_demand.revised + on_demand.retracted == 0
    assert 0 < auto.retracted < full.retracted / 5, "only what exploration withdraws"


def test_the_choice_follows_the_costs_and_changes_back():
    choice = RetractionChoice()
    cost = {Retraction.ON_DEMAND: 10.0, Retraction.FULL: 5.0}

    def work(corrections):
        for _ in range(corrections):
            mode = choice.choose()
            choice.learn(mode, cost[mode])

    work(100)
    assert choice.mode is Retraction.ON_DEMAND, "single corrections prove nothing"
    work(100)
    assert choice.mode is Retraction.FULL
    cost[Retraction.FULL] = 30.0
    work(400)
    assert choice.mode is Retraction.ON_DEMAND
    assert choice.switches == 2


@pytest.mark.parametrize(("dearer", "explored"), [(1.0, 625), (3.0, 57), (1_000.0, 10)])
def test_the_dearer_the_other_way_the_more_seldom_it_is_tried(dearer, explored):
    choice = RetractionChoice()
    cost = {Retraction.ON_DEMAND: 10.0, Retraction.FULL: 10.0 * dearer}
    modes = []
    for _ in range(10_000):
        modes.append(choice.choose())
        choice.learn(modes[-1], cost[modes[-1]])
    assert modes.count(Retraction.FULL) == pytest.approx(explored, abs=1)


def test_a_way_that_has_become_cheap_is_found_out():
    choice = RetractionChoice()
    cost = {Retraction.ON_DEMAND: 10.0, Retraction.FULL: 40.0}
    for cost[Retraction.FULL] in (40.0, 4.0):
        for _ in range(20_000):
            mode = choice.choose()
            choice.learn(mode, cost[mode])
    assert choice.mode is Retraction.FULL


def test_a_stall_of_the_machine_changes_nothing():
    choice = RetractionChoice()
    cost = {Retraction.ON_DEMAND: 10.0, Retraction.FULL: 14.0}
    for number in range(2_000):
        mode = choice.choose()
        choice.learn(mode, 1e6 if number % 100 == 99 else cost[mode])
    assert (choice.mode, choice.switches) == (Retraction.ON_DEMAND, 0)


def test_equal_costs_do_not_make_it_flutter():
    choice = RetractionChoice()
    rng = random.Random(3)
    for _ in range(1_000):
        choice.learn(choice.choose(), 100 + rng.random())
    assert choice.switches == 0


@pytest.mark.parametrize(("late", "least", "most"), [(0.0, 512, 512), (0.002, 80, 400), (0.3, 8, 32)])
def test_spacing_follows_the_rate_of_rollbacks(late, least, most):
    assert least <= run(Chain(), late).spacing <= most


def test_spacing_follows_the_cost_of_snapshots():
    time = iter(range(0, 10**9, 1000))
    cheap, dear = Costs(lambda: next(time)), Costs(lambda: next(time) * 64)
    for costs in (cheap, dear):
        assert costs.spacing() is None, "nothing is known yet"
        costs.measure_snapshot(lambda: None)
        for _ in range(50):
            costs.learn(Step(1_000, 10, 10, 0, 0))
            costs.learn(Step(3_000, 10, 20, 1, 1))
    assert dear.spacing() == pytest.approx(8 * cheap.spacing(), rel=0.2)


def test_spacing_is_known_where_no_step_is_without_corrections():
    """So it is at full speculation, where a keyed unit has late events in each step."""
    moments = iter(range(0, 10**9, 100_000))
    costs = Costs(lambda: next(moments))
    costs.measure_snapshot(lambda: None)
    for _ in range(50):
        costs.learn(Step(200_000, 100, 200, 3, 3))
    assert costs.spacing() == int((2 * 100_000 / (0.03 * 1_000)) ** 0.5)


@pytest.mark.parametrize("timer", [None, count(0, 1_000).__next__])
def test_a_unit_with_few_events_that_are_run_again_and_again_adapts_its_spacing(timer):
    unit = unit_for("unit", Chain(), 1, Policies(alpha=0.0), timer)
    for at in range(100, 300):
        unit.push(Delta([Reading(1, ts=10 * (at - late), id=2 * at + (late > 0), source="s") for late in (0, 40)]))
    statistics = unit.statistics()
    assert statistics.emitted < 1_024 < statistics.executed
    assert statistics.spacing < SPACING


def test_corrections_are_told_from_ordinary_work():
    costs = Costs(lambda: 0)
    assert costs.learn(Step(1_000, 10, 10, 0, 0)) is None
    assert costs.learn(Step(6_000, 10, 60, 1, 3)) == 5_000
    assert (costs.total, costs.correction, costs.event) == (7_000, 5_000, 100)


def test_small_steps_make_no_correction_of_a_large_one_look_cheap():
    """An event in a step of its own costs many times what it costs among a thousand."""
    costs = Costs(lambda: 0)
    for _ in range(100):
        costs.learn(Step(20_000, 1, 1, 0, 0))
    assert costs.learn(Step(2_000_000, 1_000, 1_600, 30, 40)) == 750_000


def test_a_fixed_spacing_stays():
    assert run(Chain(), 0.3, spacing=77).spacing == 77
