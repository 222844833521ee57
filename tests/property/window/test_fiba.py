"""The tree against the naive window: every operation, every built-in monoid and more, native and plain."""

import math
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slackline_benchmarks.listed_columns import listed
from slackline_benchmarks.plain_fiba import PlainFiba

from detectors.window import ARGMAX, ARGMIN, BLOOM, BUILT_IN, CONCAT, DISTINCT, Fiba, exact_quantile, quantile
from tests.property.window.naive import NaiveWindow

FLOATS = st.floats() | st.sampled_from([0.0, -0.0, 1.0, 1e300, -1e300, 1e-300, 2.0**400])
INTS = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)
TIMES = st.integers(0, 40) | st.integers(-(2**62), 2**62)
PAIRS = st.tuples(st.integers(-2, 2), st.text("xyz", max_size=1))

CASES = {f"{m.name}:float": (m, FLOATS) for m in BUILT_IN.values() if m not in (ARGMIN, ARGMAX, CONCAT)}
CASES |= {f"{m.name}:int": (m.of(int), INTS) for m in BUILT_IN.values() if m.native and (int in m.variants)}
CASES |= {"argmin": (ARGMIN, PAIRS), "argmax": (ARGMAX, PAIRS), "concat": (CONCAT, st.integers(0, 9))}
WORDS = st.text("ab", max_size=3) | st.integers(-3, 3) | st.sampled_from([0.5, 2.0, math.nan])
CASES |= {"bloom": (BLOOM, WORDS), "distinct": (DISTINCT, WORDS), "quantile": (quantile(0.5), st.floats(-1e9, 1e9))}
CASES["exact quantile"] = (exact_quantile(0.4), st.integers(-9, 9))
CASES["moderate variance"] = (BUILT_IN["variance"], st.floats(-1e6, 1e6))
CLASSES = [PlainFiba, Fiba]

OPERATIONS = ["insert"] * 4 + ["replace", "evict", "oldest", "bulk_insert", "bulk_evict", "round", "range", "rounds", "clear"]


ORDERS = st.tuples(st.integers(0, 5), st.sampled_from(["a", "b", "c", "ab", "", "é"]), st.integers(0, 3))
LEVELS = st.tuples(st.integers(0, 5), st.integers(0, 2), st.text("abc", max_size=2), st.integers(-3, 3))


def same(one, other) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    return one == other and type(one) is type(other)


def close(one, other, least=1e-290) -> bool:
    """Logarithms and variances: what is between the exact sum and the result may differ in the last bits."""
    return same(one, other) or (
        isinstance(one, float) and isinstance(other, float) and math.isclose(one, other, rel_tol=1e-14, abs_tol=least)
    )


def column_of(results) -> tuple:
    """Results as a column: arrays of floats have NaN where there is none."""
    return tuple(math.nan if result is None else result for result in listed(results))


def run(window, operation, data, values, times=TIMES, bounds=TIMES):
    """One operation with drawn arguments; what it gives."""
    match operation:
        case "insert":
            ts, value = data.draw(times), data.draw(values)
            return lambda w: w.insert(ts, value)
        case "replace":
            ts, value = data.draw(times), data.draw(values)
            return lambda w: w.insert(ts, value, replace=True)
        case "evict":
            there = [ts for ts, _ in window]
            ts = data.draw(st.sampled_from(there) | times if there else times)
            return lambda w: w.evict(ts) if len(w) else None
        case "oldest":
            return lambda w: w.evict_oldest() if len(w) else None
        case "bulk_insert":
            column_of_times = sorted(data.draw(st.lists(times, max_size=60)))
            column = [data.draw(values) for _ in column_of_times]
            replace = data.draw(st.booleans())
            return lambda w: w.bulk_insert(column_of_times, column, replace=replace)
        case "bulk_evict":
            upto = data.draw(bounds)
            return lambda w: w.bulk_evict(upto)
        case "round":
            arguments = (data.draw(bounds), data.draw(times), data.draw(values))
            return lambda w: w.round(*arguments)
        case "rounds":
            rows = data.draw(st.lists(st.tuples(bounds, times), max_size=4))
            column = [data.draw(values) for _ in rows]
            return lambda w: column_of(w.rounds([a for a, _ in rows], [b for _, b in rows], column))
        case "range":
            low, high = data.draw(bounds), data.draw(bounds)
            return lambda w: w.range_query(low, high)
    return lambda w: w.clear()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
@settings(max_examples=60, deadline=None)
@given(data=st.data(), min_arity=st.sampled_from([2, 2, 3, 4, 8]))
def test_like_the_naive_window(kind, case, data, min_arity):
    monoid, values = CASES[case]
    equal = close if monoid.name in ("geomean", "variance", "sample_variance") else same
    if monoid.name in ("stddev", "sample_stddev"):
        equal = partial(close, least=1e-145)  # the squares of what is smaller have few bits
    window, naive = kind(monoid, min_arity=min_arity), NaiveWindow(monoid)
    for operation in data.draw(st.lists(st.sampled_from(OPERATIONS), max_size=25)):
        act = run(naive, operation, data, values)
        assert equal(act(window), act(naive)), operation
        window.check()
        assert len(window) == len(naive)
        assert (window.oldest, window.youngest) == (naive.oldest, naive.youngest)
        assert equal(window.query(), naive.query())
        for one, other in zip(window, naive, strict=True):
            assert one[0] == other[0] and equal(one[1], other[1])


@pytest.mark.parametrize("case", ["concat", "argmax", "sum:float", "last:int"])
@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
@settings(max_examples=60, deadline=None)
@given(data=st.data(), min_arity=st.sampled_from([2, 3, 8]), times=st.sampled_from([ORDERS, LEVELS]))
def test_places_in_the_total_order(kind, case, data, min_arity, times):
    monoid, values = CASES[case]
    window, naive = kind(monoid, min_arity=min_arity, ordered=True), NaiveWindow(monoid, ordered=True)
    bounds = times | st.integers(0, 6)
    for operation in data.draw(st.lists(st.sampled_from(OPERATIONS), max_size=25)):
        act = run(naive, operation, data, values, times, bounds)
        assert same(act(window), act(naive)), operation
        window.check()
        assert (window.oldest, window.youngest) == (naive.oldest, naive.youngest)
        assert same(tuple(window), tuple(naive))
        assert same(window.query(), naive.query())
