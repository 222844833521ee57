"""alpha by what is gained: speculate as far as it makes results earlier, and no further.

An event waits alpha * K before it is emitted, and in a queue if the node cannot keep up. As long as the node keeps up,
speculation costs nobody anything, however busy the machine is: less alpha is less latency. Once it does not, corrections take
the time of events that wait, and the queue soon outweighs alpha * K. So the best alpha is the least one at which the node keeps
up; if it does not even without corrections, that is 1. Three measures tell:

- ``busy``, the busy factor: with time to spare, alpha falls as far as corrections should leave 3 % of the time, if they grow
  like 1 - alpha. That errs, so it is looked at again after each interval.
- ``corrections``, their share of that time: without them, would there be time to spare?
- ``behind``, the share of the time spent in steps that took as much as a step may: then more had come than the node takes. A
  node may have nothing to spare and yet keep up: small steps take all the time, too, and larger ones cost less and need fewer
  corrections. So alpha falls as long as steps are not full.

A node for which an alpha was right for long may be held up by other programs for a moment. It backs off while the queue is
there, and goes back at once; only what fails again soon is to blame.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

STEP = 0.05
"""How much alpha falls at once where nothing can be predicted, and its distance from where the node fell behind."""

_FULL, _DRAINING = 0.97, 0.9
"""Busy factors aimed at: where the node keeps up, and where it has a queue to work off."""

_DRAINING_LOAD = 0.96
"""If detectors took a larger share of the time without any correction, a queue would hardly be worked off."""

_WORTH = 0.02
"""Corrections that take less than this share are not to blame for a queue."""

_NOTED = 0.05
"""Unless it lasts: their share times the intervals is so much of an interval by then."""

_FALLING, _NEARLY = 1 / 2, 0.1
"""The share of alpha that is left after an interval without time to spare, and the share of that up to which steps are full."""

_ANOTHER = 0.8
"""Below this share of the load under which the node fell behind, the load counts as another one."""

_SOON, _SELDOM = 8, 240
"""After how many intervals what failed is tried again; after each failure, twice as many, up to the second number."""

_NONE = -1.0


class Gain(Struct, frozen=True):
    """State of the controller. ``alpha``: 1 is plain buffering, 0 full speculation.

    ``floor``, ``failed``
        the alpha at which the node fell behind, and the load at that time; alpha stays a step above it. _NONE: there is none.
    ``proven``
        the alpha at which the node had kept up for long when it fell behind: other programs may have held it up, so it
        goes back there once the queue is gone, and only if that fails soon is it to blame. _NONE: there is none.
    ``intervals``, ``patience``
        intervals since then, and after how many of them the floor is lowered by a step.
    ``load``
        the share of the time that detectors would need without corrections.
    ``behind``
        for how many intervals the node has been behind: it may still be working off a queue.
    """

    alpha: float = 1.0
    floor: float = _NONE
    failed: float = 0.0
    proven: float = _NONE
    intervals: int = 0
    patience: int = _SOON
    load: float = 0.0
    behind: int = 0

    @property
    def was_held_up(self) -> bool:
        """Whether alpha goes back to a proven one once the queue is gone."""
        return self.proven != _NONE

    def is_over(self, corrections: float, behind: float) -> bool:
        """Whether the node does not keep up, and less speculation would help."""
        return behind > 0.5 and self.alpha < 1.0 and (corrections > _WORTH or corrections * self.behind > _NOTED)

    def adapted(self, busy: float, corrections: float, behind: float) -> Gain:
        """The next state, for the measures of the last interval (each 0 to 1).

        >>> state = Gain()
        >>> for _ in range(5):
        ...     state = state.adapted(0.3, 0.05, 0.0)
        >>> state.alpha
        0.0
        >>> state.adapted(1.0, 0.4, 1.0).alpha > 0
        True
        """
        if behind > 0.5:
            load = busy * (1 - corrections)  # or more
            now = replace(self, load=max(self.load, load), behind=self.behind + 1)
            return now._backed_off(corrections, self.load < _ANOTHER * load) if self.is_over(corrections, behind) else now
        now = replace(self, load=busy * (1 - corrections), behind=0, intervals=self.intervals + 1)._hopeful()
        if self.was_held_up and busy < _FULL and now.load < _DRAINING_LOAD:
            return replace(now, alpha=min(self.alpha, self.proven), proven=_NONE, intervals=0)
        least = 0.0 if now.floor == _NONE else now.floor + STEP
        alpha = max(least, now._lower(busy, corrections, behind))
        return replace(now, alpha=0.0 if alpha < STEP / 2 else min(self.alpha, alpha))

    def _backed_off(self, corrections: float, is_another: bool) -> Gain:
        """Up to where the queue is worked off by all that is known; if that was not enough, half way to 1, then to 1. Under
        another load, at once to 1. That says nothing of the alpha before, nor does a first failure after a long time."""
        if self.behind > 1:
            return replace(self, alpha=1.0 if self.behind > 2 else (1 + self.alpha) / 2, intervals=0)
        alpha = 1.0 if is_another else min(1.0, max(self.alpha + STEP, self._least(corrections, _DRAINING)))
        now = replace(self, alpha=alpha, proven=_NONE, intervals=0)
        if self.intervals >= _SOON and self.floor == _NONE:
            return replace(now, proven=self.alpha)
        if is_another:
            return now
        return replace(now, floor=self.alpha, failed=self.load, patience=min(2 * self.patience, _SELDOM))

    def _hopeful(self) -> Gain:
        """A failed alpha counts no more under another load, and by a step less after a while."""
        if self.load < _ANOTHER * self.failed:
            return replace(self, floor=_NONE, failed=0.0, patience=_SOON)
        if self.floor != _NONE and self.intervals >= self.patience:
            return replace(self, floor=self.floor - STEP if self.floor > STEP else _NONE, intervals=0)
        return self

    def _lower(self, busy: float, corrections: float, behind: float) -> float:
        """A lower alpha that seems right, or the same."""
        if busy < _FULL:
            return max(busy, 0.1) if self.alpha == 1.0 else max(self.alpha / 3, self._least(corrections, _FULL))
        if behind > _NEARLY:
            return self.alpha - STEP
        return 1 - 2 * STEP if self.alpha == 1.0 else self.alpha * _FALLING

    def _least(self, corrections: float, busy: float) -> float:
        """The least alpha at which the busy factor is still as given, if corrections grow like 1 - alpha."""
        if self.alpha == 1.0 or corrections <= 0:
            return 0.0
        most = corrections / max(1 - corrections, 0.01) / (1 - self.alpha)  # at alpha = 0, for each unit of other work
        return 1 - max(0.0, busy / max(self.load, 0.001) - 1) / most
