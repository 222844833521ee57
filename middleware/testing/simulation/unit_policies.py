"""Draws policies for the units of simulated worlds."""

from __future__ import annotations

import random
from typing import Literal

from middleware.model.detector import Detector
from middleware.ordering.lanes.retraction import Retraction
from middleware.ordering.policies import BUFFERING, Policies
from middleware.ordering.slack.kslack import FixedSlack, Lateness, QuantileSlack
from middleware.testing.simulation.applications import RAISING


def a_policy(rng: random.Random, detector: Detector, by_clock: bool = False) -> Policies:
    """A random policy, but never with a lateness too narrow for a useful test. ``by_clock``: one with many late events.

    Detectors that raise are not to stop, as they are to have all results of the oracle.
    """
    wide = [] if by_clock else [Lateness(2, 200), Lateness(1, 10_000)]
    slack = [lambda: QuantileSlack(0.7, 16)] if by_clock else [None, lambda: FixedSlack(6)]
    alphas: list[float | Literal["buffering"]] = [0.0, 0.0, 0.5, 1.0, BUFFERING]
    alpha = rng.choice(alphas[: -1 if isinstance(detector, RAISING) else None])
    return Policies(
        alpha=alpha,
        slack=rng.choice([None, lambda: QuantileSlack(0.9, 32), *slack]),
        lateness=rng.choice([Lateness(1, 0), Lateness(2, 10), *wide]),
        retraction=rng.choice(list(Retraction)),
        spacing=rng.choice([None, 1, 3, 8]),
        failing="stop" if alpha == BUFFERING else "skip",
    )
