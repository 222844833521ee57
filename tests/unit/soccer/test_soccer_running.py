"""Levels 3 to 5: how players run, and where they are."""

import pytest
from soccer_situations import BALL, ball, ms, run, s

from detectors.soccer.events import BallInPlay, BallOutOfPlay, PlayerMotion
from detectors.soccer.field import PlayingField
from detectors.soccer.players.player_running import (
    Braking,
    Burst,
    DistanceRun,
    FastRun,
    Pace,
    SharpTurn,
    Sprint,
    WorkRate,
)
from detectors.soccer.setup import setup_of
from detectors.soccer.zones import (
    BallInBox,
    BallOutOfBox,
    BallPlace,
    BallZone,
    PlayerPlace,
    PlayerZone,
    RunIntoBox,
    RunOutOfBox,
)

# The field


def test_each_team_sees_the_field_its_own_way():
    field = PlayingField(setup_of("generated"))  # A attacks towards greater x
    assert (field.depth("A", 10.0, 0.0), field.depth("B", 10.0, 0.0)) == (62.5, 42.5)
    assert (field.side("A", 0.0, 20.0), field.side("B", 0.0, 20.0)) == (20.0, -20.0)
    assert (field.third("A", 30.0, 0.0), field.third("B", 30.0, 0.0)) == ("final", "own")
    assert (field.lane("A", 0.0, 20.0), field.lane("B", 0.0, 20.0), field.lane("A", 0.0, 0.0)) == ("left", "right", "centre")
    assert field.in_box("A", 40.0, 10.0) and not field.in_box("B", 40.0, 10.0) and not field.in_box("A", 40.0, 21.0)
    assert (field.opponent("A"), field.opponent("B"), field.opponent("C")) == ("B", "A", "")


def test_a_field_that_lies_the_other_way():
    field = PlayingField(setup_of("debs2013"))  # A defends at negative y, and looks towards greater y: left is smaller x
    assert field.depth("A", 26.0, 0.0) == pytest.approx(33.968)
    assert field.side("A", 0.0, 0.0) == pytest.approx(26.238)
    assert field.side("B", 0.0, 0.0) == pytest.approx(-26.238)


# Running


def running(*speeds: float, apart: int = ms(600)) -> list[PlayerMotion]:
    return [PlayerMotion(7, "A", 0.0, 0.0, speed, 0.0, ts=apart * k) for k, speed in enumerate(speeds, 1)]


def test_pace_changes_with_slack_on_the_way_down():
    found = run("Paces", running(0.1, 2.0, 3.2, 2.9, 2.5, 7.0, apart=s(1)))
    assert [(pace.pace, pace.before, pace.lasted) for pace in found] == [
        ("trot", "standing", s(1)),
        ("low speed", "trot", s(1)),
        ("trot", "low speed", s(2)),  # not at 2.9: within 0.3 m/s of the limit of 3.06
        ("sprint", "trot", s(1)),
    ]


def test_bursts_and_braking_once_each():
    found = run("Accelerations", running(0.0, 2.0, 4.0, 4.2, 0.5))
    assert found == [Burst(7, "A", 3.33, ts=ms(1200)), Braking(7, "A", 6.17, ts=ms(3000))]


def test_motions_too_far_apart_are_no_burst():
    assert run("Accelerations", running(0.0, 9.0, apart=s(2))) == []


def test_sharp_turn():
    ways = [(4.0, 0.0), (0.0, 4.0), (0.0, 4.0), (0.0, -1.0)]
    events = [PlayerMotion(7, "A", 0.0, 0.0, vx, vy, ts=ms(600) * k) for k, (vx, vy) in enumerate(ways, 1)]
    assert run("Turns", events) == [SharpTurn(7, "A", 90.0, ts=ms(1200))]


def pace(ts: int, what: str) -> Pace:
    return Pace(7, "A", what, "trot", 5.0, 0, ts=ts)


def test_sprints_and_fast_runs_from_beginning_to_end():
    events = [pace(s(1), "high speed"), pace(s(2), "sprint"), pace(s(4), "high speed"), pace(s(5), "trot")]
    assert run("Sprints", events) == [Sprint(7, "A", s(2), ts=s(4)), FastRun(7, "A", s(4), ts=s(5))]
    assert run("Sprints", [pace(s(1), "sprint"), pace(ms(1500), "trot")]) == []


def place(ts: int, x: float, y: float = 0.0, player: int = 7, team: str = "A", speed: float = 5.0) -> PlayerPlace:
    return PlayerPlace(player, team, x, y, speed, ts=ts)


def test_distance_run_skips_jumps():
    events = [place(ms(500) * k, 4.0 * k) for k in range(1, 15)]
    assert run("DistancesRun", events) == [DistanceRun(7, "A", 50, ts=ms(500) * 14)]
    assert run("DistancesRun", [place(1, 0.0), place(2, 60.0), place(3, 61.0)]) == []


def test_work_rate():
    events = [DistanceRun(7, "A", 50, ts=s(10)), Sprint(7, "A", s(2), ts=s(30)), DistanceRun(7, "A", 150, ts=s(70))]
    assert run("WorkRates", events) == [WorkRate(7, "A", 50, 0.0, 0, ts=s(10)), WorkRate(7, "A", 150, 100.0, 1, ts=s(70))]


# Places and zones


def test_player_places_twice_a_second():
    events = [PlayerMotion(7, "A", float(k), 0.0, 3.0, 4.0, ts=ms(40) * k) for k in range(30)]
    assert [(p.ts, p.x, p.speed) for p in run("PlayerPlaces", events)] == [
        (0, 0.0, 5.0),
        (ms(520), 13.0, 5.0),
        (ms(1000), 25.0, 5.0),
    ]


def test_ball_places_five_times_a_second_while_in_play():
    start = BallInPlay(BALL, 0.0, 0.0, ts=1)
    out = BallOutOfPlay(BALL, 0.0, 35.0, 0.0, 0.0, 0.0, 0.0, ts=ms(600))
    events = [ball(0), start, *(ball(ms(20) * k) for k in range(1, 30)), out, ball(ms(800))]
    assert [p.ts for p in run("BallPlaces", events)] == [ms(20), ms(200), ms(400)]


def test_player_zones_when_they_change():
    events = [place(s(k), x, y) for k, (x, y) in enumerate([(0.0, 0.0), (5.0, 5.0), (30.0, 5.0), (30.0, 20.0)], 1)]
    assert run("PlayerZones", events) == [
        PlayerZone(7, "A", "middle", "centre", ts=s(1)),
        PlayerZone(7, "A", "final", "centre", ts=s(3)),
        PlayerZone(7, "A", "final", "left", ts=s(4)),
    ]


def ball_at(ts: int, x: float, y: float = 0.0, speed: float = 5.0) -> BallPlace:
    return BallPlace(BALL, x, y, 0.0, speed, ts=ts)


def test_ball_zones_for_both_teams():
    found = run("BallZones", [ball_at(s(1), 0.0), ball_at(s(2), 1.0), ball_at(s(3), 40.0, 20.0)])
    assert sorted(found[2:], key=lambda zone: zone.team) == [
        BallZone("A", BALL, "final", "left", ts=s(3)),
        BallZone("B", BALL, "own", "right", ts=s(3)),
    ]
    assert len(found) == 4


def test_ball_in_the_box_until_it_leaves_or_goes_out():
    out = BallOutOfPlay(BALL, 53.0, 0.0, 0.0, 5.0, 0.0, 0.0, ts=s(5))
    events = [ball_at(s(1), 0.0), ball_at(s(2), 40.0), ball_at(s(3), 30.0), ball_at(s(4), 50.0), out]
    assert run("BallBoxes", events) == [
        BallInBox("A", BALL, ts=s(2)),
        BallOutOfBox("A", BALL, s(1), ts=s(3)),
        BallInBox("A", BALL, ts=s(4)),
        BallOutOfBox("A", BALL, s(1), ts=s(5)),
    ]


def test_runs_into_the_box_of_the_opponents_only():
    events = [place(s(1), 0.0), place(s(2), 40.0, speed=6.5), place(s(3), 42.0), place(s(5), 20.0)]
    assert run("BoxRuns", events) == [RunIntoBox(7, "A", 6.5, ts=s(2)), RunOutOfBox(7, "A", s(3), ts=s(5))]
    assert run("BoxRuns", [place(s(1), -45.0)]) == []
