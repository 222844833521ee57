"""A unit whose streams had ended, and resume: what it knows, what it publishes again, and what is late from then on."""

import copy

import pytest

from middleware.model.change import Delta
from middleware.model.detector import Detector
from middleware.model.event import END, NEVER, Event
from middleware.model.operator import Operation, Operator, Origin
from middleware.ordering.hierarchy import unit_for
from middleware.ordering.lanes.operation_lane import migrated_operation
from middleware.ordering.policies import Policies


class Item(Event):
    pass


class Open(Event):
    since: int


class Pending(Operator):
    """For each item a result 100 after it, which an end takes back, and puts one at the item in its place."""

    name, subscribes, publishes, version = "Pending", (Item,), (Open,), 2

    def start(self, name, level):
        return Pends(Origin(name, level))

    def migrate(self, state, version):
        return [*state, -1]


class Pends(Operation):
    def __init__(self, origin):
        super().__init__()
        self.origin, self.items = origin, []

    def result(self, since, ts):
        return Open(since, ts=ts, id=self.origin.id(since, ts), source=self.origin.source, level=self.origin.level)

    def apply(self, delta, emitted, final):
        if any(event.id == 99 for event in delta.inserts):
            self.fail(delta.inserts.pop(), "99")
        out = Delta([self.result(event.ts, event.ts + 100) for event in delta.inserts])
        self.items += [event.ts for event in delta.inserts]
        if final == END:
            out.retracts = [self.result(ts, ts + 100) for ts in self.items]
            out.inserts.extend([self.result(ts, ts) for ts in self.items])
            self.items.clear()
        return out

    def snapshot(self):
        return list(self.items)

    def restore(self, state):
        self.items = list(state)


class Sums(Detector):
    subscribes, publishes, backdate = (Item,), (Open,), 5

    def __init__(self):
        self.total = 0

    def on_event(self, event):
        self.total += event.ts
        return Open(self.total, ts=event.ts - 5)


def items(*times):
    return [Item(ts=ts, id=ts, source="s") for ts in times]


def pushed(unit, times=(), promised=NEVER, mark=None):
    return [delta for delta in unit.push(Delta(items(*times)), mark, promised, False) if delta]


def test_a_detector_goes_on_from_its_state_and_what_is_not_newer_is_late():
    unit = unit_for("Sums", Sums(), policies=Policies(alpha=0.0))
    pushed(unit, [10, 20], mark=20)
    pushed(unit, promised=END)
    assert (unit.final, unit.reached) == (END, 20)
    assert unit.resume(30) == []
    assert (unit.final, unit.watermark) == (35, 30), "no result is as old as what was final"
    (out,) = pushed(unit, [30, 35, 36], mark=36)
    assert [event.since for event in out.inserts] == [66], "10 and 20 are in it"
    assert [entry.event.ts for entry in unit.late] == [30, 35]
    pushed(unit, promised=END)
    assert unit.reached == 36
    unit.check()


@pytest.mark.parametrize("is_restarted", [False, True])
def test_an_operator_stands_by_what_the_end_took_back_and_says_nothing_twice(is_restarted):
    unit = unit_for("Pending", Pending(), policies=Policies(alpha=0.0), resumes=True)
    (early,) = pushed(unit, [10], mark=10)
    assert [(event.since, event.ts) for event in early.inserts] == [(10, 110)]
    (out,) = pushed(unit, [20, 99], END, 99)  # with the end
    assert sorted((event.since, event.ts) for event in out.inserts) == [(10, 10), (20, 20)]
    assert [event.since for event in out.retracts] == [10]
    assert unit.reached == 99 and [failed.failure for failed in unit.quarantine] == ["99"]
    if is_restarted:
        again = unit_for("Pending", Pending(), policies=Policies(alpha=0.0), resumes=True)
        again.restore(copy.deepcopy(unit.state()))
        unit = again
    (delta,) = unit.resume(105)
    assert sorted((event.since, event.ts) for event in delta.inserts) == [(10, 110), (20, 120)]
    (out,) = pushed(unit, [200], END, 200)
    assert [event.since for event in out.retracts] == [10, 20]
    assert len(unit.quarantine) == 1, "a failure is listed once"


def test_no_copy_is_taken_where_the_end_is_the_end():
    unit = unit_for("Pending", Pending())
    pushed(unit, [10], END)
    assert unit.state()["detector"][-1] is None


def test_the_state_before_the_end_is_migrated_too():
    unit = unit_for("Pending", Pending(), resumes=True)
    pushed(unit, [10], END)
    migrated = migrated_operation(unit.state()["detector"], Pending(), 1)
    assert migrated[0] == [-1] and migrated[-1][0] == [10, -1]
