"""Much that is ready at once, in runs: so few events are still in the processor's caches when the detector has run them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from middleware import native
from middleware.model.change import Delta
from middleware.model.event import ORDER, Event
from middleware.ordering.costs import Timer
from middleware.ordering.kslack import LocalClock
from middleware.ordering.lanes import KeyedLanes
from middleware.ordering.operation import OperatorLane, Ready

RUN = 1_024
"""Events in a run."""


def emit_in_runs(
    lanes: KeyedLanes | native.KeyedLanes | OperatorLane,
    ready: Ready,
    removed: list[Event],
    clock: LocalClock,
    settled: int,
    final: int,
    timer: Timer | None,
    most: int | None,
) -> tuple[list[Delta], int | None]:
    """Give lanes what is ready, ``most`` events at once (None: all). Returns the changes, in sequence, and the time they took.

    ``settled``: up to this time nothing changes any more, and nothing is ready. ``final``: the same, once all this is emitted.
    """
    deltas, spent = list[Delta](), 0
    for run in (ready,) if most is None else _runs(ready, most):
        start = timer() if timer is not None else 0
        deltas += lanes.emit(run, removed, clock.clk, clock.k, settled)
        spent += timer() - start if timer is not None else 0
        if run is not ready:  # what comes after it is no older, so lanes need not go back to what is final in it
            removed, settled = [], max(settled, min(final, run.ahead[-1].ts - 1))
    return deltas, spent if timer is not None else None


def _runs(ready: Ready, most: int) -> Iterator[Ready]:
    """What is in columns, which is in total order, as events that are made run by run, and not kept.

    O(n), and O(n log n) where there are rows besides, or several runs of rows.
    """
    rows, pieces = [*ready.behind, *ready.ahead] if ready.behind else ready.ahead, ready.pieces
    if not pieces and len(rows) < 2 * most:
        yield ready
        return
    made: Iterator[list[Event]]
    if rows or len(pieces) > 1:
        rows = sorted([*rows, *chain.from_iterable(piece.events() for piece in pieces)], key=ORDER)
        made = (rows[start : start + most] for start in range(0, len(rows), most))
    else:
        made = chain.from_iterable(piece.runs(most) for piece in pieces)
    for run in made:
        yield Ready(run, [])
