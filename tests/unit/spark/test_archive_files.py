"""Which files tasks of an archive read by themselves, and that they read each row once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from middleware.model.errors import TraceError
from middleware.model.event import Event
from middleware.spark.archive.files import ReadGroups, files_of
from middleware.spark.schemas import schema_of


class Reading(Event):
    sensor: str
    value: float | None


SCHEMA = schema_of(Reading)
TABLE = pa.table({"sensor": ["a", "b", "c"], "value": [1.0, None, 3.0], "ts": [1, 2, 3], "id": [1, 2, 3], "source": ["s"] * 3})


class Frame:
    """What Spark says of a frame that its reader of Parquet has made."""

    columns = TABLE.column_names

    def __init__(self, *places: Path | str) -> None:
        self._places = [place if isinstance(place, str) else place.as_uri() for place in places]

    def inputFiles(self) -> list[str]:
        return self._places


def written(file: Path, table: pa.Table = TABLE) -> Path:
    file.parent.mkdir(exist_ok=True)
    pq.write_table(table, file, row_group_size=2)
    return file


def found(*places: Path | str) -> Any:
    return files_of(Frame(*places), SCHEMA)  # type: ignore[arg-type]


@pytest.mark.parametrize("tasks", [1, 2, 3, 4])
def test_each_row_is_read_by_one_task(tmp_path: Path, tasks: int) -> None:
    files = found(*(written(tmp_path / f"a file {number}.parquet") for number in range(2)))
    assert [(number, rows) for _, number, rows in files.groups] == [(0, 2), (1, 1)] * 2

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    read = ReadGroups(files, tasks, rows)
    whole = [
        row for task in range(tasks) for batch in read(iter([pa.record_batch({"id": [task]})])) for row in batch.to_pylist()
    ]
    assert whole == TABLE.to_pylist() * 2


def test_spark_reads_what_it_may_see_in_another_way(tmp_path: Path) -> None:
    file = written(tmp_path / "one.parquet")
    assert found(file) is not None
    assert found() is not None, "no files, no events"
    other = TABLE.set_column(2, "ts", TABLE.column("ts").cast(pa.int32()))
    for place in (
        written(tmp_path / "narrower.parquet", other),
        written(tmp_path / "lacking.parquet", TABLE.drop_columns(["value"])),
        written(tmp_path / "sensor=a" / "part.parquet"),  # in a folder beside the first
        tmp_path / "gone.parquet",
        "s3a://bucket/part.parquet",
    ):
        assert found(file, place) is None, place


def test_a_file_that_an_executor_does_not_reach_is_named(tmp_path: Path) -> None:
    file = written(tmp_path / "one.parquet")
    read = ReadGroups(found(file), 1, list)  # type: ignore[arg-type]
    file.unlink()
    with pytest.raises(TraceError, match=r"one\.parquet cannot be read where a task runs: .*all executors must reach it"):
        read(iter([pa.record_batch({"id": [0]})]))
