"""Arrival times: measured, or drawn from delay models, in record batches on executors.

In Spark, rows have columns that a trace does not have: ``_position``, their position in the recording; ``_copy``, whether
the row is the second arrival of an event; ``_fifo``, whether its source's events queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from middleware.recordings.files.recording import Chunk, RecordingPart
from middleware.recordings.prepare.delays import Delays, Samples
from middleware.spark.by_value import make_portable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def measured(frame: DataFrame, has_arrival: bool, offset: int) -> DataFrame:
    """The frame with its own arrival times, shifted by ``offset`` (ns), or, if it has none, with the times of occurrence."""
    from pyspark.sql import functions as sql

    return frame.withColumn("arrival", sql.col("arrival") + offset if has_arrival else sql.col("ts"))


def draw(frame: DataFrame, drawer: DrawArrivals) -> DataFrame:
    """The frame with drawn arrival times, and with second arrivals."""
    from pyspark.sql import functions as sql

    frame = frame.drop("arrival")
    added = {"arrival": sql.lit(0).cast("bigint"), "_copy": sql.lit(False), "_fifo": sql.lit(False)}
    return frame.mapInArrow(make_portable(drawer), frame.withColumns(added).schema)


def queued(frame: DataFrame) -> DataFrame:
    """The frame with each event of a queueing source arriving no earlier than the one before it."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    before = Window.partitionBy("source").orderBy("ts", "id", "_copy").rowsBetween(Window.unboundedPreceding, 0)
    first = sql.when(~sql.col("_copy"), sql.col("arrival"))
    waited = sql.greatest(sql.max(first).over(before), sql.col("arrival"))
    return frame.withColumn("arrival", sql.when(sql.col("_fifo"), waited).otherwise(sql.col("arrival")))


class ReadDrawn:
    """Reads chunks of a recording and draws the arrival times at once."""

    def __init__(self, read: Callable[[Chunk], Iterator[RecordingPart]], drawer: DrawArrivals) -> None:
        self._read = read
        self._drawer = drawer

    def __call__(self, chunk: Chunk) -> Iterator[RecordingPart]:
        import pyarrow as pa

        for part in self._read(chunk):
            tables = {}
            for name, table in part.tables.items():
                bare = table.drop_columns("arrival") if "arrival" in table.column_names else table
                if bare.num_rows:
                    tables[name] = pa.Table.from_batches(self._drawer(bare.combine_chunks().to_batches(max_chunksize=262_144)))
            yield part._replace(tables=tables)


class DrawArrivals:
    """Adds drawn arrival times, and second copies of events, to record batches on an executor."""

    def __init__(self, delays: Delays, samples: Samples) -> None:
        self._delays = delays
        self._samples = samples

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield from self._drawn(batch)

    def _drawn(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        import numpy as np
        import pyarrow as pa

        ts, ids = batch.column("ts").to_numpy(), batch.column("id").to_numpy()
        sources = batch.column("source").dictionary_encode()
        codes = sources.indices.to_numpy()
        arrival, again = np.empty_like(ts), np.empty_like(ts)
        copied, fifo = np.zeros(len(ts), np.bool_), np.zeros(len(ts), np.bool_)
        for code, source in enumerate(sources.dictionary.to_pylist()):
            rows = np.flatnonzero(codes == code)
            arrival[rows] = self._delays.arrivals(source, ts[rows], ids[rows], self._samples)
            fifo[rows] = self._delays.for_source(source).fifo
            if self._delays.duplicates:
                again[rows] = self._delays.arrivals(source, ts[rows], ids[rows], self._samples, copy=True)
                copied[rows] = self._delays.duplicated(source, ids[rows])
        names = [*batch.schema.names, "arrival", "_copy", "_fifo"]
        yield pa.RecordBatch.from_arrays([*batch.columns, arrival, np.zeros(len(ts), np.bool_), fifo], names)
        if copied.any():
            columns = [
                *batch.filter(pa.array(copied)).columns,
                again[copied],
                np.ones(int(copied.sum()), np.bool_),
                fifo[copied],
            ]
            yield pa.RecordBatch.from_arrays(columns, names)
