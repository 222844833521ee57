"""``slackline bench cql``: queries beside plain Python loops that somebody might write by hand for the same disorder.

Both take the same events in the same order of arrival, and both make an event of each result. ``cql.window`` is the query, the
events and the loop of ``bench window`` (``window.keyed``).
"""

from __future__ import annotations

import gc
import random
import time
from bisect import insort
from collections import deque
from collections.abc import Callable
from statistics import median
from typing import Any

from slackline_benchmarks import window_by_key

from detectors.cql.script import compile_cql
from middleware.model.change import Delta
from middleware.model.event import END, NEVER, TS, Event
from middleware.model.operator import Operator
from middleware.model.time import MILLISECOND, SECOND

EVENTS = 1_000_000
KEYS = 1_000
SPAN = 100 * SECOND
"""The events lie evenly over this time."""

LATE, DELAY = 0.1, 500 * MILLISECOND
"""A tenth of the events comes up to half a second late."""

BATCH = 10_000
"""Events that arrive at once."""


class Tick(Event, frozen=True):
    symbol: int
    price: float
    quantity: int


class Bid(Event, frozen=True):
    symbol: int
    price: float


class Match(Event, frozen=True):
    symbol: int
    price: float
    bid: float


class Large(Event, frozen=True):
    symbol: int
    amount: float | None


Loop = Callable[[list[list[Any]]], int]
"""A loop written by hand over batches of events; returns how many results it made."""

WINDOW = """SELECT sensor, window_start() AS start, window_end() AS end, avg(value) AS mean, max(value) AS most
            FROM Reading [SIZE 10 seconds EVERY 1 seconds] GROUP BY sensor INTO Bar"""
JOIN = """SELECT t.symbol AS symbol, t.price AS price, b.price AS bid FROM Tick AS t [SIZE 1 seconds EVERY 1]
          JOIN Bid AS b [SIZE 1 seconds EVERY 1] ON t.symbol = b.symbol AND t.price > b.price INTO Match"""
FILTER = "SELECT symbol, price * quantity AS amount FROM Tick WHERE price > 50 AND quantity < 500 INTO Large"


def bench_cql(rounds: int) -> list[dict[str, Any]]:
    """Events per second (processor time) of three queries, each beside its loop."""
    ticks = arrivals(_ticks(EVENTS))
    joined = arrivals(_ticks(EVENTS // 4) + _bids(EVENTS // 4))
    cases: list[tuple[str, str, list[list[Any]], Loop]] = [
        ("cql.window", WINDOW, window_by_key.batches(EVENTS), lambda given: len(window_by_key.by_hand(given))),
        ("cql.join", JOIN, joined, join_loop),
        ("cql.filter", FILTER, ticks, filter_loop),
    ]
    times: dict[str, list[tuple[float, float]]] = {name: [] for name, *_ in cases}
    for _ in range(rounds):
        for name, text, batches, loop in cases:
            operator = compile_cql(text, [window_by_key.Reading, Tick, Bid, Match, Large]).operators[0]
            times[name].append((_timed(lambda b=batches, o=operator: run(o, b)), _timed(lambda b=batches, f=loop: f(b))))  # type: ignore[misc]
    return [_entry(name, sum(map(len, batches)), times[name]) for name, _, batches, _ in cases]


def _entry(name: str, events: int, pairs: list[tuple[float, float]]) -> dict[str, Any]:
    ratio = median(loop / query for query, loop in pairs)
    query, loop = (events / median(side) for side in zip(*pairs, strict=True))
    return {"name": name, "value": query, "unit": "events/s", "baseline": loop, "ratio": ratio}


def _ticks(count: int) -> list[Any]:
    rng = random.Random(1)
    step = SPAN // count
    return [
        Tick(rng.randrange(KEYS), rng.random() * 100, rng.randrange(1000), ts=n * step, id=n, source="ticks")
        for n in range(count)
    ]


def _bids(count: int) -> list[Any]:
    rng = random.Random(2)
    step = SPAN // count
    return [Bid(rng.randrange(KEYS), rng.random() * 100, ts=n * step + 1, id=n, source="bids") for n in range(count)]


def arrivals(events: list[Any]) -> list[list[Any]]:
    """The events in batches, as they arrive."""
    rng = random.Random(3)
    times = [event.ts + (rng.randrange(DELAY) if rng.random() < LATE else 0) for event in events]
    arrived = [event for _, event in sorted(zip(times, events, strict=True), key=lambda pair: pair[0])]
    return [arrived[at : at + BATCH] for at in range(0, len(arrived), BATCH)]


def run(operator: Operator, batches: list[list[Any]]) -> int:
    """A query over the batches; results that wait for time come once the slack of DELAY has passed, as in the loops."""
    operation = operator.start(operator.name, 1)
    results = 0
    clock = NEVER
    for batch in batches:
        clock = max(clock, batch[-1].ts)
        until = clock - DELAY
        results += len(operation.apply(Delta(batch), until, until).inserts)
    return results + len(operation.apply(Delta(), END, END).inserts)


def join_loop(batches: list[list[Any]]) -> int:
    """Buffers until the watermark has passed, then joins in order, with a queue of the last second for each key and side."""
    waiting: list[Any] = []
    sides: tuple[dict[int, deque[Any]], dict[int, deque[Any]]] = ({}, {})
    results: list[Match] = []
    clock = NEVER
    for batch in [*batches, []]:
        for event in batch:
            if event.ts >= clock:
                clock = event.ts
                waiting.append(event)
            else:
                insort(waiting, event, key=TS)
        until = clock - DELAY if batch else END
        done = 0
        for event in waiting:
            if event.ts > until:
                break
            done += 1
            _join(event, sides, results)
        del waiting[:done]
    return len(results)


def _join(event: Any, sides: tuple[dict[int, deque[Any]], dict[int, deque[Any]]], results: list[Match]) -> None:
    is_tick = type(event) is Tick
    own, other = sides if is_tick else sides[::-1]
    symbol, least = event.symbol, event.ts - SECOND
    queue = other.get(symbol)
    if queue:
        while queue and queue[0].ts <= least:
            queue.popleft()
        for match in queue:
            tick, bid = (event, match) if is_tick else (match, event)
            if tick.price > bid.price:
                results.append(Match(symbol, tick.price, bid.price, ts=event.ts, id=len(results), source="Match", level=1))
    queue = own.get(symbol)
    if queue is None:
        queue = own[symbol] = deque()
    queue.append(event)


def filter_loop(batches: list[list[Any]]) -> int:
    """One test and one result after the other."""
    results: list[Large] = []
    for batch in batches:
        for event in batch:
            if event.price > 50 and event.quantity < 500:
                amount = event.price * event.quantity
                results.append(Large(event.symbol, amount, ts=event.ts, id=event.id, source="Large", level=1))
    return len(results)


def _timed(work: Callable[[], Any]) -> float:
    gc.collect()
    started = time.process_time()
    work()
    return time.process_time() - started
