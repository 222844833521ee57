"""The content of one key's windows: events in total order, and a tree for each aggregate, shared by all windows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from detectors.splicing import put_in, take_out
from detectors.window.aggregation.fiba import Fiba
from detectors.window.aggregation.monoid import Monoid, Place
from middleware.model.event import END, NEVER, Order, Value

Values = tuple[Value, ...]
"""The value that an event adds to each aggregate; None adds nothing."""


class Forest:
    """For each aggregate, a tree (or an object with its interface) over the same entries."""

    __slots__ = ("trees",)

    def __init__(self, trees: Iterable[Value]) -> None:
        self.trees = list(trees)

    def insert(self, orders: list[Order], columns: Iterable[list[Value]]) -> None:
        """Add new entries, in order, with a column of values for each tree. One repair of each tree."""
        for tree, values in zip(self.trees, columns, strict=True):
            known = [place for place, value in enumerate(values) if value is not None]
            if known and len(known) == len(values):
                tree.bulk_insert(orders, values)
            elif known:
                tree.bulk_insert([orders[place] for place in known], [values[place] for place in known])

    def evict(self, orders: Iterable[Order]) -> None:
        """Remove entries, wherever they are. O(log d) each."""
        for order in orders:
            for tree in self.trees:
                if len(tree):
                    tree.evict(order)

    def drop(self, last: Order) -> None:
        """Forget all entries up to one."""
        for tree in self.trees:
            tree.bulk_evict(last)

    def results(self, low: Place, high: Place) -> list[Value]:
        """The aggregates from ``low`` to ``high``, times or places in the total order, both included. O(log n) each."""
        return [tree.range_query(low, high) for tree in self.trees]


class WindowEntry(NamedTuple):
    """An event as windows keep it."""

    order: Order
    values: Values


class SortedPlaces:
    """Sorted places in the total order; the oldest are dropped once they are no longer needed.

    ``dropped``
        how many were dropped since the beginning, because count windows go by rank.
    ``starts``
        the time at which each run begins, in order: places none of which is more than ``gap`` (ns) after the one before. So the
        ends of a run of any length are found in O(log n). With gap 0 they are not known.
    """

    __slots__ = ("_gap", "dropped", "orders", "starts")

    def __init__(self, gap: int = 0) -> None:
        self.orders: list[Order] = []
        self.dropped = 0
        self.starts: list[int] = []
        self._gap = gap

    def __len__(self) -> int:
        return len(self.orders)

    def after(self, ts: int) -> int:
        """The number of the first place later than ``ts``, which is how many are not later. O(log n)."""
        return bisect_left(self.orders, (ts + 1,))

    def before(self, ts: int) -> int:
        """The number of the first place that is not before ``ts``, which is how many are before it. O(log n)."""
        return bisect_left(self.orders, (ts,))

    def first_after(self, ts: int) -> int | None:
        """The time of the first place later than ``ts``, None if there is none."""
        place = self.after(ts)
        return self.orders[place][0] if place < len(self.orders) else None

    def put(self, orders: list[Order]) -> list[int] | None:
        """Add new places, which are sorted; returns the numbers that they get among the old ones, or None if all come last."""
        if self.orders and orders[0] < self.orders[-1]:
            numbers = [bisect_left(self.orders, order) for order in orders]
            put_in(self.orders, numbers, orders)
            self._settle(orders)
            return numbers
        if self._gap:
            before = self.orders[-1][0] if self.orders else NEVER
            for order in orders:
                if order[0] - before > self._gap or not self.starts:
                    self.starts.append(order[0])
                before = order[0]
        self.orders += orders
        return None

    def take(self, orders: list[Order]) -> list[int]:
        """Remove places that are there, which are sorted; returns the numbers that they had."""
        numbers = [bisect_left(self.orders, order) for order in orders]
        assert [self.orders[number] for number in numbers] == orders, "a place is withdrawn that was forgotten"
        take_out(self.orders, numbers)
        self._settle(orders)
        return numbers

    def drop(self, count: int) -> None:
        """Forget the oldest places."""
        del self.orders[:count]
        self.dropped += count
        if self._gap:
            first = self.orders[0][0] if self.orders else END
            del self.starts[: self._number(first)]
            if self.orders and self.starts[:1] != [first]:
                self.starts.insert(0, first)  # of its run only the end is left

    def run(self, ts: int) -> tuple[int, int]:
        """The places [low, high) of the last run that begins up to ``ts``; nowhere if none does."""
        orders, starts = self.orders, self.starts
        number = bisect_right(starts, ts)
        high = bisect_left(orders, (starts[number],)) if number < len(starts) else len(orders)
        return bisect_left(orders, (starts[number - 1],)) if number else 0, high

    def _settle(self, orders: list[Order]) -> None:
        """Update whether runs begin at these places and at those that follow them. O(log n) each, and moving the starts."""
        if not self._gap:
            return
        begins: dict[int, bool] = {}
        for ts in dict.fromkeys([order[0] for order in orders]):
            place, behind = self.before(ts), self.after(ts)
            begins[ts] = place < behind and self._begins(place)
            if behind < len(self.orders):
                begins[self.orders[behind][0]] = self._begins(behind)
        known = {ts: self._number(ts) for ts in sorted(begins)}
        is_there = {ts: number < len(self.starts) and self.starts[number] == ts for ts, number in known.items()}
        take_out(self.starts, [number for ts, number in known.items() if is_there[ts] and not begins[ts]])
        made = [ts for ts in known if begins[ts] and not is_there[ts]]
        put_in(self.starts, list(map(self._number, made)), made)

    def _begins(self, place: int) -> bool:
        """Whether a run begins with this place, the first at its time."""
        return not place or self.orders[place][0] - self.orders[place - 1][0] > self._gap

    def _number(self, ts: int) -> int:
        """How many runs begin before ``ts``."""
        return bisect_left(self.starts, ts)


class Content(SortedPlaces):
    """Sorted entries. A change costs O(log d) per tree, a result O(log of distance and size)."""

    __slots__ = ("_forest", "values")

    def __init__(self, monoids: Iterable[Monoid], gap: int = 0) -> None:
        super().__init__(gap)
        self.values: dict[Order, Values] = {}
        self._forest = Forest(Fiba(monoid, ordered=True) for monoid in monoids)

    def insert(self, entries: list[WindowEntry]) -> None:
        """Add new entries. O(k log k) for k of them, and one repair of each tree."""
        entries.sort(key=_order)
        orders = [entry.order for entry in entries]
        self.put(orders)
        self.values.update(entries)
        self._forest.insert(orders, [[values[place] for _, values in entries] for place in range(len(self._forest.trees))])

    def remove(self, orders: list[Order]) -> list[Order]:
        """Remove entries; returns those that were there, in order."""
        there = sorted(order for order in orders if order in self.values)
        self.take(there)
        for order in there:
            del self.values[order]
        self._forest.evict(there)
        return there

    def drop(self, count: int) -> None:
        """Forget the oldest entries."""
        if not count:
            return
        last = self.orders[count - 1]
        for order in self.orders[:count]:
            del self.values[order]
        super().drop(count)
        self._forest.drop(last)

    def results(self, low: Place, high: Place) -> list[Value]:
        """The aggregates from ``low`` to ``high``, times or places in the total order, both included."""
        return self._forest.results(low, high)


def _order(entry: WindowEntry) -> Order:
    return entry.order
