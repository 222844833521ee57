"""Any expression over any values means the same wherever it stands; any window of them is the same however it is come by."""

import math
import pickle
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.cql import QueryError, compile_cql
from detectors.cql.partitions import trees
from detectors.cql.query_operators import windowed
from detectors.cql.query_operators.windowed import WindowedOperation
from middleware.model.change import Delta
from middleware.model.event import END, Event
from middleware.model.operator import Operator
from middleware.model.time import SECOND
from middleware.testing.operators import history, in_order, play


class Row(Event):
    a: int | None
    l: int  # noqa: E741
    x: float | None
    y: float
    s: str | None
    p: bool | None


WHOLE = st.sampled_from([0, 1, -1, 2, 55296, 2**31 - 1, -(2**31)])
LONG = st.one_of(WHOLE, st.sampled_from([2**63 - 1, -(2**63), 253_402_300_799]))
REAL = st.sampled_from([0.0, -0.0, 1.5, -2.0, 1e308, -1e308, 5e-324, 2.0**63, 1e20, math.nan, math.inf, -math.inf])
ROWS = st.tuples(
    st.none() | WHOLE,
    LONG,
    st.none() | REAL,
    REAL,
    st.sampled_from([None, "", "a", "1", "1e300", "("]),
    st.none() | st.booleans(),
)
STREAM = "CREATE STREAM U (a Int, l Long NOT NULL, x Double, y Double NOT NULL, s String, p Boolean);"


def extended(inner):
    numbers, conditions = inner
    pairs = st.tuples(numbers, numbers)
    more = st.one_of(
        st.tuples(numbers, st.sampled_from(["+", "-", "*", "/", "%"]), numbers).map("({0[0]} {0[1]} {0[2]})".format),
        numbers.map("(-{})".format),
        st.tuples(st.sampled_from(["abs", "ceil", "floor", "round", "sqrt", "ln", "exp"]), numbers).map(
            "{0[0]}({0[1]})".format
        ),
        st.tuples(numbers, st.sampled_from(["Int", "Long", "Double", "Float", "Byte"])).map("CAST({0[0]} AS {0[1]})".format),
        st.tuples(conditions, numbers, numbers).map("CASE WHEN {0[0]} THEN {0[1]} ELSE {0[2]} END".format),
        pairs.map("coalesce({0[0]}, {0[1]})".format),
    )
    tests = st.one_of(
        st.tuples(numbers, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), numbers).map("({0[0]} {0[1]} {0[2]})".format),
        st.tuples(numbers, st.sampled_from(["", "NOT"]), pairs).map("({0[0]} {0[1]} IN ({0[2][0]}, {0[2][1]}))".format),
        st.tuples(numbers, pairs).map("({0[0]} BETWEEN {0[1][0]} AND {0[1][1]})".format),
        conditions.map("(NOT {})".format),
        st.tuples(conditions, st.sampled_from(["AND", "OR"]), conditions).map("({0[0]} {0[1]} {0[2]})".format),
        st.tuples(st.one_of(numbers, conditions), st.sampled_from(["", "NOT"])).map("({0[0]} IS {0[1]} NULL)".format),
    )
    return more, tests


NUMBERS = st.sampled_from(
    [
        "a",
        "l",
        "x",
        "y",
        "0",
        "-1",
        "2.5",
        "NULL",
        "2147483647",
        "CAST(s AS Int)",
        "date_diff('day', from_epoch(l), from_epoch(0))",
    ]
)
CONDITIONS = st.sampled_from(
    ["p", "TRUE", "CAST(CAST(a AS Char) AS String) = s", "date_add('month', a, from_epoch(l)) IS NULL"]
)
for _ in range(3):
    more, tests = extended((NUMBERS, CONDITIONS))
    NUMBERS, CONDITIONS = NUMBERS | more, CONDITIONS | tests


@settings(max_examples=200, deadline=None)
@given(CONDITIONS, st.lists(ROWS, min_size=1, max_size=6))
def test_a_condition_is_true_false_or_unknown_wherever_it_stands(test, rows):
    script = compile_cql(STREAM)
    try:
        script.add(f"""SELECT {test} AS r FROM U INTO A;
            SELECT l FROM U WHERE {test} INTO B; SELECT l FROM U WHERE NOT {test} INTO C;
            SELECT l FROM U WHERE ({test}) IS NULL INTO D;
            SELECT CASE WHEN {test} THEN 1 WHEN NOT {test} THEN 2 ELSE 3 END AS r FROM U INTO E""")
    except QueryError:
        return  # Long and Double in one function, and the like
    events = [script.types["U"](*row, ts=n, id=n, source="s") for n, row in enumerate(rows)]
    selected, true, false, unknown, which = (
        {event.ts: event for event in operator.start("Q", 1).apply(Delta(list(events)), END, END).inserts}
        for operator in script.operators
    )
    for ts, event in selected.items():
        assert (ts in true, ts in false, ts in unknown) == (event.r is True, event.r is False, event.r is None)
        assert which[ts].r == {True: 1, False: 2, None: 3}[event.r]


def played(operator, moments, restarts):
    """The results of a history as texts; changes name what was published last, to the sign of a zero."""
    operation, published = operator.start("Q", 1), {}
    for number, moment in enumerate(moments):
        if number in restarts:
            state = pickle.loads(pickle.dumps(operation.snapshot()))
            operation = operator.start("Q", 1)
            operation.restore(state)
        out = operation.apply(Delta(list(moment.delta.inserts), [], list(moment.delta.retracts)), moment.emitted, moment.final)
        for event in out.retracts + [old for old, _ in out.revises]:
            assert published.pop(event.id) == repr(event)
        for event in out.inserts + [new for _, new in out.revises]:
            assert event.id not in published
            published[event.id] = repr(event)
    return sorted(published.values())


class Plain(Operator):
    """The same query, never run by the native core."""

    def __init__(self, plan):
        self.plan, self.subscribes, self.publishes = plan, (plan.source.event_type,), (plan.target.event_type,)

    def start(self, name, level):
        return WindowedOperation(self.plan, name, level)


AGGREGATES = [
    *(f"{name}(y)" for name in ("sum", "avg", "min", "max", "range", "stddev", "var_pop", "geomean", "median")),
    *(f"{name}(y)" for name in ("first", "last", "count_distinct", "approx_count_distinct", "max_count")),
    "argmin(l, y)", "argmax(a, x)", "quantile(y, 0.5)", "quantile(l, y)", "sum(x)", "avg(x)", "min(x)", "max_count(x)",
    "sum(l)", "avg(l)", "range(l)", "median(l)", "geomean(l)", "sum(a)", "median(a)", "count(*)", "min(s)",
]  # fmt: skip
WINDOWS = [
    "SIZE 3 seconds EVERY 1 seconds",
    "SIZE 5",
    "SIZE 3 EVERY 2",
    "SIZE 3 seconds EVERY 1",
    "SIZE 5 EVERY 1 seconds",
    "LANDMARK EVERY 2 seconds",
    "DELTA 1 ON y",
]


@settings(max_examples=140, deadline=None)
@given(
    st.sampled_from(WINDOWS),
    st.sampled_from(["", " PARTITIONED BY y", " PARTITIONED BY x"]),
    st.sampled_from(["", "GROUP BY y", "GROUP BY x", "GROUP BY s"]),
    st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(-4, 8), ROWS), max_size=14),
    st.integers(0, 2**32),
    st.sampled_from([0, 2, 128]),
    st.sampled_from([0, 256]),
)
def test_a_window_is_the_same_however_it_is_come_by(window, partition, group, aggregates, drawn, seed, small, purge):
    columns = ", ".join(f"{text} AS c{place}" for place, text in enumerate(aggregates))
    (operator,) = compile_cql(f"{STREAM} SELECT {columns} FROM U [{window}{partition}] {group} INTO R").operators
    make = operator.subscribes[0]
    events = [make(*row, ts=ts * SECOND, id=n, source="s") for n, (ts, row) in enumerate(drawn)]
    expected = played(operator, in_order(events), ())
    random = Random(seed)
    restarts = set(random.sample(range(8), 2))
    assert played(operator, history(events, random), restarts) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trees, "SMALL", small)
        patch.setattr(trees, "STEPS", 0)
        patch.setattr(windowed, "LEAST_PURGE", purge)
        patch.setattr(windowed, "PURGE_SHARE", purge)
        assert played(Plain(operator.plan), history(events, random), restarts) == expected


TESTS = {
    "a.y = b.y": lambda a, b: a.y == b.y,
    "a.x = b.y": lambda a, b: a.x == b.y,
    "a.x = b.x AND a.y = b.y": lambda a, b: None is not a.x == b.x and a.y == b.y,
    "a.l = b.y": lambda a, b: a.l == b.y,
    "NOT a.y < b.y": lambda a, b: not a.y < b.y,
    "a.a * a.a = b.l": lambda a, b: a.a is not None and a.a * a.a < 2**31 and a.a * a.a == b.l,
}


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(TESTS)), st.lists(ROWS, max_size=6), st.lists(ROWS, max_size=6))
def test_a_join_pairs_what_its_condition_says(test, left, right):
    second = STREAM.replace(" U ", " V ")
    columns = "a.ts AS one, b.ts AS other"
    windows = "FROM U AS a [SIZE 9 seconds EVERY 1] JOIN V AS b [SIZE 9 seconds EVERY 1]"
    script = compile_cql(f"{STREAM} {second} SELECT {columns} {windows} ON {test} INTO R")
    ones, others = (
        [script.types[name](*row, ts=n, id=n, source=name) for n, row in enumerate(rows)]
        for name, rows in (("U", left), ("V", right))
    )
    found = play(script.operators[0], in_order(ones + others))
    expected = [(a.ts, b.ts) for a in ones for b in others if TESTS[test](a, b)]
    assert sorted((event.one, event.other) for event in found) == sorted(expected)
