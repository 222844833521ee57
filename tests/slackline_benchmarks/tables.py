"""``slackline bench tables``: a detector over a table through ``run``, beside pandas iterating the same detector by hand."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

from slackline import Detector, Event, Policies, run

from detectors.window import MEAN, Tumbling, Windows
from middleware.model.time import SECOND

ROWS = 200_000
_STATIONS = 20
_WIDTH = 10 * SECOND


class Reading(Event):
    """A made-up measurement."""

    station: int
    celsius: float


class Warm(Event):
    """A station that became warmer than 20 degrees."""

    station: int
    celsius: float


MEANS = Windows(Reading, Tumbling(_WIDTH), {"mean": (MEAN, "celsius")}, key="station")


class Warming(Detector):
    """Each time that a station becomes warmer than 20 degrees."""

    subscribes, publishes, key = (Reading,), (Warm,), "station"

    def __init__(self) -> None:
        self.was = True

    def on_event(self, event: Any) -> Warm | None:
        before, self.was = self.was, event.celsius > 20
        return Warm(event.station, event.celsius, ts=event.ts) if self.was and not before else None


def bench_tables(rounds: int = 5) -> list[dict[str, Any]]:
    """Rows a second of a pandas frame of 200,000; the median of ``rounds``, in turn with other ways over the same frame.

    ``tables.iterrows`` is beside ``frame.iterrows()``, ``tables.itertuples`` beside ``frame.itertuples()``: both sort the
    frame, make an event of each row and give it to the detector of its station. ``tables.windows.*`` are means by station over
    10 s, from the frame to a table: beside a loop over ``frame.itertuples()`` with a dict of sums, and a group-by of polars.
    All ways must find the same.
    """
    frame = readings()
    return [
        *_compared("tables", frame, rounds, {"run": _run, "iterrows": _iterrows, "itertuples": _itertuples}),
        *_compared(
            "tables.windows", frame, rounds, {"run": _windows, "itertuples": _windows_itertuples, "polars": _windows_polars}
        ),
    ]


def _compared(label: str, frame: Any, rounds: int, ways: dict[str, Callable[[Any], int]]) -> list[dict[str, Any]]:
    """The first of some ways beside each of the others."""
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        counts = {}
        for name, way in ways.items():
            began = time.perf_counter()
            counts[name] = way(frame)
            rates[name].append(ROWS / (time.perf_counter() - began))
        assert len(set(counts.values())) == 1, counts
    value, *baselines = [(name, median(each)) for name, each in rates.items()]
    return [
        {"name": f"{label}.{name}", "value": value[1], "unit": "rows/s", "baseline": each, "ratio": value[1] / each}
        for name, each in baselines
    ]


def readings(rows: int = ROWS) -> Any:
    """A frame of made-up measurements, not sorted by time."""
    import numpy as np
    import pandas as pd

    chance = np.random.default_rng(7)
    columns = {
        "ts": 1_700_000_000_000_000_000 + chance.permutation(rows) * 1_000_000,
        "station": chance.integers(0, _STATIONS, rows),
        "celsius": chance.normal(18, 2, rows),
    }
    return pd.DataFrame(columns)


def _run(frame: Any) -> int:
    return len(run(frame, [Warming()], policies=Policies(alpha=1.0), batch=4_096).finals["Warming"])


def _iterrows(frame: Any) -> int:
    detectors = {station: Warming() for station in range(_STATIONS)}
    found = 0
    for _, row in frame.sort_values("ts").iterrows():
        event = Reading(int(row["station"]), float(row["celsius"]), ts=int(row["ts"]))
        found += detectors[event.station].on_event(event) is not None
    return found


def _itertuples(frame: Any) -> int:
    detectors = {station: Warming() for station in range(_STATIONS)}
    found = 0
    for row in frame.sort_values("ts").itertuples():
        event = Reading(row.station, row.celsius, ts=row.ts)
        found += detectors[event.station].on_event(event) is not None
    return found


def _windows(frame: Any) -> int:
    return int(run(frame, [MEANS]).table(MEANS.result).num_rows)


def _windows_itertuples(frame: Any) -> int:
    sums: dict[tuple[int, int], list[float]] = {}
    for row in frame.itertuples(index=False):
        cell = sums.setdefault((row.station, -(-row.ts // _WIDTH)), [0.0, 0])
        cell[0] += row.celsius
        cell[1] += 1
    return len({key: total / count for key, (total, count) in sums.items()})


def _windows_polars(frame: Any) -> int:
    import polars as pl

    ends = (pl.col("ts") + (_WIDTH - 1)) // _WIDTH
    return pl.from_pandas(frame).group_by("station", ends.alias("end")).agg(pl.col("celsius").mean()).height
