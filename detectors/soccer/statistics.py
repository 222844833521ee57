"""Levels 7 to 15, the match in figures: shares of the ball, players, attacks, who dominates, and everything at a glance."""

from __future__ import annotations

from detectors.soccer.ball_play.touches import Dribble
from detectors.soccer.events import FailedPass, Interception, Pass, PlayerEvent, ShotOnGoal, SoccerEvent, TeamPossession
from detectors.soccer.field import OnField, PlayingField
from detectors.soccer.offence.attack_outcomes import AttackOutcome
from detectors.soccer.offence.chances import Score
from detectors.soccer.offence.set_pieces import CornerKick
from detectors.soccer.players.duels import DuelWon
from detectors.soccer.setup import Setting, setup_of
from middleware.model.detector import Detector
from middleware.model.time import SECOND

MINUTE = 60 * SECOND


class PossessionShare(SoccerEvent):
    """The share of the time that a team has had the ball so far (0 to 1), and how long in all."""

    team: str
    share: float
    held: int


class PlayerStatistics(PlayerEvent):
    """The deeds of a player so far (at every fifth one)."""

    passes: int
    arrived: int
    shots: int
    interceptions: int
    duels: int
    dribbles: int


class AttackStatistics(SoccerEvent):
    """How many attacks a team has had, with how many shots (or goals) and goals at their end."""

    team: str
    attacks: int
    shots: int
    goals: int


class Dominance(SoccerEvent):
    """A team now has the better of the last minutes; by so many points."""

    team: str
    lead: float


class MatchPhase(SoccerEvent):
    """How it stands for the team that dominates: in control (ahead or level), or chasing (behind)."""

    team: str
    phase: str


class MatchStatistics(SoccerEvent):
    """A team's match so far: passes tried and arrived, shots, on target, corners, goals, attacks, share of the ball."""

    team: str
    passes: int
    arrived: int
    shots: int
    on_target: int
    corners: int
    goals: int
    attacks: int
    share: float


class PossessionShares(OnField):
    """Level 7. How the ball is shared. Reads TeamPossession; publishes a PossessionShare for each team whenever the ball goes
    over. A team has the ball from its first touch to the other's; stops of play count for who touched it last. O(1).
    """

    subscribes, publishes = (TeamPossession,), (PossessionShare,)

    def __init__(self, setup: Setting = "generated") -> None:
        super().__init__(setup)
        self.held = dict.fromkeys(self._field.teams, 0)

    def on_event(self, event: TeamPossession) -> list[PossessionShare] | None:
        loser = self._field.opponent(event.team)
        if not loser:
            return None
        self.held[loser] += event.lasted
        whole = sum(self.held.values())
        if whole <= 0:
            return None
        return [PossessionShare(team, round(held / whole, 3), held, ts=event.ts) for team, held in self.held.items()]

    @classmethod
    def examples(cls) -> list[TeamPossession]:
        """Input that shows what it does (for ``slackline check``): the ball goes to and fro."""
        return [TeamPossession("AB"[k % 2], 3, 142, SECOND * k, ts=SECOND * (k + 1) ** 2) for k in range(6)]


class PlayerFigures(Detector):
    """Level 9. The deeds of each player. Reads Pass, FailedPass, ShotOnGoal, Interception, DuelWon and Dribble, keyed by
    player; publishes PlayerStatistics at every fifth of them. O(1) an event.
    """

    subscribes = (Pass, FailedPass, ShotOnGoal, Interception, DuelWon, Dribble)
    publishes, key = (PlayerStatistics,), "player"

    EVERY = 5

    def __init__(self) -> None:
        self.passes = self.failed = self.shots = self.interceptions = self.duels = self.dribbles = 0

    def on_event(self, event: SoccerEvent) -> PlayerStatistics | None:
        self.passes += isinstance(event, Pass)
        self.failed += isinstance(event, FailedPass)
        self.shots += isinstance(event, ShotOnGoal)
        self.interceptions += isinstance(event, Interception)
        self.duels += isinstance(event, DuelWon)
        self.dribbles += isinstance(event, Dribble)
        others = self.shots, self.interceptions, self.duels, self.dribbles
        tried = self.passes + self.failed
        if (tried + sum(others)) % self.EVERY:
            return None
        return PlayerStatistics(event.player, event.team, tried, self.passes, *others, ts=event.ts)  # type: ignore[attr-defined]


class AttackFigures(Detector):
    """Level 13. Reads AttackOutcome, keyed by team; publishes AttackStatistics with each. O(1) an event."""

    subscribes, publishes, key = (AttackOutcome,), (AttackStatistics,), "team"

    def __init__(self) -> None:
        self.attacks = self.shots = self.goals = 0

    def on_event(self, event: AttackOutcome) -> AttackStatistics:
        self.attacks += 1
        self.shots += event.outcome in ("shot", "goal")
        self.goals += event.outcome == "goal"
        return AttackStatistics(event.team, self.attacks, self.shots, self.goals, ts=event.ts)


class Dominances(Detector):
    """Level 13. Who has the better of it. Reads AttackOutcome; publishes Dominance when another team leads by 2 points. Points
    for an attack: 1, with a cross 2, a shot 4, a goal 6; they lose half their worth in five minutes. O(1) an event.
    """

    subscribes, publishes = (AttackOutcome,), (Dominance,)

    POINTS = {"nothing": 1.0, "cross": 2.0, "shot": 4.0, "goal": 6.0}  # noqa: RUF012 (never changed)
    HALF_LIFE = 5 * MINUTE
    CLEARLY = 2.0

    def __init__(self) -> None:
        self.points: dict[str, float] = {}
        self.ts = 0
        self.leader = ""

    def on_event(self, event: AttackOutcome) -> Dominance | None:
        faded = 0.5 ** ((event.ts - self.ts) / self.HALF_LIFE)
        self.ts = event.ts
        self.points = {team: points * faded for team, points in self.points.items()}
        team = event.team
        self.points[team] = self.points.get(team, 0.0) + self.POINTS.get(event.outcome, 0.0)
        others = [points for other, points in self.points.items() if other != team]
        lead = self.points[team] - max(others, default=0.0)
        if team == self.leader or lead < self.CLEARLY:
            return None
        self.leader = team
        return Dominance(team, round(lead, 2), ts=event.ts)

    @classmethod
    def examples(cls) -> list[AttackOutcome]:
        """Input that shows what it does (for ``slackline check``): one team leads, then the other."""
        outcomes = ("A", "shot"), ("B", "cross"), ("B", "goal"), ("A", "nothing"), ("A", "goal")
        return [AttackOutcome(team, what, "play", SECOND, ts=SECOND * 20 * k) for k, (team, what) in enumerate(outcomes, 1)]


class MatchPhases(Detector):
    """Level 14. How the match stands. Reads Dominance and Score; publishes MatchPhase for the team that dominates when that,
    or whether it is behind, has changed. O(1) an event.
    """

    subscribes, publishes = (Dominance, Score), (MatchPhase,)

    def __init__(self) -> None:
        self.team = ""
        self.behind: dict[str, bool] = {}
        self.published = ("", "")

    def on_event(self, event: Dominance | Score) -> MatchPhase | None:
        if isinstance(event, Score):
            self.behind[event.team] = event.goals < event.against
        else:
            self.team = event.team
        now = self.team, "chasing" if self.behind.get(self.team) else "in control"
        if not self.team or now == self.published:
            return None
        self.published = now
        return MatchPhase(*now, ts=event.ts)


class MatchFigures(Detector):
    """Level 15. The match at a glance. Reads Pass, FailedPass, ShotOnGoal, CornerKick, Score, PossessionShare,
    AttackStatistics and MatchPhase; publishes MatchStatistics for each team with each MatchPhase, and with the first of
    its events in each minute but the first (what came before it is counted). O(1) an event.
    """

    __slots__ = unchanging = ("_teams",)
    subscribes = (Pass, FailedPass, ShotOnGoal, CornerKick, Score, PossessionShare, AttackStatistics, MatchPhase)
    publishes = (MatchStatistics,)

    def __init__(self, setup: Setting = "generated") -> None:
        self._teams = PlayingField(setup_of(setup)).teams
        self.counts = {team: dict.fromkeys(MatchStatistics.__struct_fields__[1:8], 0) for team in self._teams}
        self.shares = dict.fromkeys(self._teams, 0.0)
        self.minute: int | None = None

    def on_event(self, event: SoccerEvent) -> list[MatchStatistics] | None:
        minute, before = event.ts // MINUTE, self.minute
        self.minute = minute
        results = self._statistics(event.ts) if before is not None and minute > before else None
        self._count(event)
        return self._statistics(event.ts) if isinstance(event, MatchPhase) else results

    def _statistics(self, ts: int) -> list[MatchStatistics]:
        rows = ((team, self.counts[team], self.shares[team]) for team in self._teams)
        return [MatchStatistics(team=team, **counts, share=share, ts=ts) for team, counts, share in rows]  # type: ignore[arg-type]

    def _count(self, event: SoccerEvent) -> None:
        counts = self.counts.get(getattr(event, "team", ""))
        if counts is None:
            return
        match event:
            case Pass() | FailedPass():
                counts["passes"] += 1
                counts["arrived"] += isinstance(event, Pass)
            case ShotOnGoal():
                counts["shots"] += 1
                counts["on_target"] += event.on_target
            case CornerKick():
                counts["corners"] += 1
            case Score():
                counts["goals"] = event.goals
            case AttackStatistics():
                counts["attacks"] = event.attacks
            case PossessionShare():
                self.shares[event.team] = event.share

    @classmethod
    def examples(cls) -> list[SoccerEvent]:
        """Input that shows what it does (for ``slackline check``): a few things happen in three minutes."""
        passes = [Pass(3, 4, "A", 142, 9.0, SECOND * 15 * k, ts=SECOND * (15 * k + 1)) for k in range(12)]
        rest = [FailedPass(14, "B", 3, "A", 142, 9.0, SECOND * 62, ts=SECOND * 63), CornerKick(5, "A", 142, ts=SECOND * 70)]
        return [*passes, *rest, MatchPhase("A", "in control", ts=SECOND * 80), Score("B", 1, 0, ts=SECOND * 90)]
