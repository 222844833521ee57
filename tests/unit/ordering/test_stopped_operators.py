"""An operator that raises out of ``apply`` stops; every event of the batch at which it did, and later, is listed, once."""

import copy
import math

import pytest

from middleware.model.change import Delta
from middleware.model.errors import DetectorError
from middleware.model.event import END, Event
from middleware.model.identity import canonical
from middleware.model.operator import Operation, Operator, Origin
from middleware.ordering.hierarchy import unit_for
from middleware.ordering.policies import Policies


class Item(Event):
    pass


class Fragile(Operator):
    name = "Fragile"
    subscribes, publishes = (Item,), (Item,)

    def start(self, name, level):
        return Breaking()


class Breaking(Operation):
    def apply(self, delta, emitted, final):
        if any(event.id == 3 for event in delta.inserts):
            raise ZeroDivisionError("the third")
        return Delta()

    def snapshot(self):
        return None

    def restore(self, state):
        pass


def items(*numbers):
    return [Item(ts=number, id=number, source="s") for number in numbers]


def test_all_events_of_the_batch_are_listed():
    unit = unit_for("Fragile", Fragile(), 1, Policies(alpha=0.0))
    unit.push(Delta(items(1)), mark=1, promised=1, is_open=False)
    unit.push(Delta(items(2, 3, 4)), mark=4, promised=2, is_open=False)
    again = unit_for("Fragile", Fragile(), 1, Policies(alpha=0.0))
    again.restore(copy.deepcopy(unit.state()))
    for each in (unit, again):
        each.push(Delta(items(5, 6)), mark=6, promised=4, is_open=False)
        each.push(Delta(retracts=items(6)), mark=6, promised=END, is_open=False)
        assert [failure.cause.id for failure in each.quarantine] == [2, 3, 4, 5], "what is withdrawn was never there"
        assert all("the third" in failure.failure for failure in each.quarantine)
    assert unit.statistics().failures == 4


class Speechless(Breaking):
    def snapshot(self):
        raise KeyError("what it holds")


def test_one_that_cannot_say_what_it_holds_stops_and_its_node_goes_on():
    fragile = Fragile()
    fragile.start = lambda name, level: Speechless()
    unit = unit_for("Fragile", fragile, 1, Policies(alpha=0.0))
    unit.push(Delta(items(1)), mark=1, promised=1, is_open=False)
    state = copy.deepcopy(unit.state())
    again = unit_for("Fragile", fragile, 1, Policies(alpha=0.0))
    again.restore(state)
    for each in (unit, again):
        each.push(Delta(), mark=1, promised=1, is_open=False)
        assert "what it holds" in each.halted
        each.push(Delta(items(2)), mark=2, promised=2, is_open=False)
        assert [failure.cause.id for failure in each.quarantine] == [2]
        each.state()


@pytest.mark.parametrize("key", [2**63, -(2**63), 2**64, 10**20, -(10**20), 2**1023, True, 0, -1])
def test_a_number_and_the_same_as_a_float_are_one_key(key):
    origin = Origin("Q", 1)
    assert origin.id(canonical(key)) == origin.id(canonical(float(key)))
    assert repr(canonical(("a", key))) == repr(canonical(("a", float(key))))


def test_keys_beyond_64_bits_have_an_identity_of_their_own():
    keys = [10**20, 10**20 + 1, 2**64 - 1, 2**63 + 1, 10**400, -(10**400), 10**5000, math.inf, -math.inf, 1e300, 2**63 - 1]
    assert len({Origin("Q", 1).id(canonical(key)) for key in keys}) == len(keys)
    with pytest.raises(DetectorError, match="not NaN"):
        canonical(math.nan)
