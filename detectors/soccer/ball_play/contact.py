"""Levels 3 to 5, players and the ball: who is near it, who touched it, and what came of the touch."""

from __future__ import annotations

from collections.abc import Iterable
from math import hypot, sqrt

from detectors.soccer.events import (
    BallHit,
    BallInPlay,
    BallMotion,
    BallOutOfPlay,
    Kick,
    Near,
    Nearest,
    NotNear,
    PlayerHitsBall,
    PlayerMotion,
    SoccerEvent,
)
from detectors.soccer.field import tenths
from detectors.soccer.setup import Setting, setup_of
from middleware.model.detector import Detector
from middleware.model.time import MILLISECOND

NEAR = 1.6
FAR = 2.0
"""A player is near the ball within 1.6 m on the ground, and no longer beyond 2 m (so that it does not flicker)."""

REACH = 3.0
"""Above this height (m) nobody is near the ball."""

_CLEARLY = 0.03
_STALE = 0.2
_FAR_OFF = 12.0
"""At this distance (m) nobody is near within the time for which players and ball are moved on."""


class NearBall(Detector):
    """Level 3. Players near the ball in play, and the nearest of them. O(players) a motion of the ball, O(1) of a player.

    Reads PlayerMotion, BallMotion, BallInPlay and BallOutOfPlay; publishes Near and NotNear for a player, and Nearest
    when it is another player (by 3 cm at least). Players are moved on by their velocity for up to 0.2 s. Not keyed:
    every motion of the ball concerns every player. Its results are keyed by player.
    """

    __slots__ = unchanging = ("_slots", "_wearers")
    subscribes, publishes = (PlayerMotion, BallMotion, BallInPlay, BallOutOfPlay), (Near, NotNear, Nearest)

    def __init__(self, setup: Setting = "generated") -> None:
        players = setup_of(setup).players
        self._wearers = tuple((player.player, player.team) for player in players)
        self._slots = {player.player: slot for slot, player in enumerate(players)}
        n = len(players)
        self.seen = [0] * n
        self.x, self.y, self.vx, self.vy = [0.0] * n, [0.0] * n, [0.0] * n, [0.0] * n
        self.near = [False] * n
        self.distance = [0.0] * n
        self.nearest = -1
        self.ball = 0
        self.ball_ts = 0
        self.bx = self.by = self.bz = self.bvx = self.bvy = 0.0

    def on_event(self, event: SoccerEvent) -> list[SoccerEvent] | None:
        if isinstance(event, PlayerMotion):
            slot = self._slots.get(event.player)
            if slot is None:
                return None
            self.seen[slot] = event.ts
            self.x[slot], self.y[slot], self.vx[slot], self.vy[slot] = event.x, event.y, event.vx, event.vy
            far = abs(event.x - self.bx) > _FAR_OFF or abs(event.y - self.by) > _FAR_OFF
            if not self.ball or (far and not self.near[slot]):
                return None
            return self._judge([s for s, near in enumerate(self.near) if near or s == slot], event.ts)
        if isinstance(event, BallMotion):
            if event.ball != self.ball:
                return None
            self._move_ball(event)
            return self._judge(range(len(self.seen)), event.ts)
        if isinstance(event, BallInPlay):
            self.ball, self.ball_ts = event.ball, event.ts
            self.bx, self.by, self.bz, self.bvx, self.bvy = event.x, event.y, 0.0, 0.0, 0.0
            return self._judge(range(len(self.seen)), event.ts)
        return self._nobody(event)

    def _move_ball(self, event: BallMotion) -> None:
        self.ball_ts = event.ts
        self.bx, self.by, self.bz, self.bvx, self.bvy = event.x, event.y, event.z, event.vx, event.vy

    def _nobody(self, event: SoccerEvent) -> list[SoccerEvent]:
        """The ball is out of play: nobody is near it any more."""
        left = [NotNear(*self._wearers[slot], self.ball, ts=event.ts) for slot, near in enumerate(self.near) if near]
        self.near = [False] * len(self.near)
        self.nearest, self.ball = -1, 0
        return list(left)

    def _judge(self, slots: Iterable[int], ts: int) -> list[SoccerEvent] | None:
        """The changes for the players of these slots, and at the top."""
        age = min((ts - self.ball_ts) * 1e-9, _STALE)
        bx, by = self.bx + self.bvx * age, self.by + self.bvy * age
        in_reach = self.bz <= REACH
        xs, ys, vxs, vys, seen, near = self.x, self.y, self.vx, self.vy, self.seen, self.near
        changes: list[SoccerEvent] = []
        for slot in slots:
            dx, dy = bx - xs[slot], by - ys[slot]
            if not near[slot] and (abs(dx) > 5.0 or abs(dy) > 5.0):
                continue
            age = min((ts - seen[slot]) * 1e-9, _STALE)
            distance = hypot(dx - vxs[slot] * age, dy - vys[slot] * age) if seen[slot] else FAR
            self.distance[slot] = distance
            if near[slot]:
                if distance >= FAR or not in_reach:
                    near[slot] = False
                    changes.append(NotNear(*self._wearers[slot], self.ball, ts=ts))
            elif distance <= NEAR and in_reach:
                near[slot] = True
                changes.append(Near(*self._wearers[slot], self.ball, round(distance, 2), ts=ts))
        self._crown(ts, changes)
        return changes or None

    def _crown(self, ts: int, changes: list[SoccerEvent]) -> None:
        """Adds a Nearest to ``changes`` if another player is the nearest now."""
        if True not in self.near:
            self.nearest = -1
            return
        best = min((distance, slot) for slot, (near, distance) in enumerate(zip(self.near, self.distance, strict=True)) if near)
        now = self.nearest
        if best[1] != now and (now < 0 or not self.near[now] or best[0] < self.distance[now] - _CLEARLY):
            self.nearest = best[1]
            changes.append(Nearest(*self._wearers[best[1]], self.ball, round(best[0], 2), ts=ts))


class PlayerHits(Detector):
    """Level 4. A player touches the ball: near, then a hit, with no 'not near' in between (DEBS'13, figure 3). O(1).

    Reads Near, NotNear, Nearest and BallHit; publishes PlayerHitsBall for the nearest of the players near that ball.
    A hit straight upwards near the ground is the ball bouncing, and nobody's touch.
    """

    subscribes, publishes = (Near, NotNear, Nearest, BallHit), (PlayerHitsBall,)

    def __init__(self) -> None:
        self.near: dict[int, str] = {}
        self.ball = 0
        self.nearest = 0

    def on_event(self, event: SoccerEvent) -> PlayerHitsBall | None:
        if isinstance(event, BallHit):
            return self._hit(event)
        if isinstance(event, Nearest):
            self.nearest = event.player
        elif isinstance(event, Near):
            self.near[event.player] = event.team
            self.ball = event.ball
        elif isinstance(event, NotNear):
            self.near.pop(event.player, None)
        return None

    def _hit(self, hit: BallHit) -> PlayerHitsBall | None:
        if hit.ball != self.ball or self.nearest not in self.near or is_bounce(hit):
            return None
        return PlayerHitsBall(
            self.nearest, self.near[self.nearest], hit.ball, hit.acceleration, hit.x, hit.y, ts=hit.ts
        )  # fmt: skip


def is_bounce(hit: BallHit) -> bool:
    """Whether a hit is the ball bouncing off the ground: near it, and all but straight upwards."""
    return hit.z < 0.8 and hit.az > 0.85 * hit.acceleration


class Kicks(Detector):
    """Level 5. The outcome of a touch: the velocity of the ball once the contact is over. O(1) an event.

    Reads PlayerHitsBall and BallMotion; publishes Kick from the first motion of that ball 60 ms after the touch, moved back
    to those 60 ms and stamped with the time of the touch (``backdate``). Rounded to 0.1 m and 0.1 m/s: finer figures are
    noise, and would be corrected with every late position. Another touch within those 60 ms takes its place; a ball that
    is not seen for 200 ms after a touch gives none.
    """

    subscribes, publishes = (PlayerHitsBall, BallMotion), (Kick,)
    backdate, identity = 200 * MILLISECOND, "time"

    _SETTLED = 60 * MILLISECOND

    def __init__(self) -> None:
        self.touch: PlayerHitsBall | None = None

    def on_event(self, event: PlayerHitsBall | BallMotion) -> Kick | None:
        if isinstance(event, PlayerHitsBall):
            self.touch = event
            return None
        touch = self.touch
        if touch is None or event.ball != touch.ball:
            return None
        since = event.ts - touch.ts
        if since < self._SETTLED:
            return None
        self.touch = None
        if since > self.backdate:
            return None
        late = (since - self._SETTLED) * 1e-9
        x, y, z = event.x - event.vx * late, event.y - event.vy * late, event.z - event.vz * late
        vx, vy, vz = tenths(event.vx), tenths(event.vy), tenths(event.vz)
        speed = tenths(sqrt(vx * vx + vy * vy + vz * vz))
        return Kick(touch.player, touch.team, touch.ball, speed, tenths(x), tenths(y), tenths(z), vx, vy, vz, ts=touch.ts)
