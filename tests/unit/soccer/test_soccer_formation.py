"""Levels 4 to 8: teams as bodies, their last line, and what is behind it."""

from soccer_situations import BALL, ms, run, s

from detectors.soccer.events import Pass
from detectors.soccer.passes.offside import BallBeforeLine, BallBehindLine, OffsidePass, OffsidePosition, OnsideAgain
from detectors.soccer.players.formation import (
    BlockHeight,
    DefensiveLine,
    Formation,
    TeamCompact,
    TeamShape,
    TeamStretched,
)
from detectors.soccer.zones import BallPlace, PlayerPlace

FOUR_THREE_THREE = {2: -30, 3: -31, 4: -31, 5: -30, 6: -10, 7: -9, 8: -10, 9: 12, 10: 13, 11: 12}


def places(ts: int, depths: dict[int, float], team: str = "A") -> list[PlayerPlace]:
    return [PlayerPlace(n, team, float(x), 4.0 * (n % 5) - 8.0, 1.0, ts=ts + n) for n, x in depths.items()]


def test_the_shape_of_a_team_without_its_keeper():
    keeper = PlayerPlace(1, "A", -50.0, 0.0, 1.0, ts=s(1))
    shapes = run("TeamShapes", [keeper, *places(s(1), FOUR_THREE_THREE), *places(s(2), FOUR_THREE_THREE)])
    assert [shape.ts for shape in shapes] == [s(2) + 2]
    assert (shapes[0].length, shapes[0].width) == (44.0, 16.0)
    assert shapes[0].depth == round(52.5 - 114 / 10, 2)


def test_the_last_but_one_player_makes_the_line():
    keeper = PlayerPlace(1, "A", -50.0, 0.0, 1.0, ts=s(1))
    back = [PlayerPlace(n, "A", x, 0.0, 1.0, ts=s(1) + ms(300) * n) for n, x in ((2, -30.0), (3, -32.0), (4, -31.9))]
    forward = [PlayerPlace(n, "A", -25.0, 0.0, 1.0, ts=s(5 + n)) for n in (3, 4)]
    lines = run("DefensiveLines", [keeper, *back, *forward])
    assert [(line.depth, line.ts) for line in lines] == [(22.5, ms(1600)), (20.5, ms(1900)), (22.5, s(9))]  # 20.6 is no move


def test_four_three_three():
    events = [*places(s(1), FOUR_THREE_THREE), *places(s(6), FOUR_THREE_THREE), *places(s(11), FOUR_THREE_THREE)]
    assert run("Formations", events) == [Formation("A", "4-3-3", ts=s(6) + 2)]


def test_one_run_forward_does_not_change_the_formation():
    run_up = FOUR_THREE_THREE | {2: 10}
    rows = [places(s(at), FOUR_THREE_THREE) for at in (1, 6)] + [places(s(11), run_up), places(s(16), FOUR_THREE_THREE)]
    assert [found.shape for found in run("Formations", [event for row in rows for event in row])] == ["4-3-3"]


def shape(ts: int, depth: float = 40.0, length: float = 30.0, width: float = 40.0) -> TeamShape:
    return TeamShape("A", depth, length, width, ts=ts)


def test_compact_and_stretched_in_turn():
    events = [shape(1), shape(2, length=20.0), shape(3, length=22.0), shape(4), shape(5, length=40.0)]
    assert run("Compactness", events) == [TeamCompact("A", 800.0, ts=2), TeamStretched("A", 1600.0, ts=5)]


def test_block_height_with_slack():
    depths = [30.0, 41.0, 42.5, 38.5, 37.0, 70.0]
    found = run("BlockHeights", [shape(k, depth) for k, depth in enumerate(depths, 1)])
    assert found == [BlockHeight("A", what, ts=ts) for ts, what in ((1, "low"), (3, "middle"), (5, "low"), (6, "high"))]


# Behind the line


def line(ts: int, depth: float, team: str = "B") -> DefensiveLine:
    return DefensiveLine(team, depth, ts=ts)


def ball_at(ts: int, x: float) -> BallPlace:
    return BallPlace(BALL, x, 0.0, 0.0, 9.0, ts=ts)


def test_the_ball_behind_the_line_and_before_it_again():
    events = [line(1, 20.0), ball_at(s(1), 30.0), ball_at(s(2), 33.0), ball_at(s(3), 34.0), ball_at(s(5), 32.0)]
    assert run("LineBreaks", events) == [BallBehindLine("B", BALL, ts=s(3)), BallBeforeLine("B", BALL, s(2), ts=s(5))]


def runner(ts: int, x: float, player: int = 9) -> PlayerPlace:
    return PlayerPlace(player, "A", x, 0.0, 5.0, ts=ts)


def test_offside_position_behind_line_and_ball_in_the_opponents_half():
    begin = [line(1, 20.0), ball_at(2, 0.0)]
    assert run("OffsidePositions", [*begin, runner(s(1), 30.0), runner(s(2), 35.5), runner(s(3), 30.0)]) == [
        OffsidePosition(9, "A", 3.0, ts=s(2)),
        OnsideAgain(9, "A", s(1), ts=s(3)),
    ]
    assert run("OffsidePositions", [line(1, 20.0), ball_at(2, 40.0), runner(s(1), 36.0)]) == []  # behind the ball
    assert run("OffsidePositions", [line(1, 80.0), ball_at(2, -40.0), runner(s(1), -5.0)]) == []  # in the own half


def test_offside_counts_at_the_kick():
    spell = [OffsidePosition(9, "A", 2.0, ts=s(2)), OnsideAgain(9, "A", s(2), ts=s(4))]
    passed = [Pass(8, 9, "A", BALL, 20.0, s(at), ts=s(at + 3)) for at in (1, 3, 5)]
    assert run("OffsidePasses", sorted([*spell, *passed], key=lambda e: e.ts)) == [OffsidePass(9, "A", 8, BALL, ts=s(6))]
    assert run("OffsidePasses", [spell[0], Pass(8, 10, "A", BALL, 20.0, s(3), ts=s(4))]) == []
