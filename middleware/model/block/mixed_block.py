"""Blocks of several types, and the order of arrival over all of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING, overload

from middleware import native
from middleware.model.block.arrays import integers
from middleware.model.block.block import Block
from middleware.model.event import NEVER, Event, EventType

if TYPE_CHECKING:
    from middleware.model.block.arrays import Array, ArrivalOrder


class MixedBlock(Sequence[Event]):
    """Blocks of several types as one sequence of events in their order of arrival.

    Events that came at once come when the others have got as far in time.

    ``pieces``
        the columns; several may be of one type.
    ``arrival_orders``
        of each piece, as ``Delta.arrival_order``: over the events of all pieces. None: its events came at once.
    """

    __slots__ = ("_arrival_orders", "_events", "_in_core", "_length", "_order", "_times", "pieces")

    def __init__(self, pieces: Sequence[Block], arrival_orders: Sequence[ArrivalOrder | None] | None = None) -> None:
        self.pieces = pieces
        self._arrival_orders = arrival_orders if arrival_orders is not None else [None] * len(pieces)
        self._length = sum(map(len, pieces))
        self._in_core: native.Interleaving | None = None
        self._order: Array | None = None
        self._times: Array | None = None
        self._events: list[Event] | None = None

    @property
    def in_core(self) -> native.Interleaving:
        """The order and the times as the native core reads them. O(n log n), once."""
        if self._in_core is None:
            self._in_core = native.Interleaving([piece.in_core for piece in self.pieces], self._arrival_orders)
        return self._in_core

    @property
    def order(self) -> Array:
        """For each event, in order of arrival, its place among those of all pieces laid end to end, int64."""
        if self._order is None:
            self._order = integers(self.in_core.order())
        return self._order

    @property
    def times(self) -> Array:
        """Occurrence times in order of arrival, int64 ns."""
        if self._times is None:
            self._times = integers(self.in_core.times())
        return self._times

    @property
    def newest(self) -> int:
        """The latest time; NEVER if there are no events."""
        return max((piece.newest for piece in self.pieces), default=NEVER)

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

    def last_source(self) -> str:
        """The source of the last event. Raises IndexError if there is none."""
        place = self.in_core.last()
        for piece in self.pieces:
            if place < len(piece):
                return piece.source(place)
            place -= len(piece)
        raise IndexError("there are no events")

    def filter(self, mask: Array) -> MixedBlock:
        """The events where ``mask`` (booleans, one an event) is true, in order."""
        import numpy as np

        ends = list(accumulate(map(len, self.pieces)))[:-1]
        places = np.empty(len(self), np.int64)
        places[self.order] = np.arange(len(self))
        parts = [(piece, own, mask[own]) for piece, own in zip(self.pieces, np.split(places, ends), strict=True)]
        some = [(piece.filter(chosen), own[chosen]) for piece, own, chosen in parts if chosen.any()]
        return MixedBlock([piece for piece, _ in some], [own for _, own in some])

    def events(self) -> list[Event]:
        """Return the events as objects; do not change the list. O(values), once."""
        if self._events is None:
            made = [event for piece in self.pieces for event in piece.events()]
            self._events = [made[place] for place in self.order.tolist()]
        return self._events

    def _joined(self, columns: list[Array]) -> Array:
        import numpy as np

        joined: Array = np.concatenate(columns)[self.order] if columns else np.empty(0, np.int64)
        return joined

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events())

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        return self.events()[index]


AnyBlock = Block | MixedBlock
"""A block of one type or of several."""


def together(pieces: Sequence[Block]) -> AnyBlock | None:
    """Blocks that came at once, as one; None if there are none."""
    if len(pieces) > 1:
        return MixedBlock(pieces)
    return pieces[0] if pieces else None
