"""What waits in a unit: events in total order, and columns, kept as they came, and parted as time passes them."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import chain, count

from middleware import native
from middleware.model.columns import EventColumns
from middleware.model.event import END, ORDER, Event, EventType
from middleware.ordering.buffer import arranged, count_until, merge, position_of, remove


class PlainWaiting:
    """Events that are not yet to be emitted, in strict total order.

    The native twin keeps their times beside them: to put a batch in, or take one out, touches no other event.
    """

    def __init__(self) -> None:
        self._events: list[Event] = []

    def __len__(self) -> int:
        return len(self._events)

    def add(self, events: list[Event], after: int) -> tuple[list[Event], int]:
        """Keep those that are later than ``after``. Returns the others, as they came, and how many repeats were left out: the
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


Waiting: type[PlainWaiting] = native.Waiting if native.AVAILABLE else PlainWaiting

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
