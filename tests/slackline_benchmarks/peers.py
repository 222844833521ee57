"""``slackline bench peers``: the same tasks in bytewax, polars and duckdb, where installed, beside Slackline's whole path.

bytewax takes the events in their order of arrival. polars and duckdb take one table with all events at once, after the fact:
no batch, no disorder, no early result; so they say what columns can do, and each entry says so. ``.table``: Slackline has that
table, too (``run``), which it puts in order of time; its results are a table in total order, with identities.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from statistics import median
from typing import Any

from slackline import run
from slackline_benchmarks.pipeline import Alarms
from slackline_benchmarks.window_by_key import averages
from slackline_benchmarks.workload import ALARM, DELAY, EVERY, SIZE, SIZES, Average, batches, delayed, final, readings, timed

from middleware.model.errors import SlacklineError
from middleware.model.time import SECOND

EVENTS = 200_000
_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_WHOLE = "the peer has one table of all events after the fact: no batches, no disorder, nothing early"
_TABLE = "both have one table of all events; the results of the peer are in no order, and have no identities"
_ARRIVALS = "the peer takes single events in their order of arrival"

Peer = tuple[str, str, str, Callable[[list[Any]], Callable[[], int]]]
"""Task, library, a note on the comparison, and what makes a run of the events as they arrive; it returns how many results."""


def bench_peers(rounds: int, events: int = EVENTS) -> list[dict[str, Any]]:
    """Events per second of processor time (all threads): Slackline in batches of 256 through the barrier, and each peer."""
    found = [peer for peer in PEERS if find_spec(peer[1])]
    if not found:
        raise SlacklineError("none of the peers is installed: pip install bytewax polars duckdb pyarrow")
    arrived = delayed(readings(events))
    given = batches(arrived, SIZES[0])
    table = _table(arrived)
    ours: dict[str, Callable[[], int]] = {
        "window": lambda: len(final(averages(), given)),
        "window.table": lambda: int(run(table, [averages()]).table(Average).num_rows),
        "alarms": lambda: len(final(Alarms(), given)),
    }
    entries = []
    for task, library, note, made in found:
        work = made(arrived)
        if work() != ours[task]():
            raise SlacklineError(f"{library} does not find as many results as Slackline ({task}): one of the two is wrong")
        pairs = [(timed(ours[task]), timed(work)) for _ in range(rounds)]
        value, baseline = (events / median(side) for side in zip(*pairs, strict=True))
        ratio = median(theirs / own for own, theirs in pairs)
        of = {"value": value, "unit": "events/s", "baseline": baseline, "ratio": ratio, "note": note}
        entries.append({"name": f"peers.{task}.{library}", **of})
    return entries


def _bytewax_windows(arrived: list[Any]) -> Callable[[], int]:
    import bytewax.operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.operators import windowing
    from bytewax.testing import TestingSink, TestingSource, run_main

    rows = [(str(e.sensor), (_EPOCH + timedelta(microseconds=e.ts // 1_000), e.value)) for e in arrived]

    def add(total: Any, row: Any) -> Any:
        return (total[0] + 1, total[1] + row[1], max(total[2], row[1]))

    def merged(one: Any, other: Any) -> Any:
        return (one[0] + other[0], one[1] + other[1], max(one[2], other[2]))

    def run() -> int:
        out: list[Any] = []
        flow = Dataflow("windows")
        stream = op.input("in", flow, TestingSource(rows, batch_size=SIZES[0]))
        patience = timedelta(microseconds=DELAY // 1_000) + timedelta(seconds=60)  # its watermark moves with system time, too
        clock = windowing.EventClock(lambda row: row[0], wait_for_system_duration=patience)
        size, every = (timedelta(seconds=each // SECOND) for each in (SIZE, EVERY))
        windower = windowing.SlidingWindower(length=size, offset=every, align_to=_EPOCH - size)
        folded = windowing.fold_window("fold", stream, clock, windower, lambda: (0, 0.0, -1.0), add, merged)
        op.output("out", folded.down, TestingSink(out))
        run_main(flow)
        return len(out)

    return run


def _bytewax_alarms(arrived: list[Any]) -> Callable[[], int]:
    import bytewax.operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.testing import TestingSink, TestingSource, run_main
    from slackline_benchmarks.by_hand import in_order

    def smooth(before: float | None, value: float) -> tuple[float, list[float]]:
        was = before or 0.0
        now = was + 0.2 * (value - was)
        return now, [now] if now > ALARM >= was else []

    def run() -> int:
        out: list[Any] = []
        flow = Dataflow("alarms")
        rows = ((str(e.sensor), e.value) for ready in in_order(batches(arrived, SIZES[0])) for e in ready)
        stream = op.input("in", flow, TestingSource(rows, batch_size=SIZES[0]))
        op.output("out", op.stateful_flat_map("smooth", stream, smooth), TestingSink(out))
        run_main(flow)
        return len(out)

    return run


def _columns(arrived: list[Any]) -> dict[str, list[Any]]:
    return {name: [getattr(event, name) for event in arrived] for name in ("ts", "sensor", "value")}


def _table(arrived: list[Any]) -> Any:
    import pyarrow as pa

    return pa.table(_columns(arrived))


def _polars_windows(arrived: list[Any]) -> Callable[[], int]:
    import polars as pl

    table = pl.DataFrame(_columns(arrived))

    def run() -> int:
        first = (pl.col("ts") + EVERY - 1) // EVERY
        windows = table.select("sensor", "value", end=pl.int_ranges(first, first + SIZE // EVERY)).explode("end")
        return windows.group_by("sensor", "end").agg(mean=pl.col("value").mean(), most=pl.col("value").max()).height

    return run


def _duckdb_windows(arrived: list[Any]) -> Callable[[], int]:
    import duckdb

    table = _table(arrived)
    ends = f"generate_series((ts + {EVERY - 1}) // {EVERY}, (ts + {EVERY - 1}) // {EVERY} + {SIZE // EVERY - 1})"

    def run() -> int:
        with duckdb.connect() as database:
            database.register("readings", table)
            inner = f"SELECT sensor, value, unnest({ends}) AS window_end FROM readings"
            query = f"SELECT sensor, window_end, avg(value), max(value) FROM ({inner}) GROUP BY ALL"
            return database.execute(query).to_arrow_table().num_rows  # type: ignore[no-any-return]

    return run


PEERS: list[Peer] = [
    ("window", "bytewax", _ARRIVALS, _bytewax_windows),
    ("window", "polars", _WHOLE, _polars_windows),
    ("window", "duckdb", _WHOLE, _duckdb_windows),
    ("window.table", "polars", _TABLE, _polars_windows),
    ("window.table", "duckdb", _TABLE, _duckdb_windows),
    ("alarms", "bytewax", f"{_ARRIVALS}, put in order by hand", _bytewax_alarms),
]
