"""Windows by key: mean and largest value over 10 s, every 1 s, of 1,000 keys; 10 % of the events come up to 500 ms late.

``window.stddev``, ``.median`` and ``.nullable`` (each tenth value is null), by columns, have the mean alone as their baseline,
and may take twice as long.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from slackline_benchmarks import by_hand
from slackline_benchmarks.workload import (
    COLUMN_SIZES,
    EVENTS,
    EVERY,
    SIZE,
    Aggregated,
    Average,
    Case,
    Reading,
    Sparse,
    blocks,
    by_columns,
    delayed,
    measured,
    readings,
    sparse,
    ways,
)

from detectors.window.aggregation.monoid import Monoid
from detectors.window.aggregation.monoids import MAX, MEAN, STDDEV
from detectors.window.aggregation.ranks import MEDIAN
from detectors.window.kinds import Hopping
from detectors.window.windows import Windows
from middleware.model.event import EventType


def keyed_entries(rounds: int, events: int = EVENTS) -> list[dict[str, Any]]:
    """Through the whole path: a unit that speculates, results early with corrections, or through the barrier."""
    return measured([*keyed_cases(events), *aggregate_cases(events)], rounds)


def keyed_cases(events: int = EVENTS) -> list[Case]:
    """Each beside the loop by hand, which has finals only."""
    return ways("window.keyed", averages, delayed(readings(events)), by_hand.windows)


def aggregate_cases(events: int = EVENTS) -> list[Case]:
    """Other aggregates than the mean, and the mean of a column with nulls, beside the mean."""
    given = delayed(readings(events))
    cases: list[Case] = []
    for size in COLUMN_SIZES:
        full, nulls = blocks(given, size, [Reading]), blocks(sparse(given), size, [Sparse])
        baseline = partial(by_columns, _one(MEAN), full)
        suffix = ".columns" if size == COLUMN_SIZES[0] else f".columns.batch{size}"
        cases += [
            (f"window.stddev{suffix}", events, partial(by_columns, _one(STDDEV), full), baseline),
            (f"window.median{suffix}", events, partial(by_columns, _one(MEDIAN), full), baseline),
            (f"window.nullable{suffix}", events, partial(by_columns, _one(MEAN, Sparse), nulls), baseline),
        ]
    return cases


def _one(aggregate: Monoid, event_type: EventType = Reading) -> Windows:
    return Windows(event_type, Hopping(SIZE, EVERY), {"value": (aggregate, "value")}, key="sensor", result=Aggregated)


def averages() -> Windows:
    """The operator."""
    return planned(SIZE, EVERY)


def planned(size: int, every: int) -> Windows:
    """Mean and largest value of each sensor over ``size``, every ``every`` (ns)."""
    values = {"mean": (MEAN, "value"), "most": (MAX, "value")}
    return Windows(Reading, Hopping(size, every), values, key="sensor", result=Average)
