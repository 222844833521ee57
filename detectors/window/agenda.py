"""Keys by the time at which they are next due, so that periodic work need not visit all of them."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from middleware.model.event import Key


class Agenda:
    """For each key the earliest time that it was put down for. O(log keys) per change.

    >>> agenda = Agenda()
    >>> for key, time in [("a", 5), ("b", 9), ("a", 3), ("a", 7)]:
    ...     agenda.put(key, time)
    >>> list(agenda.due(5)), list(agenda.due(5)), len(agenda)
    (['a'], [], 1)
    """

    __slots__ = ("_count", "_heap", "_times")

    def __init__(self) -> None:
        self._times: dict[Key, int] = {}
        self._heap: list[tuple[int, int, Key]] = []  # time, a number that breaks ties, key; outdated if _times differs
        self._count = 0

    def __len__(self) -> int:
        return len(self._times)

    def __contains__(self, key: object) -> bool:
        return key in self._times

    def put(self, key: Key, time: int) -> None:
        """Put a key down for a time, unless it is down for an earlier one: whoever visits it then puts it down again."""
        known = self._times.get(key)
        if known is None or time < known:
            self._times[key] = time
            self._count += 1
            heappush(self._heap, (time, self._count, key))

    def remove(self, key: Key) -> None:
        """Remove a key, if it is there."""
        self._times.pop(key, None)

    def due(self, upto: int) -> Iterator[Key]:
        """Take the keys whose time is not after ``upto``, one by one; meanwhile they may be put down again, for later."""
        while self._heap and self._heap[0][0] <= upto:
            time, _, key = heappop(self._heap)
            if self._times.get(key) == time:
                del self._times[key]
                yield key
