"""Levels 5 to 8: possession, dead balls, passes, shots."""

from soccer_situations import BALL, run, s, team, touch

from detectors.soccer.events import (
    BallInGoal,
    BallOutOfPlay,
    BallOverGoalLine,
    BallOverTouchLine,
    BlockedShot,
    DeadBall,
    DoublePass,
    FailedPass,
    Goal,
    Interception,
    Kick,
    MissedShot,
    Pass,
    PassSequence,
    Possession,
    Restart,
    Save,
    ShotOnGoal,
    TeamPossession,
)
from detectors.soccer.passes.passing import Interceptions
from detectors.soccer.zones import BallPlace, PlayerPlace


def kick(ts: int, player: int, speed: float) -> Kick:
    return Kick(player, team(player), BALL, speed, 0.0, 0.0, 0.0, speed, 0.0, 0.0, ts=ts)


def shot(ts: int, player: int) -> ShotOnGoal:
    return ShotOnGoal(player, team(player), BALL, 25.0, 20.0, 0.0, 1.0, True, ts=ts)


def out(ts: int, x: float = 0.0, y: float = 35.0) -> BallOutOfPlay:
    return BallOutOfPlay(BALL, x, y, 0.0, 0.0, 5.0, 0.0, ts=ts)


# Possession


def test_a_ball_that_nobody_sees_is_dead():
    """As in optical tracking, which does not follow it: players are still seen."""
    players = [PlayerPlace(3, "A", 0.0, 0.0, 2.0, ts=s(at)) for at in (1, 2, 3, 4.5, 5, 6)]
    seen = [BallPlace(BALL, 7.0, -2.0, 0.1, 5.0, ts=s(at)) for at in (0.5, 1.5, 20)]
    dead, restart = run("DeadBalls", sorted([*players, *seen, touch(s(20.1), 14)], key=lambda event: event.ts))
    assert dead == DeadBall("free kick", "", BALL, 7.0, -2.0, ts=s(4.5))
    assert restart == Restart("free kick", "B", 14, BALL, s(15.6), ts=s(20.1))
    (kick,) = run("FreeKicks", [dead, touch(s(20.1), 14), restart])
    assert (kick.player, kick.rested) == (14, s(15.6))


def test_no_pass_goes_over_a_dead_ball():
    touches = [touch(s(1), 3), touch(s(30), 4, x=20.0)]
    assert len(run("Passes", touches)) == 1
    assert run("Passes", [touches[0], DeadBall("free kick", "", BALL, 0.0, 0.0, ts=s(5)), touches[1]]) == []


def test_possession_changes_with_the_player_who_touches():
    derived = run("Possessions", [touch(1, 3), touch(2, 3), touch(3, 14), out(4), touch(5, 14)])
    assert derived == [
        Possession(3, "A", BALL, 0, ts=1),
        Possession(14, "B", BALL, 3, ts=3),
        Possession(14, "B", BALL, 0, ts=5),
    ]


def test_team_possession_changes_with_the_team_only():
    events = [Possession(p, team(p), BALL, 0, ts=ts) for ts, p in ((10, 3), (20, 4), (30, 14), (70, 5))]
    derived = run("TeamPossessions", events)
    assert derived == [
        TeamPossession("A", 3, BALL, 0, ts=10),
        TeamPossession("B", 14, BALL, 20, ts=30),
        TeamPossession("A", 5, BALL, 40, ts=70),
    ]


# Dead balls


def test_throw_in_for_the_other_team_then_play_goes_on():
    derived = run("DeadBalls", [touch(s(1), 3), BallOverTouchLine(BALL, 5.0, 34.2, ts=s(2)), touch(s(9), 14), touch(s(10), 15)])
    assert derived == [DeadBall("throw-in", "B", BALL, 5.0, 34.2, ts=s(2)), Restart("throw-in", "B", 14, BALL, s(7), ts=s(9))]


def test_goal_kick_or_corner_by_who_touched_last():
    over = BallOverGoalLine(BALL, "B", 53.0, 10.0, ts=s(2))
    (goal_kick,), (corner,) = run("DeadBalls", [touch(s(1), 3), over]), run("DeadBalls", [touch(s(1), 14), over])
    assert (goal_kick.restart, goal_kick.team) == ("goal kick", "B")
    assert (corner.restart, corner.team) == ("corner kick", "A")


def test_kick_off_by_the_team_that_let_the_goal_in():
    (dead,) = run("DeadBalls", [touch(s(1), 3), BallInGoal(BALL, "B", 53.0, 0.0, 1.0, ts=s(2))])
    assert (dead.restart, dead.team) == ("kick-off", "B")


# Passes


def test_pass_to_a_team_mate():
    derived = run("Passes", [touch(s(1), 3), kick(s(1), 3, 12.0), touch(s(2), 4, x=9.0, y=12.0)])
    assert derived == [Pass(3, 4, "A", BALL, 15.0, s(1), ts=s(2))]


def test_dribbling_is_no_pass_and_its_last_touch_begins_the_pass():
    events = [touch(s(1), 3), kick(s(1), 3, 6.0), touch(s(2), 3, x=5.0), kick(s(2), 3, 12.0), touch(s(3), 4, x=15.0)]
    (derived,) = run("Passes", events)
    assert (derived.kicked, derived.distance) == (s(2), 10.0)


def test_failed_pass_to_an_opponent_or_out():
    begin = [touch(s(1), 3), kick(s(1), 3, 12.0)]
    assert run("Passes", [*begin, touch(s(2), 14, x=10.0)]) == [FailedPass(3, "A", 14, "B", BALL, 10.0, s(1), ts=s(2))]
    assert run("Passes", [*begin, out(s(2)), touch(s(9), 14)]) == [FailedPass(3, "A", 0, "", BALL, 35.0, s(1), ts=s(2))]


def test_a_tackle_a_slow_ball_and_a_shot_are_no_failed_passes():
    begin = [touch(s(1), 3)]
    assert run("Passes", [*begin, kick(s(1), 3, 12.0), touch(s(2), 14, x=2.0)]) == []
    assert run("Passes", [*begin, kick(s(1), 3, 4.0), touch(s(2), 14, x=5.0)]) == []
    assert run("Passes", [*begin, kick(s(1), 3, 25.0), shot(s(1), 3), touch(s(2), 12, x=20.0)]) == []


def test_who_parries_a_shot_does_not_pass():
    parried = [touch(s(1), 3), kick(s(1), 3, 25.0), shot(s(1), 3), touch(s(2), 12, x=20.0), kick(s(2), 12, 8.0)]
    assert run("Passes", [*parried, touch(s(3), 13, x=10.0)]) == []
    assert len(run("Passes", [*parried, touch(s(3), 12, x=20.0), kick(s(3), 12, 8.0), touch(s(4), 13, x=9.0)])) == 1


def failed(ts: int, passer: int, receiver: int) -> FailedPass:
    return FailedPass(passer, team(passer), receiver, team(receiver), BALL, 10.0, ts - s(1), ts=ts)


def test_interception_once_the_team_has_kept_the_ball():
    taken = [touch(s(2), 14), failed(s(2), 3, 14)]
    expected = [Interception(14, "B", 3, BALL, ts=s(2))]
    assert run("Interceptions", [*taken, touch(s(3), 14)]) == expected
    assert run("Interceptions", [*taken, touch(s(3), 15)]) == expected
    assert run("Interceptions", [*taken, touch(s(3), 3)]) == []
    assert run("Interceptions", [*taken, touch(s(2) + Interceptions.backdate + 1, 14)]) == []


def passed(ts: int, player: int, receiver: int) -> Pass:
    return Pass(player, receiver, team(player), BALL, 10.0, ts - s(1), ts=ts)


def test_double_pass():
    there, back = passed(s(2), 3, 4), passed(s(4), 4, 3)
    assert run("DoublePasses", [there, back, passed(s(6), 3, 4)]) == [DoublePass(3, 4, "A", BALL, ts=s(4))]
    assert run("DoublePasses", [there, passed(s(4), 4, 5)]) == []
    assert run("DoublePasses", [there, failed(s(3), 4, 14), back]) == []
    assert run("DoublePasses", [there, passed(s(6), 4, 3)]) == []


def test_pass_sequences_from_three_on():
    row = [passed(s(2), 3, 4), passed(s(4), 4, 5), passed(s(6), 5, 6), passed(s(8), 6, 7)]
    assert run("PassSequences", row) == [PassSequence("A", 3, BALL, s(1), ts=s(6)), PassSequence("A", 4, BALL, s(1), ts=s(8))]
    for end in (failed(s(5), 5, 14), DeadBall("throw-in", "B", BALL, 0.0, 35.0, ts=s(5)), passed(s(5), 14, 15)):
        assert run("PassSequences", [*row, end]) == []


# Shots


def strike(x: float, y: float, vx: float, vy: float, vz: float = 0.0) -> list[ShotOnGoal]:
    speed = (vx * vx + vy * vy + vz * vz) ** 0.5
    return run("Shots", [Kick(10, "A", BALL, speed, x, y, 0.0, vx, vy, vz, ts=s(1))])


def test_shot_on_target():
    (found,) = strike(35.0, 0.0, 22.0, 2.0)
    assert (found.player, found.on_target, found.distance, found.ts) == (10, True, 17.5, s(1))
    assert 1.5 < found.offset < 1.7


def test_shot_beside_and_above_the_goal():
    (beside,), (above,) = strike(35.0, 0.0, 22.0, 6.0), strike(35.0, 0.0, 22.0, 0.0, 8.0)
    assert not beside.on_target
    assert not above.on_target
    assert above.height > 2.44


def test_what_is_no_shot():
    assert strike(35.0, 0.0, 12.0, 0.0) == []  # too soft
    assert strike(35.0, 0.0, 22.0, 12.0) == []  # far beside
    assert strike(35.0, 0.0, -22.0, 0.0) == []  # away from the goal
    assert strike(0.0, 0.0, 25.0, 0.0) == []  # too far
    assert strike(-35.0, 0.0, -22.0, 0.0) == []  # at the own goal
    assert strike(35.0, 0.0, 0.01, 22.0) == []  # all but parallel to the line


def test_blocked_saved_missed():
    begin = [touch(s(1), 10), shot(s(1), 10)]
    assert run("ShotOutcomes", [*begin, touch(s(2), 14)]) == [BlockedShot(14, "B", 10, BALL, ts=s(2))]
    assert run("ShotOutcomes", [*begin, touch(s(2), 12), touch(s(3), 14)]) == [Save(12, "B", 10, BALL, ts=s(2))]
    over = BallOverGoalLine(BALL, "B", 53.0, 5.0, ts=s(2))
    assert run("ShotOutcomes", [*begin, over]) == [MissedShot(10, "A", BALL, ts=s(2))]


def test_a_goal_a_deflection_and_a_late_touch_are_no_outcome():
    begin = [touch(s(1), 10), shot(s(1), 10)]
    assert run("ShotOutcomes", [*begin, BallInGoal(BALL, "B", 53.0, 0.0, 1.0, ts=s(2)), touch(s(3), 12)]) == []
    assert run("ShotOutcomes", [*begin, touch(s(2), 9), touch(s(3), 12)]) == []
    assert run("ShotOutcomes", [*begin, touch(s(6), 12)]) == []


def test_goal_by_the_last_of_the_team():
    goal = BallInGoal(BALL, "B", 53.0, 0.0, 1.0, ts=s(3))
    assert run("Goals", [touch(s(1), 10), goal]) == [Goal("A", 10, BALL, False, ts=s(3))]
    assert run("Goals", [touch(s(1), 10), touch(s(2), 12), goal]) == [Goal("A", 10, BALL, False, ts=s(3))]
    assert run("Goals", [touch(s(2), 13), goal]) == [Goal("A", 13, BALL, True, ts=s(3))]
    assert run("Goals", [goal]) == [Goal("A", 0, BALL, False, ts=s(3))]
