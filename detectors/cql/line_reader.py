"""Tuples from lines of text, for SOURCE FILE and SOURCE HOST. Bad lines are counted by reason, and never cost a good one."""

from __future__ import annotations

import csv
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from pathlib import Path

from detectors.cql.catalog import TS, Attribute, CatalogStream, find
from detectors.cql.grammar import statements as s
from detectors.language import values
from detectors.language.query_errors import QueryError
from detectors.language.value_types import LIMITS, Type, ValueKind
from middleware.model.errors import EventError, TraceError
from middleware.model.event import MAX_TS, Event, Value
from middleware.model.operator import LineSource
from middleware.model.time import SECOND

_READ: dict[Type, Callable[[str], Value]] = {
    Type.STRING: str,
    Type.CHAR: lambda text: text if len(text) == 1 else None,
    Type.BOOLEAN: values.text_boolean,
    Type.DATETIME: values.to_datetime,
    Type.FLOAT: values.single_number,
    Type.DOUBLE: values.text_number,
}


class LineReader:
    """Reads lines of one stream.

    The first line may be a header that names attributes; else fields are in the order of the schema. An empty field is
    NULL. ``ts`` of a tuple is its attribute ``ts`` (nanoseconds), or its TIMESTAMP (seconds, or as FORMAT says), or else the
    system's time when it arrives: ``now``. So is its SYSTEM TIME, unless the line has it already, as a recording does. A
    tuple's identity is the source and the line number.

    ``bad``
        how many lines were not taken, by reason; ``examples`` holds the first few.
    """

    def __init__(self, stream: CatalogStream, source: str, delimiter: str, now: Callable[[], int]) -> None:
        self.stream = stream
        self.bad: Counter[str] = Counter()
        self.examples: list[str] = []
        self._source, self._delimiter, self._now = source, delimiter, now
        self._columns: list[Attribute] | None = None
        self._header: list[str] | None = None
        self._fields = [each for each in stream.schema if each.name != TS]
        self._number = 0
        self._latest = 0

    def read(self, lines: Iterable[str]) -> list[Event]:
        """The tuples of these lines."""
        events = []
        for line in lines:
            self._number += 1
            try:
                event = self.tuple_of(line, self._source, self._number)
            except EventError as error:
                self._refuse(str(error), line)
                continue
            if event is not None:
                events.append(event)
        return events

    def tuple_of(self, line: str, source: str, number: int, at: int | None = None) -> Event | None:
        """The tuple of a line, with this identity; None for a blank line and a header, which may come again. ``at``: when it
        arrived, if that is known; else now.

        Raises EventError for a line that is none, and TraceError for a header without what the stream needs.
        """
        text = (line.removeprefix("\ufeff") if number == 1 else line).rstrip("\r\n")
        if not text.strip():
            return None
        cells = self._split(text)
        if cells == self._header or (self._columns is None and self._is_header(cells)):
            self._header = cells
            return None
        values, ts = self._values(cells, at)
        return self.stream.event_type(*values, ts=ts, id=number, source=source)

    def _split(self, text: str) -> list[str]:
        if len(self._delimiter) == 1:
            try:
                return next(csv.reader([text], delimiter=self._delimiter), [])
            except (csv.Error, TypeError, ValueError):
                pass
        return text.split(self._delimiter)

    def _is_header(self, cells: list[str]) -> bool:
        found = [find(self.stream.schema, cell.strip()) or (_TS if cell.strip().lower() == TS else None) for cell in cells]
        named = [each for each in found if each is not None]
        filled = (*named, self.stream.system_time)
        missing = [each.name for each in self._fields if each not in filled and not each.kind.nullable]
        if named and len(named) == len(set(named)) and len(named) * 2 > len(cells):
            if missing:
                raise TraceError(f"{self._source}: the header has no {', '.join(missing)}, which {self.stream.name} needs")
            self._columns = [each if each is not None else _SKIPPED for each in found]
            return True
        arrival = self.stream.system_time
        is_left_out = arrival is not None and len(cells) == len(self.stream.schema) - 1
        self._columns = [each for each in self.stream.schema if not (is_left_out and each == arrival)]
        return False

    def _values(self, cells: list[str], at: int | None) -> tuple[list[Value], int]:
        """The values of a tuple's own fields, and its ts."""
        assert self._columns is not None
        if len(cells) != len(self._columns):
            raise EventError(f"{len(cells)} fields, not {len(self._columns)}")
        row: dict[str, Value] = {}
        for column, cell in zip(self._columns, map(str.strip, cells), strict=True):
            if column is _SKIPPED:
                continue
            value = parsed(cell, column.kind.type) if cell else None
            if value is None and (cell or not (column.kind.nullable or column == self.stream.system_time)):
                raise EventError(f"{column.name} is no {column.kind}" if cell else f"{column.name} is empty")
            row[column.name] = value
        if (arrival := self.stream.system_time) is not None and row.get(arrival.name) is None:
            row[arrival.name] = self._arrival() if at is None else at
        ts = self._time(row, at)
        if ts is None or not -MAX_TS < ts < MAX_TS:
            raise EventError("no time")
        return [row.get(each.name) for each in self._fields], ts

    def _time(self, row: dict[str, Value], at: int | None) -> int | None:
        if TS in row:
            return row[TS]  # type: ignore[no-any-return]
        if self.stream.written is not None:
            attribute, read = self.stream.written
            written = row.get(attribute.name)
            return None if written is None else read(written)
        if self.stream.timestamp is not None:
            seconds: int | None = row.get(self.stream.timestamp.name)
            return None if seconds is None else seconds * SECOND
        return self._arrival() if at is None else at

    def _arrival(self) -> int:
        """The system's time, later for each tuple than for the one before (Vu 2015, 2)."""
        self._latest = max(self._latest + 1, self._now())
        return self._latest

    def _refuse(self, reason: str, text: str) -> None:
        self.bad[reason] += 1
        if len(self.examples) < 5:
            self.examples.append(f"{self._source}, line {self._number}: {reason}: {text.rstrip()[:80]}")


def line_source(stream: CatalogStream, folder: Path) -> LineSource:
    """The lines of a stream with a SOURCE, for the node that runs a query over it; paths start in ``folder``."""
    match stream.source:
        case s.File(path=path, delimiter=delimiter, disorder=disorder):
            where = path
            place: Path | tuple[str, int] = (folder / path).resolve()
        case s.Host(host=host, port=port, disorder=disorder):
            where, place, delimiter = f"{host}:{port}", (host, port), ","
        case None:
            raise ValueError(f"{stream.name} has no source")
    parser = partial(_parser, stream, where, delimiter)
    is_timed = TS in (each.name for each in stream.schema) or (stream.timestamp or stream.written) is not None
    by_arrival = stream.system_time is not None or not is_timed
    return LineSource(stream.name, f"{stream.name}:{where}", place, stream.event_type, parser, disorder, by_arrival)


def _parser(stream: CatalogStream, where: str, delimiter: str) -> Callable[[str, str, int, int], Event | None]:
    return LineReader(stream, where, delimiter, time.time_ns).tuple_of


_TS = Attribute(TS, ValueKind(Type.LONG), TS)
_SKIPPED = Attribute("", ValueKind(Type.STRING, True), "")


def parsed(text: str, kind: Type) -> Value:
    """The value of a type that a text spells, or None."""
    if kind in LIMITS:
        number = values.text_integer(text) if "." not in text else None
        return None if number is None else values.within(number, LIMITS[kind])
    return _READ[kind](text)


def read_table(table: CatalogStream, source: s.File, folder: Path) -> tuple[Event, ...]:
    """The rows of a table. Raises QueryError if the file cannot be read, or a line is no row."""
    path = folder / source.path
    reader = LineReader(table, source.path, source.delimiter, count().__next__)
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = tuple(reader.read(file))
    except (OSError, UnicodeDecodeError, TraceError) as error:
        raise QueryError(f"{path} cannot be read: {error}", source.span) from None
    if reader.bad:
        raise QueryError(f"{path} is no table of {table.name}: {reader.examples[0]}", source.span)
    return rows
