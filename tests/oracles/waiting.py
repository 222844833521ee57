"""The rule: events that are not yet to be emitted wait in strict total order; of two with one order key the first stays."""

from __future__ import annotations

from middleware.model.event import Event
from middleware.ordering.buffer import arranged, count_until, position_of, remove
from tests.oracles.buffers import merge


class Waiting:
    """Events that are not yet to be emitted, in strict total order."""

    def __init__(self) -> None:
        self._events: list[Event] = []

    def __len__(self) -> int:
        return len(self._events)

    def add(self, events: list[Event], after: int) -> tuple[list[Event], int]:
        """Keep those that are later than ``after``. Returns the others, as they came, and how many repeats were skipped: the
        event that was there came first. O(n log n), and the tail that they fall into."""
        early = [event for event in events if event.ts > after]
        ordered, repeats = arranged(early)
        repeats += merge(self._events, ordered)[1]
        return [event for event in events if event.ts <= after] if len(early) < len(events) else [], repeats

    def take(self, until: int) -> list[Event]:
        """Take out the events up to a time, in order. O(what waits), but as cheap as a move of memory is."""
        end = count_until(self._events, until)
        taken = self._events[:end]
        del self._events[:end]
        return taken

    def remove(self, events: list[Event]) -> list[Event]:
        """Remove events; returns those that are not here. O(k log n), and moves."""
        return remove(self._events, events)[1]

    def holds(self, event: Event) -> bool:
        """Whether an event with this order key waits. O(log n)."""
        return position_of(self._events, event) is not None

    def first(self) -> Event | None:
        """The first event, if there is one."""
        return self._events[0] if self._events else None

    def events(self) -> list[Event]:
        """All that wait, in order. O(n)."""
        return self._events.copy()
