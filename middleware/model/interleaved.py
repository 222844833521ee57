"""Events of several types in columns, and the order in which they came."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, overload

from middleware.model.columns import EventColumns
from middleware.model.event import Event, EventType

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


class Interleaved(Sequence[Event]):
    """Columns of several types, as one sequence of events in their order of arrival.

    ``pieces``
        the columns; several may be of one type.
    ``order``
        for each event, in order of arrival, its place among those of all pieces laid end to end, int64; if it is not given, the
        pieces came one after the other.
    """

    __slots__ = ("_events", "_order", "_times", "pieces")

    def __init__(self, pieces: Sequence[EventColumns], order: Array | None = None) -> None:
        self.pieces, self._order = pieces, order
        self._times: Array | None = None
        self._events: list[Event] | None = None

    @property
    def order(self) -> Array:
        """See above."""
        if self._order is None:
            import numpy as np

            self._order = np.arange(len(self))
        return self._order

    @property
    def times(self) -> Array:
        """Occurrence times in order of arrival, int64 ns."""
        if self._times is None:
            self._times = self._joined([piece.times for piece in self.pieces])
        return self._times

    @property
    def levels(self) -> Array | None:
        """Levels, int64; None if all are 0."""
        levels = [piece.levels for piece in self.pieces]
        if all(each is None for each in levels):
            return None
        return self._joined([0 * piece.times if own is None else own for own, piece in zip(levels, self.pieces, strict=True)])

    def sources(self) -> list[str]:
        """The sources of these events, each once. O(events)."""
        return list(dict.fromkeys(chain.from_iterable(piece.sources() for piece in self.pieces)))

    def of_types(self, types: Collection[EventType]) -> Array:
        """Which of the events are of one of these types."""
        import numpy as np

        return self._joined([np.full(len(piece), piece.event_type in types) for piece in self.pieces])

    def last(self) -> EventColumns:
        """The last event, as columns. Raises IndexError if there is none."""
        place = int(self.order[-1])
        for piece in self.pieces:
            if place < len(piece):
                return piece.slice(place, place + 1)
            place -= len(piece)
        raise IndexError("there are no events")

    def filter(self, mask: Array) -> Interleaved:
        """The events where ``mask`` (booleans, one an event) is true, in order."""
        import numpy as np

        chosen = np.empty(len(self), np.bool_)
        chosen[self.order] = mask
        ends = list(accumulate(map(len, self.pieces)))
        parts = np.split(chosen, ends[:-1])
        pieces = [piece.filter(part) for piece, part in zip(self.pieces, parts, strict=True)]
        return Interleaved(pieces, (chosen.cumsum() - 1)[self.order[mask]])

    def events(self) -> list[Event]:
        """The same as event objects; do not change the list. O(values), once."""
        if self._events is None:
            made = [event for piece in self.pieces for event in piece.events()]
            self._events = [made[place] for place in self.order.tolist()]
        return self._events

    def _joined(self, columns: list[Array]) -> Array:
        import numpy as np

        joined: Array = np.concatenate(columns)[self.order]
        return joined

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events())

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        return self.events()[index]


Columns = EventColumns | Interleaved
"""What comes at once, of one type or of several."""
