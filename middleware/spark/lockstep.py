"""Partitions of a feed in step: none may run ahead of the slowest by more than a bounded skew of arrival time. Pure."""

from __future__ import annotations

from middleware.event import END, NEVER


class Lockstep:
    """Who has come how far, and how far each may go: up to the earliest unsent arrival of all, plus the skew.

    The partition that is furthest behind may always send its next event, so they never wait for each other in a circle.
    All times are arrival times (ns).
    """

    def __init__(self, partitions: int, skew: int) -> None:
        self.skew = skew
        self.max_skew = 0
        """The furthest that one partition was ever seen ahead of another's next event."""
        self._next: list[int | None] = [None] * partitions
        self._events = [0] * partitions

    def report(self, partition: int, following: int, last: int = NEVER, events: int = 0) -> None:
        """``partition`` has sent ``events`` in all, the ``last`` of them last, and ``following`` is next (END: no more)."""
        self._next[partition] = following
        self._events[partition] = events
        if last != NEVER and self.joined:
            self.max_skew = max(self.max_skew, last - min(self.slowest, last))

    @property
    def joined(self) -> bool:
        """Whether every partition has reported."""
        return None not in self._next

    @property
    def slowest(self) -> int:
        """The earliest unsent arrival of all; NEVER until every partition has reported."""
        return min(following for following in self._next if following is not None) if self.joined else NEVER

    @property
    def limit(self) -> int:
        """Events that arrive up to here may be sent."""
        slowest = self.slowest
        return slowest if slowest in (NEVER, END) else slowest + self.skew

    @property
    def events(self) -> int:
        return sum(self._events)

    def restart(self) -> None:
        """All partitions begin anew (Spark tries a failed job again)."""
        self._next = [None] * len(self._next)
        self._events = [0] * len(self._events)
