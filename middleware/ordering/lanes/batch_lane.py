"""The lane of a detector on columns: it gets the events of all keys, a run at a time."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache, partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from middleware import native
from middleware.model.block.block import Block
from middleware.model.detector import Detector, batch_results, key_function
from middleware.model.errors import ENDING
from middleware.model.event import Event, EventType
from middleware.model.identity import Derivation
from middleware.ordering.lanes.lane import STOPPED, Counts, Derive, Lane, Settings
from middleware.ordering.lanes.retraction import EventResults, left_out

if TYPE_CHECKING:
    import numpy as np

_KEPT = 16_384
"""Keys whose derivations are kept, 0.3 KB each: those of others are made again."""

_WIDER = 32
"""A call costs as much as some hundred rows: runs of a replay are longer, and so snapshots further apart, by this factor."""


class EventBatch(Block):
    """Events of one type, whose columns are read in the core."""

    __slots__ = ()

    def __init__(self, event_type: EventType, events: list[Event]) -> None:
        super().__init__(event_type, None, events)

    def _array(self, name: str, kind: str) -> np.ndarray[Any, Any]:
        import numpy as np

        found = native.column_of(self.events(), name, kind)
        return np.frombuffer(found, kind) if found is not None else super()._array(name, kind)


class DerivationByKey:
    """The derivation of a detector's results for each of its keys, by the key of their cause."""

    def __init__(self, name: str, detector: Detector, level: int) -> None:
        self._key = key_function(detector)
        self._of = lru_cache(_KEPT)(partial(Derivation, name, detector, level))

    def __call__(self, cause: Event, result: Event | Iterable[Event]) -> list[Event]:
        return self._of(self._key(cause) if self._key is not None else None)(cause, result)


class BatchLane(Lane):
    """Runs go from one snapshot to the next at most, so those lie between batches.

    Where a run raises, its halves run again until one event is left, and that event alone is skipped.
    """

    __slots__ = ("fault",)
    wider = _WIDER

    def __init__(self, detector: Detector, derive: Derive, settings: Settings, counts: Counts, state: Any) -> None:
        super().__init__(detector, derive, settings, counts, state)
        self.fault: str | None = None  # why its results are worth nothing

    def _execute(self, start: int, stop: int) -> int:
        if self.is_stopped:
            self.published += map(left_out, self.history[start:stop])
            self.counts.left_out += stop - start
            return stop
        if self._succeeds(start, stop):
            return stop
        while stop - start > 1:
            middle = (start + stop) // 2
            if self._succeeds(start, middle):
                start = middle
            else:
                stop = middle
        try:
            self._take(start, stop)
        except ENDING:
            raise
        except BaseException:
            self.fail(start)
            return stop
        self.fault = (
            f"{type(self.detector).__name__}.on_batch raises at some batches, and at none of their events alone: what it does "
            "hangs on where batches end, which is chance; `slackline check` looks for a small example"
        )
        self._restore(STOPPED)
        return stop

    def _succeeds(self, start: int, stop: int) -> bool:
        """Run a batch; if it raises, return to the state before it."""
        try:
            self._take(start, stop)
        except ENDING:
            raise
        except BaseException:
            self.rewind(start)
            return False
        return True

    def _take(self, start: int, stop: int) -> None:
        """Run a batch, and note its results."""
        found = []
        self.counts.executed += stop - start
        for row, rows in groupby(self._results(start, stop), itemgetter(0)):
            cause = self.history[start + row]
            found.append(EventResults(cause, self.derive(cause, [event for _, event in rows])))
        self.published += found

    def _results(self, start: int, stop: int) -> list[tuple[int, Event]]:
        events = self.history[start:stop]
        return batch_results(self.detector, EventBatch(self.detector.subscribes[0], events))

    def _rehearse(self, end: int, odd: set[int]) -> int | None:
        origin = self.snapshots[-1]
        if not odd:
            self._restore(origin.state)
            try:
                if origin.position < end:
                    self._results(origin.position, end)
            except ENDING:
                raise
            except BaseException:  # one of them raises that did not before: find it event by event
                return super()._rehearse(end, odd)
            return None
        return super()._rehearse(end, odd)
