"""``slackline bench cql``: queries through the whole path, beside the fastest plain Python loops for the same disorder.

Both take the same events in the same order of arrival, and both make an event of each result. ``cql.window`` is the query, the
events and the loop of ``bench window`` (``window.keyed``).
"""

from __future__ import annotations

from typing import Any

from slackline_benchmarks import by_hand
from slackline_benchmarks.workload import (
    EVENTS,
    Bid,
    Case,
    Large,
    Match,
    Reading,
    Tick,
    bids,
    delayed,
    measured,
    readings,
    ticks,
    ways,
)

from detectors.cql.cql_script import compile_cql
from middleware.model.operator import Operator
from middleware.model.time import SECOND

SPAN = 100 * SECOND
"""Ticks and bids lie evenly over this time."""

WINDOW = """SELECT sensor, window_start() AS start, window_end() AS end, avg(value) AS mean, max(value) AS most
            FROM Reading [SIZE 10 seconds EVERY 1 seconds] GROUP BY sensor INTO Bar"""
JOIN = """SELECT t.symbol AS symbol, t.price AS price, b.price AS bid FROM Tick AS t [SIZE 1 seconds EVERY 1]
          JOIN Bid AS b [SIZE 1 seconds EVERY 1] ON t.symbol = b.symbol AND t.price > b.price INTO Match"""
FILTER = "SELECT symbol, price * quantity AS amount FROM Tick WHERE price > 50 AND quantity < 500 INTO Large"


def bench_cql(rounds: int) -> list[dict[str, Any]]:
    """Events per second (processor time) of three queries, results early and through the barrier, each beside its loop."""
    return measured(cql_cases(), rounds)


def cql_cases(events: int = EVENTS) -> list[Case]:
    """The queries over so many events; the join over half as many."""
    few = events // 4
    pairs = sorted(ticks(few, SPAN // few) + bids(few, SPAN // few), key=lambda event: event.ts)
    return [
        *ways("cql.window", lambda: query(WINDOW), delayed(readings(events)), by_hand.windows),
        *ways("cql.join", lambda: query(JOIN), delayed(pairs), by_hand.joined),
        *ways("cql.filter", lambda: query(FILTER), delayed(ticks(events, SPAN // events)), by_hand.filtered),
    ]


def query(text: str) -> Operator:
    """The query as an operator."""
    return compile_cql(text, [Reading, Tick, Bid, Match, Large]).operators[0]
