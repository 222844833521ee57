"""The costs of a unit's work, measured as it runs, and the two choices they decide: retraction mode and snapshot spacing.

The cores read no clock: a timer may be passed in (``runtime`` does). Without one, detector calls count instead of
nanoseconds, which keeps simulations and tests deterministic. The results do not depend on the choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from middleware.ordering.lanes.retraction import Retraction

Timer = Callable[[], int]
"""Nanoseconds of a monotonic clock."""

_SMOOTH = 1 / 16
_SOONEST, _SELDOM = 16, 4_096
"""The least and the most corrections between two that are made in the other mode, so that its cost stays known."""

_EXPLORING = 0.01
"""The most that these may cost, as a share of all corrections."""

_BETTER = 0.85
"""The choice changes only if the other mode costs less than this share of the present one."""

_ENOUGH = 8
"""A mode's cost counts only after this many corrections in it: single corrections differ widely."""

_OUTLIER = 4.0
"""No single correction counts for more than this many times the mean: the machine may have been slow."""

_CLOSEST, _WIDEST = 16, 512
"""The least and the largest spacing. A snapshot costs more in a lane than by itself: memory from outside the caches, and
comparisons with its neighbours. In the soccer hierarchy, 8 is dearer than 16, though fewer events are run again."""

_MEMORY = 16_384
"""Rollbacks are counted over about this many events; older ones count half."""

_UNKNOWN_SNAPSHOT = 24.0
"""Without a timer, a snapshot is assumed to cost as much as this many detector calls."""


def smoothed(before: float | None, value: float) -> float:
    """Exponential mean with weight 1/16 for the new value."""
    return value if before is None else before + (value - before) * _SMOOTH


class Step:
    """The work of one push, in counts."""

    __slots__ = ("affected", "emitted", "executed", "rollbacks", "spent")

    def __init__(self, spent: int | None, emitted: int, executed: int, rollbacks: int, affected: int) -> None:
        self.spent = spent
        self.emitted = emitted
        self.executed = executed
        self.rollbacks = rollbacks
        self.affected = affected

    @property
    def repeated(self) -> int:
        """Events that were run again."""
        return max(0, self.executed - self.emitted)


class Costs:
    """Running estimates for one unit, in nanoseconds if there is a timer, else in detector calls.

    ``event``, ``snapshot``
        cost of one detector call with all that goes with it, and of one snapshot.
    ``correction``
        total spent on corrections; ``total``: on everything.
    ``downstream``
        what one changed result costs its readers; set from outside.
    """

    def __init__(self, timer: Timer | None) -> None:
        self.timer = timer
        self.event: float | None = None if timer else 1.0
        self.snapshot: float | None = None if timer else _UNKNOWN_SNAPSHOT
        self._rollbacks = 0.0
        self._emitted = 0.0
        self.sending = 5_000.0 if timer else 2.0  # a change on its way to a subscriber elsewhere
        self.downstream = self.sending
        self.correction = 0.0
        self.total = 0.0

    def count_uncorrected(self, emitted: int) -> None:
        """Count a step without timer and corrections: as cheap as it can be, since most steps are like that."""
        self._emitted += emitted
        self.total += emitted

    def learn(self, step: Step) -> float | None:
        """Take a step into account; returns what its corrections cost here, or None if it had none."""
        self._rollbacks += step.rollbacks
        self._emitted += step.emitted
        if self._emitted > _MEMORY:
            self._rollbacks, self._emitted = self._rollbacks / 2, self._emitted / 2
        spent, repeated = step.spent, step.repeated
        self.total += step.executed if spent is None else spent
        if spent is not None and step.executed:  # in whatever step: a unit that speculates may have none without rollbacks
            self.event = smoothed(self.event, spent / step.executed)
        if not step.rollbacks:
            return None
        # by calls, not by what events cost of late: that hangs on the size of steps far more than on corrections
        correction = float(repeated) if spent is None else spent * repeated / max(step.executed, 1)
        self.correction += correction
        return correction

    def measure_snapshot(self, take: Callable[[], Any]) -> None:
        """Measure one snapshot. A state that cannot be copied is ignored here; its lane finds out for itself."""
        if self.timer is not None:
            start = self.timer()
            with suppress(Exception):
                take()
                self.snapshot = smoothed(self.snapshot, self.timer() - start)

    def spacing(self) -> int | None:
        """The number of events between snapshots that costs least, re-execution included; None while too little is known.

        A snapshot every n events costs s/n per event, and a rollback re-executes n/2 events on average: with p rollbacks per
        event, n = sqrt(2 s / (p e)) is best (Time Warp's checkpoint interval: Lin and Lazowska 1990, Ronngren and Ayani 1994).
        """
        if self.event is None or self.snapshot is None or not self._emitted:
            return None
        if not self._rollbacks:
            return _WIDEST
        best = math.sqrt(2 * self.snapshot / (self._rollbacks / self._emitted * max(self.event, 1e-9)))
        return int(min(_WIDEST, max(_CLOSEST, best)))


class RetractionChoice:
    """Chooses full or on-demand retraction by the recent cost of corrections, here and downstream; may switch at any time.

    Answers what DEBS'13, section 5.4, left open. Now and then a correction is made in the other mode: the more that costs, the
    less often, so that knowing both costs takes a hundredth of them at most.
    """

    def __init__(self) -> None:
        self.mode = Retraction.ON_DEMAND
        self.switches = 0
        self._costs: dict[Retraction, float | None] = {Retraction.ON_DEMAND: None, Retraction.FULL: None}
        self._made = {Retraction.ON_DEMAND: 0, Retraction.FULL: 0}
        self._until_other = _SOONEST - 1

    def choose(self) -> Retraction:
        """The mode for the next step."""
        return self.mode if self._until_other > 0 else _OTHER[self.mode]

    def learn(self, mode: Retraction, cost: float) -> None:
        """Learn what one correction in ``mode`` has cost."""
        before = self._costs[mode]
        self._costs[mode] = smoothed(before, min(cost, _OUTLIER * before) if before else cost)
        self._made[mode] += 1
        self._until_other = self._until_other - 1 if self._until_other > 0 else _SOONEST - 1
        here, there = self._costs[self.mode], self._costs[_OTHER[self.mode]]
        if here is None or there is None or min(self._made.values()) < _ENOUGH:
            return
        if there < _BETTER * here:
            self.mode = _OTHER[self.mode]
            self.switches += 1
            self._until_other = _SOONEST - 1
        elif mode is not self.mode:
            worth = (there / here - 1) / _EXPLORING if here > 0 else _SELDOM
            self._until_other = int(min(_SELDOM, max(_SOONEST, worth))) - 1


_OTHER = {Retraction.ON_DEMAND: Retraction.FULL, Retraction.FULL: Retraction.ON_DEMAND}
