"""Levels 6 to 8, shots weighed: from where, how likely to score, rebounds, and the score."""

from __future__ import annotations

from math import atan2, exp

from detectors.soccer.events import BlockedShot, Goal, PlayerBallEvent, Save, ShotOnGoal, SoccerEvent
from detectors.soccer.field import OnField
from detectors.soccer.setup import Setting
from middleware.model.detector import Detector
from middleware.model.time import SECOND


class LongShot(PlayerBallEvent):
    """A shot from 20 m or more."""

    distance: float


class CloseShot(PlayerBallEvent):
    """A shot from 11 m or less."""

    distance: float


class ExpectedGoal(PlayerBallEvent):
    """How likely a shot from there is to score, going by its distance alone (0 to 1)."""

    chance: float


class Rebound(PlayerBallEvent):
    """A team shot again soon after its shot was saved or blocked."""

    after: int


class Score(SoccerEvent):
    """The score of a team once somebody scored: its goals, and those of the opponents."""

    team: str
    goals: int
    against: int


class ShotKinds(Detector):
    """Level 7. Reads ShotOnGoal; publishes LongShot from 20 m on, CloseShot up to 11 m. Stateless, O(1)."""

    subscribes, publishes = (ShotOnGoal,), (LongShot, CloseShot)

    LONG = 20.0
    CLOSE = 11.0

    def on_event(self, event: ShotOnGoal) -> LongShot | CloseShot | None:
        if self.CLOSE < event.distance < self.LONG:
            return None
        kind = LongShot if event.distance >= self.LONG else CloseShot
        return kind(event.player, event.team, event.ball, event.distance, ts=event.ts)


class ExpectedGoals(Detector):
    """Level 7. How good a chance was. Reads ShotOnGoal; publishes ExpectedGoal. Stateless, O(1).

    Rule: a logistic curve over the angle that the goal fills, seen from so far off in front of it; its two numbers are
    set so that a shot from the penalty spot (in play) scores in about 0.3 of all cases, one from 25 m in about 0.04.
    """

    subscribes, publishes = (ShotOnGoal,), (ExpectedGoal,)

    HALF_GOAL = 3.66
    BASE = -4.53
    SLOPE = 5.7

    def on_event(self, event: ShotOnGoal) -> ExpectedGoal:
        angle = 2 * atan2(self.HALF_GOAL, max(event.distance, 0.1))
        chance = 1 / (1 + exp(-(self.BASE + self.SLOPE * angle)))
        return ExpectedGoal(event.player, event.team, event.ball, round(chance, 3), ts=event.ts)


class Rebounds(Detector):
    """Level 8. Second shots. Reads ShotOnGoal, Save and BlockedShot; publishes Rebound for a shot within 5 s after one of the
    other team's stopped a shot. O(1) an event.
    """

    subscribes, publishes = (ShotOnGoal, Save, BlockedShot), (Rebound,)

    WITHIN = 5 * SECOND

    def __init__(self) -> None:
        self.stopped: Save | BlockedShot | None = None

    def on_event(self, event: SoccerEvent) -> Rebound | None:
        if isinstance(event, Save | BlockedShot):
            self.stopped = event
            return None
        stopped, self.stopped = self.stopped, None
        if not isinstance(event, ShotOnGoal) or stopped is None or stopped.team == event.team:
            return None
        after = event.ts - stopped.ts
        return Rebound(event.player, event.team, event.ball, after, ts=event.ts) if after <= self.WITHIN else None


class Scores(OnField):
    """Level 6. Reads Goal; publishes a Score for each team. O(1) an event."""

    subscribes, publishes = (Goal,), (Score,)

    def __init__(self, setup: Setting = "generated") -> None:
        super().__init__(setup)
        self.goals = dict.fromkeys(self._field.teams, 0)

    def on_event(self, event: Goal) -> list[Score] | None:
        if event.team not in self.goals:
            return None
        self.goals[event.team] += 1
        of = self.goals
        return [Score(team, of[team], of[self._field.opponent(team)], ts=event.ts) for team in self._field.teams]

    @classmethod
    def examples(cls) -> list[Goal]:
        """Input that shows what it does (for ``slackline check``): three goals."""
        return [Goal(team, 9, 142, False, ts=SECOND * number) for number, team in enumerate("ABA", 1)]
