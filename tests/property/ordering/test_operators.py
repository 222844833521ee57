"""Operators in units and hierarchies: the unit keeps what it promises them, and their results come through as any others."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from middleware.model.change import Delta
from middleware.model.detector import Detector
from middleware.model.event import END, IDENTITY, NEVER, ORDER, Event
from middleware.model.operator import Operation, Operator, Origin
from middleware.ordering.hierarchy import unit_for
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import Lateness
from middleware.runtime.engine import run
from middleware.testing.operators import history, in_order, play
from middleware.testing.oracle import oracle


class Reading(Event):
    sensor: int
    value: int


class Total(Event):
    sensor: int
    total: int


class Grand(Event):
    total: int


class Totals(Operator):
    """The sum of each sensor's readings in (start, start + width]; out early if ``open``, else once the window has passed."""

    subscribes, publishes = (Reading,), (Total,)

    def __init__(self, width, is_open):
        self.name = f"Totals{width}"
        self.width = width
        self.is_open = is_open

    def start(self, name, level):
        return _Totals(self, Origin(name, level))


class _Totals(Operation):
    def __init__(self, plan, origin):
        super().__init__()
        self.plan, self.origin = plan, origin
        self.sums, self.published = {}, {}
        self.emitted = self.final = NEVER

    def apply(self, delta, emitted, final):
        assert self.emitted <= emitted and self.final <= final <= emitted
        assert not delta.revises
        for event in delta.inserts + delta.retracts:
            assert self.final < event.ts <= emitted
        for sign, events in ((-1, delta.retracts), (1, delta.inserts)):
            for event in events:
                end = -(-event.ts // self.plan.width) * self.plan.width
                count, total = self.sums.get((event.sensor, end), (0, 0))
                self.sums[event.sensor, end] = count + sign, total + sign * event.value
        out = Delta()
        for (sensor, end), (count, total) in self.sums.items():
            was = self.published.get((sensor, end))
            now = None
            if count and (self.plan.is_open or end <= emitted):
                now = Total(
                    sensor, total, ts=end, id=self.origin.id(sensor, end), source=self.origin.source, level=self.origin.level
                )
            if was is None and now is not None:
                out.inserts.append(now)
            elif was is not None and now is None:
                out.retracts.append(was)
            elif was != now:
                out.revises.append((was, now))
            self.published[sensor, end] = now
        for gone in [window for window in self.sums if window[1] <= final]:
            del self.sums[gone], self.published[gone]
        self.emitted, self.final = emitted, final
        return out

    def snapshot(self):
        return dict(self.sums), dict(self.published), self.emitted, self.final

    def restore(self, state):
        sums, published, self.emitted, self.final = state
        self.sums, self.published = dict(sums), dict(published)


class Grands(Detector):
    subscribes, publishes = (Total,), (Grand,)

    def __init__(self):
        self.total = 0

    def on_event(self, event):
        self.total = self.total * 3 % 1009 + event.total
        return Grand(self.total, ts=event.ts)


readings = st.lists(
    st.builds(Reading, st.integers(0, 2), st.integers(-3, 3), ts=st.integers(0, 60), source=st.sampled_from("ab")), max_size=40
).map(lambda events: [Reading(e.sensor, e.value, ts=e.ts, id=n, source=e.source) for n, e in enumerate(events)])
operators = st.builds(Totals, st.sampled_from([1, 4, 10]), st.booleans())


@given(readings, readings, operators, st.integers(0, 2**32), st.sets(st.integers(0, 20)))
def test_any_history_comes_to_the_same_results(events, others, operator, seed, restarts):
    passing = [Reading(e.sensor, e.value, ts=e.ts, id=e.id + 1000, source=e.source) for e in others]
    revised = [(Reading(0, 9, ts=max(e.ts - 3, 0), id=e.id, source=e.source), e) for e in events[::3]]
    kept = [e for n, e in enumerate(events) if n % 3]
    moments = history(kept, Random(seed), passing, revised)
    assert play(operator, moments, restarts) == play(operator, in_order(events))


@given(readings, operators, st.integers(1, 9), st.sampled_from([0.0, 0.4, 1.0]), st.sampled_from([5, 30, 1000]))
def test_units_run_operators_and_detectors_above_them(events, operator, batch, alpha, floor):
    policies = Policies(alpha=alpha, lateness=Lateness(1.0, floor))
    found = run(events, [operator, Grands()], policies=policies, batch=batch)
    assert found.finals == oracle(events, [operator, Grands()], found.late_identities())


@given(readings, st.integers(1, 9))
def test_the_end_of_an_open_window_does_not_move_the_clock_above_it(events, batch):
    found = run(events, [Totals(10, True), Grands()], batch=batch, policies=Policies(alpha=0.0, lateness=Lateness(1.0, 20)))
    below, above = sorted(found.statistics, key=lambda each: each.detector, reverse=True)
    assert above.clk == below.clk == max((event.ts for event in events), default=NEVER)
    assert above.k <= below.k + 10 + 20
    assert not above.late


def test_results_wait_for_time_and_are_corrected_by_late_input():
    unit = unit_for("Totals10", Totals(10, False), policies=Policies(alpha=0.0, lateness=Lateness(1.0, 100)))

    def come(*events):
        return unit.push(Delta(list(events)))

    assert come(Reading(1, 2, ts=5, id=1)) == []
    (first,) = come(Reading(1, 7, ts=12, id=2))
    assert [(e.total, e.ts) for e in first.inserts] == [(2, 10)]
    (second,) = come(Reading(1, 3, ts=6, id=3))
    assert [(old.total, new.total) for old, new in second.revises] == [(2, 5)]
    (last,) = unit.push(Delta(), promised=END, is_open=False)
    assert [(e.total, e.ts) for e in last.inserts] == [(7, 20)]
    assert unit.watermark == END


def test_time_alone_closes_a_window():
    unit = unit_for("Totals10", Totals(10, False), policies=Policies(alpha=0.0))
    assert unit.push(Delta([Reading(1, 2, ts=5, id=1)]), mark=5) == []
    (delta,) = unit.push(Delta(), mark=10)
    assert [(e.total, e.ts) for e in delta.inserts] == [(2, 10)]
    assert unit.push(Delta(), mark=10) == []


class Broken(Operator):
    name = "Broken"
    subscribes, publishes = (Reading,), (Total,)

    def start(self, name, level):
        return _Broken()


class _Broken(Operation):
    def apply(self, delta, emitted, final):
        for event in delta.inserts:
            if event.value == 3:
                self.fail(event, "three")
            if event.value == 4:
                raise RuntimeError("four")
        return Delta()


def test_failures_are_listed_when_final_and_an_exception_stops_the_operator():
    unit = unit_for("Broken", Broken())
    unit.push(Delta([Reading(1, 3, ts=5, id=1), Reading(1, 2, ts=6, id=2)]))
    unit.push(Delta([Reading(1, 4, ts=7, id=3), Reading(1, 3, ts=8, id=4)]))
    unit.push(Delta(), promised=END, is_open=False)
    failed = {IDENTITY(each.cause)[1] for each in unit.quarantine}
    assert failed == {1, 3, 4}, "one by itself, and the whole batch at which the operator stopped"
    assert unit.statistics().failures == 3


def test_an_operator_says_what_it_lacks():
    with pytest.raises(Exception, match="no start"):
        Operator().start("x", 1)
    with pytest.raises(Exception, match="takes changes"):
        Totals(1, True).on_event(Reading(1, 1, ts=1))


def test_a_broken_promise_is_found():
    class Forgetful(_Totals):
        def apply(self, delta, emitted, final):
            out = super().apply(delta, emitted, final)
            out.revises.clear()
            return out

    class Lossy(Totals):
        def start(self, name, level):
            return Forgetful(self, Origin(name, level))

    events = [Reading(1, value, ts=value, id=value) for value in range(1, 9)]
    histories = [history(events, Random(seed), batch=2) for seed in range(20)]
    expected = play(Totals(10, True), in_order(events))
    wrong = 0
    for moments in histories:
        try:
            wrong += play(Lossy(10, True), moments) != expected
        except AssertionError:
            wrong += 1
    assert wrong > 10
    assert sorted(expected, key=ORDER) == expected
