"""The rule: an identity (source, id) counts once; the ids of a source are intervals, and events in a row are runs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import pairwise
from struct import iter_unpack

from middleware.broker.ingress.seen import Bounds, joined_runs
from middleware.link.codec import Run
from middleware.model.event import IDENTITY, Event


class Intervals:
    """A set of ids as sorted, disjoint, non-touching half-open intervals.

    Adding at the end of the last interval is O(1); elsewhere O(log gaps) to find, O(gaps) to insert.
    """

    __slots__ = ("_starts", "_stops")

    def __init__(self, starts: Iterable[int] = (), stops: Iterable[int] = ()) -> None:
        self._starts, self._stops = list(starts), list(stops)

    def __contains__(self, number: int) -> bool:
        return self.overlaps(number, number)

    def __len__(self) -> int:
        """How many intervals there are; memory grows with them."""
        return len(self._starts)

    def bounds(self) -> Bounds:
        """Where they start and where they stop. O(gaps)."""
        return self._starts.copy(), self._stops.copy()

    def overlaps(self, first: int, last: int) -> bool:
        """Whether any number of first..last is in the set."""
        at = bisect_right(self._starts, last) - 1
        return at >= 0 and first < self._stops[at]

    def add(self, number: int) -> bool:
        """Add a number; False if it was there."""
        return self.add_new_run(number, number)

    def add_new_run(self, first: int, last: int) -> bool:
        """Add first..last; False, and nothing is added, if any of them was there."""
        starts, stops = self._starts, self._stops
        if stops and stops[-1] == first:
            stops[-1] = last + 1
            return True
        if self.overlaps(first, last):
            return False
        stop, at = last + 1, bisect_right(starts, first)
        joins_left = at > 0 and stops[at - 1] == first
        joins_right = at < len(starts) and starts[at] == stop
        if joins_left and joins_right:
            stops[at - 1] = stops.pop(at)
            del starts[at]
        elif joins_left:
            stops[at - 1] = stop
        elif joins_right:
            starts[at] = first
        else:
            starts.insert(at, first)
            stops.insert(at, stop)
        return True

    def check(self) -> None:
        flat = [bound for pair in zip(self._starts, self._stops, strict=True) for bound in pair]
        assert all(low < high for low, high in pairwise(flat)), flat


def take_new(events: list[Event], of: Callable[[str], Intervals | None]) -> list[Event]:
    """The events whose ids were not there, in order; their ids are there now. The list itself if there is no other.

    ``of``: a source's intervals, or None if none of its events is to be taken.
    """
    new = [event for event in events if (ids := of(event.source)) is not None and ids.add(event.id)]
    return new if len(new) < len(events) else events


def take_ids(ids: bytes, codes: bytes, of: list[Intervals]) -> bytes | None:
    """Add identities to the intervals of their sources, unless they are there: a byte for each, 1 if it was new. None, and
    nothing is added, if one is there twice among them. ``ids``: int64, ``codes``: uint32, places in ``of``; little-endian.
    """
    identities = [(code, number) for (number,), (code,) in zip(iter_unpack("<q", ids), iter_unpack("<I", codes), strict=True)]
    if any(code >= len(of) for code, _ in identities):
        raise ValueError("one source for each id")
    if len(set(identities)) < len(identities):
        return None
    return bytes(of[code].add(number) for code, number in identities)


def runs_of(events: list[Event], most: int) -> list[Run] | None:
    """The identities of events as runs: see ``joined_runs``."""
    return joined_runs(map(IDENTITY, events), most)
