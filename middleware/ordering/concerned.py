"""Which units of a hierarchy a step concerns: those that read what has come, and what these make of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush


class Readers:
    """The places of units by the types that they read. ``reads``: what each unit reads, lowest level first."""

    def __init__(self, reads: Iterable[Sequence[str]]) -> None:
        self._places: dict[str, list[int]] = {}
        for place, names in enumerate(reads):
            for name in names:
                self._places.setdefault(name, []).append(place)

    def of(self, news: list[str]) -> Iterator[int]:
        """The places of the units that read any of these types, lowest level first, each once. O(those).

        The owner may add types to ``news`` between two steps of the iteration, of units above the one just given.
        """
        due: list[int] = []
        known, last = 0, -1
        while True:
            for name in news[known:]:
                for place in self._places.get(name, ()):
                    heappush(due, place)
            known = len(news)
            while due and due[0] == last:
                heappop(due)
            if not due:
                return
            last = heappop(due)
            yield last
