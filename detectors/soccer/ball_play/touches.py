"""Levels 5 and 6, a player and his ball: dribbles, headers, balls brought under control, spells of possession."""

from __future__ import annotations

from math import hypot

from detectors.soccer.events import BallHit, BallOutOfPlay, PlayerBallEvent, PlayerHitsBall, Possession, SoccerEvent
from middleware.model.detector import Detector
from middleware.model.time import SECOND


class Dribble(PlayerBallEvent):
    """A player took the ball along: so many touches, so far from the first to the last. Stamped with its end."""

    touches: int
    distance: float


class Header(PlayerBallEvent):
    """A player played a ball that was at the height of his head (m)."""

    height: float


class BallControlled(PlayerBallEvent):
    """A player has brought under control the ball that he got: his second touch, so long after the first."""

    after: int


class FirstTimeBall(PlayerBallEvent):
    """A player played the ball on with his first touch. Stamped with the touch of the next player."""


class PossessionSpell(PlayerBallEvent):
    """A player has had the ball for so long, and has no longer."""

    lasted: int


class Dribbles(Detector):
    """Level 5. Runs with the ball. Reads PlayerHitsBall and BallOutOfPlay; publishes Dribble when another player touches the
    ball, or it goes out, after three touches or more over 5 m at least. O(1) an event.
    """

    subscribes, publishes = (PlayerHitsBall, BallOutOfPlay), (Dribble,)

    TOUCHES = 3
    DISTANCE = 5.0

    def __init__(self) -> None:
        self.first: PlayerHitsBall | None = None
        self.last: PlayerHitsBall | None = None
        self.touches = 0

    def on_event(self, event: PlayerHitsBall | BallOutOfPlay) -> Dribble | None:
        first, last, touches = self.first, self.last, self.touches
        if isinstance(event, PlayerHitsBall) and first is not None and event.player == first.player:
            self.last, self.touches = event, touches + 1
            return None
        self.first = self.last = event if isinstance(event, PlayerHitsBall) else None
        self.touches = 1
        if first is None or last is None or touches < self.TOUCHES:
            return None
        distance = hypot(last.x - first.x, last.y - first.y)
        if distance < self.DISTANCE:
            return None
        return Dribble(first.player, first.team, first.ball, touches, round(distance, 2), ts=event.ts)

    @classmethod
    def examples(cls) -> list[SoccerEvent]:
        """Input that shows what it does (for ``slackline check``): a dribble ended by an opponent, one by the line."""
        touches = [PlayerHitsBall(3, "A", 142, 90.0, 3.0 * k, 0.0, ts=SECOND * k) for k in (1, 2, 3, 4, 6, 7, 8)]
        other = PlayerHitsBall(14, "B", 142, 90.0, 12.0, 0.0, ts=SECOND * 5)
        return [*touches, other, BallOutOfPlay(142, 0.0, 35.0, 0.0, 0.0, 5.0, 0.0, ts=SECOND * 9)]


class Headers(Detector):
    """Level 5. Balls played in the air. Reads BallHit and PlayerHitsBall; publishes Header for a touch whose hit (at the same
    time) was between 1.4 and 2.8 m high. O(1) an event.
    """

    subscribes, publishes = (BallHit, PlayerHitsBall), (Header,)

    LOW = 1.4
    HIGH = 2.8

    def __init__(self) -> None:
        self.hit: BallHit | None = None

    def on_event(self, event: BallHit | PlayerHitsBall) -> Header | None:
        if isinstance(event, BallHit):
            self.hit = event
            return None
        hit = self.hit
        if hit is None or (hit.ts, hit.ball) != (event.ts, event.ball) or not self.LOW <= hit.z <= self.HIGH:
            return None
        return Header(event.player, event.team, event.ball, hit.z, ts=event.ts)

    @classmethod
    def examples(cls) -> list[SoccerEvent]:
        """Input that shows what it does (for ``slackline check``): a header, a ball on the ground, a ball too high."""
        hits = [BallHit(142, 90.0, 0.0, 0.0, z, 90.0, 0.0, 0.0, ts=SECOND * k) for k, z in enumerate((1.8, 0.1, 2.9), 1)]
        touches = [PlayerHitsBall(3, "A", 142, 90.0, 0.0, 0.0, ts=SECOND * k, source="touches") for k in (1, 2, 3, 4)]
        return [*hits, *touches]


class Controls(Detector):
    """Level 6. The play of a player with a ball that he gets. Reads PlayerHitsBall and Possession; publishes BallControlled at
    his second touch, if it comes 0.2 to 3 s after the first, or FirstTimeBall if a team-mate is next. O(1) an event.
    """

    subscribes, publishes = (PlayerHitsBall, Possession), (BallControlled, FirstTimeBall)

    SOON = SECOND // 5
    LATE = 3 * SECOND

    def __init__(self) -> None:
        self.got: Possession | None = None

    def on_event(self, event: PlayerHitsBall | Possession) -> BallControlled | FirstTimeBall | None:
        got = self.got
        if isinstance(event, Possession):
            self.got = event
            played = got is not None and event.previous == got.player and event.team == got.team
            return FirstTimeBall(got.player, got.team, got.ball, ts=event.ts) if got is not None and played else None
        if got is None or event.player != got.player or event.ts - got.ts < self.SOON:
            return None
        self.got = None
        after = event.ts - got.ts
        return BallControlled(got.player, got.team, got.ball, after, ts=event.ts) if after <= self.LATE else None

    @classmethod
    def examples(cls) -> list[SoccerEvent]:
        """Input that shows what it does (for ``slackline check``): a ball controlled, and one played on at once."""
        got = [Possession(player, "A", 142, before, ts=SECOND * at) for at, player, before in ((1, 3, 0), (4, 4, 3), (5, 5, 4))]
        return [
            *got,
            *(PlayerHitsBall(p, "A", 142, 90.0, 0.0, 0.0, ts=SECOND * at) for at, p in ((1, 3), (2, 3), (4, 4), (5, 5))),
        ]


class Spells(Detector):
    """Level 6. How long players have the ball. Reads Possession and BallOutOfPlay; publishes PossessionSpell when another
    player has it, or it goes out. O(1) an event.
    """

    subscribes, publishes = (Possession, BallOutOfPlay), (PossessionSpell,)

    def __init__(self) -> None:
        self.had: Possession | None = None

    def on_event(self, event: Possession | BallOutOfPlay) -> PossessionSpell | None:
        had, self.had = self.had, event if isinstance(event, Possession) else None
        return PossessionSpell(had.player, had.team, had.ball, event.ts - had.ts, ts=event.ts) if had else None
