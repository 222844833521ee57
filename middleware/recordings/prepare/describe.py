"""Describes the contents of a trace, measured on the written files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from middleware.model.errors import TraceError
from middleware.model.event import MAX_TS, MIN_TS
from middleware.model.quantities import UNIX_TIMES, spoken_time
from middleware.recordings.traces import TypeTrace, files

if TYPE_CHECKING:
    import pyarrow as pa

COUNT_DUPLICATES_UP_TO = 5_000_000


def describe(trace: Path, name: str, fields: Mapping[str, str]) -> TypeTrace:
    """Counts, times, lateness and sources of one type. One pass over four columns; memory only to find duplicates."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    parts = files(trace, name)
    rows = sum(pq.read_metadata(file).num_rows for file in parts)
    first_ts, last_ts, first_arrival, last_arrival = MAX_TS, MIN_TS, MAX_TS, MIN_TS
    late = lateness = 0
    sources: dict[str, int] = {}
    identities = []
    for file in parts:
        with pq.ParquetFile(file, read_dictionary=["source"]) as parquet:
            for batch in parquet.iter_batches(columns=["arrival", "ts", "id", "source"]):
                arrival, ts = batch.column("arrival").to_numpy(), batch.column("ts").to_numpy()
                if arrival[0] < last_arrival or (np.diff(arrival) < 0).any():
                    raise TraceError(f"{file} is not sorted by arrival: this is a bug in Slackline, please report it")
                behind = np.maximum.accumulate(np.maximum(ts, last_ts)) - ts
                late += int(np.count_nonzero(behind))
                lateness = max(lateness, int(behind.max()))
                first_ts, last_ts = min(first_ts, int(ts.min())), max(last_ts, int(ts.max()))
                first_arrival, last_arrival = min(first_arrival, int(arrival[0])), int(arrival[-1])
                for entry in pc.value_counts(batch.column("source").cast(pa.string())).to_pylist():
                    sources[entry["values"]] = sources.get(entry["values"], 0) + entry["counts"]
                if rows <= COUNT_DUPLICATES_UP_TO:
                    identities.append(pa.table({"source": batch.column("source").cast(pa.string()), "id": batch.column("id")}))
    repeated = _repeated(pa.concat_tables(identities)) if identities else None
    return TypeTrace(
        fields=dict(fields),
        events=rows,
        duplicates=None if repeated is None else sum(repeated["count_all"].to_pylist()) - repeated.num_rows,
        clashes=None if repeated is None else _clashes(parts, fields, repeated),
        first_ts=first_ts,
        last_ts=last_ts,
        first_arrival=first_arrival,
        last_arrival=last_arrival,
        late=late,
        max_lateness=lateness,
        sources=dict(sorted(sources.items())),
    )


def _repeated(identities: pa.Table) -> pa.Table:
    """The identities that occur more than once, with how often (``count_all``)."""
    import pyarrow.compute as pc

    counted = identities.group_by(["source", "id"]).aggregate([([], "count_all")])
    return counted.filter(pc.greater(counted["count_all"], 1))


def _clashes(parts: Sequence[Path], fields: Mapping[str, str], repeated: pa.Table) -> int:
    """How many repeats have another content than the event that they repeat. Reads all columns, if there are repeats."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not repeated.num_rows:
        return 0
    columns = ["source", "id", "ts", *fields]
    found = [
        pa.Table.from_batches([batch]).join(repeated, ["source", "id"], join_type="left semi")
        for file in parts
        for batch in pq.ParquetFile(file).iter_batches(columns=columns)
    ]
    contents: set[bytes] = set()
    for table in found:
        contents.update(map(msgspec.msgpack.encode, zip(*(table[name].to_pylist() for name in columns), strict=True)))
    return len(contents) - int(repeated.num_rows)


_LARGER = {10**3: "a thousand", 10**6: "a million", 10**9: "a thousand million"}


def trace_warnings(name: str, times: TypeTrace, is_mapped: bool) -> list[str]:
    """The likely faults of a type's events: clashes, and times that would be of our days in another unit."""
    found = []
    if times.clashes:
        found.append(
            f"{times.clashes:,} events of {name} have the source and id of another one, but another content: a node takes only "
            "the first. Is the column of ids the right one?"
        )
    if is_mapped and not (times.first_ts in UNIX_TIMES and times.last_ts in UNIX_TIMES):
        for factor, words in _LARGER.items():  # in a smaller unit, none of them could be written in nanoseconds
            first = times.first_ts * factor
            if first in UNIX_TIMES and times.last_ts * factor in UNIX_TIMES:
                found.append(
                    f"the times of {name} begin at {spoken_time(times.first_ts)}; in a unit {words} times larger they begin "
                    f"at {spoken_time(first)}: is the unit of ts in the mapping right?"
                )
    return found
