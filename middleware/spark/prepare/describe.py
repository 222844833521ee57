"""Describes the contents of a trace, measured on the written files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from middleware.model.errors import TraceError
from middleware.model.event import MAX_TS, MIN_TS
from middleware.spark.traces import TypeTrace, files

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
    distinct = pa.concat_tables(identities).group_by(["source", "id"]).aggregate([]).num_rows if identities else None
    return TypeTrace(
        fields=dict(fields),
        events=rows,
        duplicates=None if distinct is None else rows - distinct,
        first_ts=first_ts,
        last_ts=last_ts,
        first_arrival=first_arrival,
        last_arrival=last_arrival,
        late=late,
        max_lateness=lateness,
        sources=dict(sorted(sources.items())),
    )
