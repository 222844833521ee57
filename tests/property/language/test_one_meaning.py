"""One expression language: FlinkCQL and sequence queries, in either core, give what the expression means, node by node."""

import math
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from detectors.cql import compile_cql
from detectors.language import parse_expression
from detectors.sequence import SequenceQuery
from detectors.sequence.grammar.sequence_parser import parse
from detectors.sequence.sequence_operator import SequenceOperation
from middleware.model.change import Delta
from middleware.model.event import END
from middleware.model.operator import Origin
from tests.oracles.sequence_runs import plain_sequence
from tests.property.language.expressions import TYPES, Drawn, T, rows
from tests.property.language.meaning import Meaning

KINDS = ["Long", "Double", "String", "Boolean"]


def same(one, other) -> bool:
    if one is None or other is None or isinstance(one, str | bool):
        return one is other or one == other
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return one == other and math.copysign(1, one) == math.copysign(1, other)


def by_sequence(text, events, studied):
    operation = SequenceOperation(SequenceQuery(text, [T]).plan, Origin("Tested", 1), studied)
    return operation.apply(Delta(list(events)), END, 0).inserts


@given(st.integers(0, 2**64), st.integers(1, 4))
@example(12588, 4)  # round(9007199254740989.0)
@settings(max_examples=200, deadline=None)
def test_both_engines_give_what_the_oracle_gives(seed, depth):
    random = Random(seed)
    drawn = Drawn(random)
    values = [drawn.of(kind, depth) for kind in KINDS]
    where = drawn.of("Boolean", depth)
    events = rows(random, 12)
    meanings = {event.ts: Meaning({name: getattr(event, name) for name in TYPES}, TYPES) for event in events}
    expected = {ts: [each.of(value) for value in values] for ts, each in meanings.items() if each.of(where) is True}
    items = ", ".join(f"{value} AS v{place}" for place, value in enumerate(values))
    (mapping,) = compile_cql(f"SELECT {items} FROM T AS t WHERE {where} INTO Q", [T]).operators
    found = {"FlinkCQL": mapping.start("Q", 1).apply(Delta(list(events)), END, 0).inserts}
    for studied in (plain_sequence, None):
        found[f"sequence, {studied}"] = by_sequence(f"EVENT T t WHERE {where} RETURN Q({items})", events, studied)
    for engine, results in found.items():
        assert {each.ts for each in results} == expected.keys(), (engine, str(where))
        for each in results:
            for place, value in enumerate(values):
                assert same(getattr(each, f"v{place}"), expected[each.ts][place]), (engine, str(value), meanings[each.ts].row)


@given(st.integers(0, 2**64), st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_conditions_on_pairs_mean_the_same_in_both_cores(seed, depth):
    """Where the native core decides by itself, and where it asks."""
    random = Random(seed)
    drawn = Drawn(random)
    one, other = (drawn.of("Boolean", depth) for _ in range(2))
    joined = f"(({one}) OR ({str(other).replace('t.', 'u.')})) AND t.x <> u.x"
    events = rows(random, 8)
    text = f"EVENT SEQ(T t, T u) WHERE {joined} WITHIN 9 ns RETURN P(t.id AS one, u.id AS other)"
    results = [
        sorted((each.one, each.other) for each in by_sequence(text, events, studied)) for studied in (plain_sequence, None)
    ]
    meanings = {event.id: Meaning({name: getattr(event, name) for name in TYPES}, TYPES) for event in events}
    expected = [
        (first, second)
        for first in meanings
        for second in range(first + 1, len(events))
        if (meanings[first].of(one) or meanings[second].of(other)) and meanings[first].row["x"] != meanings[second].row["x"]
    ]
    assert results == [expected, expected], joined


@given(st.integers(0, 2**64), st.sampled_from(KINDS), st.integers(0, 5))
@settings(max_examples=100, deadline=None)
def test_an_expression_written_out_reads_as_itself(seed, kind, depth):
    tree = Drawn(Random(seed)).of(kind, depth)
    assert parse_expression(str(tree)) == tree
    query = parse(f"EVENT T t WHERE {tree}")
    assert str(query.where) == str(tree) and parse(str(query)) == query


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("7 / 2", 3), ("-7 / 2", -3), ("-7 % 3", -1), ("7 / 2.0", 3.5), ("round(2.5)", 3.0), ("round(-2.5)", -3.0),
        ("round(2.345, 2)", 2.35), ("1 / 0", None), ("x * x", None), ("x + 1 - 1", 2**62), ("NULL = NULL", None),
        ("w / w", None), ("w = w", False), ("w <> w", True), ("coalesce(y, 3)", 3), ("'a\\_b' LIKE 'a\\\\\\_b'", True),
        ("'axb' LIKE 'a\\_b'", False), ("NOT w < 1", True), ("NULL OR TRUE", True), ("2 IN (1, NULL)", None),
    ],
)  # fmt: skip
def test_examples(expression, value):
    """What the decision page says changed for sequence queries."""
    event = T(2**62, None, math.nan, None, None, None, ts=1, id=1, source="s")
    typed = f"CASE WHEN {expression} THEN TRUE WHEN NOT ({expression}) THEN FALSE END"
    text = typed if type(value) is bool or "NULL" in expression else expression
    (mapping,) = compile_cql(f"SELECT {text} AS v FROM T AS t INTO Q", [T]).operators
    (by_cql,) = mapping.start("Q", 1).apply(Delta([event]), END, 0).inserts
    in_sequence = text
    for name in ("x", "y", "w"):
        in_sequence = " ".join(f"t.{name}" if word == name else word for word in in_sequence.split(" "))
    in_sequence = in_sequence.replace("(y,", "(t.y,").replace("(w ", "(t.w ").replace(" w)", " t.w)")
    (by_query,) = by_sequence(f"EVENT T t RETURN Q({in_sequence} AS v)", [event], None)
    assert same(by_cql.v, value) and same(by_query.v, value), (by_cql, by_query)


@pytest.mark.parametrize("where", ["t.w / t.v > 3.2", "t.x <> t.y", "NOT t.x = t.y"])
def test_values_that_types_forbid_mean_the_same_in_both_cores(where):
    """Whole numbers in fields for floats, and None in one for whole numbers."""
    event = T(None, 2, 7, 2, None, None, ts=1, id=1, source="s")
    for studied in (plain_sequence, None):
        assert len(by_sequence(f"EVENT T t WHERE {where} RETURN Q(t.id AS v)", [event], studied)) == 1
