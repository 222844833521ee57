"""The row groups of a trace's files: the arrivals in each, and the cuts of a trace into slices of arrival time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from middleware.model.errors import TraceError
from middleware.model.event import END, NEVER
from middleware.recordings.traces import DESCRIPTION, Trace, files

if TYPE_CHECKING:
    import pyarrow as pa

SLICE_EVENTS = 4_096
"""About how many events a slice has: few, so that every partition soon has a slice, even of a short trace."""


class RowGroup(NamedTuple):
    """A row group of a file, with its first and last arrival."""

    file: Path
    number: int
    rows: int
    first: int
    last: int


def row_groups(path: Path, trace: Trace, name: str) -> list[RowGroup]:
    """The row groups of one type, in arrival order. Raises TraceError if they do not match the description."""
    import pyarrow.parquet as pq

    found = []
    for file in files(path, name):
        try:
            metadata = pq.read_metadata(file)
        except Exception as error:
            raise _unreadable(file, error) from None
        column = metadata.schema.names.index("arrival") if "arrival" in metadata.schema.names else 0
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            bounds = group.column(column).statistics
            if bounds is None or not bounds.has_min_max:
                raise _unreadable(file, "it does not say which arrivals it holds")
            found.append(RowGroup(file, number, group.num_rows, int(bounds.min), int(bounds.max)))
    read, described = sum(group.rows for group in found), trace.types[name].events
    if read != described:
        raise TraceError(f"{path}: {read} events of {name} where {DESCRIPTION} says {described}; prepare it again")
    return found


def read_group(group: RowGroup, names: Sequence[str]) -> pa.RecordBatch:
    """The ``names`` columns of a row group as one record batch. ``source`` is dictionary-encoded. O(rows)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(group.file, read_dictionary=["source"]) as parquet:
            table = parquet.read_row_group(group.number, columns=list(names), use_threads=False).select(list(names))
        table.validate(full=True)
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise _unreadable(group.file, error) from None
    whole = table.unify_dictionaries().combine_chunks().to_batches()
    return whole[0]


def slices(path: Path, trace: Trace, events: int = SLICE_EVENTS) -> list[int]:
    """Arrival times that cut a trace into slices of about ``events`` events: slice n is from the n-th to before the next one.

    They depend on the trace alone, not on its reader. O(row groups + slices).
    """
    cuts: set[int] = set()
    for name in trace.types:
        for group in row_groups(path, trace, name):
            pieces = -(-group.rows // events)
            cuts.update(group.first + (group.last - group.first) * piece // pieces for piece in range(pieces))
    return [NEVER, *sorted(cuts)[1:], END]


def owners(path: Path, trace: Trace, cuts: Sequence[int], partitions: int) -> list[int]:
    """The partition that reads each slice: slices of one row group belong to one partition, so that no other one reads it.

    That holds for the type with the most events; a row group of a sparser one reaches over several, and each reader of these
    reads it once. There are no more partitions than row groups, so fewer than asked for may be used. O(row groups + slices).
    """
    largest = max(trace.types, key=lambda name: trace.types[name].events)
    starts = [group.first for group in row_groups(path, trace, largest)]
    return [max(0, bisect_right(starts, cut) - 1) % partitions for cut in cuts[:-1]]


def _unreadable(file: Path, why: object) -> TraceError:
    return TraceError(f"{file} cannot be read: {why}; prepare the trace again")
