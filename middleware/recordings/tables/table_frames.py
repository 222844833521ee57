"""Frames of pandas, polars and pyarrow as recordings, so that a mapping reads them as it reads files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from middleware.model.errors import TraceError
from middleware.model.words import listed
from middleware.recordings.files.expressions import ColumnExpression, computed
from middleware.recordings.files.mapping import Mapping
from middleware.recordings.files.moments import check_times
from middleware.recordings.files.normal import MappedConversion, decode_texts
from middleware.recordings.files.recording import NumberingByTime, Recording, RecordingPart
from middleware.recordings.files.text import part_of

if TYPE_CHECKING:
    import pyarrow as pa

_INDEX = "__index_level_0__"
"""Arrow's name for the index of a pandas frame that has no name."""


def is_frame(value: object) -> bool:
    """Whether a value is a table of pandas, polars, pyarrow, or of another library that speaks Arrow."""
    return hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__") or hasattr(value, "__dataframe__")


def table_of(frame: Any) -> pa.Table:
    """A frame as a table of Arrow. The index of a pandas frame is a column, if it counts no rows; one of times is ``ts``.

    Raises TraceError if two columns have the same name, or Arrow cannot hold one.
    """
    import pyarrow as pa

    try:
        if isinstance(frame, pa.RecordBatch):
            table = pa.Table.from_batches([frame])
        elif type(frame).__module__.partition(".")[0] == "pandas":
            table = _of_pandas(frame)
        else:
            table = frame if isinstance(frame, pa.Table) else pa.table(frame)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise TraceError(f"the table cannot be read: {'; '.join(map(str, error.args))}") from None
    if len(set(table.column_names)) < table.num_columns:
        raise TraceError(f"the table has two columns of the same name: {listed(table.column_names)}")
    return decode_texts(table)


def _of_pandas(frame: Any) -> pa.Table:
    import pyarrow as pa

    table = pa.Table.from_pandas(frame).replace_schema_metadata(None)
    for field in table.schema:  # among dates, Arrow takes a time for its date
        if (
            pa.types.is_date(field.type)
            and field.name in frame
            and any(isinstance(each, datetime) for each in frame[field.name].dropna())
        ):
            raise ValueError(f"column {field.name} has dates beside times: make it one of times (pandas.to_datetime)")
    if _INDEX not in table.column_names:
        return table
    is_time = pa.types.is_timestamp(table[_INDEX].type) and "ts" not in table.column_names
    if not is_time and "index" in table.column_names:  # it was reset, and rows were skipped since
        return table.drop_columns(_INDEX)
    return table.rename_columns([("ts" if is_time else "index") if name == _INDEX else name for name in table.column_names])


def table_recording(tables: Sequence[tuple[pa.Table, Mapping]]) -> Recording:
    """Tables in memory, each with its mapping, as a recording. Raises TraceError if a column is missing."""
    chunks: list[_Rows] = []
    found_warnings: list[str] = []
    for table, mapping in tables:
        if missing := [name for name in mapping.columns() if name not in table.column_names]:
            raise TraceError(f"the table has no column {', '.join(missing)}; it has {', '.join(table.column_names)}")
        head = table.slice(0, 1_000)
        chunks.append(_Rows(table, mapping, computed(mapping, head), len(chunks)))
        found = check_times(f"column {mapping.ts.column}", mapping.ts.unit, filter(None, head[mapping.ts.column].to_pylist()))
        found_warnings += [found] if found else []
    mappings = [mapping for _, mapping in tables]
    return Recording(
        reader="tables",
        origin=["memory"],
        chunks=chunks,
        read=_Rows.parts,
        file_of=["the table"] * len(chunks),
        measured=mappings[0].arrival is not None,
        number=None if all(one.id for one in mappings) else NumberingByTime(),
        align=mappings[0].align,
        header_lines=-1,  # rows count from 0, as in a frame
        warnings=found_warnings,
    )


@dataclass(frozen=True)
class _Rows:
    table: pa.Table
    mapping: Mapping
    expressions: dict[str, ColumnExpression]
    number: int

    def parts(self) -> Iterator[RecordingPart]:
        """The rows as events, and those that do not fit."""
        found = MappedConversion(self.mapping, "", self.expressions).fitted(self.table)
        yield part_of(found, self.mapping.type, self.number << 40, self.table.num_rows)
