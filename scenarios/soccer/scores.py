"""How well the detectors find what is there: against the truth of a generated match."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from detectors.soccer.events import Pass
from middleware.evaluation.measuring.accuracy import Accuracy, Sighting, score
from middleware.model.event import Event
from middleware.model.time import MILLISECOND
from scenarios.soccer.match.truth import Happening

GENERATED = 200 * MILLISECOND
"""Tolerance against the generated truth, which is exact."""


def generated(
    finals: Mapping[str, Sequence[Event]], truth: Iterable[Happening], tolerance: int = GENERATED
) -> dict[str, Accuracy]:
    """Passes, shots and goals of a generated match, by kind: the same players within ``tolerance`` ns.

    ``finals`` are the results by detector name, of ``engine.run`` or of the oracle; ``truth`` is the match's ``truth``.
    """
    true: dict[str, list[Sighting]] = {"pass": [], "shot": [], "goal": []}
    for happening in truth:
        if happening.kind in true:
            true[happening.kind].append(((happening.player, happening.other), happening.end))
    found: dict[str, list[Sighting]] = {
        "pass": [((event.player, event.receiver), event.ts) for event in finals["Passes"] if isinstance(event, Pass)],
        "shot": [((event.player, 0), event.ts) for event in finals["Shots"]],  # type: ignore[attr-defined]
        "goal": [((event.player, 0), event.ts) for event in finals["Goals"]],  # type: ignore[attr-defined]
    }
    return {kind: score(found[kind], true[kind], tolerance) for kind in true}
