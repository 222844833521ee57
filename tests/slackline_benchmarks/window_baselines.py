"""Other ways to have the sum of a sliding window: what FiBA is measured against.

Some know nothing of disorder: they are given the same rounds sorted, and say so in their names.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from datetime import datetime, timedelta
from importlib.util import find_spec
from typing import Any

import numpy as np
from slackline_benchmarks.window_workload import FAR, columns, cost, values_for

from detectors.window.aggregation.monoid import Monoid
from detectors.window.aggregation.monoids import SUM

Baseline = Callable[[Any, Any, Any, Any, Any], Any]
"""(times and values the window is filled with, times to evict, times to insert, values) -> work to be measured."""


def available(n: int) -> list[tuple[str, Baseline, int, int]]:
    """Name, baseline, size of the window (n if it can cope with it) and rounds, of those whose libraries are there."""
    found: list[tuple[str, Baseline, int, int]] = [
        ("heap", heap, n, 50_000),
        ("two_stacks_sorted", two_stacks_sorted, n, 50_000),
        ("sorted_array", sorted_array, n, 500),
    ]
    if all(map(find_spec, ("river", "narwhals", "scipy"))):
        found.append(("river_sorted", river_sorted, 1 << 10, 1_000))  # O(n) a round
    if find_spec("polars"):
        found.append(("polars_sorted", polars_sorted, n, 200_000))
    return found


def measured(baseline: Baseline, n: int, distance: int, rounds: int) -> Callable[[], float]:
    """Measures a baseline over the rounds of the workload, ns a round."""
    monoid = SUM.of(int)

    def measure() -> float:
        times = np.concatenate([np.arange(n - distance), FAR + np.arange(distance)])
        return cost(baseline(times, values_for(monoid, n), *columns(monoid, n, distance, rounds)), rounds)

    return measure


def heap(times: Any, values: Any, evicted: Any, inserted: Any, new: Any) -> Callable[[], None]:
    """A heap of what is there, and one sum: subtracts what it evicts, which only sums allow, and only from the old end."""
    entries = list(zip(times.tolist(), values.tolist(), strict=True))
    rounds = list(zip(evicted.tolist(), inserted.tolist(), new.tolist(), strict=True))

    def work() -> None:
        total = sum(value for _, value in entries)
        for gone, ts, value in rounds:
            while entries[0][0] <= gone:
                total -= heapq.heappop(entries)[1]
            heapq.heappush(entries, (ts, value))
            total += value

    return work


class TwoStacks:
    """A window that is first in, first out, for any monoid: aggregates from the middle to the front, and one of all behind it.

    When the front is used up, it is made anew of what came since: O(1) amortised, O(n) at worst. The fastest of the
    aggregators that know nothing of disorder, for most sizes (VLDB 2019, section 5.5), and as short as they come.
    """

    def __init__(self, monoid: Monoid) -> None:
        self._monoid = monoid
        self._front: list[Any] = []
        self._back: list[Any] = []
        self._behind = monoid.identity

    def insert(self, value: Any) -> None:
        """Add the newest."""
        lifted = self._monoid.lift(value)
        self._back.append(lifted)
        self._behind = self._monoid.combine(self._behind, lifted)

    def evict(self) -> None:
        """Drop the oldest. Raises IndexError if there is none."""
        if not self._front:
            combined = self._behind = self._monoid.identity
            while self._back:
                combined = self._monoid.combine(self._back.pop(), combined)
                self._front.append(combined)
        self._front.pop()

    def query(self) -> Any:
        """The aggregate of all."""
        front = self._front[-1] if self._front else self._monoid.identity
        return self._monoid.lower(self._monoid.combine(front, self._behind))


def two_stacks_sorted(times: Any, values: Any, evicted: Any, inserted: Any, new: Any) -> Callable[[], None]:
    """Two stacks, in order: evict, insert, query."""
    window = TwoStacks(SUM.of(int))
    for value in values.tolist():
        window.insert(value)
    numbers = new.tolist()

    def work() -> None:
        for value in numbers:
            window.evict()
            window.insert(value)
            window.query()

    return work


def sorted_array(times: Any, values: Any, evicted: Any, inserted: Any, new: Any) -> Callable[[], None]:
    """Sorted numpy arrays, and the sum anew each time: what works for any ufunc. O(n) a round."""

    def work() -> None:
        held, kept = times, values
        for gone, ts, value in zip(evicted, inserted, new, strict=True):
            first = int(np.searchsorted(held, gone, "right"))
            place = int(np.searchsorted(held, ts)) - first
            held, kept = np.insert(held[first:], place, ts), np.insert(kept[first:], place, value)
            kept.sum()

    return work


def river_sorted(times: Any, values: Any, evicted: Any, inserted: Any, new: Any) -> Callable[[], None]:
    """river's TimeRolling: one update a round, in order, the oldest subtracted."""
    from river import stats, utils

    rolling: Any = utils.TimeRolling(stats.Sum(), period=timedelta(microseconds=len(times)))
    start = datetime(2020, 1, 1)
    for number, value in enumerate(values.tolist()):
        rolling.update(value, t=start + timedelta(microseconds=number))
    rounds = [(value, start + timedelta(microseconds=len(times) + number)) for number, value in enumerate(new.tolist())]

    def work() -> None:
        for value, moment in rounds:
            rolling.update(value, t=moment)
            rolling.get()

    return work


def polars_sorted(times: Any, values: Any, evicted: Any, inserted: Any, new: Any) -> Callable[[], None]:
    """polars, offline: the rolling sum over the whole sorted column at once. Nothing can come late, and nothing comes early."""
    import polars

    column = polars.Series("value", np.concatenate([values, new]))
    size = len(times)

    def work() -> None:
        column.rolling_sum(window_size=size)

    return work
