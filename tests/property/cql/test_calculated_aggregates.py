"""Aggregates of whatever can be calculated: each starts, and gives what SQL's meaning of NULL says, worked out by hand here."""

import math
import statistics
from random import Random

import pytest

from detectors.cql import compile_cql
from detectors.cql.cql_script import Script
from detectors.language.query_errors import QueryError
from middleware.model.time import SECOND
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import Lateness
from middleware.runtime.engine import run

TYPES = ["Short", "Int", "Long", "Float", "Double"]
EXPRESSIONS = {
    "x": lambda x, y: x,
    "-x": lambda x, y: None if x is None else -x,
    "x * 2": lambda x, y: None if x is None else x * 2,
    "x - y": lambda x, y: None if x is None or y is None else x - y,
    "CASE WHEN x > y THEN abs(x) + 1 END": lambda x, y: abs(x) + 1 if x is not None and y is not None and x > y else None,
}

PATIENT = Policies(alpha=0.0, lateness=Lateness(floor=20 * SECOND))


def spread(values, free):
    return None if len(values) <= free else sum((v - statistics.fmean(values)) ** 2 for v in values) / (len(values) - free)


def among(values):
    """NULL of nothing."""
    return lambda fold: fold(values) if values else None


AGGREGATES = {
    "sum({})": lambda v: among(v)(sum),
    "avg({})": lambda v: among(v)(statistics.fmean),
    "min({})": lambda v: among(v)(min),
    "max({})": lambda v: among(v)(max),
    "range({})": lambda v: max(v) - min(v) if v else None,
    "count({})": len,
    "count_distinct({})": lambda v: len(set(v)),
    "max_count({})": lambda v: v.count(max(v)) if v else 0,
    "variance({})": lambda v: spread(v, 1),
    "var_pop({})": lambda v: spread(v, 0),
    "stddev({})": lambda v: None if spread(v, 1) is None else math.sqrt(spread(v, 1)),
    "median({})": lambda v: among(v)(statistics.median),
    "first({})": lambda v: v[0] if v else None,
    "last({})": lambda v: v[-1] if v else None,
}
PAIRS = {
    "argmin({}, y * 3)": lambda p: min(p, key=lambda pair: pair[1] * 3)[0] if p else None,
    "argmax({}, -y)": lambda p: max(p, key=lambda pair: -pair[1])[0] if p else None,
    "quantile({}, 0.25 + y * 0)": lambda p: sorted(v for v, _ in p)[max(0, math.ceil(len(p) / 4) - 1)] if p else None,
}


def close(one, other) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)


def ticks(kind, is_real: bool, nullable: bool, count: int, random: Random):
    def value():
        if nullable and random.random() < 0.3:
            return None
        number = random.randrange(-20, 21)
        return number / 4 if is_real else number

    times = sorted(random.randrange(1, 10 * SECOND) for _ in range(count))
    return [kind(value(), value(), ts=ts, id=number, source="s") for number, ts in enumerate(times)]


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.parametrize("nullable", [False, True], ids=["not_null", "nullable"])
def test_every_aggregate_of_every_expression(kind, expression, nullable):
    """All in one script of 17 queries; windows of one tuple, of few, and of more than are folded one by one."""
    null = "" if nullable else " NOT NULL"
    asked = {text.format(expression): (fold, False) for text, fold in AGGREGATES.items()}
    asked |= {text.format(expression): (fold, True) for text, fold in PAIRS.items()}
    selects = [f"SELECT {text} AS a FROM T [SIZE 10 ON ts] INTO Q{number}" for number, text in enumerate(asked)]
    script = compile_cql(f"CREATE STREAM T (x {kind}{null}, y {kind}{null}); {'; '.join(selects)}")
    random = Random(f"{kind} {expression} {nullable}")
    for count in (1, 7, 150):
        events = ticks(script.types["T"], kind in ("Float", "Double"), nullable, count, random)
        pairs = [(EXPRESSIONS[expression](event.x, event.y), event.y) for event in events]
        values = [value for value, _ in pairs if value is not None]
        both = [pair for pair in pairs if pair[0] is not None and pair[1] is not None]
        arrived = sorted(events, key=lambda event: event.ts + random.randrange(2 * SECOND))
        finals = run(arrived, script.operators, batch=16, policies=PATIENT).finals
        for number, (text, (fold, is_pair)) in enumerate(asked.items()):
            (result,) = finals[f"Q{number}"]
            assert close(result.a, fold(both if is_pair else values)), text


GROUPED = "SELECT symbol, sum(x * 2) AS a, argmax(-x, x + 1) AS b FROM T [SIZE 10 ON ts PARTITIONED BY symbol] INTO Q"


@pytest.mark.parametrize(
    "select",
    [
        GROUPED,
        GROUPED.replace(" PARTITIONED BY symbol]", "] GROUP BY symbol"),
        GROUPED.replace("10 ON ts", "3"),
        "SELECT sum(x + y) AS a, avg(-x) AS b, count(CASE WHEN x > 1 THEN x END) AS c FROM T [LANDMARK EVERY 5 ON ts] INTO Q",
        "SELECT last(-x) - first(-x) AS a FROM T [SIZE 10 ON ts] WHERE x * 2 > y INTO Q",
    ],
)
def test_what_compiles_starts(select):
    script = compile_cql(f"CREATE STREAM T (symbol String, x Int, y Int); {select}")
    for operator in script.operators:
        operator.start(operator.name, 1)


def test_what_cannot_be_started_is_refused_where_it_stands(monkeypatch):
    def start(self, name, level):
        raise SyntaxError("made on purpose")

    monkeypatch.setattr("detectors.cql.query_operators.windowed.WindowedOperator.start", start)
    script = Script()
    script.add("CREATE STREAM T (x Int)")
    with pytest.raises(QueryError, match=r"(?s)line 1, column 8: this cannot be run \(SyntaxError: made on purpose\).*\^"):
        script.add("SELECT sum(x) AS a FROM T [SIZE 10 ON ts] INTO Q")
    assert not script.operators and "Q" not in script.types
