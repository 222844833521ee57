"""alpha by what is gained, under simulated load: a queue, detectors, and corrections that grow as alpha falls."""

from collections import deque
from itertools import count, pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from middleware.model.change import Batch, Delta
from middleware.model.detector import Detector
from middleware.model.event import Event, type_name
from middleware.ordering.alpha.adaptation import Alpha
from middleware.ordering.alpha.budget import Budget, Load
from middleware.ordering.alpha.gain import STEP, Gain
from middleware.ordering.hierarchy import Adaptation, Hierarchy

K, INTERVAL = 0.5, 0.5
"""Slack, and the time between two adaptations, s."""

MOST, FIXED, HALF = 0.04, 0.001, 0.005
"""The most work of a step, what it takes besides, and the work at which corrections cost half as much, s."""

SMALL, LARGE = 0.001, 0.01
"""Time between two arrivals, s: such that a node always has something to do, or not."""


class Outcome(NamedTuple):
    """Mean latency (s) and work done, after the first seconds; the alphas."""

    latency: float
    done: float
    alphas: list[float]


def simulated(load, control, extra, apart=SMALL, seconds=50.0, settled=25.0, speed=lambda t: 1.0):
    """A node under ``load(t)``, 1 being all that it could take if steps and corrections cost nothing. It takes what has come in
    steps, one after another: if more comes, they get larger and cheaper, up to ``MOST``.

    ``extra``: what corrections cost at alpha = 0 in the smallest steps, for each unit of other work; ``control``: a
    controller, or an alpha; ``apart``: time between two arrivals; ``speed(t)``: how fast it works: other programs decide, too.
    """
    now = came = waited = done = busy = full = corrected = 0.0
    due, begun, queue = apart, 0.0, deque()
    alpha = control if isinstance(control, float) else control.alpha
    alphas = []
    while now < seconds:
        while due <= now:
            queue.append((due, load(due) * apart))
            due += apart
        if not queue:
            now = due
        else:
            taken, given, pace = 0.0, [], speed(now)
            while queue and taken < MOST:
                given.append(queue.popleft())
                taken += given[-1][1]
            corrections = extra * (1 - alpha) / (1 + taken / HALF)
            took = (FIXED + taken * (1 + corrections)) / pace
            now += took
            busy, corrected, full = busy + took, corrected + taken * corrections / pace, full + took * (taken >= MOST)
            if now > settled:
                came, done = came + taken, done + taken
                waited += sum(work * (alpha * K + now - arrived) for arrived, work in given)
        if now - begun >= INTERVAL:
            if not isinstance(control, float):
                measured = min(1.0, busy / (now - begun)), corrected / busy if busy else 0.0, full / (now - begun)
                control = control.adapted(*measured) if isinstance(control, Gain) else control.adapted(measured[0])
                alpha = control.alpha
            alphas.append(alpha)
            busy = full = corrected = 0.0
            begun = now
    return Outcome(waited / came, done, alphas)


def best_of(load, extra, apart):
    return min(simulated(load, number / 5, extra, apart).latency for number in range(6))


@pytest.mark.parametrize("apart", [SMALL, LARGE])
@pytest.mark.parametrize("extra", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("level", [0.02, 0.3, 0.6, 0.8, 0.9, 1.0, 2.0])
def test_from_a_cold_start_it_comes_near_the_best_fixed_alpha_at_every_load(level, extra, apart):
    """Within 10 % and 50 ms, a tenth of the slack; the fixed alphas are a fifth apart. No throughput is lost."""

    def load(t):
        return level

    gained, buffered = simulated(load, Gain(), extra, apart), simulated(load, 1.0, extra, apart)
    assert gained.latency <= 1.1 * best_of(load, extra, apart) + 0.1 * K
    assert gained.done >= 0.995 * buffered.done
    assert gained.latency <= 1.05 * simulated(load, Alpha(), extra, apart).latency + 0.015


@pytest.mark.parametrize("apart", [SMALL, LARGE])
def test_it_follows_steps_of_the_load(apart):
    """Idle, too much for any speculation, idle again: back off within seconds, and return."""

    def load(t):
        return 1.2 if 30 < t <= 45 else 0.2

    gained = simulated(load, Gain(), 1.0, apart, 90.0, 0.0)
    assert gained.alphas[20] == 0.0
    assert min(gained.alphas[70:90]) > 0.5
    assert gained.alphas[-1] == 0.0
    assert gained.latency < 1.02 * simulated(load, Alpha(), 1.0, apart, 90.0, 0.0).latency


@pytest.mark.parametrize("extra", [0.3, 0.8])
@pytest.mark.parametrize("level", [0.4, 0.5])
def test_a_node_that_was_held_up_speculates_again_as_soon_as_its_queue_is_gone(level, extra):
    """A node for which alpha = 0 was right for long stands still for 0.8 s: that says nothing against alpha = 0."""

    def load(t):
        return level

    def speed(t):
        return 0.02 if 40 < t <= 40.8 else 1.0

    gained = simulated(load, Gain(), extra, LARGE, speed=speed)
    held_up = [at for at, alpha in enumerate(gained.alphas) if alpha > 0 and at > 20]
    assert held_up and held_up[0] == 80, "it backs off while the queue is there"
    assert held_up[-1] <= 86


def test_another_load_after_a_long_time_is_tried_once():
    """From idle to much that can be taken with all corrections: what the first moment cost is no reason for a floor."""

    def load(t):
        return 0.02 if t <= 20 else 1.6 if t <= 20.6 else 0.6

    gained = simulated(load, Gain(), 0.5, LARGE)
    assert max(gained.alphas[40:46]) > 0.5
    assert max(gained.alphas[50:]) == 0.0


def test_what_fails_again_soon_is_to_blame():
    state = Gain(alpha=0.0, load=0.6, intervals=100)
    state = state.adapted(1.0, 0.4, 1.0)
    assert state.alpha > 0
    state = state.adapted(0.7, 0.1, 0.0)
    assert state.alpha == 0, "it may have been held up"
    state = state.adapted(1.0, 0.4, 1.0)
    for _ in range(6):
        state = state.adapted(0.7, 0.1, 0.0)
        assert state.alpha > 0


def test_a_busy_machine_takes_nothing_away():
    """Other programs make work take longer, and the busy factor rise: as long as the node keeps up, it continues to
    speculate."""
    state = Gain()
    for _ in range(20):
        state = state.adapted(0.92, 0.01, 0.0)
    assert state.alpha == 0.0
    assert Alpha(alpha=0.0).adapted(0.92).alpha == 1.0


def test_corrections_that_cost_nothing_are_not_to_blame():
    assert Gain(alpha=0.0).adapted(1.0, 0.01, 1.0).alpha == 0.0
    assert Gain(alpha=0.0).adapted(1.0, 0.5, 1.0).alpha > 0.0


def test_what_failed_is_tried_again_later_and_later():
    state, failures = Gain(), []
    for interval in range(2_000):
        is_too_low = state.alpha < 0.4
        state = state.adapted(1.0 if is_too_low else 0.99, 0.3, float(is_too_low))
        if is_too_low and not (failures and failures[-1] == interval - 1):
            failures.append(interval)
    pauses = [after - before for before, after in pairwise(failures)]
    assert len(failures) < 40 and max(pauses[-3:]) > 5 * pauses[0]


measures = st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))


@given(st.lists(measures, max_size=60))
def test_alpha_stays_in_range_and_rises_only_when_behind(intervals):
    state = Gain()
    for busy, corrections, behind in intervals:
        after = state.adapted(busy, corrections, behind)
        assert 0.0 <= after.alpha <= 1.0
        assert after.alpha <= state.alpha or behind > 0.5
        assert after.alpha == 0.0 or after.alpha >= STEP / 2
        state = after


def test_the_budget_spends_it_where_results_are_wanted():
    budget = Budget(Gain())
    loads = [Load("subscribed", 400, 1.0, 10, 100.0), Load("other", 400, 1.0, 0, 100.0)]
    for _ in range(20):
        alphas = budget.adapt(0.3, loads, frozenset({"subscribed"}))
    assert alphas == {"subscribed": 0.0, "other": 1.0}
    alphas = budget.adapt(1.0, [load._replace(corrections=80.0) for load in loads], frozenset({"subscribed"}), 1.0)
    assert alphas["subscribed"] > 0.0


def test_poor_units_are_set_aside_at_once_and_come_back_by_halves():
    budget, subscribed = Budget(Gain(alpha=0.0, load=0.57)), frozenset({"rich", *(f"poor{n}" for n in range(8))})
    loads = [Load("rich", 400, 10.0, 1_000, 100.0)] + [Load(f"poor{n}", 400, 5.0 + n, 1, 10.0) for n in range(8)]
    assert 1.0 not in budget.adapt(1.0, loads, subscribed, 1.0).values(), "once may be chance"
    alphas = budget.adapt(1.0, loads, subscribed, 1.0)
    assert {name for name, alpha in alphas.items() if alpha == 1.0} == subscribed - {"rich"}
    left = [len(budget.aside)]
    for _ in range(60):
        budget.adapt(0.2, loads, subscribed, 0.0)
        left.append(len(budget.aside))
    assert [number for number, after in pairwise([*left, -1]) if number != after] == [8, 4, 2, 1, 0]


def test_poor_units_come_back_at_once_if_the_node_was_only_held_up():
    budget, subscribed = Budget(Gain(alpha=0.0, load=0.8, intervals=100)), frozenset({"rich", "poor"})
    loads = [Load("rich", 400, 10.0, 1_000, 100.0), Load("poor", 400, 9.0, 1, 10.0)]
    for _ in range(2):
        budget.adapt(1.0, loads, subscribed, 1.0)
    assert budget.aside == ["poor"]
    assert budget.adapt(0.6, loads, subscribed, 0.0) == {"rich": 0.0, "poor": 0.0}


def test_poor_units_stay_aside_if_the_node_falls_behind_again():
    budget, subscribed = Budget(Gain(alpha=0.0, load=0.8, intervals=100)), frozenset({"rich", "poor"})
    loads = [Load("rich", 400, 10.0, 1_000, 100.0), Load("poor", 400, 9.0, 1, 10.0)]
    for busy, behind in [(1.0, 1.0), (1.0, 1.0), (1.0, 0.3), (1.0, 1.0)]:
        budget.adapt(busy, loads, subscribed, behind)
    assert not budget.control.was_held_up
    assert budget.aside == ["poor"]


def test_poor_units_that_cost_little_stay():
    budget, subscribed = Budget(Gain(alpha=0.0)), frozenset({"rich", "poor"})
    loads = [Load("rich", 400, 90.0, 100, 100.0), Load("poor", 400, 5.0, 1, 10.0)]
    for _ in range(4):
        budget.adapt(1.0, loads, subscribed, 1.0)
    assert budget.aside == []


def test_work_that_units_do_not_see_counts():
    """Corrections take a tenth of a node's time, though half of that of its units: no reason to back off as far."""
    load = [Load("one", 400, 20.0, 10, 40.0), Load("two", 400, 20.0, 10, 40.0)]
    seen = []
    for work in (0.0, 400.0):
        budget = Budget(Gain(alpha=0.0, load=0.7))
        seen.append(budget.adapt(0.85, load, frozenset({"one", "two"}), 0.6, work)["one"])
    assert 0 < seen[1] < seen[0]


class Tick(Event):
    value: float


class Latest(Event):
    value: float


class Last(Detector):
    subscribes, publishes = (Tick,), (Latest,)

    def __init__(self):
        self.value = 0.0

    def on_event(self, event):
        self.value = event.value
        return Latest(self.value, ts=event.ts)


@pytest.mark.parametrize("timer", [None, count(0, 1_000).__next__])
def test_nanoseconds_are_held_against_nanoseconds_alone(timer):
    """Without a timer units count calls: a second of work is no reason to think that corrections take nothing."""
    hierarchy = Hierarchy([Last()], adaptation=Adaptation.GAIN, timer=timer)
    hierarchy.budget.control = Gain(alpha=0.0)
    hierarchy.adapt(0.1)
    for at in range(200):
        late = [Tick(0.0, ts=1_000 * at + 500 - 100 * n, id=10 * at + n, source="s") for n in range(5)]
        hierarchy.process(Batch({type_name(Tick): Delta(late)}, {}, None))
    hierarchy.adapt(1.0, None, 1.0, 1e12 if timer is None else 0.0)
    assert hierarchy.budget.control.alpha > 0
