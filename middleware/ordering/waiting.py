"""Columns that wait in a unit: kept as they came, and parted as time passes them."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import chain, count

from middleware.model.columns import EventColumns
from middleware.model.event import END, ORDER, Event, EventType

SPARSE = 8
"""Where fewer than one in so many events of some columns are left, they are copied: then the others need not live as long."""


class WaitingColumns:
    """Events that are not yet to be emitted, as columns.

    ``pieces``
        a heap of (the time of its first event, a number, columns in order of time, the place of that event).
    """

    def __init__(self) -> None:
        self.pieces: list[tuple[int, int, EventColumns, int]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return sum(len(piece) - start for _, _, piece, start in self.pieces)

    @property
    def earliest(self) -> int:
        """The time of the first event; END if there is none."""
        return self.pieces[0][0] if self.pieces else END

    def add(self, columns: EventColumns) -> None:
        """Keep columns. O(n) for those in order of time: else they are sorted, so that what is due can be cut off."""
        if len(columns):
            times = columns.times
            if not (columns.in_time or (times[1:] >= times[:-1]).all()):
                columns = columns.take(times.argsort(kind="stable"))
            heappush(self.pieces, (int(columns.times[0]), next(self._numbers), columns, 0))

    def until(self, ts: int) -> list[EventColumns]:
        """Take out the events with times up to ``ts``, one piece for each type. O(log n) for each piece that it touches."""
        ready: dict[EventType, list[EventColumns]] = {}
        while self.earliest <= ts and self.pieces:
            _, number, piece, start = heappop(self.pieces)
            times = piece.times
            end = int(times.searchsorted(ts, "right"))
            due = piece if end - start == len(piece) else piece.slice(start, end)
            if end < len(piece):
                rest = (piece, end) if SPARSE * (len(piece) - end) >= len(piece) else (piece.rest(end), 0)
                heappush(self.pieces, (int(times[end]), number, *rest))
            ready.setdefault(piece.event_type, []).append(due)
        return [pieces[0].joined(pieces[1:]) for pieces in ready.values()]

    def first(self) -> Event | None:
        """The first event in total order. O(pieces + events of its time)."""
        earliest = self.earliest
        of_then = [
            piece.slice(start, int(piece.times.searchsorted(earliest, "right")))
            for first, _, piece, start in self.pieces
            if first == earliest
        ]
        return min(chain.from_iterable(piece.events() for piece in of_then), key=ORDER, default=None)

    def take_events(self) -> list[Event]:
        """Take out all, as events, in no order."""
        events = [event for _, _, piece, start in self.pieces for event in piece.slice(start, len(piece)).events()]
        self.pieces.clear()
        return events
