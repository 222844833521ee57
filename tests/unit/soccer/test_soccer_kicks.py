"""Levels 6 to 9: kinds of kick and of pass, set pieces, what comes of passes."""

from math import hypot

from soccer_situations import BALL, run, s, team, touch

from detectors.soccer.ball_play.flight import BallAtRest, BallMoves
from detectors.soccer.ball_play.kicking import Clearance, Cross, HardKick, LoftedKick
from detectors.soccer.ball_play.touches import FirstTimeBall
from detectors.soccer.events import DeadBall, FailedPass, Goal, Kick, Pass, Restart, ShotOnGoal
from detectors.soccer.offence.set_pieces import (
    CornerKick,
    FreeKick,
    GoalKick,
    KickOff,
    PenaltyKick,
    QuickRestart,
    SetPieceShot,
    ThrowIn,
)
from detectors.soccer.passes.pass_kinds import (
    BackPass,
    ForwardPass,
    LongPass,
    PassIntoBox,
    PassPath,
    ProgressivePass,
    SquarePass,
    SwitchOfPlay,
    ThroughPass,
)
from detectors.soccer.passes.pass_play import Assist, KeyPass, OneTouchPass, PassAccuracy, PassPair, Triangle
from detectors.soccer.players.formation import DefensiveLine


def kick(x: float, y: float, vx: float, vy: float, vz: float = 0.0, player: int = 3) -> Kick:
    return Kick(player, team(player), BALL, hypot(vx, vy, vz), x, y, 0.0, vx, vy, vz, ts=s(1))


# Kicks


def test_hard_and_lofted():
    found = run("KickKinds", [kick(0, 0, 24.0, 0.0, 7.0)])
    expected = [HardKick(3, "A", BALL, 25.0, ts=s(1)), LoftedKick(3, "A", BALL, 7.0, ts=s(1))]
    assert sorted(found, key=lambda event: type(event).__name__) == expected
    assert run("KickKinds", [kick(0, 0, 24.0, 0.0, 1.0)]) == []


def test_clearance_from_before_the_own_goal():
    assert run("Clearances", [kick(-40.0, 5.0, 18.0, 3.0)]) == [Clearance(3, "A", BALL, 12.5, ts=s(1))]
    assert run("Clearances", [kick(40.0, 5.0, -18.0, 3.0, player=14)]) == [Clearance(14, "B", BALL, 12.5, ts=s(1))]
    for other in (
        kick(-40.0, 5.0, -18.0, 3.0),
        kick(-40.0, 5.0, 9.0, 0.0),
        kick(0.0, 5.0, 18.0, 0.0),
        kick(-40.0, 30.0, 18.0, 0.0),
    ):
        assert run("Clearances", [other]) == []


def test_cross_from_the_wing():
    assert run("Crosses", [kick(40.0, 25.0, 2.0, -14.0)]) == [Cross(3, "A", BALL, "left", ts=s(1))]
    assert run("Crosses", [kick(40.0, -25.0, 2.0, 14.0)]) == [Cross(3, "A", BALL, "right", ts=s(1))]
    for other in (
        kick(40.0, 25.0, 2.0, 14.0),
        kick(40.0, 5.0, 2.0, -14.0),
        kick(10.0, 25.0, 2.0, -14.0),
        kick(40.0, 25.0, 14.0, -9.0),
    ):
        assert run("Crosses", [other]) == []


# Set pieces


def test_restarts_by_kind():
    kinds = {"throw-in": ThrowIn, "goal kick": GoalKick, "corner kick": CornerKick, "kick-off": KickOff}
    for restart, kind in kinds.items():
        assert run("SetPieces", [Restart(restart, "A", 3, BALL, s(9), ts=s(1))]) == [kind(3, "A", BALL, ts=s(1))]


def test_free_kick_is_a_ball_that_lay_still_in_the_field():
    rest = BallAtRest(BALL, 5.0, 0.0, ts=s(2))
    expected = FreeKick(4, "A", BALL, 5.0, 0.0, s(18), ts=s(20))
    assert run("FreeKicks", [touch(s(1), 3), rest, touch(s(20), 4, x=5.0)]) == [expected]
    assert run("FreeKicks", [rest, touch(s(20), 4)]) == []  # the kick-off
    assert run("FreeKicks", [touch(s(1), 3), rest, BallMoves(BALL, s(1), ts=s(3)), touch(s(20), 4)]) == []
    dead = DeadBall("corner kick", "A", BALL, 52.0, 0.0, ts=s(2))
    assert run("FreeKicks", [touch(s(1), 3), dead, rest, touch(s(20), 4)]) == []


def test_penalty_kick_from_the_spot():
    assert run("PenaltyKicks", [FreeKick(9, "A", BALL, 41.4, 0.1, s(9), ts=s(1))]) == [PenaltyKick(9, "A", BALL, ts=s(1))]
    assert run("PenaltyKicks", [FreeKick(9, "A", BALL, -41.4, 0.1, s(9), ts=s(1))]) == []


def test_quick_restart():
    assert run("QuickRestarts", [Restart("throw-in", "A", 3, BALL, s(4), ts=s(9))]) == [
        QuickRestart(3, "A", BALL, s(4), ts=s(9))
    ]
    assert run("QuickRestarts", [Restart("throw-in", "A", 3, BALL, s(6), ts=s(9))]) == []


def shot(ts: int, player: int) -> ShotOnGoal:
    return ShotOnGoal(player, team(player), BALL, 25.0, 20.0, 0.0, 1.0, True, ts=ts)


def test_shot_from_a_set_piece():
    corner = CornerKick(3, "A", BALL, ts=s(1))
    assert run("SetPieceShots", [corner, shot(s(4), 9)]) == [SetPieceShot(9, "A", BALL, "CornerKick", ts=s(4))]
    assert run("SetPieceShots", [corner, shot(s(4), 14)]) == run("SetPieceShots", [corner, shot(s(12), 9)]) == []


# Where passes go


def passed(ts: int, player: int, receiver: int, since: int = s(1)) -> Pass:
    return Pass(player, receiver, team(player), BALL, 10.0, ts - since, ts=ts)


def test_the_path_of_a_pass():
    events = [touch(s(1), 14, x=10.0, y=5.0), touch(s(3), 15, x=4.0, y=13.0), passed(s(3), 14, 15, since=s(2))]
    assert run("PassPaths", events) == [PassPath(14, 15, "B", BALL, 10.0, 5.0, 4.0, 13.0, 6.0, -8.0, 5.0, s(1), ts=s(3))]
    assert run("PassPaths", [touch(s(3), 15), passed(s(3), 14, 15)]) == []


def path(x: float, y: float, to_x: float, to_y: float) -> PassPath:
    """A pass of team A, which attacks towards greater x."""
    return PassPath(3, 4, "A", BALL, x, y, to_x, to_y, to_x - x, to_y - y, 12.0, s(0.5), ts=s(1))


def test_forward_back_and_square():
    assert run("PassDirections", [path(0, 0, 10, 5)]) == [ForwardPass(3, "A", 10.0, ts=s(1))]
    assert run("PassDirections", [path(0, 0, -10, 5)]) == [BackPass(3, "A", 10.0, ts=s(1))]
    assert run("PassDirections", [path(0, 0, 5, -10)]) == [SquarePass(3, "A", 10.0, ts=s(1))]


def test_long_pass():
    assert run("LongPasses", [path(0, 0, 24, 18)]) == [LongPass(3, "A", 30.0, ts=s(1))]
    assert run("LongPasses", [path(0, 0, 20, 18)]) == []


def test_switch_of_play_goes_over_the_middle():
    assert run("SwitchesOfPlay", [path(0, 15, 5, -15)]) == [SwitchOfPlay(3, "A", 30.0, ts=s(1))]
    assert run("SwitchesOfPlay", [path(0, 1, 5, 31)]) == run("SwitchesOfPlay", [path(0, 10, 5, -10)]) == []


def test_progressive_pass():
    assert run("ProgressivePasses", [path(12.5, 0, 24.5, 0)]) == [ProgressivePass(3, "A", 12.0, ts=s(1))]
    assert run("ProgressivePasses", [path(-40, 0, -28, 0)]) == run("ProgressivePasses", [path(40, 0, 49, 0)]) == []


def test_pass_into_the_box():
    assert run("PassesIntoBox", [path(25, 0, 40, 5)]) == [PassIntoBox(3, "A", 4, ts=s(1))]
    assert run("PassesIntoBox", [path(40, 0, 45, 5)]) == run("PassesIntoBox", [path(-25, 0, -40, 5)]) == []


def test_through_pass():
    line = DefensiveLine("B", 25.0, ts=1)
    assert run("ThroughPasses", [line, path(20, 0, 30, 0)]) == [ThroughPass(3, "A", 4, 2.5, ts=s(1))]
    assert run("ThroughPasses", [line, path(29, 0, 40, 0)]) == run("ThroughPasses", [line, path(10, 0, 20, 0)]) == []
    assert run("ThroughPasses", [DefensiveLine("A", 25.0, ts=1), path(20, 0, 30, 0)]) == []


def test_the_line_counts_as_it_was_at_the_kick():
    retreat = [DefensiveLine("B", depth, ts=s(at)) for at, depth in ((0.1, 25.0), (0.6, 20.0), (0.9, 10.0))]
    assert run("ThroughPasses", [*retreat, path(20, 0, 30, 0)]) == [ThroughPass(3, "A", 4, 2.5, ts=s(1))]
    assert run("ThroughPasses", [*retreat[1:], path(20, 0, 30, 0)]) == []  # not known at the kick


# What comes of passes


def test_one_touch_pass():
    first = FirstTimeBall(3, "A", BALL, ts=s(2))
    assert run("OneTouchPasses", [first, passed(s(2), 3, 4)]) == [OneTouchPass(3, "A", 4, BALL, ts=s(2))]
    assert run("OneTouchPasses", [first, passed(s(3), 3, 4)]) == run("OneTouchPasses", [passed(s(2), 3, 4)]) == []


def test_key_pass():
    assert run("KeyPasses", [passed(s(2), 3, 9), shot(s(4), 9)]) == [KeyPass(3, "A", 9, BALL, ts=s(4))]
    assert run("KeyPasses", [passed(s(2), 3, 9), shot(s(4), 8)]) == run("KeyPasses", [passed(s(2), 3, 9), shot(s(8), 9)]) == []


def test_assist():
    goal = Goal("A", 9, BALL, False, ts=s(5))
    assert run("Assists", [passed(s(2), 3, 9), goal]) == [Assist(3, "A", 9, BALL, ts=s(5))]
    assert run("Assists", [passed(s(2), 3, 8), goal]) == []
    assert run("Assists", [passed(s(2), 3, 9), Goal("B", 9, BALL, True, ts=s(5))]) == []


def test_pass_pairs_at_every_third():
    found = run("PassPairs", [passed(s(k), 3, to) for k, to in enumerate((4, 5, 4, 5, 4, 4), 2)])
    assert found == [PassPair(3, "A", 4, 3, ts=s(6))]


def test_pass_accuracy_at_every_fifth():
    lost = FailedPass(3, "A", 14, "B", BALL, 9.0, s(1), ts=s(2))
    assert run("PassAccuracies", [lost, *(passed(s(k), 3, 4) for k in (3, 4, 5, 6, 7))]) == [
        PassAccuracy(3, "A", 5, 0.8, ts=s(6))
    ]


def test_triangle():
    row = [passed(s(2), 3, 4), passed(s(4), 4, 5), passed(s(6), 5, 3)]
    assert run("Triangles", row) == [Triangle(3, "A", 4, 5, BALL, ts=s(6))]
    assert run("Triangles", [*row[:2], passed(s(6), 5, 6)]) == []
    assert run("Triangles", [*row[:2], passed(s(20), 5, 3)]) == []
    assert run("Triangles", [*row[:2], FailedPass(5, "A", 14, "B", BALL, 9.0, s(4), ts=s(5)), row[2]]) == []
