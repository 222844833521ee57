"""``slackline bench window-panes``: hopping windows from panes or from trees, by how many windows an event is in.

Panes compute each result from the content of its window; a tree for each aggregate and key finds it in O(log n). Here both run
the same windows, native panes against native trees, and give the same results. ``steps.MOST_STEPS`` rests on these figures.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

from slackline_benchmarks.window_by_key import planned
from slackline_benchmarks.window_workload import cost
from slackline_benchmarks.workload import DELAY, batches, delayed, readings

from detectors.window.stepped_windows import SteppedWindows
from detectors.window.windows_operation import WindowsOperation
from middleware.model.change import Delta
from middleware.model.errors import SlacklineError
from middleware.model.event import END, TS, Event
from middleware.model.operator import Operation
from middleware.model.time import SECOND

EVENTS = 5_000
KEYS = (1, 100)
STEPS = (1, 4, 16, 32, 64, 128, 256, 512, 1_024, 2_000)
"""In how many windows each event is."""

BATCH = 256

EARLY = 256
"""Up to so many steps, results are also given early and corrected, so that a late event costs as many results again."""


def bench_panes(rounds: int) -> list[dict[str, Any]]:
    """Microseconds an event with panes; baseline: with trees. Results early, as they change, and at the close."""
    entries = []
    for keys in KEYS:
        given = batches(delayed(readings(EVENTS, keys=keys)), BATCH)
        for steps in STEPS if keys == 1 else STEPS[:7]:
            for early in (False, True)[: 1 + (steps <= EARLY)]:
                pairs = [_pair(given, steps, early) for _ in range(rounds)]
                panes, trees = (median(side) / 1e3 for side in zip(*pairs, strict=True))
                name = f"window.panes{'.early' * early}.k{keys}.s{steps}"
                entries.append({"name": name, "value": panes, "unit": "us/event", "baseline": trees, "ratio": trees / panes})
    return entries


def _pair(given: list[list[Any]], steps: int, early: bool) -> tuple[float, float]:
    """ns an event of both, whose results are the same."""
    plan = planned(2 * SECOND, 2 * SECOND // steps)
    found: list[list[Any]] = []

    def run(kind: Callable[..., Any]) -> float:
        operation = kind(plan, "bench", 1)
        return cost(lambda: found.append(fed(operation, given, early)), EVENTS)

    pair = run(SteppedWindows), run(WindowsOperation)
    one, other = (sorted(each, key=lambda result: (result.ts, result.id)) for each in found)
    if one != other:
        raise SlacklineError("panes and trees do not give the same results: one of them is wrong")
    return pair


def fed(operation: Operation, given: list[list[Any]], early: bool) -> list[Event]:
    """All results of an operation over batches."""
    results: list[Event] = []
    clock = 0
    for batch in given:
        clock = max(clock, *map(TS, batch))
        mark = clock - DELAY
        out = operation.apply(Delta(batch), clock if early else mark, mark)
        results += out.inserts
    results += operation.apply(Delta(), END, END).inserts
    return results
