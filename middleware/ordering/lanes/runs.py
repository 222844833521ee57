"""Much that is ready at once, in runs: so few events are still in the processor's caches when the detector has run them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple, cast

from middleware import native
from middleware.model.block.block import Block, as_block
from middleware.model.block.rows import reader_of
from middleware.model.block.waiting_blocks import WaitingBlocks
from middleware.model.change import Delta
from middleware.model.detector import Detector, takes_batches
from middleware.model.event import END, Event
from middleware.ordering.alpha.costs import Timer
from middleware.ordering.buffer import sort
from middleware.ordering.lanes.lanes import BatchLanes
from middleware.ordering.lanes.ready_events import ReadyEvents
from middleware.ordering.slack.kslack import LocalClock

RUN = 1_024
"""Events in a run."""


class Runs(NamedTuple):
    """How a unit gives its lanes what is ready.

    ``most``
        events in a run; None: all at once, as detectors on columns take them.
    ``waits_in_core``
        whether the core has blocks of what the detector takes, which is of one type: then many columns wait as such, and are
        made events run by run, not kept.
    """

    most: int | None
    waits_in_core: bool

    @classmethod
    def of(cls, detector: Detector, most: int) -> Runs:
        if takes_batches(type(detector)):
            return cls(None, False)
        return cls(most, len(detector.subscribes) == 1 and reader_of(detector.subscribes[0]) is not None)

    def keep_columns(self, delta: Delta, waiting: native.Waiting, held: WaitingBlocks) -> bool:
        """Whether a detector's new events stay columns: many do; few are made once, for all detectors that keep them.

        No more waiting events change their form than come: else batches of changing size would change all of them
        again and again.
        """
        if not self.waits_in_core or (columns := delta.columns) is None or delta.revises or self.most is None:
            return False
        came = len(columns)
        if (came < 2 * self.most and came >= len(held)) or not columns.as_core_blocks():
            return False
        return not waiting or (len(waiting) <= came and _packed(waiting, held, columns))

    def emit(
        self,
        lanes: BatchLanes | native.KeyedLanes,
        ready: ReadyEvents,
        removed: list[Event],
        clock: LocalClock,
        settled: int,
        final: int,
        timer: Timer | None,
    ) -> tuple[list[Delta], int | None]:
        """Give lanes what is ready. Returns the changes, in sequence, and the time they took.

        ``settled``: up to this time nothing changes any more, and nothing is ready. ``final``: the same, once all is emitted.
        """
        deltas: list[Delta] = []
        spent = 0
        most, rows = self.most, len(ready.ahead) + len(ready.behind)
        is_small = most is None or (ready.columns is None and rows < 2 * most)
        for run in (ready,) if is_small else _cut(ready, cast(int, most)):
            start = timer() if timer is not None else 0
            deltas += lanes.emit(run, removed, clock.clk, clock.k, settled)
            spent += timer() - start if timer is not None else 0
            if run is not ready:  # what comes after it is no older, so lanes need not go back to what is final in it
                removed, settled = [], max(settled, min(final, run.ahead[-1].ts - 1))
        return deltas, spent if timer is not None else None

    def emit_final(
        self,
        lanes: native.KeyedLanes,
        ready: ReadyEvents,
        removed: list[Event],
        clock: LocalClock,
        timer: Timer | None,
    ) -> tuple[list[Delta], int | None]:
        """Give lanes without a history final events, run by run: no later run corrects one. Returns changes and their time."""
        start = timer() if timer is not None else 0
        deltas = lanes.emit_final((run.ahead for run in _cut(ready, self.most or RUN)), removed, clock.clk, clock.k)
        return deltas, timer() - start if timer is not None else None


def _packed(waiting: native.Waiting, held: WaitingBlocks, columns: Block) -> bool:
    """Let what waits as events wait as columns, before those that come; false, and nothing is done, if these do not say all."""
    made = as_block(columns.event_type, waiting.events())
    if made is not None:
        waiting.take(END)
        held.put(made)
    return made is not None


def _cut(ready: ReadyEvents, most: int) -> Iterator[ReadyEvents]:
    """Much that is ready, run by run in total order; rows or columns, never both. O(n); O(n log n) for rows of which some are
    behind."""
    rows, columns = ready.ahead, ready.columns
    assert columns is None or not (rows or ready.behind), "a detector is given rows and columns at once"
    if columns is not None:
        made: Iterator[list[Event]] = chain.from_iterable(piece.runs(most) for piece in columns.pieces)
    else:
        if ready.behind:  # of an event that came twice, the first is ahead
            rows = [*rows, *ready.behind]
            sort(rows)
        made = chain(rows[start : start + most] for start in range(0, len(rows), most))
    for run in made:
        yield ReadyEvents(run, [])
