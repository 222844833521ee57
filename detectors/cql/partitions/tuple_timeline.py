"""The tuples of one partition in total order, as far as windows may still reach back, and its windows' published results."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from typing import Any

from detectors.cql.changes import Rows, packed
from detectors.cql.partitions.trees import Prefix, Trees
from detectors.splicing import put_in, take_out
from detectors.window.aggregation.monoid import Partial
from detectors.window.content import SortedPlaces
from middleware.model.event import ORDER, Event, Key, Order
from middleware.model.operator import Snapshot

WindowKey = Any
"""The key that orders the windows of a partition: a boundary, or the place of a tuple."""


PrefixState = tuple[int, tuple[Event, Event], list[Partial]]
"""Size, first and last, and partial aggregates."""

TimelineState = tuple[list[Event], int, int | None, int | None, dict[WindowKey, list[Event]], PrefixState | None]
"""Events, how many were dropped, anchor, clock before the first, published, prefix."""


class TupleTimeline(SortedPlaces):
    """One partition.

    ``events``
        the tuples, in the total order.
    ``clocks``
        the application clock at each tuple, if windows are measured by a separate one.
    ``anchor``
        the time of the very first tuple, once it is forgotten.
    ``opened``
        the place of the first tuple of a DELTA window, while the window is open and known.
    ``trees``
        aggregates of all tuples, kept once there was a large window.
    ``prefix``
        the partial aggregates of forgotten tuples, for landmark windows.
    ``published``
        the results of each window that may still change, by its key; ``keys`` are these in order.
    """

    __slots__ = (
        "_clock_before",
        "_clock_of",
        "anchor",
        "clocks",
        "events",
        "keys",
        "opened",
        "prefix",
        "published",
        "trees",
    )

    def __init__(self, clock_of: Callable[[Event], int] | None, gap: int = 0) -> None:
        super().__init__(gap)
        self.events: list[Event] = []
        self.clocks: list[int] = []
        self.anchor: int | None = None
        self.opened: Order | None = None
        self.trees: Trees | None = None
        self.prefix: Prefix | None = None
        self.published: dict[WindowKey, list[Event]] = {}
        self.keys: list[WindowKey] = []
        self._clock_of = clock_of
        self._clock_before: int | None = None

    @property
    def first(self) -> int | None:
        """The time of the first tuple ever, not counting withdrawn ones."""
        return self.anchor if self.anchor is not None else self.events[0].ts if self.events else None

    def change(self, retracts: list[Event], inserts: list[Event]) -> list[Order]:
        """Remove and insert tuples; returns the disturbed places. O(changes log n), and moving later tuples."""
        places: list[Order] = []
        if self.trees is not None:
            try:
                self.trees.change(retracts, inserts)
            except OverflowError:  # they are rebuilt when next needed, if possible
                self.trees = None
        if retracts:
            places = sorted(map(ORDER, retracts))
            take_out(self.events, self.take(places))
        if inserts:
            inserts = sorted(inserts, key=ORDER)
            orders = list(map(ORDER, inserts))
            at = self.put(orders)
            if at is None:
                self.events += inserts
            else:
                put_in(self.events, at, inserts)
            places += orders
        if self._clock_of is not None:
            self._set_clocks(bisect_left(self.orders, min(places)))
        return places

    def _set_clocks(self, start: int) -> None:
        """Recompute the application clock from a place on."""
        assert self._clock_of is not None
        del self.clocks[start:]
        shown = self.clocks[-1] if self.clocks else self._clock_before
        for event in self.events[start:]:
            time = self._clock_of(event)
            shown = time if shown is None or time > shown else shown
            self.clocks.append(shown)

    def clock_before(self, at: int) -> int | None:
        """The application clock before the tuple at a place; None before the first of all, or if there is no such clock."""
        return self.clocks[at - 1] if at and self.clocks else self._clock_before

    def clock_after(self, time: int, count: int) -> int:
        """How many of the first ``count`` tuples come while the application clock is at most ``time``. O(log n)."""
        return bisect_right(self.clocks, time, 0, count)

    def place(self, order: Order) -> int:
        """The place where a tuple of this order is, or would be. O(log n)."""
        return bisect_left(self.orders, order)

    def publish(self, key: WindowKey, results: list[Event]) -> list[Event]:
        """Set the results of a window; returns its former ones. O(log windows)."""
        before = self.published.get(key)
        if results:
            if before is None:
                insort(self.keys, key)
            self.published[key] = results
        elif before is not None:
            del self.published[key]
            del self.keys[bisect_left(self.keys, key)]
        return before or []

    def keys_between(self, above: WindowKey | None, below: WindowKey | None) -> list[WindowKey]:
        """Published windows with above < key < below (None: no bound)."""
        start = 0 if above is None else bisect_right(self.keys, above)
        return self.keys[start : len(self.keys) if below is None else bisect_left(self.keys, below)]

    def forget(self, count: int, final: int) -> None:
        """Forget the first ``count`` tuples, and windows whose results are final. O(forgotten and moved tuples)."""
        if count:
            if self.anchor is None:
                self.anchor = self.events[0].ts
            if self.trees is not None:
                self.trees.forget(self.orders[count - 1])
            if self.clocks:
                self._clock_before = self.clocks[count - 1]
                del self.clocks[:count]
            self.drop(count)
            del self.events[:count]
            if not self.events:
                self.opened = None
        done = [key for key, results in self.published.items() if results[0].ts <= final]
        if done:
            for key in done:
                del self.published[key]
            self.keys = sorted(self.published)

    def state(self) -> TimelineState:
        """A copy of the whole state."""
        held, prefix = None, self.prefix
        if prefix is not None and prefix.window is not None:
            held = prefix.window.size, (prefix.window.first, prefix.window.last), prefix.partials
        return self.events.copy(), self.dropped, self.anchor, self._clock_before, self.published.copy(), held

    def restore(
        self, state: Snapshot, unpack: Callable[[Rows], list[Event]], unpack_results: Callable[[Rows], list[Event]]
    ) -> None:
        """Restore a state that ``plain`` has made plain values of, except for the prefix."""
        rows, self.dropped, self.anchor, self._clock_before, published = state
        self.events = unpack(rows)
        self.orders, self.starts = [], []
        self.put(list(map(ORDER, self.events)))
        self.clocks = []
        if self._clock_of is not None:
            self._set_clocks(0)
        self.published = {key: unpack_results(results) for key, results in published}
        self.keys = sorted(self.published)


def plain(states: list[tuple[Key, TimelineState]]) -> Iterator[Any]:
    """Timelines by key, as plain values."""
    for key, (events, gone, anchor, clock, published, prefix) in states:
        windows = [(window, packed(results)) for window, results in published.items()]
        held = None if prefix is None else (prefix[0], packed(prefix[1]), prefix[2])
        yield key, (packed(events), gone, anchor, clock, windows), held
