"""Latencies of results: histograms by event type, of published results, of those that stayed, and of final ones.

A latency here is how far the node's clock (the largest raw ts known) is beyond a result's ts: event time, so it means the same
in a live mesh and in a replay at any speed. It is measured by batch: the results of a type in a step are sampled at eight
places, and neighbours count like the sample. So a step costs a few look-ups per type, however many results it has.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from operator import attrgetter
from typing import Any

import msgspec

from middleware.model.change import Batch, Delta
from middleware.model.event import NEVER
from middleware.model.time import SECOND

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Upper bounds (inclusive) of the buckets of a histogram, seconds; one more bucket holds all longer ones."""

_BOUNDS = tuple(round(bound * SECOND) for bound in BOUNDS)

_PARTS = 8
"""Samples of the results of a type in a step: the neighbours of each count like it."""

MOST_OPEN = 4_096
"""Parts of a type that are kept until they are final; if there are more, neighbours are merged."""


class Histogram(msgspec.Struct):
    """Counts of durations by bucket (``BOUNDS``, not cumulative), and the sum of durations, ns."""

    counts: list[int] = msgspec.field(default_factory=lambda: [0] * (len(_BOUNDS) + 1))
    sum: int = 0

    def add(self, duration: int, count: int = 1) -> None:
        """Count a duration (ns) ``count`` times; a negative one counts as 0. O(log buckets)."""
        duration = max(duration, 0)
        self.counts[bisect_left(_BOUNDS, duration)] += count
        self.sum += duration * count

    def copy(self) -> Histogram:
        """One that stays as this is now."""
        return Histogram(self.counts.copy(), self.sum)


class Latency(msgspec.Struct):
    """Latencies of the results of a type.

    ``early``
        from ts to publication, for every version of a result, including withdrawn and revised ones.
    ``stayed``
        the same, but only for versions that became final: when the right result was out.
    ``final``
        from ts until the result was final.
    """

    early: Histogram = msgspec.field(default_factory=Histogram)
    stayed: Histogram = msgspec.field(default_factory=Histogram)
    final: Histogram = msgspec.field(default_factory=Histogram)

    def copy(self) -> Latency:
        """One that stays as this is now."""
        return Latency(self.early.copy(), self.stayed.copy(), self.final.copy())


class _Published(msgspec.Struct):
    """Results that were published together and may still change: the ts of the middle one and of the last one, their
    latency (ns), their number."""

    ts: int
    last: int
    latency: int
    count: int


_LAST = attrgetter("last")


class Latencies:
    """See the module. ``by_type``: the histograms so far."""

    def __init__(self) -> None:
        self.by_type: dict[str, Latency] = {}
        self._open: dict[str, list[_Published]] = {}

    def publish(self, batch: Batch) -> None:
        """Take what a node's detectors publish in a step. O(types * log batches), except for corrections of old results."""
        clock = batch.clock
        if clock is None:
            return
        for name, delta in batch.deltas.items():
            self._count(name, delta, clock)
        for name, watermark in batch.watermarks.items():
            if self._open.get(name) and watermark != NEVER:
                self._settle(name, watermark, clock)

    def held(self, name: str) -> int:
        """The number of parts of a type that are kept until they are final."""
        return len(self._open.get(name, ()))

    def _count(self, name: str, delta: Delta, clock: int) -> None:
        latency = self.by_type.setdefault(name, Latency())
        versions = self._open.setdefault(name, [])
        for part in _parts(delta.retracts):
            _withdraw(versions, part[len(part) // 2].ts, len(part))
        for pairs in _parts(delta.revises):
            _withdraw(versions, pairs[len(pairs) // 2][0].ts, len(pairs))
        for pairs in _parts(delta.revises):
            _publish(versions, latency, pairs[len(pairs) // 2][1].ts, pairs[-1][1].ts, len(pairs), clock)
        for times in _parts(delta.columns.times) if delta.columns is not None else ():
            _publish(versions, latency, int(times[len(times) // 2]), int(times[-1]), len(times), clock)
        for part in _parts(delta.inserts) if delta.columns is None else ():
            _publish(versions, latency, part[len(part) // 2].ts, part[-1].ts, len(part), clock)
        if len(versions) > MOST_OPEN:
            versions[:] = [_merged(*versions[at : at + 2]) for at in range(0, len(versions), 2)]

    def _settle(self, name: str, watermark: int, clock: int) -> None:
        """Note that all results of a type up to its watermark are final."""
        versions, latency = self._open[name], self.by_type[name]
        end = bisect_right(versions, watermark, key=_LAST)
        for each in versions[:end]:
            latency.stayed.add(each.latency, each.count)
            latency.final.add(clock - each.ts, each.count)
        del versions[:end]


def _parts(events: Any) -> list[Any]:
    """The events in at most _PARTS consecutive parts."""
    if len(events) < 2:
        return [events] if len(events) else []
    size = -(-len(events) // _PARTS)
    return [events[at : at + size] for at in range(0, len(events), size)]


def _publish(versions: list[_Published], latency: Latency, ts: int, last: int, count: int, clock: int) -> None:
    latency.early.add(clock - ts, count)
    came = _Published(ts, last, clock - ts, count)
    if versions and versions[-1].last > last:
        insort(versions, came, key=_LAST)
    else:
        versions.append(came)


def _withdraw(versions: list[_Published], ts: int, count: int) -> None:
    """Remove ``count`` results around ``ts``, which did not stay: the nearest later ones first, then earlier ones."""
    at = bisect_left(versions, ts, key=_LAST)
    while count and versions:
        at = min(at, len(versions) - 1)
        each = versions[at]
        gone = min(count, each.count)
        each.count -= gone
        count -= gone
        if not each.count:
            del versions[at]


def _merged(one: _Published, other: _Published | None = None) -> _Published:
    if other is None:
        return one
    count = one.count + other.count
    return _Published(other.ts, other.last, (one.latency * one.count + other.latency * other.count) // count, count)
