"""Levels 4 and 5, teams as bodies: their shape, their last line, their formation. Depths from the own goal line, in m."""

from __future__ import annotations

from detectors.soccer.events import SoccerEvent
from detectors.soccer.field import PlayingField
from detectors.soccer.setup import Setting, setup_of
from detectors.soccer.zones import PlayerPlace
from middleware.model.detector import Detector
from middleware.model.time import SECOND


class TeamShape(SoccerEvent):
    """Where the field players of a team are: mean depth, and how far they spread lengthwise and across."""

    team: str
    depth: float
    length: float
    width: float


class DefensiveLine(SoccerEvent):
    """The depth of the last but one player of a team: the line that makes the offside."""

    team: str
    depth: float


class Formation(SoccerEvent):
    """How the field players of a team are arranged from the back to the front, such as 4-3-3."""

    team: str
    shape: str


class TeamCompact(SoccerEvent):
    """A team has drawn together: its area (m2) has fallen below the limit."""

    team: str
    area: float


class TeamStretched(SoccerEvent):
    """A team has been drawn apart: its area (m2) has risen above the limit."""

    team: str
    area: float


class BlockHeight(SoccerEvent):
    """A team now stands low, in the middle, or high, as a whole."""

    team: str
    height: str


class _Squad(Detector):
    """The last known place of each player of one team."""

    __slots__ = unchanging = ("_field", "_keepers")
    subscribes, key = (PlayerPlace,), "team"

    KEEPER = False
    EVERY = SECOND

    def __init__(self, setup: Setting = "generated") -> None:
        known = setup_of(setup)
        self._field = PlayingField(known)
        self._keepers = frozenset(player.player for player in known.players if player.keeper)
        self.places: dict[int, tuple[float, float]] = {}
        self.until = 0

    def due(self, event: PlayerPlace) -> bool:
        """Takes a place; says whether it is time to look at the team: at the first place in each interval of the grid."""
        if self.KEEPER or event.player not in self._keepers:
            where = event.team, event.x, event.y
            self.places[event.player] = (self._field.depth(*where), self._field.side(*where))
        if event.ts < self.until:
            return False
        self.until = (event.ts // self.EVERY + 1) * self.EVERY
        return True


class TeamShapes(_Squad):
    """Level 4. How a team is spread over the field. Reads PlayerPlace, keyed by team; publishes TeamShape once a second
    when five field players are known at least. O(players) a second, else O(1).
    """

    __slots__ = ()
    publishes = (TeamShape,)

    def on_event(self, event: PlayerPlace) -> TeamShape | None:
        if not self.due(event) or len(self.places) < 5:
            return None
        depths, sides = zip(*self.places.values(), strict=True)
        shape = sum(depths) / len(depths), max(depths) - min(depths), max(sides) - min(sides)
        return TeamShape(event.team, *(round(value, 2) for value in shape), ts=event.ts)

    @classmethod
    def examples(cls) -> list[PlayerPlace]:
        """Input that shows what it does (for ``slackline check``): two teams that move up."""
        return _advance()


class DefensiveLines(_Squad):
    """Level 4. The last but one player of a team, keeper included. Reads PlayerPlace, keyed by team; publishes DefensiveLine
    when it has moved by 0.5 m, at most four times a second. O(players) each time.
    """

    __slots__ = ()
    publishes = (DefensiveLine,)

    KEEPER = True
    EVERY = SECOND // 4
    MOVED = 0.5

    def __init__(self, setup: Setting = "generated") -> None:
        super().__init__(setup)
        self.line = -100.0

    def on_event(self, event: PlayerPlace) -> DefensiveLine | None:
        if not self.due(event) or len(self.places) < 2:
            return None
        line = sorted(self.places.values())[1][0]
        if abs(line - self.line) < self.MOVED:
            return None
        self.line = line
        return DefensiveLine(event.team, round(line, 2), ts=event.ts)


class Formations(_Squad):
    """Level 4. The arrangement in three lines. Reads PlayerPlace, keyed by team; publishes Formation when it is another one,
    looking every five seconds. Rule: each field player's depth, smoothed over half a minute or so (so that runs do not
    count), cut at the two widest gaps. O(players log players) a look, else O(1).
    """

    __slots__ = ()
    publishes = (Formation,)

    EVERY = 5 * SECOND
    WEIGHT = 0.2

    def __init__(self, setup: Setting = "generated") -> None:
        super().__init__(setup)
        self.usual: dict[int, float] = {}
        self.shape = ""

    def on_event(self, event: PlayerPlace) -> Formation | None:
        if not self.due(event) or len(self.places) < 5:
            return None
        middle = sum(depth for depth, _ in self.places.values()) / len(self.places)
        for player, (depth, _) in self.places.items():
            usual = self.usual.setdefault(player, depth - middle)
            self.usual[player] = usual + self.WEIGHT * (depth - middle - usual)
        depths = sorted(self.usual.values())
        first, second = sorted(sorted(range(1, len(depths)), key=lambda at: depths[at - 1] - depths[at])[:2])
        shape = f"{first}-{second - first}-{len(depths) - second}"
        if shape == self.shape:
            return None
        self.shape = shape
        return Formation(event.team, shape, ts=event.ts)

    @classmethod
    def examples(cls) -> list[PlayerPlace]:
        """Input that shows what it does (for ``slackline check``): two teams that move up."""
        return _advance()


class Compactness(Detector):
    """Level 5. Reads TeamShape, keyed by team; publishes TeamCompact when length by width falls below 900 m2, and
    TeamStretched when it rises above 1,500 m2, in turn. O(1) an event.
    """

    subscribes, publishes, key = (TeamShape,), (TeamCompact, TeamStretched), "team"

    COMPACT = 900.0
    STRETCHED = 1500.0

    def __init__(self) -> None:
        self.state = 0

    def on_event(self, event: TeamShape) -> TeamCompact | TeamStretched | None:
        area = round(event.length * event.width, 1)
        state = (area > self.STRETCHED) - (area < self.COMPACT)
        if state in (0, self.state):
            return None
        self.state = state
        return (TeamStretched if state > 0 else TeamCompact)(event.team, area, ts=event.ts)


class BlockHeights(Detector):
    """Level 5. Whether a team stands low, in the middle or high. Reads TeamShape, keyed by team; publishes BlockHeight when
    its mean depth passes 0.38 or 0.55 of the field, with 2 m of slack. O(1) an event.
    """

    __slots__ = unchanging = ("_limits",)
    subscribes, publishes, key = (TeamShape,), (BlockHeight,), "team"

    HEIGHTS = ("low", "middle", "high")
    SLACK = 2.0

    def __init__(self, setup: Setting = "generated") -> None:
        length = PlayingField(setup_of(setup)).length
        self._limits = (0.38 * length, 0.55 * length)
        self.height = -1

    def on_event(self, event: TeamShape) -> BlockHeight | None:
        low, high = (sum(event.depth + slack > limit for limit in self._limits) for slack in (-self.SLACK, self.SLACK))
        height = sum(event.depth > limit for limit in self._limits) if self.height < 0 else min(max(self.height, low), high)
        if height == self.height:
            return None
        self.height = height
        return BlockHeight(event.team, self.HEIGHTS[height], ts=event.ts)

    @classmethod
    def examples(cls) -> list[TeamShape]:
        """Input that shows what it does (for ``slackline check``): a team that moves up and falls back."""
        return [TeamShape("A", depth, 30.0, 40.0, ts=SECOND * k) for k, depth in enumerate((30, 39, 41, 43, 60, 57, 50, 20), 1)]


def _advance() -> list[PlayerPlace]:
    """Two teams of which every player moves up at his own speed, over twelve seconds."""
    return [
        PlayerPlace(n, "A" if n < 12 else "B", -40.0 + 3 * (n % 11) + 0.3 * n * t, 5.0 * (n % 5), 1.0, ts=SECOND * t + n)
        for t in range(12)
        for n in (2, 3, 4, 5, 6, 7, 14, 15, 16, 17, 18, 19)
    ]
