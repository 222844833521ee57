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
        return bisect_right(self.orders, ts, key=_ts)

    def first_after(self, ts: int) -> int | None:
        """The time of the first entry later than ``ts``, None if there is none."""
        place = self.after(ts)
        return self.orders[place][0] if place < len(self.orders) else None


def _order(entry: Entry) -> Order:
    return entry.order


def _ts(order: Order) -> int:
    return order[0]
