"""The formats that a mapping reads: CSV and JSON lines by blocks of text; Parquet, Arrow IPC and MCAP by batches of rows."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from middleware.model.block.arrays import sound, sound_schema, text_column
from middleware.model.errors import TraceError
from middleware.recordings.files.header import names_in
from middleware.recordings.files.mcap_rows import STAMPS, rows_of
from middleware.recordings.files.quotes import Quotes
from middleware.recordings.files.text import PACKED, first_lines

if TYPE_CHECKING:
    import pyarrow as pa

Format = Literal["csv", "jsonl", "parquet", "arrow", "mcap"]

_SUFFIXES: dict[str, Format] = {
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".mcap": "mcap",
}
BATCH_ROWS = 65_536


class _Number(str):
    """A number with a point or an exponent, as it was written."""

    __slots__ = ()


_decode = msgspec.json.Decoder(float_hook=_Number).decode


def format_of(file: Path) -> Format:
    """The format of a file, by the end of its name; CSV for all that are not known."""
    suffixes = [suffix for suffix in file.suffixes if suffix.lower() not in PACKED]
    return _SUFFIXES.get(suffixes[-1].lower() if suffixes else "", "csv")


def is_text(file: Path) -> bool:
    """Whether a file is read by lines."""
    return format_of(file) in ("csv", "jsonl")


def batches(file: Path, columns: Sequence[str] | None = None, topics: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
    """The rows of a file that is not text; ``columns``: only these. Raises TraceError if it cannot be read.

    For MCAP, it reads the messages of ``topics``: their values as texts, by names as JSON lines have them, and ``STAMPS``.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if format_of(file) == "mcap":
        rows = rows_of(file, topics)
        while some := list(islice(rows, BATCH_ROWS)):
            yield from texts_of(some, columns).to_batches()
        return
    try:
        if format_of(file) == "parquet":
            with pq.ParquetFile(file) as parquet:
                yield from map(sound, parquet.iter_batches(batch_size=BATCH_ROWS, columns=columns))
            return
        with pa.memory_map(str(file)) as mapped:
            for batch in _arrow(mapped)[1]:
                yield sound(batch if columns is None else batch.select(list(columns)))
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise _unreadable(file, error) from None


def _unreadable(file: Path, error: Exception) -> TraceError:
    return TraceError(f"{file} cannot be read as {format_of(file)}: {error}")


def _arrow(mapped: Any) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The columns and the batches of Arrow's file format, or of its stream format."""
    import pyarrow as pa

    try:
        reader = pa.ipc.open_file(mapped)
    except pa.ArrowInvalid:
        mapped.seek(0)
        stream = pa.ipc.open_stream(mapped)
        return stream.schema, iter(stream)
    return reader.schema, map(reader.get_batch, range(reader.num_record_batches))


def texts_of(rows: Sequence[dict[str, Any]], columns: Sequence[str] | None) -> pa.Table:
    """The values of objects as a table of texts; ``columns``: only these. ``a.b`` is the value of b in the object a.

    Numbers are as they are written; a key that an object lacks is null.
    """
    import pyarrow as pa

    names = dict.fromkeys(name for row in rows for name in _paths(row)) if columns is None else columns
    return pa.table({name: text_column([_text(_at(row, name)) for row in rows]) for name in names})


def json_object(line: bytes) -> dict[str, Any]:
    """A line as a JSON object. Raises ValueError if it is none."""
    try:
        row = _decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"no JSON: {error}") from None
    if not isinstance(row, dict):
        raise ValueError("no JSON object")
    return row


def _at(row: dict[str, Any], name: str) -> Any:
    if name in row or "." not in name:
        return row.get(name)
    first, _, rest = name.partition(".")
    inner = row.get(first)
    return _at(inner, rest) if isinstance(inner, dict) else None


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value, enc_hook=lambda number: msgspec.Raw(number.encode())).decode()


def head(file: Path, delimiter: str = ",", rows: int = 1_000, topics: Sequence[str] = ()) -> pa.Table:
    """The first rows of a file, as they are: texts, if it is one of text.

    Raises TraceError if it cannot be read, or two columns of one that is no text have the same name.
    """
    if not is_text(file):
        return _first_batch(file, topics).slice(0, rows)
    if format_of(file) == "jsonl":
        return _json_head(first_lines(file, rows))
    return _csv_head(names_in(file, delimiter), first_lines(file, rows + 1)[1:], delimiter)


def _first_batch(file: Path, topics: Sequence[str]) -> pa.Table:
    """The first rows of a file that is not text, as many as come together; without a row it still has columns."""
    import pyarrow as pa

    first = next(batches(file, topics=topics), None)
    schema = _schema(file) if first is None else first.schema
    if len(set(schema.names)) < len(schema.names):
        raise TraceError(f"{file} has two columns of the same name: {', '.join(schema.names)}")
    return pa.Table.from_batches([] if first is None else [first], schema)


def _schema(file: Path) -> pa.Schema:
    """The columns of a file without rows. For MCAP, these are the columns that all messages have: the others come with them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if format_of(file) == "mcap":
        return pa.schema({name: pa.string() for name in STAMPS})
    try:
        with pa.memory_map(str(file)) as mapped:
            return sound_schema(pq.read_schema(mapped) if format_of(file) == "parquet" else _arrow(mapped)[0])
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(file, error) from None


def _csv_head(names: Sequence[str], lines: Sequence[bytes], delimiter: str) -> pa.Table:
    """The rows that fit the names: the others are counted, and named, when the file is read."""
    import pyarrow as pa

    rows = Quotes(delimiter, len(names)).rows(b"".join(lines)) if lines else []
    whole = [cells for row in rows if row.is_closed and len(cells := _cells(row.text, delimiter)) == len(names)]
    return pa.table({name: text_column([cells[at] for cells in whole]) for at, name in enumerate(names)})


def _cells(row: bytes, delimiter: str) -> list[str]:
    """The cells of a row; none if it is broken. Each row is parsed alone, as the reader does."""
    try:
        return next(csv.reader([row.decode("utf-8", "replace")], delimiter=delimiter), [])
    except csv.Error:  # a stray carriage return, or a cell of more than 128 KiB
        return []


def _json_head(lines: Sequence[bytes]) -> pa.Table:
    rows = []
    for line in lines:
        try:
            rows.append(json_object(line))
        except ValueError:
            continue
    return texts_of(rows, None)


def _paths(row: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """The names of the values in an object, those of inner objects with a dot."""
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _paths(value, f"{prefix}{name}.")
        else:
            yield prefix + name
