"""Prepares a small recording in this process: the same trace as Spark's, without a Java to start. Everything is in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from middleware.recordings.files.recording import BASE_COLUMNS, Recording, source_codes
from middleware.recordings.files.recording_reading import arrived, read, sorted_by_arrival
from middleware.recordings.files.tally import StagingResult
from middleware.recordings.prepare.delays import Delays, Samples
from middleware.recordings.traces import type_folder
from middleware.spark.prepare.arrival_times import DrawArrivals

if TYPE_CHECKING:
    import pyarrow as pa

LARGEST = 512 << 20
"""The bytes that a recording may have in its files, and read in memory, to be prepared in this process."""


def is_small(recording: Recording) -> bool:
    """Whether the recording's files are small enough to try. Their content may still be too much: see TooLargeError."""
    return sum(path.stat().st_size for path in {Path(file) for file in recording.file_of} if path.is_file()) <= LARGEST


@dataclass(frozen=True)
class LocalPreparation:
    """The preparation of one trace in this process. ``write``: writes a sorted table of a type as files of the trace."""

    recording: Recording
    delays: Delays | None
    samples: Samples
    progress: Callable[[str], None]
    write: Callable[[pa.Table, Path], None]

    def run(self, folder: Path) -> tuple[StagingResult, int]:
        """Write the types under ``folder``; returns what was read, and the clock offset (ns). Raises TraceError."""
        self.progress("reading")
        found, tables = read(self.recording, LARGEST)
        offset = 0
        if self.delays is None:
            tables, offset = arrived(self.recording, tables)
        else:
            numbered = self.recording.number.tables(tables) if self.recording.number else tables
            tables = {name: self._drawn(table) for name, table in numbered.items()}
        by_position = self.recording.measured and self.delays is None
        for name, table in tables.items():
            self.progress(f"sorting {name}")
            ordered = sorted_by_arrival(table, by_position)
            self.write(ordered.select([*BASE_COLUMNS, *found.fields[name]]), type_folder(folder, name))
        return found, offset

    def _drawn(self, table: pa.Table) -> pa.Table:
        """One type's events with drawn arrival times."""
        import pyarrow as pa

        assert self.delays is not None
        bare = table.drop_columns("arrival") if "arrival" in table.column_names else table
        drawn = pa.Table.from_batches(DrawArrivals(self.delays, self.samples)(bare.combine_chunks().to_batches()))
        return _queued(drawn) if any(model.fifo for model in self.delays.models) else drawn


def _queued(table: pa.Table) -> pa.Table:
    """The table with each event of a queueing source arriving no earlier than the one before it."""
    import numpy as np

    codes, arrival = source_codes(table), table["arrival"].to_numpy()
    copy, fifo = (table[name].to_numpy() for name in ("_copy", "_fifo"))
    order = np.lexsort((copy, table["id"].to_numpy(), table["ts"].to_numpy(), codes))
    waited = np.where(copy, np.iinfo(np.int64).min, arrival)[order]
    bounds = [*np.flatnonzero(np.diff(codes[order], prepend=-1)).tolist(), len(order)]
    for start, end in pairwise(bounds):
        np.maximum.accumulate(waited[start:end], out=waited[start:end])
    queued = np.empty_like(arrival)
    queued[order] = waited
    found = np.where(fifo, np.maximum(queued, arrival), arrival)
    return table.set_column(table.column_names.index("arrival"), "arrival", [found])
