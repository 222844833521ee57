"""The content of a table's columns, found from its first rows: the mapping of a file that has none."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Iterable, Sequence
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from middleware.model.errors import TraceError
from middleware.model.event import Event
from middleware.model.quantities import UNIX_TIMES
from middleware.model.words import listed
from middleware.recordings.files.formats import format_of, head
from middleware.recordings.files.mapping import INT64, MISSING, Kind, MappedField, Mapping, SourceColumn, TimeColumn, Unit
from middleware.recordings.files.mcap_rows import STAMPS, topics_of
from middleware.recordings.files.moments import UNITS

if TYPE_CHECKING:
    import pyarrow as pa

TIMES = ("ts", "timestamp", "time", "datetime", "event_time", "date", "t", "publish_time")
"""The names of columns of times, in small letters, the likeliest first."""

_SURE = frozenset(TIMES) - {"date", "t"}
"""Names that decide also where there are other columns of dates."""

_DELIMITERS = (";", "\t", "|", ",")

_INT = re.compile(r"\s*[+-]?\d+\s*")
_CODE = re.compile(r"\s*[+-]?0\d+\s*")
_FLOAT = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")
_BOOL = re.compile(r"\s*(true|false)\s*", re.IGNORECASE)
_LONGEST = 100
"""Letters of a number, with blanks around it: Python itself reads no number of thousands of them."""

_MOST = 0.9
"""The share of a column's texts that must look like numbers for it to be one of numbers."""

_TAKEN = frozenset(dir(Event)) | {"namespace", "arrival"}


def guessed(file: Path, delimiter: str = ",") -> Mapping:
    """The mapping of a file by the names and first values of its columns; the type is called as the file is.

    Raises TraceError if no column looks like times, or if their unit is not evident.
    """
    table = head(file, delimiter)
    _check_delimiter(file, table, delimiter)
    if not table.num_rows:
        raise TraceError(f"{file} has no row to see from what its columns hold")
    mapping = mapping_of(table, named(file.name.split(".")[0]), str(file))
    if len(types := _types_of(table, mapping)) > 1:
        raise TraceError(
            f"{file} holds events of several types ({listed(types)}): name their classes (--types-from), and call the "
            "file as the one that you want, or write a mapping"
        )
    if types:
        mapping = replace(mapping, only={"type": types[0]})
    stamps = STAMPS if format_of(file) == "mcap" else ()
    fields = {name: field for name, field in mapping.fields.items() if field.column not in stamps}
    return replace(mapping, delimiter=delimiter, fields=fields)


def mapping_of(table: pa.Table, type_name: str, where: str, fields: dict[str, MappedField] | None = None) -> Mapping:
    """The mapping of a table, by its names and values. ``fields``: those that it must give, without columns; else all.

    Raises TraceError with ``where`` if no column looks like times, if their unit is not evident, or if a field has no column.
    """
    names = table.column_names
    time = _time_column(table, where)
    unit = _unit(time, table[time], where)
    is_ours = time == "ts" and {"id", "source"} <= set(names)  # written by us: then ids are identities, and times ns
    if is_ours and unit not in ("iso", "ns"):
        how = f'ts = {{ column = "ts", unit = "ns" }}, or "{unit}"'
        raise TraceError(
            f"{where}: ts may be ns, as Slackline writes it beside id and source, or dates in {unit}: write a mapping ({how})"
        )
    source = SourceColumn(column="source") if "source" in names else SourceColumn(value=type_name.rpartition(".")[2])
    taken = {time, *(("source",) if "source" in names else ()), *(("id", "level", "type", "change") if is_ours else ())}
    chosen = _fields(table, taken) if fields is None else _declared_fields(names, fields, where)
    return Mapping(type_name, TimeColumn(time, unit), source, chosen, id="id" if is_ours else None)


def _time_column(table: pa.Table, where: str) -> str:
    """The column of event times: by its name, or the only one of dates. Raises TraceError if there is none, or a choice."""
    names: list[str] = table.column_names
    known = next((name for usual in TIMES for name in names if name.lower() == usual), None)
    if known is not None and known.lower() in _SURE:
        return known
    dates = [name for name, kind in zip(names, table.schema.types, strict=True) if _is_time(kind)]
    candidates = list(dict.fromkeys([known, *dates] if known is not None else dates))
    if not candidates:
        raise TraceError(f"{where}: no column looks like times ({listed(TIMES)}); it has {listed(names)}: write a mapping")
    if len(candidates) > 1:  # one may be when rows were received, or a due date: a guess would be a wrong result
        raise TraceError(
            f"{where}: {listed(candidates)} hold times, and none is named ts or time: rename the one that says when events "
            f'happened to ts, or write a mapping (ts = {{ column = "{candidates[0]}" }})'
        )
    return candidates[0]


def mapping_for(file: Path, type_name: str, fields: dict[str, MappedField]) -> Mapping:
    """The mapping of a file whose rows are events of a class; of MCAP, the messages of the topic that is called as the class.

    In results that we wrote, only the rows of that class are. Raises TraceError, also if they are of another one alone.
    """
    is_mcap = format_of(file) == "mcap"
    topics = (type_name,) if is_mcap and type_name in topics_of(file) else ()
    table = head(file, topics=topics)
    _check_delimiter(file, table)
    found = mapping_of(table, type_name, str(file), fields)
    if is_mcap and found.id is not None and not topics:
        raise TraceError(f"{file} has no topic {type_name}; it has {listed(topics_of(file))}: write a mapping")
    return replace(of_class(found, table, str(file)), files=(escape(str(file)),), topics=topics)


def _check_delimiter(file: Path, table: pa.Table, delimiter: str = ",") -> None:
    """Raise TraceError if the head of a CSV file is one cell for this delimiter, and several for another."""
    if format_of(file) != "csv" or table.num_columns != 1:
        return
    (name,) = table.column_names
    if other := next((each for each in _DELIMITERS if each != delimiter and each in name), None):
        raise TraceError(f"{file}: its head is one cell, {name}: if {other!r} parts the cells, write a mapping that says so")


def of_class(mapping: Mapping, table: pa.Table, where: str) -> Mapping:
    """The mapping with which only rows of its type are read, if a table, of which these are rows, has those of several.

    Raises TraceError if they are all of another type.
    """
    types = _types_of(table, mapping)
    if types and mapping.type not in types:
        raise TraceError(f"{where} holds {listed(types)}, and no {mapping.type}: write a mapping, if they are the same")
    return replace(mapping, only={"type": mapping.type}) if types else mapping


def _types_of(table: pa.Table, mapping: Mapping) -> list[str]:
    """The types of the rows of a table of results, as we write them; none if it is something else, or says nothing of types.

    Raises TraceError for changes: a result that is withdrawn is no event.
    """
    columns = {field.column for field in mapping.fields.values()}
    found: dict[str, list[str]] = {}
    for name in {"type", "change"}.intersection(table.column_names) - columns:
        found[name] = [text for text in dict.fromkeys(table[name].to_pylist()) if isinstance(text, str)]
    if mapping.id is None or "level" not in table.column_names:
        return []
    if withdrawn := sorted({"revise", "retract", "watermark"}.intersection(found.get("change", ()))):
        raise TraceError(f"{mapping.type} cannot be read from changes ({listed(withdrawn)}): write final results (--results)")
    return found.get("type", [])


def kinds_of(table: pa.Table, as_numbers: bool = False, missing: Sequence[str] = MISSING) -> dict[str, Kind]:
    """The kind of each column: int, float, bool or str; texts by what they all look like. Others are skipped.

    Whole numbers that would not be the same ones as int64, or of which the texts differ where the numbers do not (007 and 7),
    are names, so texts: as numbers, different ones would be one. ``as_numbers``: they are to be computed with. ``missing``:
    the spellings of a missing value, which is of no kind.
    """
    import pyarrow as pa

    found: dict[str, Kind] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
            found[name] = _kind_of_texts(
                (text for text in column.to_pylist() if text is not None and text.strip() not in missing), as_numbers
            )
        elif pa.types.is_boolean(kind):
            found[name] = "bool"
        elif pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0):
            fits = all(int(value) in INT64 for value in column.to_pylist() if value is not None)
            found[name] = "int" if fits else "float" if as_numbers else "str"
        elif pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            found[name] = "float"
        elif _is_time(kind):
            found[name] = "str"
    return found


def named(text: str) -> str:
    """A text as the name of a field or a type: what no name may hold becomes ``_``, and ``_`` follows a reserved name.

    >>> named("temp (F)"), named("2nd"), named("id")
    ('temp_F', 'n2nd', 'id_')
    """
    name = re.sub(r"\W+", "_", text).strip("_") or "column"
    name = f"n{name}" if name[0].isdigit() else name
    return f"{name}_" if keyword.iskeyword(name) or name in _TAKEN else name


def _fields(table: pa.Table, taken: set[str]) -> dict[str, MappedField]:
    found: dict[str, MappedField] = {}
    for column, kind in kinds_of(table).items():
        if column not in taken:
            name = named(column)
            while name in found:
                name += "_"
            found[name] = MappedField(kind, column, optional=_has_gaps(table[column], kind))
    return found


def _has_gaps(column: pa.ChunkedArray, kind: Kind) -> bool:
    """Whether some cells are null, NaN or, where others are numbers or truth values, missing: then None stands for them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_floating(column.type):
        return bool(pc.any(pc.is_null(column, nan_is_null=True), min_count=0).as_py())
    return bool(column.null_count) or (
        kind != "str" and any(isinstance(each, str) and each.strip() in MISSING for each in column.to_pylist())
    )


def _declared_fields(names: Sequence[str], fields: dict[str, MappedField], where: str) -> dict[str, MappedField]:
    """The fields of a class from the columns of the same names, whatever their case."""
    by_name = {named(name).lower(): name for name in reversed(names)} | {name: name for name in names}
    found = {name: by_name.get(name, by_name.get(name.lower(), "")) for name in fields}
    if missing := [name for name, column in found.items() if not column]:
        raise TraceError(f"{where} has no column {listed(missing)}; it has {listed(names)}: write a mapping")
    return {name: replace(fields[name], column=column) for name, column in found.items()}


def _is_time(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


_IN_NS = ("ts", "publish_time")
"""Times as events have them, and MCAP."""


def _unit(name: str, column: pa.ChunkedArray, where: str) -> Unit:
    """The unit of a column of times, from values that make dates of our time in one unit only."""
    import pyarrow as pa

    if _is_time(column.type):
        return "iso"
    is_own = isinstance(column.type, pa.BaseExtensionType)  # such as a period of pandas, which counts months, or days
    if is_own or pa.types.is_temporal(column.type) or pa.types.is_nested(column.type) or pa.types.is_binary(column.type):
        raise TraceError(f"{where}: column {name} holds {column.type}, which is no time of a day in a year: write a mapping")
    values = [value for value in column.to_pylist() if value is not None and str(value).strip()]
    if isinstance(next(iter(values), None), str):
        if not _are_numbers([value for value in values if value.strip()]):
            return "iso"
        values = list(filter(_FLOAT.fullmatch, values))
    numbers = sorted(number for number in map(float, values) if 0 < number < math.inf)  # 0 often stands for none
    if values and not numbers and name not in _IN_NS:
        raise TraceError(
            f"{where}: column {name} holds {values[0]}, which does not show its unit: write a mapping with the unit"
        )
    if not numbers:
        return "ns"  # whatever it is, there is nothing to read, or no date
    low, middle, high = (numbers[(len(numbers) - 1) * share // 100] for share in (1, 50, 99))
    fitting: list[Unit] = [
        unit for unit, length in UNITS.items() if all(int(each * length) in UNIX_TIMES for each in (low, middle, high))
    ]
    if len(fitting) == 1:
        return fitting[0]
    if name in _IN_NS:
        return "ns"
    raise TraceError(f"{where}: column {name} holds {middle:g}, which does not show its unit: write a mapping with the unit")


def _kind_of_texts(texts: Iterable[str], as_numbers: bool) -> Kind:
    values = [text for text in texts if text.strip()]
    if not _are_numbers(values):
        return "bool" if values and all(map(_BOOL.fullmatch, values)) else "str"
    numbers = list(filter(_FLOAT.fullmatch, values))
    if not all(map(_INT.fullmatch, numbers)):
        return "float"
    fit = all(len(text) < _LONGEST and int(text) in INT64 for text in numbers)
    if as_numbers:
        return "int" if fit else "float"
    return "int" if fit and not any(map(_CODE.fullmatch, numbers)) else "str"


def _are_numbers(values: Sequence[str]) -> bool:
    """A number here and there that is none (n/a, -) is a broken line, and makes no texts of all."""
    return bool(values) and sum(map(bool, map(_FLOAT.fullmatch, values))) >= _MOST * len(values)
