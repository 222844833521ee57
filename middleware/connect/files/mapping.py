"""Reads any CSV or Parquet file by a mapping of its columns, written in TOML::

type = "weather.Reading"
delimiter = ","                                  # CSV only
ts = { column = "time", unit = "ms" }            # s, ms, us, ns, ps, or iso (ISO 8601, UTC unless it says)
arrival = { column = "received", unit = "ms" }   # optional: measured arrival
source = { column = "station", prefix = "station-" }
id = "number"                                    # optional: else numbered in order of ts per source
align = false                                    # arrival counts from another moment than ts

[fields]
station = { column = "station", type = "int" }
temperature = { column = "temp_f", type = "float", scale = 0.5556, offset = -17.78 }
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from middleware.connect.files.header import columns_in
from middleware.connect.files.moments import doubts
from middleware.connect.files.recording import BASE_COLUMNS, Chunk, InOrder, Part, Recording, check_type_name
from middleware.connect.files.text import TextReader, existing, finite, nanoseconds, parse_csv, splits
from middleware.model.errors import TraceError

if TYPE_CHECKING:
    import pyarrow as pa

_FRACTIONS = {"s": (1_000_000_000, 1), "ms": (1_000_000, 1), "us": (1_000, 1), "ns": (1, 1), "ps": (1, 1_000)}
_DIGITS = {"s": 9, "ms": 6, "us": 3, "ns": 0}
"""The number of decimals of a unit down to whole nanoseconds."""


class Time(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column of times. Numbers may have a fraction.

    Text (all of CSV) and decimals are read exactly, and rounded to the nearest nanosecond, ties to even. A float64 in
    Parquet is exact to about a microsecond of Unix time.
    """

    column: str
    unit: Literal["s", "ms", "us", "ns", "ps", "iso"]


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The column with the event's source, and a prefix to put before it."""

    column: str
    prefix: str = ""


class Field(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A field of the event type: numbers become value * scale + offset."""

    column: str
    type: Literal["int", "float", "str", "bool"]
    scale: float = 1.0
    offset: float = 0.0


class Mapping(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of a mapping file; see the module's text."""

    type: str
    ts: Time
    source: Source
    fields: dict[str, Field]
    arrival: Time | None = None
    id: str | None = None
    align: bool = False
    delimiter: str = ","

    def columns(self) -> list[str]:
        """The columns of the recording that it needs, each once."""
        named = [self.ts.column, self.source.column, *(field.column for field in self.fields.values())]
        named += [self.arrival.column] if self.arrival else []
        named += [self.id] if self.id else []
        return list(dict.fromkeys(named))


def load_mapping(path: str | Path) -> Mapping:
    """The mapping in a TOML file. Raises TraceError with the file, the key and the reason."""
    try:
        mapping = msgspec.toml.decode(Path(path).read_bytes(), type=Mapping)
    except OSError as error:
        raise TraceError(f"the mapping {path} cannot be read: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise TraceError(f"the mapping {path}: {error}") from None
    check_type_name(mapping.type)
    for name, field in mapping.fields.items():
        if not name.isidentifier() or keyword.iskeyword(name) or name[0] == "_" or name in (*BASE_COLUMNS, "level"):
            raise TraceError(f"the mapping {path}: fields.{name}: this cannot be the name of a field")
        if field.type in ("str", "bool") and (field.scale, field.offset) != (1.0, 0.0):
            raise TraceError(f"the mapping {path}: fields.{name}: scale and offset are for numbers")
    if len(mapping.delimiter) != 1:
        raise TraceError(f"the mapping {path}: delimiter must be one character")
    return mapping


def mapped_recording(paths: Sequence[str | Path], mapping_file: str | Path) -> Recording:
    """CSV (.csv, .gz, .bz2, .txt ...) or Parquet (.parquet) files as events of the type that the mapping names."""
    mapping = load_mapping(mapping_file)
    files = existing(paths)
    kinds = {file.suffix == ".parquet" for file in files}
    if len(kinds) > 1:
        raise TraceError("CSV and Parquet together: prepare them one by one")
    if kinds == {True}:
        chunks: Sequence[Chunk] = [(str(file), number) for number, file in enumerate(files)]
        read: Callable[[Chunk], Iterator[Part]] = ParquetReader(mapping)
        file_of = [str(file) for file in files]
        _check_parquet(files, mapping)
    else:
        chunks = splits(files, header=True)
        read = TextReader(mapping.type, Parser(mapping, columns_in(files, mapping.delimiter, mapping.columns())))
        file_of = [piece.path for piece in chunks]
    times = [(time.column, time.unit) for time in (mapping.ts, mapping.arrival if not mapping.align else None) if time]
    return Recording(
        reader=f"mapping {Path(mapping_file).name}",
        origin=[str(file) for file in files],
        chunks=chunks,
        read=read,
        file_of=file_of,
        measured=mapping.arrival is not None,
        number=None if mapping.id else InOrder(),
        align=mapping.align,
        header_lines=0 if kinds == {True} else 1,
        doubts=doubts(files, times, mapping.delimiter, Path(mapping_file).name),
    )


class Parser:
    """Parses CSV lines with columns in the order of ``names``."""

    def __init__(self, mapping: Mapping, names: Sequence[str]) -> None:
        self._mapping = mapping
        self._names = tuple(names)

    def __call__(self, block: bytes) -> pa.Table:
        import pyarrow as pa

        wanted = dict.fromkeys(self._mapping.columns(), pa.string())
        return normalised(parse_csv(block, self._names, wanted, self._mapping.delimiter, '"'), self._mapping)


class ParquetReader:
    """Reads Parquet files; a row that does not fit is left out, and reported by its number."""

    def __init__(self, mapping: Mapping) -> None:
        self._mapping = mapping

    def __call__(self, chunk: tuple[str, int]) -> Iterator[Part]:
        import numpy as np
        import pyarrow as pa
        import pyarrow.parquet as pq

        path, number = chunk
        rows = 0
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=65_536, columns=self._mapping.columns()):
                tables, bad = _salvage_rows(pa.Table.from_batches([batch]), self._mapping)
                for start, table in tables:
                    positions = (number << 40) + rows + start + np.arange(table.num_rows)
                    yield Part({self._mapping.type: table.append_column("_position", [positions])}, 0, [])
                yield Part({}, batch.num_rows, bad)
                rows += batch.num_rows


def _salvage_rows(raw: pa.Table, mapping: Mapping) -> tuple[list[tuple[int, pa.Table]], list[tuple[int, str]]]:
    """Like ``salvage`` for lines: halves what does not fit until each broken row stands alone."""
    tables: list[tuple[int, pa.Table]] = []
    bad: list[tuple[int, str]] = []
    todo = [(0, raw)]
    while todo:
        first, rows = todo.pop()
        try:
            tables.append((first, normalised(rows, mapping)))
        except ValueError as error:
            if rows.num_rows == 1:
                bad.append((first, str(error).splitlines()[0][:200]))
                continue
            middle = rows.num_rows // 2
            todo += [(first + middle, rows.slice(middle)), (first, rows.slice(0, middle))]
    return tables, bad


def _check_parquet(files: Sequence[Path], mapping: Mapping) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for file in files:
        try:
            names = pq.read_schema(file).names
        except (pa.ArrowException, OSError) as error:
            raise TraceError(f"{file} cannot be read as Parquet: {error}") from None
        if missing := [name for name in mapping.columns() if name not in names]:
            raise TraceError(f"{file} has no column {', '.join(missing)}; it has {', '.join(names)}")


def normalised(raw: pa.Table, mapping: Mapping) -> pa.Table:
    """Convert columns of a recording to those of a trace. Raises ValueError if a row does not fit."""
    import pyarrow as pa
    import pyarrow.compute as pc

    table = {"ts": _time(raw, mapping.ts)}
    if mapping.arrival:
        table["arrival"] = _time(raw, mapping.arrival)
    if mapping.id:
        table["id"] = _trimmed(raw[mapping.id]).cast(pa.int64())
    names = raw[mapping.source.column].cast(pa.string())
    table["source"] = pc.binary_join_element_wise(mapping.source.prefix, names, "")
    for name, field in mapping.fields.items():
        table[name] = _field(raw[field.column], name, field)
    return finite(pa.table(table))


def _field(column: pa.ChunkedArray, name: str, field: Field) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    column = column if field.type == "str" else _trimmed(column)
    kinds = {"int": pa.int64(), "float": pa.float64(), "str": pa.string(), "bool": pa.bool_()}
    try:
        if (field.scale, field.offset) == (1.0, 0.0):
            return column.cast(kinds[field.type])
        number = pc.add(pc.multiply(column.cast(pa.float64()), field.scale), field.offset)
        return number if field.type == "float" else pc.round(number).cast(pa.int64())
    except ValueError as error:
        raise ValueError(f"{name} (column {field.column}): {error}") from None


def _trimmed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text without surrounding blanks, which are no part of a number or a time."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.utf8_trim_whitespace(column) if pa.types.is_string(column.type) else column


def _time(raw: pa.Table, time: Time) -> pa.ChunkedArray:
    import pyarrow as pa

    column = _trimmed(raw[time.column])
    try:
        if time.unit == "iso":
            return nanoseconds(_moment(column).cast(pa.int64()), 1)
        if pa.types.is_timestamp(column.type):
            raise ValueError(f'holds times already: give unit = "iso" instead of "{time.unit}"')
        numerator, denominator = _FRACTIONS[time.unit]
        try:
            return nanoseconds(column.cast(pa.int64()), numerator, denominator)
        except ValueError:
            if pa.types.is_floating(column.type):
                return _rounded(column, numerator, denominator)
            return _decimal_nanoseconds(column, time.unit)
    except ValueError as error:
        why = str(error).replace("decimal256 number", "number")
        raise ValueError(f"column {time.column}: {why}") from None


def _rounded(column: pa.ChunkedArray, numerator: int, denominator: int) -> pa.ChunkedArray:
    """Floats as nanoseconds. A float64 cannot hold the nanoseconds of Unix time, but it can hold those of the fraction."""
    import pyarrow as pa
    import pyarrow.compute as pc

    number = column.cast(pa.float64())
    whole = pc.floor(number)
    fraction = pc.round(pc.multiply(pc.subtract(number, whole), numerator / denominator)).cast(pa.int64())
    return pc.add(nanoseconds(whole.cast(pa.int64()), numerator, denominator), fraction)


def _decimal_nanoseconds(column: pa.ChunkedArray, unit: str) -> pa.ChunkedArray:
    """Texts or decimals, with or without fraction and exponent, as nanoseconds: exact, or rounded if they are finer."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if unit == "ps":
        return nanoseconds(pc.trunc(column.cast(pa.decimal128(38, 12))).cast(pa.int64()), *_FRACTIONS["ps"])
    digits = _DIGITS[unit]
    fitting = pa.decimal128(27, digits)
    try:
        number = column.cast(fitting)
    except ValueError:  # finer than a nanosecond, or not a number
        number = pc.round(column.cast(pa.decimal256(76, 38)), ndigits=digits, round_mode="half_to_even").cast(fitting)
    return nanoseconds(pc.multiply(number, Decimal(10**digits)).cast(pa.int64()), 1)


def _moment(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of times as UTC nanoseconds; each time may have an offset from UTC."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("ns", column.type.tz))
    try:
        return column.cast(pa.timestamp("ns", "UTC"))
    except ValueError:
        return column.cast(pa.timestamp("ns"))
