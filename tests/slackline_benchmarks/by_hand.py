"""The baselines: for each task the fastest plain Python loop that we can write, over the same batches in the same disorder.

What makes them fast: events that come in order are appended, only the late ones sorted, a batch at a time in C; nothing is
looked up that cannot matter; state is cleared as soon as it cannot match any more; sums run on, maxima wait in monotonic
queues. They hold events back for a slack that is known beforehand, and have final results only. Times are unique.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from slackline_benchmarks.workload import (
    ALARM,
    DELAY,
    EVERY,
    SIZE,
    WITHIN,
    A,
    Alarm,
    Average,
    B,
    C,
    Found,
    Large,
    Match,
    Tick,
)

from middleware.model.event import NEVER, TS
from middleware.model.time import SECOND

Batches = Iterable[list[Any]]


def in_order(batches: Batches, slack: int = DELAY) -> Iterator[list[Any]]:
    """K-slack: after each batch, what has waited for the slack, in order.

    What comes in order is appended to one list; the rest to another, which is short and sorted once a batch.
    """
    ahead: list[Any] = []
    late: list[Any] = []
    clock = NEVER
    for batch in batches:
        for event in batch:
            if event.ts >= clock:
                clock = event.ts
                ahead.append(event)
            else:
                late.append(event)
        until = clock - slack
        late.sort(key=TS)
        some, more = bisect_right(ahead, until, key=TS), bisect_right(late, until, key=TS)
        ready = ahead[:some] + late[:more]
        ready.sort(key=TS)
        del ahead[:some], late[:more]
        yield ready
    yield sorted(ahead + late, key=TS)


def _of_steps(batches: Batches) -> Iterator[list[Any]]:
    return ([event for event in batch if (kind := event.__class__) is A or kind is B or kind is C] for batch in batches)


def negation(batches: Batches) -> list[Found]:
    """SEQ(A a, !(B b), C c) by tag: an A waits until a B of its tag comes, which clears them all."""
    waiting: dict[int, list[int]] = {}
    found: list[Found] = []
    for ready in in_order(_of_steps(batches)):
        for event in ready:
            kind, tag = event.__class__, event.tag
            if kind is B:
                waiting.pop(tag, None)
            elif kind is A:
                if tag in waiting:
                    waiting[tag].append(event.ts)
                else:
                    waiting[tag] = [event.ts]
            elif tag in waiting:
                ts = event.ts
                starts = waiting[tag]
                if starts[0] < ts - WITHIN:
                    starts = [start for start in starts if start >= ts - WITHIN]
                    if not starts:
                        del waiting[tag]
                        continue
                    waiting[tag] = starts
                found += [Found(tag, start, ts, ts=ts, id=len(found), source="hand", level=1) for start in starts]
    return found


def plain(batches: Batches) -> list[Found]:
    """SEQ(A a, B b, C c) by tag: a B that follows an A in time makes a pair, which a C completes; other Bs are forgotten."""
    first: dict[int, list[int]] = {}
    pairs: dict[int, list[int]] = {}
    found: list[Found] = []
    for ready in in_order(_of_steps(batches)):
        for event in ready:
            kind, tag, ts = event.__class__, event.tag, event.ts
            if kind is A:
                if tag in first:
                    first[tag].append(ts)
                else:
                    first[tag] = [ts]
            elif kind is B:
                if tag in first:
                    starts = first[tag]
                    if starts[0] < ts - WITHIN:
                        starts = [start for start in starts if start >= ts - WITHIN]
                        if not starts:
                            del first[tag]
                            continue
                        first[tag] = starts
                    pairs[tag] = pairs[tag] + starts if tag in pairs else starts.copy()
            elif tag in pairs:
                starts = [start for start in pairs[tag] if start >= ts - WITHIN]
                if starts:
                    pairs[tag] = starts
                    found += [Found(tag, start, ts, ts=ts, id=len(found), source="hand", level=1) for start in starts]
                else:
                    del pairs[tag]
    return found


def windows(batches: Batches) -> list[Average]:
    """Mean and maximum by sensor over 10 s every 1 s: panes of 1 s, which need no order within.

    As a pane ends it is added to running sums and to monotonic queues of maxima, and the one that leaves is taken out: work for
    each key and pane, not for each pane of each window. Sums of floats are rounded as they come and go.
    """
    panes: dict[int, dict[int, list[Any]]] = {}
    running: dict[int, list[Any]] = {}  # by sensor: count, sum, and (maximum, pane) while no later pane has a larger one
    results: list[Average] = []
    clock = least = most = done = 0
    pane: dict[int, list[Any]] = {}
    for batch in batches:
        for event in batch:
            ts, sensor, value = event.ts, event.sensor, event.value
            if ts > most or ts <= least:
                number = -(-ts // EVERY)
                pane = panes.setdefault(number, {})
                least, most = (number - 1) * EVERY, number * EVERY
            if ts > clock:  # noqa: PLR1730 (max costs a call)
                clock = ts
            if sensor in pane:
                found = pane[sensor]
                found[0] += 1
                found[1] += value
                if value > found[2]:  # noqa: PLR1730
                    found[2] = value
            else:
                pane[sensor] = [1, value, value]
        while done < (clock - DELAY) // EVERY:
            done += 1
            _end(panes, running, done, results)
    while panes:
        done += 1
        _end(panes, running, done, results)
    return results


def _end(panes: dict[int, dict[int, list[Any]]], running: dict[int, list[Any]], end: int, results: list[Average]) -> None:
    """The results of all keys for the window that ends with this pane."""
    gone = end - SIZE // EVERY
    for sensor, (count, total, _) in panes.pop(gone, {}).items():
        entry = running[sensor]
        if entry[0] == count:
            del running[sensor]
        else:
            entry[0] -= count
            entry[1] -= total
            if entry[2][0][1] == gone:
                entry[2].popleft()
    for sensor, (count, total, value) in panes.get(end, {}).items():
        if sensor in running:
            entry = running[sensor]
            entry[0] += count
            entry[1] += total
            queue = entry[2]
            while queue and queue[-1][0] <= value:
                queue.pop()
            queue.append((value, end))
        else:
            running[sensor] = [count, total, deque([(value, end)])]
    stop = end * EVERY
    start = stop - SIZE
    results += [
        Average(sensor, start, stop, total / count, queue[0][0], ts=stop) for sensor, (count, total, queue) in running.items()
    ]


def alarms(batches: Batches) -> list[Alarm]:
    """An exponentially smoothed value by sensor, and an alarm as it rises above the limit: one number a sensor is the state."""
    levels: dict[int, float] = {}
    found: list[Alarm] = []
    for ready in in_order(batches):
        for event in ready:
            sensor = event.sensor
            before = levels.get(sensor, 0.0)
            levels[sensor] = level = before + 0.2 * (event.value - before)
            if level > ALARM >= before:
                found.append(Alarm(sensor, level, ts=event.ts, id=event.id, source="hand", level=1))
    return found


def joined(batches: Batches) -> list[Match]:
    """Ticks and bids of a symbol within a second of each other, where the tick is dearer: a queue by symbol for each side."""
    ticks: dict[int, deque[Any]] = {}
    bids: dict[int, deque[Any]] = {}
    results: list[Match] = []
    for ready in in_order(batches):
        for event in ready:
            symbol, ts, price = event.symbol, event.ts, event.price
            is_tick = event.__class__ is Tick
            own, others = (ticks, bids) if is_tick else (bids, ticks)
            if symbol in others:
                queue = others[symbol]
                while queue and queue[0][0] <= ts - SECOND:
                    queue.popleft()
                if is_tick:
                    results += [
                        Match(symbol, price, bid, ts=ts, id=len(results), source="hand", level=1)
                        for _, bid in queue
                        if price > bid
                    ]
                else:
                    results += [
                        Match(symbol, dear, price, ts=ts, id=len(results), source="hand", level=1)
                        for _, dear in queue
                        if dear > price
                    ]
            if symbol in own:
                own[symbol].append((ts, price))
            else:
                own[symbol] = deque([(ts, price)])
    return results


def filtered(batches: Batches) -> list[Large]:
    """One test and one result after the other, a batch in one comprehension; it needs no order."""
    return [
        Large(event.symbol, price * quantity, ts=event.ts, id=event.id, source="hand", level=1)
        for batch in batches
        for event in batch
        if (price := event.price) > 50 and (quantity := event.quantity) < 500
    ]
