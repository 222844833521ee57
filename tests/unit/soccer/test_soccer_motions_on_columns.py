"""Motions in numpy, for all transmitters at once, are those of the detector by event, bit for bit."""

import random

import motions_on_columns as on_columns
import pytest
from soccer_situations import BALL

from detectors.soccer.events import Position
from detectors.soccer.players import player_motion
from middleware.model.event import ORDER
from middleware.model.time import MILLISECOND, SECOND
from middleware.ordering.policies import Policies
from middleware.runtime.engine import run
from middleware.testing.oracle import in_order

ODD = [0.0, -0.0, 0.05, 1.0, 1e308, float("nan"), float("inf")]


def positions(seed: int, count: int = 300) -> list[Position]:
    """Of limbs, a ball, and some who play no part; with gaps, ties, odd numbers, and times on both sides of 0."""
    rng = random.Random(seed)
    start, span = rng.choice([-100 * MILLISECOND, 0, 10**6 * SECOND]), rng.choice([200 * MILLISECOND, 3 * SECOND])

    def value() -> float:
        return rng.choice(ODD) if rng.random() < 0.004 else rng.gauss(0, rng.choice([0.01, 0.1, 3]))

    return [
        Position(
            rng.choice([5, 6, 7, BALL, BALL + 1, 89, 999]),
            *(value() for _ in range(9)),
            ts=start + rng.randrange(span) // MILLISECOND * MILLISECOND,
            id=number,
            source=rng.choice("ab"),
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("seed", range(12))
def test_in_order(seed: int) -> None:
    events = positions(seed)
    expected = sorted(in_order("Motions", player_motion.Motions(), 1, events), key=ORDER)
    assert repr(sorted(in_order("Motions", on_columns.Motions(), 1, events), key=ORDER)) == repr(expected)
    assert expected


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("batch", [1, 7, 100])
def test_out_of_order_in_any_batches(alpha: float, batch: int) -> None:
    events = positions(99)
    arrived = sorted(events, key=lambda event: event.ts + random.Random(event.id).randrange(300 * MILLISECOND))
    policies = Policies(alpha=alpha, spacing=1)
    by_event = run(arrived, {"Motions": player_motion.Motions()}, policies=policies, batch=batch)
    in_batches = run(arrived, {"Motions": on_columns.Motions()}, policies=policies, batch=batch)
    assert repr(in_batches.finals) == repr(by_event.finals)
    assert not by_event.late["Motions"]
    assert by_event.finals["Motions"]
