"""Sinks revise whatever a reader could tell apart: the sign of a zero, a type, the order of a dict. And nothing else."""

from itertools import permutations
from typing import Any

import pytest

from detectors.flow import Flow
from middleware.model.event import Event
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import Lateness
from middleware.runtime.engine import run


class Number(Event):
    value: float


class Out(Event):
    value: Any


class Real(Event):
    value: float


def by_sign(state, number):
    state = (1.0 if state is None else state) * (-1.0 if number.value < 0 else 1.0)
    return state, [(state * 0.0,)]


def by_order(state, number):
    state = (*(state or ()), "up" if number.value > 0 else "down")
    return state, [(dict.fromkeys(state, 1),)]


def by_type(state, number):
    state = (state or 0) + 1
    return state, [((True if number.value == 1.0 else 1.0) if state == 1 else 1,)]


@pytest.mark.parametrize(("fold", "sink"), [(by_sign, Real), (by_sign, Out), (by_order, Out), (by_type, Out)])
def test_finals_do_not_depend_on_the_order_of_arrival(fold, sink):
    flow = Flow("f")
    flow.source(Number).stateful(fold, key=lambda number: 0).sink(sink)
    events = [Number(value, ts=n, id=n, source="s") for n, value in enumerate([1.0, -1.0, 2.0, -2.0])]
    policies = Policies(alpha=0.0, lateness=Lateness(2, 1000))

    def finals(order):
        found = run(order, flow.operators(), policies=policies, batch=1).finals
        return sorted(repr(event) for events in found.values() for event in events if event.__class__ is sink)

    expected = finals(events)
    assert len(expected) == 4
    assert all(finals(order) == expected for order in permutations(events))


def test_what_comes_out_the_same_is_not_sent_again():
    flow = Flow("f")
    flow.source(Number).map(lambda number: [abs(number.value)], gives=float).stateful(
        lambda state, value: ((state or 0) + 1, [(0.0,)]), key=lambda value: 0
    ).sink(Real)
    changes = []
    events = [Number(0.0, ts=n, id=n, source="s") for n in (3, 1, 2)]
    run(events, flow.operators(), policies=Policies(alpha=0.0, lateness=Lateness(2, 1000)), batch=1, watch=changes.append)
    assert sum(len(delta.revises) for batch in changes for delta in batch.deltas.values()) == 0
