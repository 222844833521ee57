"""alpha beyond the paper: the busy budget goes where it lowers the latency of results that people subscribe to.

A control, Algorithm 3 or ``Gain``, sets how much is speculated in all. It does not say where. Three observations do:

- A unit that no subscribed type depends on wins nothing by speculating: it buffers (alpha = 1).
- An event reaches the end of a path when the unit that waits longest, alpha_i * K_i, releases it. Units on the path that wait
  less than that pay for rollbacks and win nothing. So all units wait the same time w: alpha_i = w / K_i.
- Under pressure, those stop speculating that win the least latency for their cost: K_i for each subscribed result that depends
  on the unit, per nanosecond spent on its corrections. All that are poor do at once: one of a hundred would not help.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from middleware.ordering.alpha.adaptation import LOWER, UPPER, Alpha
from middleware.ordering.alpha.gain import Gain

_POOR = 0.25
"""A unit is poor if its share of all latency won is below this part of its share of all that corrections cost."""

_NOTABLE = 0.1
"""Poor units are set aside if they cost this share of all corrections."""

_RETURN = 4
"""After so many intervals with time to spare, half of the units that were set aside, the richer, may speculate again."""


class Load(NamedTuple):
    """The load of a unit in the last interval.

    ``k``
        its slack, ns. ``corrections``: what it spent on corrections (ns, or detector calls).
    ``results``
        subscribed results of that interval that depend on it: published by itself, or by units above it.
    ``work``
        what it spent in all, corrections included.
    """

    name: str
    k: int
    corrections: float
    results: float
    work: float = 0.0


def corrections_of(loads: Sequence[Load], work: float = 0.0) -> float:
    """The share of all work that went into corrections; ``work``: all, where units do not see some of it."""
    work = max(work, sum(load.work for load in loads))
    return sum(load.corrections for load in loads) / work if work > 0 else 0.0


class Budget:
    """Alphas for all units of a node, from the busy factor and their loads. Pure: its state changes in ``adapt`` only."""

    def __init__(self, control: Alpha | Gain | None = None) -> None:
        self.control: Alpha | Gain = Alpha() if control is None else control
        self.aside: list[str] = []
        self._intervals_keeping_up = 0

    def adapt(
        self, busy: float, loads: Sequence[Load], subscribed: frozenset[str], behind: float = 0.0, work: float = 0.0
    ) -> dict[str, float]:
        """alpha by unit, after an interval with this busy factor; ``subscribed``: the units that subscribed results depend on.

        ``behind``: the share of the interval in which the node could not take all that had come (for ``Gain``); ``work``: what
        it spent in that interval, in the unit of the loads, if that is more than they say.
        """
        control, spent = self.control, corrections_of(loads, work)
        if isinstance(control, Gain):
            is_over = control.is_over(spent, behind) and control.behind > 0  # once may be chance
            self.control = control.adapted(busy, spent, behind)
            keeps_up = behind <= 0.5
            is_keeping_up = self.control.alpha == control.alpha and keeps_up
            if keeps_up and control.was_held_up and not self.control.was_held_up:
                self.aside.clear()  # nor were they to blame
        else:
            is_over, is_keeping_up = busy > UPPER and control.alpha < 1.0, busy < LOWER
        poor = self._poor(loads, subscribed) if is_over else []
        self.aside += poor
        if isinstance(control, Alpha) and not poor:
            self.control = control.adapted(busy)
        self._intervals_keeping_up = self._intervals_keeping_up + 1 if is_keeping_up else 0
        if self._intervals_keeping_up >= _RETURN and self.aside:
            del self.aside[: (len(self.aside) + 1) // 2]
            self._intervals_keeping_up = 0
        speculating = [load for load in loads if load.name in subscribed and load.name not in self.aside]
        wait = self.control.alpha * max((load.k for load in speculating), default=0)
        alphas = dict.fromkeys((load.name for load in loads), 1.0)
        alphas |= {load.name: min(1.0, wait / load.k) if load.k else self.control.alpha for load in speculating}
        return alphas

    def _poor(self, loads: Sequence[Load], subscribed: frozenset[str]) -> list[str]:
        """The units that win so little for what they cost that they should stop speculating before all back off.

        Single ones would not help where there are hundreds: all of them, poorest last, or none if they hardly cost anything.
        """
        able = [load for load in loads if load.name in subscribed and load.name not in self.aside and load.corrections > 0]
        cost = sum(load.corrections for load in able)
        won = sum(load.k * load.results for load in able)
        if not won:
            return []
        share = {load.name: (load.k * load.results / won) / (load.corrections / cost) for load in able}
        poor = [load for load in able if share[load.name] < _POOR]
        if sum(load.corrections for load in poor) < _NOTABLE * cost:
            return []
        return sorted((load.name for load in poor), key=lambda name: (-share[name], name))
