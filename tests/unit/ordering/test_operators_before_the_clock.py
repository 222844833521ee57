"""Only an operator that emits before the clock, at alpha = 0, buffers nothing; all others wait for the clock."""

import pytest

from middleware.model.change import Delta
from middleware.model.event import Event
from middleware.model.operator import Operation, Operator
from middleware.ordering.hierarchy import unit_for
from middleware.ordering.policies import Policies


class Item(Event):
    pass


class Echo(Operator):
    subscribes, publishes = (Item,), (Item,)

    def __init__(self, emits_before_clock):
        self.name = "Echo"
        self.emits_before_clock = emits_before_clock
        self.given = []

    def start(self, name, level):
        return Given(self.given)


class Given(Operation):
    def __init__(self, given):
        super().__init__()
        self.given = given

    def apply(self, delta, emitted, final):
        assert all(event.ts <= emitted for event in delta.inserts)
        self.given += [event.ts for event in delta.inserts]
        return Delta()


def item(ts, number=0):
    return Item(ts=ts, id=number or ts, source="other node", level=1)


@pytest.mark.parametrize(("emits_before_clock", "alpha", "given"), [(True, 0.0, [7, 9]), (False, 0.0, []), (True, 0.5, [])])
def test_what_lies_beyond_the_clock_mark(emits_before_clock, alpha, given):
    operator = Echo(emits_before_clock)
    unit = unit_for("Echo", operator, 2, Policies(alpha=alpha))
    unit.push(Delta([item(7), item(9)]), mark=5, promised=0, is_open=False)
    assert operator.given == given
    unit.push(Delta(), mark=9, promised=9, is_open=False)
    assert operator.given == [7, 9]
    unit.check()


def test_a_revision_beyond_the_clock_mark_comes_at_once():
    operator = Echo(True)
    unit = unit_for("Echo", operator, 2, Policies(alpha=0.0))
    unit.push(Delta([item(7)]), mark=5, promised=0, is_open=False)
    unit.push(Delta([], [(item(7), item(12, 7))]), mark=5, promised=0, is_open=False)
    assert operator.given == [7, 12]
    unit.check()


class Same(Operator):
    """Gives what it is given: the very list."""

    name, subscribes, publishes = "Same", (Item,), (Item,)

    def start(self, name, level):
        return Passing()


class Passing(Operation):
    def apply(self, delta, emitted, final):
        return Delta(delta.inserts)


def test_a_batch_that_is_not_split_stays_as_it_came():
    came = [item(7), item(9), item(8)]
    batch = came.copy()
    (out,) = unit_for("Same", Same(), 2, Policies(alpha=0.0)).push(Delta(batch))
    assert batch == came and out.inserts == sorted(came, key=lambda event: event.ts)
