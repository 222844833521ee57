"""The rule: tuples of two sides that have one key meet if they are near in time; each side says how long its tuples stay."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping

from middleware.model.event import IDENTITY, Event, Key

Met = tuple[list[Event], list[Event], list[int]]
"""Pairs as three columns: the left tuples, the right ones, and identities, each the sum of both tuples' marks."""

Marking = tuple[int, Mapping[str, int]]
"""How tuples of a side get their marks, modulo 2^64: their id times the factor, plus a hash of their source."""

Held = tuple[Event, int]
"""A tuple and its mark."""

_SCANNED = 24
"""Up to this many tuples of a key are scanned one by one, which is faster than a search."""


def _ts(held: Held) -> int:
    return held[0].ts


class Pairs:
    """A left tuple l and a right one r of one key meet if ``l.ts - right < r.ts < l.ts + left``.

    ``left``, ``right``
        how long (ns) a tuple of that side stays in its window.
    ``of_left``, ``of_right``
        how tuples of that side are marked.
    """

    def __init__(self, left: int, right: int, of_left: Marking, of_right: Marking) -> None:
        self._sizes = left, right
        self._marking = of_left, of_right
        self._sides: tuple[dict[Key, list[Held]], dict[Key, list[Held]]] = ({}, {})
        self.held = 0

    @property
    def keys(self) -> int:
        """How many keys there are, counting each side separately."""
        return len(self._sides[0]) + len(self._sides[1])

    def insert(self, is_left: bool, keys: list[Key], events: list[Event]) -> Met:
        """Insert tuples of one side; returns the pairs they make. O(log n + pairs) each."""
        met: Met = ([], [], [])
        own = self._sides[not is_left]
        for key, event in zip(keys, events, strict=True):
            mark = self._mark(is_left, event)
            there = own.get(key)
            if there is None:
                own[key] = [(event, mark)]
            elif there[-1][0].ts <= event.ts:
                there.append((event, mark))
            else:
                insort(there, (event, mark), key=_ts)
            self._meet(is_left, key, event, mark, met)
        self.held += len(events)
        return met

    def remove(self, is_left: bool, keys: list[Key], events: list[Event]) -> Met:
        """Remove tuples of one side; returns the pairs they made. O(log n + pairs) each."""
        met: Met = ([], [], [])
        own = self._sides[not is_left]
        for key, event in zip(keys, events, strict=True):
            there = own[key]
            at = bisect_left(there, event.ts, key=_ts)
            while IDENTITY(there[at][0]) != IDENTITY(event):
                at += 1
            del there[at]
            if not there:
                del own[key]
            self._meet(is_left, key, event, self._mark(is_left, event), met)
        self.held -= len(events)
        return met

    def _mark(self, is_left: bool, event: Event) -> int:
        factor, hashes = self._marking[not is_left]
        return event.id * factor + hashes[event.source]

    def _meet(self, is_left: bool, key: Key, event: Event, mark: int, met: Met) -> None:
        others = self._sides[is_left].get(key)
        if others is None:
            return
        ahead, behind = self._sizes if is_left else self._sizes[::-1]
        low, high = event.ts - behind, event.ts + ahead
        if len(others) > _SCANNED:
            near = others[bisect_right(others, low, key=_ts) : bisect_left(others, high, key=_ts)]
        else:
            near = [other for other in others if low < other[0].ts < high]
        left, right, identities = met
        (left if is_left else right).extend([event] * len(near))
        (right if is_left else left).extend(other for other, _ in near)
        identities.extend(((mark + theirs) & 2**64 - 1) - 2**63 for _, theirs in near)

    def forget(self, until: int) -> None:
        """Forget the tuples that can meet no tuple later than ``until``. O(keys + forgotten tuples)."""
        self.held = 0
        for side, size in zip(self._sides, self._sizes, strict=True):
            for key, events in list(side.items()):
                if events[0][0].ts <= until - size:
                    del events[: bisect_right(events, until - size, key=_ts)]
                    if not events:
                        del side[key]
                self.held += len(events)

    def content(self, is_left: bool) -> list[tuple[Key, list[Event]]]:
        """The tuples of one side by key, each in order of time."""
        return [(key, [event for event, _ in events]) for key, events in self._sides[not is_left].items()]
