"""Levels 9 and 10, from winning the ball to the final third: turnovers, build-ups, fast breaks, attacks."""

from __future__ import annotations

from detectors.soccer.events import (
    BallOutOfPlay,
    Interception,
    PassSequence,
    PlayerBallEvent,
    Restart,
    SoccerEvent,
    TeamBallEvent,
    TeamPossession,
)
from detectors.soccer.players.duels import DuelWon
from detectors.soccer.zones import BallZone
from middleware.model.detector import Detector
from middleware.model.time import SECOND

OWN, MIDDLE, FINAL = "own", "middle", "final"


class Turnover(PlayerBallEvent):
    """A player won the ball from the other team in open play; ``how``: interception or duel."""

    how: str


class BuildUp(TeamBallEvent):
    """A team passed its way from its own third into the final one, with so many passes, in so long."""

    passes: int
    lasted: int


class FastBreak(PlayerBallEvent):
    """A team brought the ball into the final third so soon after ``player`` had won it further back."""

    lasted: int


class AttackBegan(TeamBallEvent):
    """A team has the ball in the final third."""


class AttackEnded(TeamBallEvent):
    """An attack is over: ball lost, out, or back in the own third. ``origin``: build-up, turnover, restart or play."""

    origin: str
    lasted: int


class Turnovers(Detector):
    """Level 9. The ball won in open play. Reads Interception, DuelWon and TeamPossession; publishes Turnover for an
    interception, and for a duel won by the team that did not have the ball. O(1) an event.
    """

    subscribes, publishes = (Interception, DuelWon, TeamPossession), (Turnover,)

    def __init__(self) -> None:
        self.team = ""
        self.won = -1

    def on_event(self, event: SoccerEvent) -> Turnover | None:
        if isinstance(event, TeamPossession):
            self.team = event.team
        elif isinstance(event, DuelWon) and self.team not in ("", event.team):
            self.team, self.won = event.team, event.ts
            return Turnover(event.player, event.team, event.ball, "duel", ts=event.ts)
        elif isinstance(event, Interception) and event.ts != self.won:
            return Turnover(event.player, event.team, event.ball, "interception", ts=event.ts)
        return None

    @classmethod
    def examples(cls) -> list[SoccerEvent]:
        """Input that shows what it does (for ``slackline check``): an interception, a duel won, a duel defended."""
        has = [TeamPossession(team, 3, 142, SECOND, ts=SECOND * at) for at, team in ((1, "A"), (4, "B"), (7, "A"))]
        duels = [DuelWon(3, "A", 14, 142, ts=SECOND * at) for at in (7, 9)]
        return [*has, *duels, Interception(14, "B", 3, 142, ts=SECOND * 4, source="z")]


class BuildUps(Detector):
    """Level 9. Attacks built from the back. Reads PassSequence and BallZone; publishes BuildUp when a sequence that began with
    the ball in its team's own third has brought it into the final one; once a sequence. O(zones since the beginning).
    """

    subscribes, publishes = (PassSequence, BallZone), (BuildUp,)

    LONGEST = 40
    """So many changes of zone are remembered for each team."""

    def __init__(self) -> None:
        self.thirds: dict[str, list[tuple[int, str]]] = {}
        self.published = -1

    def on_event(self, event: PassSequence | BallZone) -> BuildUp | None:
        thirds = self.thirds.get(event.team, [])
        if isinstance(event, BallZone):
            self.thirds[event.team] = [*thirds, (event.ts, event.third)][-self.LONGEST :]
            return None
        if event.began == self.published or not thirds or thirds[-1][1] != FINAL:
            return None
        first = next((third for ts, third in reversed(thirds) if ts <= event.began), "")
        if first != OWN:
            return None
        self.published = event.began
        return BuildUp(event.team, event.ball, event.passes, event.ts - event.began, ts=event.ts)

    @classmethod
    def examples(cls) -> list[SoccerEvent]:
        """Input that shows what it does (for ``slackline check``): four passes from the back to the front."""
        zones = [BallZone("A", 142, third, "left", ts=SECOND * at) for at, third in ((1, OWN), (5, MIDDLE), (9, FINAL))]
        return [*zones, *(PassSequence("A", n, 142, SECOND * 2, ts=SECOND * at) for n, at in ((3, 6), (4, 10), (5, 11)))]


class FastBreaks(Detector):
    """Level 10. Fast breaks. Reads Turnover, TeamPossession and BallZone; publishes FastBreak when the ball comes into the
    final third of a team within 10 s after it won it elsewhere, and has not lost it since. O(1) an event.
    """

    subscribes, publishes = (Turnover, TeamPossession, BallZone), (FastBreak,)

    WITHIN = 10 * SECOND

    def __init__(self) -> None:
        self.thirds: dict[str, str] = {}
        self.won: Turnover | None = None

    def on_event(self, event: SoccerEvent) -> FastBreak | None:
        won = self.won
        if isinstance(event, Turnover):
            self.won = event if self.thirds.get(event.team) in (OWN, MIDDLE) else None
        elif isinstance(event, TeamPossession):
            self.won = won if won is not None and won.team == event.team else None
        elif isinstance(event, BallZone):
            self.thirds[event.team] = event.third
            if won is not None and event.team == won.team and event.third == FINAL:
                self.won = None
                lasted = event.ts - won.ts
                return FastBreak(won.player, won.team, won.ball, lasted, ts=event.ts) if lasted <= self.WITHIN else None
        return None

    @classmethod
    def examples(cls) -> list[SoccerEvent]:
        """Input that shows what it does (for ``slackline check``): a fast break, and one that is stopped."""
        zones = [
            BallZone("A", 142, third, "left", ts=SECOND * at) for at, third in ((1, OWN), (6, FINAL), (9, OWN), (15, FINAL))
        ]
        won = [Turnover(3, "A", 142, "duel", ts=SECOND * at) for at in (2, 10)]
        return [*zones, *won, TeamPossession("B", 14, 142, SECOND, ts=SECOND * 12)]


class Attacks(Detector):
    """Level 10. A team with the ball in the final third. Reads BallZone, TeamPossession, BallOutOfPlay, Restart, Turnover and
    BuildUp; publishes AttackBegan when the team that has the ball has it there, and AttackEnded when the other team has
    it, it goes out, or it is back in the own third. The origin is what came last in the 15 s before, or meanwhile. O(1).
    """

    subscribes = (BallZone, TeamPossession, BallOutOfPlay, Restart, Turnover, BuildUp)
    publishes = (AttackBegan, AttackEnded)

    RECENT = 15 * SECOND

    def __init__(self) -> None:
        self.thirds: dict[str, str] = {}
        self.origins: dict[str, tuple[str, int]] = {}
        self.team = ""
        self.ball = 0
        self.attack: AttackBegan | None = None

    def on_event(self, event: SoccerEvent) -> AttackBegan | AttackEnded | None:
        if isinstance(event, BallZone):
            self.thirds[event.team] = event.third
            if event.team != self.team:
                return None
        elif isinstance(event, TeamPossession):
            self.team, self.ball = event.team, event.ball
        elif isinstance(event, BallOutOfPlay):
            self.team = ""
        elif isinstance(event, Restart):
            self.team, self.ball = event.team, event.ball
            self.origins[event.team] = ("restart", event.ts)
        elif isinstance(event, Turnover | BuildUp):
            self.origins[event.team] = ("turnover" if isinstance(event, Turnover) else "build-up", event.ts)
            return None
        return self._judged(event.ts)

    def _judged(self, ts: int) -> AttackBegan | AttackEnded | None:
        attack, third = self.attack, self.thirds.get(self.team, "")
        if attack is None:
            if third != FINAL:
                return None
            self.attack = AttackBegan(self.team, self.ball, ts=ts)
            return self.attack
        if attack.team == self.team and third != OWN:
            return None
        self.attack = None
        origin, since = self.origins.get(attack.team, ("play", attack.ts))
        if since < attack.ts - self.RECENT:
            origin = "play"
        return AttackEnded(attack.team, attack.ball, origin, ts - attack.ts, ts=ts)

    @classmethod
    def examples(cls) -> list[SoccerEvent]:
        """Input that shows what it does (for ``slackline check``): an attack lost, and one that ends in the own third."""
        zones = [BallZone("A", 142, third, "left", ts=SECOND * at) for at, third in ((1, MIDDLE), (3, FINAL), (14, OWN))]
        has = [TeamPossession(team, 3, 142, SECOND, ts=SECOND * at) for at, team in ((2, "A"), (6, "B"), (9, "A"))]
        return [*zones, *has, Turnover(3, "A", 142, "duel", ts=SECOND * 8)]
