"""Events that came as columns, in their order of arrival over all types: what a run over tables takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from middleware.model.change import Delta
from middleware.model.columns import EventColumns
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
            coded = columns.batch.column("source")
            coded = coded if hasattr(coded, "indices") else coded.dictionary_encode()
            own = [known.setdefault(source, len(known)) for source in coded.dictionary.to_pylist()]
            codes.append(np.array(own, dtype=np.int64)[coded.indices.to_numpy()])
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
        if self._order is None:
            for columns in self._columns:
                pieces = _Pieces(columns, columns.event_type in self._made)
                for start in range(0, len(columns), size):
                    yield {type_name(columns.event_type): Delta(columns=pieces.slice(start, start + size))}
            return
        import numpy as np

        kinds = np.searchsorted(np.cumsum([len(columns) for columns in self._columns]), self._order, "right")
        starts = [0] * len(self._columns)
        pieces = [_Pieces(columns, columns.event_type in self._made) for columns in self._columns]
        for at in range(0, len(self), size):
            deltas = {}
            for kind, columns in enumerate(self._columns):
                if places := np.flatnonzero(kinds[at : at + size] == kind).tolist():
                    start, starts[kind] = starts[kind], starts[kind] + len(places)
                    deltas[type_name(columns.event_type)] = Delta(
                        columns=pieces[kind].slice(start, starts[kind]), places=places
                    )
            if len(deltas) == 1:
                next(iter(deltas.values())).places = None
            yield deltas


class _Pieces:
    """Slices of columns, one after another; with events that are made for many of them at once, if ``made``."""

    def __init__(self, columns: EventColumns, made: bool) -> None:
        self._columns, self._made = columns, made
        self._start = self._stop = 0
        self._piece = columns

    def slice(self, start: int, stop: int) -> EventColumns:
        if not self._made:
            return self._columns.slice(start, stop)
        if not self._start <= start <= stop <= self._stop:
            self._start, self._stop = start, max(stop, start + _AT_ONCE)
            self._piece = self._columns.slice(self._start, self._stop)
            self._piece.events()
        return self._piece.slice(start - self._start, stop - self._start)
