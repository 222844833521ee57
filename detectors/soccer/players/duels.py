"""Levels 4 and 5, player against player: duels for the ball, crowds around it, and marking."""

from __future__ import annotations

from math import hypot

from detectors.soccer.events import Near, NotNear, PlayerEvent, PlayerHitsBall, SoccerEvent
from detectors.soccer.zones import PlayerPlace
from middleware.model.detector import Detector
from middleware.model.time import SECOND


class Duel(PlayerEvent):
    """A player and an opponent are both near the ball; ``player`` came first."""

    opponent: int
    ball: int


class DuelOver(PlayerEvent):
    """Only players of one team of a duel are left near the ball (or none: team ""), after so long."""

    opponent: int
    ball: int
    lasted: int


class DuelWon(PlayerEvent):
    """A player touched the ball first once the duel was over."""

    opponent: int
    ball: int


class Crowd(SoccerEvent):
    """So many players are near the ball."""

    ball: int
    players: int


class CrowdDispersed(SoccerEvent):
    """There is no crowd around the ball any more; it lasted so long and had so many players at most."""

    ball: int
    players: int
    lasted: int


class Marked(PlayerEvent):
    """An opponent (``marker``) is close by a player."""

    marker: int


class Unmarked(PlayerEvent):
    """No opponent is close by a player any more, after so long."""

    lasted: int


class Duels(Detector):
    """Level 4. Two opponents at the ball. Reads Near and NotNear; publishes Duel when players of both teams are near the
    ball, and DuelOver (by the one who stays) when they no longer are. O(players near) an event.
    """

    subscribes, publishes = (Near, NotNear), (Duel, DuelOver)

    def __init__(self) -> None:
        self.near: dict[int, str] = {}
        self.duel: Duel | None = None

    def on_event(self, event: Near | NotNear) -> Duel | DuelOver | None:
        if isinstance(event, Near):
            self.near.setdefault(event.player, event.team)
        else:
            self.near.pop(event.player, None)
        duel = self.duel
        first = next(iter(self.near), 0)
        team = self.near.get(first, "")
        other = next((player for player, of in self.near.items() if of != team), None)
        if duel is None and other is not None:
            self.duel = Duel(first, team, other, event.ball, ts=event.ts)
            return self.duel
        if duel is not None and other is None:
            self.duel = None
            loser = duel.opponent if first == duel.player else duel.player
            return DuelOver(first, team, loser, event.ball, event.ts - duel.ts, ts=event.ts)
        return None


class DuelOutcomes(Detector):
    """Level 5. Who won a duel. Reads Duel, DuelOver and PlayerHitsBall; publishes DuelWon for the first to touch the ball
    within 2 s after a duel, if he was one of the two. O(1) an event.
    """

    subscribes, publishes = (Duel, DuelOver, PlayerHitsBall), (DuelWon,)

    WITHIN = 2 * SECOND

    def __init__(self) -> None:
        self.duel: Duel | None = None
        self.over: int | None = None

    def on_event(self, event: SoccerEvent) -> DuelWon | None:
        if isinstance(event, Duel):
            self.duel, self.over = event, None
        elif isinstance(event, DuelOver):
            self.over = event.ts
        elif isinstance(event, PlayerHitsBall) and self.over is not None:
            duel, over = self.duel, self.over
            self.duel = self.over = None
            if duel is None or event.ts - over > self.WITHIN or event.player not in (duel.player, duel.opponent):
                return None
            loser = duel.opponent if event.player == duel.player else duel.player
            return DuelWon(event.player, event.team, loser, event.ball, ts=event.ts)
        return None

    @classmethod
    def examples(cls) -> list[SoccerEvent]:
        """Input that shows what it does (for ``slackline check``): a duel won, and one that nobody wins."""
        events: list[SoccerEvent] = []
        for k, gap in enumerate((1, 5)):
            at = SECOND * 10 * k
            events += [Duel(3, "A", 14, 142, ts=at + SECOND), DuelOver(14, "B", 3, 142, SECOND, ts=at + SECOND * 2)]
            events.append(PlayerHitsBall(14, "B", 142, 90.0, 0.0, 0.0, ts=at + SECOND * (2 + gap)))
        return events


class Crowds(Detector):
    """Level 4. Many players at the ball. Reads Near and NotNear; publishes Crowd when three or more are near it (more
    than the two of a duel), and CrowdDispersed when fewer than two are. O(1) an event.
    """

    subscribes, publishes = (Near, NotNear), (Crowd, CrowdDispersed)

    MANY = 3
    FEW = 2

    def __init__(self) -> None:
        self.near: dict[int, bool] = {}
        self.since: int | None = None
        self.most = 0

    def on_event(self, event: Near | NotNear) -> Crowd | CrowdDispersed | None:
        if isinstance(event, Near):
            self.near[event.player] = True
        else:
            self.near.pop(event.player, None)
        count, since = len(self.near), self.since
        self.most = max(self.most, count)
        if since is None and count >= self.MANY:
            self.since, self.most = event.ts, count
            return Crowd(event.ball, count, ts=event.ts)
        if since is not None and count < self.FEW:
            self.since = None
            return CrowdDispersed(event.ball, self.most, event.ts - since, ts=event.ts)
        return None

    @classmethod
    def examples(cls) -> list[SoccerEvent]:
        """Input that shows what it does (for ``slackline check``): five players come to the ball, and leave it."""
        come = [Near(n, "A", 142, 1.0, ts=SECOND * n) for n in range(1, 6)]
        return [*come, *(NotNear(n, "A", 142, ts=SECOND * (n + 6)) for n in range(1, 6))]


class Markings(Detector):
    """Level 4. Opponents close by. Reads PlayerPlace; publishes Marked when the nearest opponent comes within 2 m of a
    player, and Unmarked when none is within 3 m any more. Judged when a player's position comes (twice a second). O(players).
    """

    subscribes, publishes = (PlayerPlace,), (Marked, Unmarked)

    CLOSE = 2.0
    AWAY = 3.0

    def __init__(self) -> None:
        self.places: dict[int, tuple[str, float, float]] = {}
        self.since: dict[int, int] = {}

    def on_event(self, event: PlayerPlace) -> Marked | Unmarked | None:
        player, team = event.player, event.team
        self.places[player] = (team, event.x, event.y)
        distance, marker = min(
            ((hypot(x - event.x, y - event.y), who) for who, (of, x, y) in self.places.items() if of != team),
            default=(self.AWAY, 0),
        )
        since = self.since.get(player)
        if since is None and distance <= self.CLOSE:
            self.since[player] = event.ts
            return Marked(player, team, marker, ts=event.ts)
        if since is not None and distance >= self.AWAY:
            del self.since[player]
            return Unmarked(player, team, event.ts - since, ts=event.ts)
        return None
