"""Many late events at once: sorted lists, what windows hold and where runs begin are as if all had come in order."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors import splicing
from detectors.cql.partitions.tuple_timeline import TupleTimeline
from detectors.window import CONCAT, SUM
from detectors.window.content import Content, WindowEntry
from middleware.model.event import ORDER, Event

TIMES = st.lists(st.integers(0, 60), max_size=12)
STEPS = st.lists(st.tuples(st.booleans(), TIMES, st.floats(0, 1)), max_size=8)
"""Whether first some are taken back, the times of what comes then, and which share of what is held is taken back."""


class Seen(Event):
    text: str


@pytest.fixture(params=[0, 3, splicing.FEW], autouse=True, scope="module")
def few(request):
    known, splicing.FEW = splicing.FEW, request.param
    yield
    splicing.FEW = known


@given(st.lists(st.integers(0, 20)), st.lists(st.integers(0, 20)), st.randoms())
def test_lists_are_what_sorting_makes_of_them(column, more, random):
    column, more = sorted(column), sorted(more)
    expected = sorted([*column, *more])
    splicing.put_in(column, [sum(each < item for each in column) for item in more], more)
    assert column == expected
    gone = sorted(random.sample(range(len(column)), random.randint(0, len(column))))
    splicing.take_out(column, gone)
    assert column == [item for place, item in enumerate(expected) if place not in gone]


def played(steps, insert, remove):
    """Plays steps of changes; gives what is to be held after each."""
    held, number = {}, 0
    for removes, times, share in steps:
        if removes and held:
            gone = list(held)[:: max(1, round(1 / max(share, 0.1)))]
            remove([held.pop(each) for each in gone])
        made = [Seen(f"{number + n}", ts=ts, id=number + n, source="s") for n, ts in enumerate(times)]
        number += len(made)
        if made:
            insert(made)
        held |= {event.id: event for event in made}
        yield sorted(held.values(), key=ORDER)


@settings(deadline=None)
@given(STEPS, st.integers(1, 9))
def test_content_is_what_came_and_runs_begin_behind_gaps(steps, gap):
    contents = [Content([SUM.of(int), CONCAT]), Content([SUM.of(int), CONCAT], gap)]

    def insert(events):
        for content in contents:
            content.insert([WindowEntry(ORDER(event), (event.id, event.text)) for event in events])

    def remove(events):
        for content in contents:
            unknown = (events[0].ts, 0, "", -1)
            assert content.remove([unknown, *map(ORDER, events)]) == sorted(map(ORDER, events))

    for held in played(steps, insert, remove):
        for content in contents:
            assert content.orders == list(map(ORDER, held)) and len(content) == len(held)
            total, texts = content.results(0, 60)
            assert (total or 0) == sum(event.id for event in held)
            assert (texts or ()) == tuple(event.text for event in held)
        times = sorted({event.ts for event in held})
        assert contents[1].starts == times[:1] + [ts for before, ts in pairwise(times) if ts - before > gap]


@settings(deadline=None)
@given(STEPS)
def test_a_timeline_is_what_came_in_order(steps):
    timeline = TupleTimeline(lambda event: 60 - event.ts // 2)

    def insert(events):
        assert sorted(timeline.change([], events)) == sorted(map(ORDER, events))

    def remove(events):
        assert sorted(timeline.change(events, [])) == sorted(map(ORDER, events))

    for held in played(steps, insert, remove):
        assert (timeline.events, timeline.orders) == (held, list(map(ORDER, held)))
        assert timeline.clocks == [max(60 - event.ts // 2 for event in held[: place + 1]) for place in range(len(held))]
