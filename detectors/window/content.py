"""What the windows of one key hold: events in total order, and a tree for each aggregate, shared by all windows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from typing import Any, NamedTuple

from detectors.window.fiba import Aggregator, Fiba
from detectors.window.monoid import Monoid
from middleware.event import Order

Values = tuple[Any, ...]
"""What an event adds to each aggregate; None: nothing."""


class Entry(NamedTuple):
    """An event as windows keep it."""

    order: Order
    values: Values


class Content:
    """Sorted entries. Changes cost O(log d) a tree, results O(log of distance and size) each.

    ``dropped``
        how many entries were dropped, oldest first, since the beginning: count windows go by rank.
    """

    __slots__ = ("_trees", "dropped", "orders", "values")

    def __init__(self, monoids: Iterable[Monoid]) -> None:
        self.orders: list[Order] = []
        self.values: dict[Order, Values] = {}
        self.dropped = 0
        self._trees: list[Aggregator] = [Fiba(monoid, ordered=True) for monoid in monoids]

    def __len__(self) -> int:
        return len(self.orders)

    def insert(self, entries: list[Entry]) -> None:
        """Add entries that are not there. O(k log k) for k of them, and one repair of each tree."""
        entries.sort(key=_order)
        orders = [entry.order for entry in entries]
        if not self.orders or orders[0] > self.orders[-1]:
            self.orders += orders
        else:
            for order in orders:
                insort(self.orders, order)
        self.values.update(entries)
        for place, tree in enumerate(self._trees):
            given = [(order, values[place]) for order, values in entries if values[place] is not None]
            if given:
                tree.bulk_insert([order for order, _ in given], [value for _, value in given])

    def remove(self, order: Order) -> bool:
        """Take out an entry; False if it is not there."""
        values = self.values.pop(order, None)
        if values is None:
            return False
        del self.orders[bisect_left(self.orders, order)]
        for value, tree in zip(values, self._trees, strict=True):
            if value is not None:
                tree.evict(order)
        return True

    def drop(self, count: int) -> None:
        """Forget the oldest entries."""
        if not count:
            return
        last = self.orders[count - 1]
        for order in self.orders[:count]:
            del self.values[order]
        del self.orders[:count]
        self.dropped += count
        for tree in self._trees:
            tree.bulk_evict(last)

    def results(self, low: Any, high: Any) -> list[Any]:
        """The aggregates from ``low`` to ``high``, times or places in the total order, both included."""
        return [tree.range_query(low, high) for tree in self._trees]

    def after(self, ts: int) -> int:
        """The number of the first entry later than ``ts``; how many are not. O(log n)."""
        return bisect_left(self.orders, (ts + 1,))

    def first_after(self, ts: int) -> int | None:
        """The time of the first entry later than ``ts``, None if there is none."""
        place = self.after(ts)
        return self.orders[place][0] if place < len(self.orders) else None


class Runs(Content):
    """Content that knows its runs: entries of which none is more than ``gap`` (ns) after the one before.

    ``starts``
        the time at which each run begins, in order; so that the ends of a run of any length are found in O(log n).
    """

    __slots__ = ("_gap", "starts")

    def __init__(self, monoids: Iterable[Monoid], gap: int) -> None:
        super().__init__(monoids)
        self._gap = gap
        self.starts: list[int] = []

    def first(self, ts: int) -> int:
        """The first time of the run of which there is an entry at ``ts``."""
        return self.starts[bisect_right(self.starts, ts) - 1]

    def last(self, ts: int) -> int:
        """The last time of the run of which there is an entry at ``ts``."""
        number = bisect_right(self.starts, ts)
        end = self._place(self.starts[number]) if number < len(self.starts) else len(self.orders)
        return self.orders[end - 1][0]

    def insert(self, entries: list[Entry]) -> None:
        entries.sort(key=_order)
        times = dict.fromkeys(entry.order[0] for entry in entries)
        if self.orders and entries[0].order <= self.orders[-1]:
            super().insert(entries)
            for ts in times:
                self._mark(ts)
            return
        newest = self.orders[-1][0] if self.orders else None  # all come behind what is there, as they mostly do
        super().insert(entries)
        for ts in times:
            if newest is None or ts - newest > self._gap:
                self.starts.append(ts)
            newest = ts

    def remove(self, order: Order) -> bool:
        if not super().remove(order):
            return False
        ts = order[0]
        place = self._place(ts)
        if place == len(self.orders) or self.orders[place][0] > ts:  # it was the last one at its time
            number = bisect_left(self.starts, ts)
            if number < len(self.starts) and self.starts[number] == ts:
                del self.starts[number]
            if place < len(self.orders):
                self._mark(self.orders[place][0])
        return True

    def drop(self, count: int) -> None:
        super().drop(count)
        if count and self.orders:
            del self.starts[: bisect_left(self.starts, self.orders[0][0])]
            self._mark(self.orders[0][0])
        elif count:
            self.starts.clear()

    def _place(self, ts: int) -> int:
        """The number of the first entry that is not before ``ts``."""
        return bisect_left(self.orders, (ts,))

    def _mark(self, ts: int) -> None:
        """Get right whether runs begin at ``ts``, where there is an entry, and at the time after it."""
        place, behind = self._place(ts), self.after(ts)
        self._set(ts, not place or ts - self.orders[place - 1][0] > self._gap)
        if behind < len(self.orders):
            following = self.orders[behind][0]
            self._set(following, following - ts > self._gap)

    def _set(self, ts: int, begins: bool) -> None:
        number = bisect_left(self.starts, ts)
        is_there = number < len(self.starts) and self.starts[number] == ts
        if begins and not is_there:
            self.starts.insert(number, ts)
        elif is_there and not begins:
            del self.starts[number]


def _order(entry: Entry) -> Order:
    return entry.order
