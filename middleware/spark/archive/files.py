"""Events in Parquet files that tasks read by themselves, each its own row groups: Spark would decode them to rows, only to make
columns of these for Python again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from middleware.model.block.arrays import sound
from middleware.model.errors import TraceError
from middleware.spark.by_value import make_portable
from middleware.spark.schemas import EventSchema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_ROWS = 1_000_000
"""Rows of a task, unless its row groups are larger."""

_AT_ONCE = 65_536
"""Rows that are read at once."""

RowGroup = tuple[str, int, int]
"""File, number of the row group, rows."""


@dataclass(frozen=True)
class EventFiles:
    """Events of one type, in row groups of files that executors reach by these paths. ``frame``: the same as Spark has them."""

    frame: DataFrame
    groups: tuple[RowGroup, ...]
    columns: tuple[str, ...]

    def mapInArrow(self, work: Work, schema: str) -> DataFrame:
        """As that of ``frame``."""
        tasks = max(1, min(len(self.groups), sum(rows for _, _, rows in self.groups) // _ROWS))
        reading = make_portable(ReadGroups(self, tasks, work))
        return self.frame.sparkSession.range(0, tasks, 1, tasks).mapInArrow(reading, schema)


def files_of(frame: DataFrame, schema: EventSchema) -> EventFiles | None:
    """The files that Spark's reader of Parquet finds for a frame that it has just made.

    None unless tasks can read them as they are: local paths, of a single folder, that hold the columns as the type has them.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = [column for column in schema.columns if column.name != "level" or "level" in frame.columns]
    urls = [urlsplit(name) for name in frame.inputFiles()]
    paths = [Path(unquote(url.path)) for url in urls]
    if any(url.scheme != "file" for url in urls) or len({path.parent for path in paths}) > 1:
        return None  # a folder in a folder may hold a column in its name
    groups = []
    for path in sorted(paths):
        try:
            with pq.ParquetFile(path) as file:
                known, metadata = file.schema_arrow, file.metadata
        except (pa.ArrowException, OSError):  # Spark says better what is wrong with it, or is elsewhere
            return None
        for column in columns:
            if column.name not in known.names or known.field(column.name).type != column.kind.arrow:
                return None
        groups += [(str(path), number, metadata.row_group(number).num_rows) for number in range(metadata.num_row_groups)]
    return EventFiles(frame, tuple(groups), tuple(column.name for column in columns))


class ReadGroups:
    """Gives a task the rows of its row groups, in place of its number."""

    def __init__(self, files: EventFiles, tasks: int, work: Work) -> None:
        self._groups, self._columns, self._tasks, self._work = files.groups, files.columns, tasks, work

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = [number for batch in batches for number in batch.column(0).to_pylist()]
        return self._work(batch for number in numbers for batch in self._rows(number))

    def _rows(self, number: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        count = len(self._groups)
        mine: Sequence[RowGroup] = self._groups[count * number // self._tasks : count * (number + 1) // self._tasks]
        for path, some in groupby(mine, itemgetter(0)):
            numbers = [group for _, group, _ in some]
            try:
                with pq.ParquetFile(path) as file:
                    for batch in file.iter_batches(_AT_ONCE, numbers, list(self._columns), use_threads=False):
                        yield sound(batch.select(list(self._columns)))
            except (pa.ArrowException, OSError, ValueError) as error:
                raise TraceError(f"{path} cannot be read where a task runs: {error}; all executors must reach it") from None
