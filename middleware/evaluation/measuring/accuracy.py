"""How well something was found: precision, recall and F1 against a truth, each with what so few cases can say."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from math import sqrt

import msgspec

Sighting = tuple[Hashable, int]
"""The fields that must agree (players, team), and the time (ns)."""

Span = tuple[float, float]
"""Lower and upper end."""

_Z = 1.96
"""Standard deviations from the middle to the ends of a 95 % interval."""


class Accuracy(msgspec.Struct, frozen=True):
    """How well something was found, each figure from 0 to 1. Where nothing was found, or nothing is there, it is 0.

    ``precision``: how much of what was found is there; ``recall``: how much of what is there was found; ``f1``: their
    harmonic mean. ``found``, ``true``, ``hits``: the counts that they come from. ``precision_within``, ``recall_within``:
    their 95 % intervals (Wilson's); 0 to 1 where there is nothing to count.
    """

    precision: float
    recall: float
    f1: float
    found: int
    true: int
    hits: int
    precision_within: Span
    recall_within: Span

    @classmethod
    def of(cls, found: int, true: int, hits: int) -> Accuracy:
        """The figures that belong to these counts."""
        precision, recall = hits / found if found else 0.0, hits / true if true else 0.0
        f1 = 2 * hits / (found + true) if found + true else 0.0
        return cls(precision, recall, f1, found, true, hits, interval(hits, found), interval(hits, true))

    @classmethod
    def total(cls, parts: Iterable[Accuracy]) -> Accuracy | None:
        """Several recordings as one; None if there was nothing to find, and nothing was found."""
        some = list(parts)
        whole = cls.of(*(sum(getattr(one, count) for one in some) for count in ("found", "true", "hits")))
        return whole if whole.found + whole.true else None

    def __str__(self) -> str:
        """On one line: F1, precision and recall with their intervals, and the counts."""
        parts = (("precision", self.precision, self.precision_within), ("recall", self.recall, self.recall_within))
        intervals = [f"{name} {value:.2f} ({low:.2f} to {high:.2f})" for name, value, (low, high) in parts]
        return f"F1 {self.f1:.3f}, {', '.join(intervals)}, {self.hits} of {self.found} found and {self.true} true"


def interval(hits: int, of: int) -> Span:
    """The 95 % interval of a share, by Wilson's score: it holds for few cases, and for shares of 0 and 1, too.

    >>> [round(end, 3) for end in interval(9, 10)], interval(0, 0)
    ([0.596, 0.982], (0.0, 1.0))
    """
    if not of:
        return 0.0, 1.0
    share, z = hits / of, _Z * _Z / of
    middle, half = (share + z / 2) / (1 + z), _Z * sqrt(share * (1 - share) / of + z / (4 * of)) / (1 + z)
    return max(0.0, middle - half), min(1.0, middle + half)


def score(found: Iterable[Sighting], truth: Iterable[Sighting], tolerance: int) -> Accuracy:
    """Precision, recall and F1 of ``found`` against ``truth``.

    Two sightings match if they are of the same thing and no more than ``tolerance`` ns apart. Each matches one other at
    most, and as many as possible match. O(n log n).

    >>> str(score([("goal", 10), ("goal", 90)], [("goal", 12)], tolerance=5))
    'F1 0.667, precision 0.50 (0.09 to 0.91), recall 1.00 (0.21 to 1.00), 1 of 2 found and 1 true'
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
