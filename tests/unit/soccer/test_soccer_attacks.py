"""Levels 6 to 15: shots weighed, attacks, and the match in figures."""

from soccer_situations import BALL, run, s, team

from detectors.soccer.ball_play.kicking import Cross
from detectors.soccer.ball_play.touches import Dribble
from detectors.soccer.events import (
    BallOutOfPlay,
    BlockedShot,
    FailedPass,
    Goal,
    Interception,
    Pass,
    PassSequence,
    Restart,
    Save,
    ShotOnGoal,
    TeamPossession,
)
from detectors.soccer.offence.attack_outcomes import AttackOutcome, BigChance, Chance, CounterAttack, PositionalAttack
from detectors.soccer.offence.attacks import AttackBegan, AttackEnded, BuildUp, FastBreak, Turnover
from detectors.soccer.offence.chances import CloseShot, ExpectedGoal, LongShot, Rebound, Score
from detectors.soccer.offence.set_pieces import CornerKick
from detectors.soccer.players.duels import DuelWon
from detectors.soccer.statistics import (
    AttackStatistics,
    Dominance,
    MatchPhase,
    MatchStatistics,
    PlayerStatistics,
    PossessionShare,
)
from detectors.soccer.zones import BallZone


def shot(ts: int, player: int = 9, distance: float = 15.0) -> ShotOnGoal:
    return ShotOnGoal(player, team(player), BALL, 25.0, distance, 0.0, 1.0, True, ts=ts)


def gained(ts: int, player: int, lasted: int = s(2)) -> TeamPossession:
    return TeamPossession(team(player), player, BALL, lasted, ts=ts)


def zone(ts: int, third: str, of: str = "A") -> BallZone:
    return BallZone(of, BALL, third, "left", ts=ts)


# Shots weighed


def test_long_and_close_shots():
    assert run("ShotKinds", [shot(1, distance=25.0), shot(2, distance=8.0), shot(3)]) == [
        LongShot(9, "A", BALL, 25.0, ts=1),
        CloseShot(9, "A", BALL, 8.0, ts=2),
    ]


def test_expected_goals_fall_with_distance():
    chances = [found.chance for found in run("ExpectedGoals", [shot(d, distance=float(d)) for d in (5, 11, 16, 25)])]
    assert chances == sorted(chances, reverse=True)
    assert 0.25 < chances[1] < 0.4
    assert 0.02 < chances[3] < 0.06


def test_rebound():
    saved = Save(12, "B", 9, BALL, ts=s(1))
    assert run("Rebounds", [saved, shot(s(3), 10)]) == [Rebound(10, "A", BALL, s(2), ts=s(3))]
    assert (
        run("Rebounds", [BlockedShot(13, "B", 9, BALL, ts=s(1)), shot(s(9), 10)])
        == run("Rebounds", [saved, shot(s(3), 14)])
        == []
    )


def test_the_score_of_both():
    goals = [Goal("A", 9, BALL, False, ts=1), Goal("B", 20, BALL, False, ts=2), Goal("A", 12, BALL, True, ts=3)]
    last = sorted(run("Scores", goals)[-2:], key=lambda score: score.team)
    assert last == [Score("A", 2, 1, ts=3), Score("B", 1, 2, ts=3)]


# Attacks


def test_turnover_by_interception_or_duel():
    assert run("Turnovers", [gained(s(1), 3), Interception(14, "B", 3, BALL, ts=s(2))]) == [
        Turnover(14, "B", BALL, "interception", ts=s(2))
    ]
    won, held = DuelWon(14, "B", 3, BALL, ts=s(2)), DuelWon(3, "A", 14, BALL, ts=s(2))
    assert run("Turnovers", [gained(s(1), 3), won, gained(s(2), 14)]) == [Turnover(14, "B", BALL, "duel", ts=s(2))]
    assert run("Turnovers", [gained(s(1), 3), held]) == []


def sequence(ts: int, passes: int, began: int) -> PassSequence:
    return PassSequence("A", passes, BALL, began, ts=ts)


def test_build_up_from_the_own_third_to_the_final_one_once():
    zones = [zone(s(1), "own"), zone(s(5), "middle"), zone(s(9), "final")]
    events = [*zones[:2], sequence(s(6), 3, s(2)), zones[2], sequence(s(10), 4, s(2)), sequence(s(11), 5, s(2))]
    assert run("BuildUps", events) == [BuildUp("A", BALL, 4, s(8), ts=s(10))]
    assert run("BuildUps", [*zones, sequence(s(10), 3, s(6))]) == []  # began in the middle


def won(ts: int) -> Turnover:
    return Turnover(3, "A", BALL, "duel", ts=ts)


def test_fast_break():
    begin = [zone(s(1), "own"), won(s(2))]
    assert run("FastBreaks", [*begin, zone(s(4), "middle"), zone(s(8), "final")]) == [FastBreak(3, "A", BALL, s(6), ts=s(8))]
    assert run("FastBreaks", [*begin, zone(s(13), "final")]) == []  # too slow
    assert run("FastBreaks", [*begin, gained(s(4), 14), zone(s(8), "final")]) == []  # lost again


def test_an_attack_from_a_turnover_until_the_ball_is_lost():
    begin = [zone(s(1), "middle"), gained(s(2), 3), won(s(2)), zone(s(6), "final")]
    began = AttackBegan("A", BALL, ts=s(6))
    ended = AttackEnded("A", BALL, "turnover", s(4), ts=s(10))
    out = BallOutOfPlay(BALL, 53.0, 9.0, 0.0, 9.0, 0.0, 0.0, ts=s(10))
    for end in (gained(s(10), 14), zone(s(10), "own"), out):
        assert run("Attacks", [*begin, zone(s(8), "middle"), end]) == [began, ended]


def test_where_attacks_come_from():
    corner = [zone(s(1), "final"), Restart("corner kick", "A", 3, BALL, s(9), ts=s(2)), gained(s(4), 14)]
    late = [won(s(1)), gained(s(1), 3), zone(s(30), "final"), gained(s(33), 14)]
    built = [gained(s(1), 3), zone(s(3), "final"), BuildUp("A", BALL, 4, s(2), ts=s(4)), gained(s(5), 14)]
    assert [run("Attacks", events)[-1].origin for events in (corner, late, built)] == ["restart", "play", "build-up"]


def ended(ts: int, lasted: int, origin: str = "play") -> AttackEnded:
    return AttackEnded("A", BALL, origin, lasted, ts=ts)


def test_counter_and_positional_attacks():
    broke = FastBreak(3, "A", BALL, s(6), ts=s(8))
    assert run("AttackKinds", [broke, ended(s(11), s(3))]) == [CounterAttack("A", BALL, s(3), ts=s(11))]
    assert run("AttackKinds", [ended(s(20), s(9))]) == [PositionalAttack("A", BALL, s(9), ts=s(20))]
    assert run("AttackKinds", [ended(s(20), s(3))]) == []


def test_chances_of_the_attacking_team():
    began, cross = AttackBegan("A", BALL, ts=s(1)), Cross(3, "A", BALL, "left", ts=s(2))
    assert run("Chances", [began, cross, shot(s(3))]) == [
        Chance(3, "A", BALL, "cross", ts=s(2)),
        Chance(9, "A", BALL, "shot", ts=s(3)),
    ]
    assert run("Chances", [began, shot(s(3), 14)]) == run("Chances", [shot(s(3))]) == []
    assert len(run("Chances", [began, ended(s(3), s(2)), shot(s(4)), shot(s(9))])) == 1


def test_big_chance():
    chance = Chance(9, "A", BALL, "shot", ts=s(1))
    assert run("BigChances", [ExpectedGoal(9, "A", BALL, 0.4, ts=s(1)), chance]) == [BigChance(9, "A", BALL, 0.4, ts=s(1))]
    assert run("BigChances", [ExpectedGoal(9, "A", BALL, 0.1, ts=s(1)), chance]) == []


def test_the_outcome_is_the_best_of_the_attack():
    began, goal = AttackBegan("A", BALL, ts=s(1)), Goal("A", 9, BALL, False, ts=s(5))
    chances = [Chance(3, "A", BALL, "cross", ts=s(2)), Chance(9, "A", BALL, "shot", ts=s(3))]
    cases = {"nothing": [], "cross": chances[:1], "shot": chances, "goal": [*chances, goal]}
    for outcome, events in cases.items():
        found = run("AttackOutcomes", [began, *events, ended(s(5), s(4))])
        assert found == [AttackOutcome("A", outcome, "play", s(4), ts=s(5))]


# Figures


def test_share_of_the_ball():
    found = run("PossessionShares", [gained(s(1), 3, lasted=0), gained(s(4), 14, lasted=s(3)), gained(s(5), 3, lasted=s(1))])
    assert sorted(found[-2:], key=lambda share: share.team) == [
        PossessionShare("A", 0.75, s(3), ts=s(5)),
        PossessionShare("B", 0.25, s(1), ts=s(5)),
    ]


def test_what_a_player_does():
    events = [
        Pass(3, 4, "A", BALL, 9.0, s(1), ts=s(2)),
        FailedPass(3, "A", 14, "B", BALL, 9.0, s(2), ts=s(3)),
        shot(s(4), 3),
        DuelWon(3, "A", 14, BALL, ts=s(5)),
        Dribble(3, "A", BALL, 4, 9.0, ts=s(6)),
        Interception(3, "A", 14, BALL, ts=s(7)),
    ]
    assert run("PlayerFigures", events) == [PlayerStatistics(3, "A", 2, 1, 1, 0, 1, 1, ts=s(6))]


def outcome(ts: int, of: str, what: str) -> AttackOutcome:
    return AttackOutcome(of, what, "play", s(5), ts=ts)


def test_attacks_counted():
    found = run(
        "AttackFigures",
        [outcome(1, "A", "nothing"), outcome(2, "A", "shot"), outcome(3, "B", "nothing"), outcome(4, "A", "goal")],
    )
    assert found[-1] == AttackStatistics("A", 3, 2, 1, ts=4)
    assert found[2] == AttackStatistics("B", 1, 0, 0, ts=3)


def test_dominance_fades_and_changes_hands():
    events = [outcome(s(1), "A", "shot"), outcome(s(2), "B", "shot"), outcome(s(601), "B", "shot")]
    found = run("Dominances", events)
    assert [(event.team, event.ts) for event in found] == [("A", s(1)), ("B", s(601))]
    assert found[1].lead == 4.0  # what the others had two half-lives ago counts a quarter, for both


def test_in_control_or_chasing():
    behind, level = Score("A", 0, 1, ts=s(2)), Score("A", 1, 1, ts=s(3))
    assert run("MatchPhases", [Dominance("A", 3.0, ts=s(1)), behind, level]) == [
        MatchPhase("A", "in control", ts=s(1)),
        MatchPhase("A", "chasing", ts=s(2)),
        MatchPhase("A", "in control", ts=s(3)),
    ]


def test_the_match_at_a_glance_every_minute_and_with_each_phase():
    events = [
        Pass(3, 4, "A", BALL, 9.0, s(1), ts=s(2)),
        FailedPass(14, "B", 3, "A", BALL, 9.0, s(2), ts=s(3)),
        shot(s(4)),
        CornerKick(3, "A", BALL, ts=s(5)),
        Score("A", 1, 0, ts=s(6)),
        PossessionShare("A", 0.7, s(9), ts=s(7)),
        AttackStatistics("A", 2, 1, 1, ts=s(8)),
        Pass(3, 4, "A", BALL, 9.0, s(60), ts=s(61)),
        MatchPhase("A", "in control", ts=s(62)),
    ]
    a, b, later, _ = sorted(run("MatchFigures", events), key=lambda event: (event.ts, event.team))
    assert a == MatchStatistics("A", 1, 1, 1, 1, 1, 1, 2, 0.7, ts=s(61))
    assert b == MatchStatistics("B", 1, 0, 0, 0, 0, 0, 0, 0.0, ts=s(61))
    assert (later.ts, later.passes) == (s(62), 2)
