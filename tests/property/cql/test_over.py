"""Aggregates OVER the tuples before each one: any history comes to the definition, and to what DuckDB says."""

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detectors.cql import compile_cql
from detectors.cql.partitions import trees
from middleware.model.event import ORDER
from middleware.model.time import SECOND
from middleware.testing.operators import history, play
from tests.property.cql.test_duckdb import duck
from tests.property.cql.test_duckdb import events as duck_ticks
from tests.property.cql.test_relations import HISTORY, played, ticks

FRAMES = {
    "ROWS BETWEEN {} PRECEDING AND CURRENT ROW": True,
    "RANGE BETWEEN INTERVAL '{}' SECONDS PRECEDING AND CURRENT ROW": False,
    "ROWS UNBOUNDED PRECEDING": True,
    "": False,
}


pytestmark = pytest.mark.usefixtures("purging", "looking_up")


@pytest.fixture(params=[128, 0], ids=["fold", "look up"])
def looking_up(request, monkeypatch):
    """Folding small windows, or looking all windows up in trees."""
    monkeypatch.setattr(trees, "SMALL", request.param)
    monkeypatch.setattr(trees, "STEPS", request.param // 4)


def frame_of(ordered, place, is_rows, amount):
    """The content of the frame of one of the ordered events, by definition."""
    event = ordered[place]
    if is_rows:
        return ordered[0 if amount is None else max(0, place - amount) : place + 1]
    return [e for e in ordered if e.ts <= event.ts and (amount is None or e.ts >= event.ts - amount * SECOND)]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(list(FRAMES)), st.integers(0, 5), st.booleans(), *HISTORY.values())
def test_over_comes_to_its_definition(text, amount, partitioned, drawn, others, seed, restarts):
    partition = "PARTITION BY symbol" if partitioned else ""
    over = f"OVER ({partition} ORDER BY ts {text.format(amount)})"
    query = f"""SELECT symbol, quantity, sum(quantity) {over} AS total, count(*) {over} AS n, max(price) {over} - 1 AS top
                FROM Tick WHERE quantity > -2 INTO Out"""
    events = ticks(drawn)
    operators = compile_cql(query, [ticks([("A", 0.0, 0, 0, "x")])[0].__class__]).operators
    found = played(operators, events, seed, ticks(others, 1000), restarts)
    expected = []
    kept = sorted([event for event in events if event.quantity > -2], key=ORDER)
    for symbol in {event.symbol for event in kept} if partitioned else {None}:
        ordered = [event for event in kept if not partitioned or event.symbol == symbol]
        for place, event in enumerate(ordered):
            frame = frame_of(ordered, place, FRAMES[text], amount if "{}" in text else None)
            prices = [each.price for each in frame if each.price is not None]
            top = max(prices) - 1 if prices else None
            expected.append((event.ts, event.symbol, event.quantity, sum(e.quantity for e in frame), len(frame), top))
    assert sorted(map(repr, expected)) == sorted(repr((e.ts, e.symbol, e.quantity, e.total, e.n, e.top)) for e in found)


DRAWN = st.lists(
    st.tuples(
        st.sampled_from(["IBM", "GE"]),
        st.none() | st.integers(-40, 40).map(float),
        st.integers(-9, 9),
        st.none(),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=15,
)
QUERIES = [
    "lag(price) OVER (PARTITION BY symbol ORDER BY ts{more}) AS a, "
    "lag(quantity, 2) OVER (PARTITION BY symbol ORDER BY ts{more}) AS b",
    "row_number() OVER (PARTITION BY symbol ORDER BY ts{more}) AS a, quantity * 2 AS b",
    "first_value(price) OVER (PARTITION BY symbol ORDER BY ts{more} ROWS 2 PRECEDING) AS a, "
    "avg(quantity) OVER (PARTITION BY symbol ORDER BY ts{more} ROWS 2 PRECEDING) AS b",
]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(QUERIES), DRAWN, st.integers(0, 2**32))
def test_places_are_those_of_duckdb(columns, drawn, seed):
    """With the total order written out (ts, id), which ORDER BY ts stands for here."""
    made = duck_ticks(drawn)
    operators = compile_cql(f"SELECT quantity, {columns.format(more='')} FROM Tick INTO Out", [made[0].__class__]).operators
    found = play(operators[0], history(made, Random(seed)))
    expected = duck(made, f"SELECT ts, quantity, {columns.format(more=', id')} FROM Tick")
    near = lambda row: tuple(round(each, 6) if isinstance(each, float) else each for each in row)  # noqa: E731
    assert sorted(repr(near((e.ts // SECOND, e.quantity, e.a, e.b))) for e in found) == sorted(
        repr(near(row)) for row in expected
    )
