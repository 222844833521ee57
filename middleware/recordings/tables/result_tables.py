"""Events as tables: columns of all their types, or one table for each type in DuckDB."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from middleware.installation import needed
from middleware.model.errors import SinkError
from middleware.model.event import TS, Event, type_name
from middleware.model.quantities import is_wall_clock
from middleware.model.schema import time_type
from middleware.runtime.json_records import as_record
from middleware.runtime.local.showing import as_column

if TYPE_CHECKING:
    import pyarrow as pa


def results_table(events: Sequence[Event]) -> pa.Table:
    """Events in their order as a table: type, the fields of all types (null where an event has none), ts, id, source, level.

    Values of a field that fit no one column are texts there. ``ts`` is a timestamp (UTC) where times are Unix time, else ns.
    """
    import pyarrow as pa

    records = [as_record(event) for event in events]
    stamp = {"ts": time_type(is_wall_clock(map(TS, events))), "id": pa.int64(), "source": pa.string(), "level": pa.int64()}
    names = dict.fromkeys(name for record in records for name in record if name not in stamp)
    kinds = {"type": pa.string(), **stamp}
    columns = {}
    for name in (*(names or ("type",)), *stamp):
        columns[name] = as_column([record.get(name) for record in records], kinds.get(name))
    return pa.table(columns)


def parquet_file(events: Sequence[Event]) -> bytes:
    """The bytes of a Parquet file of events."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    out, table = pa.BufferOutputStream(), results_table(events)
    for index, column in enumerate(table.columns):  # Parquet has no records without entries
        if _has_empty_records(column.type):
            table = table.set_column(index, table.field(index).name, as_column(column.to_pylist(), pa.string()))
    pq.write_table(table, out, compression="zstd")
    return bytes(out.getvalue())


def _has_empty_records(kind: pa.DataType) -> bool:
    import pyarrow as pa

    inner = [kind.field(at).type for at in range(kind.num_fields)]
    return (pa.types.is_struct(kind) and not inner) or any(map(_has_empty_records, inner))


def arrow_file(events: Sequence[Event]) -> bytes:
    """The bytes of an Arrow IPC (Feather 2) file of events."""
    import pyarrow as pa

    out, table = pa.BufferOutputStream(), results_table(events)
    with pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    return bytes(out.getvalue())


def write_duckdb(events: Sequence[Event], file: Path) -> None:
    """A DuckDB database in place of the one that is there: a table for each type. Raises SinkError if it cannot be written.

    A ts of Unix time is a TIMESTAMP_NS there, in UTC: what DuckDB has with a time zone ends at microseconds.
    """
    import pyarrow as pa

    duckdb = needed("duckdb", "duckdb")
    part = file.with_name(f".{file.name}.{os.getpid()}")
    by_type: dict[str, list[Event]] = {}
    for event in events:
        by_type.setdefault(type_name(event.__class__), []).append(event)
    try:
        with duckdb.connect(str(part)) as database:
            for name, own in by_type.items():
                found = results_table(own).drop_columns("type")
                if pa.types.is_timestamp(found["ts"].type):
                    at = found.column_names.index("ts")
                    found = found.set_column(at, "ts", found["ts"].cast(pa.timestamp("ns")))
                database.register("found", found)
                database.execute(f'CREATE TABLE "{name}" AS SELECT * FROM found')
                database.unregister("found")
        part.replace(file)
    except (duckdb.Error, OSError) as error:
        raise SinkError(f"{file} cannot be written: {error}") from None
    finally:
        part.unlink(missing_ok=True)
