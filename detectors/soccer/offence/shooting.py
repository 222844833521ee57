"""Levels 6 and 7: shots on goal and what becomes of them."""

from __future__ import annotations

from math import exp, hypot

from detectors.soccer.events import (
    BallInGoal,
    BallOverGoalLine,
    BallOverTouchLine,
    BlockedShot,
    Goal,
    Kick,
    MissedShot,
    PlayerHitsBall,
    Save,
    ShotOnGoal,
    SoccerEvent,
)
from detectors.soccer.setup import GOAL_HEIGHT, GoalMouth, Setting, setup_of
from middleware.model.detector import Detector
from middleware.model.time import SECOND

GRAVITY = 9.81
DRAG = 0.012
"""Air drag of a football: deceleration (m/s2) per squared speed (m2/s2)."""


class Shots(Detector):
    """Level 6. Hard kicks towards the opponents' goal. Stateless, O(goals) an event.

    Reads Kick; publishes ShotOnGoal (same time) if the ball leaves at 15 m/s or more and will, by its velocity, drag
    and gravity, reach the opponents' goal line within 36 m and 2 s, no more than 2.5 m beside the posts and 1.5 m
    above the bar.
    """

    __slots__ = unchanging = ("_goals",)
    subscribes, publishes = (Kick,), (ShotOnGoal,)

    SPEED = 15.0
    RANGE = 36.0
    TIME = 2.0
    WIDE = 2.5
    HIGH = 1.5

    def __init__(self, setup: Setting = "generated") -> None:
        self._goals = setup_of(setup).goals

    def on_event(self, event: Kick) -> ShotOnGoal | None:
        if event.speed < self.SPEED:
            return None
        for goal in self._goals:
            if goal.team != event.team:
                shot = self._towards(goal, event)
                if shot is not None:
                    return shot
        return None

    def _towards(self, goal: GoalMouth, kick: Kick) -> ShotOnGoal | None:
        if goal.along == "y":
            gap, closing, along, drift = goal.line - kick.x, kick.vx, kick.y, kick.vy
        else:
            gap, closing, along, drift = goal.line - kick.y, kick.vy, kick.x, kick.vx
        if gap * closing <= 0:
            return None
        flown = gap / closing  # without drag
        middle, half = (goal.low + goal.high) / 2, (goal.high - goal.low) / 2
        distance = hypot(gap, along - middle)
        offset = along + drift * flown - middle
        if distance > self.RANGE or abs(offset) > half + self.WIDE:
            return None
        path = hypot(closing, drift) * flown
        time = flown * (exp(DRAG * path) - 1) / (DRAG * path)
        height = max(kick.z + kick.vz * time - GRAVITY / 2 * time * time, 0.0)
        if time > self.TIME or height > GOAL_HEIGHT + self.HIGH:
            return None
        on_target = abs(offset) <= half and height <= GOAL_HEIGHT
        return ShotOnGoal(
            kick.player, kick.team, kick.ball, kick.speed, round(distance, 2), round(offset, 2), round(height, 2), on_target,
            ts=kick.ts,
        )  # fmt: skip

    @classmethod
    def examples(cls) -> list[Kick]:
        """Input that shows what it does (for ``slackline check``): shots on and off target, and kicks that are none."""
        kicks = (
            (35.0, 0.0, 22.0, 2.0, 3.0),
            (35.0, 0.0, 22.0, 6.0, 3.0),
            (35.0, 9.0, 9.0, 1.0, 0.0),
            (0.0, 0.0, 25.0, 0.0, 5.0),
        )
        return [
            Kick(10, "A", 142, hypot(vx, vy, vz), x, y, 0.0, vx, vy, vz, ts=SECOND * number)
            for number, (x, y, vx, vy, vz) in enumerate(kicks)
        ]


class ShotOutcomes(Detector):
    """Level 7. The outcome of a shot: blocked, saved or missed (goals are another detector's). O(1) an event.

    Reads ShotOnGoal, PlayerHitsBall and the three line crossings; publishes BlockedShot, Save or MissedShot at the first
    touch by an opponent, or when the ball goes out, within 4 s of the shot. A team-mate's touch ends the shot unheard.
    """

    __slots__ = unchanging = ("_keepers",)
    subscribes = (ShotOnGoal, PlayerHitsBall, BallInGoal, BallOverGoalLine, BallOverTouchLine)
    publishes = (BlockedShot, Save, MissedShot)

    LASTS = 4 * SECOND

    def __init__(self, setup: Setting = "generated") -> None:
        self._keepers = tuple(player.player for player in setup_of(setup).players if player.keeper)
        self.shot: ShotOnGoal | None = None

    def on_event(self, event: SoccerEvent) -> BlockedShot | Save | MissedShot | None:
        if isinstance(event, ShotOnGoal):
            self.shot = event
            return None
        shot = self.shot
        if shot is None:
            return None
        self.shot = None
        if event.ts - shot.ts > self.LASTS:
            return None
        if isinstance(event, PlayerHitsBall):
            if event.team == shot.team:
                return None
            outcome = Save if event.player in self._keepers else BlockedShot
            return outcome(event.player, event.team, shot.player, event.ball, ts=event.ts)
        if isinstance(event, BallInGoal):
            return None
        return MissedShot(shot.player, shot.team, shot.ball, ts=event.ts)


class Goals(Detector):
    """Level 5. Goals and their scorers. O(1) an event.

    Reads BallInGoal and PlayerHitsBall; publishes Goal for the team that does not defend that goal. The scorer is its
    last player to touch the ball in the five seconds before, or the defender who put it in (``own_goal``).
    """

    __slots__ = unchanging = ("_opponent",)
    subscribes, publishes = (BallInGoal, PlayerHitsBall), (Goal,)

    RECENT = 5 * SECOND

    def __init__(self, setup: Setting = "generated") -> None:
        one, other = (goal.team for goal in setup_of(setup).goals)
        self._opponent = {one: other, other: one}
        self.last: dict[str, tuple[int, int]] = {}

    def on_event(self, event: BallInGoal | PlayerHitsBall) -> Goal | None:
        if isinstance(event, PlayerHitsBall):
            self.last[event.team] = (event.player, event.ts)
            return None
        team = self._opponent.get(event.team, "")
        last, self.last = self.last, {}
        for candidate in (team, event.team):
            player, ts = last.get(candidate, (0, 0))
            if player and event.ts - ts <= self.RECENT:
                return Goal(team, player, event.ball, candidate != team, ts=event.ts)
        return Goal(team, 0, event.ball, False, ts=event.ts)
