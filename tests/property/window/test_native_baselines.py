"""What FiBA is measured against is right itself: each baseline against the naive window, after every operation."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slackline_benchmarks.core_baselines import baseline

from detectors.window import BLOOM, CONCAT, GEOMEAN, LAST, MAX, SUM
from middleware.model.errors import WindowError
from tests.property.window.naive import NaiveWindow
from tests.property.window.test_fiba import close, column_of

IN_ORDER = ["two-stacks", "daba-lite", "reactive", "recompute"]
MONOIDS = {
    "sum": (SUM.of(int), st.integers(-9, 9)),
    "max": (MAX.of(int), st.integers(-9, 9)),
    "last": (LAST.of(int), st.integers(-9, 9)),
    "geomean": (GEOMEAN, st.floats(0.5, 9)),
    "bloom": (BLOOM, st.integers(0, 99)),
    "concat": (CONCAT, st.integers(0, 9)),  # in Python; does not commute
}


@pytest.mark.parametrize("name", MONOIDS)
@pytest.mark.parametrize("kind", IN_ORDER)
@settings(max_examples=40, deadline=None)
@given(data=st.data(), pushes=st.lists(st.integers(0, 3), max_size=60))
def test_in_order_like_the_naive_window(kind, name, data, pushes):
    monoid, values = MONOIDS[name]
    window, naive, ts = baseline(kind, monoid), NaiveWindow(monoid), 0
    for number in pushes:
        if number == 0 and len(naive):
            window.evict_oldest()
            naive.evict_oldest()
        for _ in range(number):
            ts, value = ts + 1, data.draw(values)
            window.insert(ts, value)
            naive.insert(ts, value)
        assert len(window) == len(naive) and close(window.query(), naive.query())
    value = data.draw(values)
    upto = ts - data.draw(st.integers(0, 4))
    assert close(window.round(upto, ts + 1, value), naive.round(upto, ts + 1, value))
    for number in range(3):
        arguments = [[upto + number], [ts + 2 + number], [value]]
        assert close(column_of(window.rounds(*arguments)), column_of(naive.rounds(*arguments)))
    with pytest.raises(WindowError, match="out of order"):
        window.insert(ts, value)


@pytest.mark.parametrize("name", MONOIDS)
@settings(max_examples=60, deadline=None)
@given(data=st.data(), times=st.lists(st.integers(0, 60), max_size=80), min_arity=st.sampled_from([2, 3, 8]))
def test_the_classic_tree_takes_any_order(name, data, times, min_arity):
    monoid, values = MONOIDS[name]
    window, naive = baseline("b-tree", monoid, min_arity=min_arity), NaiveWindow(monoid)
    for ts in times:
        if ts % 3 == 0 and len(naive):
            window.evict_oldest()
            naive.evict_oldest()
        if ts % 7 == 0:
            arguments = (naive.oldest or 0) + ts % 20, ts, data.draw(values)
            assert close(window.round(*arguments), naive.round(*arguments))
        else:
            value = data.draw(values)
            window.insert(ts, value)
            naive.insert(ts, value)
        window.check()
        assert len(window) == len(naive) and close(window.query(), naive.query())


@pytest.mark.parametrize("kind", ["daba-lite", "two-stacks", "reactive", "recompute", "b-tree"])
def test_combines_a_round_are_those_of_the_algorithm(kind):
    """DABA Lite and two stacks O(1), Reactive and the classic tree O(log n), recomputing O(n)."""
    per_round = {}
    for n in (1 << 6, 1 << 10):
        window = baseline(kind, LAST.of(int))  # it does not commute: no short cuts
        window.bulk_insert(range(n), range(n))
        before = window.work["combines"]
        rounds = 3 * n
        window.rounds(range(rounds), range(n, n + rounds), range(rounds))
        per_round[n] = (window.work["combines"] - before) / rounds
    small, large = per_round.values()
    if kind in ("daba-lite", "two-stacks"):
        assert large <= 4 and large == pytest.approx(small, rel=0.1)
    elif kind == "recompute":
        assert large == pytest.approx(1 << 10, rel=0.01)
    else:
        assert small + 3 < large < 8 * small
