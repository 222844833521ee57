"""Windows by key: mean and largest value over 10 s, every 1 s, of 1,000 keys; 10 % of the events come up to 500 ms late.

The baseline is the loop one would write by hand: panes of 1 s, a watermark 500 ms behind, results when it passes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from slackline_benchmarks.window_workload import cost

from detectors.window.kinds import Hopping
from detectors.window.monoids import MAX, MEAN
from detectors.window.windows import Windows
from middleware.model.change import Delta
from middleware.model.event import END, Event
from middleware.model.operator import Operation
from middleware.model.time import MILLISECOND

SECOND = 1_000 * MILLISECOND
EVENTS = 1_000_000
KEYS = 1_000
SIZE, EVERY = 10, 1
LATE = 500
BATCH = 256

TS = attrgetter("ts")


class Reading(Event, frozen=True):
    sensor: int
    value: float


class Average(Event, frozen=True):
    sensor: int
    start: int
    end: int
    mean: float
    most: float


def keyed_cases(events: int = EVENTS) -> list[tuple[str, Callable[[], float], Callable[[], float]]]:
    """Final results on close, and early ones with corrections, each against the loop by hand, which has finals only."""
    cache: list[list[list[Any]]] = []

    def arrived() -> list[list[Any]]:
        if not cache:
            cache.append(batches(events))
        return cache[0]

    def loop() -> float:
        given = arrived()
        return cost(lambda: by_hand(given), events)

    def windows(early: bool) -> Callable[[], float]:
        def measure() -> float:
            given = arrived()
            return cost(lambda: run(given, early), events)

        return measure

    return [("window.keyed", windows(False), loop), ("window.keyed.early", windows(True), loop)]


def batches(events: int, keys: int = KEYS) -> list[list[Any]]:
    """One event a millisecond, in order of arrival."""
    rng = random.Random(1)
    ordered = [Reading(rng.randrange(keys), rng.random(), ts=n * MILLISECOND + 1, id=n, source="bench") for n in range(events)]
    arrival = [event.ts + (rng.randrange(LATE) * MILLISECOND if rng.random() < 0.1 else 0) for event in ordered]
    arrived = [event for _, event in sorted(zip(arrival, ordered, strict=True), key=lambda pair: pair[0])]
    return [arrived[start : start + BATCH] for start in range(0, events, BATCH)]


def run(given: list[list[Any]], early: bool) -> list[Event]:
    """The operator, told of time as a unit with K = 500 ms would tell it: of all that came, or of what is 500 ms behind."""
    return fed(planned(SIZE * SECOND, EVERY * SECOND).start("bench", 1), given, early)


def planned(size: int, every: int) -> Windows:
    """Mean and largest value of each sensor over ``size``, every ``every`` (ns)."""
    values = {"mean": (MEAN, "value"), "most": (MAX, "value")}
    return Windows(Reading, Hopping(size, every), values, key="sensor", result=Average)


def fed(operation: Operation, given: list[list[Any]], early: bool) -> list[Event]:
    """All results of an operation over batches."""
    results: list[Event] = []
    clock = 0
    for batch in given:
        clock = max(clock, *map(TS, batch))
        mark = clock - LATE * MILLISECOND
        out = operation.apply(Delta(batch), clock if early else mark, mark)
        results += out.inserts
    results += operation.apply(Delta(), END, END).inserts
    return results


def by_hand(given: list[list[Any]]) -> list[Event]:
    """The hand-written loop. Its sums are rounded as they come."""
    panes: dict[int, dict[int, list[Any]]] = {}
    results: list[Event] = []
    clock = done = 0
    for batch in given:
        for event in batch:
            ts, sensor, value = event.ts, event.sensor, event.value
            if ts > clock:  # noqa: PLR1730
                clock = ts
            number = -(-ts // SECOND)
            pane = panes.get(number)
            if pane is None:
                pane = panes[number] = {}
            found = pane.get(sensor)
            if found is None:
                pane[sensor] = [1, value, value]
            else:
                found[0] += 1
                found[1] += value
                if value > found[2]:  # noqa: PLR1730 (max costs a call)
                    found[2] = value
        while done < (clock - LATE * MILLISECOND) // SECOND:
            done += 1
            _close(panes, done, results)
    while panes:
        done += 1
        _close(panes, done, results)
    return results


def _close(panes: dict[int, dict[int, list[Any]]], end: int, results: list[Event]) -> None:
    """The results of all keys for the window that ends with this pane."""
    totals: dict[int, list[Any]] = {}
    for number in range(end - SIZE + 1, end + 1):
        for sensor, (count, total, most) in panes.get(number, {}).items():
            found = totals.get(sensor)
            if found is None:
                totals[sensor] = [count, total, most]
            else:
                found[0] += count
                found[1] += total
                if most > found[2]:  # noqa: PLR1730
                    found[2] = most
    for sensor, (count, total, most) in totals.items():
        stop = end * SECOND
        results.append(Average(sensor, stop - SIZE * SECOND, stop, total / count, most, ts=stop))
    panes.pop(end - SIZE + 1, None)
