"""``bench ordering``: what order and speculation cost per event, as ratios to a bare loop over sorted events."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from statistics import median
from typing import Any

from msgspec import defstruct
from slackline_benchmarks.workload import DELAY, Reading, batches, delayed, readings, timed

from middleware.model.change import Batch, Delta
from middleware.model.detector import Detector
from middleware.model.event import Event, type_name
from middleware.ordering.hierarchy import Hierarchy, unit_for
from middleware.ordering.policies import Policies

EVENTS = 300_000

SIZES = (256, 64, 16)
MODES = {"buffer": 1.0, "speculate": 0.0}
LATE = (0, 1, 10)
"""Late events, per cent."""

_LEVELS = 10
_TOWERS = 20
"""Of detectors, one a level: the first is given all events, the others have nothing to do."""

_STEP = 16
_CLIMBED = 32_000


class Peak(Event):
    count: int
    total: float


class Peaks(Detector):
    """The cheap detector of the sketch: counts, sums, and speaks once in a thousand events."""

    subscribes, publishes = (Reading,), (Peak,)

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0

    def on_event(self, event: Reading) -> Peak | None:
        self.count += 1
        self.total += event.value
        return Peak(self.count, self.total, ts=event.ts) if event.value > 0.999 else None


class KeyedPeaks(Peaks):
    key = "sensor"


def bench_ordering(rounds: int) -> list[dict[str, Any]]:
    """Processor time per event (ns) of buffering (alpha = 1) and speculation (alpha = 0), by batch size and late events.

    The baseline is the same detector over events that are sorted already; that of keyed entries looks it up by key.
    ``ordering.hierarchy.idle``: a node of 200 detectors in 10 levels, of which 190 have nothing to do, beside the 10 alone.
    """
    ordered = readings(EVENTS)
    arrivals = {late: delayed(ordered, late / 100) for late in LATE}
    cases: list[tuple[str, bool, Callable[[], float]]] = []
    for size, keyed, (mode, alpha), late in product(SIZES, (False, True), MODES.items(), LATE):
        name = f"ordering.{mode}.late{late}{'.keyed' if keyed else ''}{'' if size == SIZES[0] else f'.batch{size}'}"
        cases.append((name, keyed, _case(arrivals[late], size, keyed, alpha)))
    times: dict[str, list[tuple[float, float]]] = {name: [] for name, _, _ in cases}
    for _ in range(rounds):
        for name, keyed, run in cases:
            bare = timed(lambda keyed=keyed: _bare_keyed(ordered) if keyed else _bare(ordered))  # type: ignore[misc]
            times[name].append((run(), bare))
    idle = [(_climb(_TOWERS, ordered), _climb(1, ordered)) for _ in range(rounds)]
    return [*(_entry(name, times[name]) for name, _, _ in cases), _entry("ordering.hierarchy.idle", idle, _CLIMBED)]


def _entry(name: str, pairs: list[tuple[float, float]], events: int = EVENTS) -> dict[str, Any]:
    ratio = median(value / bare for value, bare in pairs)
    value, bare = (median(side) / events * 1e9 for side in zip(*pairs, strict=True))
    return {"name": name, "value": value, "unit": "ns/event", "baseline": bare, "ratio": ratio}


def _bare(ordered: list[Any]) -> None:
    on_event = Peaks().on_event
    for event in ordered:
        on_event(event)


def _bare_keyed(ordered: list[Any]) -> None:
    detectors: dict[int, Callable[[Any], Any]] = {}
    for event in ordered:
        if event.sensor in detectors:
            detectors[event.sensor](event)
        else:
            detectors[event.sensor] = on_event = Peaks().on_event
            on_event(event)


def _case(arrived: list[Event], size: int, keyed: bool, alpha: float) -> Callable[[], float]:
    given = batches(arrived, size)

    def run() -> float:
        unit = unit_for("Peaks", KeyedPeaks() if keyed else Peaks(), 1, Policies(alpha=alpha))

        def push_all() -> None:
            for batch in given:
                unit.push(Delta(batch))

        return timed(push_all)

    return run


def _climb(towers: int, ordered: list[Event]) -> float:
    """Feed a node of so many towers in small steps, each with a clock mark and a promise, which go all the way up."""
    hierarchy = Hierarchy({f"{tower}.{level}": _storey(tower, level) for tower in range(towers) for level in range(_LEVELS)})
    raw = [type_name(_floor(tower, 0)) for tower in range(towers)]

    def push_all() -> None:
        for at in range(0, _CLIMBED, _STEP):
            events = ordered[at : at + _STEP]
            clock = events[-1].ts
            hierarchy.process(Batch({raw[0]: Delta(events)}, dict.fromkeys(raw, clock - DELAY), clock))

    return timed(push_all)


class _Storey(Detector):
    """Hands one in ten of the readings up, and those that come from below."""

    def __init__(self) -> None:
        self.count = 0

    def on_event(self, event: Any) -> Event | None:
        self.count += 1
        makes: Any = self.publishes[0]
        return makes(event.value, ts=event.ts) if event.value > 0.9 else None


def _storey(tower: int, level: int) -> Detector:
    types = {"subscribes": (_floor(tower, level),), "publishes": (_floor(tower, level + 1),)}
    return type(f"Storey{tower}x{level}", (_Storey,), types)()  # type: ignore[no-any-return]


@cache
def _floor(tower: int, level: int) -> type[Event]:
    """What the detector of a level reads, and the one below publishes."""
    if tower == level == 0:
        return Reading
    return defstruct(f"Floor{tower}x{level}", [("value", float)], bases=(Event,), frozen=True)  # type: ignore[return-value]
