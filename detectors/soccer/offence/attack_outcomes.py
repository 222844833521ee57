"""Levels 11 and 12, what attacks come to: their kind, their chances, their outcome."""

from __future__ import annotations

from detectors.soccer.ball_play.kicking import Cross
from detectors.soccer.events import Goal, PlayerBallEvent, ShotOnGoal, SoccerEvent, TeamBallEvent
from detectors.soccer.offence.attacks import AttackBegan, AttackEnded, FastBreak
from detectors.soccer.offence.chances import ExpectedGoal
from middleware.model.detector import Detector
from middleware.model.time import SECOND


class CounterAttack(TeamBallEvent):
    """An attack that began with a fast break has ended after so long."""

    lasted: int


class PositionalAttack(TeamBallEvent):
    """A long attack without a fast break has ended after so long."""

    lasted: int


class Chance(PlayerBallEvent):
    """A player shot or crossed (``how``) in an attack of his team."""

    how: str


class BigChance(PlayerBallEvent):
    """A chance that should score in a quarter of all cases or more."""

    chance: float


class AttackOutcome(SoccerEvent):
    """The outcome of an attack: goal, shot, cross or nothing; where it came from, and how long it lasted."""

    team: str
    outcome: str
    origin: str
    lasted: int


class AttackKinds(Detector):
    """Level 11. Reads FastBreak and AttackEnded; publishes CounterAttack for an attack that began with a fast break (5 s
    before it at most), PositionalAttack for any other that lasted 8 s at least. O(1) an event.
    """

    subscribes, publishes = (FastBreak, AttackEnded), (CounterAttack, PositionalAttack)

    BEFORE = 5 * SECOND
    LONG = 8 * SECOND

    def __init__(self) -> None:
        self.broke: dict[str, int] = {}

    def on_event(self, event: FastBreak | AttackEnded) -> CounterAttack | PositionalAttack | None:
        if isinstance(event, FastBreak):
            self.broke[event.team] = event.ts
            return None
        broke = self.broke.pop(event.team, None)
        if broke is not None and event.ts - event.lasted - broke <= self.BEFORE:
            return CounterAttack(event.team, event.ball, event.lasted, ts=event.ts)
        return PositionalAttack(event.team, event.ball, event.lasted, ts=event.ts) if event.lasted >= self.LONG else None


class Chances(Detector):
    """Level 11. Shots and crosses of an attack. Reads AttackBegan, AttackEnded, ShotOnGoal and Cross; publishes Chance for a
    shot or a cross of the team that attacks, or whose attack ended within the last 2 s. O(1) an event.
    """

    subscribes, publishes = (AttackBegan, AttackEnded, ShotOnGoal, Cross), (Chance,)

    AFTER = 2 * SECOND

    def __init__(self) -> None:
        self.team = ""
        self.ended: int | None = None

    def on_event(self, event: SoccerEvent) -> Chance | None:
        if isinstance(event, AttackBegan):
            self.team, self.ended = event.team, None
        elif isinstance(event, AttackEnded):
            self.ended = event.ts
        elif isinstance(event, ShotOnGoal | Cross):
            return self._chance(event)
        return None

    def _chance(self, event: ShotOnGoal | Cross) -> Chance | None:
        if event.team != self.team or (self.ended is not None and event.ts - self.ended > self.AFTER):
            return None
        how = "shot" if isinstance(event, ShotOnGoal) else "cross"
        return Chance(event.player, event.team, event.ball, how, ts=event.ts)


class BigChances(Detector):
    """Level 12. Reads ExpectedGoal and Chance; publishes BigChance for a shot (same time, same player) that is a Chance and
    whose expectation is 0.25 or more. O(1) an event.
    """

    subscribes, publishes = (ExpectedGoal, Chance), (BigChance,)

    BIG = 0.25

    def __init__(self) -> None:
        self.expected: ExpectedGoal | None = None

    def on_event(self, event: ExpectedGoal | Chance) -> BigChance | None:
        if isinstance(event, ExpectedGoal):
            self.expected = event
            return None
        expected = self.expected
        if expected is None or (expected.ts, expected.player) != (event.ts, event.player) or expected.chance < self.BIG:
            return None
        return BigChance(event.player, event.team, event.ball, expected.chance, ts=event.ts)

    @classmethod
    def examples(cls) -> list[SoccerEvent]:
        """Input that shows what it does (for ``slackline check``): a big chance, and a small one."""
        expected = [ExpectedGoal(9, "A", 142, chance, ts=SECOND * k) for k, chance in enumerate((0.4, 0.1), 1)]
        return [*expected, *(Chance(9, "A", 142, "shot", ts=SECOND * k, source="z") for k in (1, 2))]


class AttackOutcomes(Detector):
    """Level 12. Reads AttackBegan, AttackEnded, Chance and Goal; publishes AttackOutcome with AttackEnded: the best of goal,
    shot and cross that the team had since the attack began, or nothing. O(1) an event.
    """

    subscribes, publishes = (AttackBegan, AttackEnded, Chance, Goal), (AttackOutcome,)

    OUTCOMES = ("nothing", "cross", "shot", "goal")

    def __init__(self) -> None:
        self.team = ""
        self.best = 0

    def on_event(self, event: SoccerEvent) -> AttackOutcome | None:
        if isinstance(event, AttackBegan):
            self.team, self.best = event.team, 0
        elif isinstance(event, Chance) and event.team == self.team:
            self.best = max(self.best, 2 if event.how == "shot" else 1)
        elif isinstance(event, Goal) and event.team == self.team:
            self.best = 3
        elif isinstance(event, AttackEnded):
            best, self.best, self.team = self.best, 0, ""
            return AttackOutcome(event.team, self.OUTCOMES[best], event.origin, event.lasted, ts=event.ts)
        return None
