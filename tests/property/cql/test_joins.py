"""Joins over any history come to the pairs of their definition."""

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detectors.cql import compile_cql
from middleware.model.event import Event
from middleware.model.time import SECOND
from middleware.testing.operators import history, in_order, play


class Order(Event):
    symbol: str
    quantity: int


class Quote(Event):
    symbol: str | None
    price: float


ORDERS = st.lists(st.tuples(st.sampled_from("AB"), st.integers(0, 5), st.integers(0, 20)), max_size=12)
QUOTES = st.lists(st.tuples(st.sampled_from(["A", "B", None]), st.integers(0, 5).map(float), st.integers(0, 20)), max_size=12)


def events(orders, quotes, first=0):
    made = [Order(s, q, ts=t * SECOND, id=n, source="o") for n, (s, q, t) in enumerate(orders, first)]
    return made + [Quote(s, p, ts=t * SECOND, id=n, source="q") for n, (s, p, t) in enumerate(quotes, first)]


def pairs(kept, condition, sizes, slide):
    """(ts, symbol, quantity, price) of each pair of each window, by definition; slide None: EVERY 1."""
    left, right = sizes
    found = []
    for a in [e for e in kept if isinstance(e, Order)]:
        for b in [e for e in kept if isinstance(e, Quote)]:
            if not condition(a, b):
                continue
            if slide is None:
                if (a.ts <= b.ts and b.ts - left * SECOND < a.ts) or (b.ts < a.ts and a.ts - right * SECOND < b.ts):
                    found.append((max(a.ts, b.ts), a.symbol, a.quantity, b.price))
                continue
            for u in range(0, 60 * SECOND, slide * SECOND):
                if u - left * SECOND < a.ts <= u and u - right * SECOND < b.ts <= u:
                    found.append((u, a.symbol, a.quantity, b.price))
    return sorted(found)


pytestmark = pytest.mark.usefixtures("purging")


CONDITIONS = {
    "JOIN {} ON a.symbol = b.symbol": lambda a, b: a.symbol == b.symbol,
    "JOIN {} USING symbol": lambda a, b: a.symbol == b.symbol,
    "JOIN {} ON a.symbol = b.symbol AND a.quantity > b.price": lambda a, b: a.symbol == b.symbol and a.quantity > b.price,
    "INNER JOIN {} ON b.price = a.quantity AND b.price > 1": lambda a, b: a.quantity == b.price and b.price > 1,
    "CROSS JOIN {}": lambda a, b: True,
    "CROSS JOIN {} WHERE a.quantity < b.price": lambda a, b: a.quantity < b.price,
}


@settings(max_examples=140, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(sorted(CONDITIONS)),
    st.tuples(st.integers(1, 8), st.integers(1, 8)),
    st.none() | st.integers(1, 6),
    ORDERS,
    QUOTES,
    st.tuples(ORDERS, QUOTES),
    st.integers(0, 2**32),
    st.sets(st.integers(0, 12), max_size=3),
)
def test_joins_come_to_their_definition(join, sizes, slide, orders, quotes, others, seed, restarts):
    every = "EVERY 1" if slide is None else f"EVERY {slide} seconds"
    left, right = (f"[SIZE {size} seconds {every}]" for size in sizes)
    clause = join.format(f"Quote AS b {right}")
    text = f"SELECT a.symbol AS symbol, quantity, price FROM Order AS a {left} {clause} INTO Match"
    operator = compile_cql(text, [Order, Quote]).operators[0]
    given_events = events(orders, quotes)
    revised = [(type(e)("B", 3, ts=max(e.ts - SECOND, 0), id=e.id, source=e.source), e) for e in given_events[::4]]
    kept = [event for n, event in enumerate(given_events) if n % 4]
    results = play(operator, history(kept, Random(seed), events(*others, 1000), revised), restarts)
    assert results == play(operator, in_order(given_events))
    found = sorted((e.ts, e.symbol, e.quantity, e.price) for e in results)
    assert found == pairs(given_events, CONDITIONS[join], sizes, slide)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ORDERS, st.integers(0, 2**32))
def test_a_stream_joins_itself(orders, seed):
    text = """SELECT a.quantity AS one, b.quantity AS other FROM Order AS a [SIZE 5 seconds]
              JOIN Order AS b [SIZE 5 seconds] ON a.symbol = b.symbol AND a.quantity < b.quantity INTO Match"""
    operator = compile_cql(text, [Order]).operators[0]
    made = events(orders, [])
    results = play(operator, history(made, Random(seed), []))
    window = lambda e: -(-e.ts // (5 * SECOND))  # noqa: E731
    expected = [
        (a.quantity, b.quantity)
        for a in made
        for b in made
        if a.symbol == b.symbol and window(a) == window(b) and a.quantity < b.quantity
    ]
    assert sorted((e.one, e.other) for e in results) == sorted(expected)
