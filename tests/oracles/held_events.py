"""The rule: a barrier holds one event for each identity, the one that came last, and releases them in total order."""

from __future__ import annotations

from heapq import heappop, heappush

from middleware.model.event import IDENTITY, ORDER, Event, Identity, Order


class HeldEvents:
    """Events of distinct identities; one that comes again takes the place of the one before."""

    def __init__(self) -> None:
        self._held: dict[Identity, Event] = {}
        self._heap: list[Order] = []

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, identity: object) -> bool:
        return identity in self._held

    @property
    def oldest(self) -> int | None:
        """A time that no event held is older than. O(1): discarded events count as long as their time has not come."""
        return self._heap[0][0] if self._heap else None

    def hold(self, events: list[Event], above: int) -> int:
        """Add the events with ts > ``above``; returns how many others there are. O(log n) each, O(1) in order."""
        refused = 0
        for event in events:
            if event.ts <= above:
                refused += 1
                continue
            self._held[IDENTITY(event)] = event
            heappush(self._heap, ORDER(event))
        return refused

    def discard(self, event: Event, of_any_type: bool = False) -> bool:
        """Remove the event with this one's identity, if it is here, and of this one's type; returns whether it was."""
        held = self._held.get(IDENTITY(event))
        if held is None or not (of_any_type or held.__class__ is event.__class__):
            return False
        del self._held[IDENTITY(event)]
        return True

    def release(self, until: int) -> list[Event]:
        """Remove the events with ts <= ``until``, and return them in total order. O(log n) each."""
        free = list[Event]()
        while self._heap and self._heap[0][0] <= until:
            order = heappop(self._heap)
            event = self._held.get((order[2], order[3]))
            if event is not None and ORDER(event) == order:  # else it was discarded, or came again, since
                free.append(event)
                del self._held[IDENTITY(event)]
        return free

    def clear(self) -> None:
        """Remove all events."""
        self._held.clear()
        self._heap.clear()

    def events(self) -> list[Event]:
        """All events, in no order."""
        return list(self._held.values())
