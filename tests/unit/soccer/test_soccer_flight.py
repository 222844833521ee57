"""Levels 2 to 4: the ball by itself."""

from soccer_situations import BALL, ball, hit, ms, run, s

from detectors.soccer.ball_play.flight import (
    BallAtRest,
    BallInAir,
    BallLanded,
    BallMoves,
    Bounce,
    LooseBall,
    LooseBallTaken,
    Woodwork,
)
from detectors.soccer.events import BallHit, BallInPlay, BallOutOfPlay, Near, NotNear
from detectors.soccer.zones import BallPlace

START = BallInPlay(BALL, 0.0, 0.0, ts=1)


def test_a_bounce_is_a_hit_straight_up_near_the_ground():
    found = run("Bounces", [hit(1, ax=5.0, az=90.0), hit(2, ax=90.0), hit(3, z=1.5, ax=5.0, az=90.0)])
    assert found == [Bounce(BALL, 0.0, 0.0, (5.0**2 + 90.0**2) ** 0.5, ts=1)]


def struck(x: float, y: float, z: float) -> list:
    return run("Woodworks", [BallHit(BALL, 90.0, x, y, z, 90.0, 0.0, 0.0, ts=s(1))])


def test_post_and_bar():
    assert struck(52.4, 3.7, 1.0) == [Woodwork(BALL, "B", "post", ts=s(1))]
    assert struck(-52.5, 0.0, 2.5) == [Woodwork(BALL, "A", "bar", ts=s(1))]
    assert struck(52.4, 0.0, 1.0) == struck(0.0, 3.7, 1.0) == struck(52.4, 3.7, 4.0) == []


def test_a_flight_from_rise_to_landing():
    heights = [0.0, 1.0, 2.5, 4.0, 2.0, 0.3]
    events = [START, *(ball(ms(20) * k, x=3.0 * k, z=z) for k, z in enumerate(heights, 1))]
    assert run("BallFlights", events) == [
        BallInAir(BALL, 9.0, 0.0, ts=ms(60)),
        BallLanded(BALL, 18.0, 0.0, 4.0, 9.0, ms(60), ts=ms(120)),
    ]
    assert run("BallFlights", events[1:]) == []  # not in play


def test_a_ball_that_lies_still_and_moves_again():
    speeds = [5.0, 0.2, 0.1, 0.8, 6.0]
    events = [START, *(ball(s(k), vx=v) for k, v in enumerate(speeds, 1))]
    assert run("BallRests", events) == [BallAtRest(BALL, 0.0, 0.0, ts=s(2)), BallMoves(BALL, s(3), ts=s(5))]
    out = BallOutOfPlay(BALL, 0.0, 35.0, 0.0, 0.0, 0.0, 0.0, ts=s(3))
    assert run("BallRests", [START, ball(s(2)), out, ball(s(4), vx=9.0)]) == [BallAtRest(BALL, 0.0, 0.0, ts=s(2))]


def test_a_loose_ball_and_who_takes_it():
    near, left = Near(3, "A", BALL, 1.0, ts=s(1)), NotNear(3, "A", BALL, ts=s(2))
    places = [BallPlace(BALL, 1.0, 2.0, 0.0, 9.0, ts=ts) for ts in (ms(2500), s(3), ms(3500))]
    taken = Near(14, "B", BALL, 1.0, ts=s(5))
    assert run("LooseBalls", [near, left, *places, taken]) == [
        LooseBall(BALL, 1.0, 2.0, ts=s(3)),
        LooseBallTaken(14, "B", BALL, s(3), ts=s(5)),
    ]
    assert run("LooseBalls", [near, Near(4, "A", BALL, 1.0, ts=s(1)), left, *places]) == []
