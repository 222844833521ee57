"""What of the changes of a publisher stands for someone who refused some of them."""

from __future__ import annotations

import random

import pytest

from middleware.model.change import Insert, Retract, Revise
from middleware.testing.simulation.applications import Reading
from middleware.testing.simulation.source_changes import Claim, accepted_events, claim, consistent, with_changes

FIRST, SECOND = (Reading(1, value, ts=5, id=1, source="p") for value in (1, 2))
SAID = [Insert(FIRST), Revise(SECOND, FIRST), Retract(SECOND)]


@pytest.mark.parametrize(
    ("refused", "stands"),
    [
        ([], []),
        ([claim("retract", SECOND)], [SECOND]),
        ([claim("revise", SECOND), claim("retract", SECOND)], [FIRST]),
        ([claim("retract", FIRST)], [FIRST]),  # revision and withdrawal came together
        ([claim("insert", SECOND)], []),  # event and revision came together
    ],
)
def test_what_stands_without_what_was_refused(refused: list[Claim], stands: list[Reading]) -> None:
    assert accepted_events(SAID, set(refused)) == stands


@pytest.mark.parametrize("refused", [[], [claim("retract", FIRST)], [claim("retract", SECOND)], [claim("revise", SECOND)]])
def test_a_repeated_announcement_changes_nothing(refused: list[Claim]) -> None:
    assert accepted_events([*SAID, *SAID], set(refused)) == accepted_events(SAID, set(refused))


@pytest.mark.parametrize("seed", range(20))
def test_drawn_changes_rest_on_what_is_there(seed: int) -> None:
    rng = random.Random(seed)
    events = [Reading(1, rng.randrange(10), ts=number, id=number, source="p") for number in range(40)]
    changes = with_changes(rng, events, 0.5, 10)
    assert consistent(changes) == changes
    assert len(changes) > 50
    assert consistent([each for each in changes if type(each) is not Insert]) == []
