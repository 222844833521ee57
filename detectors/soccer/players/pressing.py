"""Levels 6 to 8, pressing: who is put under pressure, what it wins, and where the ball is won."""

from __future__ import annotations

from math import hypot

from detectors.soccer.events import (
    BallOutOfPlay,
    PlayerBallEvent,
    PlayerEvent,
    Possession,
    SoccerEvent,
    TeamBallEvent,
    TeamPossession,
)
from detectors.soccer.field import OnField
from detectors.soccer.setup import Setting
from detectors.soccer.zones import BallPlace, BallZone, PlayerPlace
from middleware.model.detector import Detector
from middleware.model.time import SECOND


class UnderPressure(PlayerBallEvent):
    """Two opponents or more are close to the ball that a player has."""

    opponents: int


class PressureOff(PlayerBallEvent):
    """A player who was under pressure is free of it, or of the ball, after so long."""

    lasted: int


class PressureWon(PlayerEvent):
    """``team`` won the ball from a player (``loser``) whom it had put under pressure; ``player`` has it now."""

    loser: int
    ball: int


class Counterpress(TeamBallEvent):
    """``team`` lost the ball and put the one who has it under pressure at once, after so long."""

    after: int


class Pressing(SoccerEvent):
    """``team`` has put opponents under pressure three times or more within fifteen seconds."""

    team: str
    times: int


class Recovery(PlayerBallEvent):
    """A player has won the ball for his team, in this third of the field."""

    third: str


class Pressures(Detector):
    """Level 6. Pressure on the ball. Reads Possession, BallOutOfPlay, BallPlace and PlayerPlace; publishes UnderPressure when
    two opponents or more of the player who has the ball are within 4 m of it while it moves at less than 12 m/s, and
    PressureOff when fewer than two are, or another player has it. O(players) a BallPlace, else O(1).
    """

    subscribes, publishes = (Possession, BallOutOfPlay, BallPlace, PlayerPlace), (UnderPressure, PressureOff)

    CLOSE = 4.0
    FAST = 12.0
    MANY = 2

    def __init__(self) -> None:
        self.places: dict[int, tuple[str, float, float]] = {}
        self.owner: Possession | None = None
        self.pressed: UnderPressure | None = None

    def on_event(self, event: SoccerEvent) -> UnderPressure | PressureOff | None:
        if isinstance(event, PlayerPlace):
            self.places[event.player] = (event.team, event.x, event.y)
        elif isinstance(event, Possession):
            self.owner = event
            return self._off(event)
        elif isinstance(event, BallOutOfPlay):
            self.owner = None
            return self._off(event)
        elif isinstance(event, BallPlace) and self.owner is not None:
            return self._judged(event, self.owner)
        return None

    def _judged(self, ball: BallPlace, owner: Possession) -> UnderPressure | PressureOff | None:
        others = [(x, y) for team, x, y in self.places.values() if team != owner.team]
        close = sum(hypot(x - ball.x, y - ball.y) <= self.CLOSE for x, y in others)
        if close < self.MANY or ball.speed > self.FAST:
            return self._off(ball)
        if self.pressed is not None:
            return None
        self.pressed = UnderPressure(owner.player, owner.team, ball.ball, close, ts=ball.ts)
        return self.pressed

    def _off(self, event: SoccerEvent) -> PressureOff | None:
        was, self.pressed = self.pressed, None
        return PressureOff(was.player, was.team, was.ball, event.ts - was.ts, ts=event.ts) if was is not None else None

    @classmethod
    def examples(cls) -> list[SoccerEvent]:
        """Input that shows what it does (for ``slackline check``): two opponents come to a player who has the ball."""
        come = [PlayerPlace(n, "B", x, 0.0, 3.0, ts=SECOND * at) for n, x, at in ((14, 3.0, 2), (15, 2.0, 3), (14, 9.0, 5))]
        balls = [BallPlace(142, 0.0, 0.0, 0.0, 2.0, ts=SECOND * at + 1) for at in (1, 2, 3, 4, 5)]
        return [Possession(3, "A", 142, 0, ts=SECOND), *come, *balls]


class PressureWins(Detector):
    """Level 7. Balls won by pressure. Reads UnderPressure and TeamPossession; publishes PressureWon when the other team has
    the ball within 4 s after a player was put under pressure. O(1) an event.
    """

    subscribes, publishes = (UnderPressure, TeamPossession), (PressureWon,)

    WITHIN = 4 * SECOND

    def __init__(self) -> None:
        self.pressed: UnderPressure | None = None

    def on_event(self, event: UnderPressure | TeamPossession) -> PressureWon | None:
        if isinstance(event, UnderPressure):
            self.pressed = event
            return None
        pressed, self.pressed = self.pressed, None
        if pressed is None or event.team == pressed.team or event.ts - pressed.ts > self.WITHIN:
            return None
        return PressureWon(event.player, event.team, pressed.player, event.ball, ts=event.ts)


class Counterpresses(OnField):
    """Level 7. Pressing at once after the loss of the ball. Reads TeamPossession and UnderPressure; publishes Counterpress
    when the team that lost the ball puts an opponent under pressure within five seconds; once a loss. O(1) an event.
    """

    subscribes, publishes = (TeamPossession, UnderPressure), (Counterpress,)

    WITHIN = 5 * SECOND

    def __init__(self, setup: Setting = "generated") -> None:
        super().__init__(setup)
        self.lost: TeamPossession | None = None

    def on_event(self, event: TeamPossession | UnderPressure) -> Counterpress | None:
        if isinstance(event, TeamPossession):
            self.lost = event if event.lasted else None  # nobody loses the ball at the beginning
            return None
        lost = self.lost
        if lost is None or event.team != lost.team:
            return None
        self.lost = None
        after = event.ts - lost.ts
        return Counterpress(self._field.opponent(lost.team), event.ball, after, ts=event.ts) if after <= self.WITHIN else None

    @classmethod
    def examples(cls) -> list[SoccerEvent]:
        """Input that shows what it does (for ``slackline check``): a counterpress, and pressure that comes late."""
        pressures = [UnderPressure(14, "B", 142, 2, ts=SECOND * at) for at in (3, 4, 30)]
        return [*(TeamPossession("B", 14, 142, SECOND * 9, ts=SECOND * at) for at in (1, 20)), *pressures]


class PressingPhases(OnField):
    """Level 7. Spells of pressing. Reads UnderPressure; publishes Pressing at the third pressure upon one team within
    fifteen seconds, and at each further one. O(1) an event.
    """

    subscribes, publishes = (UnderPressure,), (Pressing,)

    WITHIN = 15 * SECOND
    TIMES = 3

    def __init__(self, setup: Setting = "generated") -> None:
        super().__init__(setup)
        self.times: dict[str, list[int]] = {}

    def on_event(self, event: UnderPressure) -> Pressing | None:
        recent = [ts for ts in self.times.get(event.team, ()) if event.ts - ts <= self.WITHIN]
        self.times[event.team] = [*recent, event.ts]
        count = len(recent) + 1
        return Pressing(self._field.opponent(event.team), count, ts=event.ts) if count >= self.TIMES else None

    @classmethod
    def examples(cls) -> list[UnderPressure]:
        """Input that shows what it does (for ``slackline check``): four pressures in a row, and one much later."""
        return [UnderPressure(3, "A", 142, 2, ts=SECOND * at) for at in (1, 5, 9, 12, 60)]


class Recoveries(Detector):
    """Level 7. Where balls are won. Reads TeamPossession and BallZone; publishes Recovery when a team gets the ball from the
    other, with the third in which the ball is, seen by the team that won it. O(1) an event.
    """

    subscribes, publishes = (TeamPossession, BallZone), (Recovery,)

    def __init__(self) -> None:
        self.thirds: dict[str, str] = {}

    def on_event(self, event: TeamPossession | BallZone) -> Recovery | None:
        if isinstance(event, BallZone):
            self.thirds[event.team] = event.third
            return None
        third = self.thirds.get(event.team)
        if third is None or not event.lasted:
            return None
        return Recovery(event.player, event.team, event.ball, third, ts=event.ts)
