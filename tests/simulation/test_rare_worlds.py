"""What only some worlds have: drawn often enough to be seen, seldom enough to leave others as they are; and it happens."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import islice

import pytest

from detectors.simulated import an_application
from middleware.model.values.attributes import slots
from middleware.testing.simulation.disk import DAMAGES
from middleware.testing.simulation.hunt import play
from middleware.testing.simulation.plans.drawing import draw
from middleware.testing.simulation.plans.hard import RARE
from middleware.testing.simulation.plans.world_plan import WorldPlan

KINDS = [
    *(name for name, (share, _) in RARE.items() if share),
    "state in slots",
    "nobody reads",
    "flip a byte",
    "cut log",
    "older",
]
HAPPENS = {
    "operator that stops": "halts",
    "copies that clash": "clashes",
    "outliers": "late",
    "reader cut off": "lacking",
    "readers that join": "joined",
    "nobody reads": "joined",
    "flip a byte": "flip a byte",
    "cut log": "cut log",
    "older": "older log",
}
"""What is counted when it happens."""


def kinds_of(plan: WorldPlan) -> set[str]:
    found = {*plan.rare, *(each.kind for each in plan.incidents if each.kind in DAMAGES)}
    found |= {"nobody reads"} if plan.unwatched else set()
    found |= {"older"} if found & {"older log", "older folder"} else set()
    return found | ({"state in slots"} if any(slots(type(each)) for each in plan.detectors.values()) else set())


@cache
def drawn() -> dict[str, list[int]]:
    """By kind, the seeds below 400 of which worlds have it."""
    kinds = {seed: kinds_of(draw(seed, application=an_application)) for seed in range(400)}
    return {kind: [seed for seed, found in kinds.items() if kind in found] for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_rare_but_not_too_rare(kind: str) -> None:
    assert 10 <= len(drawn()[kind]) <= 40


@pytest.mark.parametrize(("kind", "counted"), HAPPENS.items())
def test_it_happens(kind: str, counted: str) -> None:
    troubles: Counter[str] = Counter()
    for seed in islice(drawn()[kind], 8):
        outcome = play(draw(seed, application=an_application))
        assert outcome.failure is None, f"seed {seed}: {outcome.failure}"
        troubles += outcome.troubles
        if troubles[counted] > 1:
            return
    raise AssertionError(f"{kind}: nothing came of it in eight worlds")
