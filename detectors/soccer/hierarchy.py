"""The hierarchy as a whole: every detector by name, ready to be run or to be spread over nodes."""

from __future__ import annotations

from detectors.soccer.ball import BallHits, BallsInPlay, LineCrossings
from detectors.soccer.contact import Kicks, NearBall, PlayerHits
from detectors.soccer.motion import Motions, PlayerMotions
from detectors.soccer.passing import DoublePasses, Interceptions, Passes, PassSequences
from detectors.soccer.possession import DeadBalls, Possessions, TeamPossessions
from detectors.soccer.setup import Setting, setup_of
from detectors.soccer.shooting import Goals, ShotOutcomes, Shots
from middleware.derivation import named
from middleware.detector import Detector


def soccer(setup: Setting = "generated") -> dict[str, Detector]:
    """All soccer detectors, by the name they publish under, for one setup. Raises ScenarioError if there is no such setup.

    Only Motions and BallHits (level 1) read raw positions; all others live on derived events of a few hundred a second.
    """
    known = setup_of(setup)
    return named(
        [
            Motions(known),  # level 1
            BallHits(known),
            PlayerMotions(),  # 2
            BallsInPlay(known),
            NearBall(known),  # 3
            LineCrossings(known),
            PlayerHits(),  # 4
            Kicks(),  # 5
            Possessions(),
            DeadBalls(known),
            Goals(known),
            Shots(known),  # 6
            TeamPossessions(),
            Passes(),  # 7
            ShotOutcomes(known),
            Interceptions(),  # 8
            DoublePasses(),
            PassSequences(),
        ]
    )
