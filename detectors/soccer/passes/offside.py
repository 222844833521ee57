"""Levels 5 and 8, behind the last line: balls and players beyond it, and passes to those players.

Whether a player there takes part in play, and whether the referee minds, no detector here can say.
"""

from __future__ import annotations

from detectors.soccer.events import Pass, PlayerEvent, SoccerEvent, TeamBallEvent
from detectors.soccer.field import OnField
from detectors.soccer.players.formation import DefensiveLine
from detectors.soccer.setup import Setting
from detectors.soccer.zones import BallPlace, PlayerPlace
from middleware.model.detector import Detector
from middleware.model.time import SECOND


class BallBehindLine(TeamBallEvent):
    """The ball has passed the last line of ``team``."""


class BallBeforeLine(TeamBallEvent):
    """The ball is before the last line of ``team`` again, after so long."""

    lasted: int


class OffsidePosition(PlayerEvent):
    """A player stands nearer to the opponents' goal line than their last line and the ball; by so many metres."""

    by: float


class OnsideAgain(PlayerEvent):
    """A player who stood in an offside position no longer does, after so long."""

    lasted: int


class OffsidePass(PlayerEvent):
    """A player was in an offside position when the ball that he then received was kicked by ``passer``."""

    passer: int
    ball: int


class LineBreaks(OnField):
    """Level 5. The ball behind the last line. Reads BallPlace and DefensiveLine; publishes BallBehindLine when it is 1 m
    nearer to the goal line than the last line of the team that defends it, and BallBeforeLine when it is not any more. O(1).
    """

    subscribes, publishes = (BallPlace, DefensiveLine), (BallBehindLine, BallBeforeLine)

    BY = 1.0

    def __init__(self, setup: Setting = "generated") -> None:
        super().__init__(setup)
        self.lines: dict[str, float] = {}
        self.behind: dict[str, int] = {}

    def on_event(self, event: BallPlace | DefensiveLine) -> list[SoccerEvent] | None:
        if isinstance(event, DefensiveLine):
            self.lines[event.team] = event.depth
            return None
        changes: list[SoccerEvent] = []
        for team, line in self.lines.items():
            depth, since = self._field.depth(team, event.x, event.y), self.behind.get(team)
            if since is None and depth < line - self.BY:
                self.behind[team] = event.ts
                changes.append(BallBehindLine(team, event.ball, ts=event.ts))
            elif since is not None and depth >= line:
                del self.behind[team]
                changes.append(BallBeforeLine(team, event.ball, event.ts - since, ts=event.ts))
        return changes

    @classmethod
    def examples(cls) -> list[SoccerEvent]:
        """Input that shows what it does (for ``slackline check``): a ball played behind a line and back."""
        places = [BallPlace(142, x, 0.0, 0.0, 9.0, ts=SECOND * k) for k, x in enumerate((0, -30, -45, -10), 2)]
        return [DefensiveLine("A", 20.0, ts=SECOND), DefensiveLine("B", 20.0, ts=SECOND), *places]


class OffsidePositions(OnField):
    """Level 5. Players behind the last line. Reads PlayerPlace, BallPlace and DefensiveLine; publishes OffsidePosition when
    a player in the opponents' half is 0.5 m nearer to their goal line than both their last line and the ball, and
    OnsideAgain when he is not any more. Judged when his position comes (twice a second). O(1) an event.
    """

    subscribes, publishes = (PlayerPlace, BallPlace, DefensiveLine), (OffsidePosition, OnsideAgain)

    BY = 0.5

    def __init__(self, setup: Setting = "generated") -> None:
        super().__init__(setup)
        self.lines: dict[str, float] = {}
        self.ball: BallPlace | None = None
        self.since: dict[int, int] = {}

    def on_event(self, event: SoccerEvent) -> OffsidePosition | OnsideAgain | None:
        if isinstance(event, DefensiveLine):
            self.lines[event.team] = event.depth
        elif isinstance(event, BallPlace):
            self.ball = event
        elif isinstance(event, PlayerPlace):
            return self._judged(event)
        return None

    def _judged(self, place: PlayerPlace) -> OffsidePosition | OnsideAgain | None:
        field, ball, team = self._field, self.ball, place.team
        line = self.lines.get(field.opponent(team))
        if ball is None or line is None:
            return None
        to_go, since = field.to_go(team, place.x, place.y), self.since.get(place.player)
        by = min(line, field.to_go(team, ball.x, ball.y), field.length / 2) - to_go
        if since is None and by >= self.BY:
            self.since[place.player] = place.ts
            return OffsidePosition(place.player, team, round(by, 2), ts=place.ts)
        if since is not None and by <= 0:
            del self.since[place.player]
            return OnsideAgain(place.player, team, place.ts - since, ts=place.ts)
        return None

    @classmethod
    def examples(cls) -> list[SoccerEvent]:
        """Input that shows what it does (for ``slackline check``): a player runs behind the line and back."""
        places = [PlayerPlace(9, "A", x, 0.0, 5.0, ts=SECOND * k) for k, x in enumerate((20, 40, 45, 25), 2)]
        return [DefensiveLine("B", 20.0, ts=SECOND), BallPlace(142, 0.0, 0.0, 0.0, 9.0, ts=SECOND), *places]


class OffsidePasses(Detector):
    """Level 8. Passes to players in an offside position. Reads Pass, OffsidePosition and OnsideAgain; publishes OffsidePass
    for a Pass whose receiver was in one at the moment of the kick. O(1) an event.
    """

    subscribes, publishes = (Pass, OffsidePosition, OnsideAgain), (OffsidePass,)

    def __init__(self) -> None:
        self.spells: dict[int, tuple[int, int]] = {}

    def on_event(self, event: SoccerEvent) -> OffsidePass | None:
        if isinstance(event, OffsidePosition):
            self.spells[event.player] = (event.ts, 0)
        elif isinstance(event, OnsideAgain) and event.player in self.spells:
            self.spells[event.player] = (self.spells[event.player][0], event.ts)
        elif isinstance(event, Pass):
            begin, end = self.spells.get(event.receiver, (event.ts, 0))
            if begin <= event.kicked and (not end or event.kicked < end):
                return OffsidePass(event.receiver, event.team, event.player, event.ball, ts=event.ts)
        return None

    @classmethod
    def examples(cls) -> list[SoccerEvent]:
        """Input that shows what it does (for ``slackline check``): a pass into an offside position, and one after it."""
        spell = [OffsidePosition(9, "A", 2.0, ts=SECOND), OnsideAgain(9, "A", SECOND * 3, ts=SECOND * 4)]
        return [*spell, *(Pass(8, 9, "A", 142, 20.0, SECOND * kicked, ts=SECOND * (kicked + 1)) for kicked in (0, 2, 4))]
