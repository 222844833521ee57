"""Levels 1 to 3: hits of the ball, in play, lines."""

import pytest
from soccer_situations import BALL, ball, ms, position, run

from detectors.soccer.events import (
    BallHit,
    BallInGoal,
    BallInPlay,
    BallMotion,
    BallOutOfPlay,
    BallOverGoalLine,
    BallOverTouchLine,
)


def samples(*accelerations: float, sensor: int = BALL):
    """A sample each ms with this acceleration along y."""
    return [position(sensor, ms(k), ay=a) for k, a in enumerate(accelerations)]


def test_a_peak_is_one_hit_told_when_it_rises():
    derived = run("BallHits", samples(3, 30, 54.9, 55, 200, 260, 120, 56, 30, 3))
    assert derived == [BallHit(BALL, 55.0, 0.0, 0.0, 0.0, 0.0, 55.0, 0.0, ts=ms(3))]


def test_noise_upon_a_peak_makes_no_second_hit():
    assert len(run("BallHits", samples(80, 50, 80, 50, 80))) == 1


def test_a_hit_15_ms_after_the_end_of_another_is_another():
    quiet = [0.0] * 14
    assert len(run("BallHits", samples(80, *quiet, 80))) == 2
    assert len(run("BallHits", samples(80, *quiet[1:], 80))) == 1


def test_the_direction_does_not_matter_and_the_size_does():
    assert len(run("BallHits", [position(BALL, 1, ax=-40.0, ay=-30.0, az=-30.0)])) == 1
    assert run("BallHits", [position(BALL, 1, ax=-34.0, ay=-30.0, az=-30.0)]) == []


def test_not_a_number_is_no_hit():
    assert run("BallHits", [position(BALL, 1, ax=float("nan")), position(BALL, 2, ax=60.0)])[0].ts == 2


def test_limbs_are_no_balls():
    assert run("BallHits", samples(0, 300, 300, sensor=7)) == []


def test_balls_have_their_own_peaks():
    derived = run("BallHits", [position(BALL, ms(1), ax=60.0), position(143, ms(2), ax=60.0)])
    assert [event.ball for event in derived] == [BALL, 143]


def test_in_play_and_out_again():
    derived = run("BallsInPlay", [ball(1, x=0.0), ball(2, x=52.6), ball(3, x=52.62, vx=9.0), ball(4, x=55.0), ball(5, x=40.0)])
    assert derived == [
        BallInPlay(BALL, 0.0, 0.0, ts=1),
        BallOutOfPlay(BALL, 52.62, 0.0, 0.0, 9.0, 0.0, 0.0, ts=3),
        BallInPlay(BALL, 40.0, 0.0, ts=5),
    ]


def test_a_second_ball_on_the_pitch_does_not_count():
    other = [BallMotion(143, 0.0, y, 0.0, 0.0, 0.0, 0.0, ts=ts) for ts, y in ((2, 0.0), (4, 40.0), (6, 3.0))]
    derived = run("BallsInPlay", [ball(1), *other, ball(5, y=34.2)])
    assert [(type(event), event.ball) for event in derived] == [
        (BallInPlay, BALL),
        (BallOutOfPlay, BALL),
        (BallInPlay, 143),
    ]


@pytest.mark.parametrize(
    ("out", "expected"),
    [
        (BallOutOfPlay(1, 52.7, 3.0, 1.0, 20.0, 0.0, 0.0, ts=1), BallInGoal(1, "B", 52.7, 3.0, 1.0, ts=1)),
        (BallOutOfPlay(1, -52.7, -3.0, 1.0, -20.0, 0.0, 0.0, ts=1), BallInGoal(1, "A", -52.7, -3.0, 1.0, ts=1)),
        (BallOutOfPlay(1, 52.7, 3.7, 1.0, 20.0, 0.0, 0.0, ts=1), BallOverGoalLine(1, "B", 52.7, 3.7, ts=1)),
        (BallOutOfPlay(1, 52.7, 0.0, 2.5, 20.0, 0.0, 0.0, ts=1), BallOverGoalLine(1, "B", 52.7, 0.0, ts=1)),
        (BallOutOfPlay(1, 20.0, 34.2, 0.0, 0.0, 5.0, 0.0, ts=1), BallOverTouchLine(1, 20.0, 34.2, ts=1)),
        (BallOutOfPlay(1, 20.0, -34.2, 0.0, 0.0, -5.0, 0.0, ts=1), BallOverTouchLine(1, 20.0, -34.2, ts=1)),
        # Seen 1 m behind the line beside the post, but it flew in slantwise 0.3 m inside it:
        (BallOutOfPlay(1, 53.61, 3.86, 1.0, 20.0, 10.0, 0.0, ts=1), BallInGoal(1, "B", 53.61, 3.86, 1.0, ts=1)),
        # Seen under the bar, but it has dropped behind it:
        (BallOutOfPlay(1, 53.61, 0.0, 2.2, 20.0, 0.0, -8.0, ts=1), BallOverGoalLine(1, "B", 53.61, 0.0, ts=1)),
    ],
)
def test_where_it_went_out(out, expected):
    assert run("LineCrossings", [out]) == [expected]


def test_goals_on_the_short_sides_of_the_half_size_pitch():
    """DEBS 2013: goals lie along x; team A defends negative y in the first half, B in the second."""
    out = BallOutOfPlay(8, 26.0, -34.2, 0.5, 0.0, -15.0, 0.0, ts=1)
    beside = BallOutOfPlay(8, 52.7, 0.0, 0.0, 3.0, 0.0, 0.0, ts=1)
    assert run("LineCrossings", [out], "debs2013")[0].team == "A"
    assert run("LineCrossings", [out], "debs2013-second-half")[0].team == "B"
    assert type(run("LineCrossings", [beside], "debs2013")[0]) is BallOverTouchLine
