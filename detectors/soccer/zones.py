"""Levels 3 and 4, where things are: thinned places of players and ball, thirds, lanes and penalty areas."""

from __future__ import annotations

from math import hypot, sqrt

from detectors.soccer.events import (
    BallAtEvent,
    BallInPlay,
    BallMotion,
    BallOutOfPlay,
    PlayerEvent,
    PlayerMotion,
    SoccerEvent,
    TeamBallEvent,
)
from detectors.soccer.field import OnField
from detectors.soccer.setup import Setting
from middleware.model.detector import Detector
from middleware.model.time import MILLISECOND, SECOND

PLAYER_GRID = 500 * MILLISECOND
BALL_GRID = 200 * MILLISECOND


class PlayerPlace(PlayerEvent):
    """Where a player is and how fast he runs, twice a second: for all that needs no more."""

    x: float
    y: float
    speed: float


class BallPlace(BallAtEvent):
    """Where the ball in play is and how fast it moves, five times a second."""

    z: float
    speed: float


class PlayerZone(PlayerEvent):
    """A player has come into another third or lane, seen by his team."""

    third: str
    lane: str


class BallZone(TeamBallEvent):
    """The ball has come into another third or lane, seen by ``team`` (there is one event for each team)."""

    third: str
    lane: str


class BallInBox(TeamBallEvent):
    """The ball has come into the penalty area that ``team`` attacks."""


class BallOutOfBox(TeamBallEvent):
    """The ball has left the penalty area that ``team`` attacks; it was in there for so long."""

    lasted: int


class RunIntoBox(PlayerEvent):
    """A player has come into the penalty area that his team attacks."""

    speed: float


class RunOutOfBox(PlayerEvent):
    """A player has left the penalty area that his team attacks; he was in there for so long."""

    lasted: int


class PlayerPlaces(Detector):
    """Level 3. Thins the motion of players. Reads PlayerMotion, keyed by player; publishes PlayerPlace from the first
    motion in each half second of a fixed grid. O(1) an event.
    """

    subscribes, publishes, key = (PlayerMotion,), (PlayerPlace,), "player"

    def __init__(self) -> None:
        self.until = 0

    def on_event(self, event: PlayerMotion) -> PlayerPlace | None:
        if event.ts < self.until:
            return None
        self.until = (event.ts // PLAYER_GRID + 1) * PLAYER_GRID
        speed = round(hypot(event.vx, event.vy), 2)
        return PlayerPlace(event.player, event.team, event.x, event.y, speed, ts=event.ts)


class BallPlaces(Detector):
    """Level 3. Thins the motion of the ball in play. Reads BallMotion, BallInPlay and BallOutOfPlay; publishes BallPlace
    from its first motion in each fifth of a second. O(1) an event.
    """

    subscribes, publishes = (BallMotion, BallInPlay, BallOutOfPlay), (BallPlace,)

    def __init__(self) -> None:
        self.ball = 0
        self.until = 0

    def on_event(self, event: SoccerEvent) -> BallPlace | None:
        if isinstance(event, BallInPlay):
            self.ball = event.ball
        elif isinstance(event, BallOutOfPlay):
            self.ball = 0
        elif isinstance(event, BallMotion) and event.ball == self.ball and event.ts >= self.until:
            self.until = (event.ts // BALL_GRID + 1) * BALL_GRID
            speed = round(sqrt(event.vx**2 + event.vy**2 + event.vz**2), 2)
            return BallPlace(event.ball, event.x, event.y, event.z, speed, ts=event.ts)
        return None


class PlayerZones(OnField):
    """Level 4. Which third and lane a player is in. Reads PlayerPlace, keyed by player; publishes PlayerZone when it is
    another one (and at first). O(1) an event.
    """

    subscribes, publishes, key = (PlayerPlace,), (PlayerZone,), "player"

    def __init__(self, setup: Setting = "generated") -> None:
        super().__init__(setup)
        self.zone = ("", "")

    def on_event(self, event: PlayerPlace) -> PlayerZone | None:
        where = event.team, event.x, event.y
        zone = self._field.third(*where), self._field.lane(*where)
        if zone == self.zone:
            return None
        self.zone = zone
        return PlayerZone(event.player, event.team, *zone, ts=event.ts)


class BallZones(OnField):
    """Level 4. Which third and lane the ball is in, seen by each team. Reads BallPlace; publishes a BallZone for each
    team when it is another one. O(1) an event.
    """

    subscribes, publishes = (BallPlace,), (BallZone,)

    def __init__(self, setup: Setting = "generated") -> None:
        super().__init__(setup)
        self.zone = ("", "")

    def on_event(self, event: BallPlace) -> list[BallZone] | None:
        field, x, y = self._field, event.x, event.y
        first = field.teams[0]
        zone = field.third(first, x, y), field.lane(first, x, y)
        if zone == self.zone:
            return None
        self.zone = zone
        return [BallZone(t, event.ball, field.third(t, x, y), field.lane(t, x, y), ts=event.ts) for t in field.teams]


class BallBoxes(OnField):
    """Level 4. The ball in a penalty area. Reads BallPlace and BallOutOfPlay; publishes BallInBox and BallOutOfBox in turn,
    for the team that attacks there. O(1) an event.
    """

    subscribes, publishes = (BallPlace, BallOutOfPlay), (BallInBox, BallOutOfBox)

    def __init__(self, setup: Setting = "generated") -> None:
        super().__init__(setup)
        self.inside: BallInBox | None = None

    def on_event(self, event: BallPlace | BallOutOfPlay) -> BallInBox | BallOutOfBox | None:
        playing = isinstance(event, BallPlace)
        team = next((t for t in self._field.teams if playing and self._field.in_box(t, event.x, event.y)), "")
        was = self.inside
        if was is not None and team != was.team:
            self.inside = None
            return BallOutOfBox(was.team, event.ball, event.ts - was.ts, ts=event.ts)
        if was is None and team:
            self.inside = BallInBox(team, event.ball, ts=event.ts)
            return self.inside
        return None

    @classmethod
    def examples(cls) -> list[SoccerEvent]:
        """Input that shows what it does (for ``slackline check``): from one penalty area to the other, and out."""
        places = [BallPlace(142, x, 0.0, 0.0, 9.0, ts=SECOND * k) for k, x in enumerate((0, 40, 45, 30, -40, -50), 1)]
        return [*places, BallOutOfPlay(142, -53.0, 0.0, 0.0, -9.0, 0.0, 0.0, ts=SECOND * 7)]


class BoxRuns(OnField):
    """Level 4. Players in the penalty area that they attack. Reads PlayerPlace, keyed by player; publishes RunIntoBox and
    RunOutOfBox in turn. O(1) an event.
    """

    subscribes, publishes, key = (PlayerPlace,), (RunIntoBox, RunOutOfBox), "player"

    def __init__(self, setup: Setting = "generated") -> None:
        super().__init__(setup)
        self.since: int | None = None

    def on_event(self, event: PlayerPlace) -> RunIntoBox | RunOutOfBox | None:
        inside, since = self._field.in_box(event.team, event.x, event.y), self.since
        if inside == (since is not None):
            return None
        self.since = event.ts if inside else None
        if since is None:
            return RunIntoBox(event.player, event.team, event.speed, ts=event.ts)
        return RunOutOfBox(event.player, event.team, event.ts - since, ts=event.ts)

    @classmethod
    def examples(cls) -> list[PlayerPlace]:
        """Input that shows what it does (for ``slackline check``): a player who runs into the box and back, twice."""
        return [PlayerPlace(7, "A", x, 3.0, 5.0, ts=SECOND * k) for k, x in enumerate((20, 40, 45, 30, 41, 20), 1)]
