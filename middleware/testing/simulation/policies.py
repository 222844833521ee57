"""Draws policies for the units of simulated worlds."""

from __future__ import annotations

import random

from middleware.ordering.kslack import FixedSlack, Lateness, QuantileSlack
from middleware.ordering.policies import Policies
from middleware.ordering.retraction import Retraction


def a_policy(rng: random.Random, by_clock: bool = False) -> Policies:
    """A random policy, but never with a lateness too narrow for a useful test. ``by_clock``: one with many late events."""
    wide = [] if by_clock else [Lateness(2, 200), Lateness(1, 10_000)]
    slack = [lambda: QuantileSlack(0.7, 16)] if by_clock else [None, lambda: FixedSlack(6)]
    return Policies(
        alpha=rng.choice([0.0, 0.0, 0.5, 1.0]),
        slack=rng.choice([None, lambda: QuantileSlack(0.9, 32), *slack]),
        lateness=rng.choice([Lateness(1, 0), Lateness(2, 10), *wide]),
        retraction=rng.choice(list(Retraction)),
        spacing=rng.choice([None, 1, 3, 8]),
    )
