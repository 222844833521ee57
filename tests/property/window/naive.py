"""The naive window: a sorted list, and every result calculated anew from all values. What the other two must equal."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from slackline_benchmarks.listed_columns import bounds

from detectors.window.aggregation.monoid import Monoid
from middleware.model.errors import WindowError


class NaiveWindow:
    """The interface of ``Fiba``. Queries in O(n)."""

    def __init__(self, monoid: Monoid, *, min_arity: int = 8, ordered: bool = False) -> None:
        self.monoid = monoid
        self.min_arity = min_arity
        self.ordered = ordered
        self._times: list[Any] = []
        self._values: dict[Any, list[Any]] = {}

    def __len__(self) -> int:
        return len(self._times)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return iter([(ts, self.monoid.fold(self._values[ts])) for ts in self._times])

    @property
    def oldest(self) -> Any:
        return self._times[0] if self._times else None

    @property
    def youngest(self) -> Any:
        return self._times[-1] if self._times else None

    def insert(self, ts: Any, value: Any, *, replace: bool = False) -> None:
        if ts not in self._values:
            insort(self._times, ts)
        if replace or ts not in self._values:
            self._values[ts] = []
        self._values[ts].append(value)

    def evict(self, ts: Any) -> bool:
        if not self._times:
            raise WindowError("the window is empty: there is nothing to evict")
        if ts not in self._values:
            return False
        self._times.remove(ts)
        del self._values[ts]
        return True

    def evict_oldest(self) -> None:
        self.evict(self.oldest)

    def query(self) -> Any:
        return self._fold(self._times)

    def range_query(self, low: Any, high: Any) -> Any:
        low, high = bounds(low, high) if self.ordered else (low, high)
        return self._fold(self._times[bisect_left(self._times, low) : bisect_right(self._times, high)])

    def bulk_insert(self, times: Iterable[Any], values: Iterable[Any], *, replace: bool = False) -> None:
        times, values = list(times), list(values)
        if len(times) != len(values):
            raise WindowError(f"the columns differ in length: {len(times)} and {len(values)}")
        if any(b < a for a, b in pairwise(times)):
            raise WindowError("the times are not sorted")
        for ts, value in zip(times, values, strict=True):
            self.insert(ts, value, replace=replace)

    def bulk_evict(self, upto: Any) -> int:
        upto = bounds(upto, upto)[1] if self.ordered else upto
        gone = self._times[: bisect_right(self._times, upto)]
        for ts in gone:
            self.evict(ts)
        return len(gone)

    def round(self, evict_upto: Any, ts: Any, value: Any) -> Any:
        self.bulk_evict(evict_upto)
        self.insert(ts, value)
        return self.query()

    def rounds(self, evict_upto: Iterable[Any], times: Iterable[Any], values: Iterable[Any]) -> list[Any]:
        return [self.round(*one) for one in zip(evict_upto, times, values, strict=True)]

    def clear(self) -> None:
        self._times.clear()
        self._values.clear()

    def _fold(self, times: list[Any]) -> Any:
        return self.monoid.fold(value for ts in times for value in self._values[ts])

    def check(self) -> None:
        assert self._times == sorted(self._values)
