"""``bench ordering``: what order and speculation cost per event, as ratios to a bare loop over sorted events."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable
from itertools import product
from statistics import median
from typing import Any

from middleware.change import Delta
from middleware.clock import MILLISECOND
from middleware.detector import Detector
from middleware.event import Event
from middleware.ordering.unit import Policies, Unit

EVENTS = 300_000
KEYS = 1_000
DELAY = 500
"""Late events come up to this many milliseconds late; there is one event a millisecond."""

SIZES = (256, 64, 16)
MODES = {"buffer": 1.0, "speculate": 0.0}
LATE = (0, 1, 10)
"""Late events, per cent."""


class Reading(Event, frozen=True):
    sensor: int
    value: float


class Peak(Event, frozen=True):
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

    The baseline of keyed entries is a bare loop that looks up its detector by key, as anyone would write it by hand.
    """
    ordered = _readings()
    arrivals = {late: _delayed(ordered, late) for late in LATE}
    cases: list[tuple[str, bool, Callable[[], float]]] = []
    for size, keyed, (mode, alpha), late in product(SIZES, (False, True), MODES.items(), LATE):
        name = f"ordering.{mode}.late{late}{'.keyed' if keyed else ''}{'' if size == SIZES[0] else f'.batch{size}'}"
        cases.append((name, keyed, _case(arrivals[late], size, keyed, alpha)))
    times: dict[str, list[tuple[float, float]]] = {name: [] for name, _, _ in cases}
    for _ in range(rounds):
        for name, keyed, run in cases:
            bare = _timed(lambda keyed=keyed: _bare_keyed(ordered) if keyed else _bare(ordered))  # type: ignore[misc]
            times[name].append((run(), bare))
    return [_entry(name, times[name]) for name, _, _ in cases]


def _entry(name: str, pairs: list[tuple[float, float]]) -> dict[str, Any]:
    ratio = median(value / bare for value, bare in pairs)
    value, bare = (median(side) / EVENTS * 1e9 for side in zip(*pairs, strict=True))
    return {"name": name, "value": value, "unit": "ns/event", "baseline": bare, "ratio": ratio}


def _readings() -> list[Event]:
    rng = random.Random(1)
    return [
        Reading(rng.randrange(KEYS), rng.random(), ts=number * MILLISECOND, id=number, source="bench")
        for number in range(EVENTS)
    ]


def _delayed(ordered: list[Event], late: int) -> list[Event]:
    rng = random.Random(late)
    arrival = [event.ts + (rng.randrange(DELAY) * MILLISECOND if rng.random() < late / 100 else 0) for event in ordered]
    return [event for _, event in sorted(zip(arrival, ordered, strict=True), key=lambda pair: pair[0])]


def _bare(ordered: list[Any]) -> None:
    detector = Peaks()
    for event in ordered:
        detector.on_event(event)


def _bare_keyed(ordered: list[Any]) -> None:
    detectors: dict[int, Peaks] = {}
    for event in ordered:
        detector = detectors.get(event.sensor)
        if detector is None:
            detector = detectors[event.sensor] = Peaks()
        detector.on_event(event)


def _case(arrived: list[Event], size: int, keyed: bool, alpha: float) -> Callable[[], float]:
    batches = [arrived[at : at + size] for at in range(0, len(arrived), size)]

    def run() -> float:
        unit = Unit("Peaks", KeyedPeaks() if keyed else Peaks(), 1, Policies(alpha=alpha))

        def push_all() -> None:
            for batch in batches:
                unit.push(Delta(batch))

        return _timed(push_all)

    return run


def _timed(work: Callable[[], Any]) -> float:
    gc.collect()
    started = time.process_time()
    work()
    return time.process_time() - started
