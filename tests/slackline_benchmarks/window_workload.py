"""The rounds of the paper's experiments (VLDB 2019, section 5): evict the oldest, insert at a fixed distance, query.

The window is filled with ``n - distance`` old entries and ``distance`` ones of the far future, so that each new one is inserted
at just that distance from the young end.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from detectors.window.aggregation.fiba import Aggregator
from detectors.window.aggregation.monoid import Monoid

FAR = 1 << 40
BATCH = 10_000


def values_for(monoid: Monoid, count: int) -> Any:
    """Numbers to aggregate: whole ones, or floats above 1, as the monoid wants them."""
    numbers = np.arange(count, dtype=np.int64) * 7_919 % 997
    return numbers + 1.5 if monoid.native is not None and monoid.native[1] == "float" else numbers


def filled(kind: Callable[..., Aggregator], monoid: Monoid, n: int, distance: int, **options: Any) -> Aggregator:
    """A window of n entries, ready for rounds at a distance."""
    window = kind(monoid, **options)
    times = np.concatenate([np.arange(n - distance), FAR + np.arange(distance)]).astype(np.int64)
    window.bulk_insert(times, values_for(monoid, n))
    return window


def columns(monoid: Monoid, n: int, distance: int, rounds: int) -> tuple[Any, Any, Any]:
    """Times to evict, times to insert, and values, for so many rounds. At distance n each evicts what the last inserted."""
    inserted = np.arange(rounds, dtype=np.int64) + (n - distance)
    evicted = np.arange(rounds, dtype=np.int64) if distance < n else np.maximum(inserted - 1, -1)
    return evicted, inserted, values_for(monoid, rounds)


def batches(window: Aggregator, evicted: Any, inserted: Any, values: Any) -> None:
    """Rounds in columns of ``BATCH``."""
    for start in range(0, len(inserted), BATCH):
        part = slice(start, start + BATCH)
        window.rounds(evicted[part], inserted[part], values[part])


def fused_calls(window: Aggregator, evicted: Any, inserted: Any, values: Any) -> None:
    """Rounds by one call each."""
    one_round = window.round
    for gone, ts, value in zip(evicted, inserted, values, strict=True):
        one_round(gone, ts, value)


def three_calls(window: Aggregator, evicted: Any, inserted: Any, values: Any) -> None:
    """Rounds by three calls each."""
    evict, insert, query = window.evict, window.insert, window.query
    for gone, ts, value in zip(evicted, inserted, values, strict=True):
        evict(gone)
        insert(ts, value)
        query()


def cost(work: Callable[[], Any], rounds: int) -> float:
    """Processor time of this process, ns a round."""
    gc.collect()
    started = time.process_time_ns()
    work()
    return (time.process_time_ns() - started) / rounds
