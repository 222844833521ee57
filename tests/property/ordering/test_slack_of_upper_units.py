"""K of an upper unit follows from K below it: speculation, ties and quiet times add no more than one step of the clock."""

import random

import pytest

from middleware.model.change import Batch, Delta
from middleware.model.event import type_name
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.lanes.retraction import Retraction
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import Lateness

from .streams import KeyedFold, Reading, Top, Upper


def a_gappy_stream(rng: random.Random) -> list[Reading]:
    """Readings in order of arrival: ties, moderate lateness, and now and then a long silence."""
    gap, lateness, rows, ts = rng.choice([1, 1_000, 1_000_000]), rng.choice([0, 5, 50]), [], 0
    for number in range(80):
        ts += rng.choice([0, 0, 1, 2, 3]) * (gap if rng.random() < 0.2 else 1)
        event = Reading(rng.randrange(3), rng.randrange(10), ts=ts, id=number, source="a")
        rows.append((ts + (rng.randint(0, lateness) if rng.random() < 0.3 else 0), number, event))
    return [event for _, _, event in sorted(rows)]


@pytest.mark.parametrize("retraction", [Retraction.ON_DEMAND, Retraction.FULL])
@pytest.mark.parametrize("alpha", [0.0, 0.25, 0.5, 1.0])
def test_k_above_is_at_most_k_below_and_backdate_and_one_step_of_the_clock(alpha: float, retraction: Retraction) -> None:
    for seed in range(60):
        rng = random.Random(seed)
        policy = Policies(alpha=alpha, lateness=Lateness(1, 10**12), retraction=retraction, spacing=8)
        hierarchy = Hierarchy([KeyedFold(), Upper(), Top()], policies=policy)
        stream, step, clock = a_gappy_stream(rng), 0, 0
        for event in stream:
            step, clock = max(step, event.ts - clock), max(clock, event.ts)
            hierarchy.process(Batch({type_name(Reading): Delta([event])}, {}, clock))
            below, middle, above = (unit.clock.k for unit in hierarchy.units)
            assert middle <= below + KeyedFold.backdate + step, f"seed {seed}, {event}"
            assert above <= middle + KeyedFold.backdate + step, f"seed {seed}, {event}"
