"""The pitch as each team sees it: how far up the field, how far to the left, in metres; and the base of what looks at it."""

from __future__ import annotations

from detectors.soccer.setup import Setting, Setup, setup_of
from middleware.model.detector import Detector

BOX_DEPTH = 16.5
BOX_HALF_WIDTH = 20.16
"""The penalty area, from the goal line and from the middle."""

PENALTY_SPOT = 11.0

THIRDS = ("own", "middle", "final")
LANES = ("right", "centre", "left")


def tenths(value: float) -> float:
    """A figure rounded to 0.1, as its further digits are noise; without a negative zero, which is another content."""
    return round(value, 1) + 0.0


class PlayingField:
    """Turns coordinates of a setup into those of a team that plays on it.

    A team that defends none of the goals is taken for the first one's. All methods are O(1).
    """

    __slots__ = ("_first", "_middle", "_opponent", "_views", "length", "width")

    def __init__(self, setup: Setup) -> None:
        pitch, goals = setup.pitch, setup.goals
        upright = goals[0].along == "y"
        spans = (pitch.x_min, pitch.x_max), (pitch.y_min, pitch.y_max)
        (low, high), (near, far) = spans if upright else spans[::-1]
        self.length, self.width = high - low, far - near
        self._middle = (goals[0].low + goals[0].high) / 2
        self._views = {goal.team: (upright, goal.line, 1.0 if goal.line < (low + high) / 2 else -1.0) for goal in goals}
        self._first = self._views[goals[0].team]
        one, other = (goal.team for goal in goals)
        self._opponent = {one: other, other: one}

    @property
    def teams(self) -> tuple[str, ...]:
        """The teams, each with a goal to defend."""
        return tuple(self._views)

    def opponent(self, team: str) -> str:
        """The other team; "" for one that does not play."""
        return self._opponent.get(team, "")

    def depth(self, team: str, x: float, y: float) -> float:
        """How far from its own goal line towards the opponents'."""
        upright, line, sign = self._views.get(team, self._first)
        return ((x if upright else y) - line) * sign

    def side(self, team: str, x: float, y: float) -> float:
        """How far to the left of the middle, looking at the opponents' goal."""
        upright, _, sign = self._views.get(team, self._first)
        return ((y if upright else -x) - (self._middle if upright else -self._middle)) * sign

    def to_go(self, team: str, x: float, y: float) -> float:
        """How far it is to the opponents' goal line."""
        return self.length - self.depth(team, x, y)

    def third(self, team: str, x: float, y: float) -> str:
        """Own, middle or final third."""
        return THIRDS[min(max(int(3 * self.depth(team, x, y) / self.length), 0), 2)]

    def lane(self, team: str, x: float, y: float) -> str:
        """Left, centre or right: each a third of the width."""
        return LANES[min(max(int(3 * self.side(team, x, y) / self.width + 1.5), 0), 2)]

    def in_box(self, team: str, x: float, y: float) -> bool:
        """Whether it lies in the penalty area that the team attacks."""
        return self.to_go(team, x, y) <= BOX_DEPTH and abs(self.side(team, x, y)) <= BOX_HALF_WIDTH


class OnField(Detector):
    """Base of detectors that look at the pitch as teams see it."""

    __slots__ = unchanging = ("_field",)

    def __init__(self, setup: Setting = "generated") -> None:
        self._field = PlayingField(setup_of(setup))
