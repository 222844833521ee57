"""Much that came at once, in runs: so few events are still in the processor's caches when the detector has run them."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

from middleware.model.change import Delta
from middleware.model.event import END, NEVER, Event

if TYPE_CHECKING:
    from middleware.model.columns import EventColumns


class Runs(NamedTuple):
    """How much is taken in runs.

    ``most``
        events in a run.
    ``lanes``
        with so many lanes, an event that is late because of where a run ends has few others run again.
    """

    most: int = 1_024
    lanes: int = 64

    def suit(self, delta: Delta, alpha: float, lanes: Sized) -> bool:
        """Whether raw events are to be taken in runs: where a unit speculates, that must not have many others run again."""
        return delta.inserted >= 2 * self.most and delta.k_plus is None and (alpha == 1 or len(lanes) >= self.lanes)

    def of(self, delta: Delta) -> Iterator[tuple[Delta, int]]:
        """Changes in runs, in order, each made when it is asked for; what is not new goes first.

        With each, the time up to which no later run has anything, NEVER if that would have to be looked for; END for the last.
        """
        columns, most = delta.columns, self.most
        runs = columns.runs(most) if columns is not None else _runs(delta.inserts, most)
        ends = _ends(columns, most) if columns is not None else repeat(NEVER)
        revises, retracts, left = delta.revises, delta.retracts, delta.inserted
        for events, end in zip(runs, ends, strict=False):
            left -= len(events)
            yield Delta(events, revises, retracts), end if left else END
            revises, retracts = [], []


USUAL = Runs()


def _runs(events: list[Event], most: int) -> Iterator[list[Event]]:
    return (events[start : start + most] for start in range(0, len(events), most))


def _ends(columns: EventColumns, most: int) -> list[int]:
    """For each run of columns, the latest time before all that comes behind it."""
    import numpy as np

    earliest = np.minimum.reduceat(columns.times, range(0, len(columns), most))
    return [*(np.minimum.accumulate(earliest[:0:-1])[::-1] - 1).tolist(), END]
