"""The times of columns, and of events, are surveyed alike in Rust and in Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from middleware import native
from middleware.link.codec import plain_span
from middleware.model.event import END, NEVER, Event
from middleware.ordering.measuring import plain_survey, survey, survey_events

pytest.importorskip("middleware.native._core", reason="the native core is not built")

times = st.integers(-20, 20)


@given(st.lists(times), times | st.just(NEVER), times | st.just(NEVER))
def test_the_twins_see_the_same(given_times: list[int], top: int, clk: int) -> None:
    column = np.array(given_times, dtype=np.int64)
    found, expected = survey(column, top, clk), plain_survey(given_times, top, clk)
    assert survey_events([Event(ts=ts, id=at) for at, ts in enumerate(given_times)], top, clk) == found
    assert found[2:] == expected[2:] and found.newest == expected.newest
    assert not given_times or found.earliest == expected.earliest == min(given_times)
    fewer = survey(column, top, clk, only_earliest=True)
    assert fewer == survey_events([Event(ts=ts, id=at) for at, ts in enumerate(given_times)], top, clk, only_earliest=True)
    assert fewer[:3] == found[:3]
    assert (fewer.delayed, fewer.after) == (sorted(found.delayed)[:1], sorted(found.after)[:1])


@given(st.lists(st.tuples(times, st.integers(0, 2))))
def test_the_twins_find_the_same_span(stamps: list[tuple[int, int]]) -> None:
    events = [Event(ts=ts, id=at, level=level) for at, (ts, level) in enumerate(stamps)]
    assert native.span(events) == plain_span(events)


def test_what_a_survey_tells() -> None:
    assert plain_span([]) == (END, NEVER, True)
    found = plain_survey([5, 3, 9, 8, 9], 4, 6)
    assert found == (9, 3, 9, [3, 8, 9, 5], [8, 9])
