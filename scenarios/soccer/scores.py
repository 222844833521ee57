"""How well the detectors find what is there: precision, recall and F1 against a truth, generated or labelled by hand."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

import msgspec

from detectors.soccer.events import FailedPass, Pass
from middleware.model.event import Event
from middleware.model.time import MILLISECOND, SECOND
from scenarios.soccer.match.truth import Happening
from scenarios.soccer.tracab import LabelledPass

Sighting = tuple[Hashable, int]
"""What it is (players, team: whatever must agree), and when (ns)."""

GENERATED = 200 * MILLISECOND
"""Tolerance against the generated truth, which is exact."""

LABELLED = 2 * SECOND
"""Tolerance against the labels of the real match, which people set by hand."""


class Accuracy(msgspec.Struct, frozen=True):
    """How well something was found, each figure from 0 to 1. Where nothing was found, or nothing is there, it is 0.

    ``precision``: how much of what was found is there; ``recall``: how much of what is there was found; ``f1``: their
    harmonic mean. ``found``, ``true``, ``hits``: the counts that they come from.
    """

    precision: float
    recall: float
    f1: float
    found: int
    true: int
    hits: int

    @classmethod
    def of(cls, found: int, true: int, hits: int) -> Accuracy:
        """The figures that belong to these counts."""
        precision, recall = hits / found if found else 0.0, hits / true if true else 0.0
        return cls(precision, recall, 2 * hits / (found + true) if found + true else 0.0, found, true, hits)


def score(found: Iterable[Sighting], truth: Iterable[Sighting], tolerance: int) -> Accuracy:
    """Precision, recall and F1 of ``found`` against ``truth``.

    Two sightings match if they are of the same thing and no more than ``tolerance`` ns apart. Each matches one other at
    most, and as many as possible match. O(n log n).

    >>> score([("goal", 10), ("goal", 90)], [("goal", 12)], tolerance=5)
    Accuracy(precision=0.5, recall=1.0, f1=0.6666666666666666, found=2, true=1, hits=1)
    """
    one, other = _by_thing(found), _by_thing(truth)
    hits = sum(_pairs(times, other.get(thing, []), tolerance) for thing, times in one.items())
    return Accuracy.of(sum(map(len, one.values())), sum(map(len, other.values())), hits)


def _by_thing(sightings: Iterable[Sighting]) -> dict[Hashable, list[int]]:
    times: dict[Hashable, list[int]] = {}
    for thing, ts in sightings:
        times.setdefault(thing, []).append(ts)
    return times


def _pairs(found: list[int], true: list[int], tolerance: int) -> int:
    """The largest number of pairs no further apart than ``tolerance``: the earliest of each side pair up, or one is left."""
    found, true = sorted(found), sorted(true)
    hits = at = 0
    for ts in found:
        while at < len(true) and true[at] < ts - tolerance:
            at += 1
        if at < len(true) and true[at] <= ts + tolerance:
            hits, at = hits + 1, at + 1
    return hits


def generated(finals: Mapping[str, Sequence[Event]], told: Iterable[Happening]) -> dict[str, Accuracy]:
    """Passes, shots and goals of a generated match, by kind: the same players within 0.2 s.

    ``finals`` are the results by detector name, of ``engine.run`` or of the oracle; ``told`` is the match's ``truth``.
    """
    true: dict[str, list[Sighting]] = {"pass": [], "shot": [], "goal": []}
    for happening in told:
        if happening.kind in true:
            true[happening.kind].append(((happening.player, happening.other), happening.end))
    found: dict[str, list[Sighting]] = {
        "pass": [((event.player, event.receiver), event.ts) for event in finals["Passes"] if isinstance(event, Pass)],
        "shot": [((event.player, 0), event.ts) for event in finals["Shots"]],  # type: ignore[attr-defined]
        "goal": [((event.player, 0), event.ts) for event in finals["Goals"]],  # type: ignore[attr-defined]
    }
    return {kind: score(found[kind], true[kind], GENERATED) for kind in true}


def labelled(finals: Mapping[str, Sequence[Event]], labels: Iterable[LabelledPass]) -> Accuracy:
    """Passes of the real match: by the same team, kicked within 2 s.

    The labels name passes that failed as well, so FailedPass counts as found beside Pass. They say by shirt number who
    kicked, which the tracking does not know, so players are not compared.
    """
    kicked = [(event.team, event.kicked) for event in finals["Passes"] if isinstance(event, Pass | FailedPass)]
    return score(kicked, [(label.team, label.ts) for label in labels], LABELLED)
