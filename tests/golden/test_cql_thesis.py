"""The worked examples of the thesis (Vu 2015): sections 2.2, 3.1 and 3.3 give numbers and window contents; these must come out.

Times are the thesis': whole numbers on its axis, here the seconds of an attribute declared as TIMESTAMP.
"""

from random import Random

import pytest

from detectors.cql import compile_cql
from middleware.model.time import SECOND
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import Lateness
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


# the statements of chapters 2 and 4, each with numbers worked out by hand

TICKS = """CREATE SCHEMA StockTickSchema (symbol String, sourceTimestamp Long, price Double, quantity Int, exchange String);
           CREATE STREAM StockTick StockTickSchema TIMESTAMP sourceTimestamp;"""
ROWS = [
    (1430468303, "IBM", 81.37, 30_000, "NYSE"),  # the sample tuple of section 2.1
    (1430468304, "IBM", 101.5, 100_000, "NYSE"),
    (1430468305, "GE", 27.0, 5, "AMEX"),
    (1430468306, "MSFT", 120.0, 20_000, "NASDAQ"),
    (1430468307, "GE", 28.0, 150_000, "AMEX"),
    (1430468308, "IBM", 99.0, 0, "NYSE"),
]


def finals(text, seed=None, stream="StockTick"):
    """The final results of all statements over the ticks, by stream."""
    script = compile_cql(TICKS + text)
    make = script.types[stream]
    events = [
        make(symbol, at, price, quantity, exchange, ts=at * SECOND, id=number, source=exchange)
        for number, (at, symbol, price, quantity, exchange) in enumerate(ROWS)
    ]
    if seed is not None:
        Random(seed).shuffle(events)
    return run(events, script.operators, policies=POLICIES, batch=1).finals


@orders
def test_section_2_1_a_derived_stream(seed):
    found = finals("CREATE STREAM HighStockTick AS SELECT * FROM StockTick WHERE price > 100", seed)["HighStockTick"]
    assert [(e.symbol, e.sourceTimestamp, e.price) for e in found] == [("IBM", 1430468304, 101.5), ("MSFT", 1430468306, 120.0)]


@orders
def test_section_4_1_a_declarative_query(seed):
    found = finals('SELECT * from StockTick where Exchange = "NYSE" INTO Found', seed)["Found"]
    assert [e.price for e in found] == [81.37, 101.5, 99.0]


@orders
def test_section_4_2_2_schemas_and_streams(seed):
    text = """CREATE SCHEMA StockTickSchema2 StockTickSchema;
              CREATE SCHEMA StockTickSchema3 (id Int) EXTENDS StockTickSchema;
              CREATE STREAM Copy StockTickSchema2; INSERT INTO Copy AS StockTick;
              CREATE STREAM StockPrice (symbol String, price Double) AS SELECT symbol, price FROM StockTick"""
    found = finals(text, seed)
    assert [e.quantity for e in found["Copy"]] == [30_000, 100_000, 5, 20_000, 150_000, 0]
    assert [(e.symbol, e.price) for e in found["StockPrice"]][:2] == [("IBM", 81.37), ("IBM", 101.5)]
    schemas = compile_cql(TICKS + text).catalog.schemas
    assert [each.name for each in schemas["StockTickSchema3"]] == [each.name for each in schemas["StockTickSchema"]] + ["id"]


def test_section_4_2_2_a_base_stream_from_a_host():
    script = compile_cql(TICKS + 'CREATE STREAM Live StockTickSchema SOURCE HOST ("98.138.253.109", 2000)')
    (live,) = script.sources
    assert (live.name, live.source.host, live.source.port) == ("Live", "98.138.253.109", 2000)


@orders
def test_section_4_2_3_merge(seed):
    """Three exchanges' streams as one."""
    text = """CREATE STREAM stockTickFromNYSE AS SELECT * FROM StockTick WHERE exchange = 'NYSE';
              CREATE STREAM stockTickFromAMEX AS SELECT * FROM StockTick WHERE exchange = 'AMEX';
              CREATE STREAM stockTickFromNASDAQ AS SELECT * FROM StockTick WHERE exchange = 'NASDAQ';
              MERGE stockTickFromNYSE, stockTickFromAMEX, stockTickFromNASDAQ INTO All"""
    assert [e.price for e in finals(text, seed)["All"]] == [row[2] for row in ROWS]


@orders
def test_section_4_2_3_split(seed):
    text = """on StockTick
        insert into LargeTicks select symbol, price where quantity >= 100000
        insert into MediumTicks select symbol, price where quantity between 20000 and 100000
        insert into SmallTicks select symbol, price where quantity > 0"""
    found = finals(text, seed)
    split = {name: [e.price for e in found[name]] for name in ("LargeTicks", "MediumTicks", "SmallTicks")}
    assert split == {
        "LargeTicks": [101.5, 28.0],
        "MediumTicks": [81.37, 101.5, 120.0],
        "SmallTicks": [81.37, 101.5, 27.0, 120.0, 28.0],
    }


@orders
def test_section_4_2_3_averages_of_counted_windows(seed):
    """[SIZE 100] and GROUP BY symbol, exchange over [SIZE 2], in small."""
    found = finals("SELECT avg(quantity) AS mean FROM StockTick [SIZE 3] INTO Mean", seed)["Mean"]
    assert [e.mean for e in found] == [130_005 / 3, 170_000 / 3]
    text = "SELECT ave(quantity) AS mean FROM StockTick [SIZE 2] GROUP BY symbol, exchange INTO Mean"
    assert [e.mean for e in finals(text, seed)["Mean"]] == [65_000.0, 75_002.5]


@orders
def test_section_3_2_and_3_3_windows_of_flink(seed):
    """window(Time.of(30)).every(Time.of(10)).sum(Quantity); window(Count.of(100)).every(Time.of(1)).sum(Quantity); in small."""
    text = "SELECT sum(quantity) AS total, window_end() AS at FROM StockTick [{}] INTO Total"
    by_time = finals(text.format("SIZE 3 seconds EVERY 1 seconds"), seed)["Total"]
    assert [e.total for e in by_time] == [30_000, 130_000, 130_005, 120_005, 170_005, 170_000, 150_000, 0]
    by_count = finals(text.format("SIZE 2 EVERY 2 seconds"), seed)["Total"]
    assert [(e.total, e.at // SECOND % 100) for e in by_count] == [(130_000, 4), (20_005, 6), (150_000, 8)]


@orders
def test_section_4_2_3_windows_by_exchange(seed):
    """[SIZE 3 hours EVERY 1 hours PARTITIONED BY Exchange], in small: seconds for hours."""
    text = "SELECT exchange, count(*) AS n FROM StockTick [SIZE 3 seconds EVERY 1 seconds PARTITIONED BY Exchange] INTO N"
    at = {}
    for event in finals(text, seed)["N"]:
        at.setdefault(event.ts // SECOND % 100, {})[event.exchange] = event.n
    assert at[5] == {"NYSE": 2, "AMEX": 1}
    assert at[8] == {"NYSE": 1, "AMEX": 1, "NASDAQ": 1}


@orders
def test_section_4_2_3_joins_of_current_windows(seed):
    """Join and cross join on the pairs of current windows, and figure 4.1's grouping behind them."""
    text = """SELECT symbol, price FROM StockTick INTO Price; SELECT symbol, quantity FROM StockTick INTO Quantity;
              SELECT p.symbol AS symbol, price, quantity FROM Price p [SIZE 4 seconds] JOIN Quantity q [SIZE 4 seconds]
              ON p.symbol = q.symbol INTO Joined;
              SELECT p.price AS price FROM Price p [SIZE 4 seconds] CROSS JOIN Quantity q [SIZE 4 seconds] INTO Crossed;
              SELECT symbol, sum(price * quantity) AS volume FROM Price p [SIZE 4 seconds] JOIN Quantity q [SIZE 4 seconds]
              USING symbol GROUP BY symbol INTO Volume"""
    found = finals(text, seed)
    first = [(e.symbol, e.price, e.quantity) for e in found["Joined"] if e.ts == 1430468304 * SECOND]
    ibm = [("IBM", price, quantity) for price in (81.37, 101.5) for quantity in (30_000, 100_000)]
    assert sorted(first) == sorted(ibm)
    assert len(found["Crossed"]) == 2 * 2 + 4 * 4  # windows end at multiples of 4: ...304 and ...308
    volume = {(e.ts // SECOND % 100, e.symbol): e.volume for e in found["Volume"]}
    assert volume[4, "IBM"] == pytest.approx((81.37 + 101.5) * 130_000)
    assert volume[8, "GE"] == pytest.approx((27.0 + 28.0) * 150_005)


@orders
def test_section_2_2_2_delta_windows_by_euclidean_distance(seed):
    """A window holds the tuples within a distance of its first: here of two attributes."""
    points = [(1, 0, 0), (2, 3, 4), (3, 6, 8), (4, 6, 9), (5, 20, 20)]
    stream = "CREATE STREAM Instream (time Long, x Int, y Int) TIMESTAMP time;"
    text = "SELECT count(*) AS n, last(x) AS x, last(y) AS y FROM Instream [DELTA 10 ON x, y]"
    found = results(text, points, stream, seed=seed)
    assert [(e.n, e.x, e.y) for e in found] == [(3, 6, 8), (1, 6, 9)]  # (6, 8) is 10 away, (6, 9) more
