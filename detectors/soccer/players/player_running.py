"""Levels 3 to 5, how players run: pace, bursts, turns, sprints, and what it adds up to."""

from __future__ import annotations

from bisect import bisect_right
from math import acos, degrees, hypot

from detectors.soccer.events import PlayerEvent, PlayerMotion, SoccerEvent
from detectors.soccer.zones import PlayerPlace
from middleware.model.detector import Detector
from middleware.model.time import MILLISECOND, SECOND

PACES = ("standing", "trot", "low speed", "medium speed", "high speed", "sprint")
LIMITS = tuple(kmh / 3.6 for kmh in (1.0, 11.0, 14.0, 17.0, 24.0))
"""The running intensities of the DEBS 2013 Grand Challenge (query 1), in m/s."""


class Pace(PlayerEvent):
    """A player runs at another pace now (one of PACES); ``lasted`` is how long he kept the one ``before``."""

    pace: str
    before: str
    speed: float
    lasted: int


class Burst(PlayerEvent):
    """A player sets off hard: his gain of speed (m/s2) over half a second."""

    acceleration: float


class Braking(PlayerEvent):
    """A player stops hard: his loss of speed (m/s2) over half a second."""

    deceleration: float


class SharpTurn(PlayerEvent):
    """A running player has changed direction by this angle (degrees) within half a second or so."""

    angle: float


class Sprint(PlayerEvent):
    """A player has ended a sprint that lasted so long."""

    lasted: int


class FastRun(PlayerEvent):
    """A player has ended a run at high speed or more that lasted so long, sprints included."""

    lasted: int


class DistanceRun(PlayerEvent):
    """A player has run another 50 m; ``metres`` in all."""

    metres: int


class WorkRate(PlayerEvent):
    """The running of a player so far: metres, metres a minute, sprints."""

    metres: int
    rate: float
    sprints: int


class Paces(Detector):
    """Level 3. Standing, trotting, running, sprinting. O(1) an event.

    Reads PlayerMotion, keyed by player; publishes Pace when the speed passes a limit of the Grand Challenge, and falls
    back only 0.3 m/s below it, so that it does not flicker.
    """

    subscribes, publishes, key = (PlayerMotion,), (Pace,), "player"

    SLACK = 0.3

    def __init__(self) -> None:
        self.pace = -1
        self.since = 0

    def on_event(self, event: PlayerMotion) -> Pace | None:
        speed = hypot(event.vx, event.vy)
        pace, before = bisect_right(LIMITS, speed), self.pace
        if pace < before:
            pace = min(bisect_right(LIMITS, speed + self.SLACK), before)
        if pace == before:
            return None
        lasted, self.pace, self.since = event.ts - self.since, pace, event.ts
        if before < 0:
            return None
        return Pace(event.player, event.team, PACES[pace], PACES[before], round(speed, 2), lasted, ts=event.ts)


class Accelerations(Detector):
    """Level 3. Hard starts and stops. O(1) an event.

    Reads PlayerMotion, keyed by player; publishes Burst or Braking when the speed changes by 2.5 m/s2 or more between
    two motions half a second apart; once until the change ends.
    """

    subscribes, publishes, key = (PlayerMotion,), (Burst, Braking), "player"

    APART = 500 * MILLISECOND
    HARD = 2.5

    def __init__(self) -> None:
        self.ts = 0
        self.speed = 0.0
        self.running = 0

    def on_event(self, event: PlayerMotion) -> Burst | Braking | None:
        apart = event.ts - self.ts
        if apart < self.APART:
            return None
        speed = hypot(event.vx, event.vy)
        change = (speed - self.speed) / (apart * 1e-9) if apart < 2 * self.APART else 0.0
        self.ts, self.speed = event.ts, speed
        kind = (change >= self.HARD) - (change <= -self.HARD)
        before, self.running = self.running, kind
        if kind in (0, before):
            return None
        return (Burst if kind > 0 else Braking)(event.player, event.team, round(abs(change), 2), ts=event.ts)

    @classmethod
    def examples(cls) -> list[PlayerMotion]:
        """Input that shows what it does (for ``slackline check``): a player who sets off hard, twice, and stops hard."""
        speeds = (0.0, 3.0, 6.0, 6.5, 1.0, 1.0, 4.0)
        return [PlayerMotion(7, "A", 0.0, 0.0, vx, 0.0, ts=SECOND * 6 // 10 * k) for k, vx in enumerate(speeds, 1)]


class Turns(Detector):
    """Level 3. Sharp turns. Reads PlayerMotion, keyed by player; publishes SharpTurn when a player's velocity has turned by
    90 degrees or more between two motions half a second apart, at 2 m/s or more before and after. O(1) an event.
    """

    subscribes, publishes, key = (PlayerMotion,), (SharpTurn,), "player"

    APART = 500 * MILLISECOND
    SPEED = 2.0
    SHARP = 90.0

    def __init__(self) -> None:
        self.ts = 0
        self.vx = self.vy = 0.0

    def on_event(self, event: PlayerMotion) -> SharpTurn | None:
        apart = event.ts - self.ts
        if apart < self.APART:
            return None
        vx, vy, self.ts, self.vx, self.vy = self.vx, self.vy, event.ts, event.vx, event.vy
        before, after = hypot(vx, vy), hypot(event.vx, event.vy)
        if apart >= 2 * self.APART or not (before >= self.SPEED and after >= self.SPEED):
            return None
        cosine = (vx * event.vx + vy * event.vy) / (before * after)
        angle = degrees(acos(min(max(cosine, -1.0), 1.0)))
        return SharpTurn(event.player, event.team, round(angle, 1), ts=event.ts) if angle >= self.SHARP else None

    @classmethod
    def examples(cls) -> list[PlayerMotion]:
        """Input that shows what it does (for ``slackline check``): a player who runs round a square, and one who stands."""
        ways = ((4.0, 0.0), (0.0, 4.0), (-4.0, 0.0), (-4.0, 0.0), (3.0, -0.5), (0.1, 0.0), (0.0, 4.0))
        return [PlayerMotion(7, "A", 0.0, 0.0, vx, vy, ts=SECOND * 6 // 10 * k) for k, (vx, vy) in enumerate(ways, 1)]


class Sprints(Detector):
    """Level 4. Sprints and fast runs from their beginning to their end. Reads Pace, keyed by player; publishes Sprint and
    FastRun (high speed, sprints included) when they end, if they lasted a second. O(1) an event.
    """

    subscribes, publishes, key = (Pace,), (Sprint, FastRun), "player"

    SHORTEST = SECOND

    def __init__(self) -> None:
        self.sprinting = self.fast = 0

    def on_event(self, event: Pace) -> list[SoccerEvent]:
        ended: list[SoccerEvent] = []
        sprints, fast = event.pace == PACES[5], event.pace in PACES[4:]
        if not sprints and self.sprinting and event.ts - self.sprinting >= self.SHORTEST:
            ended.append(Sprint(event.player, event.team, event.ts - self.sprinting, ts=event.ts))
        if not fast and self.fast and event.ts - self.fast >= self.SHORTEST:
            ended.append(FastRun(event.player, event.team, event.ts - self.fast, ts=event.ts))
        self.sprinting = (self.sprinting or event.ts) if sprints else 0
        self.fast = (self.fast or event.ts) if fast else 0
        return ended

    @classmethod
    def examples(cls) -> list[Pace]:
        """Input that shows what it does (for ``slackline check``): a long sprint, a short one, and a fast run."""
        paces = ((1, "trot"), (2, "sprint"), (5, "high speed"), (6, "trot"), (7, "sprint"), (7.5, "trot"), (8, "high speed"))
        return [Pace(7, "A", pace, "trot", 5.0, SECOND, ts=int(SECOND * at)) for at, pace in (*paces, (12, "standing"))]


class DistancesRun(Detector):
    """Level 4. Distance covered. Reads PlayerPlace, keyed by player; publishes DistanceRun at every 50 m. O(1) an event.

    A jump of more than 10 m between two places is an error of measurement and does not count.
    """

    subscribes, publishes, key = (PlayerPlace,), (DistanceRun,), "player"

    EVERY = 50
    JUMP = 10.0

    def __init__(self) -> None:
        self.place: PlayerPlace | None = None
        self.metres = 0.0

    def on_event(self, event: PlayerPlace) -> DistanceRun | None:
        before, self.place = self.place, event
        step = hypot(event.x - before.x, event.y - before.y) if before else 0.0
        if not step < self.JUMP:
            return None
        passed = int(self.metres) // self.EVERY
        self.metres += step
        now = int(self.metres) // self.EVERY
        return DistanceRun(event.player, event.team, now * self.EVERY, ts=event.ts) if now > passed else None

    @classmethod
    def examples(cls) -> list[PlayerPlace]:
        """Input that shows what it does (for ``slackline check``): a player who runs 120 m."""
        return [PlayerPlace(7, "A", 4.0 * k, 0.0, 8.0, ts=SECOND // 2 * k) for k in range(1, 31)]


class WorkRates(Detector):
    """Level 5. How much a player works. Reads DistanceRun and Sprint, keyed by player; publishes WorkRate with every
    DistanceRun. The rate counts from the first of them, and is 0 there. O(1) an event.
    """

    subscribes, publishes, key = (DistanceRun, Sprint), (WorkRate,), "player"

    def __init__(self) -> None:
        self.first: DistanceRun | None = None
        self.sprints = 0

    def on_event(self, event: DistanceRun | Sprint) -> WorkRate | None:
        if isinstance(event, Sprint):
            self.sprints += 1
            return None
        if self.first is None:
            self.first = event
        minutes = (event.ts - self.first.ts) / (60 * SECOND)
        rate = round((event.metres - self.first.metres) / minutes, 1) if minutes > 0 else 0.0
        return WorkRate(event.player, event.team, event.metres, rate, self.sprints, ts=event.ts)
