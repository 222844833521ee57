"""Levels 7 and 8: passes, failed passes, and what they make up."""

from __future__ import annotations

from math import hypot

from detectors.soccer.events import (
    BallOutOfPlay,
    DeadBall,
    DoublePass,
    FailedPass,
    Interception,
    Kick,
    Pass,
    PassSequence,
    PlayerHitsBall,
    ShotOnGoal,
    SoccerEvent,
)
from middleware.model.detector import Detector
from middleware.model.time import SECOND


class Passes(Detector):
    """Level 7. The ball goes from one player to another. O(1) an event.

    Reads Kick, ShotOnGoal, PlayerHitsBall, BallOutOfPlay and DeadBall. Publishes Pass when the next player to touch the
    ball is a team-mate 1 m away at least; FailedPass when he is an opponent, or the ball goes out, and the kick was no shot,
    left at 6 m/s or more, and went 3 m at least (less is a ball lost in a tackle). Whoever stops an opponent's shot does
    not pass by that touch. Nothing is passed over a dead ball.
    """

    subscribes, publishes = (Kick, ShotOnGoal, PlayerHitsBall, BallOutOfPlay, DeadBall), (Pass, FailedPass)

    SPEED = 6.0
    DISTANCE = 1.0
    LOST = 3.0

    def __init__(self) -> None:
        self.touch: PlayerHitsBall | None = None
        self.speed = 0.0
        self.shot = False
        self.stopped = False

    def on_event(self, event: SoccerEvent) -> Pass | FailedPass | None:
        if isinstance(event, Kick):
            self.speed = event.speed
        elif isinstance(event, ShotOnGoal):
            self.shot = True
        elif isinstance(event, PlayerHitsBall):
            ended = self._ended(event, event.player, event.team)
            self.stopped = self.shot and self.touch is not None and self.touch.team != event.team
            self.touch, self.speed, self.shot = event, 0.0, False
            return ended
        elif isinstance(event, BallOutOfPlay):
            ended = self._ended(event, 0, "")
            self.touch = None
            return ended
        elif isinstance(event, DeadBall):
            self.touch = None
        return None

    def _ended(self, event: PlayerHitsBall | BallOutOfPlay, player: int, team: str) -> Pass | FailedPass | None:
        """The pass that ends with ``event``, if the last touch was one."""
        touch = self.touch
        if touch is None or touch.player == player or self.stopped:
            return None
        distance = round(hypot(event.x - touch.x, event.y - touch.y), 2)
        if team == touch.team:
            if distance < self.DISTANCE:
                return None
            return Pass(touch.player, player, team, event.ball, distance, touch.ts, ts=event.ts)
        if self.shot or self.speed < self.SPEED or distance < self.LOST:
            return None
        return FailedPass(touch.player, touch.team, player, team, event.ball, distance, touch.ts, ts=event.ts)


class Interceptions(Detector):
    """Level 8. An opponent's pass taken and kept. O(1) an event.

    Reads FailedPass and PlayerHitsBall; publishes Interception when the next touch after the one that took the ball is
    by the same team, stamped with the taking (``backdate``, at most 5 s).
    """

    subscribes, publishes = (FailedPass, PlayerHitsBall), (Interception,)
    backdate = 5 * SECOND

    def __init__(self) -> None:
        self.taken: FailedPass | None = None

    def on_event(self, event: FailedPass | PlayerHitsBall) -> Interception | None:
        if isinstance(event, FailedPass):
            self.taken = event if event.receiver else None
            return None
        taken, self.taken = self.taken, None
        if taken is None or event.team != taken.receiver_team or event.ts - taken.ts > self.backdate:
            return None
        return Interception(taken.receiver, taken.receiver_team, taken.player, taken.ball, ts=taken.ts)

    @classmethod
    def examples(cls) -> list[SoccerEvent]:
        """Input that shows what it does (for ``slackline check``): a pass taken and kept, one taken and lost, one out."""
        ends = ((14, "B"), (15, "B"), (0, ""))
        failed = [FailedPass(3, "A", who, team, 142, 9.0, 0, ts=SECOND * (3 * k + 1)) for k, (who, team) in enumerate(ends)]
        touches = [(1, 14, "B"), (2, 14, "B"), (4, 15, "B"), (5, 3, "A"), (9, 16, "B")]
        return [*(PlayerHitsBall(who, team, 142, 90.0, 0.0, 0.0, ts=SECOND * at) for at, who, team in touches), *failed]


class DoublePasses(Detector):
    """Level 8. A pass and its return within 4 s. Reads Pass and FailedPass; publishes DoublePass. O(1) an event."""

    subscribes, publishes = (Pass, FailedPass), (DoublePass,)

    WITHIN = 4 * SECOND

    def __init__(self) -> None:
        self.first: Pass | None = None

    def on_event(self, event: Pass | FailedPass) -> DoublePass | None:
        first = self.first
        if isinstance(event, FailedPass):
            self.first = None
            return None
        self.first = event
        if first is None or (first.player, first.receiver) != (event.receiver, event.player):
            return None
        if event.ts - first.kicked > self.WITHIN:
            return None
        self.first = None  # the return is part of this double pass, not the start of another
        return DoublePass(first.player, first.receiver, event.team, event.ball, ts=event.ts)

    @classmethod
    def examples(cls) -> list[SoccerEvent]:
        """Input that shows what it does (for ``slackline check``): two double passes, and one that failed in between."""
        ways = ((1, 3, 4), (2, 4, 3), (5, 7, 8), (7, 8, 7), (9, 3, 4), (11, 4, 3))
        passes = [Pass(one, other, "A", 142, 9.0, SECOND * (at - 1), ts=SECOND * at) for at, one, other in ways]
        return [*passes, FailedPass(4, "A", 14, "B", 142, 9.0, SECOND * 9, ts=SECOND * 10)]


class PassSequences(Detector):
    """Level 8. Passes in a row by one team, from three on. O(1) an event.

    Reads Pass, FailedPass and DeadBall; publishes PassSequence at each pass after the second. A failed pass, a dead ball
    or a pass of the other team ends the row.
    """

    subscribes, publishes = (Pass, FailedPass, DeadBall), (PassSequence,)

    SHORTEST = 3

    def __init__(self) -> None:
        self.team = ""
        self.passes = 0
        self.began = 0

    def on_event(self, event: SoccerEvent) -> PassSequence | None:
        if not isinstance(event, Pass):
            self.team = ""
            return None
        if event.team != self.team:
            self.team, self.passes, self.began = event.team, 0, event.kicked
        self.passes += 1
        if self.passes < self.SHORTEST:
            return None
        return PassSequence(self.team, self.passes, event.ball, self.began, ts=event.ts)

    @classmethod
    def examples(cls) -> list[SoccerEvent]:
        """Input that shows what it does (for ``slackline check``): four passes, a dead ball, and four more."""
        passes = [Pass(k, k + 1, "A", 142, 10.0, SECOND * (k - 1), ts=SECOND * k) for k in (2, 3, 4, 5, 7, 8, 9, 10)]
        return [*passes, DeadBall("throw-in", "A", 142, 0.0, 34.2, ts=SECOND * 6)]
