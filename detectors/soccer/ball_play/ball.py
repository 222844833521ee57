"""Levels 1 to 3, the ball alone: hits, whether it is in play, and which line it crossed."""

from __future__ import annotations

from math import sqrt

from detectors.soccer.events import (
    BallHit,
    BallInGoal,
    BallInPlay,
    BallMotion,
    BallOutOfPlay,
    BallOverGoalLine,
    BallOverTouchLine,
    Position,
)
from detectors.soccer.setup import BALL_RADIUS, GOAL_HEIGHT, GoalMouth, Setting, setup_of
from middleware.model.detector import Detector
from middleware.model.time import MILLISECOND

HIT = 55.0
"""Acceleration (m/s2) above which a ball was hit: the threshold of the DEBS 2013 Grand Challenge."""

REFRACTORY = 15 * MILLISECOND
"""For so long the acceleration must have been below the threshold before another hit counts."""


class BallHits(Detector):
    """Level 1. Peaks of a ball's acceleration. O(1) an event.

    Reads Position, keyed by sensor; publishes BallHit when the acceleration of a ball rises to 55 m/s2 after at least
    15 ms below (so that noise upon one peak makes no second hit), at once, without waiting for the top of the peak.
    """

    __slots__ = unchanging = ("_balls",)
    subscribes, publishes, key = (Position,), (BallHit,), "sensor"

    def __init__(self, setup: Setting = "generated") -> None:
        self._balls = frozenset(setup_of(setup).balls)
        self.above: int | None = None

    def on_event(self, event: Position) -> BallHit | None:
        if event.sensor not in self._balls:
            return None
        ax, ay, az = event.ax, event.ay, event.az
        square = ax * ax + ay * ay + az * az
        if not square >= HIT * HIT:  # so, because not-a-number is no hit
            return None
        above, self.above = self.above, event.ts
        if above is not None and event.ts - above < REFRACTORY:
            return None
        return BallHit(event.sensor, sqrt(square), event.x, event.y, event.z, ax, ay, az, ts=event.ts)

    @classmethod
    def examples(cls) -> list[Position]:
        """Input that shows what it does (for ``slackline check``): two balls with two peaks each, and a limb."""
        pushes = (0.0, 80.0, 200.0, 40.0, 60.0, *[0.0] * 15, 90.0, 0.0)
        return [
            Position(sensor, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0, push, 0.0, 0.0, ts=MILLISECOND * number, source=f"sensor-{sensor}")
            for number, push in enumerate(pushes)
            for sensor in (1, 142, 143)
        ]


class BallsInPlay(Detector):
    """Level 2. Which ball counts: the first one seen on the pitch, until it is wholly over a line. O(1) an event.

    Reads BallMotion; publishes BallInPlay and BallOutOfPlay in turn. Other balls on the pitch are ignored meanwhile.
    """

    __slots__ = unchanging = ("_bounds",)
    subscribes, publishes = (BallMotion,), (BallInPlay, BallOutOfPlay)

    def __init__(self, setup: Setting = "generated") -> None:
        pitch = setup_of(setup).pitch
        self._bounds = (
            pitch.x_min - BALL_RADIUS,
            pitch.x_max + BALL_RADIUS,
            pitch.y_min - BALL_RADIUS,
            pitch.y_max + BALL_RADIUS,
        )
        self.ball = 0

    def on_event(self, event: BallMotion) -> BallInPlay | BallOutOfPlay | None:
        if self.ball not in (0, event.ball):
            return None
        x_min, x_max, y_min, y_max = self._bounds
        x, y = event.x, event.y
        inside = x_min <= x <= x_max and y_min <= y <= y_max
        if inside == (self.ball != 0):
            return None
        if inside:
            self.ball = event.ball
            return BallInPlay(event.ball, x, y, ts=event.ts)
        self.ball = 0
        return BallOutOfPlay(event.ball, x, y, event.z, event.vx, event.vy, event.vz, ts=event.ts)


class LineCrossings(Detector):
    """Level 3. Where the ball went out: into a goal, over a goal line, or over a touch line. Stateless, O(goals).

    Reads BallOutOfPlay; publishes BallInGoal, BallOverGoalLine or BallOverTouchLine. Rule: going back along its
    velocity, the ball crossed the line last passed between the posts (to the ball's radius) and under the bar, or not.
    """

    __slots__ = unchanging = ("_goals", "_pitch")
    subscribes, publishes = (BallOutOfPlay,), (BallInGoal, BallOverGoalLine, BallOverTouchLine)

    def __init__(self, setup: Setting = "generated") -> None:
        known = setup_of(setup)
        self._goals, self._pitch = known.goals, known.pitch

    def on_event(self, event: BallOutOfPlay) -> BallInGoal | BallOverGoalLine | BallOverTouchLine:
        for goal in self._goals:
            crossing = self._crossing(goal, event)
            if crossing is None:
                continue
            along, height = crossing
            if goal.low <= along <= goal.high and height <= GOAL_HEIGHT:
                return BallInGoal(event.ball, goal.team, event.x, event.y, event.z, ts=event.ts)
            return BallOverGoalLine(event.ball, goal.team, event.x, event.y, ts=event.ts)
        return BallOverTouchLine(event.ball, event.x, event.y, ts=event.ts)

    def _crossing(self, goal: GoalMouth, event: BallOutOfPlay) -> tuple[float, float] | None:
        """Where along the line of ``goal`` and how high the ball crossed it; None if it is on the pitch's side of it."""
        pitch = self._pitch
        if goal.along == "y":
            middle, at, speed, along, drift = (pitch.x_min + pitch.x_max) / 2, event.x, event.vx, event.y, event.vy
        else:
            middle, at, speed, along, drift = (pitch.y_min + pitch.y_max) / 2, event.y, event.vy, event.x, event.vx
        outward = 1.0 if goal.line > middle else -1.0
        beyond = (at - goal.line) * outward - BALL_RADIUS
        if beyond < 0:
            return None
        since = beyond / (speed * outward) if speed * outward > 0.5 else 0.0
        return along - drift * since, event.z - event.vz * since
