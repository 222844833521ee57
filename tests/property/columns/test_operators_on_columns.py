"""Operators mean the same by rows, by columns, and by both mixed: the same changes, with the same identities."""

from __future__ import annotations

import pickle
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.cql.cql_script import compile_cql
from detectors.sequence.sequence_operator import SequenceQuery
from detectors.window import COUNT, MAX, MEAN, MIN, RANGE, STDDEV, SUM, Hopping, Tumbling, Windows
from middleware.model.block.block import Block
from middleware.model.block.mixed_block import MixedBlock
from middleware.model.change import Delta
from middleware.model.event import END, NEVER, Event, Identity
from middleware.model.operator import Operation, Operator


class Trade(Event):
    symbol: str | None
    lot: int
    price: float
    fee: float | None
    is_sale: bool


class Quote(Event):
    symbol: str | None
    lot: int
    price: float


class Bar(Event):
    lot: int
    start: int
    end: int
    mean: float | None
    most: float
    least: int
    trades: int


class Fees(Event):
    symbol: str | None
    start: int
    end: int
    fee: float | None
    spread: float | None


class Pair(Event):
    lot: int
    first: int
    price: float
    symbol: str | None


TYPES = [Trade, Quote, Pair]
VALUES = {"mean": (MEAN, "price"), "most": (MAX, "price"), "least": (MIN.of(int), "lot"), "trades": COUNT}


def cql(text: str) -> Operator:
    """The operator of a query over trades."""
    return compile_cql(text, TYPES).operators[-1]


def sequence(text: str) -> Operator:
    """The operator of a sequence query."""
    return SequenceQuery(text, TYPES, "Pairs")


_PAIR = "RETURN Pair(a.lot AS lot, a.ts AS first, b.price AS price, b.symbol AS symbol)"

OPERATORS = {
    "windows by integers": lambda: Windows(Trade, Hopping(6, 2), VALUES, key="lot", result=Bar),
    "windows by texts, of what may be missing": lambda: Windows(
        Trade, Hopping(6, 2), {"fee": (MEAN, "fee"), "spread": (RANGE, "fee")}, key="symbol", result=Fees
    ),
    "windows by truth": lambda: Windows(Trade, Tumbling(4), {"n": (SUM.of(int), "lot")}, key="is_sale"),
    "windows by several fields": lambda: Windows(Trade, Tumbling(4), {"n": COUNT}, key=("symbol", "lot")),
    "windows without a key": lambda: Windows((Trade, Quote), Tumbling(4), {"s": (SUM, "price")}),
    "windows at every change": lambda: Windows(Trade, Hopping(6, 2), VALUES, key="lot", result=Bar, emit="change"),
    "windows once final": lambda: Windows(Trade, Hopping(6, 2), VALUES, key="lot", result=Bar, emit="final"),
    "windows that trees keep": lambda: Windows(Trade, Hopping(6, 2), {"s": (STDDEV, "price")}, key="lot"),
    "a filter": lambda: cql("SELECT lot, price * lot AS worth, symbol FROM Trade WHERE price > 1 AND is_sale INTO Worth"),
    "a filter of what may be missing": lambda: cql(
        "SELECT symbol, fee / lot AS share, -lot AS back FROM Trade "
        "WHERE (fee > 0.5 OR symbol = 'a') AND NOT (lot = 2) AND symbol IS NOT NULL INTO Shares"
    ),
    "a filter that arrays cannot do": lambda: cql("SELECT lot % 2 AS odd FROM Trade WHERE symbol LIKE 'a%' INTO Odd"),
    "a filter of large numbers": lambda: cql(
        "SELECT lot * 4611686018427387904 AS much FROM Trade WHERE lot + 9223372036854775806 > 0 INTO Much"
    ),
    "a merge": lambda: cql("SELECT lot, price FROM Trade WHERE NOT is_sale INTO Sold"),
    "aggregates": lambda: cql(
        "SELECT lot, window_end() AS due, avg(price) AS mean, max(price) AS most, count(*) AS n "
        "FROM Trade [SIZE 6 nanoseconds EVERY 2 nanoseconds] GROUP BY lot INTO Means"
    ),
    "aggregates of what passes": lambda: cql(
        "SELECT symbol, avg(price) AS mean FROM Trade [SIZE 6 nanoseconds EVERY 2 nanoseconds WHERE fee < 2] "
        "GROUP BY symbol INTO Means"
    ),
    "aggregates that are computed with": lambda: cql(
        "SELECT lot, avg(price) * 2 AS twice FROM Trade [SIZE 4 nanoseconds] GROUP BY lot HAVING count(*) > 1 INTO Twice"
    ),
    "a sequence": lambda: sequence(f"EVENT SEQ(Trade a, Quote b) WHERE a.lot = b.lot WITHIN 5 ns {_PAIR}"),
    "a sequence without": lambda: sequence(
        f"EVENT SEQ(Trade a, !(Trade c), Quote b) WHERE a.lot = b.lot AND c.lot = a.lot AND c.is_sale AND NOT a.is_sale "
        f"WITHIN 5 ns {_PAIR}"
    ),
    "a sequence with conditions": lambda: sequence(
        f"EVENT SEQ(Trade a, Quote b) WHERE a.symbol = b.symbol AND a.price < b.price AND a.fee > 0.5 WITHIN 5 ns {_PAIR}"
    ),
    "a join": lambda: cql(
        "SELECT t.lot AS lot, t.price AS price, q.price AS ask FROM Trade AS t [SIZE 4 nanoseconds EVERY 1] "
        "JOIN Quote AS q [SIZE 4 nanoseconds EVERY 1] ON t.lot = q.lot AND t.price > q.price INTO Hits"
    ),
    "a join of texts": lambda: cql(
        "SELECT t.symbol AS symbol, q.symbol AS other, t.fee AS fee, t.is_sale AS sale "
        "FROM Trade AS t [SIZE 3 nanoseconds EVERY 1] JOIN Quote AS q [SIZE 6 nanoseconds EVERY 1] "
        "ON t.symbol = q.symbol INTO Hits"
    ),
    "a join by several fields, with conditions": lambda: cql(
        "SELECT t.lot + q.lot AS lots, t.fee / q.price AS share, q.symbol AS symbol "
        "FROM Trade AS t [SIZE 5 nanoseconds EVERY 1 WHERE is_sale OR fee > 1] JOIN Quote AS q [SIZE 5 nanoseconds EVERY 1] "
        "ON t.lot = q.lot AND t.symbol = q.symbol WHERE q.price < 3 AND (t.fee IS NULL OR t.fee <= q.price) INTO Hits"
    ),
    "a join with itself": lambda: cql(
        "SELECT a.lot AS lot, a.price - b.price AS gap, b.ts AS since FROM Trade AS a [SIZE 4 nanoseconds EVERY 1] "
        "JOIN Trade AS b [SIZE 4 nanoseconds EVERY 1] ON a.lot = b.lot AND a.price >= b.price INTO Hits"
    ),
    "a join with divisions": lambda: cql(
        "SELECT t.lot % q.lot AS rest, t.price / q.price AS ratio FROM Trade AS t [SIZE 4 nanoseconds EVERY 1] "
        "JOIN Quote AS q [SIZE 4 nanoseconds EVERY 1] ON t.lot = q.lot AND t.lot * 3 / 2 IN (1, q.lot) INTO Hits"
    ),
    "a join that columns cannot do": lambda: cql(
        "SELECT t.lot << q.lot AS rest FROM Trade AS t [SIZE 4 nanoseconds EVERY 1] "
        "JOIN Quote AS q [SIZE 4 nanoseconds EVERY 1] ON t.lot = q.lot INTO Hits"
    ),
}

PRICES = st.sampled_from([0.0, -0.0, 0.1, 1.5, 3.0, float("nan"), float("inf")])
SYMBOLS = st.sampled_from(["a", "b", "ab", "", None])
LOTS = st.sampled_from([1, 2, 3])
TRADES = st.builds(Trade, SYMBOLS, LOTS, PRICES, st.none() | PRICES, st.booleans(), ts=st.integers(1, 20))
QUOTES = st.builds(Quote, SYMBOLS, LOTS, PRICES, ts=st.integers(1, 20))

Step = tuple[list[Event], list[Event], int, int]
"""Events that come, events withdrawn, what is emitted and what is final then."""


@st.composite
def arrivals(draw: st.DrawFn) -> list[Step]:
    """Steps of input in any order, as a unit gives them to an operation."""
    events = draw(st.lists(TRADES | QUOTES, max_size=25))
    events = [_numbered(event, number, draw(st.sampled_from("xy"))) for number, event in enumerate(events)]
    emitted = final = NEVER
    steps: list[Step] = []
    present: list[Event] = []
    while events:
        count = draw(st.integers(1, 8))
        come, events = [event for event in events[:count] if event.ts > final], events[count:]
        gone = [event for event in present if event.ts > final and draw(st.integers(0, 5)) == 0]
        present = [event for event in present if event not in gone] + come
        emitted = max([emitted, final, *(event.ts for event in come)])
        final = max(final, emitted - draw(st.integers(0, 12)))
        steps.append((come, gone, emitted, final))
    return [*steps, ([], [], END, END)]


def _numbered(event: Event, number: int, source: str) -> Event:
    fields = {name: getattr(event, name) for name in event.__struct_fields__}
    return type(event)(**(fields | {"id": number, "source": source}))


def deltas(come: list[Event], gone: list[Event], as_columns: bool, together: bool) -> list[Delta]:
    """Changes, with what is withdrawn first; columns have events of one type, or of several, laid end to end."""
    if not as_columns:
        return [Delta(come, retracts=gone)]
    parts = [Delta(Block(kind, Block.from_events(kind, some).batch)) for kind, some in _by_type(come)]
    if not parts:
        return [Delta(retracts=gone)]
    if together:
        pieces = [part.columns for part in parts if part.columns is not None]
        return [Delta(MixedBlock(pieces), retracts=gone)]
    parts[0].retracts = gone
    return parts


def _by_type(events: list[Event]) -> list[tuple[type[Event], list[Event]]]:
    ordered = sorted(events, key=lambda event: type(event).__name__)
    return [(kind, list(some)) for kind, some in groupby(ordered, key=type)]


class Reader:
    """What stands of an operation's results, as texts: NaN equals itself, zeros differ by their sign."""

    def __init__(self, operator: Operator, together: bool = False) -> None:
        subscribed = frozenset(operator.subscribes)
        self.wants, self.operator = subscribed.__contains__, operator
        self.operation: Operation = operator.start("Test", 1)
        self.present: dict[Identity, str] = {}
        self.used_columns = False
        self.together = together and self.operation.takes_several

    def take(self, step: Step, as_columns: bool) -> None:
        come, gone, emitted, final = step
        come, gone = ([event for event in some if self.wants(type(event))] for some in (come, gone))
        given = deltas(come, gone, as_columns, self.together)
        for delta in given[:-1]:
            self._note(self.operation.apply(delta, emitted, self.final))
        self._note(self.operation.apply(given[-1], emitted, final))
        self.final = final

    final = NEVER

    def restart(self) -> None:
        """Go on from a checkpoint."""
        state = pickle.loads(pickle.dumps(self.operation.snapshot()))
        self.operation = self.operator.start("Test", 1)
        self.operation.restore(state)

    def _note(self, out: Delta) -> None:
        self.used_columns = self.used_columns or out.columns is not None
        for event in out.retracts:
            assert self.present.pop((event.source, event.id)) == repr(event)
        for old, new in out.revises:
            assert self.present[old.source, old.id] == repr(old) != repr(new)
            self.present[new.source, new.id] = repr(new)
        for event in out.inserts:
            assert (event.source, event.id) not in self.present
            self.present[event.source, event.id] = repr(event)


@pytest.mark.parametrize("name", OPERATORS)
@settings(max_examples=30, deadline=None)
@given(steps=arrivals(), mixed=st.lists(st.booleans(), min_size=30, max_size=30))
def test_rows_columns_and_both_mixed_mean_the_same(name: str, steps: list[Step], mixed: list[bool]) -> None:
    rows, columns, both = (Reader(OPERATORS[name](), together) for together in (False, True, False))
    for step, as_columns in zip(steps, mixed, strict=False):
        rows.take(step, False)
        columns.take(step, True)
        both.take(step, as_columns)
        assert rows.present == columns.present == both.present
        assert rows.operation.held == columns.operation.held == both.operation.held
    assert rows.operation.failures.keys() == columns.operation.failures.keys() == both.operation.failures.keys()


@pytest.mark.parametrize("name", [name for name in OPERATORS if name.startswith("a join")])
@settings(max_examples=20, deadline=None)
@given(steps=arrivals(), mixed=st.lists(st.booleans(), min_size=30, max_size=30), at=st.integers(0, 5))
def test_a_join_of_columns_goes_on_from_a_checkpoint(name: str, steps: list[Step], mixed: list[bool], at: int) -> None:
    rows, both = (Reader(OPERATORS[name]()) for _ in range(2))
    for number, (step, as_columns) in enumerate(zip(steps, mixed, strict=False)):
        rows.take(step, False)
        both.take(step, as_columns)
        if number == at:
            both.restart()
        assert rows.present == both.present
        assert rows.operation.held == both.operation.held


IN_COLUMNS = {
    "windows by integers",
    "windows by several fields",
    "windows by texts, of what may be missing",
    "windows by truth",
    "windows at every change",
    "windows once final",
    "windows that trees keep",
    "windows without a key",
    "a filter",
    "a filter of what may be missing",
    "a filter of large numbers",
    "a merge",
    "aggregates",
    "aggregates of what passes",
    "a sequence",
    "a sequence without",
    "a sequence with conditions",
    "a join",
    "a join of texts",
    "a join with divisions",
    "a join by several fields, with conditions",
    "a join with itself",
}
"""What answers in columns."""


@pytest.mark.parametrize("name", OPERATORS)
def test_results_of_columns_are_columns_where_they_can_be(name: str) -> None:
    reader = Reader(OPERATORS[name]())
    for ts in range(1, 12):
        trade = Trade("a", 1, 2.0, 1.0, ts % 2 == 0, ts=2 * ts, id=ts, source="x")
        quote = Quote("a", 1, 1.0 if ts % 3 == 0 else 3.0, ts=2 * ts + 1, id=ts, source="y")
        reader.take(([trade, quote], [], 2 * ts + 1, 2 * ts - 8), True)
    assert reader.used_columns == (name in IN_COLUMNS)
    assert reader.present
