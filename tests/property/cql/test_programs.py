"""Filters over columns, in the core, give what they give row by row: the same results, or none."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.cql.cql_script import compile_cql
from detectors.cql.query_operators.tuple_operator import MappingOperation
from middleware.model.block.block import Block
from middleware.model.change import Delta
from middleware.model.event import END, Event


class Item(Event):
    a: int
    b: int | None
    x: float
    y: float | None
    t: str
    u: str | None
    p: bool
    q: bool | None


TESTS = [
    "a > 2",
    "b <= a",
    "x < 1.5 AND y > x",
    "a = 3 OR b = 3 OR y = 3",
    "t = 'a' AND u <> 'b'",
    "u IS NULL OR p",
    "NOT p AND NOT (q)",
    "q",
    "b IS NOT NULL AND b * 2 - a < 7",
    "a + 1 > 9223372036854775807",
    "x / a > 0.5 AND a / b < 2",
    "-a < -x",
    "y BETWEEN 0 AND 2",
    "(CASE WHEN p THEN a ELSE b END) > 1",
    "a > x",
    "t < 'b'",
    "p = q",
]
FIELDS = [
    "a AS f",
    "b AS f",
    "y AS f",
    "t AS f",
    "u AS f",
    "q AS f",
    "a * b AS f",
    "a + 9223372036854775000 AS f",
    "a / b AS f",
    "x - y AS f",
    "CASE WHEN x > 1 THEN a ELSE b END AS f",
    "CASE WHEN q THEN y END AS f",
    "7 AS f",
    "p AND x > 0 AS f",
    "-y AS f",
    "ts - a AS f",
]
CASES = [(test, FIELDS[at % len(FIELDS)]) for at, test in enumerate(TESTS)] + [
    (TESTS[at % 4], f) for at, f in enumerate(FIELDS)
]

WHOLES = st.sampled_from([0, 1, 2, 3, -7, 2**53 + 1, 2**62, -(2**63), 2**63 - 1]) | st.integers(-4, 4)
REALS = st.sampled_from([0.0, -0.0, 1.5, 3.0, 1e308, float("inf"), float("nan"), 2.0**53]) | st.floats(-4, 4)
TEXTS = st.sampled_from(["", "a", "b", "ä", "\U0001f600"])
ITEMS = st.tuples(
    *(WHOLES, st.none() | WHOLES, REALS, st.none() | REALS, TEXTS, st.none() | TEXTS, st.booleans(), st.none() | st.booleans()),
    st.integers(1, 9),
)


def operation(test: str, field: str) -> MappingOperation:
    """The operation of a query, as rows and columns are given to it."""
    started = compile_cql(f"SELECT a, {field} FROM Item WHERE {test} INTO Out", [Item]).operators[0].start("Q", 1)
    assert isinstance(started, MappingOperation)
    return started


def batches(events: list[Event], encode: bool) -> Iterator[Block]:
    """The events in columns: from the first row on, and from a later one, where bits of a byte belong to rows before."""
    whole = Block.from_events(Item, events).batch
    if encode:
        at = whole.schema.get_field_index("source")
        whole = whole.set_column(at, "source", whole.column("source").dictionary_encode())
    yield Block(Item, whole)
    yield Block(Item, pa.concat_batches([whole] * 2).slice(3, len(events)))
    yield Block(Item, whole.slice(len(events)))


def shown(events: list[Event]) -> list[str]:
    return [repr(event) for event in sorted(events, key=lambda event: event.ts)]


@pytest.mark.parametrize(("test", "field"), CASES)
@settings(max_examples=8, deadline=None)
@given(rows=st.lists(ITEMS, min_size=3, max_size=20), encode=st.booleans())
def test_columns_give_what_rows_give(test: str, field: str, rows: list[tuple[object, ...]], encode: bool) -> None:
    events = [Item(*row[:-1], ts=row[-1], id=at, source="xy"[at % 2]) for at, row in enumerate(rows)]  # type: ignore[arg-type]
    started = operation(test, field)
    by_row = operation(test, field)
    expected = [shown(by_row.apply(Delta(columns.events()), END, END).inserts) for columns in batches(events, encode)]
    results = [started.apply(Delta(each), END, END) for each in batches(events, encode)]
    assert [shown(each.inserts) for each in results] == expected
    for each in results:
        if each.columns is not None and each.columns.in_time:
            assert (each.columns.times[1:] >= each.columns.times[:-1]).all()


@pytest.mark.parametrize(("test", "field"), CASES)
def test_the_core_runs_them(test: str, field: str) -> None:
    items = [Item(at, 2, 1.0, 0.5, "a", "a", True, False, ts=9 - at, id=at, source="x") for at in range(1, 4)]
    small = field.replace("9223372036854775000", "922337203685477")
    if "a / b" in test + field:
        pytest.skip("whole numbers are divided by a function")
    out = operation(test, small).apply(Delta(Block(Item, Block.from_events(Item, items).batch)), END, END)
    assert out.columns is not None
    assert out.columns.in_time
    assert out.columns.core_block is not None
    assert len(out.columns) == len(out.columns.batch) == len(out.inserts)
    assert Block(out.columns.event_type, out.columns.batch).events() == out.inserts
