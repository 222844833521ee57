"""The whole hierarchy on one generated minute, against what really happened there."""

from collections.abc import Callable
from copy import deepcopy
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

import pytest
from soccer_situations import ms, recording

from detectors.soccer.events import BlockedShot, Position
from detectors.soccer.soccer_hierarchy import soccer
from middleware.evaluation.measuring.accuracy import score
from middleware.model.detector import fresh, key_function
from middleware.model.event import ORDER, Event, type_name
from middleware.model.identity import Derivation, levels
from middleware.model.values.state import same_state
from middleware.runtime.engine import run
from middleware.testing.oracle import in_order
from scenarios.soccer.match import Happening, truth
from scenarios.soccer.scores import generated

SEED = 16
SECONDS = 60


@pytest.fixture(scope="module")
def minute() -> dict[str, list[Event]]:
    return run(recording(SEED, SECONDS), soccer()).finals


@pytest.fixture(scope="module")
def story() -> list[Happening]:
    return truth(SEED, SECONDS)


def who(happening: Happening) -> tuple[int, int]:
    return happening.player, happening.other


class Case(NamedTuple):
    """What happened, which detector finds it as which event, by whose players, and how well at least (F1)."""

    kind: str
    detector: str
    event: str
    players: Callable[[Any], tuple[int, int]]
    least: float


CASES = [
    Case("touch", "PlayerHits", "PlayerHitsBall", lambda e: (e.player, 0), 0.95),
    Case("pass", "Passes", "Pass", lambda e: (e.player, e.receiver), 0.95),
    Case("failed pass", "Passes", "FailedPass", lambda e: (e.player, e.receiver), 0.9),
    Case("shot", "Shots", "ShotOnGoal", lambda e: (e.player, 0), 0.95),
    Case("save", "ShotOutcomes", "Save", lambda e: (e.player, e.shooter), 0.9),
    Case("goal", "Goals", "Goal", lambda e: (e.player, 0), 0.95),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kind)
def test_score(minute, story, case: Case):
    found = [(case.players(e), e.ts) for e in minute[case.detector] if type_name(type(e)) == f"soccer.{case.event}"]
    true = [(who(h), h.end) for h in story if h.kind == case.kind]
    assert true, f"nothing to find: choose another seed than {SEED}"
    assert score(found, true, ms(200)).f1 >= case.least


def test_passes_shots_and_goals_at_a_glance(minute, story):
    """What the evaluation reports: the same as above, in one call."""
    found = generated(minute, story)
    assert set(found) == {"pass", "shot", "goal"}
    assert all(accuracy.true > 0 and accuracy.f1 >= 0.95 for accuracy in found.values()), found


def test_blocked_shots():
    """They are rare: a snippet that has two."""
    derived = run(recording(22, 13), soccer()).finals
    found = [((e.player, e.shooter), e.ts) for e in derived["ShotOutcomes"] if isinstance(e, BlockedShot)]
    true = [(who(h), h.end) for h in truth(22, 13) if h.kind == "block"]
    assert len(true) == 2
    assert score(found, true, ms(200)).f1 == 1.0


def test_shots_are_judged_rightly(minute, story):
    """Whether a shot goes to the goal is foreseen from its first 80 ms."""
    expected = {(h.player, round(h.ts / ms(200))): h.on_target for h in story if h.kind == "shot"}
    found = {(e.player, round(e.ts / ms(200))): e.on_target for e in minute["Shots"]}
    same = [found[shot] == expected[shot] for shot in found.keys() & expected.keys()]
    assert same
    assert sum(same) / len(same) >= 0.75


def test_play_stops_and_goes_on(minute, story):
    kinds = [type(event).__name__ for event in minute["DeadBalls"]]
    outs = [h for h in story if h.kind == "out"]
    assert kinds.count("DeadBall") == len(outs) > 0
    assert kinds == ["DeadBall", "Restart"] * (len(kinds) // 2) + ["DeadBall"] * (len(kinds) % 2)


def test_players_are_where_their_limbs_are(minute, story):
    """Each player has positions all the time, and never jumps (once all four limbs are known)."""
    by_player: dict[int, list[Any]] = {}
    for event in minute["PlayerMotions"]:
        by_player.setdefault(event.player, []).append(event)
    assert set(by_player) == set(range(1, 23))
    for motions in by_player.values():
        for one, other in pairwise(motions[3:]):
            seconds = (other.ts - one.ts) * 1e-9
            assert seconds < 1.2
            assert abs(other.x - one.x) < 9 * seconds + 0.15
            assert abs(other.y - one.y) < 9 * seconds + 0.15


def inputs_of(name: str, minute: dict[str, list[Event]]) -> list[Event]:
    read = soccer()[name].subscribes
    lower = [event for events in minute.values() for event in events if type(event) in read]
    raw = recording(SEED, 1.0) if Position in read else []
    return sorted(lower + raw, key=ORDER)[:10_000]


@pytest.mark.parametrize("name", sorted(soccer()))
def test_every_detector_is_its_state(name, minute):
    """Moved through a snapshot to a new instance at every 7th event, or 400 times, a detector continues as it would have."""
    detector, level = soccer()[name], levels(soccer())[name]
    events, key = inputs_of(name, minute), key_function(detector)
    expected = in_order(name, detector, level, events)
    share, random = min(1 / 7, 400 / max(1, len(events))), Random(name)
    lanes: dict[Any, Any] = {}
    derived: list[Event] = []
    for event in events:
        value = key(event) if key else None
        lane = lanes.get(value) or fresh(detector)
        if random.random() < share:
            state, lane = lane.snapshot(), deepcopy(detector)  # as it was made: with nothing that a snapshot omits
            lane.restore(state)
            assert same_state(lane.snapshot(), state)
        lanes[value] = lane
        result = lane.on_event(event)
        if result is not None:
            derived += Derivation(name, detector, level, value)(event, result)
    assert derived == expected
