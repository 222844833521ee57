"""MATCH_RECOGNIZE over any history comes to its definition: SQL's search by backtracking, along the sorted tuples."""

from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detectors.cql import QueryError, compile_cql
from detectors.cql.query_operators import matching
from middleware.model.event import END, ORDER, Event
from middleware.model.time import SECOND
from middleware.testing.operators import history, in_order, play


class Tick(Event):
    symbol: str
    price: int


DRAWN = st.lists(st.tuples(st.sampled_from("AB"), st.integers(0, 4), st.integers(0, 25), st.sampled_from("xy")), max_size=20)


pytestmark = pytest.mark.usefixtures("purging")


def ticks(drawn, first=0):
    return [Tick(s, p, ts=ts * SECOND, id=n, source=src) for n, (s, p, ts, src) in enumerate(drawn, first)]


# by definition: a pattern is a function of a place and the labels so far, that yields the ways it may continue, best first


class Rows(NamedTuple):
    """The rows of a partition, and of one attempt: its first place, the last time that belongs to it, what was looked at."""

    rows: list[Tick]
    start: int
    limit: int
    seen: list[int]
    cut: list[bool]
    conditions: dict[str, Callable]


class NotThere(Exception):
    """A row is needed that never comes."""


Way = tuple[int, list[str]]
Way_ = Callable[[Rows, int, list[str]], Iterator[Way]]


def var(name: str) -> Way_:
    def ways(on: Rows, at: int, labels: list[str]) -> Iterator[Way]:
        if at == len(on.rows) and on.limit == END:
            raise NotThere
        if at == len(on.rows) or on.rows[at].ts > on.limit:
            on.cut.append(True)
            return
        on.seen.append(at)
        if on.conditions.get(name, lambda *_: True)(on.rows, on.start, at, [*labels, name]):
            yield at + 1, [*labels, name]

    return ways


def chain(*parts: Way_) -> Way_:
    def ways(on: Rows, at: int, labels: list[str]) -> Iterator[Way]:
        if len(parts) == 1:
            yield from parts[0](on, at, labels)
            return
        for middle, more in parts[0](on, at, labels):
            yield from chain(*parts[1:])(on, middle, more)

    return ways


def choice(*parts: Way_) -> Way_:
    return lambda on, at, labels: (way for part in parts for way in part(on, at, labels))


def repeat(part: Way_, least: int, most: int | None, greedy: bool = True) -> Way_:
    def ways(on: Rows, at: int, labels: list[str]) -> Iterator[Way]:
        def more() -> Iterator[Way]:
            if most is None or most > 0:
                for middle, longer in part(on, at, labels):
                    yield from repeat(part, max(least - 1, 0), None if most is None else most - 1, greedy)(on, middle, longer)

        if greedy:
            yield from more()
        if not least:
            yield at, labels
        if not greedy:
            yield from more()

    return ways


A, B, C, D = (var(name) for name in "ABCD")
PATTERNS = {
    "A B": chain(A, B),
    "A B+ C": chain(A, repeat(B, 1, None), C),
    "A B+? C": chain(A, repeat(B, 1, None, False), C),
    "A B*": chain(A, repeat(B, 0, None)),
    "A (B | C D)": chain(A, choice(B, chain(C, D))),
    "A (B | C)* D": chain(A, repeat(choice(B, C), 0, None), D),
    "A B{2} C?": chain(A, repeat(B, 2, 2), repeat(C, 0, 1)),
    "(A B){1,2} C?? D": chain(repeat(chain(A, B), 1, 2), repeat(C, 0, 1, False), D),
}
ENDLESS = {"A B+ C", "A B+? C", "A B*", "A (B | C)* D"}


def last(rows, start, labels, name, back=0):
    """The last row of a variable, or one before it; None if there is none."""
    found = [row for row, label in zip(rows[start:], labels, strict=False) if label == name]
    return found[-1 - back] if len(found) > back else None


CONDITIONS = {
    "none": ("", {}),
    "by price": (
        "DEFINE B AS price > 1, C AS C.price <= 2, D AS price <> 2",
        {
            "B": lambda rows, s, i, labels: rows[i].price > 1,
            "C": lambda rows, s, i, labels: rows[i].price <= 2,
            "D": lambda rows, s, i, labels: rows[i].price != 2,
        },
    ),
    "by others": (
        "DEFINE B AS price >= LAST(A.price), C AS price < PREV(price), D AS sum(price) > 5 OR count(B.price) = 2",
        {
            "B": lambda rows, s, i, labels: rows[i].price >= last(rows, s, labels, "A").price,
            "C": lambda rows, s, i, labels: i > 0 and rows[i].price < rows[i - 1].price,
            "D": lambda rows, s, i, labels: sum(row.price for row in rows[s : i + 1]) > 5 or labels.count("B") == 2,
        },
    ),
    "by rows before": (
        "DEFINE A AS PREV(price, 2) = price OR PREV(price) IS NULL, B AS LAST(B.price, 1) < price OR FIRST(B.price) > 2",
        {
            "A": lambda rows, s, i, labels: i == 0 or (i > 1 and rows[i - 2].price == rows[i].price),
            "B": lambda rows, s, i, labels: (
                rows[s + labels.index("B")].price > 2
                or ((before := last(rows, s, labels, "B", 1)) is not None and before.price < rows[i].price)
            ),
        },
    ),
}
SKIPS = {
    "": lambda start, labels: start + len(labels),
    "AFTER MATCH SKIP PAST LAST ROW": lambda start, labels: start + len(labels),
    "AFTER MATCH SKIP TO NEXT ROW": lambda start, labels: start + 1,
    "AFTER MATCH SKIP TO LAST B": lambda start, labels: max(
        start + 1, start + max((n for n, label in enumerate(labels) if label == "B"), default=1)
    ),
    "AFTER MATCH SKIP TO FIRST B": lambda start, labels: max(start + 1, start + (labels.index("B") if "B" in labels else 1)),
}


def naive_matches(rows, pattern, conditions, skip, within):
    """(time, rows, labels) of each match among the rows of a partition."""
    start, certain, found = 0, 0, []
    while start < len(rows):
        limit = END if within is None else rows[start].ts + within
        on = Rows(rows, start, limit, [], [], conditions)
        try:
            way = next(pattern(on, start, []), None)
        except NotThere:
            return found
        certain = max(certain, limit if on.cut else rows[max(on.seen)].ts)
        if way is None:
            start += 1
            continue
        found.append((certain, rows[start : way[0]], way[1]))
        start = skip(start, way[1])
    return found


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(list(PATTERNS)),
    st.sampled_from(list(CONDITIONS)),
    st.sampled_from(list(SKIPS)),
    st.none() | st.integers(1, 12),
    st.booleans(),
    DRAWN,
    DRAWN,
    st.integers(0, 2**32),
    st.sets(st.integers(0, 12), max_size=3),
)
def test_matches_come_to_their_definition(text, defined, skip, within, partitioned, drawn, others, seed, restarts):
    definitions, conditions = CONDITIONS[defined]
    names = {letter for letter in text if letter in "ABCD"}
    parts = [part for part in definitions.removeprefix("DEFINE ").split(", ") if part]
    kept = [part for part in _definitions(parts) if part[0] in names and not (set("ABCD") & _read(part)) - names]
    conditions = {name: test for name, test in conditions.items() if any(part[0] == name for part in kept)}
    if text in ENDLESS and within is None:
        within = 9
    if "B" in skip and "B" not in names:
        skip = ""
    query = f"""SELECT * FROM Tick MATCH_RECOGNIZE (
        {"PARTITION BY symbol" if partitioned else ""} ORDER BY ts
        MEASURES A.ts AS start, LAST(B.price) AS last_b, FIRST(price) AS first, count(*) AS n, sum(B.price) AS sum_b,
                 max(price) AS top, CLASSIFIER() AS ending, price - FIRST(A.price) AS gain
        ONE ROW PER MATCH {skip} PATTERN ({text}) {f"WITHIN INTERVAL '{within}' SECONDS" if within is not None else ""}
        {"DEFINE " + ", ".join(kept) if kept else ""}) INTO Found"""
    operator = compile_cql(query, [Tick]).operators[0]
    events = ticks(drawn)
    revised = [(Tick("B", 3, ts=max(e.ts - SECOND, 0), id=e.id, source=e.source), e) for e in events[::4]]
    moments = history([e for n, e in enumerate(events) if n % 4], Random(seed), ticks(others, 1000), revised)
    results = play(operator, moments, restarts)
    assert results == play(operator, in_order(events)), "depends on the history"
    expected = []
    for symbol in "AB" if partitioned else [None]:
        rows = sorted([event for event in events if symbol in (None, event.symbol)], key=ORDER)
        for ts, match, labels in naive_matches(
            rows, PATTERNS[text], conditions, SKIPS[skip], None if within is None else within * SECOND
        ):
            of_b = [row.price for row, label in zip(match, labels, strict=True) if label == "B"]
            start = [row.ts for row, label in zip(match, labels, strict=True) if label == "A"][-1]
            first_a = next(row.price for row, label in zip(match, labels, strict=True) if label == "A")
            expected.append(
                (ts, start, of_b[-1] if of_b else None, match[0].price, len(match), sum(of_b) if of_b else None,
                 max(row.price for row in match), labels[-1], match[-1].price - first_a)
            )  # fmt: skip
    found = [(e.ts, e.start, e.last_b, e.first, e.n, e.sum_b, e.top, e.ending, e.gain) for e in results]
    assert sorted(map(repr, found)) == sorted(map(repr, expected))


def _definitions(parts):
    """The definitions again, whose commas in brackets were split, too."""
    joined = []
    for part in parts:
        if joined and joined[-1].count("(") > joined[-1].count(")"):
            joined[-1] += f", {part}"
        else:
            joined.append(part)
    return joined


def _read(part):
    """The variables that a definition names."""
    return {before[-1] for before in part.split(".")[:-1]}


STREAM = "CREATE STREAM T (symbol String, price Double); "
REFUSED = {
    "ORDER BY ts MEASURES A.price AS p PATTERN (A*) WITHIN 5 s": "may match no row at all",
    "ORDER BY ts MEASURES A.price AS p PATTERN (A (B?)+) WITHIN 5 s": "repeats what may be no row",
    "ORDER BY ts MEASURES A.price AS p PATTERN (A B+)": "may go on for ever: write WITHIN",
    "ORDER BY price MEASURES A.price AS p PATTERN (A B)": "price is not that of T: write ORDER BY ts",
    "MEASURES A.price AS p PATTERN (A B)": "needs an order",
    "ORDER BY ts MEASURES C.price AS p PATTERN (A B)": r"unknown variable 'C'.*the pattern has A, B",
    "ORDER BY ts MEASURES A.price AS p PATTERN (A B) DEFINE C AS price > 1": "C is defined, but not in the pattern",
    "ORDER BY ts MEASURES A.price AS p PATTERN (A B) DEFINE B AS NEXT(price) > 1": "NEXT would have to wait",
    "ORDER BY ts MEASURES A.price AS p PATTERN (A B) DEFINE B AS price": "the definition of B needs a condition",
    "ORDER BY ts MEASURES MATCH_NUMBER() AS p PATTERN (A B)": "match_number is not supported",
    "ORDER BY ts MEASURES A.price AS p ALL ROWS PER MATCH PATTERN (A B)": "ALL ROWS PER MATCH is not supported",
    "ORDER BY ts MEASURES A.price AS p AFTER MATCH SKIP TO C PATTERN (A B)": "C is not in the pattern",
    "ORDER BY ts MEASURES sum(A.price + B.price) AS p PATTERN (A B)": "reads rows of several variables",
    "ORDER BY ts PATTERN (A B)": "nothing is asked of a match",
    "ORDER BY ts MEASURES A.price AS p PATTERN (A{3,2})": "asks for no number of rows",
    "ORDER BY ts MEASURES A.price AS p PATTERN (A{2000})": "more than 1,000 steps",
}


@pytest.mark.parametrize("text", REFUSED)
def test_it_is_refused_where_it_has_no_meaning(text):
    with pytest.raises(QueryError, match=f"(?s){REFUSED[text]}.*\\^"):
        compile_cql(f"{STREAM} SELECT * FROM T MATCH_RECOGNIZE ({text})")


def test_tuples_in_order_cost_no_more_the_longer_the_stream_is(monkeypatch):
    """Counted: how often a pattern is attempted, and how many tuples are held."""
    counted = []
    plain = matching.attempt
    monkeypatch.setattr(matching, "attempt", lambda *given: counted.append(1) or plain(*given))
    pattern = "ORDER BY ts MEASURES B.price AS p PATTERN (A B) DEFINE B AS price > A.price"
    operation = compile_cql(f"SELECT * FROM Tick MATCH_RECOGNIZE ({pattern}) INTO Up", [Tick]).operators[0].start("Up", 1)
    for n in range(2000):
        event = Tick("A", n % 5, ts=n * SECOND, id=n, source="x")
        operation.apply(matching.Delta([event]), event.ts, event.ts - SECOND)
    assert len(counted) < 2 * 2000
    assert operation.held < 1000
