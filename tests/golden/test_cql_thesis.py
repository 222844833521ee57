"""The worked examples of the thesis (Vu 2015): sections 2.2, 3.1 and 3.3 give numbers and window contents; these must come out.

Times are the thesis': whole numbers on its axis, here the seconds of an attribute declared as TIMESTAMP.
"""

from random import Random

import pytest

from detectors.cql import compile_cql
from middleware.model.time import SECOND
from middleware.ordering.kslack import Lateness
from middleware.ordering.policies import Policies
from middleware.runtime.engine import run

POLICIES = Policies(alpha=0.0, lateness=Lateness(1.0, 100_000 * SECOND))  # nothing comes too late

INSTREAM = "CREATE STREAM Instream (time Long, value Int) TIMESTAMP time;"
FLINK, ORACLE, CORAL8 = "EXECUTE TUPLE DRIVEN", "EXECUTE TIME DRIVEN", "EXECUTE BATCH DRIVEN"


def results(query, tuples, stream=INSTREAM, name="Instream", seed=None):
    """The final results of a query over (time, value) tuples, in order or shuffled; one tuple arrives at a time."""
    script = compile_cql(stream + query)
    make = script.types[name]
    events = [make(*each, ts=each[0] * SECOND, id=number, source="s") for number, each in enumerate(tuples)]
    if seed is not None:
        Random(seed).shuffle(events)
    return run(events, script.operators, policies=POLICIES, batch=1).finals[script.operators[-1].name]


def averages(query, tuples, **others):
    """The averages in order of time; results of one moment have no order but that of their identities, so they are sorted."""
    found = results(f"SELECT avg(value) FROM Instream {query}", tuples, **others)
    return [value for _, value in sorted((event.ts, event.avg_value) for event in found)]


orders = pytest.mark.parametrize("seed", [None, 1, 2, 3])


@orders
@pytest.mark.parametrize(("model", "expected"), [(FLINK, [15, 40]), (ORACLE, [20, 50])])
def test_example_1_window_construction(model, expected, seed):
    tuples = [(10, 10), (11, 20), (12, 30), (13, 40), (14, 50), (15, 60), (16, 70)]
    assert averages(f"[SIZE 3 ON time] {model}", tuples, seed=seed)[:2] == expected


@orders
def test_example_1_with_the_upper_bound_of_the_first_window_set(seed):
    tuples = [(10, 10), (11, 20), (12, 30), (13, 40), (14, 50), (15, 60), (16, 70)]
    assert averages("[SIZE 3 ON time STARTING AT 12]", tuples, seed=seed)[:2] == [20, 50]


@orders
@pytest.mark.parametrize(
    ("model", "expected"), [(FLINK, [10, 15, 15, 15, 15, 20]), (ORACLE, [10, 15, 20]), (CORAL8, [10, 15, 20])]
)
def test_example_2_window_evaluation(model, expected, seed):
    tuples = [(30, 10), (31, 20), (36, 30)]
    found = averages(f"[SIZE 5 ON time EVERY 1 ON time] {model}", tuples, seed=seed)
    assert found[: len(expected)] == expected
    assert set(found[len(expected) :]) == {30}  # the window of s3 alone, which the thesis leaves to the dots


@pytest.mark.parametrize(
    ("model", "expected"),
    [(FLINK, [10, 20, 30, 40, 50, 60, 70, 80]), (ORACLE, [20, 30, 70, 80]), (CORAL8, [10, 20, 30, 40, 50, 60, 70, 80])],
)
@orders
def test_example_3_processing_granularity(model, expected, seed):
    tuples = [(10, 10), (10, 20), (11, 30), (12, 40), (12, 50), (12, 60), (12, 70), (13, 80)]
    assert averages(f"[SIZE 1] {model}", tuples, seed=seed) == expected


@orders
def test_equations_3_2_and_3_4_one_tuple_windows(seed):
    tuples = [(1, 1), (2, 10), (2, 20), (3, 100)]
    assert averages("[SIZE 1]", tuples, seed=seed) == [1, 10, 20, 100]
    assert averages(f"[SIZE 1] {ORACLE}", tuples, seed=seed) in ([1, 10, 100], [1, 20, 100])


def contents(query, times, seed=None, stream=INSTREAM):
    """The windows of a query by their time, each with the numbers of its tuples s1, s2, ..."""
    found = results(f"SELECT value FROM Instream {query}", [(t, n) for n, t in enumerate(times, 1)], seed=seed, stream=stream)
    windows: dict[tuple, list[int]] = {}
    for event in found:
        windows.setdefault(event.ts, []).append(event.value)
    return [sorted(window) for _, window in sorted(windows.items())]


@orders
def test_figure_2_3_landmark_windows(seed):
    """Since 1 a.m., once every hour: W1(1, 2] = {s1}, W2(1, 3] = {s1, s2, s3}, W3(1, 4] = {s1, ..., s5}."""
    hour = 3600
    times = [hour * 3 // 2, hour * 5 // 2, hour * 11 // 4, hour * 7 // 2, hour * 15 // 4]
    found = contents(f"[LANDMARK AT {hour} EVERY 1 hours]", times, seed)
    assert found == [[1], [1, 2, 3], [1, 2, 3, 4, 5]]


@orders
def test_figure_2_4_sliding_windows(seed):
    found = contents("[SIZE 3 EVERY 1]", [1, 2, 3, 4, 5], seed)
    assert found == [[1], [1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5]]


@orders
def test_figure_2_5_tumbling_windows(seed):
    assert contents("[SIZE 2]", [1, 2, 3, 4, 5, 6], seed) == [[1, 2], [3, 4], [5, 6]]


@orders
def test_figure_2_6_jumping_windows(seed):
    assert contents("[SIZE 2 EVERY 4]", range(1, 9), seed) == [[3, 4], [7, 8]]


@orders
def test_figure_2_7_delta_windows(seed):
    """|s4 - s1| = 12 > 10: s4 closes the first window; a tuple far from it closes the second."""
    tuples = [(1, 0), (2, 4), (3, 10), (4, 12), (5, 40)]
    found = results(
        "SELECT count(*) AS n, min(value) AS low, max(value) AS high FROM Instream [DELTA 10 ON value]", tuples, seed=seed
    )
    assert [(event.n, event.low, event.high) for event in found] == [(3, 0, 10), (1, 12, 12)]


@orders
def test_figure_2_2_three_hours_every_hour_by_exchange(seed):
    """W1 = {s1..s6}, W2 = {s2..s7}; inside each, groups by exchange."""
    stream = "CREATE STREAM StockTick (at Long, exchange String, quantity Int) TIMESTAMP at;"
    exchanges = ["NYSE", "NYSE", "AMEX", "NYSE", "NYSE", "AMEX", "NASDAQ"]
    tuples = [(n * 1800, exchange, 200_000) for n, exchange in enumerate(exchanges, 1)] + [(900, "NYSE", 5)]
    query = """SELECT exchange, count(*) AS n, window_end() AS until
               FROM StockTick [SIZE 3 hours EVERY 1 hours PARTITIONED BY exchange WHERE quantity > 100000]"""
    found = results(query, tuples, stream, "StockTick", seed)
    at = {}
    for event in found:
        at.setdefault(event.until // (3600 * SECOND), {})[event.exchange] = event.n
    assert at[3] == {"NYSE": 4, "AMEX": 2}  # s1 to s6 (s2 and s5 among NYSE); the small one is filtered out
    assert at[4] == {"NYSE": 2, "AMEX": 2, "NASDAQ": 1}


@orders
def test_figure_2_8_partitioned_windows(seed):
    """[SIZE 2] GROUP BY: windows of two tuples in each group, not two tuples of the stream that are then grouped."""
    stream = "CREATE STREAM StockTick (at Long, symbol String, exchange String, quantity Int) TIMESTAMP at;"
    rows = [("A", "X", 1), ("B", "X", 10), ("A", "X", 3), ("A", "Y", 100), ("B", "X", 20), ("A", "Y", 300)]
    tuples = [(n, *row) for n, row in enumerate(rows)]
    query = "SELECT symbol, exchange, ave(quantity) AS mean FROM StockTick [SIZE 2] GROUP BY symbol, exchange"
    found = results(query, tuples, stream, "StockTick", seed)
    assert [(e.symbol, e.exchange, e.mean) for e in found] == [("A", "X", 2.0), ("B", "X", 15.0), ("A", "Y", 200.0)]


def test_section_3_3_mixed_windows():
    """Size and slide of different kinds: sum of the last 100 transactions once an hour, in small."""
    tuples = [(n * 600, n) for n in range(1, 13)]
    found = results("SELECT sum(value) AS total FROM Instream [SIZE 3 EVERY 1 hours]", tuples)
    assert [event.total for event in found] == [4 + 5 + 6, 10 + 11 + 12]


def test_section_4_2_3_without_a_window_an_aggregate_is_refused():
    with pytest.raises(Exception, match=r"avg would block.*\[SIZE 100\]"):
        compile_cql(INSTREAM + "SELECT avg(value) FROM Instream")
