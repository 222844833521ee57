"""Split and merge in Rust against those in Python, and merge against a plain sort."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from middleware import native as core
from middleware.model.event import NEVER, ORDER
from middleware.ordering.buffer import arranged
from tests.oracles import buffers
from tests.property.ordering.streams import Reading

events = st.builds(
    Reading, sensor=st.just(0), value=st.just(0), ts=st.integers(0, 60), id=st.integers(0, 3), source=st.sampled_from("ab")
)
some = st.lists(events, max_size=12).map(lambda drawn: arranged(drawn)[0])
many = st.lists(events, max_size=200).map(lambda drawn: arranged(drawn)[0])


def identical(one, other):
    return list(map(id, one)) == list(map(id, other))


@given(old=many, new=st.one_of(some, many))
def test_merges_like_the_oracle(old, new):
    one, other = old.copy(), old.copy()
    came, duplicates = core.merge(one, new)
    expected, repeats = buffers.merge(other, new)
    assert identical(one, other)
    assert identical(came, expected)
    assert duplicates == repeats
    known = set(map(ORDER, old))
    assert identical(came, [event for event in new if ORDER(event) not in known])
    assert identical(one, sorted(old + came, key=ORDER))


def test_appends_what_comes_behind_everything():
    old = [Reading(0, 0, ts=1), Reading(0, 0, ts=2)]
    new = [Reading(0, 0, ts=2, id=1), Reading(0, 0, ts=3)]
    assert core.merge(old, new) == (new, 0)
    assert [(event.ts, event.id) for event in old] == [(1, 0), (2, 0), (2, 1), (3, 0)]


def test_an_event_that_cannot_be_placed_leaves_the_buffer_alone():
    old = [Reading(0, 0, ts=ts) for ts in range(4)]
    buffer = old.copy()
    with pytest.raises(TypeError):
        core.merge(buffer, [Reading(0, 0, ts=2, id=7), Reading(0, 0, ts="soon")])
    assert identical(buffer, old)


@given(batch=st.lists(events, max_size=60), top=st.one_of(st.just(NEVER), st.integers(0, 60)))
def test_splits_like_the_oracle(batch, top):
    mine, yours = core.split(batch, top), buffers.split(batch, top)
    assert [list(map(id, part)) for part in mine] == [list(map(id, part)) for part in yours]


def test_an_event_without_a_time_is_refused():
    with pytest.raises(TypeError):
        core.split([Reading(0, 0, ts=1), Reading(0, 0, ts="soon")], 0)
