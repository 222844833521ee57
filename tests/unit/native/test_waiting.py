"""Events that wait, their classes, and the types of their values, in the native core and in Python."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware import native
from middleware.model.event import ORDER
from tests.oracles.buffers import by_class
from tests.oracles.waiting import Waiting
from tests.property.ordering.streams import Beat, Reading

events = st.builds(
    Reading, sensor=st.just(0), value=st.just(0), ts=st.integers(0, 40), id=st.integers(0, 3), source=st.sampled_from("ab")
)
batches = st.one_of(st.lists(events, max_size=4), st.lists(events, max_size=60))
moves = st.one_of(
    st.tuples(st.just("add"), batches, st.integers(-1, 40)),
    st.tuples(st.just("take"), st.integers(-1, 41)),
    st.tuples(st.just("remove"), st.lists(events, max_size=4)),
    st.tuples(st.just("holds"), events),
)


@settings(deadline=None)
@given(st.lists(moves, max_size=20))
def test_the_core_and_the_oracle_wait_the_same(given_moves):
    fast, plain = native.Waiting(), Waiting()
    for name, *arguments in given_moves:
        assert repr(getattr(fast, name)(*arguments)) == repr(getattr(plain, name)(*arguments))
        assert list(map(id, fast.events())) == list(map(id, plain.events()))
        assert (len(fast), fast.first()) == (len(plain), plain.first())
        orders = list(map(ORDER, fast.events()))
        assert orders == sorted(set(orders))


def test_what_cannot_be_placed_changes_nothing():
    waiting = native.Waiting()
    waiting.add([Reading(0, 0, ts=ts) for ts in range(4)], -1)
    for wrong in ([Reading(0, 0, ts=2, id=7), Reading(0, 0, ts="soon")], [Reading(0, 0, ts=2, id="x")]):
        with pytest.raises(TypeError):
            waiting.add(wrong, -1)
    assert [(event.ts, event.id) for event in waiting.events()] == [(0, 0), (1, 0), (2, 0), (3, 0)]


@given(st.lists(st.integers(0, 3), max_size=9))
def test_the_core_and_the_oracle_find_the_same_classes(numbers):
    made = (Beat(1, 1, "", ts=1), 1, "x", None)
    given = [made[number] for number in numbers]
    found = native.by_class(given)
    assert found == by_class(given)
    assert {kind: len(own) for kind, own, _ in found} == Counter(map(type, given))
    assert all(places is None for _, _, places in found) == (len(found) < 2)
