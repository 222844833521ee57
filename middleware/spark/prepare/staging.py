"""The first pass of preparing a trace: executors read the chunks of a recording and write them, normalised."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from middleware.model.errors import TraceError
from middleware.recordings.files.recording import Chunk, Recording, RecordingPart
from middleware.recordings.files.tally import ChunkReport, ChunkTally, StagingResult, staged
from middleware.recordings.traces import type_folder
from middleware.spark.by_value import make_portable

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.sql import SparkSession


def stage(spark: SparkSession, recording: Recording, folder: Path) -> StagingResult:
    """Read a recording into Parquet files under ``folder``, one for each chunk and type. Raises TraceError if it is empty."""
    chunks = list(enumerate(recording.chunks))
    reader = StageChunk(recording.read, str(folder))
    path = [entry or os.getcwd() for entry in sys.path]

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        # generators go by name, and the session may be older than the path on which this process finds them
        sys.path += [place for place in path if place not in sys.path and os.path.isdir(place)]
        for batch in batches:
            reports = [pickle.dumps(reader(chunks[at])) for at in batch.column(0).to_pylist()]
            yield pa.RecordBatch.from_pydict({"report": pa.array(reports, pa.binary())})

    tasks = max(1, len(chunks))
    rows = (
        spark.range(0, len(chunks), 1, tasks).mapInArrow(make_portable(run), "report binary").collect()
    )  # Connect has no RDDs
    return staged([pickle.loads(row.report) for row in rows], recording)


class StageChunk:
    """Reads one chunk and writes it, on an executor; only the report goes to the driver."""

    def __init__(self, read: Callable[[Chunk], Iterator[RecordingPart]], folder: str) -> None:
        self._read = read
        self._folder = Path(folder)

    def __call__(self, numbered: tuple[int, Chunk]) -> ChunkReport:
        number, chunk = numbered
        report = ChunkWriter(self._folder, number)
        try:
            for part in self._read(chunk):
                report.write(part)
            return report.close()
        except OSError as error:
            raise TraceError(f"{self._folder} cannot be written: {error}") from None


class ChunkWriter:
    """The files of one chunk while they are being written."""

    def __init__(self, folder: Path, number: int) -> None:
        self._folder = folder
        self._number = number
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._files: dict[str, Path] = {}
        self._tally = ChunkTally()

    def write(self, part: RecordingPart) -> None:
        """Write a part's tables; count its lines."""
        for name, table in part.tables.items():
            if table.num_rows:
                self._writer(name, table.schema).write_table(table)
        self._tally.add(part)

    def close(self) -> ChunkReport:
        """Give the files their final names; returns the report."""
        for name, writer in self._writers.items():
            writer.close()
            part = self._files[name]
            part.rename(part.with_name(f"chunk-{self._number:06d}.parquet"))
        return self._tally.report()

    def _writer(self, name: str, schema: pa.Schema) -> pq.ParquetWriter:
        import pyarrow.parquet as pq

        if name not in self._writers:
            folder = type_folder(self._folder, name)
            folder.mkdir(parents=True, exist_ok=True)
            self._files[name] = folder / f".chunk-{self._number:06d}.{os.getpid()}"
            self._writers[name] = pq.ParquetWriter(self._files[name], schema, compression="snappy")
        return self._writers[name]
