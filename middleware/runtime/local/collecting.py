"""The final results of a run, by detector: those that come as columns stay columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import attrgetter

from middleware.delivery.barrier import Barrier
from middleware.model.change import Batch, Delta
from middleware.model.columns.columns import EventColumns
from middleware.model.columns.held import in_order
from middleware.model.event import IDENTITY, ORDER, Event, Identity

_SOURCE = attrgetter("source")


class FinalResults:
    """Takes what detectors publish. Events pass the barrier; columns are kept until the end, without what was withdrawn.

    ``violations``
        how many changes came to what was final already: 0, or the middleware is wrong.
    """

    def __init__(self, types: Collection[str], detectors: Collection[str]) -> None:
        self._barrier = Barrier(sorted(types))
        self._events: dict[str, list[Event]] = {name: [] for name in detectors}
        self._pieces: dict[str, list[tuple[int, EventColumns]]] = {}
        self._count = self._violations = 0
        self._gone: dict[Identity, int] = {}  # what was withdrawn of the pieces: how many pieces had come by then

    @property
    def violations(self) -> int:
        return self._violations + sum(self._barrier.violations.values())

    def take(self, batch: Batch) -> None:
        """Take changes, then watermarks."""
        rows = {name: self._apart(delta) for name, delta in batch.deltas.items()}
        for name, delta in batch.deltas.items():
            if delta.columns is not None and len(sources := delta.columns.sources()) == 1:
                self._keep(sources[0], delta.columns)
            elif delta.columns is not None:
                rows[name].inserts += delta.inserts
        free = self._barrier.take(Batch(rows, batch.watermarks, floor=batch.floor))
        if len(whose := set(map(_SOURCE, free))) == 1:
            self._events[whose.pop()] += free
            return
        for event in free:
            self._events[event.source].append(event)

    def of(self, detector: str) -> Sequence[Event]:
        """The final results of a detector in total order, as columns if they came so; to be asked once all has ended."""
        events, pieces = self._events[detector], self._pieces.get(detector, [])
        if not pieces:
            return events
        standing = [self._standing(number, piece) for number, piece in pieces]
        kinds = {type(event) for event in events} | {piece.event_type for piece in standing}
        if len(kinds) > 1:
            return sorted([*events, *(event for piece in standing for event in piece)], key=ORDER)
        first, *others = [EventColumns.from_events(kinds.pop(), events), *standing] if events else standing
        return in_order(first.joined(others))

    def _apart(self, delta: Delta) -> Delta:
        """The changes of rows; what is withdrawn or revised of the pieces is noted."""
        rows = delta if delta.columns is None else Delta([], delta.revises, delta.retracts)
        if not self._count or not (delta.revises or delta.retracts):
            return rows
        olds = [old for old, _ in delta.revises]
        gone = [event for event in (*delta.retracts, *olds) if IDENTITY(event) not in self._barrier]
        self._gone |= dict.fromkeys(map(IDENTITY, gone), self._count)
        self._violations += sum(event.ts <= self._barrier.watermark for event in gone)
        apart = set(map(IDENTITY, gone))
        return Delta(
            rows.inserts + [new for old, new in delta.revises if IDENTITY(old) in apart],
            [pair for pair in delta.revises if IDENTITY(pair[0]) not in apart],
            [event for event in delta.retracts if IDENTITY(event) not in apart],
        )

    def _keep(self, source: str, columns: EventColumns) -> None:
        self._violations += bool((columns.times <= self._barrier.watermark).any())
        self._pieces.setdefault(source, []).append((self._count, columns))
        self._count += 1

    def _standing(self, number: int, piece: EventColumns) -> EventColumns:
        """The events of a piece that were not withdrawn after it came."""
        gone = [(source, known) for (source, known), count in self._gone.items() if count > number]
        if not gone:
            return piece
        import numpy as np

        (source,) = piece.sources()
        return piece.filter(~np.isin(piece.ids, [known for whose, known in gone if whose == source]))
