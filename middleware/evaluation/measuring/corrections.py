"""Corrections: how many results each way of retraction publishes and takes back (DEBS'13, section 5.4), and at what cost."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from middleware.evaluation.evaluation_runs import CountedRun
from middleware.evaluation.modes import DYNAMIC, FULL, Mode
from middleware.model.detector import Detector
from middleware.ordering.records import UnitStatistics
from middleware.runtime.scenario import Scenario


class CorrectionCounts(msgspec.Struct, frozen=True):
    """Results published, and how many publications were revised or withdrawn.

    At the detector looked at, in the cascade (it and all detectors that read what comes of it), in the whole hierarchy.
    """

    published: int
    corrected: int
    published_in_cascade: int
    corrected_in_cascade: int
    published_at_all: int
    corrected_at_all: int


def corrected(units: Sequence[UnitStatistics], scenario: Scenario) -> CorrectionCounts:
    """Published and corrected results, from the statistics of units."""
    start = scenario.plan.evaluation.corrections
    cascade = above(scenario.detectors, start) if start is not None else frozenset(scenario.detectors)
    scopes: list[Collection[str]] = [[start] if start is not None else [], cascade, scenario.detectors]
    counts: list[int] = []
    for scope in scopes:
        some = [unit for unit in units if unit.detector in scope]
        counts += [sum(unit.inserted for unit in some), sum(unit.revised + unit.retracted for unit in some)]
    return CorrectionCounts(*counts)


def above(detectors: Mapping[str, Detector], start: str) -> frozenset[str]:
    """A detector and all that read, directly or not, what it publishes. O(detectors * levels)."""
    found = {start}
    while True:
        types = {t for name in found for t in detectors[name].publishes}
        more = {name for name, detector in detectors.items() if not types.isdisjoint(detector.subscribes)} - found
        if not more:
            return frozenset(found)
        found |= more


class AffectedEvents(msgspec.Struct, frozen=True):
    """A counted run (full speculation, same arrivals): events affected, and processor seconds."""

    mode: Mode
    corrections: CorrectionCounts
    executed: int
    snapshots: int
    cpu: float
    seconds: float

    @property
    def real_time_factor(self) -> float:
        """Seconds of the recording per second of processing on one core."""
        return self.seconds / self.cpu


def affected(run: CountedRun, scenario: Scenario) -> AffectedEvents:
    """The work of a counted run, for the retraction table (DEBS'13, 5.4)."""
    executed, snapshots = (sum(getattr(unit, what) for unit in run.units) for what in ("executed", "snapshots"))
    return AffectedEvents(run.mode, corrected(run.units, scenario), executed, snapshots, run.cpu, run.seconds)


def retraction_ratios(runs: Mapping[str, AffectedEvents]) -> dict[str, float | None]:
    """On-demand to full, events corrected; None if either was not run or full had nothing to correct."""
    demand, full = runs.get(DYNAMIC.name), runs.get(FULL.name)
    found: dict[str, float | None] = {}
    for scope, field in (("detector", "corrected"), ("cascade", "corrected_in_cascade"), ("all", "corrected_at_all")):
        counts = [getattr(one.corrections, field) for one in (demand, full) if one is not None]
        found[scope] = counts[0] / counts[1] if len(counts) == 2 and counts[1] else None
    return found
