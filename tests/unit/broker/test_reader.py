"""Where a named reader resumes in the log: at its last place, or, with less than it had, at one where that was all it had."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple

from middleware.broker.log.readers import Reader
from middleware.link.codec import SinkPosition


def position(ts: int) -> SinkPosition:
    return ts, 1, "Pass", 7


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=300), st.integers(-1, 900))
def test_nothing_is_lost_with_an_older_copy(steps: list[tuple[int, int]], has: int) -> None:
    reader, offset, ts = Reader(frozenset(), 0, named=True), 0, -1
    commits: list[tuple[int, SinkPosition | None]] = [(0, None)]
    for further, later in steps:
        offset, ts = offset + further, ts + later
        reader.moved(offset, position(ts) if ts >= 0 else None)
        commits.append((reader.offset, reader.position))
    after = position(has) if has >= 0 else None
    commit = reader.commit_for(after)
    assert commit in commits, "a place that it had"
    assert after is None or commit[1] is None or commit[1] <= after, "what it lacks lies behind that"
    assert len(reader.commits) <= 64
    if after is None or reader.position is None or reader.position <= after:
        assert commit == (reader.offset, reader.position)
    again = Reader(*astuple(reader))
    again.back(after)
    assert (again.offset, again.position) == commit == again.commit_for(after)


def test_places_are_spread_over_what_the_log_has() -> None:
    reader = Reader(frozenset(), 0, named=True)
    for number in range(1, 20_001):
        reader.moved(number, position(number), oldest=max(0, number - 10_000))
    assert reader.commit_for(position(1))[0] >= 9_000, "nothing is kept of what has been cut off"
    for lacks in (1, 10, 100, 1_000, 9_000):
        assert 20_000 - lacks - 1_000 <= reader.commit_for(position(20_000 - lacks))[0] <= 20_000 - lacks


def test_a_reader_without_a_name_has_no_past() -> None:
    reader = Reader(frozenset(), 0, named=False)
    reader.moved(5, position(3))
    assert reader.commits == [] and reader.commit_for(position(1)) == (5, position(3))
