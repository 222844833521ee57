"""Values at the edges (NaN, infinities, overflow, the end of the calendar): none stops a query, and all parts agree on it."""

import math
import pickle

import pytest

from detectors.cql import compile_cql
from detectors.cql.partitions import trees
from detectors.cql.query_operators.windowed import WindowedOperation
from detectors.language.value_types import Type
from middleware.model.change import Delta
from middleware.model.errors import last_line
from middleware.model.event import END
from tests.unit.cql.test_queries import value

INF, NAN = math.inf, math.nan
STREAM = """CREATE STREAM A (x Double NOT NULL, y Double NOT NULL, n Int NOT NULL, l Long NOT NULL, d Datetime NOT NULL,
                             c Char, k String);"""
DOUBLE, INT, LONG, DATETIME = Type.DOUBLE, Type.INT, Type.LONG, Type.DATETIME


@pytest.mark.parametrize(
    ("text", "given", "expected"),
    [
        ("CAST(v AS Int)", (DOUBLE, INF), None), ("CAST(v AS Long)", (DOUBLE, NAN), None), ("ceil(v)", (DOUBLE, 1e300), None),
        ("CAST(v AS Int)", (DOUBLE, -1.9), -1), ("CAST(v AS Char)", (INT, 0xD800), None), ("v IN (v, 1)", (DOUBLE, NAN), False),
        ("CAST(v AS Char)", (INT, 0xE000), "\ue000"), ("CAST(v AS Char)", (INT, 2**16), None),
        ("v IN (1, 2)", (DOUBLE, 2.0), True),
        ("floor(v)", (DOUBLE, INF), None), ("round(v)", (DOUBLE, INF), INF), ("ceil(v)", (DOUBLE, 1.5), 2),
        ("date_add('month', 1, v)", (DATETIME, 253_400_000_000 - 86400 * 30), 253_400_000_000),
        ("date_add('month', 2, v)", (DATETIME, 253_400_000_000), None),
        ("date_add('year', 1, v)", (DATETIME, 1_709_164_800), 1_740_700_800),
        ("date_format(v, 'YYYY\0%MM')", (DATETIME, 0), "1970\0%01"),
        ("v * v / 1", (INT, 2**31 - 1), None), ("-(v * v)", (INT, 2**31 - 1), None), ("v * v | 0", (INT, 2**31 - 1), None),
        ("v / -1", (INT, -(2**31)), None), ("v * v > 0", (INT, 2**31 - 1), None), ("NOT v * v > 0", (INT, 2**31 - 1), None),
        ("v * v IN (4611686014132420609, 2)", (INT, 2**31 - 1), None), ("1 IN (v * v, 2)", (INT, 2**31 - 1), None),
        ("v * v BETWEEN 0 AND 9", (INT, 3), True), ("v + v IS NULL", (LONG, 2**62), True),
        ("v IN (v, NULL)", (DOUBLE, NAN), None),
        ("v IN ('b', 65)", (Type.CHAR, "A"), True), ("v NOT IN ('b', 65)", (Type.CHAR, "A"), False),
        ("v NOT IN ('b', 65)", (Type.CHAR, "B"), True), ("v IN (65, 'b')", (Type.CHAR, "b"), True),
        ("v IN (1e308 * 10 - 1e308 * 10, 1)", (DOUBLE, NAN), False),
        ("v NOT IN (1.0, 2.0)", (DOUBLE, NAN), True), ("CAST(v AS Char)", (INT, 0xDFFF), None),
    ],
)  # fmt: skip
def test_expressions(text, given, expected):
    found = value(text, v=given)
    assert found == expected
    assert type(found) is type(expected)


def queries(text):
    script = compile_cql(STREAM + text)
    return script.operators, script.types["A"]


def tuples(make, values, field="x"):
    names = {"x": 0.0, "y": 0.0, "n": 0, "l": 0, "d": 0, "c": None, "k": None}
    return [make(**(names | {field: v}), ts=n + 1, id=n, source="s") for n, v in enumerate(values)]


def results(operator, events, operation=None):
    running = operation or operator.start("R", 1)
    return running.apply(Delta(events), END, END).inserts


TESTS = ("x < 1.0", "x >= 1", "x = x", "x <> x", "x BETWEEN 0 AND 2", "x IN (x, 1)", "n * n > 0", "n + n = 5")


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("negated", ["", "NOT "])
def test_what_a_select_says_is_what_a_where_does(test, negated):
    operators, make = queries(f"SELECT {negated}({test}) AS r FROM A INTO R; SELECT x FROM A WHERE {negated}({test}) INTO S")
    for field, values in (("x", [NAN, 0.5, 1.0, INF, -INF]), ("n", [2**31 - 1, -(2**31), 3])):
        for event in tuples(make, values, field):
            (selected,), done = results(operators[0], [event]), results(operators[1], [event])
            assert (selected.r is True) == bool(done), event


NAMES = ("min(x)", "max(x)", "range(x)", "count_distinct(x)", "max_count(x)", "median(x)", "quantile(x, 0.5)", "geomean(x)")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([2.0, NAN, 1.0], (NAN, NAN, NAN, 3, 1, NAN, NAN, NAN)),
        ([NAN, float("nan"), 1.0], (NAN, NAN, NAN, 2, 2, NAN, NAN, NAN)),
        ([NAN, -1.0], (NAN, NAN, NAN, 2, 1, NAN, NAN, None)),
        ([-1.0, NAN, 0.0], (NAN, NAN, NAN, 3, 1, NAN, NAN, None)),
        ([INF, -INF, 0.0], (-INF, INF, INF, 3, 1, 0, 0, None)),
        ([1.7e308, 1.7e308], (1.7e308, 1.7e308, 0.0, 1, 2, 1.7e308, 1.7e308, 1.7e308)),
    ],
)
def test_a_nan_in_a_window_wins_and_is_one_value(values, expected):
    columns = ", ".join(f"{text} AS c{place}" for place, text in enumerate(NAMES))
    (operator,), make = queries(f"SELECT {columns} FROM A [SIZE 10 seconds] INTO R")
    (result,) = results(operator, tuples(make, values))
    for place, each in enumerate(expected):
        found = getattr(result, f"c{place}")
        assert found is each is None or found == pytest.approx(each, rel=1e-12, nan_ok=True), NAMES[place]


@pytest.mark.parametrize("least", [0, 128])
@pytest.mark.parametrize("values", [[2.0, NAN, 1.0], [NAN, 2.0], [1.0, NAN], [INF, NAN], [0.0, -0.0], [-0.0, 0.0]])
def test_folded_from_trees_or_native_they_are_the_same(monkeypatch, values, least):
    (operator,), make = queries("SELECT min(x) AS a, max(x) AS b, range(x) AS c, sum(x) AS d FROM A [SIZE 10 seconds] INTO R")
    monkeypatch.setattr(trees, "SMALL", least)
    events = tuples(make, values)
    assert repr(results(operator, events)) == repr(results(operator, events, WindowedOperation(operator.plan, "R", 1)))


def test_the_greatest_argument_is_that_of_the_first_nan():
    (operator,), make = queries("SELECT argmin(ts, x) AS a, argmax(ts, x) AS b FROM A [SIZE 10 seconds] INTO R")
    for values in ([1.0, NAN, 0.0, NAN, 2.0], [3.0, NAN]):
        (result,) = results(operator, tuples(make, values))
        assert (result.a, result.b) == (2, 2)


def test_a_restart_does_not_change_what_is_distinct():
    (operator,), make = queries("SELECT count_distinct(x) AS c, max_count(x) AS m FROM A [SIZE 10] INTO R")
    events = tuples(make, [NAN] * 10)
    one, two = operator.start("R", 1), operator.start("R", 1)
    one.apply(Delta(events[:9]), 9, 0)
    two.restore(pickle.loads(pickle.dumps(one.snapshot())))
    for each in (one, two):
        (result,) = each.apply(Delta(events[9:]), 99, 0).inserts
        assert (result.c, result.m) == (1, 10)


@pytest.mark.parametrize("field", ["n", "l"])
def test_a_median_is_a_double(field):
    (operator,), make = queries(f"SELECT median({field}) AS m, range({field}) AS r FROM A [SIZE 10 seconds] INTO R")
    (result,) = results(operator, tuples(make, [3, 9, 5], field))
    assert (repr(result.m), result.r) == ("5.0", 6)


def test_a_range_that_no_long_can_hold_is_null():
    (operator,), make = queries("SELECT range(l) AS r FROM A [SIZE 10 seconds] INTO R")
    assert [result.r for result in results(operator, tuples(make, [-(2**63), 2**63 - 1], "l"))] == [None]


@pytest.mark.parametrize("how", ["GROUP BY x", "PARTITIONED BY x"])
@pytest.mark.parametrize("odd", [2.0**63, 1e20, -1e300, INF, NAN])
def test_any_double_can_be_a_group(how, odd):
    inside, behind = ("", how) if how.startswith("GROUP") else (f" {how}", "")
    (operator,), make = queries(f"SELECT x, count(*) AS n FROM A [SIZE 1 seconds{inside}] {behind} INTO R")
    found = results(operator, tuples(make, [1.5, odd, 2.5, odd]))
    assert sorted(result.n for result in found) == [1, 1, 2]


BOTH = """CREATE STREAM L (x Double NOT NULL, z Float, c Char, k String);
          CREATE STREAM R (x Double NOT NULL, l Long, c Char, k String);"""


@pytest.mark.parametrize("every", ["EVERY 1", "EVERY 1 seconds"])
@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("a.x = b.x", [(1.0, 1.0)]), ("a.z = b.x", []), ("a.x = b.l", [(1.0, 1.0)]), ("a.x = b.x AND a.k = b.k", [(1.0, 1.0)]),
        ("a.c = b.k", [(1.0, 1.0)]), ("a.k = b.c", [(1.0, 1.0)]), ("a.c = b.l", []),
    ],
)  # fmt: skip
def test_a_join_pairs_what_is_equal(test, expected, every):
    window = f"[SIZE 1 seconds {every}]"
    script = compile_cql(f"{BOTH} SELECT a.x AS x, b.x AS y FROM L AS a {window} JOIN R AS b {window} ON {test} INTO O")
    left, right = script.types["L"], script.types["R"]
    events = [
        left(NAN, NAN, "longer", "s", ts=1, id=1, source="l"), left(1.0, NAN, "k", "k", ts=1, id=2, source="l"),
        right(NAN, None, None, None, ts=2, id=1, source="r"), right(1.0, 1, "k", "k", ts=2, id=2, source="r"),
        left(2.0, None, "", None, ts=3, id=3, source="l"), right(3.0, 5, "", "x", ts=3, id=3, source="r"),
    ]  # fmt: skip
    assert sorted((event.x, event.y) for event in results(script.operators[0], events)) == expected


@pytest.mark.parametrize("whole", [2**53, 9 * 10**18, 2**63 - 1024, 2**63 - 1, -(2**63)])
def test_whole_numbers_and_doubles_meet_to_the_end_of_64_bits(whole):
    window = "[SIZE 1 seconds EVERY 1]"
    script = compile_cql(f"{BOTH} SELECT a.x AS x, b.l AS l FROM L AS a {window} JOIN R AS b {window} ON a.x = b.l INTO O")
    left, right = script.types["L"], script.types["R"]
    events = [
        left(float(whole), None, None, None, ts=1, id=1, source="l"), right(0.0, whole, None, None, ts=2, id=1, source="r"),
    ]  # fmt: skip
    assert len(results(script.operators[0], events)) == (float(whole) == whole)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT x FROM A INTO R",
        "SELECT max(x) AS x FROM A [SIZE 1 seconds] INTO R",
        "SELECT sum(x) AS x, first(y) AS y FROM A [SIZE 1 seconds] INTO R",
        "SELECT x FROM A [SIZE 1 seconds] INTO R",
        "SELECT a.x AS x FROM A AS a [SIZE 1 seconds EVERY 1] JOIN A AS b [SIZE 1 seconds EVERY 1] ON a.y = b.y INTO R",
    ],
)
@pytest.mark.parametrize("number", [NAN, math.inf])
def test_what_is_no_number_is_not_revised_into_itself(text, number):
    (operator,), make = queries(text)
    operation = operator.start("R", 1)
    second, rest = 10**9, {"y": 0.0, "l": 0, "d": 0, "c": None, "k": None, "ts": 1, "id": 1, "source": "s"}
    old, new = (make(x=number + 0, n=n, **rest) for n in (1, 2))  # each with a number of its own, as from the network
    assert operation.apply(Delta([old]), 2 * second, 0).inserts
    assert not operation.apply(Delta([new], [], [old]), 2 * second, 0)


def test_what_is_not_of_its_type_is_quarantined_alone_with_where_it_failed():
    (operator,), make = queries("SELECT sum(x) AS x, count(*) AS n FROM A [SIZE 1 seconds] GROUP BY k INTO R")
    operation = operator.start("R", 1)
    names = {"y": 0.0, "n": 0, "l": 0, "d": 0, "c": None}
    good, text, key = (
        make(**names, x=x, k=k, ts=number, id=number, source="s")
        for number, (x, k) in enumerate([(1.5, "a"), ("1.5", "a"), (1.5, ["a"])], 1)
    )
    operation.apply(Delta([good, text, key]), 5, 0)
    restored = operator.start("R", 1)
    restored.restore(pickle.loads(pickle.dumps(operation.snapshot())))
    for each in (operation, restored):
        assert [event for event, _ in each.failures.values()] == [text, key]
        failures = [failure for _, failure in each.failures.values()]
        assert failures[0].startswith("TypeError: ") and failures[1].startswith("Traceback (most recent call last):\n")
        assert "cannot be a key" in last_line(failures[1])
        assert not each.apply(Delta([], [], [text]), 5, 0)
        assert [event for event, _ in each.failures.values()] == [key]
        (result,) = each.apply(Delta(), END, END).inserts
        assert (result.x, result.n) == (1.5, 1)
        assert [event for event, _ in each.failed(END)] == [key]


@pytest.mark.parametrize("window", ["SIZE 1 seconds EVERY 1 seconds", "SIZE 1 EVERY 1"])
def test_half_a_character_in_a_group_costs_its_own_tuples_only(window):
    """Such a text has no bytes, so nothing it stands for can have an identity."""
    (query,), make = queries(f"SELECT k, count(*) AS n FROM A [{window}] GROUP BY k INTO B")
    for operation in (query.start("Q", 1), WindowedOperation(query.plan, "Q", 1)):
        given = tuples(make, ["a", "\ud800", "b", "\ud800"], "k")
        out = operation.apply(Delta(given), 4, 0)
        out.inserts.extend(operation.apply(Delta(retracts=given[3:]), END, 4).inserts)
        assert [each.k for each in out.inserts] == ["a", "b"]
        ((event, failure),) = operation.failed(END)
        assert (event.id, event.k) == (given[1].id, repr(given[1].k)), "in a form that can be listed"
        assert "surrogates" in last_line(failure)
