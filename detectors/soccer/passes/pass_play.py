"""Level 8, what players make of passes: first-time balls, key passes, assists, pairs, triangles, accuracy."""

from __future__ import annotations

from detectors.soccer.ball_play.touches import FirstTimeBall
from detectors.soccer.events import FailedPass, Goal, Pass, PlayerEvent, ShotOnGoal, SoccerEvent
from middleware.model.detector import Detector
from middleware.model.time import SECOND


class OneTouchPass(PlayerEvent):
    """A player passed the ball on with his first touch."""

    receiver: int
    ball: int


class KeyPass(PlayerEvent):
    """The receiver of a player's pass shot soon after (``shooter``)."""

    shooter: int
    ball: int


class Assist(PlayerEvent):
    """The receiver of a player's pass scored soon after (``scorer``)."""

    scorer: int
    ball: int


class PassPair(PlayerEvent):
    """A player has passed to the same team-mate so many times (from three on, at each third one)."""

    receiver: int
    passes: int


class PassAccuracy(PlayerEvent):
    """How many passes a player has tried, and what part of them arrived (at every fifth one)."""

    passes: int
    accuracy: float


class Triangle(PlayerEvent):
    """Three players passed the ball round among themselves and back to the first."""

    second: int
    third: int
    ball: int


class OneTouchPasses(Detector):
    """Level 8. Reads FirstTimeBall and Pass; publishes OneTouchPass for a Pass (same time) whose passer had no other touch.
    O(1) an event.
    """

    subscribes, publishes = (FirstTimeBall, Pass), (OneTouchPass,)

    def __init__(self) -> None:
        self.first: FirstTimeBall | None = None

    def on_event(self, event: FirstTimeBall | Pass) -> OneTouchPass | None:
        if isinstance(event, FirstTimeBall):
            self.first = event
            return None
        first, self.first = self.first, None
        if first is None or (first.player, first.ts) != (event.player, event.ts):
            return None
        return OneTouchPass(event.player, event.team, event.receiver, event.ball, ts=event.ts)

    @classmethod
    def examples(cls) -> list[SoccerEvent]:
        """Input that shows what it does (for ``slackline check``): a pass played at once, and one that was not."""
        passes = [Pass(3, 4, "A", 142, 9.0, SECOND * (at - 1), ts=SECOND * at, source="passes") for at in (2, 5)]
        return [FirstTimeBall(3, "A", 142, ts=SECOND * 2), *passes]


class KeyPasses(Detector):
    """Level 8. Reads Pass and ShotOnGoal; publishes KeyPass when the receiver of the last pass shoots within 5 s. O(1)."""

    subscribes, publishes = (Pass, ShotOnGoal), (KeyPass,)

    WITHIN = 5 * SECOND

    def __init__(self) -> None:
        self.last: Pass | None = None

    def on_event(self, event: Pass | ShotOnGoal) -> KeyPass | None:
        if isinstance(event, Pass):
            self.last = event
            return None
        last, self.last = self.last, None
        if last is None or last.receiver != event.player or event.ts - last.ts > self.WITHIN:
            return None
        return KeyPass(last.player, last.team, event.player, event.ball, ts=event.ts)

    @classmethod
    def examples(cls) -> list[SoccerEvent]:
        """Input that shows what it does (for ``slackline check``): a shot after a pass, and one by another player."""
        passes = [Pass(3, 9, "A", 142, 9.0, SECOND * (at - 1), ts=SECOND * at) for at in (2, 12)]
        return [*passes, *(_shot(player, at) for player, at in ((9, 4), (8, 13)))]


class Assists(Detector):
    """Level 8. Reads Pass and Goal; publishes Assist when the receiver of the last pass scores within 10 s. O(1)."""

    subscribes, publishes = (Pass, Goal), (Assist,)

    WITHIN = 10 * SECOND

    def __init__(self) -> None:
        self.last: Pass | None = None

    def on_event(self, event: Pass | Goal) -> Assist | None:
        if isinstance(event, Pass):
            self.last = event
            return None
        last, self.last = self.last, None
        if last is None or event.own_goal or last.receiver != event.player or event.ts - last.ts > self.WITHIN:
            return None
        return Assist(last.player, last.team, event.player, event.ball, ts=event.ts)

    @classmethod
    def examples(cls) -> list[SoccerEvent]:
        """Input that shows what it does (for ``slackline check``): a goal after a pass, and one long after it."""
        passes = [Pass(3, 9, "A", 142, 9.0, SECOND * (at - 1), ts=SECOND * at) for at in (2, 12)]
        return [*passes, *(Goal("A", 9, 142, False, ts=SECOND * at) for at in (5, 30))]


class PassPairs(Detector):
    """Level 8. Who plays to whom. Reads Pass, keyed by player; publishes PassPair at every third pass to the same team-mate.
    O(1) an event.
    """

    subscribes, publishes, key = (Pass,), (PassPair,), "player"

    EVERY = 3

    def __init__(self) -> None:
        self.passes: dict[int, int] = {}

    def on_event(self, event: Pass) -> PassPair | None:
        count = self.passes[event.receiver] = self.passes.get(event.receiver, 0) + 1
        return PassPair(event.player, event.team, event.receiver, count, ts=event.ts) if count % self.EVERY == 0 else None

    @classmethod
    def examples(cls) -> list[Pass]:
        """Input that shows what it does (for ``slackline check``): four passes to one team-mate, two to another."""
        return [Pass(3, to, "A", 142, 9.0, SECOND * k, ts=SECOND * (k + 1)) for k, to in enumerate((4, 5, 4, 4, 5, 4))]


class PassAccuracies(Detector):
    """Level 8. How well a player passes. Reads Pass and FailedPass, keyed by player; publishes PassAccuracy at every fifth
    of them. O(1) an event.
    """

    subscribes, publishes, key = (Pass, FailedPass), (PassAccuracy,), "player"

    EVERY = 5

    def __init__(self) -> None:
        self.passes = self.arrived = 0

    def on_event(self, event: Pass | FailedPass) -> PassAccuracy | None:
        self.passes += 1
        self.arrived += isinstance(event, Pass)
        if self.passes % self.EVERY:
            return None
        return PassAccuracy(event.player, event.team, self.passes, round(self.arrived / self.passes, 3), ts=event.ts)

    @classmethod
    def examples(cls) -> list[SoccerEvent]:
        """Input that shows what it does (for ``slackline check``): nine passes of a player, two of which fail."""
        good = [Pass(3, 4, "A", 142, 9.0, SECOND * k, ts=SECOND * (k + 1)) for k in (0, 1, 3, 4, 5, 7, 8)]
        return [*good, *(FailedPass(3, "A", 14, "B", 142, 9.0, SECOND * k, ts=SECOND * (k + 1)) for k in (2, 6))]


class Triangles(Detector):
    """Level 8. Reads Pass and FailedPass; publishes Triangle when the third of three passes in a row, among three players
    and within 12 s, comes back to the first. O(1) an event.
    """

    subscribes, publishes = (Pass, FailedPass), (Triangle,)

    WITHIN = 12 * SECOND

    def __init__(self) -> None:
        self.row: list[Pass] = []

    def on_event(self, event: Pass | FailedPass) -> Triangle | None:
        if isinstance(event, FailedPass):
            self.row = []
            return None
        joined = self.row if self.row and self.row[-1].receiver == event.player else []
        self.row = [*joined[-2:], event]
        if len(self.row) < 3 or event.receiver != self.row[0].player or event.ts - self.row[0].kicked > self.WITHIN:
            return None
        first, second = self.row[:2]
        self.row = []  # the passes of one triangle begin no other
        return Triangle(first.player, event.team, first.receiver, second.receiver, event.ball, ts=event.ts)

    @classmethod
    def examples(cls) -> list[Pass]:
        """Input that shows what it does (for ``slackline check``): two triangles with a stray pass between them."""
        ways = ((3, 4), (4, 5), (5, 3), (3, 6), (7, 8), (8, 9), (9, 7))
        return [Pass(a, b, "A", 142, 9.0, SECOND * k, ts=SECOND * (k + 1)) for k, (a, b) in enumerate(ways)]


def _shot(player: int, second: int) -> ShotOnGoal:
    return ShotOnGoal(player, "A", 142, 25.0, 20.0, 0.0, 1.0, True, ts=SECOND * second)
