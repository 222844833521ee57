"""Likely faults of a recording are reported: times in another unit, and repeats that are none."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from middleware.recordings.prepare.describe import describe, trace_warnings
from middleware.recordings.traces import TypeTrace, type_folder

NOW = 1_700_000_000 * 10**9


def described(folder: Path, rows: list[tuple[int, int, str, float | None]]) -> TypeTrace:
    """Events of (ts, id, source, celsius), in this order of arrival."""
    columns = dict(zip(("ts", "id", "source", "celsius"), zip(*rows, strict=True), strict=True))
    place = type_folder(folder, "Heat")
    place.mkdir(parents=True)
    pq.write_table(pa.table({"arrival": list(range(len(rows))), **columns}), place / "part-00000.parquet", row_group_size=2)
    return describe(folder, "Heat", {"celsius": "double"})


def test_clashes_are_distinguished_from_repeats(tmp_path: Path) -> None:
    first = (NOW, 1, "a", 20.0)
    found = described(tmp_path, [first, (NOW, 1, "b", 20.0), first, (NOW, 1, "a", 21.0), (NOW + 1, 1, "b", 20.0), first])
    assert (found.duplicates, found.clashes) == (4, 2)
    (warning,) = trace_warnings("Heat", found, is_mapped=True)
    assert warning.startswith("2 events of Heat have the source and id of another one")


def test_repeats_alone_give_no_warning(tmp_path: Path) -> None:
    found = described(tmp_path, [(NOW, 1, "a", None), (NOW, 1, "a", None), (NOW, 2, "a", float("nan"))])
    assert (found.duplicates, found.clashes) == (1, 0)
    assert trace_warnings("Heat", found, is_mapped=True) == []


@pytest.mark.parametrize(
    ("factor", "message"),
    [(1e-3, "a thousand times larger"), (1e-6, "a million times larger"), (1e-9, "a thousand million times larger")],
)
def test_times_in_a_wrong_unit_are_noticed(tmp_path: Path, factor: float, message: str) -> None:
    found = described(tmp_path, [(int(NOW * factor), 1, "a", 1.0), (int((NOW + 10**12) * factor), 2, "a", 1.0)])
    (warning,) = trace_warnings("Heat", found, is_mapped=True)
    assert message in warning
    assert "2023-11-14" in warning
    assert trace_warnings("Heat", found, is_mapped=False) == []


def test_times_that_count_from_the_beginning_of_the_recording_give_no_warning(tmp_path: Path) -> None:
    found = described(tmp_path, [(0, 1, "a", 1.0), (3_600 * 10**9, 2, "a", 1.0)])
    assert trace_warnings("Heat", found, is_mapped=True) == []
