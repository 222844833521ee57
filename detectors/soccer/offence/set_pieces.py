"""Levels 6 and 7, set pieces: which restart by whom, free kicks, penalties, and the shots that come of them."""

from __future__ import annotations

from detectors.soccer.ball_play.flight import BallAtRest, BallMoves
from detectors.soccer.events import DeadBall, PlayerBallEvent, PlayerHitsBall, Restart, ShotOnGoal, SoccerEvent
from detectors.soccer.field import PENALTY_SPOT, OnField
from middleware.model.detector import Detector
from middleware.model.time import SECOND


class ThrowIn(PlayerBallEvent):
    """A player has put the ball back into play over a touch line."""


class GoalKick(PlayerBallEvent):
    """A player has taken a goal kick."""


class CornerKick(PlayerBallEvent):
    """A player has taken a corner kick."""


class KickOff(PlayerBallEvent):
    """A player has taken the kick-off after a goal."""


class FreeKick(PlayerBallEvent):
    """A player has played a ball that lay still in the field for so long, though it had not gone out."""

    x: float
    y: float
    rested: int


class PenaltyKick(PlayerBallEvent):
    """A player has taken a penalty kick."""


class QuickRestart(PlayerBallEvent):
    """A player put the ball back into play within five seconds."""

    stopped: int


class SetPieceShot(PlayerBallEvent):
    """A shot soon after a set piece of the same team; ``kind`` is the type of event that began it."""

    kind: str


SET_PIECES = {"throw-in": ThrowIn, "goal kick": GoalKick, "corner kick": CornerKick, "kick-off": KickOff}
"""The event for each restart that DeadBall names."""


class SetPieces(Detector):
    """Level 6. Restarts by their kind. Reads Restart; publishes ThrowIn, GoalKick, CornerKick or KickOff. Stateless, O(1)."""

    subscribes, publishes = (Restart,), (ThrowIn, GoalKick, CornerKick, KickOff)

    def on_event(self, event: Restart) -> SoccerEvent | None:
        kind = SET_PIECES.get(event.restart)
        return kind(event.player, event.team, event.ball, ts=event.ts) if kind else None

    @classmethod
    def examples(cls) -> list[Restart]:
        """Input that shows what it does (for ``slackline check``): one restart of each kind, and one of none."""
        kinds = [*SET_PIECES, "dropped ball"]
        return [Restart(kind, "A", 3, 142, SECOND, ts=SECOND * number) for number, kind in enumerate(kinds, 1)]


class FreeKicks(Detector):
    """Level 6. Free kicks. Reads BallAtRest, BallMoves, PlayerHitsBall, DeadBall and Restart; publishes FreeKick for the
    touch of a ball that has lain still for five seconds since somebody touched it, unless it had gone out, and for a Restart
    that is published as one. O(1) an event.
    """

    subscribes, publishes = (BallAtRest, BallMoves, PlayerHitsBall, DeadBall, Restart), (FreeKick,)

    RESTED = 5 * SECOND

    def __init__(self) -> None:
        self.playing = False
        self.since: int | None = None
        self.touch: PlayerHitsBall | None = None

    def on_event(self, event: SoccerEvent) -> FreeKick | None:
        if isinstance(event, BallAtRest):
            self.since = event.ts
        elif isinstance(event, BallMoves):
            self.since = None
        elif isinstance(event, DeadBall):
            self.playing = False
        elif isinstance(event, Restart):
            self.playing = True
            return self._restarted(event)
        elif isinstance(event, PlayerHitsBall):
            self.touch = event
            return self._touched(event)
        return None

    def _restarted(self, restart: Restart) -> FreeKick | None:
        touch = self.touch
        if restart.restart != "free kick" or touch is None or touch.ts != restart.ts:
            return None
        return FreeKick(touch.player, touch.team, touch.ball, touch.x, touch.y, restart.stopped, ts=touch.ts)

    def _touched(self, touch: PlayerHitsBall) -> FreeKick | None:
        since, playing = self.since, self.playing
        self.since, self.playing = None, True
        if since is None or not playing or touch.ts - since < self.RESTED:
            return None
        return FreeKick(touch.player, touch.team, touch.ball, touch.x, touch.y, touch.ts - since, ts=touch.ts)

    @classmethod
    def examples(cls) -> list[SoccerEvent]:
        """Input that shows what it does (for ``slackline check``): a free kick, and a ball played on at once."""
        rests = [BallAtRest(142, 0.0, 0.0, ts=SECOND * at) for at in (2, 11)]
        return [*rests, *(PlayerHitsBall(3, "A", 142, 90.0, 0.0, 0.0, ts=SECOND * at) for at in (1, 10, 12))]


class PenaltyKicks(OnField):
    """Level 7. Penalties. Reads FreeKick; publishes PenaltyKick for one from within 0.7 m of the opponents' penalty spot.
    Stateless, O(1).
    """

    subscribes, publishes = (FreeKick,), (PenaltyKick,)

    OFF = 0.7

    def on_event(self, event: FreeKick) -> PenaltyKick | None:
        where = event.team, event.x, event.y
        off = max(abs(self._field.to_go(*where) - PENALTY_SPOT), abs(self._field.side(*where)))
        return PenaltyKick(event.player, event.team, event.ball, ts=event.ts) if off <= self.OFF else None

    @classmethod
    def examples(cls) -> list[FreeKick]:
        """Input that shows what it does (for ``slackline check``): two penalties, and a free kick from elsewhere."""
        places = (("A", 41.5), ("B", -41.4), ("A", 20.0))
        return [FreeKick(3, team, 142, x, 0.0, SECOND * 9, ts=SECOND * k) for k, (team, x) in enumerate(places, 1)]


class QuickRestarts(Detector):
    """Level 6. Reads Restart; publishes QuickRestart for one within five seconds after play stopped. Stateless, O(1)."""

    subscribes, publishes = (Restart,), (QuickRestart,)

    QUICK = 5 * SECOND

    def on_event(self, event: Restart) -> QuickRestart | None:
        if event.stopped > self.QUICK:
            return None
        return QuickRestart(event.player, event.team, event.ball, event.stopped, ts=event.ts)


class SetPieceShots(Detector):
    """Level 7. Shots from set pieces. Reads ThrowIn, CornerKick, FreeKick and ShotOnGoal; publishes SetPieceShot for a shot
    of the same team within ten seconds (the kick itself included). O(1) an event.
    """

    subscribes, publishes = (ThrowIn, CornerKick, FreeKick, ShotOnGoal), (SetPieceShot,)

    WITHIN = 10 * SECOND

    def __init__(self) -> None:
        self.kind = self.team = ""
        self.ts = 0

    def on_event(self, event: SoccerEvent) -> SetPieceShot | None:
        if isinstance(event, ShotOnGoal):
            if event.team != self.team or event.ts - self.ts > self.WITHIN:
                return None
            return SetPieceShot(event.player, event.team, event.ball, self.kind, ts=event.ts)
        if isinstance(event, ThrowIn | CornerKick | FreeKick):
            self.kind, self.team, self.ts = type(event).__name__, event.team, event.ts
        return None
