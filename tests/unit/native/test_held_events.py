"""What a barrier holds back, in the native core and in Python; and putting results in order of time."""

import pickle

from hypothesis import given, settings
from hypothesis import strategies as st

from middleware import native
from middleware.delivery.barrier import Barrier
from middleware.model.change import Batch, Delta
from middleware.model.event import NEVER, Event
from tests.oracles import buffers
from tests.oracles.held_events import HeldEvents


class One(Event):
    value: int = 0


class Other(Event):
    value: int = 0


events = st.builds(
    lambda kind, *parts: kind(parts[0], ts=parts[1], id=parts[2], source=parts[3], level=parts[4]),
    st.sampled_from([One, Other]),
    st.integers(0, 1),
    st.integers(-9, 9),
    st.sampled_from([0, 1, -5, 2**63 - 1, -(2**63)]),
    st.sampled_from(["", "a", "b", "ab", "ä", "\U0001f600", "\uffff"]),
    st.integers(0, 1),
)
moves = st.one_of(
    st.tuples(st.just("hold"), st.lists(events, max_size=12), st.integers(-10, 5)),
    st.tuples(st.just("discard"), events, st.booleans()),
    st.tuples(st.just("release"), st.integers(-10, 10)),
    st.tuples(st.just("clear")),
)


@settings(deadline=None)
@given(st.lists(moves, max_size=30))
def test_the_core_and_the_oracle_hold_and_release_the_same(given_moves):
    fast, plain = native.HeldEvents(), HeldEvents()
    for name, *arguments in [*given_moves, ("release", 99)]:
        outcomes = [getattr(each, name)(*arguments) for each in (fast, plain)]
        assert repr(outcomes[0]) == repr(outcomes[1])
        assert len(fast) == len(plain)
        assert fast.oldest == plain.oldest
        assert all(fast.oldest is not None and fast.oldest <= event.ts for event in plain.events())
        assert sorted(map(repr, fast.events())) == sorted(map(repr, plain.events()))
        assert all((event.source, event.id) in fast for event in plain.events())
    assert not fast.events()
    assert ("a", 1) not in fast


def test_many_sources_come_and_go():
    held = native.HeldEvents()
    for number in range(3_000):
        assert held.hold([One(ts=number, id=1, source=f"s{number}")], NEVER) == 0
        assert held.release(number) == [One(ts=number, id=1, source=f"s{number}")]


def test_a_barrier_that_was_pickled_goes_on():
    barrier = Barrier(["One"])
    barrier.take(Batch({"One": Delta([One(n, ts=n, id=n, source="a") for n in (5, 1, 3)])}, {"One": 0}))
    again = pickle.loads(pickle.dumps(barrier))
    assert [event.value for event in again.take(Batch({}, {"One": 4}))] == [1, 3]
    assert len(again) == 1
    assert len(barrier) == 3


@settings(deadline=None)
@given(st.lists(events, max_size=12), st.integers(-12, 12))
def test_events_are_put_in_order_of_time_alike(given_events, start):
    fast, plain = given_events.copy(), given_events.copy()
    assert native.in_time(fast, start) == buffers.in_time(plain, start)
    assert repr(fast) == repr(plain)
