"""Filters, projections and joins in the native core give what the compiled comprehensions give, for whatever values."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.cql.cql_script import compile_cql
from detectors.cql.query_operators import join_operator, tuple_operator
from detectors.cql.query_operators.native_rows import projection
from middleware.model.block.block import Block
from middleware.model.change import Delta
from middleware.model.event import END, Event


class Tick(Event):
    symbol: int
    price: float
    quantity: int
    name: str = ""
    open: bool = True


class Bid(Event):
    symbol: int
    price: float


class Large(Event):
    symbol: int
    amount: float | None
    name: str
    open: bool


class Wide(Event):
    symbol: int | None
    dear: float
    cheap: float
    twice: float


class Match(Event):
    symbol: int
    dear: float
    cheap: float
    twice: float


TYPES = [Tick, Bid, Large, Match, Wide]
FILTER = """SELECT symbol, price * quantity - 1 AS amount, name, open FROM Tick
            WHERE (price > -2.5 AND quantity <> 3 OR NOT open) AND name >= 'a' INTO Large"""
JOIN = """SELECT t.symbol AS symbol, t.price AS dear, b.price AS cheap, b.price + b.price AS twice
          FROM Tick AS t [SIZE 9 nanoseconds EVERY 1] JOIN Bid AS b [SIZE 9 nanoseconds EVERY 1]
          ON t.symbol = b.symbol AND t.price > b.price INTO Match"""

wholes = st.sampled_from([0, 1, 3, -7, 2**53, 2**53 + 1, 2**62, 2**63 - 1])
reals = st.one_of(st.sampled_from([0.0, -0.0, 1e308, float("inf"), float("nan"), 2.0**53]), st.floats(-9, 9))
odd = st.sampled_from([None, True, 2**70, "x", b"x"])
ticks = st.tuples(wholes, reals, wholes, st.sampled_from(["", "a", "ä", "\U0001f600"]), st.booleans())


def run(text, events, is_native):
    with pytest.MonkeyPatch.context() as patch:
        if not is_native:
            patch.setattr(join_operator, "projection", lambda *_: None)
            patch.setattr(tuple_operator, "projection", lambda *_: None)
        operation = compile_cql(text, TYPES).operators[0].start("Q", 1)
    try:
        out = operation.apply(Delta(events), END, END)
    except (TypeError, ValueError, OverflowError) as error:
        return type(error)
    return [[repr(each) for each in part] for part in (out.inserts, out.revises, out.retracts)]


@settings(max_examples=60, deadline=None)
@given(st.lists(ticks, max_size=8), st.none() | st.tuples(st.integers(0, 7), st.integers(0, 4), odd))
def test_a_filter_is_the_same_in_both(rows, hostile):
    rows = [list(row) for row in rows]
    if hostile is not None and hostile[0] < len(rows):
        rows[hostile[0]][hostile[1]] = hostile[2]
    events = [Tick(*row, ts=n, id=n, source="ab"[n % 2]) for n, row in enumerate(rows)]
    assert run(FILTER, events, True) == run(FILTER, events, False)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.sampled_from([1, 2]), reals | wholes), max_size=12))
def test_a_join_is_the_same_in_both(rows):
    events = [
        Tick(symbol, price, 1, ts=n, id=n, source="a") if is_tick else Bid(symbol, price, ts=n, id=n, source="b")
        for n, (is_tick, symbol, price) in enumerate(rows)
    ]
    assert run(JOIN, events, True) == run(JOIN, events, False)


WIDE = """SELECT t.quantity * t.quantity AS symbol, t.price AS dear, b.price AS cheap, b.price - t.price AS twice
          FROM Tick AS t [SIZE 9 nanoseconds EVERY 1] JOIN Bid AS b [SIZE 9 nanoseconds EVERY 1]
          ON t.symbol = b.symbol AND t.quantity > b.price INTO Wide"""


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.booleans(), wholes, reals, wholes, st.booleans()), max_size=12), st.none() | odd)
def test_a_join_of_columns_is_one_of_rows(rows, hostile):
    by_rows, mixed = (compile_cql(WIDE, TYPES).operators[0].start("Q", 1) for _ in range(2))

    def found(operation, delta, now):
        try:
            results = operation.apply(delta, now, now - 20).inserts
        except (TypeError, ValueError, OverflowError) as error:
            return type(error)
        return [repr(each) for each in sorted(results, key=lambda each: (each.ts, each.id))]

    for n, (is_tick, symbol, price, quantity, as_columns) in enumerate(rows):
        stamp = {"ts": n, "id": n, "source": "ab"[is_tick]}
        event = Tick(symbol % 2, price, quantity, **stamp) if is_tick else Bid(symbol % 2, price, **stamp)
        if is_tick and hostile is not None and n > 4:  # as a row, it meets what came in columns
            event, as_columns = Tick(event.symbol, hostile, hostile, **stamp), False
        columns = Block(type(event), Block.from_events(type(event), [event]).batch) if as_columns else None
        expected = found(by_rows, Delta([event]), n)
        assert found(mixed, Delta(columns) if as_columns else Delta([event]), n) == expected
        if isinstance(expected, type):
            break  # an operator that raises stops


def test_the_native_core_makes_what_is_plain_and_nothing_else():
    (plain,) = compile_cql(FILTER, TYPES).operators
    made = projection(plain.plan, ("e",), "Q", 1)
    assert made is not None
    tick = Tick(1, 2.0, 4, "b", ts=5, id=7, source="a")
    assert made.of_tuples([tick], {"a": 1}) == [Large(1, 7.0, "b", True, ts=5, id=6, source="Q", level=1)]
    assert made.of_tuples([tick], {}) is None
    assert made.of_tuples([Tick(1, None, 4, "b", ts=5, id=7, source="a")], {"a": 1}) is None
    text = "SELECT symbol, {} AS amount, name, open FROM Tick INTO Large"
    (divided,) = compile_cql(text.format("price / quantity"), TYPES).operators
    made = projection(divided.plan, ("e",), "Q", 1)
    assert made is not None
    by_zero = Tick(1, 2.0, 0, "b", ts=5, id=7, source="a")
    assert [each.amount for each in made.of_tuples([tick, by_zero], {"a": 1})] == [0.5, None]
    (rooted,) = compile_cql(text.format("sqrt(price)"), TYPES).operators
    assert projection(rooted.plan, ("e",), "Q", 1) is None
