"""Columns as a mapping finds them, turned into those of events: times in ns, numbers, texts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Protocol
from zoneinfo import ZoneInfo

from middleware.model.block.arrays import scalar, spelled, to_array, to_column
from middleware.model.errors import TraceError
from middleware.recordings.files.mapping import Kind, MappedField, Mapping, SourceColumn, TimeColumn
from middleware.recordings.files.salvage.fitted_rows import (
    FittedRows,
    fitted_cells,
    reason_of,
)
from middleware.recordings.files.text import finite, nanoseconds, unfit

if TYPE_CHECKING:
    import pyarrow as pa

    from middleware.model.block.arrays import Array


class ComputedColumn(Protocol):
    """Computes a field from the columns of a table."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        ...

    def __call__(self, raw: pa.Table) -> Sequence[object]:
        """The value for each row. Raises ValueError if there is none."""
        ...


_LENGTHS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_DIGITS = {"s": 9, "ms": 6, "us": 3, "ns": 0}
"""The number of decimals of a unit down to whole nanoseconds."""

_DIGIT_DIRECTIVES = frozenset("dmyYHMS")
"""The directives of dates that are digits alone, which Arrow and Python read alike."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def arrow_types() -> dict[Kind, pa.DataType]:
    """The types of Arrow for the types of fields."""
    import pyarrow as pa

    return {"int": pa.int64(), "float": pa.float64(), "str": pa.string(), "bool": pa.bool_()}


@dataclass(frozen=True)
class MappedConversion:
    """Converts columns of a recording to those of a trace, by its mapping.

    ``file``: where the rows are from; none: from a frame. ``computed``: the expressions of the mapping, by field, ready to be
    used.
    """

    mapping: Mapping
    file: str = ""
    computed: AnyMapping[str, ComputedColumn] = field(default_factory=dict)

    def __call__(self, cells: pa.Table) -> pa.Table:
        """See Conversion."""
        texts = decode_texts(cells)
        return self._converted(texts.filter(_chosen(texts, self.mapping.only)) if self.mapping.only else texts)

    def fitted(self, cells: pa.Table) -> FittedRows:
        """See Conversion. Each column is converted for itself, so that a broken cell costs about what others cost."""
        import numpy as np
        import pyarrow as pa

        texts, rows = decode_texts(cells), np.arange(cells.num_rows)
        if self.mapping.only:
            rows = np.flatnonzero(to_array(_chosen(texts, self.mapping.only)))
            texts = texts.take(to_column(rows))
        try:
            return FittedRows(self._converted(texts), rows, [])
        except ValueError:
            pass
        columns, reasons, losses = {}, dict[int, str](), list[tuple[int, str]]()
        for column in self._columns():
            try:
                columns[column.name], bad = column.fitted(texts)
            except ValueError as error:  # of a constant: what is wrong with it is wrong in each row
                columns[column.name] = pa.nulls(len(rows), column.kind)
                bad = dict.fromkeys(range(len(rows)), reason_of(error))
            if column.optional:
                losses += bad.items()
            else:
                reasons = bad | reasons
        table = pa.table(columns)
        reasons = unfit(table, self._optional()) | reasons
        sound = np.delete(np.arange(len(rows)), list(reasons))
        broken = sorted((int(rows[row]), why) for row, why in reasons.items())
        lost = sorted((int(rows[row]), why) for row, why in losses if row not in reasons)
        return FittedRows(table.take(to_column(sound)), rows[sound], broken, lost)

    def _converted(self, raw: pa.Table) -> pa.Table:
        import pyarrow as pa

        return finite(pa.table({column.name: column.convert(raw) for column in self._columns()}), self._optional())

    def _optional(self) -> set[str]:
        return {name for name, one in self.mapping.fields.items() if one.optional}

    def _columns(self) -> list[_EventColumn]:
        """The columns of events in their order."""
        import pyarrow as pa

        mapping, file = self.mapping, self.file
        found = [_EventColumn("ts", (mapping.ts.column,), pa.int64(), partial(_time, moment=mapping.ts))]
        if mapping.arrival:
            found.append(_EventColumn("arrival", (mapping.arrival.column,), pa.int64(), partial(_time, moment=mapping.arrival)))
        if mapping.id:
            found.append(_EventColumn("id", (mapping.id,), pa.int64(), partial(_id, name=mapping.id)))
        named = (mapping.source.column,) if mapping.source.column else ()
        found.append(
            _EventColumn(
                "source", named, pa.string(), partial(_source, source=mapping.source, file=file, missing=mapping.missing)
            )
        )
        for name, one in mapping.fields.items():
            compute = self.computed[name] if one.expression else None
            used = compute.columns if compute else (one.column,) if one.column else ()
            convert = partial(_field, name=name, field=one, file=file, compute=compute, missing=mapping.missing)
            found.append(_EventColumn(name, used, arrow_types()[one.type], convert, one.optional))
        return found


@dataclass(frozen=True)
class _EventColumn:
    """A column of events, computed from ``columns``; none: the same in all rows. ``optional``: a broken cell costs no row."""

    name: str
    columns: tuple[str, ...]
    kind: pa.DataType
    convert: Callable[[pa.Table], pa.ChunkedArray]
    optional: bool = False

    def fitted(self, raw: pa.Table) -> tuple[pa.ChunkedArray, dict[int, str]]:
        """The column, and the reasons why cells are broken, by row. Raises ValueError for what is the same in all."""
        return fitted_cells(raw.select(self.columns), self.convert, self.kind) if self.columns else (self.convert(raw), {})


def _chosen(raw: pa.Table, only: AnyMapping[str, str]) -> pa.Array:
    """Whether each row holds these texts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pa.repeat(scalar(True), raw.num_rows)
    for column, text in only.items():
        is_same = pc.equal(_cast(raw[column], pa.string(), column), scalar(text))
        found = pc.and_(found, pc.fill_null(is_same.combine_chunks(), scalar(False)))
    return found


def decode_texts(raw: pa.Table) -> pa.Table:
    """The table with texts of all of Arrow's kinds (dictionaries, large ones, views) as plain strings."""
    import pyarrow as pa

    fields = []
    for index, each in enumerate(raw.schema):
        if pa.types.is_dictionary(each.type):
            raw = raw.set_column(index, each.name, spelled(raw.column(index)))
        kind = each.type.value_type if pa.types.is_dictionary(each.type) else each.type
        is_text = pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
        fields.append(each.with_type(pa.string() if is_text else kind))
    return raw if raw.schema.types == [each.type for each in fields] else raw.cast(pa.schema(fields))


def _source(raw: pa.Table, source: SourceColumn, file: str, missing: Sequence[str]) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not source.column:
        name = source.prefix + (source.value or _of_file(source.file, file))
        return pa.chunked_array([pa.repeat(scalar(name), raw.num_rows)])
    names = _cast(_whole(raw[source.column]), pa.string(), source.column)
    return pc.binary_join_element_wise(scalar(source.prefix), without_missing(names, missing), scalar(""))


def _cast(column: pa.ChunkedArray, kind: pa.DataType, name: str) -> pa.ChunkedArray:
    """Raises TraceError, which no row can be salvaged from, if there is no way from one type to the other."""
    try:
        return column.cast(kind)
    except NotImplementedError:
        raise TraceError(f"column {name} is of {column.type}, of which no {kind} can be made") from None


def _whole(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whole numbers that are stored as floats, as a frame with gaps has them, as integers: a name is 7, not 7.0."""
    import pyarrow as pa

    if not pa.types.is_floating(column.type):
        return column
    column = _without_nan(column)
    try:
        return column.cast(pa.int64())
    except ValueError:
        return column


def _without_nan(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Floats with null for NaN: what is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(pc.is_nan(column), pa.nulls(1, column.type)[0], column)


def without_missing(column: pa.ChunkedArray, missing: Sequence[str]) -> pa.ChunkedArray:
    """Texts with null for the spellings of what is missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(pc.is_in(column, pa.array(missing, pa.string())), pa.nulls(1, pa.string())[0], column)


def _of_file(pattern: str, file: str) -> str:
    name = PurePath(file).name
    found = re.search(pattern, name)
    if found is None or found[1] is None:
        raise ValueError(f"the name of the file {name or 'none'} does not match {pattern}")
    return found[1]


def _id(raw: pa.Table, name: str) -> pa.ChunkedArray:
    import pyarrow as pa

    return _cast(_trimmed(raw[name]), pa.int64(), name)


def _field(
    raw: pa.Table, name: str, field: MappedField, file: str, compute: ComputedColumn | None, missing: Sequence[str]
) -> pa.ChunkedArray:
    import pyarrow as pa

    kind = arrow_types()[field.type]
    if field.value is not None:
        value = float(field.value) if field.type == "float" else field.value
        return pa.chunked_array([pa.repeat(pa.scalar(value, kind), raw.num_rows)])
    if field.file:
        names = pa.chunked_array([pa.repeat(scalar(_of_file(field.file, file)), raw.num_rows)])
        return _converted(names, f"{name} (the file's name)", field, missing)
    if compute:
        values = list(compute(raw))
        if field.type == "float":
            values = [float(value) if isinstance(value, int) and not isinstance(value, bool) else value for value in values]
        try:
            return _converted(pa.chunked_array([pa.array(values)]), f"{name} ({field.expression})", field, missing)
        except (TypeError, OverflowError) as error:
            raise ValueError(f"{name} ({field.expression}): {error}") from None
    if not file and field.type == "str":  # in a frame what is missing is null, so a text that is empty is one
        missing = [text for text in missing if text]
    return _converted(raw[field.column], f"{name} (column {field.column})", field, missing)


def _converted(column: pa.ChunkedArray, what: str, field: MappedField, missing: Sequence[str]) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    column = column if field.type == "str" else _trimmed(column)
    if field.optional and pa.types.is_string(column.type):
        column = without_missing(column, missing)
    if field.type in ("int", "float") and pa.types.is_string(column.type):
        column = pc.replace_substring_regex(column, r"^\+([\d.])", r"\1")  # Arrow reads no sign before what is positive
    if (field.optional or field.type in ("str", "bool")) and pa.types.is_floating(column.type):
        column = _without_nan(column)
    if field.type == "bool" and _is_number(column.type):
        _check_truth(column, what)
    kind = arrow_types()[field.type]
    if field.type == "float" and pa.types.is_decimal(column.type):
        column = column.cast(pa.string())  # as float64, Arrow gives a neighbour of the nearest number
    try:
        if (field.scale, field.offset) == (1.0, 0.0):
            number = column.cast(kind)
        else:
            number = pc.add(pc.multiply(column.cast(pa.float64()), scalar(field.scale)), scalar(field.offset))
            number = number if field.type == "float" else pc.round(number).cast(pa.int64())
    except (ValueError, NotImplementedError) as error:  # Arrow's for kinds of columns that it cannot convert
        raise ValueError(f"{what}: {error}") from None
    if field.optional and field.type == "float":
        number = _without_nan(number)
        if pc.any(pc.is_inf(number), min_count=0).as_py():
            raise ValueError(f"{what}: not a finite number")
    return number


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _check_truth(column: pa.ChunkedArray, what: str) -> None:
    """Raise ValueError if numbers are no truth values: Arrow takes all but 0 for true."""
    import pyarrow.compute as pc

    numbers = column.cast("float64")
    if not pc.all(pc.or_(pc.equal(numbers, 0.0), pc.equal(numbers, 1.0)), min_count=0).as_py():
        raise ValueError(f"{what}: a truth value is 0 or 1")


def _trimmed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text without surrounding blanks, which are no part of a number or a time."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.utf8_trim_whitespace(column) if pa.types.is_string(column.type) else column


def _time(raw: pa.Table, moment: TimeColumn) -> pa.ChunkedArray:
    import pyarrow as pa

    column = _trimmed(raw[moment.column])
    try:
        if moment.unit == "iso":
            return nanoseconds(_moment(column, moment.zone, moment.format).cast(pa.int64()), 1)
        if pa.types.is_timestamp(column.type):
            raise ValueError(f'holds times already: give unit = "iso" instead of "{moment.unit}"')
        if moment.unit == "ps":
            return nanoseconds(_of_picoseconds(column), 1)
        length = _LENGTHS[moment.unit]
        try:
            return nanoseconds(column.cast(pa.int64()), length)
        except ValueError:
            if pa.types.is_floating(column.type):
                return _rounded(column, length)
            return _decimal_nanoseconds(column, moment.unit)
    except NotImplementedError:
        raise TraceError(f"column {moment.column} is of {column.type}, which is no time in {moment.unit}") from None
    except ValueError as error:
        why = str(error).replace("decimal256 number", "number")
        raise ValueError(f"column {moment.column}: {why}") from None


def _rounded(column: pa.ChunkedArray, length: int) -> pa.ChunkedArray:
    """Floats as nanoseconds. A float64 cannot hold the nanoseconds of Unix time, but it can hold those of the fraction."""
    import pyarrow as pa
    import pyarrow.compute as pc

    number = column.cast(pa.float64())
    whole = pc.floor(number)
    fraction = pc.round(pc.multiply(pc.subtract(number, whole), scalar(float(length)))).cast(pa.int64())
    return pc.add(nanoseconds(whole.cast(pa.int64()), length), fraction)


def _of_picoseconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whole nanoseconds, the nearest, ties to even. They may fit 64 bits where the picoseconds do not."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.null_count:
        raise ValueError("is missing")
    try:
        values = to_array(column.cast(pa.int64()))
    except ValueError:  # with a fraction, too large, or not a number
        if pa.types.is_floating(column.type):
            return _of_float_picoseconds(column)
        number = pc.round(column.cast(pa.decimal256(76, 38)), ndigits=-3, round_mode="half_to_even")
        return pc.multiply(number.cast(pa.decimal128(30, 0)), scalar("0.001").cast(pa.decimal128(3, 3))).cast(pa.int64())
    rest = np.fmod(values, 1_000)
    whole = (values - rest) // 1_000
    is_up = (abs(rest) > 500) | ((abs(rest) == 500) & (whole % 2 != 0))
    return pa.chunked_array([to_column(whole + np.where(is_up, np.sign(rest), 0))])


def _of_float_picoseconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """As above, one by one: floats divided by 1000 are exact no more."""
    import numpy as np
    import pyarrow as pa

    try:
        whole = np.array([round(Fraction(number) / 1_000) for number in column.to_pylist()], np.int64)
    except OverflowError as error:  # infinite, or too large
        raise ValueError(str(error)) from None
    return pa.chunked_array([to_column(whole)])


def _decimal_nanoseconds(column: pa.ChunkedArray, unit: str) -> pa.ChunkedArray:
    """Texts or decimals, with or without fraction and exponent, as nanoseconds: exact, or rounded if they are finer."""
    import pyarrow as pa
    import pyarrow.compute as pc

    digits = _DIGITS[unit]
    fitting = pa.decimal128(27, digits)
    try:
        number = column.cast(fitting)
    except ValueError:  # finer than a nanosecond, or not a number
        number = pc.round(column.cast(pa.decimal256(76, 38)), ndigits=digits, round_mode="half_to_even").cast(fitting)
    factor = scalar(str(10**digits)).cast(pa.decimal128(digits + 1, 0))  # a Decimal would load pandas
    return nanoseconds(pc.multiply(number, factor).cast(pa.int64()), 1)


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


_RULES_FROM = datetime(2037, 1, 1)
"""Arrow forgets the rules of summer time once the table of a zone ends, which is in 2037; ZoneInfo follows them on."""


def _in_zone(column: pa.ChunkedArray, zone: str) -> pa.ChunkedArray:
    """Local times as UTC. Raises ValueError for a local time that the zone skips or has twice."""
    import pyarrow as pa
    import pyarrow.compute as pc

    local, kind = column.combine_chunks(), column.type
    is_far = pc.fill_null(pc.greater_equal(local, pa.scalar(_RULES_FROM, kind)), scalar(False))
    if not pc.any(is_far, min_count=0).as_py():
        return pc.assume_timezone(column, zone)
    found = pc.assume_timezone(pc.if_else(is_far, pa.scalar(None, kind), local), zone)
    second = pa.scalar(datetime(1970, 1, 1, 0, 0, 1), kind).cast(pa.int64()).as_py()
    rules, far = ZoneInfo(zone), local.filter(is_far).cast(pa.int64()).to_pylist()
    moments = pa.array([each - _offset(each // second, rules) * second for each in far], pa.int64())
    return pa.chunked_array([pc.replace_with_mask(found, is_far, moments.cast(found.type))])


def _offset(local: int, zone: ZoneInfo) -> int:
    """How far (s) a zone is ahead of UTC at a local time (s). Raises ValueError if the zone skips that time, or repeats it."""
    naive = _EPOCH.replace(tzinfo=None) + timedelta(seconds=local)
    first, second = (naive.replace(tzinfo=zone, fold=fold).utcoffset() or timedelta() for fold in (0, 1))
    if first != second:
        what = "comes twice" if first > second else "does not exist"
        raise ValueError(f"{naive} {what} in {zone.key}: the clock changes then")
    return round(first.total_seconds())


def _formatted(column: pa.ChunkedArray, zone: str, form: str) -> pa.ChunkedArray:
    """Dates in a format, as Python's ``strptime`` reads them, at a quarter of its cost where they are digits alone."""
    import numpy as np
    import pyarrow as pa

    if column.null_count:
        raise ValueError("is missing")
    directives = re.findall("%(.?)", form)
    if {"z", "Z"} & set(directives):
        named = "Z" in directives and "z" not in directives
        moments = (_zoned(text, form, named) - _EPOCH for text in column.to_pylist())
        return _timestamps([each // _MICROSECOND for each in moments], pa.timestamp("us", "UTC"))
    found, others = np.zeros(len(column), np.int64), np.arange(len(column))
    if _DIGIT_DIRECTIVES.issuperset(directives) and len({each.replace("y", "Y") for each in directives}) == len(directives):
        found, others = _digit_dates(column, form)
    for index in others.tolist():
        found[index] = (_parsed(column[index].as_py(), form) - _EPOCH.replace(tzinfo=None)) // _MICROSECOND
    return _in_zone(_timestamps(found, pa.timestamp("us")), zone)


def _digit_dates(column: pa.ChunkedArray, form: str) -> tuple[Array, Array]:
    """Dates of digits alone, in microseconds; and the positions of those that Python must read, or refuse.

    Arrow reads as the C library does: 31 February is 2 March, and blanks and digits may be missing. So its value counts only
    for a text that is what it would write for the time that it read.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    read = pc.strptime(column, form, "s", error_is_null=True)
    is_same = pc.fill_null(pc.equal(pc.strftime(read, form), column), scalar(False))
    return to_array(read.cast(pa.int64())) * 1_000_000, np.flatnonzero(~to_array(is_same))


def _timestamps(microseconds: Array | list[int], kind: pa.DataType) -> pa.ChunkedArray:
    import numpy as np
    import pyarrow as pa

    column = pa.chunked_array([to_column(np.asarray(microseconds, np.int64))])
    return column.cast(kind).cast(pa.timestamp("ns", kind.tz))


def _zoned(text: str, form: str, is_named: bool) -> datetime:
    """A date with its offset from UTC; or, ``is_named``, only the name of its zone.

    Python also accepts the names of the zone in which the machine is: times would depend on where they are read.
    """
    found = _parsed(text, form)
    if not is_named:
        return found
    if (name := time.strptime(text, form).tm_zone) is None or name.upper() not in ("UTC", "GMT"):
        raise ValueError(f"{text}: of the names of time zones only UTC and GMT are read; give the zone, or offsets with %z")
    return found.replace(tzinfo=UTC)


def _parsed(text: str, form: str) -> datetime:
    try:
        return datetime.strptime(text, form)
    except re.error as error:  # as for a directive that stands twice
        raise ValueError(f"the format {form} cannot be used: {error}") from None
