"""The content of a mapping file: which columns of a table become which event, written in TOML::

type = "weather.Reading"
delimiter = ","                                  # CSV only
missing = ["", "NaN", "nan", "n/a"]              # optional: how a missing value is spelled; else as the first three
topics = ["/tags/*"]                             # MCAP only
ts = { column = "time", unit = "ms" }            # s, ms, us, ns, ps, iso (ISO 8601, UTC unless it says), or a format
arrival = { column = "received", unit = "ms" }   # optional: measured arrival
source = { column = "station", prefix = "station-" }
id = "number"                                    # optional: else numbered in order of ts per source
align = false                                    # arrival counts from another moment than ts
only = { kind = "reading" }                      # optional: rows of which a column holds another text are no events of it

[fields]
station = { column = "station", type = "int" }
temperature = { column = "temp_f", type = "float", scale = 0.5556, offset = -17.78 }
site = { value = "roof", type = "str" }          # the same for all
note = { column = "note", type = "str", optional = true }    # None where the cell is empty or null
day = { file = "weather-(.*)[.]csv", type = "str" }    # of the file's name, what the pattern's group matches
dew = { expression = "temp_f - (100 - humidity) / 5", type = "float" }

Several types come from several files, each from those that its patterns (``files``) name: ``[[events]]``, then the same keys.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping as AnyMapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo

import msgspec

from middleware.model.errors import TraceError
from middleware.recordings.files.recording import BASE_COLUMNS, check_type_name

Kind = Literal["int", "float", "str", "bool"]

INT64 = range(-(2**63), 2**63)
"""The whole numbers that a field holds."""

MISSING = ("", "NaN", "nan")
"""The spellings of a missing value where a mapping names none: of an empty cell, and of what frames and numpy write."""

Unit = Literal["s", "ms", "us", "ns", "ps", "iso"]


class TimeColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column of times, as numbers (``unit``), ISO 8601, or dates in a ``format`` such as ``%d.%m.%Y %H:%M:%S``.

    ``zone``
        the time zone of dates that name none, such as ``Europe/Berlin``. Times that the end of summer time makes ambiguous, or
        its begin skips, are broken lines.

    Numbers may have a fraction. Text (all of CSV and JSON) and decimals are read exactly, and rounded to the nearest
    nanosecond, ties to even. A float64 in Parquet is exact to about a microsecond of Unix time.
    """

    column: str
    unit: Unit = "iso"
    format: str = ""
    zone: str = "UTC"


class SourceColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who says so: a column, one name for all (``value``), or a part of the file's name; and a prefix to put before it."""

    column: str = ""
    prefix: str = ""
    value: str = ""
    file: str = ""


class MappedField(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A field of the event type: a column, a constant, a part of the file's name, or an expression on columns.

    Numbers become value * scale + offset. ``optional``: a cell that is null or missing gives None, and so does one that
    cannot be read, which is listed; else the row is broken.
    """

    type: Kind
    column: str = ""
    scale: float = 1.0
    offset: float = 0.0
    value: int | float | str | bool | None = None
    file: str = ""
    expression: str = ""
    optional: bool = False


class Mapping(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How rows become events of one type; see the module's text. ``files``: patterns of the names of its files, or,
    with folders, of their paths; none: all.
    ``topics``: of MCAP, patterns of the topics whose messages they are; none: its only one.
    ``only``: the texts of columns that make a row one of its events; others are skipped without a word.
    ``missing``: the spellings of a missing value, which gives None in an optional field.
    """

    type: str
    ts: TimeColumn
    source: SourceColumn
    fields: dict[str, MappedField]
    arrival: TimeColumn | None = None
    id: str | None = None
    align: bool = False
    delimiter: str = ","
    files: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    only: dict[str, str] = {}
    missing: tuple[str, ...] = MISSING

    def columns(self) -> list[str]:
        """The columns of the recording that it needs, each once; those of expressions are not among them."""
        named = [self.ts.column, self.source.column, *(field.column for field in self.fields.values())]
        named += [self.arrival.column] if self.arrival else []
        named += [*([self.id] if self.id else []), *self.only]
        return [name for name in dict.fromkeys(named) if name]

    def matches(self, file: Path) -> bool:
        """Whether it is for this file: by its name or, where a pattern has folders, by the whole path."""
        return not self.files or any(fnmatchcase(str(file) if "/" in each else file.name, each) for each in self.files)


class _Several(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    events: list[Mapping]


def load_mappings(path: str | Path) -> list[Mapping]:
    """The mappings in a TOML file, one for each type. Raises TraceError with the file, the key and the reason."""
    where = f"the mapping {path}"
    try:
        return mappings_of(msgspec.toml.decode(Path(path).read_bytes()), where)
    except OSError as error:
        raise TraceError(f"{where} cannot be read: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise TraceError(f"{where}: {error}") from None


def mappings_of(given: AnyMapping[str, Any], where: str = "the mapping") -> list[Mapping]:
    """The mappings in a dict that has the form of a mapping file. Raises TraceError."""
    try:
        several = msgspec.convert(given, _Several).events if "events" in given else [msgspec.convert(given, Mapping)]
    except msgspec.ValidationError as error:
        raise TraceError(f"{where}: {error}") from None
    if not several:
        raise TraceError(f"{where}: events: there is none")
    for mapping in several:
        _check(mapping, where if len(several) == 1 else f"{where}: {mapping.type}")
    return several


def _check(mapping: Mapping, where: str) -> None:
    """Raise TraceError if a mapping makes no sense."""
    check_type_name(mapping.type)
    if len(mapping.delimiter) != 1:
        raise TraceError(f"{where}: delimiter must be one character")
    for key, time in (("ts", mapping.ts), ("arrival", mapping.arrival)):
        if time is not None:
            _check_time(time, f"{where}: {key}")
    source = mapping.source
    if sum(map(bool, (source.column, source.value, source.file))) != 1:
        raise TraceError(f"{where}: source: give one of column, value and file")
    _check_pattern(source.file, f"{where}: source")
    for name, field in mapping.fields.items():
        _check_field(name, field, f"{where}: fields.{name}")


def _check_time(time: TimeColumn, where: str) -> None:
    if time.format and time.unit != "iso":
        raise TraceError(f"{where}: give a unit for numbers, or a format for dates, not both")
    try:
        ZoneInfo(time.zone)
    except (OSError, ValueError, KeyError):  # it may be no name of a zone, and no path at all
        raise TraceError(f"{where}: there is no time zone {time.zone!r}: write one such as Europe/Berlin") from None


def _check_field(name: str, field: MappedField, where: str) -> None:
    if not name.isidentifier() or keyword.iskeyword(name) or name[0] == "_" or name in (*BASE_COLUMNS, "level"):
        raise TraceError(f"{where}: this cannot be the name of a field")
    given = (field.column, field.value is not None, field.file, field.expression)
    if sum(map(bool, given)) != 1:
        raise TraceError(f"{where}: give one of column, value, file and expression")
    if field.type in ("str", "bool") and (field.scale, field.offset) != (1.0, 0.0):
        raise TraceError(f"{where}: scale and offset are for numbers")
    if field.value is not None:
        fits = {"int": int, "float": (int, float), "str": str, "bool": bool}[field.type]
        is_other = not isinstance(field.value, fits) or (field.type != "bool" and isinstance(field.value, bool))  # type: ignore[arg-type]
        if is_other or (isinstance(field.value, int) and field.value not in INT64):
            raise TraceError(f"{where}: {field.value!r} is no {field.type}{' of 64 bits' * (not is_other)}")
    _check_pattern(field.file, where)


def _check_pattern(pattern: str, where: str) -> None:
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise TraceError(f"{where}: file: {error}") from None
    if pattern and groups != 1:
        raise TraceError(f"{where}: file: the pattern needs one group in brackets, which is taken of the file's name")
