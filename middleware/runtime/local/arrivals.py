"""The input of a run: events as columns, or as objects, in their order of arrival over all types."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from middleware.broker.ingress.seen import SeenIds
from middleware.model.block.block import Block
from middleware.model.block.rows import rows_of, source_codes
from middleware.model.change import Delta, grouped
from middleware.model.event import NEVER, ORDER, TS, Event, EventType, type_name
from middleware.model.quantities import UNIX_TIMES, is_wall_clock
from middleware.native import by_class

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_LEVEL = attrgetter("level")

_MADE = 8_192
"""Events that are made at once."""

_AT_ONCE = 512
"""Events that are surveyed, or made and used, at once: so few stay in the processor's caches."""

Arrival = tuple[dict[str, Delta], int]
"""Events that arrive at once, as changes by type, and their latest time."""


class ArrivedColumns:
    """Events of one or several types, each in its order of arrival.

    ``order``
        the arrival order: for each event, its position in the columns one after another; None for one type.
    """

    def __init__(self, columns: list[Block], order: Any = None) -> None:
        self._columns, self._order = columns, order
        self._made: set[EventType] = set()

    def __len__(self) -> int:
        return sum(map(len, self._columns))

    @property
    def types(self) -> list[EventType]:
        """The type of each of the columns."""
        return [columns.event_type for columns in self._columns]

    def events(self) -> list[Event]:
        """All of them as events, in their order of arrival. O(values), once."""
        every = [event for columns in self._columns for event in columns.events()]
        return every if self._order is None else list(map(every.__getitem__, self._order.tolist()))

    def latest(self) -> dict[EventType, int]:
        """By type, the latest time. O(n)."""
        return {columns.event_type: columns.newest for columns in self._columns if len(columns)}

    def is_wall_clock(self) -> bool:
        """Whether the times are Unix time: see ``quantities.is_wall_clock``. O(n)."""
        first, end = UNIX_TIMES.start, UNIX_TIMES.stop
        likely = sum(int(((each.times >= first) & (each.times < end)).sum()) for each in self._columns)
        return 2 * likely > len(self)

    def is_numbered(self) -> bool:
        """Whether (source, id) names each event. O(n log n)."""
        import numpy as np

        if not self._columns:
            return True
        ids, sources = np.concatenate([columns.ids for columns in self._columns]), self._sources()
        if sources is None:  # np.unique hashes, which takes far longer than sorting
            ranked = ids if (ids[1:] > ids[:-1]).all() else np.sort(ids)
            return bool((ranked[1:] > ranked[:-1]).all())
        order = np.lexsort((ids, sources))
        ids, sources = ids[order], sources[order]
        return not bool(((ids[1:] == ids[:-1]) & (sources[1:] == sources[:-1])).any())

    def _sources(self) -> Array | None:
        """For each event, of one type after another, the rank of its source among all of them; None if there is only one."""
        import numpy as np

        coded = [source_codes(columns.batch) for columns in self._columns]
        ranks = {name: rank for rank, name in enumerate(sorted({name for names, _ in coded for name in names}))}
        if len(ranks) < 2:
            return None
        return np.concatenate([np.array([ranks[name] for name in names], np.int64)[codes] for names, codes in coded])

    def in_total_order(self) -> tuple[ArrivedColumns, bool] | None:
        """Return the arrivals in total order, and whether any have the same time. None if some arrive after one that happened
        later, or are not raw. O(n), O(n log n) where those of one time come in another order.
        """
        import numpy as np

        if not self._columns or any(columns.levels is not None for columns in self._columns):
            return None
        times, arriving = self._times()
        if (arriving[1:] > arriving[:-1]).all():
            return self, False
        if (arriving[1:] < arriving[:-1]).any():
            return None
        ids, sources = np.concatenate([columns.ids for columns in self._columns]), self._sources()
        order = np.lexsort((ids, times) if sources is None else (ids, sources, times))
        return self._ordered(order), True

    def _times(self) -> tuple[Array, Array]:
        """The times of all, of one type after another; and in order of arrival."""
        import numpy as np

        times = np.concatenate([columns.times for columns in self._columns])
        return times, times if self._order is None else times[self._order]

    def _ordered(self, order: Array) -> ArrivedColumns:
        """Return the arrivals in another order: each type's own come one after the other."""
        import numpy as np

        kinds = self._kinds(order)
        starts = np.cumsum([0, *map(len, self._columns)])
        taken = [columns.take(order[kinds == kind] - starts[kind]) for kind, columns in enumerate(self._columns)]
        return ArrivedColumns(taken, None if len(taken) == 1 else np.argsort(np.argsort(kinds, kind="stable"), kind="stable"))

    def _kinds(self, order: Array) -> Array:
        """The index of the columns that each event belongs to."""
        import numpy as np

        return np.searchsorted(np.cumsum([len(columns) for columns in self._columns]), order, "right")

    def runs(self, types: Collection[EventType]) -> Iterator[list[Event]]:
        """The events of these types in their order, some hundreds at a time: they are made as they are taken."""
        import numpy as np

        makers = [_Pieces(columns, made=True) for columns in self._columns]
        if len(makers) == 1 and self._columns[0].event_type in types:
            for _ in range(0, len(self), _AT_ONCE):
                yield makers[0].take_events(_AT_ONCE)
        if len(makers) < 2:
            return
        kinds = self._kinds(self._order)
        numbers = [kind for kind, columns in enumerate(self._columns) if columns.event_type in types]
        kinds = kinds[np.isin(kinds, numbers)]
        for at in range(0, len(kinds), _AT_ONCE):
            part = kinds[at : at + _AT_ONCE]
            counts = np.bincount(part, minlength=len(makers)).tolist()
            by_kind = [iter(maker.take_events(count)) for maker, count in zip(makers, counts, strict=True)]
            yield [next(by_kind[kind]) for kind in part.tolist()]

    def make(self, types: set[EventType]) -> None:
        """Batches are to have the events of these types already: thousands are made at once, which is faster than batch by
        batch, and faster than all, for which memory would have to be had first.
        """
        self._made = types

    def batches(self, size: int) -> Iterator[Arrival]:
        """Yield ``size`` events at a time, in order of arrival."""
        return self._until(range(size, len(self) + size, size))

    def steps(self, size: int) -> Iterator[Arrival]:
        """Yield at least ``size`` events at a time, of events in order: events of one time come together."""
        times = self._times()[1]
        return self._until(_ends(len(times), size, lambda at: int(times.searchsorted(times[at], "right"))))

    def _until(self, ends: Iterable[int]) -> Iterator[Arrival]:
        """Yield the events up to each of ``ends``, which are positions in the order of arrival."""
        import numpy as np

        pieces = [_Pieces(columns, columns.event_type in self._made) for columns in self._columns]
        kinds = self._kinds(self._order) if self._order is not None else None
        start = 0
        for end in ends if len(self) else ():
            if kinds is None:
                deltas = {piece.name: Delta(piece.take(end - start)) for piece in pieces}
            else:
                arrived = [np.flatnonzero(kinds[start:end] == kind) for kind in range(len(pieces))]
                several = sum(len(each) > 0 for each in arrived) > 1
                deltas = {
                    piece.name: Delta(piece.take(len(order)), arrival_order=order if several else None)
                    for piece, order in zip(pieces, arrived, strict=True)
                    if len(order)
                }
            yield deltas, max(delta.columns.newest for delta in deltas.values() if delta.columns is not None)
            start = end


def _ends(count: int, size: int, after: Callable[[int], int]) -> Iterator[int]:
    """Yield the ends of steps of at least ``size`` of ``count`` events. ``after(at)``: the end of the events of one time."""
    end = 0
    while end < count:
        end = after(min(end + size, count) - 1)
        yield end


class ArrivedEvents:
    """Events as objects, in their order of arrival, with the methods of ``ArrivedColumns`` that a run needs."""

    def __init__(self, events: list[Event]) -> None:
        self._events = events

    def __len__(self) -> int:
        return len(self._events)

    @property
    def types(self) -> set[EventType]:
        """The types of the events. O(n)."""
        return set(map(type, self._events))

    def events(self) -> list[Event]:
        """All of them."""
        return self._events

    def latest(self) -> dict[EventType, int]:
        """By type, the latest time; to be asked of events in order. O(n)."""
        return {event_type: own[-1].ts for event_type, own, _ in by_class(self._events)}

    def is_wall_clock(self) -> bool:
        """See ``ArrivedColumns``. O(n)."""
        return is_wall_clock(map(TS, self._events))

    def in_total_order(self) -> tuple[ArrivedEvents, bool] | None:
        """See ``ArrivedColumns``; None if some come twice, too. O(n), O(n log n) if some have the same time."""
        seen, last, has_ties = SeenIds(), NEVER, False
        for at in range(0, len(self._events), _AT_ONCE):
            some = self._events[at : at + _AT_ONCE]
            times = list(map(TS, some))
            if times[0] < last or sorted(times) != times or any(map(_LEVEL, some)) or len(seen.take_new(some)) < len(some):
                return None
            has_ties = has_ties or times[0] == last or len(set(times)) < len(times)
            last = times[-1]
        return (ArrivedEvents(sorted(self._events, key=ORDER)), True) if has_ties else (self, False)

    def runs(self, types: Collection[EventType]) -> Iterator[list[Event]]:
        """See ``ArrivedColumns``."""
        for at in range(0, len(self._events), _AT_ONCE):
            run = self._events[at : at + _AT_ONCE]
            own = [event for event in run if event.__class__ in types]
            if own:
                yield own

    def steps(self, size: int) -> Iterator[Arrival]:
        """See ``ArrivedColumns``."""
        events, start = self._events, 0
        for end in _ends(len(events), size, lambda at: bisect_right(events, events[at].ts, at, key=TS)):
            yield grouped(events[start:end]), events[end - 1].ts
            start = end


Arrivals = ArrivedColumns | ArrivedEvents


class _Pieces:
    """Slices of columns, one after another; with their events, if they are to be ``made``."""

    def __init__(self, columns: Block, made: bool) -> None:
        self.columns, self.name = columns, type_name(columns.event_type)
        self._made, self._at = made, 0
        self._first = self._end = 0
        self._rows = rows_of(columns.event_type, columns.slice(0, 0).batch)

    def take(self, count: int) -> Block:
        """The next so many, or what is left."""
        start = self._at
        events = self.take_events(count) if self._made else None
        self._at = min(start + count, len(self.columns))
        piece = self.columns.slice(start, self._at)
        return piece if events is None else Block(piece.event_type, piece.batch, events)

    def take_events(self, count: int) -> list[Event]:
        """The next so many events, or the rest."""
        start, self._at = self._at, min(self._at + count, len(self.columns))
        if self._at > self._end:
            self._first, self._end = start, min(start + max(count, _MADE), len(self.columns))
            piece = self.columns.slice(self._first, self._end)
            self._rows = rows_of(piece.event_type, piece.batch)
        return self._rows.events(start - self._first, self._at - self._first)
