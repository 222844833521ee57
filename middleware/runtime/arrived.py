"""Events that came as columns, in their order of arrival over all types: what a run over tables takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from middleware.model.change import Delta
from middleware.model.columns import EventColumns, source_codes
from middleware.model.event import Event, type_name

_AT_ONCE = 8_192
"""Events that are made at once."""


class ArrivedColumns:
    """Events of one or several types, each in its order of arrival.

    ``order``
        the places of all events, in their order of arrival, in the columns one after another; None for one type.
    """

    def __init__(self, columns: list[EventColumns], order: Any = None) -> None:
        self._columns, self._order = columns, order
        self._made: set[type[Event]] = set()

    def __len__(self) -> int:
        return sum(map(len, self._columns))

    def events(self) -> list[Event]:
        """All of them as events, in their order of arrival. O(values), once."""
        every = [event for columns in self._columns for event in columns.events()]
        return every if self._order is None else list(map(every.__getitem__, self._order.tolist()))

    def is_numbered(self) -> bool:
        """Whether (source, id) names each event. O(n log n)."""
        import numpy as np

        if not self._columns:
            return True
        known: dict[str, int] = {}
        codes = []
        for columns in self._columns:
            names, places = source_codes(columns.batch)
            codes.append(np.array([known.setdefault(name, len(known)) for name in names], dtype=np.int64)[places])
        ids, sources = np.concatenate([columns.ids for columns in self._columns]), np.concatenate(codes)
        if len(known) == 1:  # np.unique hashes, which takes far longer than sorting
            ranked = np.sort(ids)
            return bool((ranked[1:] > ranked[:-1]).all())
        order = np.lexsort((ids, sources))
        ids, sources = ids[order], sources[order]
        return not bool(((ids[1:] == ids[:-1]) & (sources[1:] == sources[:-1])).any())

    def make(self, types: set[type[Event]]) -> None:
        """Batches are to have the events of these types already: thousands are made at once, which is faster than batch by
        batch, and faster than all, for which memory would have to be had first.
        """
        self._made = types

    def batches(self, size: int) -> Iterator[tuple[dict[str, Delta], int]]:
        """So many events at a time, as changes by type; and the latest time among them."""
        for deltas in self._slices(size):
            yield deltas, max(int(delta.columns.times.max()) for delta in deltas.values() if delta.columns is not None)

    def _slices(self, size: int) -> Iterator[dict[str, Delta]]:
        pieces = [_Pieces(columns, columns.event_type in self._made) for columns in self._columns]
        if self._order is None:
            for piece in pieces:
                for _ in range(0, len(piece.columns), size):
                    yield {piece.name: Delta(columns=piece.take(size))}
            return
        import numpy as np

        kinds = np.searchsorted(np.cumsum([len(columns) for columns in self._columns]), self._order, "right")
        for at in range(0, len(self), size):
            deltas = {}
            for kind, piece in enumerate(pieces):
                if places := np.flatnonzero(kinds[at : at + size] == kind).tolist():
                    deltas[piece.name] = Delta(columns=piece.take(len(places)), places=places)
            if len(deltas) == 1:
                next(iter(deltas.values())).places = None
            yield deltas


class _Pieces:
    """Slices of columns, one after another; with events that are made for many of them at once, if ``made``."""

    def __init__(self, columns: EventColumns, made: bool) -> None:
        self.columns, self.name = columns, type_name(columns.event_type)
        self._made, self._at = made, 0
        self._first, self._piece = 0, columns.slice(0, 0)

    def take(self, count: int) -> EventColumns:
        """The next so many, or what is left."""
        start, self._at = self._at, min(self._at + count, len(self.columns))
        if not self._made:
            return self.columns.slice(start, self._at)
        if self._at > self._first + len(self._piece):
            self._first, self._piece = start, self.columns.slice(start, start + max(count, _AT_ONCE))
            self._piece.events()
        return self._piece.slice(start - self._first, self._at - self._first)
