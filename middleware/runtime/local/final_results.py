"""The final results of a run, by detector."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain

from middleware.delivery.barrier import Barrier
from middleware.model.block.block import Block
from middleware.model.change import Batch, Delta
from middleware.model.event import END, NEVER, Event
from middleware.ordering.buffer import sort


class FinalResults:
    """Takes the changes that detectors publish, and keeps the events that a barrier for each detector releases.

    A barrier releases events in total order; columns stay columns.
    ``published``: by detector, the names of the types that it publishes.
    """

    def __init__(self, published: Mapping[str, Collection[str]]) -> None:
        self._barriers = {name: Barrier(sorted(types)) for name, types in published.items()}
        self._parts: dict[str, list[list[Event] | Block]] = {name: [] for name in published}
        self._types = {name: list(types) for name, types in published.items()}
        self._publishers: dict[str, list[str]] = {}
        for name, types in published.items():
            for each in types:
                self._publishers.setdefault(each, []).append(name)
        self._holding: set[str] = set()
        """The detectors whose barriers hold events."""
        self._watermarks: dict[str, int] = {}
        """The latest of each type. A barrier is given them together with changes, and once they release events."""

    @property
    def violations(self) -> int:
        """How many changes came to what was final already: 0, or the middleware is wrong."""
        return sum(sum(barrier.violations.values()) for barrier in self._barriers.values())

    def take(self, batch: Batch) -> None:
        """Take changes, then watermarks. O(changes + barriers that hold events), however many detectors there are."""
        own = dict[str, dict[str, Delta]]()
        for kind, delta in batch.deltas.items():
            publishers = self._publishers[kind]
            for name in publishers:
                own.setdefault(name, {})[kind] = delta if len(publishers) == 1 else _of(name, delta)
        for name in own:  # else a change to an event that is final by now would pass
            if self._until(name) > self._barriers[name].watermark:
                self._put(name, {})
        if batch.floor is not None:  # streams that had ended resume, so their end is not known any more
            self._watermarks = {kind: until for kind, until in self._watermarks.items() if until != END}
        self._watermarks.update(batch.watermarks)
        for name in own if batch.floor is None else self._barriers:
            self._put(name, own.get(name, {}), batch.floor)
        for name in self._holding - own.keys():
            # most watermarks release nothing: a hierarchy has hundreds in a step, and its detectors few results
            if self._barriers[name].would_release(self._until(name)):
                self._put(name, {})

    def _put(self, name: str, own: dict[str, Delta], floor: int | None = None) -> None:
        """Give a barrier changes, then the watermarks that are known, and keep what it releases."""
        barrier = self._barriers[name]
        marks = {kind: self._watermarks[kind] for kind in self._types[name] if kind in self._watermarks}
        free = barrier.take_deltas(Batch(own, marks, floor=floor)).values()
        released = [delta.inserts if delta.columns is None else delta.columns for delta in free]
        self._parts[name] += released if len(released) < 2 else [_together(released)]
        (self._holding.add if len(barrier) else self._holding.discard)(name)

    def _until(self, name: str) -> int:
        """The watermark of a detector: the least of the types that it publishes."""
        return min([self._watermarks.get(kind, NEVER) for kind in self._types[name]], default=NEVER)

    def of(self, detector: str) -> Sequence[Event]:
        """The final results of a detector in total order, as columns if all came so; to be asked once all has ended."""
        parts = self._parts[detector]
        columns = [part for part in parts if isinstance(part, Block)]
        if columns and len(columns) == len(parts) and len({part.event_type for part in columns}) == 1:
            return columns[0].joined(columns[1:])
        return list(chain.from_iterable(parts))


def _of(source: str, delta: Delta) -> Delta:
    """The changes to results of one detector, among those of several."""
    revises = [pair for pair in delta.revises if pair[1].source == source]
    retracts = [event for event in delta.retracts if event.source == source]
    columns = delta.columns
    if columns is not None and columns.sources() == [source]:
        return Delta(columns, revises, retracts)
    return Delta([event for event in delta.inserts if event.source == source], revises, retracts)


def _together(parts: Sequence[Sequence[Event]]) -> list[Event]:
    """Events of several types in total order."""
    events = list(chain.from_iterable(parts))
    sort(events)
    return events
