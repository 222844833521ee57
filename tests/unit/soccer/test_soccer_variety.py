"""Eight light minutes with fouls, posts and ideas, four more with a goal: every detector finds something, the right thing."""

from itertools import pairwise

import pytest

from detectors.soccer.soccer_hierarchy import soccer
from middleware.evaluation.measuring.accuracy import Accuracy, score
from middleware.model.event import ORDER, Event
from middleware.runtime.engine import run
from scenarios.soccer.match.light import Light, positions
from scenarios.soccer.match.truth import Happening
from scenarios.soccer.match.variety import Variety
from scenarios.soccer.scores import generated

SEED, SECONDS = 3, 480.0
SCORED, UNTIL = 2, 220.0
"""A match with a goal, from a pass, as there is none in the other."""
NEAR = 200_000_000

Played = tuple[list[Happening], dict[str, list[Event]]]


def play(seed: int, seconds: float) -> Played:
    match = Light(seed, seconds, Variety(seed, fouls=0.15, ideas=0.4, posts=0.6))
    events = list(match.events())
    return match.truth, run(sorted(events, key=ORDER), soccer("light")).finals


@pytest.fixture(scope="module")
def played() -> Played:
    return play(SEED, SECONDS)


@pytest.fixture(scope="module")
def scored() -> Played:
    return play(SCORED, UNTIL)


def test_every_detector_fires(played: Played, scored: Played):
    silent = sorted(name for name, found in played[1].items() if not found and not scored[1][name])
    assert not silent
    assert len(played[1]) == 95


def test_goals_are_those_of_the_match_and_no_ball_off_the_post_is_one(played: Played, scored: Played):
    for (truth, found), count in ((played, 0), (scored, 1)):
        goals = [happening for happening in truth if happening.kind == "goal"]
        assert len(goals) == len(found["Goals"]) == count
        for goal, goal_event in zip(goals, found["Goals"], strict=True):
            assert goal_event.player == goal.player and abs(goal_event.ts - goal.end) < NEAR  # type: ignore[attr-defined]


def test_each_foul_leads_to_the_free_kick_that_is_found(played: Played):
    truth, found = played
    kinds = [happening for happening in truth if happening.kind in ("foul", "out", "restart")]
    taken = [(after.player, after.end) for before, after in pairwise(kinds) if (before.kind, after.kind) == ("foul", "restart")]
    assert len(taken) > 8
    accuracy = score([(event.player, event.ts) for event in found["FreeKicks"]], taken, NEAR)  # type: ignore[attr-defined]
    assert accuracy.f1 >= 0.9, accuracy


def test_posts_are_found(played: Played):
    truth, found = played
    struck = [("", happening.end) for happening in truth if happening.kind == "woodwork"]
    accuracy = score([("", event.ts) for event in found["Woodworks"]], struck, NEAR)
    assert struck and accuracy.recall == 1.0, accuracy


def test_passes_and_shots_are_found_in_a_light_match(played: Played):
    """At 100 Hz without noise; by the same players, within 0.2 s."""
    truth, found = played
    scores: dict[str, Accuracy] = generated(found, truth)
    assert scores["pass"].f1 >= 0.75, scores["pass"]
    assert scores["shot"].f1 >= 0.8, scores["shot"]


def test_a_light_match_is_made_by_its_seed_alone_and_begins_like_a_longer_one():
    short, long = (list(Light(4, seconds, Variety(4)).events()) for seconds in (11.0, 21.0))
    assert short == long[: len(short)] == sorted(short, key=ORDER)
    assert len(short) == 11 * 320
    balls = [event.id for event in short if event.source == "ball"]
    assert balls == list(range(len(balls))), "ids are numbers in sequence"
    table = positions(4, 11.0)["soccer.Position"]
    assert table.num_rows == len(short) and table["ts"].to_pylist() == [event.ts for event in short]
    other = list(Light(5, 11.0, Variety(5)).events())
    assert other != short
