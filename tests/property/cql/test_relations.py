"""What a query makes of each window (groups, HAVING, DISTINCT, ORDER BY with LIMIT) over any history, by definition."""

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detectors.cql import compile_cql
from detectors.cql.query_operators.stepped_queries import can_run
from middleware.model.event import ORDER, Event
from middleware.model.time import SECOND
from middleware.testing.operators import history, in_order, play
from tests.property.cql.by_definition import Extent, Spec, naive_sessions, naive_windows


class Tick(Event):
    symbol: str | None
    price: float | None
    quantity: int


DRAWN = st.lists(
    st.tuples(
        st.sampled_from(["A", "B", "C", None]),
        st.sampled_from([None, 0.0, -0.0, 1.0, 2.5, float("inf")]),
        st.integers(-2, 3),
        st.integers(0, 20),
        st.sampled_from("xy"),
    ),
    max_size=22,
)


pytestmark = pytest.mark.usefixtures("purging")


def ticks(drawn, first=0):
    return [Tick(s, p, q, ts=ts * SECOND, id=n, source=src) for n, (s, p, q, ts, src) in enumerate(drawn, first)]


def played(operators, events, seed, others, restarts):
    """The results of a chain of operators over a history, which are those of the same events in order."""
    revised = [(Tick("B", 9.0, 5, ts=max(e.ts - 2 * SECOND, 0), id=e.id, source=e.source), e) for e in events[::4]]
    kept = [event for n, event in enumerate(events) if n % 4]
    results = play(operators[0], history(kept, Random(seed), others, revised), restarts)
    assert list(map(repr, results)) == list(map(repr, play(operators[0], in_order(events))))
    for operator in operators[1:]:
        before, results = results, play(operator, history(results, Random(seed)), restarts)
        assert list(map(repr, results)) == list(map(repr, play(operator, in_order(before))))
    return results


def tumbling(events, seconds):
    return naive_windows(events, Spec(Extent("ts", seconds * SECOND), Extent("ts", seconds * SECOND)))


HISTORY = {
    "drawn": DRAWN,
    "others": DRAWN,
    "seed": st.integers(0, 2**32),
    "restarts": st.sets(st.integers(0, 12), max_size=3),
}
checked = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@checked
@given(st.integers(1, 9), st.booleans(), st.booleans(), *HISTORY.values())
def test_having_leaves_groups_out(size, is_native, in_window, drawn, others, seed, restarts):
    """With a median, the native core does not run it; with PARTITIONED BY, groups lie inside the windows."""
    more = "" if is_native else ", median(quantity) AS m"
    group = "PARTITIONED BY symbol] GROUP BY symbol, quantity" if in_window else "] GROUP BY symbol"
    window = f"[SIZE {size} seconds {group} HAVING count(*) > 1 AND symbol > 'A'"
    operators = compile_cql(f"SELECT symbol, sum(quantity) AS total{more} FROM Tick {window} INTO Bar", [Tick]).operators
    if not in_window:
        assert not can_run(operators[0].plan) or is_native
    events = ticks(drawn)
    found = played(operators, events, seed, ticks(others, 1000), restarts)
    expected = []
    for window in tumbling(events, size):
        groups: dict = {}
        for event in window.events:
            groups.setdefault((event.symbol, event.quantity if in_window else None), []).append(event)
        for (symbol, _), group in groups.items():
            if len(group) > 1 and symbol is not None and symbol > "A":
                expected.append((window.ts, symbol, sum(e.quantity for e in group)))
    assert sorted((e.ts, e.symbol, e.total) for e in found) == sorted(expected)


@checked
@given(st.integers(1, 9), st.booleans(), *HISTORY.values())
def test_distinct_gives_each_result_of_a_window_once(size, by_count, drawn, others, seed, restarts):
    window = f"[SIZE {size}]" if by_count else f"[SIZE {size} seconds]"
    operators = compile_cql(f"SELECT DISTINCT symbol, price FROM Tick {window} INTO Bar", [Tick]).operators
    events = ticks(drawn)
    found = played(operators, events, seed, ticks(others, 1000), restarts)
    measure = Extent("count", size) if by_count else Extent("ts", size * SECOND)
    expected = []
    for each in naive_windows(events, Spec(measure, measure)):
        seen = {}
        for event in each.events:
            seen.setdefault((event.symbol, event.price), event)
        expected += [(each.ts, event.symbol, repr(event.price)) for event in seen.values()]
    assert sorted(map(repr, expected)) == sorted(repr((e.ts, e.symbol, repr(e.price))) for e in found)


def ranked(rows, keys, offset, count):
    """Rows sorted by (value, descending, nulls first) of each key, with the last key sorted first, as the definition says."""
    for get, descending, first in reversed(keys):
        known = sorted([row for row in rows if get(row) is not None], key=get, reverse=descending)
        nulls = [row for row in rows if get(row) is None]
        rows = [*nulls, *known] if first else [*known, *nulls]
    return rows[offset : offset + count]


@checked
@given(
    st.integers(1, 9),
    st.sampled_from([("price", False, True), ("price DESC", True, False), ("price NULLS LAST", False, False)]),
    st.integers(0, 2),
    st.integers(1, 4),
    *HISTORY.values(),
)
def test_the_first_of_a_window_by_order(size, key, offset, count, drawn, others, seed, restarts):
    text, descending, first = key
    operators = compile_cql(
        f"""SELECT symbol, quantity FROM Tick [SIZE {size} seconds]
            ORDER BY {text}, quantity DESC LIMIT {count} OFFSET {offset} INTO Bar""",
        [Tick],
    ).operators
    events = ticks(drawn)
    found = played(operators, events, seed, ticks(others, 1000), restarts)
    keys = [(lambda e: e.price, descending, first), (lambda e: e.quantity, True, False)]
    expected = [
        (window.ts, event.symbol, event.quantity)
        for window in tumbling(events, size)
        for event in ranked(window.events, keys, offset, count)
    ]
    assert sorted(map(repr, expected)) == sorted(repr((e.ts, e.symbol, e.quantity)) for e in found)


@checked
@given(st.integers(1, 9), st.integers(1, 3), *HISTORY.values())
def test_the_first_groups_of_a_window(size, count, drawn, others, seed, restarts):
    """Two operators: one gives all groups, the other ranks them. Ties are broken by the second key, so the result is known."""
    operators = compile_cql(
        f"""SELECT symbol, sum(quantity) AS total FROM Tick [SIZE {size} seconds] GROUP BY symbol HAVING count(*) > 0
            ORDER BY total DESC, 1 LIMIT {count} INTO Bar""",
        [Tick],
    ).operators
    assert len(operators) == 2
    events = ticks(drawn)
    found = played(operators, events, seed, ticks(others, 1000), restarts)
    expected = []
    for window in tumbling(events, size):
        groups: dict = {}
        for event in window.events:
            groups[event.symbol] = groups.get(event.symbol, 0) + event.quantity
        rows = ranked(list(groups.items()), [(lambda r: r[1], True, False), (lambda r: r[0], False, True)], 0, count)
        expected += [(window.ts, symbol, total) for symbol, total in rows]
    assert sorted(map(repr, expected)) == sorted(repr((e.ts, e.symbol, e.total)) for e in found)


@checked
@given(st.integers(1, 4), st.booleans(), *HISTORY.values())
def test_sessions_come_to_their_definition(gap, partitioned, drawn, others, seed, restarts):
    partition, key, group = ("PARTITION BY symbol", "symbol,", ", symbol") if partitioned else ("", "", "")
    text = f"""SELECT {key} count(*) AS n, sum(quantity) AS total, window_start, window_end
               FROM TABLE(SESSION(TABLE Tick {partition}, DESCRIPTOR(ts), INTERVAL '{gap}' SECONDS))
               WHERE quantity > -2 GROUP BY window_start, window_end {group} INTO Bar"""
    operators = compile_cql(text, [Tick]).operators
    events = ticks(drawn)
    found = played(operators, events, seed, ticks(others, 1000), restarts)
    expected = []
    for symbol in {event.symbol for event in events} if partitioned else [None]:
        part = [event for event in events if not partitioned or event.symbol == symbol]
        for start, end, content in naive_sessions(part, gap * SECOND):
            counted = [event.quantity for event in content if event.quantity > -2]
            if counted:
                expected.append((symbol, start, end, end, len(counted), sum(counted)))
    given_ = [(e.symbol if partitioned else None, e.window_start, e.window_end, e.ts, e.n, e.total) for e in found]
    assert sorted(map(repr, given_)) == sorted(map(repr, expected))


@checked
@given(st.integers(1, 6), st.integers(1, 3), st.booleans(), *HISTORY.values())
def test_window_functions_are_half_open(slide, times, legacy, drawn, others, seed, restarts):
    """[start, end), known at its last nanosecond; as a window function, or in GROUP BY."""
    lengths = f"INTERVAL '{slide}' SECONDS, INTERVAL '{slide * times}' SECOND"
    text = (
        f"SELECT count(*) AS n, HOP_START(ts, {lengths}) AS a, hop_end(ts, {lengths}) b FROM Tick GROUP BY HOP(ts, {lengths})"
        if legacy
        else f"SELECT count(*) AS n, window_start AS a, window_end AS b FROM HOP(TABLE Tick, DESCRIPTOR(ts), {lengths}) "
        "GROUP BY window_start, window_end"
    )
    operators = compile_cql(f"{text} INTO Bar", [Tick]).operators
    events = ticks(drawn)
    found = played(operators, events, seed, ticks(others, 1000), restarts)
    expected = []
    for start in range(-slide * times, 30, slide):
        content = [event for event in events if start <= event.ts // SECOND < start + slide * times]
        if content:
            end = (start + slide * times) * SECOND
            expected.append((len(content), start * SECOND, end, end - 1))
    assert sorted((e.n, e.a, e.b, e.ts) for e in found) == sorted(expected)


@checked
@given(st.integers(1, 9), *HISTORY.values())
def test_aggregates_of_different_values_and_of_filtered_ones(size, drawn, others, seed, restarts):
    text = f"""SELECT count(DISTINCT quantity) AS kinds, sum(DISTINCT quantity) AS once, avg(DISTINCT quantity) AS mean,
                      count(*) FILTER (WHERE symbol = 'A') AS of_a, sum(quantity) FILTER (WHERE price > 0) AS some
               FROM Tick [SIZE {size} seconds EVERY 1 seconds] INTO Bar"""
    events = ticks(drawn)
    found = played(compile_cql(text, [Tick]).operators, events, seed, ticks(others, 1000), restarts)
    expected = []
    for window in naive_windows(events, Spec(Extent("ts", size * SECOND), Extent("ts", SECOND))):
        kinds = {event.quantity for event in window.events}
        some = [e.quantity for e in window.events if e.price is not None and e.price > 0]
        of_a = sum(event.symbol == "A" for event in window.events)
        expected.append((window.ts, len(kinds), sum(kinds), sum(kinds) / len(kinds), of_a, sum(some) if some else None))
    assert sorted((e.ts, e.kinds, e.once, e.mean, e.of_a, e.some) for e in found) == sorted(expected)


def test_nan_is_the_greatest_number():
    prices = [2.0, float("nan"), None, float("inf")]
    events = [Tick("A", price, n, ts=5, id=n, source="x") for n, price in enumerate(prices)]
    for order, expected in (("DESC", [1, 3]), ("ASC", [2, 0]), ("DESC NULLS FIRST", [2, 1]), ("ASC NULLS LAST", [0, 3])):
        text = f"SELECT quantity FROM Tick [SIZE 10 seconds] ORDER BY price {order} LIMIT 2 INTO Bar"
        found = play(compile_cql(text, [Tick]).operators[0], in_order(events))
        assert sorted(e.quantity for e in found) == sorted(expected), order


def test_equal_results_are_told_apart_by_the_total_order():
    events = [Tick("A", 1.0, n, ts=5, id=n, source="x") for n in range(4)]
    text = "SELECT quantity FROM Tick [SIZE 9 s] ORDER BY price LIMIT 2 INTO Bar"
    operators = compile_cql(text, [Tick]).operators
    assert sorted(e.quantity for e in play(operators[0], in_order(sorted(events, key=ORDER, reverse=True)))) == [0, 1]
