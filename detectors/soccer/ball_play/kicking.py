"""Level 6, kinds of kick: hard, lofted, cleared, crossed."""

from __future__ import annotations

from math import hypot

from detectors.soccer.events import Kick, PlayerBallEvent, SoccerEvent
from detectors.soccer.field import BOX_HALF_WIDTH, OnField
from middleware.model.detector import Detector
from middleware.model.time import SECOND


class HardKick(PlayerBallEvent):
    """The ball left a player's foot at 25 m/s or more."""

    speed: float


class LoftedKick(PlayerBallEvent):
    """A player played the ball high: how fast it rises (m/s)."""

    rise: float


class Clearance(PlayerBallEvent):
    """A player kicked the ball away, hard and forward, from in front of his own goal; ``depth`` is how far from its line."""

    depth: float


class Cross(PlayerBallEvent):
    """A player sent the ball from the wing in front of the opponents' goal; ``wing`` is left or right, seen by him."""

    wing: str


class KickKinds(Detector):
    """Level 6. Reads Kick; publishes HardKick from 25 m/s on, and LoftedKick if the ball rises at 5 m/s or more. Both may be
    true of one kick. Stateless, O(1).
    """

    subscribes, publishes = (Kick,), (HardKick, LoftedKick)

    HARD = 25.0
    RISE = 5.0

    def on_event(self, event: Kick) -> list[SoccerEvent]:
        found: list[SoccerEvent] = []
        who = event.player, event.team, event.ball
        if event.speed >= self.HARD:
            found.append(HardKick(*who, event.speed, ts=event.ts))
        if event.vz >= self.RISE:
            found.append(LoftedKick(*who, event.vz, ts=event.ts))
        return found


class Clearances(OnField):
    """Level 6. Reads Kick; publishes Clearance for one from within 25 m of the own goal line, in the middle of the field,
    that goes at 16 m/s or more, towards the opponents. Stateless, O(1).
    """

    subscribes, publishes = (Kick,), (Clearance,)

    DEPTH = 25.0
    SPEED = 16.0

    def on_event(self, event: Kick) -> Clearance | None:
        field, team = self._field, event.team
        depth = field.depth(team, event.x, event.y)
        forward = field.depth(team, event.x + event.vx, event.y + event.vy) > depth
        central = abs(field.side(team, event.x, event.y)) <= BOX_HALF_WIDTH
        if depth > self.DEPTH or event.speed < self.SPEED or not forward or not central:
            return None
        return Clearance(event.player, team, event.ball, round(depth, 2), ts=event.ts)

    @classmethod
    def examples(cls) -> list[Kick]:
        """Input that shows what it does (for ``slackline check``): a clearance, and kicks that are none."""
        return _kicks((-45.0, 3.0, 20.0, 5.0), (-45.0, 3.0, 10.0, 0.0), (-45.0, 30.0, 20.0, 0.0), (0.0, 3.0, 20.0, 0.0))


class Crosses(OnField):
    """Level 6. Reads Kick; publishes Cross for one from a wing (12 m or more off the middle) within 30 m of the opponents'
    goal line, at 8 m/s or more, that would come to the middle of the penalty area within 3 s. Stateless, O(1).
    """

    subscribes, publishes = (Kick,), (Cross,)

    WIDE = 12.0
    NEAR = 30.0
    SPEED = 8.0
    TIME = 3.0
    ARRIVAL = 16.5

    def on_event(self, event: Kick) -> Cross | None:
        field, team = self._field, event.team
        side, to_go = field.side(team, event.x, event.y), field.to_go(team, event.x, event.y)
        if abs(side) < self.WIDE or to_go > self.NEAR or event.speed < self.SPEED:
            return None
        inward = side - field.side(team, event.x + event.vx, event.y + event.vy)
        onward = to_go - field.to_go(team, event.x + event.vx, event.y + event.vy)
        if side * inward <= 0 or side / inward > self.TIME:
            return None
        if not 0 <= to_go - onward * side / inward <= self.ARRIVAL:
            return None
        return Cross(event.player, team, event.ball, "left" if side > 0 else "right", ts=event.ts)

    @classmethod
    def examples(cls) -> list[Kick]:
        """Input that shows what it does (for ``slackline check``): crosses from both wings, and kicks that are none."""
        return _kicks((40.0, 25.0, 3.0, -15.0), (40.0, -25.0, 3.0, 15.0), (40.0, 25.0, 15.0, 3.0), (0.0, 25.0, 3.0, -15.0))


def _kicks(*kicks: tuple[float, float, float, float]) -> list[Kick]:
    """Kicks along the ground by one player: from where (x, y), how fast (vx, vy)."""
    return [
        Kick(3, "A", 142, hypot(vx, vy), x, y, 0.0, vx, vy, 0.0, ts=SECOND * number)
        for number, (x, y, vx, vy) in enumerate(kicks, 1)
    ]
