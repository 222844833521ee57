"""Columns that wait in a unit: kept as they came, and parted as time passes them."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import chain, count

from middleware.model.columns import EventColumns
from middleware.model.event import END, ORDER, Event, EventType


class WaitingColumns:
    """Events that are not yet to be emitted, as columns.

    ``pieces``
        a heap of (the earliest time, a number, the columns).
    """

    def __init__(self) -> None:
        self.pieces: list[tuple[int, int, EventColumns]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return sum(len(piece) for _, _, piece in self.pieces)

    @property
    def earliest(self) -> int:
        """The time of the first event; END if there is none."""
        return self.pieces[0][0] if self.pieces else END

    def add(self, columns: EventColumns) -> None:
        """Keep columns. O(log pieces)."""
        if len(columns):
            heappush(self.pieces, (int(columns.times.min()), next(self._numbers), columns))

    def until(self, ts: int) -> list[EventColumns]:
        """Take out the events with times up to ``ts``, one piece for each type. O(events in the pieces it touches)."""
        ready: dict[EventType, list[EventColumns]] = {}
        while self.earliest <= ts and self.pieces:
            _, _, piece = heappop(self.pieces)
            due = piece.times <= ts
            if not due.all():
                self.add(piece.filter(~due))
                piece = piece.filter(due)
            ready.setdefault(piece.event_type, []).append(piece)
        return [pieces[0].joined(pieces[1:]) for pieces in ready.values()]

    def first(self) -> Event | None:
        """The first event in total order. O(events of one piece)."""
        earliest = self.earliest
        found = [piece.filter(piece.times == earliest).events() for start, _, piece in self.pieces if start == earliest]
        return min(chain.from_iterable(found), key=ORDER, default=None)

    def take_events(self) -> list[Event]:
        """Take out all, as events, in no order."""
        events = [event for _, _, piece in self.pieces for event in piece.events()]
        self.pieces.clear()
        return events
