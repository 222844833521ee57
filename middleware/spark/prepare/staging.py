"""The first pass of preparing a trace: executors read the chunks of a recording and write them, normalised."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from middleware.connect.files.recording import BASE_COLUMNS, Chunk, Part, Recording
from middleware.model.errors import TraceError
from middleware.spark.traces import BadLine, BadLines, type_folder

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.sql import SparkSession

FIRST_BAD_LINES = 20


@dataclass(frozen=True)
class Staged:
    """The result of the first pass: fields by type (Arrow type by name), rows by type, and the lines left out."""

    fields: dict[str, dict[str, str]]
    rows: dict[str, int]
    bad: BadLines


@dataclass(frozen=True)
class ChunkReport:
    """An executor's report on one chunk."""

    fields: dict[str, dict[str, str]]
    rows: dict[str, int]
    lines: int
    bad_count: int
    bad: list[tuple[int, str]]


def stage(spark: SparkSession, recording: Recording, folder: Path) -> Staged:
    """Read a recording into Parquet files under ``folder``, one for each chunk and type. Raises TraceError if it is empty."""
    chunks = list(enumerate(recording.chunks))
    reader = StageChunk(recording.read, str(folder))
    return staged(spark.sparkContext.parallelize(chunks, max(1, len(chunks))).map(reader).collect(), recording)


def staged(reports: Sequence[ChunkReport], recording: Recording) -> Staged:
    """What the reports on all chunks amount to. Raises TraceError if the recording is empty."""
    fields: dict[str, dict[str, str]] = {}
    rows: dict[str, int] = {}
    for report in reports:
        for name, some in report.fields.items():
            if fields.setdefault(name, some) != some:
                raise TraceError(f"{name} has the fields {some} in one chunk and {fields[name]} in another")
            rows[name] = rows.get(name, 0) + report.rows[name]
    bad = bad_lines(reports, recording)
    if not rows:
        hint = f"; line {bad.first[0].line} of {bad.first[0].file}: {bad.first[0].reason}" if bad.first else ""
        raise TraceError(f"{', '.join(recording.origin)}: no event to read as {recording.reader}{hint}")
    return Staged(fields, rows, bad)


def bad_lines(reports: Sequence[ChunkReport], recording: Recording) -> BadLines:
    """The broken lines of all chunks, numbered from 1 within their files (a header is line 1)."""
    found = BadLines(sum(report.bad_count for report in reports))
    before: dict[str, int] = {}
    for report, file in zip(reports, recording.file_of, strict=True):
        start = before.setdefault(file, 1 + recording.header_lines)
        for line, why in report.bad:
            if len(found.first) < FIRST_BAD_LINES:
                found.first.append(BadLine(file, start + line, why))
        before[file] = start + report.lines
    return found


class StageChunk:
    """Reads one chunk and writes it, on an executor; only the report goes to the driver."""

    def __init__(self, read: Callable[[Chunk], Iterator[Part]], folder: str) -> None:
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


class ChunkTally:
    """Counts what is read of one chunk."""

    def __init__(self) -> None:
        self._fields: dict[str, dict[str, str]] = {}
        self._rows: dict[str, int] = {}
        self._lines = 0
        self._bad_count = 0
        self._bad: list[tuple[int, str]] = []

    def add(self, part: Part) -> None:
        """Count a part's rows and lines."""
        for name, table in part.tables.items():
            if table.num_rows:
                fields = {n: str(k) for n, k in zip(table.schema.names, table.schema.types, strict=True)}
                own = {n: k for n, k in fields.items() if n not in BASE_COLUMNS and not n.startswith("_")}
                self._fields.setdefault(name, own)
                self._rows[name] = self._rows.get(name, 0) + table.num_rows
        room = FIRST_BAD_LINES - len(self._bad)
        self._bad += [(self._lines + line, why) for line, why in part.bad[:room]]
        self._bad_count += len(part.bad)
        self._lines += part.lines

    def report(self) -> ChunkReport:
        """What was counted."""
        return ChunkReport(self._fields, self._rows, self._lines, self._bad_count, self._bad)


class ChunkWriter:
    """The files of one chunk while they are being written."""

    def __init__(self, folder: Path, number: int) -> None:
        self._folder = folder
        self._number = number
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._files: dict[str, Path] = {}
        self._tally = ChunkTally()

    def write(self, part: Part) -> None:
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
