"""Which raw events have been seen: exact, with memory that grows only with the gaps in each source's numbering."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from itertools import pairwise

from middleware.link.codec import Run


class Intervals:
    """A set of integers as sorted, disjoint, non-touching half-open intervals.

    Adding at the end of the last interval is O(1); elsewhere O(log gaps) to find, O(gaps) to insert.
    ``bounds``: where they start and where they stop.
    """

    __slots__ = ("bounds", "owner")

    def __init__(self, starts: Iterable[int] = (), stops: Iterable[int] = (), owner: object = None) -> None:
        self.bounds = list(starts), list(stops)
        self.owner = owner

    def __contains__(self, number: int) -> bool:
        return self.overlaps(number, number)

    def __len__(self) -> int:
        """How many intervals there are; memory grows with them."""
        return len(self.bounds[0])

    def overlaps(self, first: int, last: int) -> bool:
        """Whether any number of first..last is in the set."""
        starts, stops = self.bounds
        at = bisect_right(starts, last) - 1
        return at >= 0 and first < stops[at]

    def add(self, number: int) -> bool:
        """Add a number; False if it was there."""
        starts, stops = self.bounds
        if stops and stops[-1] == number:
            stops[-1] = number + 1
            return True
        at = bisect_right(starts, number)
        if at:
            if number < stops[at - 1]:
                return False
            if number == stops[at - 1] and (at == len(starts) or starts[at] != number + 1):
                stops[at - 1] = number + 1  # the commonest: it comes right after an interval, and closes no gap
                return True
        self.add_run(number, number)
        return True

    def add_new_run(self, first: int, last: int) -> bool:
        """Add first..last; False, and nothing is added, if any of them was there. O(1) at the end of the last interval."""
        _, stops = self.bounds
        if stops and stops[-1] == first:
            stops[-1] = last + 1
            return True
        if self.overlaps(first, last):
            return False
        self.add_run(first, last)
        return True

    def add_run(self, first: int, last: int) -> None:
        """Add first..last, none of which may be in the set."""
        (starts, stops), stop = self.bounds, last + 1
        at = bisect_right(starts, first)
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

    def check(self) -> None:
        flat = [bound for pair in zip(*self.bounds, strict=True) for bound in pair]
        assert all(low < high for low, high in pairwise(flat)), flat


class SeenIds:
    """The identities (source, id) that have been seen.

    What ``state`` returned does not change: its intervals are copied when they are first added to.
    """

    __slots__ = ("_owner", "_sources")

    def __init__(self) -> None:
        self._sources: dict[str, Intervals] = {}
        self._owner = object()  # of intervals that are in no state

    def __contains__(self, identity: tuple[str, int]) -> bool:
        intervals = self._sources.get(identity[0])
        return intervals is not None and identity[1] in intervals

    def add(self, source: str, number: int) -> bool:
        """Add an identity; False if it had been seen."""
        intervals = self._sources.get(source)
        if intervals is None or intervals.owner is not self._owner:
            intervals = self.of(source)
        return intervals.add(number)

    def of(self, source: str) -> Intervals:
        """The ids of one source that have been seen, to be added to before the next ``state``. O(1), or O(gaps) after one."""
        intervals = self._sources.get(source)
        if intervals is None or intervals.owner is not self._owner:
            starts, stops = intervals.bounds if intervals is not None else ((), ())
            intervals = self._sources[source] = Intervals(starts, stops, self._owner)
        return intervals

    def add_runs(self, runs: list[Run]) -> bool:
        """Add all of these, or none, and return False, if any had been seen or they are not sound."""
        sources = self._sources
        if len(runs) == 1:
            source, first, last = runs[0]
            return first <= last and self.of(source).add_new_run(first, last)
        if not _disjoint(runs):
            return False
        for source, first, last in runs:
            intervals = sources.get(source)
            if first > last or (intervals is not None and intervals.overlaps(first, last)):
                return False
        for source, first, last in runs:
            self.of(source).add_run(first, last)
        return True

    def state(self) -> dict[str, tuple[list[int], list[int]]]:
        """By source, where its intervals start and stop, for ``restore``. O(sources)."""
        self._owner = object()
        return {source: intervals.bounds for source, intervals in self._sources.items()}

    def restore(self, state: Mapping[str, tuple[list[int], list[int]]]) -> None:
        """Return to ``state``."""
        self._sources = {source: Intervals(*bounds, self._owner) for source, bounds in state.items()}

    def gaps(self) -> int:
        """How many intervals are kept, over all sources."""
        return sum(map(len, self._sources.values()))


def _disjoint(runs: list[Run]) -> bool:
    ordered = sorted(runs)
    return all(one[0] != other[0] or one[2] < other[1] for one, other in pairwise(ordered))


def runs_of(identities: list[tuple[str, int]], most: int) -> list[Run] | None:
    """The identities as runs, or None if that takes more than ``most`` or an identity occurs twice. O(n)."""
    spans: dict[str, tuple[int, int]] = {}
    runs: list[Run] = []
    for source, number in identities:
        span = spans.get(source)
        if span is None:
            spans[source] = (number, number)
        elif span[1] + 1 == number:
            spans[source] = (span[0], number)
        else:
            runs.append((source, *span))
            spans[source] = (number, number)
        if len(spans) + len(runs) > most:
            return None
    runs += [(source, first, last) for source, (first, last) in spans.items()]
    return runs if _disjoint(runs) else None
