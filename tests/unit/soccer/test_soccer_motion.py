"""Levels 1 and 2: smoothing and thinning of positions."""

import pytest
from soccer_situations import BALL, ms, position, run, s

from detectors.soccer.events import BallMotion, LimbMotion, PlayerMotion


def steady(sensor: int, period: float, count: int, vx: float = 4.0, phase: float = 1.0):
    """Samples each ``period`` ms of somebody who moves along x at a constant speed."""
    times = [ms(phase + period * k) for k in range(count)]
    return [position(sensor, ts, x=vx * ts * 1e-9, y=2.0, vx=vx) for ts in times]


def test_a_limb_gives_one_motion_each_40_ms_and_it_lags_nothing():
    derived = run("Motions", steady(5, 5.0, 41))
    assert [event.ts for event in derived] == [ms(40), ms(80), ms(120), ms(160), ms(200)]
    for event in derived:
        assert type(event) is LimbMotion
        assert (event.sensor, event.player, event.team, event.y, event.vx) == (5, 2, "A", 2.0, 4.0)
        assert event.x == pytest.approx(4.0 * event.ts * 1e-9, abs=0.015)  # the mean is moved on to the time of the event


def test_noise_is_averaged_out():
    noisy = [position(5, ms(1 + 5 * k), x=(-1) ** k * 0.4) for k in range(9)]
    assert [event.x for event in run("Motions", noisy)] == [0.0]


def test_a_ball_gives_one_motion_each_20_ms():
    derived = run("Motions", steady(BALL, 0.5, 201, vx=20.0))
    assert [type(event) for event in derived] == [BallMotion] * 5
    assert [event.ts for event in derived] == [ms(20), ms(40), ms(60), ms(80), ms(100)]
    assert derived[0].x == pytest.approx(0.4, abs=0.02)


def test_a_ball_that_is_struck_is_told_where_it_was_seen():
    """Off a post after 13 ms at 20 m/s: it was never further than 0.26 m, but its mean moved on by its mean velocity was."""
    there = [position(BALL, ms(1 + k), x=0.02 * (1 + k), vx=20.0) for k in range(13)]
    back = [position(BALL, ms(14 + k), x=0.26 - 0.01 * k, vx=-10.0) for k in range(8)]
    motion = run("Motions", [*there, *back])[0]
    assert (motion.ts, motion.vx) == (ms(20), pytest.approx(20.0 - 30.0 * 6 / 19, abs=0.06))
    assert motion.x == pytest.approx(sum(sample.x for sample in (there + back)[:19]) / 19, abs=0.006)


def test_who_rests_is_heard_of_once_a_second():
    derived = run("Motions", [position(5, ms(1 + 5 * k), x=1.0) for k in range(500)])
    assert [event.ts for event in derived] == [ms(40), ms(1040), ms(2040)]


def test_after_a_gap_the_new_sample_speaks_for_itself():
    events = [position(5, ms(1), x=0.0, vx=9.0), position(5, ms(600), x=1.0, vx=2.0)]
    (motion,) = run("Motions", events)
    assert (motion.ts, motion.x, motion.vx) == (ms(600), 1.0, 2.0)


def test_it_does_not_matter_which_sample_brings_a_motion_out():
    samples = steady(5, 5.0, 12)
    (whole,) = [motion for motion in run("Motions", samples) if motion.ts == ms(40)]
    without_the_first_behind = [sample for sample in samples if sample.ts != ms(41)]
    assert run("Motions", without_the_first_behind) == [whole]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_bad_number_spoils_its_window_and_no_other(bad):
    good = steady(5, 5.0, 41)
    spoilt = [*good[:10], position(5, good[10].ts, x=bad, vx=4.0), *good[11:]]
    assert run("Motions", spoilt) == [event for event in run("Motions", good) if event.ts != ms(80)]


@pytest.mark.parametrize("sensor", [89, 101, 141, 999])
def test_officials_substitutes_and_strangers_are_ignored(sensor):
    assert run("Motions", steady(sensor, 5.0, 100)) == []


def test_transmitters_do_not_mix():
    alone = run("Motions", steady(5, 5.0, 41))
    both = run("Motions", steady(5, 5.0, 41) + steady(7, 5.0, 41, vx=-8.0))
    assert [event for event in both if event.sensor == 5] == alone


def test_no_two_limbs_of_a_player_report_at_the_same_time():
    derived = run("Motions", [sample for sensor in (5, 6, 7, 8) for sample in steady(sensor, 5.0, 41)])
    assert {event.sensor: event.ts % ms(40) for event in derived} == {5: 0, 6: ms(10), 7: ms(20), 8: ms(30)}


def limb(sensor: int, ts: int, x: float, y: float, *, player: int = 2, vx: float = 0.0) -> LimbMotion:
    return LimbMotion(sensor, player, "A", x, y, 0.5, vx, 0.0, 0.0, ts=ts)


def test_a_player_is_in_the_middle_of_his_limbs():
    first = [limb(5 + k, ms(40), x=float(k), y=2.0 * k) for k in range(4)]
    then = [limb(5 + k, ms(80), x=10.0 + k, y=2.0 * k) for k in range(4)]
    derived = run("PlayerMotions", first + then)
    assert derived[-1] == PlayerMotion(2, "A", 11.5, 3.0, 0.0, 0.0, ts=ms(80))
    assert len(derived) == 5  # while limbs join one by one each counts; then one for all four


def test_a_resting_limb_does_not_hold_up_the_player():
    known = [limb(5, ms(1), 0.0, 0.0), limb(6, ms(2), 0.0, 0.0)]
    moving = [limb(5, ms(40 * k), float(k), 0.0) for k in range(1, 5)]
    derived = run("PlayerMotions", known + moving)
    assert [event.ts for event in derived[2:]] == [ms(80), ms(120), ms(160)]
    assert derived[-1].x == 2.0


def test_limbs_that_reported_earlier_are_moved_on():
    running = [limb(5 + k, ms(10 * k), 8.0 * 0.01 * k, 0.0, vx=8.0) for k in range(4)]
    assert run("PlayerMotions", running)[-1].x == pytest.approx(0.24, abs=0.006)


def test_players_do_not_mix():
    events = [limb(5, ms(1), 1.0, 0.0), limb(9, ms(2), 50.0, 0.0, player=3), limb(5, s(1), 2.0, 0.0)]
    assert [event.x for event in run("PlayerMotions", events) if event.player == 2] == [1.0, 2.0]
