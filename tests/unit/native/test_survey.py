"""The times of columns, and of events, are surveyed alike in Rust and in Python."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from middleware import native
from middleware.model.block.block import Block
from middleware.model.block.mixed_block import MixedBlock
from middleware.model.event import END, NEVER, Event
from middleware.ordering.slack.measuring import Survey, survey
from tests.oracles import buffers, surveys

times = st.integers(-20, 20)


@given(st.lists(times), times | st.just(NEVER), times | st.just(NEVER))
def test_the_core_and_the_oracle_see_the_same(given_times: list[int], top: int, clk: int) -> None:
    events = [Event(ts=ts, id=at) for at, ts in enumerate(given_times)]
    columns = Block.from_events(Event, events)
    found, expected = survey(columns, top, clk), surveys.survey(given_times, top, clk)
    assert survey(events, top, clk) == found
    at_once = MixedBlock([columns], [range(len(events))])
    assert survey(at_once, top, clk) == found and at_once.times.tolist() == given_times
    assert (found.first, found.delayed, found.after) == (expected.first, expected.delayed, expected.after)
    assert found.newest == expected.newest
    assert not given_times or found.earliest == expected.earliest == min(given_times)
    fewer = survey(columns, top, clk, only_earliest=True)
    assert fewer == survey(events, top, clk, only_earliest=True) == survey(at_once, top, clk, only_earliest=True)
    assert (fewer.newest, fewer.earliest, fewer.first) == (found.newest, found.earliest, found.first)
    assert (fewer.delayed, fewer.after) == (sorted(found.delayed)[:1], sorted(found.after)[:1])


@given(st.lists(st.tuples(times, st.integers(0, 9), st.booleans())), times | st.just(NEVER))
def test_the_core_and_the_oracle_move_a_clock_alike(given_ticks: list[tuple[int, int, bool]], clk: int) -> None:
    listed = (
        [ts for ts, _, _ in given_ticks],
        [ts - early for ts, early, _ in given_ticks],
        [ticks for _, _, ticks in given_ticks],
    )
    arrays = [np.array(each, np.int64) for each in listed]
    moved, delayed, after = surveys.clock_moves(*listed, clk)
    assert native.clock_moves(*listed, clk, False) == native.clock_moves(*arrays, clk, False) == (moved, delayed, after)
    assert native.clock_moves(*arrays, clk, True) == (moved, sorted(delayed)[:1], sorted(after)[:1])


@given(st.lists(st.tuples(st.lists(times), st.booleans()), max_size=4), st.randoms())
def test_both_find_the_same_order_of_arrival(given_times: list[tuple[list[int], bool]], rng: random.Random) -> None:
    pieces = [Block.from_events(Event, [Event(ts=ts, id=at) for at, ts in enumerate(each)]) for each, _ in given_times]
    places = [sorted(rng.sample(range(20 + len(each)), len(each))) if is_placed else None for each, is_placed in given_times]
    found = MixedBlock(pieces, places)
    assert found.order.tolist() == surveys.order_of_arrival(pieces, places).tolist()
    assert [event.ts for event in found.events()] == found.times.tolist() == plain_times(found)


def plain_times(interleaved: MixedBlock) -> list[int]:
    laid_out = [ts for piece in interleaved.pieces for ts in piece.times.tolist()]
    return [laid_out[place] for place in interleaved.order.tolist()]


@given(st.lists(st.tuples(times, st.integers(0, 2))))
def test_the_core_and_the_oracle_find_the_same_span(stamps: list[tuple[int, int]]) -> None:
    events = [Event(ts=ts, id=at, level=level) for at, (ts, level) in enumerate(stamps)]
    assert native.span(events) == buffers.span(events)


def test_what_a_survey_tells() -> None:
    assert buffers.span([]) == (END, NEVER, True)
    found = surveys.survey([5, 3, 9, 8, 9], 4, 6)
    assert found == Survey(9, 3, 9, [3, 8, 9, 5], [8, 9])
