"""Levels 1 and 2, motion: thins the stream of raw positions to what the upper levels need.

Detectors here and elsewhere in this package name what never changes as ``unchanging``, and keep it in slots: a snapshot copies
the state alone, as plainly as it can.
"""

from __future__ import annotations

from math import dist, isfinite

from detectors.soccer.events import BallMotion, LimbMotion, PlayerMotion, Position
from detectors.soccer.setup import Setting, setup_of
from middleware.model.detector import Detector
from middleware.model.event import NEVER
from middleware.model.time import MILLISECOND, SECOND

LIMB_WINDOW = 40 * MILLISECOND
BALL_WINDOW = 20 * MILLISECOND

STRUCK = 2.0
"""The mean velocity of a window is so far (m/s) from its first one only if the ball was struck in between: gravity and drag
change it by 0.3 m/s at most."""

_HEARTBEAT = SECOND
_MOVED = 0.1
_TURNED = 0.3

_UNKNOWN, _IGNORED, _LIMB, _BALL = range(4)


class Motions(Detector):
    """Level 1. Smooths and thins the positions of each transmitter. O(1) an event.

    Reads Position, keyed by sensor; publishes LimbMotion for players and BallMotion for balls; ignores all others.
    Rule: position and velocity are averaged over windows of a fixed grid (limbs 40 ms, balls 20 ms), and the mean is
    moved on by its velocity to the end of the window, which stamps the result: whichever sample comes first behind it and
    brings it out, it is the same one. The mean is published as it is for a ball that was struck within the window: moved on, a
    ball off the post would be behind the line. A window that shows no change (0.1 m, 0.3 m/s) is passed over for up to a
    second, one with a value that is no finite number altogether. Rounded to cm and 0.1 m/s.
    """

    __slots__ = unchanging = ("_balls", "_phases", "_wearers")
    subscribes, publishes, key = (Position,), (LimbMotion, BallMotion), "sensor"
    backdate, identity, version = LIMB_WINDOW, "time", 2

    def __init__(self, setup: Setting = "generated") -> None:
        known = setup_of(setup)
        self._wearers = {sensor: (p.player, p.team) for p in known.players for sensor in p.sensors}
        # the windows of a player's limbs are staggered: no two of them report at the same time
        self._phases = {sensor: LIMB_WINDOW * k // len(p.sensors) for p in known.players for k, sensor in enumerate(p.sensors)}
        self._balls = frozenset(known.balls)
        self.role = _UNKNOWN
        self.first = self.until = 0
        # tuples, so that a snapshot is a few references
        self.sums = 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0  # how many samples, and of these: x, y, z, vx, vy, vz
        self.began = 0.0, 0.0, 0.0
        self.shown = NEVER, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0  # when, and x, y, z, vx, vy, vz

    def on_event(self, event: Position) -> LimbMotion | BallMotion | None:
        role = self.role
        if role == _IGNORED:
            return None
        ts = event.ts
        if ts < self.until:
            count, x, y, z, vx, vy, vz = self.sums
            self.sums = count + 1, x + event.x, y + event.y, z + event.z, vx + event.vx, vy + event.vy, vz + event.vz
            return None
        if role == _UNKNOWN:
            sensor = event.sensor
            self.role = role = _LIMB if sensor in self._wearers else _BALL if sensor in self._balls else _IGNORED
            if role == _IGNORED:
                return None
        window = LIMB_WINDOW if role == _LIMB else BALL_WINDOW
        phase = self._phases.get(event.sensor, 0)
        start = (ts - phase) // window * window + phase
        moved = self._closed(event, start, window) if self.sums[0] else None
        self.first, self.until = ts, start + window
        self.sums = 1, event.x, event.y, event.z, event.vx, event.vy, event.vz
        self.began = event.vx, event.vy, event.vz
        return moved

    def _closed(self, event: Position, now: int, window: int) -> LimbMotion | BallMotion | None:
        """The motion at the beginning (``now``) of the window that ``event`` opens, if the one before shows a change.

        After a gap of more than a window the old samples say nothing any more, and the new one speaks for itself.
        """
        if event.ts >= self.until + window:
            middle, n, x, y, z = event.ts, 1, event.x, event.y, event.z
            vx, vy, vz = event.vx, event.vy, event.vz
        else:
            middle = (self.first + self.until) // 2
            n, x, y, z, vx, vy, vz = self.sums
            vx, vy, vz = vx / n, vy / n, vz / n
        ahead = (now - middle) * 1e-9
        if self.role == _BALL and n > 1 and dist((vx, vy, vz), self.began) > STRUCK:
            ahead = 0.0
        x, y, z = x / n + vx * ahead, y / n + vy * ahead, z / n + vz * ahead
        if not isfinite(x + y + z + vx + vy + vz):
            return None
        shown_ts, shown_x, shown_y, shown_z, shown_vx, shown_vy, shown_vz = self.shown
        if (
            now - shown_ts < _HEARTBEAT
            and abs(x - shown_x) < _MOVED
            and abs(y - shown_y) < _MOVED
            and abs(z - shown_z) < _MOVED
            and abs(vx - shown_vx) < _TURNED
            and abs(vy - shown_vy) < _TURNED
            and abs(vz - shown_vz) < _TURNED
        ):
            return None
        x, y, z = round(x, 2) + 0.0, round(y, 2) + 0.0, round(z, 2) + 0.0
        vx, vy, vz = round(vx, 1) + 0.0, round(vy, 1) + 0.0, round(vz, 1) + 0.0
        self.shown = now, x, y, z, vx, vy, vz
        if self.role == _BALL:
            return BallMotion(event.sensor, x, y, z, vx, vy, vz, ts=now)
        player, team = self._wearers[event.sensor]
        return LimbMotion(event.sensor, player, team, x, y, z, vx, vy, vz, ts=now)


class PlayerMotions(Detector):
    """Level 2. Where each player is: the middle of his limbs. O(limbs) an event.

    Reads LimbMotion, keyed by player; publishes PlayerMotion once every limb known has reported since the last one, or
    one has reported twice (others stand still). Limbs that reported earlier are moved on by the player's velocity, for
    up to 0.2 s. Rounded to cm and cm/s.
    """

    subscribes, publishes, key = (LimbMotion,), (PlayerMotion,), "player"

    _STALE = 200 * MILLISECOND

    def __init__(self) -> None:
        self.sensors: list[int] = []
        self.seen: list[int] = []
        self.x: list[float] = []
        self.y: list[float] = []
        self.vx: list[float] = []
        self.vy: list[float] = []
        self.reported = 0

    def on_event(self, event: LimbMotion) -> PlayerMotion | None:
        limb = self.sensors.index(event.sensor) if event.sensor in self.sensors else self._join(event.sensor)
        self.seen[limb] = event.ts
        self.x[limb], self.y[limb], self.vx[limb], self.vy[limb] = event.x, event.y, event.vx, event.vy
        bit, every = 1 << limb, (1 << len(self.sensors)) - 1
        twice = self.reported & bit
        self.reported |= bit
        if not twice and self.reported != every:
            return None
        self.reported = bit if twice else 0
        return self._middle(event)

    def _join(self, sensor: int) -> int:
        """The slot of a limb that is new. The round ends with it, so that the next begins with the first limb."""
        self.sensors.append(sensor)
        self.seen.append(0)
        for column in (self.x, self.y, self.vx, self.vy):
            column.append(0.0)
        self.reported = (1 << len(self.sensors)) - 1 >> 1
        return len(self.sensors) - 1

    def _middle(self, event: LimbMotion) -> PlayerMotion:
        n, now, oldest = len(self.sensors), event.ts, event.ts - self._STALE
        vx, vy = sum(self.vx) / n, sum(self.vy) / n
        age = sum(now - max(ts, oldest) for ts in self.seen) * 1e-9 / n
        x, y = sum(self.x) / n + vx * age, sum(self.y) / n + vy * age
        return PlayerMotion(event.player, event.team, round(x, 2), round(y, 2), round(vx, 2), round(vy, 2), ts=now)
