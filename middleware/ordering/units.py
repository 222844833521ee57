"""The unit for a detector."""

from __future__ import annotations

from middleware.model.detector import Detector
from middleware.model.operator import Operator
from middleware.ordering.alpha.costs import Timer
from middleware.ordering.detector_unit import DetectorUnit
from middleware.ordering.lanes.runs import RUN
from middleware.ordering.operator_unit import OperatorUnit
from middleware.ordering.policies import Policies
from middleware.ordering.unit import Unit


def unit_for(
    name: str,
    detector: Detector,
    level: int = 1,
    policies: Policies | None = None,
    timer: Timer | None = None,
    resumes: bool = False,
    run: int = RUN,
) -> Unit:
    """A new unit, of the kind that the detector is; ``resumes`` and ``run``: see ``OperatorUnit`` and ``DetectorUnit``."""
    if isinstance(detector, Operator):
        return OperatorUnit(name, detector, level, policies, timer, resumes)
    return DetectorUnit(name, detector, level, policies, timer, run)
