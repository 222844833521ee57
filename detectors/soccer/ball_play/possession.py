"""Levels 5 and 6: who has the ball, and when play stands still."""

from __future__ import annotations

from detectors.soccer.events import (
    BallInGoal,
    BallOutOfPlay,
    BallOverGoalLine,
    BallOverTouchLine,
    DeadBall,
    PlayerHitsBall,
    Possession,
    Restart,
    SoccerEvent,
    TeamPossession,
)
from detectors.soccer.setup import Setting, setup_of
from detectors.soccer.zones import BallPlace, PlayerPlace
from middleware.model.detector import Detector
from middleware.model.time import SECOND


class Possessions(Detector):
    """Level 5. The player who touched the ball last has it, until another touches it or it goes out. O(1) an event.

    Reads PlayerHitsBall and BallOutOfPlay; publishes Possession when another player has it.
    """

    subscribes, publishes = (PlayerHitsBall, BallOutOfPlay), (Possession,)

    def __init__(self) -> None:
        self.player = 0

    def on_event(self, event: PlayerHitsBall | BallOutOfPlay) -> Possession | None:
        if isinstance(event, BallOutOfPlay):
            self.player = 0
            return None
        previous = self.player
        if event.player == previous:
            return None
        self.player = event.player
        return Possession(event.player, event.team, event.ball, previous, ts=event.ts)


class TeamPossessions(Detector):
    """Level 6. The ball has gone from one team to the other. Reads Possession; publishes TeamPossession. O(1) an event."""

    subscribes, publishes = (Possession,), (TeamPossession,)

    def __init__(self) -> None:
        self.team = ""
        self.since = 0

    def on_event(self, event: Possession) -> TeamPossession | None:
        if event.team == self.team:
            return None
        lasted = event.ts - self.since if self.team else 0
        self.team, self.since = event.team, event.ts
        return TeamPossession(event.team, event.player, event.ball, lasted, ts=event.ts)


class DeadBalls(Detector):
    """Level 5. Play stops when the ball crosses a line, and resumes with the next touch. O(1) an event.

    Reads BallInGoal, BallOverGoalLine, BallOverTouchLine and PlayerHitsBall; publishes DeadBall with the restart that
    the laws of the game give (by who touched it last), then Restart.

    Cameras do not follow a dead ball: reads BallPlace and PlayerPlace, too, and publishes DeadBall (a free kick, for
    nobody knows whom) when the ball was last seen on the pitch, and no more for 3 s in which players were. A ball that
    wears a transmitter is never silent.
    """

    __slots__ = unchanging = ("_opponent",)
    subscribes = (BallInGoal, BallOverGoalLine, BallOverTouchLine, PlayerHitsBall, BallPlace, PlayerPlace)
    publishes = (DeadBall, Restart)

    SILENT = 3 * SECOND

    def __init__(self, setup: Setting = "generated") -> None:
        one, other = (goal.team for goal in setup_of(setup).goals)
        self._opponent = {one: other, other: one}
        self.touched = ""
        self.dead: DeadBall | None = None
        self.seen: BallPlace | None = None

    def on_event(self, event: SoccerEvent) -> DeadBall | Restart | None:
        if isinstance(event, PlayerPlace):
            return self._unseen(event.ts)
        if isinstance(event, BallPlace):
            self.seen = event
            return None
        if isinstance(event, PlayerHitsBall):
            self.touched = event.team
            dead, self.dead = self.dead, None
            if dead is None:
                return None
            return Restart(dead.restart, event.team, event.player, event.ball, event.ts - dead.ts, ts=event.ts)
        if isinstance(event, BallInGoal):
            restart, team = "kick-off", event.team
        elif isinstance(event, BallOverGoalLine):
            corner = event.team == self.touched
            restart, team = ("corner kick", self._opponent.get(event.team, "")) if corner else ("goal kick", event.team)
        elif isinstance(event, BallOverTouchLine):
            restart, team = "throw-in", self._opponent.get(self.touched, "")
        else:
            return None
        self.seen = None
        self.dead = DeadBall(restart, team, event.ball, event.x, event.y, ts=event.ts)
        return self.dead

    def _unseen(self, now: int) -> DeadBall | None:
        """The ball that has not been seen for long is dead; where it was seen last, there it is."""
        seen = self.seen
        if seen is None or now - seen.ts < self.SILENT:
            return None
        self.seen = None
        if self.dead is not None:
            return None
        self.dead = DeadBall("free kick", "", seen.ball, seen.x, seen.y, ts=now)
        return self.dead
