"""DuckDB as a second oracle: what standard SQL says over sorted tuples is what queries say of them, whatever their order."""

import math
from random import Random

import duckdb
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.cql import compile_cql
from middleware.model.change import Delta
from middleware.model.event import END, Event
from middleware.model.time import SECOND
from middleware.testing.operators import history, play


class Tick(Event):
    symbol: str | None
    price: float | None
    quantity: int
    other: int | None


TICKS = st.lists(
    st.tuples(
        st.sampled_from(["IBM", "GE", "I_M%", "ÄÖ", "", None]),
        st.none() | st.integers(-40, 40).map(lambda n: n / 8),
        st.integers(-9, 9),
        st.none() | st.integers(-3, 3),
        st.integers(0, 30),
    ),
    min_size=1,
    max_size=25,
)


DATABASE = duckdb.connect(config={"threads": 1})


def events(drawn):
    return [Tick(s, p, q, o, ts=t * SECOND, id=n, source="x") for n, (s, p, q, o, t) in enumerate(drawn)]


def duck(ticks, query):
    """The rows of a query over the ticks, which are table Tick, with ts in seconds."""
    rows = [(e.symbol, e.price, e.quantity, e.other, e.ts // SECOND, e.id) for e in ticks]
    kinds = {"symbol": "VARCHAR", "price": "DOUBLE", "quantity": "BIGINT", "other": "BIGINT", "ts": "BIGINT", "id": "BIGINT"}
    columns = ", ".join(f"unnest(?::{kind}[]) AS {name}" for name, kind in kinds.items())
    DATABASE.execute(f"CREATE OR REPLACE TABLE Tick AS SELECT {columns}", list(zip(*rows, strict=True)))
    return DATABASE.execute(query).fetchall()


# expressions that mean the same in both

NUMBERS = st.sampled_from(["price", "quantity", "other", "2", "-3", "0.5", "0"])
TEXTS = st.sampled_from(["symbol", "'IBM'", "'%'", "''", "upper(symbol)", "substring(symbol, 2, 2)", "symbol || 'x'"])


def arithmetic(inner):
    return st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda x: f"(- {x})"),
        inner.map(lambda x: f"abs({x})"),
        st.tuples(inner, inner).map(lambda t: f"coalesce({t[0]}, {t[1]})"),
        st.tuples(inner, inner).map(lambda t: f"nullif({t[0]}, {t[1]})"),
        inner.map(lambda x: f"CAST({x} AS Double)"),
        inner.map(lambda x: f"round(CAST({x} AS Double), 1)"),
        inner.map(lambda x: f"(CAST({x} AS Double) / nullif(other, 0))"),
    )


NUMERIC = st.recursive(NUMBERS, arithmetic, max_leaves=6)
COMPARED = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
ATOMIC = st.one_of(
    st.tuples(NUMERIC, COMPARED, NUMERIC).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
    st.tuples(TEXTS, COMPARED, TEXTS).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
    st.tuples(NUMERIC, st.sampled_from(["", "NOT "]), NUMERIC, NUMERIC).map(
        lambda t: f"({t[0]} {t[1]}BETWEEN {t[2]} AND {t[3]})"
    ),
    st.tuples(NUMBERS, st.sampled_from(["", "NOT "]), NUMBERS, NUMBERS).map(
        lambda t: f"({t[0]} {t[1]}IN ({t[2]}, {t[3]}, NULL))" if t[0] != t[2] else f"({t[0]} {t[1]}IN ({t[2]}, {t[3]}))"
    ),
    st.tuples(TEXTS, st.sampled_from(["", "NOT "]), st.sampled_from(["'I%'", "'_B_'", "'%M%'", "''"])).map(
        lambda t: f"({t[0]} {t[1]}LIKE {t[2]})"
    ),
    st.tuples(st.one_of(NUMERIC, TEXTS), st.sampled_from(["", "NOT "])).map(lambda t: f"({t[0]} IS {t[1]}NULL)"),
)
CONDITIONS = st.recursive(
    ATOMIC,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        inner.map(lambda x: f"(NOT {x})"),
    ),
    max_leaves=6,
)


def near(one, other):
    if isinstance(one, float) and isinstance(other, float | int):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return one == other


@settings(max_examples=140, deadline=None)
@given(TICKS, CONDITIONS)
def test_conditions_keep_the_same_tuples(drawn, condition):
    """As WHERE, as a value, and negated: NULL is neither true nor false."""
    ticks = events(drawn)
    script = compile_cql(f"SELECT quantity FROM Tick WHERE {condition} INTO Kept", [Tick])
    kept = script.operators[0].start("Kept", 1).apply(Delta(ticks), END, END).inserts
    expected = duck(ticks, f"SELECT quantity FROM Tick WHERE {condition} ORDER BY id")
    assert [(e.quantity,) for e in kept] == expected
    script = compile_cql(f"SELECT {condition} AS truth FROM Tick INTO Truth", [Tick])
    truths = script.operators[0].start("Truth", 1).apply(Delta(ticks), END, END).inserts
    assert [(e.truth,) for e in truths] == duck(ticks, f"SELECT {condition} FROM Tick ORDER BY id")


@settings(max_examples=140, deadline=None)
@given(TICKS, NUMERIC)
def test_numbers_are_the_same(drawn, expression):
    ticks = events(drawn)
    script = compile_cql(f"SELECT {expression} AS value FROM Tick INTO Value", [Tick])
    found = script.operators[0].start("Value", 1).apply(Delta(ticks), END, END).inserts
    expected = duck(ticks, f"SELECT {expression} FROM Tick ORDER BY id")
    for event, (value,) in zip(found, expected, strict=True):
        value = float(value) if value is not None and not isinstance(value, int) else value
        assert near(event.value, value), expression


AGGREGATES = """
    count(*);count(price);sum(quantity);sum(price);avg(price);min(price);max(other);stddev(price);var_pop(quantity);min(symbol);
    avg(price) * 2 + count(*);median(price)
""".strip().split(";")


@settings(max_examples=80, deadline=None)
@given(TICKS, st.integers(1, 9), CONDITIONS, st.booleans(), st.integers(0, 2**32))
def test_aggregates_of_tumbling_windows_are_the_same(drawn, size, condition, grouped, seed):
    ticks = events(drawn)
    columns = ", ".join(f"{text} AS c{n}" for n, text in enumerate(AGGREGATES))
    key, group = ("symbol, ", "GROUP BY symbol") if grouped else ("", "")
    script = compile_cql(f"SELECT {key}{columns} FROM Tick [SIZE {size} seconds] WHERE {condition} {group} INTO Bar", [Tick])
    found = play(script.operators[0], history(ticks, Random(seed)))
    end = f"CAST(ceil(ts / {size}.0) AS BIGINT) * {size}"  # the least multiple at or after ts
    by = f"{end}, symbol" if grouped else end
    expected = duck(ticks, f"SELECT {end}, {key}{columns} FROM Tick WHERE {condition} GROUP BY {by}")
    rows = [
        [e.ts // SECOND, *([e.symbol] if grouped else []), *(getattr(e, f"c{n}") for n in range(len(AGGREGATES)))]
        for e in found
    ]
    order = lambda row: (row[0], str(row[1]) if grouped else "")  # noqa: E731
    for one, other in zip(sorted(rows, key=order), sorted(expected, key=order), strict=True):
        assert all(near(a, b) for a, b in zip(one, other, strict=True)), (one, other)


@settings(max_examples=80, deadline=None)
@given(TICKS, TICKS, st.integers(1, 9), st.integers(0, 2**32))
def test_joins_of_tumbling_windows_are_the_same(drawn, others, size, seed):
    ticks = events(drawn)
    text = f"""SELECT a.quantity AS one, b.quantity AS other FROM Tick AS a [SIZE {size} seconds]
               JOIN Tick AS b [SIZE {size} seconds] ON a.symbol = b.symbol WHERE a.price < b.price INTO Match"""
    found = play(compile_cql(text, [Tick]).operators[0], history(ticks, Random(seed)))
    end = "CAST(ceil({0}.ts / {1}.0) AS BIGINT) * {1}"
    expected = duck(ticks, f"""SELECT a.quantity, b.quantity FROM Tick a JOIN Tick b ON a.symbol = b.symbol
                             AND {end.format("a", size)} = {end.format("b", size)} WHERE a.price < b.price""")  # fmt: skip
    assert sorted((e.one, e.other) for e in found) == sorted(expected)
