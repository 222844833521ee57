"""``slackline bench window-panes``: hopping windows from panes or from trees, by how many windows an event is in.

Panes compute each result from the content of its window; a tree for each aggregate and key finds it in O(log n). Here both run the
same windows, native panes against native trees, and give the same results. ``steps.MOST_STEPS`` rests on these figures.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

from slackline_benchmarks.window_by_key import SECOND, batches, fed, planned
from slackline_benchmarks.window_workload import cost

from detectors.window.running import WindowsOperation
from detectors.window.stepped import SteppedWindows
from middleware import native
from middleware.model.errors import SlacklineError

EVENTS = 20_000
KEYS = (1, 100)
STEPS = (1, 4, 16, 32, 64, 128, 256)
"""In how many windows each event is."""


def bench_panes(rounds: int) -> list[dict[str, Any]]:
    """Microseconds an event with panes; baseline: with trees. Results early, as they change, and at the close."""
    if not native.AVAILABLE:
        raise SlacklineError("bench window-panes measures the native core: build it (cargo), or unset SLACKLINE_NATIVE=0")
    entries = []
    for keys in KEYS:
        given = batches(EVENTS, keys)
        for steps in STEPS:
            pairs = [_pair(given, steps) for _ in range(rounds)]
            panes, trees = (median(side) / 1e3 for side in zip(*pairs, strict=True))
            name = f"window.panes.k{keys}.s{steps}"
            entries.append({"name": name, "value": panes, "unit": "us/event", "baseline": trees, "ratio": trees / panes})
    return entries


def _pair(given: list[list[Any]], steps: int) -> tuple[float, float]:
    """ns an event of both, whose results are the same."""
    plan = planned(2 * SECOND, 2 * SECOND // steps)
    found: list[list[Any]] = []

    def run(kind: Callable[..., Any]) -> float:
        operation = kind(plan, "bench", 1)
        return cost(lambda: found.append(fed(operation, given, False)), EVENTS)

    pair = run(SteppedWindows), run(WindowsOperation)
    one, other = (sorted(each, key=lambda result: (result.ts, result.id)) for each in found)
    if one != other:
        raise SlacklineError("panes and trees do not give the same results: one of them is wrong")
    return pair
