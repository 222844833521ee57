"""Levels 3 to 5: near, touches, kicks."""

import math

from soccer_situations import BALL, ball, hit, ms, run, runner, s, touch

from detectors.soccer.ball_play.contact import Kicks
from detectors.soccer.events import BallInPlay, BallOutOfPlay, Kick, Near, Nearest, NotNear, PlayerHitsBall

START = BallInPlay(BALL, 0.0, 0.0, ts=1)


def kinds(events):
    return {(type(event).__name__, event.player, event.ts) for event in events}


def test_near_within_1_6_m_and_not_near_beyond_2():
    events = [runner(2, 3, 5.0, 0.0), START]
    events += [ball(ms(20 * k), x=x) for k, x in enumerate([3.0, 3.5, 3.3, 2.9, 3.5], 1)]
    derived = run("NearBall", sorted(events, key=lambda e: e.ts))
    assert kinds(derived) == {
        ("Near", 3, ms(40)),
        ("Nearest", 3, ms(40)),
        ("NotNear", 3, ms(80)),
        ("Near", 3, ms(100)),
        ("Nearest", 3, ms(100)),
    }
    assert [event.distance for event in derived if isinstance(event, Near)] == [1.5, 1.5]


def test_a_player_comes_to_a_resting_ball():
    events = [START, ball(2), runner(ms(40), 3, 5.0, 0.0), runner(ms(80), 3, 1.0, 0.0), runner(ms(120), 3, -3.0, 0.0)]
    assert kinds(run("NearBall", events)) == {("Near", 3, ms(80)), ("Nearest", 3, ms(80)), ("NotNear", 3, ms(120))}


def test_the_nearest_of_two():
    events = [START, runner(2, 3, 1.0, 0.0), runner(3, 14, -0.5, 0.0), ball(ms(20), x=0.0), ball(ms(40), x=0.8)]
    nearest = [(event.ts, event.player) for event in run("NearBall", events) if isinstance(event, Nearest)]
    assert nearest == [(2, 3), (3, 14), (ms(40), 3)]


def test_players_move_on_between_their_motions():
    events = [runner(1, 3, 3.0, 0.0, vx=-12.0), START, ball(ms(151))]
    assert kinds(run("NearBall", events)) >= {("Near", 3, ms(151))}


def test_nobody_is_near_a_ball_high_above_or_out_of_play_or_another_one():
    player = runner(2, 3, 0.5, 0.0)
    high = [ball(ms(20), z=4.0)]
    assert run("NearBall", [START, *high, runner(ms(21), 3, 0.5, 0.0)]) == []
    out = BallOutOfPlay(BALL, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, ts=ms(30))
    derived = run("NearBall", [START, player, out, ball(ms(40))])
    assert kinds(derived) == {("Near", 3, 2), ("Nearest", 3, 2), ("NotNear", 3, ms(30))}
    assert run("NearBall", [player, ball(ms(40))]) == []


NEAR_3 = [Near(3, "A", BALL, 1.0, ts=ms(10)), Nearest(3, "A", BALL, 1.0, ts=ms(10))]
GONE_3 = NotNear(3, "A", BALL, ts=ms(50))


def test_near_then_hit_is_a_touch():
    assert run("PlayerHits", [*NEAR_3, hit(ms(30))]) == [PlayerHitsBall(3, "A", BALL, 100.0, 0.0, 0.0, ts=ms(30))]


def test_not_near_in_between_is_none():
    assert run("PlayerHits", [*NEAR_3, GONE_3, hit(ms(60))]) == []
    assert run("PlayerHits", [hit(ms(5)), *NEAR_3]) == []


def test_order_decides_not_arrival():
    """Figure 3 of DEBS'13: the late 'not near' undoes the touch, the hit before it stands."""
    assert [event.ts for event in run("PlayerHits", [hit(ms(60)), *NEAR_3, hit(ms(40)), GONE_3])] == [ms(40)]


def test_a_hit_of_another_ball_or_a_bounce_is_nobodys():
    assert run("PlayerHits", [*NEAR_3, hit(ms(30), number=143)]) == []
    assert run("PlayerHits", [*NEAR_3, hit(ms(30), ax=20.0, az=300.0)]) == []
    header = hit(ms(30), z=1.8, ax=20.0, az=300.0)
    assert len(run("PlayerHits", [*NEAR_3, header])) == 1


def test_of_two_players_the_nearest_touches():
    other = [Near(14, "B", BALL, 0.4, ts=ms(20)), Nearest(14, "B", BALL, 0.4, ts=ms(20))]
    assert [event.player for event in run("PlayerHits", [*NEAR_3, *other, hit(ms(15)), hit(ms(30))])] == [3, 14]


def test_a_kick_is_told_when_the_contact_is_over_and_stamped_with_the_touch():
    motions = [ball(ms(t), x=t / 100, vx=t / 8) for t in (100, 120, 140, 160, 180)]
    derived = run("Kicks", [touch(ms(95), 3), *motions])
    assert derived == [Kick(3, "A", BALL, 20.0, 1.5, 0.0, 0.0, 20.0, 0.0, 0.0, ts=ms(95))]  # 5 ms at 20 m/s before the motion


def test_a_kick_says_no_more_than_is_known_of_it():
    """A late position that moves a mean by a centimetre corrects the motion, not the kick."""
    kicks = [run("Kicks", [touch(0, 3), ball(ms(60), x=2.01 + off, vx=9.52 + off, vz=off)]) for off in (-0.01, 0.0, 0.01)]
    assert kicks[0] == kicks[1] == kicks[2]
    assert math.copysign(1.0, kicks[0][0].vz) == 1.0


def test_another_touch_takes_the_place_of_a_kick_not_yet_told():
    derived = run("Kicks", [touch(ms(100), 3), touch(ms(130), 14), ball(ms(170)), ball(ms(200), vx=5.0)])
    assert [(event.player, event.speed) for event in derived] == [(14, 5.0)]


def test_a_ball_out_of_sight_gives_no_kick():
    assert run("Kicks", [touch(0, 3), ball(Kicks.backdate + 1, vx=5.0), ball(s(1), vx=5.0)]) == []
