"""Aggregates that no tree gives in O(log n), updated as a window moves.

A window is queried by its first and its last place in the total order. The next window mostly begins and ends a little later:
new entries are added and those before it removed, so a result costs as much as the window has moved.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from typing import Generic, TypeVar

from detectors.splicing import put_in
from middleware.model.event import Key, Order, Value

Content = TypeVar("Content", bound="ValueCounts | Ranks")

_CHUNK = 512


class ValueCounts:
    """How often each value occurs. All NaNs are one value."""

    def __init__(self) -> None:
        self._counts: dict[Key, int] = {}

    def __len__(self) -> int:
        """How many different values there are."""
        return len(self._counts)

    def add(self, value: Value) -> None:
        """One more of a value. O(1)."""
        value = math.nan if value != value else value  # noqa: PLR0124 (NaNs are told apart by identity)
        self._counts[value] = self._counts.get(value, 0) + 1

    def remove(self, value: Value) -> None:
        """One less of a present value. O(1)."""
        value = math.nan if value != value else value  # noqa: PLR0124
        if self._counts[value] == 1:
            del self._counts[value]
        else:
            self._counts[value] -= 1


class Ranks:
    """Values in order, in chunks, to find the k-th. Zeros have no sign; NaNs have no rank and are only counted.

    >>> ranks = Ranks()
    >>> for value in (3.0, 1.0, 2.0, math.nan):
    ...     ranks.add(value)
    >>> len(ranks), ranks[1], ranks.nans
    (3, 2.0, 1)
    """

    def __init__(self) -> None:
        self._chunks: list[list[Value]] = []
        self._count = 0
        self.nans = 0

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, rank: int) -> Value:
        """The value of a rank, from 0. O(chunks)."""
        for chunk in self._chunks:
            if rank < len(chunk):
                return chunk[rank]
            rank -= len(chunk)
        raise IndexError("there are not so many values")

    def _chunk(self, value: Value) -> int:
        """The number of the chunk where a value belongs."""
        low, high = 0, len(self._chunks) - 1
        while low < high:
            middle = (low + high) // 2
            if self._chunks[middle][-1] < value:
                low = middle + 1
            else:
                high = middle
        return low

    def add(self, value: Value) -> None:
        """Add a value. O(log n), and moving part of a chunk."""
        if value != value:  # noqa: PLR0124 (NaN)
            self.nans += 1
            return
        self._count += 1
        if not self._chunks:
            self._chunks.append([_unsigned(value)])
            return
        at = self._chunk(value)
        chunk = self._chunks[at]
        insort(chunk, _unsigned(value))
        if len(chunk) > 2 * _CHUNK:
            self._chunks[at : at + 1] = [chunk[:_CHUNK], chunk[_CHUNK:]]

    def remove(self, value: Value) -> None:
        """Remove a present value. O(log n), and moving part of a chunk."""
        if value != value:  # noqa: PLR0124
            self.nans -= 1
            return
        self._count -= 1
        at = self._chunk(value)
        chunk = self._chunks[at]
        del chunk[bisect_left(chunk, value)]
        if not chunk:
            del self._chunks[at]


def _unsigned(value: Value) -> Value:
    return value + 0.0 if value.__class__ is float else value


class MovingContent(Generic[Content]):
    """The content of the window queried last, over entries that come and go; it has the interface of a tree.

    It holds the entries between two places, ``_bounds``, both included; nothing at first.
    """

    def __init__(self, kind: type[Content]) -> None:
        self._kind = kind
        self._orders: list[Order] = []
        self._values: dict[Order, Value] = {}
        self._content = kind()
        self._bounds: tuple[Order, Order] | None = None

    def bulk_insert(self, orders: Sequence[Order], values: Sequence[Value]) -> None:
        """Add new entries, in order. O(entries)."""
        if not self._orders or self._orders[-1] < orders[0]:
            self._orders += orders
        else:
            put_in(self._orders, [bisect_left(self._orders, order) for order in orders], list(orders))
        for order, value in zip(orders, values, strict=True):
            self._values[order] = value
            if self._holds(order):
                self._content.add(value)

    def __len__(self) -> int:
        """Entries."""
        return len(self._orders)

    def evict(self, order: Order) -> bool:
        """Remove an entry; False if it is not there."""
        if order not in self._values:
            return False
        del self._orders[bisect_left(self._orders, order)]
        self._leave(order)
        return True

    def bulk_evict(self, last: Order) -> None:
        """Remove all entries up to one."""
        count = bisect_right(self._orders, last)
        for order in self._orders[:count]:
            self._leave(order)
        del self._orders[:count]

    def _holds(self, order: Order) -> bool:
        return self._bounds is not None and self._bounds[0] <= order <= self._bounds[1]

    def _leave(self, order: Order) -> None:
        value = self._values.pop(order)
        if self._holds(order):
            self._content.remove(value)

    def range_query(self, low: Order, high: Order) -> Content:
        """The content from ``low`` to ``high``, both included; valid until the next call. O(the window's movement)."""
        orders, values = self._orders, self._values
        start, end = bisect_left(orders, low), bisect_right(orders, high)
        was, until = 0, 0
        if self._bounds is not None:
            was, until = bisect_left(orders, self._bounds[0]), bisect_right(orders, self._bounds[1])
        if abs(start - was) + abs(end - until) > end - start:
            self._content = self._kind()
            was = until = start
        content = self._content
        for add, one, other in ((content.add, start, was), (content.add, until, end)):
            for order in orders[one:other]:
                add(values[order])
        for order in [*orders[was:start], *orders[end:until]]:
            content.remove(values[order])
        self._bounds = low, high
        return content
