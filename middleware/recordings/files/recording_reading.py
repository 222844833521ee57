"""Reads a whole recording into memory: one table for each type, in order of arrival. Without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from middleware.model.block.arrays import scalar, to_array, to_column
from middleware.model.errors import TraceError
from middleware.model.event import Event, EventTypes
from middleware.recordings.files.recording import Recording, is_ascending, ranked, source_codes, with_coded_sources
from middleware.recordings.files.tally import ChunkTally, StagingResult, staged
from middleware.recordings.tables.table_columns import columns_of
from middleware.runtime.local.arrivals import ArrivedColumns

if TYPE_CHECKING:
    import pyarrow as pa


class TooLargeError(TraceError):
    """A recording that is too large for the memory of one process."""


def read(recording: Recording, most: int | None = None) -> tuple[StagingResult, dict[str, pa.Table]]:
    """All chunks, one after the other: what was read, and a table for each type, as yet without ids.

    Raises TraceError if there is nothing, TooLargeError if the tables come to more than ``most`` bytes.
    """
    import pyarrow as pa

    tables: dict[str, list[pa.Table]] = {}
    reports, size = [], 0
    for chunk in recording.chunks:
        tally = ChunkTally()
        for part in recording.read(chunk):
            size += sum(table.nbytes for table in part.tables.values())
            if most is not None and size > most:
                raise TooLargeError(f"the recording has more than {most >> 20} MiB in memory")
            tally.add(part)
            for name, table in part.tables.items():
                if table.num_rows:
                    tables.setdefault(name, []).append(table)
        reports.append(tally.report())
    found = staged(reports, recording)
    return found, {name: pa.concat_tables(some).combine_chunks() for name, some in tables.items()}


def arrived(recording: Recording, tables: dict[str, pa.Table]) -> tuple[dict[str, pa.Table], int]:
    """The tables with ids and arrival times as measured, or those of occurrence; and the clock offset (ns)."""
    found = recording.number.tables(tables) if recording.number else tables
    if not recording.measured:
        return {name: table.append_column("arrival", table["ts"]) for name, table in found.items()}, 0
    offset = max(map(_offset, found.values())) if recording.align else 0
    return {name: _shifted(table, offset) if offset else table for name, table in found.items()}, offset


def sorted_by_arrival(table: pa.Table, by_position: bool) -> pa.Table:
    """A type's events in order of arrival. ``by_position``: those that arrived together stay in the order of the recording.

    Else only those that clash do (the same source, id and times), so that any way of sorting gives the same trace.
    """
    import numpy as np

    if is_ascending(arrivals := to_array(table["arrival"])):
        return table
    if (order := ranked(arrivals)) is not None:
        return table.take(to_column(order))
    position = to_array(table["_position"])
    if by_position:
        return table.take(to_column(np.lexsort((position, arrivals))))
    identity = to_array(table["id"]), source_codes(table), to_array(table["ts"])
    return table.take(to_column(np.lexsort((position, *identity, arrivals))))


def read_events(recording: Recording, types: EventTypes) -> tuple[list[Event], StagingResult]:
    """``read_columns``, as events."""
    found, read = read_columns(recording, types)
    return found.events(), read


def read_columns(recording: Recording, types: EventTypes) -> tuple[ArrivedColumns, StagingResult]:
    """All events of a recording in order of arrival, as a trace of it has them; and what was read. O(n log n).

    Types of events that arrived together come in their order in the recording. Raises TraceError if its rows do not fit the
    types.
    """
    import numpy as np

    found, tables = read(recording)
    tables = {name: with_coded_sources(table) for name, table in tables.items()}
    if not recording.measured:  # then rows arrive as they occur: numbering and sorting are far less work on what is sorted
        tables = {name: _sorted_by_time(table) for name, table in tables.items()}
    ordered = {name: sorted_by_arrival(table, recording.measured) for name, table in arrived(recording, tables)[0].items()}
    columns = [columns_of(table, types[name]) for name, table in ordered.items()]
    if len(columns) < 2:
        return ArrivedColumns(columns), found
    arrivals = np.concatenate([to_array(table["arrival"]) for table in ordered.values()])
    return ArrivedColumns(columns, np.argsort(arrivals, kind="stable")), found


def _sorted_by_time(table: pa.Table) -> pa.Table:
    """The table in order of time if no two rows have the same; else as it is, since more than time orders those."""
    times = to_array(table["ts"])
    order = None if is_ascending(times) else ranked(times)
    return table if order is None else table.take(to_column(order))


def _offset(table: pa.Table) -> int:
    """The offset (ns) to add to measured arrivals so that the shortest delay is 0."""
    import pyarrow.compute as pc

    return -int(pc.min(pc.subtract(table["arrival"], table["ts"])).as_py())


def _shifted(table: pa.Table, offset: int) -> pa.Table:
    import pyarrow.compute as pc

    return table.set_column(table.column_names.index("arrival"), "arrival", pc.add(table["arrival"], scalar(offset)))
