"""Levels 4 to 7: duels, crowds, marking, touches, pressing."""

from soccer_situations import BALL, hit, run, s, team, touch

from detectors.soccer.ball_play.touches import BallControlled, Dribble, FirstTimeBall, Header, PossessionSpell
from detectors.soccer.events import BallOutOfPlay, Near, NotNear, Possession, TeamPossession
from detectors.soccer.players.duels import Crowd, CrowdDispersed, Duel, DuelOver, DuelWon, Marked, Unmarked
from detectors.soccer.players.pressing import (
    Counterpress,
    Pressing,
    PressureOff,
    PressureWon,
    Recovery,
    UnderPressure,
)
from detectors.soccer.zones import BallPlace, BallZone, PlayerPlace


def near(ts: int, player: int) -> Near:
    return Near(player, team(player), BALL, 1.0, ts=ts)


def away(ts: int, player: int) -> NotNear:
    return NotNear(player, team(player), BALL, ts=ts)


def out(ts: int) -> BallOutOfPlay:
    return BallOutOfPlay(BALL, 0.0, 35.0, 0.0, 0.0, 5.0, 0.0, ts=ts)


# Duels


def test_a_duel_of_two_opponents_and_who_stays():
    events = [near(1, 3), near(2, 4), near(5, 14), away(7, 3), away(9, 4)]
    assert run("Duels", events) == [Duel(3, "A", 14, BALL, ts=5), DuelOver(14, "B", 3, BALL, 4, ts=9)]


def test_a_duel_is_won_by_the_first_touch_after_it():
    duel = [Duel(3, "A", 14, BALL, ts=s(1)), touch(s(1), 3), DuelOver(14, "B", 3, BALL, s(1), ts=s(2))]
    assert run("DuelOutcomes", [*duel, touch(s(3), 14), touch(s(3), 3)]) == [DuelWon(14, "B", 3, BALL, ts=s(3))]
    assert run("DuelOutcomes", [*duel, touch(s(5), 14)]) == []  # too late
    assert run("DuelOutcomes", [*duel, touch(s(3), 5), touch(s(3), 14)]) == []  # somebody else


def test_a_crowd_is_more_than_a_duel():
    events = [*(near(k, k) for k in (1, 2, 3, 4)), away(5, 1), away(6, 2), away(7, 3)]
    assert run("Crowds", events) == [Crowd(BALL, 3, ts=3), CrowdDispersed(BALL, 4, 4, ts=7)]
    assert run("Crowds", [near(1, 1), near(2, 14), away(3, 1)]) == []


def place(ts: int, player: int, x: float, y: float = 0.0) -> PlayerPlace:
    return PlayerPlace(player, team(player), x, y, 3.0, ts=ts)


def test_marking_with_slack():
    mate, marker = place(1, 4, 0.5), place(2, 14, 5.0)
    events = [mate, marker, place(3, 3, 0.0), place(4, 3, 3.5), place(5, 3, 2.5), place(6, 3, 1.5)]
    assert run("Markings", events) == [Marked(3, "A", 14, ts=4), Unmarked(3, "A", 2, ts=6)]


# Touches


def test_a_dribble_ends_with_another_player():
    run_up = [touch(s(k), 3, x=3.0 * k) for k in (1, 2, 3)]
    assert run("Dribbles", [*run_up, touch(s(4), 14, x=10.0)]) == [Dribble(3, "A", BALL, 3, 6.0, ts=s(4))]
    assert run("Dribbles", [*run_up, out(s(4))]) == [Dribble(3, "A", BALL, 3, 6.0, ts=s(4))]
    assert run("Dribbles", [*run_up[:2], touch(s(4), 14)]) == []  # two touches
    assert run("Dribbles", [*(touch(s(k), 3, x=0.5 * k) for k in (1, 2, 3)), touch(s(4), 14)]) == []  # on the spot


def test_a_header_is_a_touch_at_the_height_of_a_head():
    assert run("Headers", [hit(s(1), z=1.9), touch(s(1), 3)]) == [Header(3, "A", BALL, 1.9, ts=s(1))]
    assert run("Headers", [hit(s(1), z=0.2), touch(s(1), 3)]) == []
    assert run("Headers", [hit(s(1), z=1.9), touch(s(2), 3)]) == []


def owned(ts: int, player: int, previous: int = 0) -> Possession:
    return Possession(player, team(player), BALL, previous, ts=ts)


def test_a_ball_controlled_or_played_on_at_once():
    assert run("Controls", [touch(s(1), 3), owned(s(1), 3), touch(s(2), 3), touch(s(3), 3)]) == [
        BallControlled(3, "A", BALL, s(1), ts=s(2))
    ]
    assert run("Controls", [owned(s(1), 3), owned(s(2), 4, previous=3)]) == [FirstTimeBall(3, "A", BALL, ts=s(2))]
    assert run("Controls", [owned(s(1), 3), owned(s(2), 14, previous=3)]) == []  # lost


def test_spells_of_possession():
    found = run("Spells", [owned(s(1), 3), owned(s(4), 14), out(s(6)), owned(s(9), 3)])
    assert found == [PossessionSpell(3, "A", BALL, s(3), ts=s(4)), PossessionSpell(14, "B", BALL, s(2), ts=s(6))]


# Pressing


def ball_at(ts: int, speed: float = 2.0) -> BallPlace:
    return BallPlace(BALL, 0.0, 0.0, 0.0, speed, ts=ts)


def test_pressure_by_two_opponents():
    close = [place(s(1), 14, 3.0), place(s(1), 15, -2.0), place(s(1), 4, 1.0)]
    begin = [owned(s(1), 3), *close]
    pressed = UnderPressure(3, "A", BALL, 2, ts=s(2))
    gone = [place(s(3), 14, 9.0), ball_at(s(4))]
    assert run("Pressures", [*begin, ball_at(s(2)), ball_at(s(3)), *gone]) == [
        pressed,
        PressureOff(3, "A", BALL, s(2), ts=s(4)),
    ]
    assert run("Pressures", [*begin, ball_at(s(2)), owned(s(5), 4)]) == [pressed, PressureOff(3, "A", BALL, s(3), ts=s(5))]
    assert run("Pressures", [*begin, ball_at(s(2), speed=20.0)]) == []  # the ball is on its way
    assert run("Pressures", [*close, ball_at(s(2))]) == []  # nobody's ball


def pressure(ts: int, player: int = 14) -> UnderPressure:
    return UnderPressure(player, team(player), BALL, 2, ts=ts)


def gained(ts: int, player: int, lasted: int = s(9)) -> TeamPossession:
    return TeamPossession(team(player), player, BALL, lasted, ts=ts)


def test_pressure_wins_the_ball_soon_or_not_at_all():
    assert run("PressureWins", [pressure(s(1)), gained(s(3), 3)]) == [PressureWon(3, "A", 14, BALL, ts=s(3))]
    assert run("PressureWins", [pressure(s(1)), gained(s(6), 3)]) == []


def test_counterpress_once_a_loss():
    assert run("Counterpresses", [gained(s(1), 14), pressure(s(4)), pressure(s(5))]) == [Counterpress("A", BALL, s(3), ts=s(4))]
    assert run("Counterpresses", [gained(s(1), 14), pressure(s(7))]) == []
    assert run("Counterpresses", [gained(s(1), 14, lasted=0), pressure(s(2))]) == []  # nobody had lost it


def test_pressing_is_three_pressures_in_fifteen_seconds():
    found = run("PressingPhases", [pressure(s(at)) for at in (1, 8, 15, 20, 60)])
    assert found == [Pressing("A", 3, ts=s(15)), Pressing("A", 3, ts=s(20))]


def test_recovery_with_its_third():
    zone = BallZone("A", BALL, "final", "left", ts=s(1))
    assert run("Recoveries", [zone, gained(s(2), 3)]) == [Recovery(3, "A", BALL, "final", ts=s(2))]
    assert run("Recoveries", [zone, gained(s(2), 3, lasted=0)]) == []
