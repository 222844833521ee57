"""Levels 2 to 4, the ball by itself: bounces, posts, flights, rests, and when nobody is there to take it."""

from __future__ import annotations

from math import hypot, sqrt

from detectors.soccer.ball_play.contact import is_bounce
from detectors.soccer.events import (
    BallAtEvent,
    BallHit,
    BallInPlay,
    BallMotion,
    BallOutOfPlay,
    Near,
    NotNear,
    PlayerBallEvent,
    SoccerEvent,
)
from detectors.soccer.setup import GOAL_HEIGHT, Setting, setup_of
from detectors.soccer.zones import BallPlace
from middleware.model.detector import Detector
from middleware.model.time import SECOND


class Bounce(BallAtEvent):
    """A ball has bounced off the ground."""

    acceleration: float


class Woodwork(SoccerEvent):
    """A ball has struck a post or the bar (``part``) of the goal that ``team`` defends."""

    ball: int
    team: str
    part: str


class BallInAir(BallAtEvent):
    """The ball in play has risen above everybody's head."""


class BallLanded(BallAtEvent):
    """The ball has come down from a flight: how high it rose, how far it came since it did, how long that took."""

    height: float
    distance: float
    lasted: int


class BallAtRest(BallAtEvent):
    """The ball in play lies still."""


class BallMoves(SoccerEvent):
    """The ball in play moves again after it lay still for so long."""

    ball: int
    lasted: int


class LooseBall(BallAtEvent):
    """For a second nobody has been near the ball in play."""


class LooseBallTaken(PlayerBallEvent):
    """A player has come near a ball that had been loose; nobody had been near for so long."""

    lasted: int


class Bounces(Detector):
    """Level 2. Reads BallHit; publishes Bounce for one straight upwards near the ground. Stateless, O(1)."""

    subscribes, publishes = (BallHit,), (Bounce,)

    def on_event(self, event: BallHit) -> Bounce | None:
        return Bounce(event.ball, event.x, event.y, event.acceleration, ts=event.ts) if is_bounce(event) else None


class Woodworks(Detector):
    """Level 2. Reads BallHit; publishes Woodwork for a hit within 0.4 m of a post or of the bar. Stateless, O(goals)."""

    __slots__ = unchanging = ("_goals",)
    subscribes, publishes = (BallHit,), (Woodwork,)

    REACH = 0.4

    def __init__(self, setup: Setting = "generated") -> None:
        self._goals = setup_of(setup).goals

    def on_event(self, event: BallHit) -> Woodwork | None:
        for goal in self._goals:
            off, along = (event.x, event.y) if goal.along == "y" else (event.y, event.x)
            if abs(off - goal.line) > self.REACH or event.z > GOAL_HEIGHT + self.REACH:
                continue
            if min(abs(along - goal.low), abs(along - goal.high)) <= self.REACH:
                return Woodwork(event.ball, goal.team, "post", ts=event.ts)
            if goal.low < along < goal.high and event.z >= GOAL_HEIGHT - self.REACH:
                return Woodwork(event.ball, goal.team, "bar", ts=event.ts)
        return None

    @classmethod
    def examples(cls) -> list[BallHit]:
        """Input that shows what it does (for ``slackline check``): a post, a bar, and two hits that are neither."""
        places = ((52.5, 3.7, 1.0), (-52.4, 0.0, 2.4), (52.5, 0.0, 1.0), (0.0, 3.7, 1.0))
        return [BallHit(142, 90.0, *place, 90.0, 0.0, 0.0, ts=SECOND * k) for k, place in enumerate(places, 1)]


class BallFlights(Detector):
    """Level 3. High balls. Reads BallMotion, BallInPlay and BallOutOfPlay; publishes BallInAir when the ball in play rises
    above 2.2 m, and BallLanded when it is below 0.6 m again. O(1) an event.
    """

    subscribes, publishes = (BallMotion, BallInPlay, BallOutOfPlay), (BallInAir, BallLanded)

    HIGH = 2.2
    LOW = 0.6

    def __init__(self) -> None:
        self.ball = 0
        self.risen: BallInAir | None = None
        self.height = 0.0

    def on_event(self, event: SoccerEvent) -> BallInAir | BallLanded | None:
        if isinstance(event, BallInPlay):
            self.ball = event.ball
        elif isinstance(event, BallOutOfPlay):
            self.ball, self.risen = 0, None
        elif isinstance(event, BallMotion) and event.ball == self.ball:
            return self._moved(event)
        return None

    def _moved(self, event: BallMotion) -> BallInAir | BallLanded | None:
        risen = self.risen
        if risen is None:
            if event.z < self.HIGH:
                return None
            self.height = event.z
            self.risen = BallInAir(event.ball, event.x, event.y, ts=event.ts)
            return self.risen
        self.height = max(self.height, event.z)
        if event.z > self.LOW:
            return None
        self.risen = None
        distance = round(hypot(event.x - risen.x, event.y - risen.y), 2)
        return BallLanded(event.ball, event.x, event.y, self.height, distance, event.ts - risen.ts, ts=event.ts)


class BallRests(Detector):
    """Level 3. A ball that lies still. Reads BallMotion, BallInPlay and BallOutOfPlay; publishes BallAtRest when the ball
    in play slows down below 0.3 m/s on the ground, and BallMoves when it is faster than 1 m/s again. O(1) an event.
    """

    subscribes, publishes = (BallMotion, BallInPlay, BallOutOfPlay), (BallAtRest, BallMoves)

    STILL = 0.3
    MOVING = 1.0
    GROUND = 0.5

    def __init__(self) -> None:
        self.ball = 0
        self.rested: BallAtRest | None = None

    def on_event(self, event: SoccerEvent) -> BallAtRest | BallMoves | None:
        if isinstance(event, BallInPlay):
            self.ball = event.ball
        elif isinstance(event, BallOutOfPlay):
            self.ball, self.rested = 0, None
        elif isinstance(event, BallMotion) and event.ball == self.ball:
            speed, rested = sqrt(event.vx**2 + event.vy**2 + event.vz**2), self.rested
            if rested is None and speed < self.STILL and event.z < self.GROUND:
                self.rested = BallAtRest(event.ball, event.x, event.y, ts=event.ts)
                return self.rested
            if rested is not None and speed > self.MOVING:
                self.rested = None
                return BallMoves(event.ball, event.ts - rested.ts, ts=event.ts)
        return None

    @classmethod
    def examples(cls) -> list[SoccerEvent]:
        """Input that shows what it does (for ``slackline check``): a ball that comes to rest twice, and one that goes out."""
        speeds = (5.0, 0.1, 0.5, 6.0, 0.2, 0.1)
        moved = [BallMotion(142, 0.0, 0.0, 0.1, speed, 0.0, 0.0, ts=SECOND * k) for k, speed in enumerate(speeds, 2)]
        out = BallOutOfPlay(142, 0.0, 35.0, 0.0, 0.0, 5.0, 0.0, ts=SECOND * 9)
        return [BallInPlay(142, 0.0, 0.0, ts=SECOND), *moved, out]


class LooseBalls(Detector):
    """Level 4. Balls that nobody has. Reads Near, NotNear, BallInPlay and BallPlace; publishes LooseBall once nobody has
    been near the ball in play for a second, and LooseBallTaken when somebody comes. O(1) an event.
    """

    subscribes, publishes = (Near, NotNear, BallInPlay, BallPlace), (LooseBall, LooseBallTaken)

    AFTER = SECOND

    def __init__(self) -> None:
        self.near: list[int] = []
        self.left: int | None = None
        self.loose = False

    def on_event(self, event: SoccerEvent) -> LooseBall | LooseBallTaken | None:
        if isinstance(event, Near):
            loose, left, self.loose, self.left = self.loose, self.left, False, None
            if event.player not in self.near:
                self.near.append(event.player)
            if loose and left is not None:
                return LooseBallTaken(event.player, event.team, event.ball, event.ts - left, ts=event.ts)
        elif isinstance(event, NotNear):
            if event.player in self.near:
                self.near.remove(event.player)
                self.left = None if self.near else event.ts
        elif isinstance(event, BallInPlay):
            self.near, self.left, self.loose = [], event.ts, False
        elif isinstance(event, BallPlace) and not self.loose and self.left is not None:
            self.loose = event.ts - self.left >= self.AFTER
            return LooseBall(event.ball, event.x, event.y, ts=event.ts) if self.loose else None
        return None
