"""Queries that share a tree, and come and go: each window is that of a list of all values."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.window import CONCAT, SharedWindows
from middleware.model.errors import WindowError

STEPS = st.lists(
    st.tuples(st.sampled_from(["insert", "insert", "open", "close", "advance", "evict"]), st.integers(0, 30)), max_size=40
)


@pytest.mark.parametrize("ordered", [False, True])
@settings(max_examples=140, deadline=None)
@given(steps=STEPS, retention=st.integers(0, 6))
def test_every_window_is_that_of_all_values(ordered, steps, retention):
    shared = SharedWindows(CONCAT, retention=retention, min_arity=2, ordered=ordered)
    values = {}
    for number, (what, n) in enumerate(steps):
        if what == "insert":
            place = (n, "s", number) if ordered else n
            if n <= shared.forgotten:
                with pytest.raises(WindowError, match="late"):
                    shared.insert(place, number)
                continue
            shared.insert(place, number)
            values.setdefault(place, []).append(number)
        elif what == "open" and f"q{n}" not in shared.open_queries:
            shared.open(f"q{n}", 1 + n // 3)
        elif what == "close" and f"q{n}" in shared.open_queries:
            shared.close(f"q{n}")
        elif what == "evict":
            kept = sorted(place for place in values if (place[0] if ordered else place) > shared.forgotten)
            if kept:
                assert shared.evict(kept[n % len(kept)])
                del values[kept[n % len(kept)]]
        elif what == "advance":
            before = shared.forgotten
            shared.advance(n)
            if shared.forgotten > before:  # nothing that a window of an open query may still hold
                assert all(n - size >= shared.forgotten for size in shared.open_queries.values())
        shared.check()
        assert len(shared) == sum((place[0] if ordered else place) > shared.forgotten for place in values)
        for name, size in shared.open_queries.items():
            for end in range(31):
                if end - size < shared.forgotten:
                    with pytest.raises(WindowError, match="first whole window"):
                        shared.query(name, end)
                    continue
                expected = [
                    value
                    for place in sorted(values)
                    if end - size < (place[0] if ordered else place) <= end
                    for value in values[place]
                ]
                assert shared.query(name, end) == tuple(expected)


def test_a_query_that_comes_later_looks_back_as_far_as_values_are_kept():
    shared = SharedWindows(CONCAT, retention=5)
    shared.open("short", 2)
    shared.bulk_insert(range(20), range(20))
    assert shared.advance(15) == 11 and shared.forgotten == 10  # the last window ends at 15, and 11 to 15 are kept
    shared.open("long", 8)
    assert shared.query("short", 15) == (14, 15)
    with pytest.raises(WindowError, match="ends at 18"):
        shared.query("long", 17)
    assert shared.query("long", 18) == tuple(range(11, 19))
    shared.close("long")
    with pytest.raises(WindowError, match="open are short"):
        shared.query("long", 19)
    with pytest.raises(WindowError, match="is open already"):
        shared.open("short", 3)
    with pytest.raises(WindowError, match="at least 1"):
        shared.open("none", 0)
