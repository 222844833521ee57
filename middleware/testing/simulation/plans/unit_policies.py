"""Draws policies for the units of simulated worlds."""

from __future__ import annotations

import random

from msgspec.structs import replace

from middleware.model.detector import Detector
from middleware.ordering.lanes.retraction import Retraction
from middleware.ordering.policies import BUFFERING, Policies
from middleware.ordering.slack.kslack import FixedSlack, Lateness, QuantileSlack
from middleware.testing.simulation.applications import RAISING


def a_policy(rng: random.Random, detector: Detector, by_clock: bool = False) -> Policies:
    """A random policy, but never with a lateness too narrow for a useful test. ``by_clock``: one with many late events.

    Detectors that raise do not buffer: they would stop, and are to have all results of the oracle.
    """
    wide = [] if by_clock else [Lateness(2, 200), Lateness(1, 10_000)]
    slack = [lambda: QuantileSlack(0.7, 16)] if by_clock else [None, lambda: FixedSlack(6)]
    drawn = Policies(
        alpha=rng.choice([0.0, 0.0, 0.5, 1.0]),
        slack=rng.choice([None, lambda: QuantileSlack(0.9, 32), *slack]),
        lateness=rng.choice([Lateness(1, 0), Lateness(2, 10), *wide]),
        retraction=rng.choice(list(Retraction)),
        spacing=rng.choice([None, 1, 3, 8]),
    )
    if drawn.alpha == 1.0 and drawn.retraction is not Retraction.ON_DEMAND and not isinstance(detector, RAISING):
        return replace(drawn, alpha=BUFFERING, failing="stop")
    return drawn
