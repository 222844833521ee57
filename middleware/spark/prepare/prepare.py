"""Prepares a trace: Spark reads a recording, gives each event its id and arrival time, sorts by arrival, writes Parquet.

A small recording can be prepared in this process (``local``). Spark makes three passes: executors read and normalise
(``staging``); Spark numbers, delays and sorts; executors write the sorted partitions. All this happens in a folder beside the
trace's own; it gets the trace's name only when the trace is complete.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from middleware.model.errors import TraceError
from middleware.recordings.files.recording import BASE_COLUMNS, Recording
from middleware.recordings.files.tally import StagingResult
from middleware.recordings.files.text import expanded
from middleware.recordings.prepare.delays import Delays, Empirical, Samples, measured_delays
from middleware.recordings.prepare.describe import describe, trace_warnings
from middleware.recordings.traces import DESCRIPTION, Trace, type_folder
from middleware.spark.by_value import make_portable
from middleware.spark.jobs import interruptible
from middleware.spark.prepare.arrival_times import DrawArrivals, ReadDrawn, draw, measured, queued
from middleware.spark.prepare.local import LocalPreparation
from middleware.spark.prepare.staging import stage
from middleware.spark.session import FailedRunError, literal_path, reason, spark_session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

ROWS_PER_FILE = 2_000_000
ROWS_PER_GROUP = 16_384
"""Rows that one task of a feed reads at once: few, so that several can share a recording of seconds."""

DRAWN_ORDER = ("arrival", "ts", "source", "id", "_position")
"""The last for events that clash: all ways of sorting give the same trace."""
MEASURED_ORDER = ("arrival", "_position")
"""Events that arrived in the same nanosecond keep the order of the recording, if that is in arrival order."""

Progress = Callable[[str], None]


def prepare(
    recording: Recording,
    folder: str | Path,
    delays: Delays | None = None,
    *,
    force: bool = False,
    cores: int = 2,
    progress: Progress = lambda step: None,
    rows_per_file: int = ROWS_PER_FILE,
    in_process: bool = False,
    rows_per_group: int = ROWS_PER_GROUP,
    master: str | None = None,
    spark: SparkSession | None = None,
) -> Trace:
    """Write ``recording`` as a trace to ``folder`` and return its description.

    ``delays``
        the source of arrival times. None: the measured ones, or ts itself if the recording has none.
    ``force``
        replace an existing trace.
    ``progress``
        called with the name of each step as it begins.
    ``in_process``
        prepare it in this process, without Spark: the same trace. Raises TooLargeError if it is too large for that.
    ``master``, ``spark``
        whose Spark does it, on how many ``cores`` if it is a local one: see ``spark_session``.

    Raises TraceError, and then leaves ``folder`` as it was. O(n log n), on disk where memory is short.
    """
    target = expanded(Path(folder)).resolve()
    if target.exists() and not force:
        raise TraceError(f"{target} is there already: name another folder, or say --force to replace it")
    if target.exists() and not (target / DESCRIPTION).exists() and (not target.is_dir() or any(target.iterdir())):
        raise TraceError(f"{target} is there and is no trace: it will not be replaced")
    if inside := [each for each in recording.origin if target in Path(each).resolve().parents]:
        raise TraceError(f"{inside[0]} lies in {target}, which would be replaced: name another folder")
    samples = (
        {model.path: measured_delays(model.path) for model in delays.models if isinstance(model, Empirical)} if delays else {}
    )
    work = _work_folder(target)
    try:
        if in_process:
            local = LocalPreparation(recording, delays, samples, progress, partial(_written, rows_per_file, rows_per_group))
            staged, offset = local.run(work / "trace")
        else:
            progress("starting Spark")
            with spark_session(cores, work=work, master=master, spark=spark) as session:
                staged, offset = interruptible(
                    _Preparation(session, recording, work, delays, samples, progress, rows_per_file, rows_per_group).run
                )
        trace = _described(recording, delays, staged, work / "trace", offset, progress)
        (work / "trace" / DESCRIPTION).write_bytes(msgspec.json.format(msgspec.json.encode(trace), indent=2) + b"\n")
        _replace(target, work)
    except TraceError:
        raise
    except OSError as error:
        raise FailedRunError(f"the trace {target} cannot be written: {error}; nothing of it is kept") from error
    except Exception as error:
        if type(error).__module__.startswith(("py4j", "pyspark")):
            raise FailedRunError(f"the trace {target} cannot be written: {reason(error)}; nothing of it is kept") from error
        raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return trace


def _work_folder(target: Path) -> Path:
    """A new folder on the same disk as the trace, so that renaming it is one step."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent))
    except OSError as error:
        raise TraceError(f"nothing can be written in {target.parent}: {error.strerror}") from None


def _replace(target: Path, work: Path) -> None:
    if target.exists():
        os.rename(target, work / "old")
    os.rename(work / "trace", target)


@dataclass(frozen=True)
class _Preparation:
    """The preparation of one trace in Spark."""

    spark: SparkSession
    recording: Recording
    work: Path
    delays: Delays | None
    samples: Samples
    progress: Progress
    rows_per_file: int
    rows_per_group: int

    def run(self) -> tuple[StagingResult, int]:
        """Read, sort and write; returns what was read, and the clock offset (ns)."""
        self.progress("reading")
        # If ids are known already, arrival times are drawn while reading, which saves a pass through Java.
        early = self.delays is not None and self.recording.number is None
        recording = self.recording
        if self.delays is not None and early:
            recording = replace(recording, read=ReadDrawn(recording.read, DrawArrivals(self.delays, self.samples)))
        staged = stage(self.spark, recording, self.work / "staged")
        frames = {name: self._staged(name) for name in staged.fields}
        if self.recording.number:
            frames = self.recording.number.frames(frames)
        offset = 0
        if self.recording.align and self.delays is None:
            offset = max(map(_offset, frames.values()))
        for name, fields in staged.fields.items():
            self.progress(f"sorting {name}")
            self._write(self._arrived(frames[name], early, offset), name, fields, staged.rows[name])
        return staged, offset

    def _staged(self, name: str) -> DataFrame:
        """One type's events as they were read."""
        return self.spark.read.parquet(literal_path(type_folder(self.work / "staged", name)))

    def _arrived(self, frame: DataFrame, drawn: bool, offset: int) -> DataFrame:
        """One type's events with their arrival times."""
        if self.delays is None:
            return measured(frame, self.recording.measured, offset)
        if not drawn:
            frame = draw(frame, DrawArrivals(self.delays, self.samples))
        return queued(frame) if any(model.fifo for model in self.delays.models) else frame

    def _write(self, frame: DataFrame, name: str, fields: Mapping[str, str], rows: int) -> None:
        """Write one type's events sorted by arrival, in as many files as their number needs."""
        order = MEASURED_ORDER if self.recording.measured and self.delays is None else DRAWN_ORDER
        parts = -(-rows // self.rows_per_file)
        spread = frame.repartitionByRange(parts, *order) if parts > 1 else frame.coalesce(1)
        ordered = spread.sortWithinPartitions(*order).select(*BASE_COLUMNS, *fields)
        folder = type_folder(self.work / "trace", name)
        folder.mkdir(parents=True)
        ordered.mapInArrow(make_portable(WritePart(str(folder), self.rows_per_group)), "file string, rows bigint").collect()


def _described(
    recording: Recording, delays: Delays | None, staged: StagingResult, folder: Path, offset: int, progress: Progress
) -> Trace:
    """The description of a trace that is written."""
    types = {}
    for name, fields in staged.fields.items():
        progress(f"describing {name}")
        types[name] = describe(folder, name, fields)
    is_mapped = recording.reader.startswith("mapping")
    return Trace(
        reader=recording.reader,
        origin=list(recording.origin),
        types=types,
        delays=delays.describe() if delays else None if recording.measured else "constant(delay=0ns)",
        seed=delays.seed if delays else None,
        clock_offset=offset,
        bad_lines=staged.bad,
        lost_cells=staged.lost,
        warnings=[each for name, one in types.items() for each in trace_warnings(name, one, is_mapped)],
    )


def _written(rows_per_file: int, rows_per_group: int, table: pa.Table, folder: Path) -> None:
    """Write the sorted events of a type, in as many files as their number needs."""
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    for number, start in enumerate(range(0, table.num_rows, rows_per_file)):
        file = folder / f"part-{number:05d}.parquet"
        pq.write_table(table.slice(start, rows_per_file), file, compression="zstd", row_group_size=rows_per_group)


def _offset(frame: DataFrame) -> int:
    """The offset (ns) to add to measured arrivals so that the shortest delay is 0."""
    from pyspark.sql import functions as sql

    row = frame.agg(sql.min(sql.col("arrival") - sql.col("ts"))).first()
    return -int(row[0]) if row is not None else 0


class WritePart:
    """Writes one sorted partition as one Parquet file, on an executor."""

    def __init__(self, folder: str, rows_per_group: int) -> None:
        self._folder = folder
        self._rows_per_group = rows_per_group

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.parquet as pq
        from pyspark import TaskContext

        context = TaskContext.get()
        file = Path(self._folder, f"part-{context.partitionId() if context else 0:05d}.parquet")
        part = file.with_name(f".{file.name}.{os.getpid()}")
        writer = None
        rows = 0
        try:
            for batch in batches:
                if writer is None:
                    writer = pq.ParquetWriter(part, batch.schema, compression="zstd")
                writer.write_batch(batch, row_group_size=self._rows_per_group)
                rows += batch.num_rows
            if writer is not None:
                writer.close()
                part.rename(file)
        except OSError as error:
            raise TraceError(f"{file.parent} cannot be written: {error}") from None
        yield pa.RecordBatch.from_pydict({"file": [file.name], "rows": pa.array([rows], pa.int64())})
