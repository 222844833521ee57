"""How well the detectors find what there is: on generated matches, whose truth is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from detectors.soccer.soccer_hierarchy import soccer
from middleware.evaluation.measuring.accuracy import Accuracy
from middleware.model.detector import Detector
from middleware.model.event import Event
from middleware.testing.oracle import oracle
from scenarios.soccer.match import events, truth
from scenarios.soccer.scores import generated

_SCORED = ("Passes", "Shots", "Goals", "DeadBalls")

WHOLE = 60.0
"""A recording of so many seconds is a whole evaluation: shots and goals are rare, so more matches are looked at for them."""

MATCHES, LENGTH = 5, 120.0
"""How many more matches, and seconds of each."""


def scores(finals: Mapping[str, Sequence[Event]], seed: int, seconds: float) -> dict[str, Accuracy | None]:
    """Passes, shots and goals on generated matches; None where there is none.

    ``finals`` are the results on the match that was evaluated. A few minutes for a whole evaluation.
    """
    found = [generated(finals, truth(seed, seconds))]
    if seconds >= WHOLE:
        found += [_match(seed + number) for number in range(1, MATCHES + 1)]
    totals = {kind: Accuracy.total(one[kind] for one in found) for kind in found[0]}
    return {f"generated_{kind}": value for kind, value in totals.items()}


def _match(seed: int) -> dict[str, Accuracy]:
    """Another generated match."""
    return generated(oracle(events(seed, LENGTH), needed(soccer())), truth(seed, LENGTH))


def needed(detectors: Mapping[str, Detector]) -> dict[str, Detector]:
    """The scored detectors, and those on which they rest."""
    needed: set[str] = set()
    scored = set(_SCORED)
    while scored - needed:
        needed |= scored
        types = {t for name in needed for t in detectors[name].subscribes}
        scored = {name for name, detector in detectors.items() if not types.isdisjoint(detector.publishes)}
    return {name: detector for name, detector in detectors.items() if name in needed}
