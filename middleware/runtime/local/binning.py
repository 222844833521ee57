"""Counts of events over time, in bins that do not beat against the period at which the events come. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil
from statistics import fmean, median
from typing import NamedTuple

BINS = 120
"""The number of bins in which a span of time is counted; of periodic events there may be fewer, or one more."""

_SAMPLE = 512
"""Events that are looked at to find a period."""

_MOST_KEYS = 64
"""The most events of one period: one of each key, machine or player."""

_NEAR, _REGULAR = 0.25, 0.99
"""Events are periodic if this share (the second) of the times between them is at most that much off their median.

A pause now and then is no matter, but one after each burst of 64 events is."""


class Bins(NamedTuple):
    """Counts of events. Bin ``n`` begins ``start`` + n * ``width`` (ns) after the span; the outer ones may reach beyond it."""

    start: float
    width: float
    counts: list[int]


def binned(times: Sequence[int], span: tuple[int, int]) -> Bins:
    """Count sorted times, all of them within the span (first, last). O(n).

    Where events are periodic, a bin is a whole number of periods, and its edges lie between events: else bins of 3 or 4 events
    in turn would show waves that are not there.
    """
    first, last = span
    length = last - first + 1
    start, width = 0.0, length / BINS
    if (found := _period(times)) is not None:
        period, edge = found
        width = period * ceil(length / (BINS * period))
        start = (edge - first) - ceil((edge - first) / width) * width
    counts = [0] * max(1, ceil((length - start) / width))
    most = len(counts) - 1
    for ts in times:
        counts[min(int((ts - first - start) / width), most)] += 1
    return Bins(start, width, counts)


def _period(times: Sequence[int]) -> tuple[float, int] | None:
    """The time after which events come again, and a moment between two of them; None if they are not periodic.

    Several events may belong to one period, at one time or spread over it: of all such numbers of events, the smallest counts
    after which the time is as steady as after any. O(n + sample * log(sample) * keys).
    """
    sample, found = times[:_SAMPLE], list[tuple[float, float, int]]()
    for keys in range(1, min(_MOST_KEYS, len(sample) // 4) + 1):
        lags = _lags(sample, keys)
        middle = median(lags)
        off = sorted(abs(lag - middle) for lag in lags)[int(_REGULAR * (len(lags) - 1))]
        if middle > 0 and off <= _NEAR * middle:
            found.append((off, middle, keys))
            if not off:
                break
    if not found:
        return None
    least = min(found)[0]
    off, period, keys = next(each for each in found if each[0] <= 1.5 * least)
    before, after = max(pairwise(sample[: keys + 1]), key=lambda pair: pair[1] - pair[0])
    if off:  # their mean: by an error of the median, bins would drift against the events
        period = fmean(lag for lag in _lags(times, keys) if abs(lag - period) <= _NEAR * period)
    return period, (before + after) // 2


def _lags(times: Sequence[int], keys: int) -> list[int]:
    return [after - before for before, after in zip(times, times[keys:], strict=False)]
