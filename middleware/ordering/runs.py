"""Much that is ready at once, in runs: so few events are still in the processor's caches when the detector has run them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from middleware import native
from middleware.model.change import Delta
from middleware.model.detector import Detector, takes_batches
from middleware.model.event import ORDER, Event
from middleware.model.operator import Operator
from middleware.model.rows import reader_of
from middleware.ordering.costs import Timer
from middleware.ordering.kslack import LocalClock
from middleware.ordering.lanes import KeyedLanes
from middleware.ordering.operation import OperatorLane, Ready

RUN = 1_024
"""Events in a run."""


class Runs(NamedTuple):
    """How a unit gives its lanes what is ready.

    ``most``
        events in a run; None: all at once, as operators take it, and detectors on columns.
    ``waits_in_core``
        whether the core has blocks of what the detector takes, which is of one type: then columns wait as such, and are made
        events run by run, not kept.
    """

    most: int | None
    waits_in_core: bool

    @classmethod
    def of(cls, detector: Detector, most: int) -> Runs:
        if isinstance(detector, Operator) or takes_batches(type(detector)):
            return cls(None, False)
        return cls(most, len(detector.subscribes) == 1 and reader_of(detector.subscribes[0]) is not None)

    def keep_columns(self, delta: Delta, alpha: float) -> bool:
        """Whether a detector's new events stay columns: while they wait, or as they are many."""
        if self.most is None or not self.waits_in_core or delta.columns is None or delta.revises:
            return False
        return alpha > 0 or delta.inserted >= 2 * self.most

    def emit(
        self,
        lanes: KeyedLanes | native.KeyedLanes | OperatorLane,
        ready: Ready,
        removed: list[Event],
        clock: LocalClock,
        settled: int,
        final: int,
        timer: Timer | None,
    ) -> tuple[list[Delta], int | None]:
        """Give lanes what is ready. Returns the changes, in sequence, and the time they took.

        ``settled``: up to this time nothing changes any more, and nothing is ready. ``final``: the same, once all is emitted.
        """
        deltas, spent = list[Delta](), 0
        for run in (ready,) if self.most is None else _cut(ready, self.most):
            start = timer() if timer is not None else 0
            deltas += lanes.emit(run, removed, clock.clk, clock.k, settled)
            spent += timer() - start if timer is not None else 0
            if run is not ready:  # what comes after it is no older, so lanes need not go back to what is final in it
                removed, settled = [], max(settled, min(final, run.ahead[-1].ts - 1))
        return deltas, spent if timer is not None else None


def _cut(ready: Ready, most: int) -> Iterator[Ready]:
    """In total order; rows or columns, never both. O(n), and O(n log n) for several runs of rows, if some are behind."""
    rows, made = ready.ahead, chain.from_iterable(piece.runs(most) for piece in ready.pieces)
    assert not (ready.pieces and (rows or ready.behind)), "a detector is given rows and columns at once"
    if not ready.pieces:
        if len(rows) + len(ready.behind) < 2 * most:
            yield ready
            return
        if ready.behind:  # of an event that came twice, the first is ahead
            rows = sorted([*rows, *ready.behind], key=ORDER)
        made = chain(rows[start : start + most] for start in range(0, len(rows), most))
    for run in made:
        yield Ready(run, [])
