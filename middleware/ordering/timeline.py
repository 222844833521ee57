"""The timeline of a unit: the only place that moves clk, K, the AEP and ``final`` (DEBS'13, sections 3.2 and 4.1)."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from middleware.model.event import END, NEVER, EventType
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import LocalClock
from middleware.ordering.slack.robust import RobustSlack

_STORED = ("alpha", "final", "emitted", "newest")


class Timeline:
    """Where one unit stands in time; all times are in ns.

    ``clock``
        clk and K. ``ticking``: the types whose events move clk; None: all types, and clock marks of the node.
    ``alpha``
        the share of K for which an event waits before the detector gets it.
    ``emitted``
        the AEP: the detector has all events up to this time.
    ``final``
        no event at or before this time is admitted any more, so what follows from those never changes again.
    ``newest``
        the time of the latest event admitted.
    ``is_buffering``
        whether the detector gets events only once they are final, whatever alpha is.

    Invariant: ``final`` and ``emitted`` never go back, but for ``resume``, and ``final <= emitted``.
    """

    __slots__ = ("_allowed", "_lateness", "_reach", "alpha", "clock", "emitted", "final", "is_buffering", "newest", "ticking")

    def __init__(self, policies: Policies, ticking: Collection[EventType] = ()) -> None:
        slack = policies.slack
        self.clock = LocalClock(slack() if slack is not None else RobustSlack(policies.lateness))
        self.ticking = frozenset(ticking) or None
        self.alpha, self.is_buffering = policies.initial_alpha, policies.is_buffering
        self.final = self.emitted = self.newest = NEVER
        self._lateness = policies.lateness
        self._reach, self._allowed = 0, policies.lateness.of(0)  # the latter follows from the former

    @property
    def lateness(self) -> int:
        """How far behind clk results may still change where an input is open."""
        return self._lateness.of(self.clock.policy.reach)

    def mark(self, mark: int) -> None:
        """Take a clock mark of the node. O(1)."""
        if self.ticking is None:
            self.clock.mark(mark)

    def settle(self, promised: int, is_open: bool) -> None:
        """Move ``final`` as far as watermarks and the allowed lateness permit. O(1).

        ``promised``: the smallest watermark of the inputs that have one. ``is_open``: whether some input has none.
        """
        clock = self.clock
        if not is_open:
            clock.within = END
            self.final = max(self.final, promised)
            return
        if clock.policy.reach != self._reach:
            self._reach = clock.policy.reach
            self._allowed = self.lateness + self.is_buffering  # what is as late as the latest so far must not be lost
        if clock.clk != NEVER and self._allowed:
            self.final = max(self.final, min(promised, clock.clk - self._allowed))
            clock.within = self._allowed

    def emit(self, until: int = NEVER) -> int:
        """Move the AEP to the last time with ts + alpha * K <= clk, at least to ``final`` and ``until``; return it. O(1).

        With buffering it moves to ``final`` only.
        """
        if self.is_buffering:
            return self.emit_final()
        clk = self.clock.clk
        emitted = max(self.emitted, self.final, until)
        if clk > emitted:
            emitted = max(emitted, clk - math.ceil(self.alpha * self.clock.k)) if self.alpha else clk
        self.emitted = emitted
        return emitted

    def emit_final(self) -> int:
        """Move the AEP to ``final`` only, as nothing early is of any use. O(1)."""
        self.emitted = max(self.emitted, self.final)
        return self.emitted

    def pass_time(self, mark: int | None, promised: int, is_open: bool) -> bool:
        """Move clk, ``final`` and with it the AEP where nothing has arrived; return whether ``final`` has moved. O(1).

        Most units of a node get nothing in most steps, so this makes no calls where the inputs have watermarks.
        """
        clock, before = self.clock, self.final
        clock.release()
        if self.ticking is None and mark is not None and mark > clock.clk:
            clock.mark(mark)
        if is_open or clock.within != END:
            self.settle(promised, is_open)
        elif promised > before:
            self.final = promised
        final = self.final
        if final == before:
            return False
        if final > self.emitted:  # noqa: PLR1730 (no call: see above)
            self.emitted = final
        return True

    def resume(self, floor: int) -> None:
        """Go on after the end from ``floor``: up to it, all stays final. The only move backwards."""
        self.final = self.emitted = floor

    def state(self) -> dict[str, Any]:
        """All of it as plain values. To be called between two batches."""
        return {name: getattr(self, name) for name in _STORED} | {"clock": self.clock.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Become the timeline that gave ``state``."""
        for name in _STORED:
            setattr(self, name, state[name])
        self.clock.restore(state["clock"])
