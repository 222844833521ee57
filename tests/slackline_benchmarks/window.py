"""``slackline bench window``: what a round of evict, insert and query costs, and windows by key; against what one would write.

Processor time of this process. Ratios say how many times as fast as the baseline. Rounds are of the aggregator alone, as times;
windows by key (events per second) of the whole path.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

from slackline_benchmarks import window_baselines
from slackline_benchmarks.plain_fiba import PlainFiba
from slackline_benchmarks.window_by_key import keyed_entries
from slackline_benchmarks.window_workload import batches, columns, cost, filled, fused_calls, three_calls

from detectors.window.aggregation.fiba import Fiba
from detectors.window.aggregation.monoids import GEOMEAN, MAX, SUM
from detectors.window.aggregation.sketches import BLOOM

N = 1 << 16
ROUNDS = 200_000
PLAIN_ROUNDS = 2_000
DISTANCES = (0, 256)
SIZES = (1 << 10, 1 << 13, 1 << 19, 1 << 22)
MONOIDS = {"sum": SUM.of(int), "max": MAX.of(int), "geomean": GEOMEAN, "bloom": BLOOM}
WAYS: dict[str, Callable[..., None]] = {"batch": batches, "call": fused_calls, "three": three_calls}

Case = tuple[str, Callable[[], float], Callable[[], float]]
"""Name, and what measures the value and the baseline, ns each."""


def bench_window(rounds: int) -> list[dict[str, Any]]:
    """Rounds for sum, max, geometric mean and Bloom filter; sum in other sizes, and against other ways; windows by key."""
    cases = [*_ways(), *_monoids(), *_sizes(), *baselines()]
    pairs: dict[str, list[tuple[float, float]]] = {name: [] for name, _, _ in cases}
    for _ in range(rounds):
        for name, value, baseline in cases:
            pairs[name].append((value(), baseline()))
    return [*(_entry(name, measured) for name, measured in pairs.items()), *keyed_entries(rounds)]


def _entry(name: str, pairs: list[tuple[float, float]]) -> dict[str, Any]:
    ratio = median(baseline / value for value, baseline in pairs)
    value, baseline = (median(side) for side in zip(*pairs, strict=True))
    return {"name": name, "value": value, "unit": "ns/round", "baseline": baseline, "ratio": ratio}


def measured(
    kind: Any, monoid: Any, n: int, distance: int, rounds: int, way: str = "batch", **options: Any
) -> Callable[[], float]:
    """Measures rounds on a window of its own, filled before the clock starts."""

    def measure() -> float:
        window = filled(kind, monoid, n, distance, **options)
        arguments = columns(monoid, n, distance, rounds)
        if way != "batch":
            arguments = tuple(column.tolist() for column in arguments)
        return cost(lambda: WAYS[way](window, *arguments), rounds)

    return measure


def _twin(name: str, distance: int) -> Callable[[], float]:
    return measured(PlainFiba, MONOIDS[name], N, distance, PLAIN_ROUNDS, "call")


def _ways() -> list[Case]:
    return [
        (f"window.{way}.d{distance}", measured(Fiba, MONOIDS["sum"], N, distance, ROUNDS, way), _twin("sum", distance))
        for way in WAYS
        for distance in DISTANCES
    ]


def _monoids() -> list[Case]:
    found = []
    for name in ("max", "geomean", "bloom"):
        for distance in DISTANCES:
            rounds = ROUNDS // 20 if name == "bloom" else ROUNDS
            n = N // 16 if name == "bloom" else N  # a filter for each node: 2 KiB
            value = measured(Fiba, MONOIDS[name], n, distance, rounds)
            twin = measured(PlainFiba, MONOIDS[name], n, distance, PLAIN_ROUNDS, "call")
            found.append((f"window.{name}.batch.d{distance}", value, twin))
    return found


def _sizes() -> list[Case]:
    """Sum in windows of other sizes; the baseline is that of the usual size, so that the ratio says how it scales."""
    return [
        (
            f"window.batch.n{n}.d{distance}",
            measured(Fiba, MONOIDS["sum"], n, distance, ROUNDS),
            measured(Fiba, MONOIDS["sum"], N, distance, ROUNDS),
        )
        for n in SIZES
        for distance in DISTANCES
    ]


def baselines() -> list[Case]:
    """FiBA in batches against other ways to have the sums of the same rounds."""
    found = []
    for name, baseline, n, rounds in window_baselines.available(N):
        size = "" if n == N else f".n{n}"
        for distance in DISTANCES:
            value = measured(Fiba, MONOIDS["sum"], n, distance, ROUNDS)
            found.append(
                (f"window.vs_{name}{size}.d{distance}", value, window_baselines.measured(baseline, n, distance, rounds))
            )
    return found
