"""Results have timestamps where their event time is Unix time, and whole nanoseconds elsewhere; both are read back exactly."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slackline import COUNT, Block, Detector, Event, SlacklineError, Tumbling, Windows, run

from middleware.cli.result_files import write_results
from middleware.model.quantities import UNIX_TIMES
from middleware.recordings.tables.result_tables import results_table

UTC = pa.timestamp("ns", "UTC")
WALL = st.integers(UNIX_TIMES.start, UNIX_TIMES.stop - 1)
OWN = st.integers(-(2**60), 600_000_000)
"""Times that are no dates in any unit: those that could be are asked about, unless their column says that it has timestamps."""


class Reading(Event):
    x: float


class Copy(Event):
    x: float


class Copying(Detector):
    subscribes, publishes = (Reading,), (Copy,)

    def on_event(self, event: Any) -> Copy:
        return Copy(event.x, ts=event.ts)


class Again(Detector):
    subscribes, publishes = (Copy,), (Reading,)

    def on_event(self, event: Any) -> Reading:
        return Reading(event.x, ts=event.ts)


def readings(times: list[int]) -> list[Reading]:
    return [Reading(float(n), ts=ts, id=n, source="plc") for n, ts in enumerate(times)]


def copies(times: list[int]) -> Any:
    return run(readings(times), [Copying()])


def times_of(events: list[Any]) -> list[int]:
    return [event.ts for event in events]


READ_BACK: list[Callable[[Any], Any]] = [
    lambda result: result.table(Copy),
    lambda result: result.frame(Copy),
    lambda result: result.frame(Copy, "polars"),
    lambda result: results_table(result.of(Copy)),
]


@pytest.mark.parametrize("table_of", READ_BACK)
@given(st.one_of(st.lists(WALL, min_size=1, max_size=5), st.lists(OWN, min_size=1, max_size=5)))
def test_times_are_the_same_when_they_are_read_back(table_of: Callable[[Any], Any], times: list[int]) -> None:
    result = copies(times)
    again = run(table_of(result), [Again()])
    assert times_of(again.of(Reading)) == times_of(result.of(Copy)) == sorted(times)


@given(st.lists(WALL, min_size=1, max_size=5))
def test_publishers_take_a_table_of_results(times: list[int]) -> None:
    assert Block.of(Copy, copies(times).table(Copy)).times.tolist() == sorted(times)


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize("first", [1_700_000_000_123_456_789, 75_250_000_001])
def test_files_are_read_back_exactly(kind: str, first: int, tmp_path: Path) -> None:
    result = copies([first + 7 * n for n in range(20)])
    file = tmp_path / f"copies.{kind}"
    write_results(result.of(Copy), str(file))
    assert times_of(run(file, [Again()]).of(Reading)) == times_of(result.of(Copy))
    read = pd.read_parquet(file) if kind == "parquet" else pa.ipc.open_file(file).read_all().to_pandas()
    assert read["ts"].astype("int64").tolist() == times_of(result.of(Copy))
    assert str(read["ts"].dtype) == ("datetime64[ns, UTC]" if first in UNIX_TIMES else "int64")


def test_the_clock_of_the_input_decides_also_where_there_are_no_results() -> None:
    class None_(Detector):
        subscribes, publishes = (Reading,), (Copy,)

        def on_event(self, event: Reading) -> None:
            return None

    wall, own = (run(readings([ts]), [None_()]) for ts in (UNIX_TIMES.start, UNIX_TIMES.start - 1))
    assert wall.table(Copy).schema.field("ts").type == UTC
    assert own.table(Copy).schema.field("ts").type == run([], [None_()]).table(Copy).schema.field("ts").type == pa.int64()


def test_a_few_wrong_clocks_do_not_change_the_columns() -> None:
    times = [0, *(1_700_000_000 * 10**9 + n for n in range(5)), UNIX_TIMES.stop + 5]
    table = copies(times).table(Copy)
    assert table.schema.field("ts").type == UTC and table["ts"].cast(pa.int64()).to_pylist() == times


def test_columns_of_windows_have_timestamps_too() -> None:
    start = 1_700_000_000 * 10**9
    frame = pd.DataFrame({"ts": pd.to_datetime([start + n * 10**9 for n in range(30)], utc=True), "x": 1.0})
    counts = Windows(Reading, Tumbling("10s"), {"n": COUNT})
    found = run(frame, [counts]).frame(counts.result)
    assert str(found["ts"].dtype) == "datetime64[ns, UTC]"
    assert found.set_index("ts")["n"].resample("1min").sum().sum() == 30


def test_frames_are_of_pandas_or_polars() -> None:
    result = copies([1_700_000_000_123_456_789])
    assert isinstance(result.frame(Copy), pd.DataFrame) and isinstance(result.frame("Copy", "pandas"), pd.DataFrame)
    frame = result.frame("Copying", "polars")
    assert isinstance(frame, pl.DataFrame) and frame.schema["ts"] == pl.Datetime("ns", "UTC")
    with pytest.raises(SlacklineError, match='library is "pandas" or "polars", not "spark"'.replace('"spark"', "'spark'")):
        result.frame(Copy, "spark")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_library_that_is_missing_is_named(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    result = copies([1])
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(SlacklineError, match=f"this needs {library}; pip install {library}"):
        result.frame(Copy, library)


def test_a_database_has_the_nanoseconds(tmp_path: Path) -> None:
    result = copies([1_700_000_000_123_456_789])
    write_results(result.of(Copy), str(tmp_path / "copies.duckdb"))
    with duckdb.connect(str(tmp_path / "copies.duckdb")) as database:
        ((kind, at),) = database.execute('SELECT typeof(ts), epoch_ns(ts) FROM "Copy"').fetchall()
    assert (kind, at) == ("TIMESTAMP_NS", 1_700_000_000_123_456_789)
