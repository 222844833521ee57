"""Outer joins, joins of windows with different ends and clocks, and what is made of joins, over any history, by definition."""

from random import Random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from detectors.cql import QueryError, compile_cql
from middleware.model.event import ORDER, Event
from middleware.model.time import SECOND
from middleware.testing.operators import history, in_order, play


class Order(Event):
    symbol: str | None
    quantity: int
    at: int | None


class Quote(Event):
    symbol: str | None
    price: int
    at: int | None


DRAWN = st.lists(
    st.tuples(st.sampled_from(["A", "B", None]), st.integers(0, 4), st.none() | st.integers(0, 15), st.integers(0, 18)),
    max_size=10,
)


pytestmark = pytest.mark.usefixtures("purging")


def made(kind, drawn, first=0):
    source = kind.__name__
    return [kind(s, n, at, ts=ts * SECOND, id=number, source=source) for number, (s, n, at, ts) in enumerate(drawn, first)]


class Windows:
    """One side by definition: when its windows end, and which is current. By ``ts``, or by the clock ``at``."""

    def __init__(self, events, size, every, by_clock):
        self.events = sorted([event for event in events if not by_clock or event.at is not None], key=ORDER)
        self.size, self.every, self.by_clock = size, every, by_clock

    def time(self, place):
        """Where a tuple lies on the axis: its ts in seconds, or the largest value that the clock has shown."""
        if not self.by_clock:
            return self.events[place].ts / SECOND
        return max(event.at for event in self.events[: place + 1])

    def ends(self):
        """The ends of windows on the axis: multiples of EVERY, for a clock one unit before them."""
        return [end * self.every - self.by_clock for end in range(-3, 60)]

    def current(self, second):
        """The content of the window that ended last, and where; by a clock it ends when a tuple is beyond it."""
        came = [place for place, event in enumerate(self.events) if event.ts <= second * SECOND]
        if self.by_clock:
            shown = max((self.time(place) for place in came), default=-100)
            passed = [end for end in self.ends() if end < shown]
        else:
            passed = [end for end in self.ends() if end <= second]
        if not passed:
            return None, []
        end = passed[-1]
        return end, [self.events[place] for place in came if end - self.size < self.time(place) <= end]

    def is_moment(self, second):
        end, content = self.current(second)
        return bool(content) and end != self.current(second - 1)[0]


def joined(left, right, keeps, condition):
    """(second, left tuple or None, right tuple or None) of each result."""
    found = []
    for second in range(60):
        if not left.is_moment(second) and not right.is_moment(second):
            continue
        ours, theirs = left.current(second)[1], right.current(second)[1]
        pairs = [(a, b) for a in ours for b in theirs if condition(a, b)]
        found += [(second, a, b) for a, b in pairs]
        if keeps[0]:
            found += [(second, a, None) for a in ours if not any(a is one for one, _ in pairs)]
        if keeps[1]:
            found += [(second, None, b) for b in theirs if not any(b is other for _, other in pairs)]
    return found


def same_symbol(a, b):
    return a.symbol is not None and a.symbol == b.symbol


KINDS = {"JOIN": (False, False), "LEFT JOIN": (True, False), "RIGHT OUTER JOIN": (False, True), "FULL JOIN": (True, True)}
CONDITIONS = {
    "ON a.symbol = b.symbol": same_symbol,
    "USING symbol": same_symbol,
    "ON a.symbol = b.symbol AND a.quantity > 1": lambda a, b: same_symbol(a, b) and a.quantity > 1,
    "ON a.quantity < b.price": lambda a, b: a.quantity < b.price,
}
SIDES = st.tuples(st.integers(1, 8), st.integers(1, 6), st.booleans())
HISTORY = (DRAWN, DRAWN, st.tuples(DRAWN, DRAWN), st.integers(0, 2**32), st.sets(st.integers(0, 12), max_size=3))


def window_text(size, every, by_clock):
    return f"[SIZE {size} ON at EVERY {every} ON at]" if by_clock else f"[SIZE {size} seconds EVERY {every} seconds]"


def played(operators, orders, quotes, others, seed, restarts):
    events = made(Order, orders) + made(Quote, quotes)
    passing = made(Order, others[0], 1000) + made(Quote, others[1], 1000)
    revised = [(type(e)("B", 3, 2, ts=max(e.ts - SECOND, 0), id=e.id, source=e.source), e) for e in events[::4]]
    results = play(operators[0], history([e for n, e in enumerate(events) if n % 4], Random(seed), passing, revised), restarts)
    assert results == play(operators[0], in_order(events)), "depends on the history"
    for operator in operators[1:]:
        results = play(operator, history(results, Random(seed)), restarts)
    return results


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(list(KINDS)), st.sampled_from(list(CONDITIONS)), SIDES, SIDES, st.booleans(), *HISTORY)
@example(
    "JOIN", "ON a.symbol = b.symbol", (1, 1, False), (1, 1, True), True,
    [("A", 0, None, 1)], [("A", 0, 9, 0), ("A", 0, 10, 1), ("A", 2, 0, 0)], ([], []), 0, set(),
)  # fmt: skip
def test_joins_of_any_windows_come_to_their_definition(kind, on, one, other, filtered, orders, quotes, others, seed, restarts):
    where = "WHERE price > 1 OR price IS NULL" if filtered else ""
    query = f"""SELECT a.symbol AS one, b.symbol AS other, quantity, price + 0 AS price, a.ts AS ats, b.ts AS bts
                FROM Order AS a {window_text(*one)} {kind} Quote AS b {window_text(*other)} {on} {where} INTO Both"""
    found = played(compile_cql(query, [Order, Quote]).operators, orders, quotes, others, seed, restarts)
    rows = joined(Windows(made(Order, orders), *one), Windows(made(Quote, quotes), *other), KINDS[kind], CONDITIONS[on])
    expected = [
        (ts, a and a.symbol, b and b.symbol, a and a.quantity, b and b.price, a and a.ts, b and b.ts)
        for ts, a, b in rows
        if not filtered or b is None or b.price > 1
    ]
    given_ = [(e.ts // SECOND, e.one, e.other, e.quantity, e.price, e.ats, e.bts) for e in found]
    assert sorted(map(repr, given_)) == sorted(map(repr, expected))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(list(KINDS)), SIDES, SIDES, *HISTORY)
def test_aggregates_over_joins_come_to_their_definition(kind, one, other, orders, quotes, others, seed, restarts):
    """What one name means on both sides is that of the side that is there; groups are those of each moment."""
    query = f"""SELECT symbol, count(*) AS n, sum(a.quantity * b.price) AS volume, max(b.ts) AS latest
                FROM Order AS a {window_text(*one)} {kind} Quote AS b {window_text(*other)} USING symbol
                GROUP BY symbol HAVING count(*) > 1 INTO Sums"""
    operators = compile_cql(query, [Order, Quote]).operators
    found = played(operators, orders, quotes, others, seed, restarts)
    groups: dict = {}
    sides = Windows(made(Order, orders), *one), Windows(made(Quote, quotes), *other)
    for ts, a, b in joined(*sides, KINDS[kind], same_symbol):
        groups.setdefault((ts, a.symbol if a is not None and a.symbol is not None else b and b.symbol), []).append((a, b))
    expected = []
    for (ts, symbol), rows in groups.items():
        volumes = [a.quantity * b.price for a, b in rows if a is not None and b is not None]
        if len(rows) > 1:
            latest = max((b.ts for _, b in rows if b is not None), default=None)
            expected.append((ts, symbol, len(rows), sum(volumes) if volumes else None, latest))
    assert sorted(map(repr, expected)) == sorted(repr((e.ts // SECOND, e.symbol, e.n, e.volume, e.latest)) for e in found)


def test_a_join_is_ranked_and_its_results_are_told_apart():
    windows = "Order AS a [SIZE 10 seconds] JOIN Quote AS b [SIZE 10 seconds] ON a.symbol = b.symbol"
    orders, quotes = made(Order, [("A", n, 0, 1) for n in (1, 2, 2)]), made(Quote, [("A", n, 0, 2) for n in (5, 7)])
    for query, expected in {
        f"SELECT DISTINCT quantity, price FROM {windows} INTO Best": [(1, 5), (1, 7), (2, 5), (2, 7)],
        f"SELECT quantity, price FROM {windows} ORDER BY quantity + price DESC LIMIT 2 INTO Best": [(2, 7), (2, 7)],
    }.items():
        results = orders + quotes
        for operator in compile_cql(query, [Order, Quote]).operators:
            results = play(operator, in_order(results))
        assert sorted((e.quantity, e.price) for e in results) == expected


def test_over_looks_back_along_the_pairs_of_a_join():
    query = """SELECT price, sum(a.quantity) OVER (PARTITION BY b.symbol ORDER BY ts) AS total
               FROM Order AS a [SIZE 9 s EVERY 1] JOIN Quote AS b [SIZE 9 s EVERY 1] USING symbol INTO Totals"""
    results = made(Order, [("A", n, 0, n) for n in (1, 2, 4)]) + made(Quote, [("A", n, 0, n + 1) for n in (2, 5)])
    for operator in compile_cql(query, [Order, Quote]).operators:
        results = play(operator, in_order(results))
    assert [(e.ts // SECOND, e.total) for e in results] == [(3, 3), (3, 3), (4, 7), (6, 14), (6, 14), (6, 14)]
    with pytest.raises(QueryError, match="OVER goes by time, and a_ts is not that of"):
        compile_cql(query.replace("ORDER BY ts", "ORDER BY a.ts"), [Order, Quote])


REFUSED = {
    "LEFT JOIN Quote b [SIZE 3 s EVERY 1] USING symbol": "whether a tuple has no partner is known when its window ends",
    "JOIN Quote b [SIZE 3 s EVERY 1 s] USING symbol": "EVERY 1 on both sides",
    "JOIN Quote b [SIZE 3 ON at EVERY 1] USING symbol": "EVERY 1 joins by the time that orders the streams",
    "JOIN Quote b [SIZE 3 ON at EVERY 1 s] USING symbol": "EVERY is measured as SIZE is",
    "NATURAL JOIN Quote b [SIZE 3 s]": "NATURAL is not supported: name the attributes",
}


@pytest.mark.parametrize("join", REFUSED)
def test_what_has_no_meaning_is_refused(join):
    with pytest.raises(QueryError, match=f"(?s){REFUSED[join]}.*\\^"):
        compile_cql(f"SELECT quantity FROM Order a [SIZE 3 s EVERY 1] {join}", [Order, Quote])


def test_pairs_that_come_one_by_one_are_not_aggregated():
    query = "SELECT count(*) AS n FROM Order a [SIZE 3 s EVERY 1] JOIN Quote b [SIZE 3 s EVERY 1] USING symbol"
    with pytest.raises(QueryError, match=r"have no window to aggregate: .*FROM \(SELECT ... JOIN ...\) \[SIZE ...\]"):
        compile_cql(query, [Order, Quote])
