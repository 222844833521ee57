"""How well the detectors find what there is: F1 on generated matches, whose truth is known, and on a real, labelled one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from detectors.soccer.hierarchy import soccer
from middleware.model.detector import Detector
from middleware.model.errors import ScenarioError
from middleware.model.event import Event
from middleware.runtime.scenario import find_file
from middleware.testing.oracle import oracle
from scenarios.soccer import tracab
from scenarios.soccer.match import events, truth
from scenarios.soccer.scores import Accuracy, generated, labelled

_SCORED = ("Passes", "Shots", "Goals")

WHOLE = 60.0
"""A recording of so many seconds is a whole evaluation: shots and goals are rare, so more matches are looked at for them."""

MATCHES, LENGTH = 5, 120.0
"""How many more matches, and seconds of each."""


def scores(finals: Mapping[str, Sequence[Event]], seed: int, seconds: float) -> dict[str, float | None]:
    """F1 of passes, shots and goals on generated matches, and of passes on the TRACAB match; None where there is none.

    ``finals`` are the results on the match that was evaluated. A few minutes for a whole evaluation.
    """
    found = [generated(finals, truth(seed, seconds))]
    if seconds >= WHOLE:
        found += [_match(seed + number) for number in range(1, MATCHES + 1)]
    totals = {kind: total([one[kind] for one in found]) for kind in found[0]}
    real = _real() if seconds >= WHOLE else None
    return {"tracab_pass": real, **{f"generated_{kind}": value for kind, value in totals.items()}}


def _match(seed: int) -> dict[str, Accuracy]:
    """Another generated match."""
    return generated(oracle(events(seed, LENGTH), needed(soccer())), truth(seed, LENGTH))


def _real() -> float | None:
    """F1 of passes on the labelled match; None if it is not here."""
    try:
        folder = find_file(Path(__file__).parent, "tracab/tracking.parquet").parent
    except ScenarioError:
        return None
    finals = oracle(tracab.positions(folder), needed(soccer("tracab")))
    return labelled(finals, tracab.passes(folder)).f1


def needed(detectors: Mapping[str, Detector]) -> dict[str, Detector]:
    """The scored detectors, and those on which they rest."""
    needed: set[str] = set()
    wanted = set(_SCORED)
    while wanted - needed:
        needed |= wanted
        types = {t for name in needed for t in detectors[name].subscribes}
        wanted = {name for name, detector in detectors.items() if not types.isdisjoint(detector.publishes)}
    return {name: detector for name, detector in detectors.items() if name in needed}


def total(parts: Sequence[Accuracy]) -> float | None:
    """F1 over several matches as one; None if there was nothing to find, and nothing was found."""
    hits, known = sum(one.hits for one in parts), sum(one.found + one.true for one in parts)
    return 2 * hits / known if known else None
