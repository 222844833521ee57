"""alpha beyond the paper: the busy budget goes where it lowers the latency of results that people subscribe to.

A control, Algorithm 3 or ``Gain``, sets how much is speculated in all. It does not say where. Three observations do:

- A unit that no subscribed type depends on wins nothing by speculating: it buffers (alpha = 1).
- An event reaches the end of a path when the unit that waits longest, alpha_i * K_i, releases it. Units on the path that wait
  less than that pay for rollbacks and win nothing. So all units wait the same time w: alpha_i = w / K_i.
- Under pressure, before all units back off, those stop speculating that win the least latency for their cost: K_i for each
  subscribed result that depends on the unit, per nanosecond spent on its corrections.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from middleware.ordering.alpha import LOWER, UPPER, Alpha
from middleware.ordering.gain import Gain

_POOR = 0.25
"""A unit is poor if its share of all latency won is below this part of its share of all that corrections cost."""

_RETURN = 4
"""After this many intervals below the target zone, a unit that was set aside may speculate again."""


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


def corrections_of(loads: Sequence[Load]) -> float:
    """The share of all work that went into corrections."""
    work = sum(load.work for load in loads)
    return min(1.0, sum(load.corrections for load in loads) / work) if work > 0 else 0.0


class Budget:
    """Alphas for all units of a node, from the busy factor and their loads. Pure: its state changes in ``adapt`` only."""

    def __init__(self, control: Alpha | Gain | None = None) -> None:
        self.control: Alpha | Gain = Alpha() if control is None else control
        self.aside: list[str] = []
        self._calm = 0

    def adapt(self, busy: float, loads: Sequence[Load], wanted: frozenset[str], behind: float = 0.0) -> dict[str, float]:
        """alpha by unit, after an interval with this busy factor; ``wanted``: the units that subscribed results depend on.

        ``behind``: the share of the interval in which the node could not take all that had come (for ``Gain``).
        """
        self._calm = self._calm + 1 if busy < LOWER else 0
        control, spent = self.control, corrections_of(loads)
        is_over = control.is_over(spent, behind) if isinstance(control, Gain) else busy > UPPER and control.alpha < 1.0
        poorest = self._poorest(loads, wanted) if is_over else None
        if poorest is not None:
            self.aside.append(poorest)
        else:
            self.control = control.adapted(busy, spent, behind) if isinstance(control, Gain) else control.adapted(busy)
            if self._calm >= _RETURN and self.aside:
                self.aside.pop()
                self._calm = 0
        speculating = [load for load in loads if load.name in wanted and load.name not in self.aside]
        wait = self.control.alpha * max((load.k for load in speculating), default=0)
        alphas = dict.fromkeys((load.name for load in loads), 1.0)
        alphas |= {load.name: min(1.0, wait / load.k) if load.k else self.control.alpha for load in speculating}
        return alphas

    def _poorest(self, loads: Sequence[Load], wanted: frozenset[str]) -> str | None:
        """The unit that wins least for its cost, if it wins so little that it should stop speculating before all back off."""
        able = [load for load in loads if load.name in wanted and load.name not in self.aside and load.corrections > 0]
        cost = sum(load.corrections for load in able)
        won = sum(load.k * load.results for load in able)
        if len(able) < 2 or not won:
            return None
        share = {load.name: (load.k * load.results / won) / (load.corrections / cost) for load in able}
        name = min(share, key=lambda name: (share[name], name))
        return name if share[name] < _POOR else None
