"""Columns as a mapping finds them, turned into those of events: times in ns, numbers, texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from collections.abc import Mapping as AnyMapping
from datetime import datetime
from decimal import Decimal
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from middleware.connect.files.mapping import Field, Kind, Mapping, Source, Time
from middleware.connect.files.text import finite, nanoseconds
from middleware.model.arrays import scalar, spelled

if TYPE_CHECKING:
    import pyarrow as pa

Compute = Callable[["pa.Table"], Sequence[object]]
"""Computes a field from the columns of a table."""

_FRACTIONS = {"s": (1_000_000_000, 1), "ms": (1_000_000, 1), "us": (1_000, 1), "ns": (1, 1), "ps": (1, 1_000)}
_DIGITS = {"s": 9, "ms": 6, "us": 3, "ns": 0}
"""The number of decimals of a unit down to whole nanoseconds."""


def arrow_types() -> dict[Kind, pa.DataType]:
    """The types of Arrow for the types of fields."""
    import pyarrow as pa

    return {"int": pa.int64(), "float": pa.float64(), "str": pa.string(), "bool": pa.bool_()}


def normalised(raw: pa.Table, mapping: Mapping, file: str = "", computed: AnyMapping[str, Compute] | None = None) -> pa.Table:
    """Convert columns of a recording to those of a trace. Raises ValueError if a row does not fit.

    ``file``: where the rows are from; ``computed``: the expressions of the mapping, by field, ready to be used.
    """
    import pyarrow as pa

    raw = plain_table(raw)
    table = {"ts": _time(raw, mapping.ts)}
    if mapping.arrival:
        table["arrival"] = _time(raw, mapping.arrival)
    if mapping.id:
        table["id"] = _trimmed(raw[mapping.id]).cast(pa.int64())
    table["source"] = _source(raw, mapping.source, file)
    for name, field in mapping.fields.items():
        table[name] = _field(raw, name, field, file, computed or {})
    return finite(pa.table(table), {name for name, field in mapping.fields.items() if field.optional})


def salvage_rows(
    raw: pa.Table, convert: Callable[[pa.Table], pa.Table]
) -> tuple[list[tuple[int, pa.Table]], list[tuple[int, str]]]:
    """Like ``salvage`` for lines: halves what does not fit until each broken row stands alone."""
    tables: list[tuple[int, pa.Table]] = []
    bad: list[tuple[int, str]] = []
    todo = [(0, raw)]
    while todo:
        first, rows = todo.pop()
        try:
            tables.append((first, convert(rows)))
        except ValueError as error:
            if rows.num_rows == 1:
                bad.append((first, str(error).splitlines()[0][:200]))
                continue
            middle = rows.num_rows // 2
            todo += [(first + middle, rows.slice(middle)), (first, rows.slice(0, middle))]
    return tables, bad


def plain_table(raw: pa.Table) -> pa.Table:
    """The table with texts of all of Arrow's kinds (dictionaries, large ones, views) as plain strings."""
    import pyarrow as pa

    fields = []
    for place, field in enumerate(raw.schema):
        if pa.types.is_dictionary(field.type):
            raw = raw.set_column(place, field.name, spelled(raw.column(place)))
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        is_text = pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
        fields.append(field.with_type(pa.string() if is_text else kind))
    return raw if raw.schema.types == [field.type for field in fields] else raw.cast(pa.schema(fields))


def _source(raw: pa.Table, source: Source, file: str) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not source.column:
        name = source.prefix + (source.value or _of_file(source.file, file))
        return pa.chunked_array([pa.repeat(scalar(name), raw.num_rows)])
    names = _whole(raw[source.column]).cast(pa.string())
    return pc.binary_join_element_wise(scalar(source.prefix), names, scalar(""))


def _whole(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whole numbers that are stored as floats, as a frame with gaps has them, as integers: a name is 7, not 7.0."""
    import pyarrow as pa

    if not pa.types.is_floating(column.type):
        return column
    try:
        return column.cast(pa.int64())
    except ValueError:
        return column


def _of_file(pattern: str, file: str) -> str:
    name = PurePath(file).name
    found = re.search(pattern, name)
    if found is None or found[1] is None:
        raise ValueError(f"the name of the file {name or 'none'} does not match {pattern}")
    return found[1]


def _field(raw: pa.Table, name: str, field: Field, file: str, computed: AnyMapping[str, Compute]) -> pa.ChunkedArray:
    import pyarrow as pa

    kind = arrow_types()[field.type]
    if field.value is not None:
        value = float(field.value) if field.type == "float" else field.value
        return pa.chunked_array([pa.repeat(pa.scalar(value, kind), raw.num_rows)])
    if field.file:
        return _converted(
            pa.chunked_array([pa.repeat(scalar(_of_file(field.file, file)), raw.num_rows)]), name, "the file's name", field
        )
    if field.expression:
        values = list(computed[name](raw))
        if field.type == "float":
            values = [float(value) if isinstance(value, int) and not isinstance(value, bool) else value for value in values]
        try:
            return _converted(pa.chunked_array([pa.array(values)]), name, field.expression, field)
        except (TypeError, OverflowError) as error:
            raise ValueError(f"{name} ({field.expression}): {error}") from None
    return _converted(raw[field.column], name, f"column {field.column}", field, in_frame=not file)


def _converted(column: pa.ChunkedArray, name: str, where: str, field: Field, in_frame: bool = False) -> pa.ChunkedArray:
    """``in_frame``: a text that is empty is one there, as what is missing is null; in a file it is what is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = column if field.type == "str" else _trimmed(column)
    if field.optional and pa.types.is_string(column.type) and not (in_frame and field.type == "str"):
        column = pc.if_else(pc.equal(column, scalar("")), pa.nulls(1, pa.string())[0], column)
    if field.optional and pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), pa.nulls(1, column.type)[0], column)
    kind = arrow_types()[field.type]
    try:
        if (field.scale, field.offset) == (1.0, 0.0):
            return column.cast(kind)
        number = pc.add(pc.multiply(column.cast(pa.float64()), scalar(field.scale)), scalar(field.offset))
        return number if field.type == "float" else pc.round(number).cast(pa.int64())
    except (ValueError, NotImplementedError) as error:  # Arrow's for kinds of columns that it cannot convert
        raise ValueError(f"{name} ({where}): {error}") from None


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
            return nanoseconds(_moment(column, time.zone, time.format).cast(pa.int64()), 1)
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
    fraction = pc.round(pc.multiply(pc.subtract(number, whole), scalar(numerator / denominator))).cast(pa.int64())
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


def _moment(column: pa.ChunkedArray, zone: str, form: str) -> pa.ChunkedArray:
    """A column of dates as UTC nanoseconds; each may have an offset from UTC, else it is meant in the time zone."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        zoned = getattr(column.type, "tz", None)
        column = column.cast(pa.timestamp("ns", zoned))
        return column if zoned else _in_zone(column, zone)
    if not pa.types.is_string(column.type):
        raise ValueError("holds numbers: give their unit (s, ms, us, ns)")
    if form:
        return _formatted(column, zone, form)
    try:
        return column.cast(pa.timestamp("ns", "UTC"))
    except ValueError:
        return _in_zone(column.cast(pa.timestamp("ns")), zone)


def _in_zone(column: pa.ChunkedArray, zone: str) -> pa.ChunkedArray:
    import pyarrow.compute as pc

    return pc.assume_timezone(column, zone)


def _formatted(column: pa.ChunkedArray, zone: str, form: str) -> pa.ChunkedArray:
    """Dates in a format of ``strptime``: by Arrow where it can (no fractions, no zones), else by Python."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not any(part in form for part in ("%f", "%z", "%Z")):
        return _in_zone(pc.strptime(column, form, "s").cast(pa.timestamp("ns")), zone)
    home = ZoneInfo(zone)
    dates = pa.array([_dated(text, form, home) for text in column.to_pylist()], pa.timestamp("us", "UTC"))
    return pa.chunked_array([dates]).cast(pa.timestamp("ns", "UTC"))


def _dated(text: Any, form: str, home: ZoneInfo) -> datetime | None:
    if text is None:
        return None
    found = datetime.strptime(text, form)
    if found.tzinfo is not None:
        return found
    moment = found.replace(tzinfo=home)
    if moment.utcoffset() != moment.replace(fold=1).utcoffset():  # twice, or never
        raise ValueError(f"{text} is not one moment in {home.key}: the clocks were changed")
    return moment
