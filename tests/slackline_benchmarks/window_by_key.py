"""Windows by key: mean and largest value over 10 s, every 1 s, of 1,000 keys; 10 % of the events come up to 500 ms late."""

from __future__ import annotations

from typing import Any

from slackline_benchmarks import by_hand
from slackline_benchmarks.workload import EVENTS, EVERY, SIZE, Average, Case, Reading, delayed, measured, readings, ways

from detectors.window.kinds import Hopping
from detectors.window.monoids import MAX, MEAN
from detectors.window.windows import Windows


def keyed_entries(rounds: int, events: int = EVENTS) -> list[dict[str, Any]]:
    """Through the whole path: a unit that speculates, results early with corrections, or through the barrier."""
    return measured(keyed_cases(events), rounds)


def keyed_cases(events: int = EVENTS) -> list[Case]:
    """Each beside the loop by hand, which has finals only."""
    return ways("window.keyed", averages, delayed(readings(events)), by_hand.windows)


def averages() -> Windows:
    """The operator."""
    return planned(SIZE, EVERY)


def planned(size: int, every: int) -> Windows:
    """Mean and largest value of each sensor over ``size``, every ``every`` (ns)."""
    values = {"mean": (MEAN, "value"), "most": (MAX, "value")}
    return Windows(Reading, Hopping(size, every), values, key="sensor", result=Average)
