"""Levels 8 and 9, where passes go: their path, direction, length, and whom they leave behind."""

from __future__ import annotations

from math import hypot

from detectors.soccer.events import Pass, PlayerEvent, PlayerHitsBall, SoccerEvent
from detectors.soccer.field import OnField
from detectors.soccer.players.formation import DefensiveLine
from detectors.soccer.setup import Setting
from middleware.model.detector import Detector
from middleware.model.time import SECOND


class PassPath(SoccerEvent):
    """A pass with its way: from x, y to to_x, to_y; so far forward and to the left (m, seen by the team), so fast (m/s).

    ``kicked`` is when it was kicked; the occurrence time is the receiver's first touch.
    """

    player: int
    receiver: int
    team: str
    ball: int
    x: float
    y: float
    to_x: float
    to_y: float
    forward: float
    leftward: float
    speed: float
    kicked: int


class ForwardPass(PlayerEvent):
    """A pass that went forward more than across."""

    forward: float


class BackPass(PlayerEvent):
    """A pass that went back more than across."""

    back: float


class SquarePass(PlayerEvent):
    """A pass that went across more than forward or back."""

    across: float


class LongPass(PlayerEvent):
    """A pass over 30 m or more."""

    distance: float


class SwitchOfPlay(PlayerEvent):
    """A pass from one side of the field to the other: 25 m or more across, over the middle."""

    across: float


class ProgressivePass(PlayerEvent):
    """A pass that brought the ball nearer to the opponents' goal by a quarter of the way, and by 10 m at least."""

    gained: float


class PassIntoBox(PlayerEvent):
    """A pass from outside into the opponents' penalty area."""

    receiver: int


class ThroughPass(PlayerEvent):
    """A pass through the opponents' last line: the ball got so many metres behind where it was at the kick."""

    receiver: int
    behind: float


class PassPaths(OnField):
    """Level 8. Passes with where they began and ended. Reads PlayerHitsBall and Pass; publishes PassPath for each Pass, from
    the touches at its two ends. O(1) an event.
    """

    subscribes, publishes = (PlayerHitsBall, Pass), (PassPath,)

    def __init__(self, setup: Setting = "generated") -> None:
        super().__init__(setup)
        self.before: PlayerHitsBall | None = None
        self.last: PlayerHitsBall | None = None

    def on_event(self, event: PlayerHitsBall | Pass) -> PassPath | None:
        if isinstance(event, PlayerHitsBall):
            self.before, self.last = self.last, event
            return None
        begin, end, field, team = self.before, self.last, self._field, event.team
        if begin is None or end is None or (begin.ts, end.ts) != (event.kicked, event.ts) or end.ts == begin.ts:
            return None
        forward = field.depth(team, end.x, end.y) - field.depth(team, begin.x, begin.y)
        leftward = field.side(team, end.x, end.y) - field.side(team, begin.x, begin.y)
        speed = hypot(forward, leftward) / ((end.ts - begin.ts) * 1e-9)
        ends = begin.x, begin.y, end.x, end.y
        way = round(forward, 2), round(leftward, 2), round(speed, 2)
        return PassPath(event.player, event.receiver, team, event.ball, *ends, *way, event.kicked, ts=event.ts)

    @classmethod
    def examples(cls) -> list[SoccerEvent]:
        """Input that shows what it does (for ``slackline check``): two passes, and one whose beginning is not known."""
        touches = [PlayerHitsBall(n, "A", 142, 90.0, 9.0 * n, 2.0, ts=SECOND * n) for n in (3, 4, 5)]
        return [*touches, *(Pass(n - 1, n, "A", 142, 9.0, SECOND * (n - 1), ts=SECOND * n, source="passes") for n in (3, 4, 5))]


class PassDirections(Detector):
    """Level 9. Reads PassPath; publishes ForwardPass, BackPass or SquarePass. Stateless, O(1)."""

    subscribes, publishes = (PassPath,), (ForwardPass, BackPass, SquarePass)

    def on_event(self, event: PassPath) -> SoccerEvent:
        across = abs(event.leftward)
        if event.forward > across:
            return ForwardPass(event.player, event.team, event.forward, ts=event.ts)
        if -event.forward > across:
            return BackPass(event.player, event.team, -event.forward, ts=event.ts)
        return SquarePass(event.player, event.team, across, ts=event.ts)


class LongPasses(Detector):
    """Level 9. Reads PassPath; publishes LongPass for one over 30 m or more. Stateless, O(1)."""

    subscribes, publishes = (PassPath,), (LongPass,)

    LONG = 30.0

    def on_event(self, event: PassPath) -> LongPass | None:
        distance = round(hypot(event.forward, event.leftward), 2)
        return LongPass(event.player, event.team, distance, ts=event.ts) if distance >= self.LONG else None


class SwitchesOfPlay(OnField):
    """Level 9. Reads PassPath; publishes SwitchOfPlay for one that went 25 m across and over the middle. Stateless, O(1)."""

    subscribes, publishes = (PassPath,), (SwitchOfPlay,)

    ACROSS = 25.0

    def on_event(self, event: PassPath) -> SwitchOfPlay | None:
        sides = self._field.side(event.team, event.x, event.y), self._field.side(event.team, event.to_x, event.to_y)
        if abs(event.leftward) < self.ACROSS or sides[0] * sides[1] >= 0:
            return None
        return SwitchOfPlay(event.player, event.team, abs(event.leftward), ts=event.ts)

    @classmethod
    def examples(cls) -> list[PassPath]:
        """Input that shows what it does (for ``slackline check``): a switch, and a pass that stays on its side."""
        return _paths((0.0, 20.0, 5.0, -20.0), (0.0, 5.0, 5.0, 32.0))


class ProgressivePasses(OnField):
    """Level 9. Reads PassPath; publishes ProgressivePass for one that made the way to the opponents' goal line shorter by a
    quarter, and by 10 m at least. Stateless, O(1).
    """

    subscribes, publishes = (PassPath,), (ProgressivePass,)

    LEAST = 10.0
    PART = 0.25

    def on_event(self, event: PassPath) -> ProgressivePass | None:
        if event.forward < max(self.LEAST, self.PART * self._field.to_go(event.team, event.x, event.y)):
            return None
        return ProgressivePass(event.player, event.team, event.forward, ts=event.ts)

    @classmethod
    def examples(cls) -> list[PassPath]:
        """Input that shows what it does (for ``slackline check``): a progressive pass, and one that is not."""
        return _paths((10.0, 0.0, 30.0, 0.0), (-40.0, 0.0, -25.0, 0.0))


class PassesIntoBox(OnField):
    """Level 9. Reads PassPath; publishes PassIntoBox for one from outside the opponents' penalty area into it. O(1)."""

    subscribes, publishes = (PassPath,), (PassIntoBox,)

    def on_event(self, event: PassPath) -> PassIntoBox | None:
        inside = self._field.in_box(event.team, event.to_x, event.to_y)
        if not inside or self._field.in_box(event.team, event.x, event.y):
            return None
        return PassIntoBox(event.player, event.team, event.receiver, ts=event.ts)

    @classmethod
    def examples(cls) -> list[PassPath]:
        """Input that shows what it does (for ``slackline check``): a pass into the box, one inside it, one elsewhere."""
        return _paths((20.0, 0.0, 40.0, 0.0), (40.0, 0.0, 45.0, 0.0), (0.0, 0.0, 10.0, 0.0))


class ThroughPasses(OnField):
    """Level 9. Passes through the last line. Reads PassPath and DefensiveLine; publishes ThroughPass for a pass that began
    before the opponents' last line, as known at the kick, and ended 1 m behind it at least (by then the defenders have run
    back, so that the line at its end says nothing). O(1) an event, O(changes of the line in 5 s) a pass.
    """

    subscribes, publishes = (PassPath, DefensiveLine), (ThroughPass,)

    BY = 1.0
    LASTS = 5 * SECOND
    """The line at the kick is forgotten for a pass that takes longer."""

    def __init__(self, setup: Setting = "generated") -> None:
        super().__init__(setup)
        self.lines: dict[str, list[tuple[int, float]]] = {}

    def on_event(self, event: PassPath | DefensiveLine) -> ThroughPass | None:
        if isinstance(event, DefensiveLine):
            self._moved(event)
            return None
        lines = self.lines.get(self._field.opponent(event.team), [])
        line = next((depth for ts, depth in reversed(lines) if ts <= event.kicked), None)
        if line is None or self._field.to_go(event.team, event.x, event.y) <= line:
            return None
        behind = round(line - self._field.to_go(event.team, event.to_x, event.to_y), 2)
        return ThroughPass(event.player, event.team, event.receiver, behind, ts=event.ts) if behind >= self.BY else None

    def _moved(self, event: DefensiveLine) -> None:
        """Notes the line, and forgets those that a later one had followed before any pass that may still come."""
        lines = self.lines.setdefault(event.team, [])
        lines.append((event.ts, event.depth))
        while len(lines) > 1 and lines[1][0] <= event.ts - self.LASTS:
            del lines[0]

    @classmethod
    def examples(cls) -> list[SoccerEvent]:
        """Input that shows what it does (for ``slackline check``): a pass through the line, and one before it."""
        return [DefensiveLine("B", 25.0, ts=1), *_paths((20.0, 0.0, 35.0, 0.0), (0.0, 0.0, 20.0, 0.0))]


def _paths(*ways: tuple[float, float, float, float]) -> list[PassPath]:
    """Passes of team A, which attacks towards greater x: from where to where (x, y, to_x, to_y)."""
    return [
        PassPath(
            3, 4, "A", 142, *way, way[2] - way[0], way[3] - way[1], 12.0, SECOND * number - SECOND // 2, ts=SECOND * number
        )
        for number, way in enumerate(ways, 1)
    ]
