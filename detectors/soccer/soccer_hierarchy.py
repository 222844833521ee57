"""The hierarchy as a whole: every detector by name, ready to be run or to be spread over nodes."""

from __future__ import annotations

from inspect import signature

from detectors.soccer.ball_play.ball import BallHits, BallsInPlay, LineCrossings
from detectors.soccer.ball_play.contact import Kicks, NearBall, PlayerHits
from detectors.soccer.ball_play.flight import BallFlights, BallRests, Bounces, LooseBalls, Woodworks
from detectors.soccer.ball_play.kicking import Clearances, Crosses, KickKinds
from detectors.soccer.ball_play.possession import DeadBalls, Possessions, TeamPossessions
from detectors.soccer.ball_play.touches import Controls, Dribbles, Headers, Spells
from detectors.soccer.offence.attack_outcomes import AttackKinds, AttackOutcomes, BigChances, Chances
from detectors.soccer.offence.attacks import Attacks, BuildUps, FastBreaks, Turnovers
from detectors.soccer.offence.chances import ExpectedGoals, Rebounds, Scores, ShotKinds
from detectors.soccer.offence.set_pieces import FreeKicks, PenaltyKicks, QuickRestarts, SetPieces, SetPieceShots
from detectors.soccer.offence.shooting import Goals, ShotOutcomes, Shots
from detectors.soccer.passes.offside import LineBreaks, OffsidePasses, OffsidePositions
from detectors.soccer.passes.pass_kinds import (
    LongPasses,
    PassDirections,
    PassesIntoBox,
    PassPaths,
    ProgressivePasses,
    SwitchesOfPlay,
    ThroughPasses,
)
from detectors.soccer.passes.pass_play import Assists, KeyPasses, OneTouchPasses, PassAccuracies, PassPairs, Triangles
from detectors.soccer.passes.passing import DoublePasses, Interceptions, Passes, PassSequences
from detectors.soccer.players.duels import Crowds, DuelOutcomes, Duels, Markings
from detectors.soccer.players.formation import BlockHeights, Compactness, DefensiveLines, Formations, TeamShapes
from detectors.soccer.players.player_motion import Motions, PlayerMotions
from detectors.soccer.players.player_running import Accelerations, DistancesRun, Paces, Sprints, Turns, WorkRates
from detectors.soccer.players.pressing import Counterpresses, PressingPhases, Pressures, PressureWins, Recoveries
from detectors.soccer.setup import Setting, Setup, setup_of
from detectors.soccer.statistics import AttackFigures, Dominances, MatchFigures, MatchPhases, PlayerFigures, PossessionShares
from detectors.soccer.zones import BallBoxes, BallPlaces, BallZones, BoxRuns, PlayerPlaces, PlayerZones
from middleware.model.detector import Detector
from middleware.model.identity import named

LEVELS: tuple[tuple[type[Detector], ...], ...] = (
    (Motions, BallHits),
    (PlayerMotions, BallsInPlay, Bounces, Woodworks),
    (NearBall, LineCrossings, PlayerPlaces, BallPlaces, BallFlights, BallRests, Paces, Accelerations, Turns),
    (
        PlayerHits,
        Duels,
        Crowds,
        LooseBalls,
        Markings,
        PlayerZones,
        BallZones,
        BallBoxes,
        BoxRuns,
        Sprints,
        DistancesRun,
        TeamShapes,
        DefensiveLines,
        Formations,
    ),
    (
        Kicks,
        Possessions,
        DeadBalls,
        Goals,
        DuelOutcomes,
        Dribbles,
        Headers,
        WorkRates,
        Compactness,
        BlockHeights,
        LineBreaks,
        OffsidePositions,
    ),
    (
        Shots,
        TeamPossessions,
        Controls,
        Spells,
        KickKinds,
        Clearances,
        Crosses,
        SetPieces,
        QuickRestarts,
        FreeKicks,
        Pressures,
        Scores,
    ),
    (
        Passes,
        ShotOutcomes,
        ShotKinds,
        ExpectedGoals,
        SetPieceShots,
        PenaltyKicks,
        PressureWins,
        Counterpresses,
        PressingPhases,
        Recoveries,
        PossessionShares,
    ),
    (
        Interceptions,
        DoublePasses,
        PassSequences,
        PassPaths,
        OneTouchPasses,
        KeyPasses,
        Assists,
        PassPairs,
        PassAccuracies,
        Triangles,
        OffsidePasses,
        Rebounds,
    ),
    (
        PassDirections,
        LongPasses,
        SwitchesOfPlay,
        ProgressivePasses,
        PassesIntoBox,
        ThroughPasses,
        Turnovers,
        BuildUps,
        PlayerFigures,
    ),
    (FastBreaks, Attacks),
    (AttackKinds, Chances),
    (BigChances, AttackOutcomes),
    (AttackFigures, Dominances),
    (MatchPhases,),
    (MatchFigures,),
)
"""The detectors by level, from the lowest (1) to the highest (15)."""


def soccer(setup: Setting = "generated") -> dict[str, Detector]:
    """All soccer detectors, by the name they publish under, for one setup. Raises ScenarioError if there is no such setup.

    Only Motions and BallHits (level 1) read raw positions; all others live on derived events of a few hundred a second.
    """
    known = setup_of(setup)
    return named(_made(kind, known) for level in LEVELS for kind in level)


def _made(kind: type[Detector], setup: Setup) -> Detector:
    """A detector of this kind, with the setup if it asks for one."""
    return kind(**({"setup": setup} if "setup" in signature(kind).parameters else {}))
