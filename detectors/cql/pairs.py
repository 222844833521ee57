"""Two sides of tuples by key and time: what comes or goes on one side meets what is near it in time on the other.

``Pairs`` is in the native core where that is built, else ``PlainPairs``, which says what it does.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import Any

from middleware import native
from middleware.event import TS, Event

Met = tuple[list[Event], list[Event]]
"""Pairs as two columns: the left tuples, and the right ones."""

_SCANNED = 24
"""Up to so many tuples of a key are looked at one by one, which is faster than to search."""


class PlainPairs:
    """A left tuple l and a right one r of one key meet if ``l.ts - right < r.ts < l.ts + left``.

    ``left``, ``right``
        how long a tuple of that side stays in its window (ns).
    """

    def __init__(self, left: int, right: int) -> None:
        self._sizes = left, right
        self._sides: tuple[dict[Any, list[Event]], dict[Any, list[Event]]] = ({}, {})
        self.held = 0

    @property
    def keys(self) -> int:
        """How many keys there are, each side counted by itself."""
        return len(self._sides[0]) + len(self._sides[1])

    def insert(self, is_left: bool, keys: list[Any], events: list[Event]) -> Met:
        """Put tuples of one side in; returns the pairs they make. O(log n) each, and what they meet."""
        met: Met = [], []
        own = self._sides[not is_left]
        for key, event in zip(keys, events, strict=True):
            there = own.get(key)
            if there is None:
                own[key] = [event]
            elif there[-1].ts <= event.ts:
                there.append(event)
            else:
                insort(there, event, key=TS)
            self._meet(is_left, key, event, met)
        self.held += len(events)
        return met

    def remove(self, is_left: bool, keys: list[Any], events: list[Event]) -> Met:
        """Take tuples of one side out; returns the pairs they made. O(log n) each, and what they meet."""
        met: Met = [], []
        own = self._sides[not is_left]
        for key, event in zip(keys, events, strict=True):
            there = own[key]
            at = bisect_left(there, event.ts, key=TS)
            while (there[at].source, there[at].id) != (event.source, event.id):
                at += 1
            del there[at]
            if not there:
                del own[key]
            self._meet(is_left, key, event, met)
        self.held -= len(events)
        return met

    def _meet(self, is_left: bool, key: Any, event: Event, met: Met) -> None:
        others = self._sides[is_left].get(key)
        if others is None:
            return
        ahead, behind = self._sizes if is_left else self._sizes[::-1]
        low, high = event.ts - behind, event.ts + ahead
        if len(others) > _SCANNED:
            near = others[bisect_right(others, low, key=TS) : bisect_left(others, high, key=TS)]
        else:
            near = [other for other in others if low < other.ts < high]
        met[not is_left].extend([event] * len(near))
        met[is_left].extend(near)

    def forget(self, until: int) -> None:
        """Forget the tuples that can meet none later than ``until``. O(keys + what is forgotten)."""
        self.held = 0
        for side, size in zip(self._sides, self._sizes, strict=True):
            for key, events in list(side.items()):
                if events[0].ts <= until - size:
                    del events[: bisect_right(events, until - size, key=TS)]
                    if not events:
                        del side[key]
                self.held += len(events)

    def content(self, is_left: bool) -> list[tuple[Any, list[Event]]]:
        """The tuples of one side by key, each in order of time."""
        return [(key, list(events)) for key, events in self._sides[not is_left].items()]


Pairs: Any = native.Pairs if native.AVAILABLE else PlainPairs
