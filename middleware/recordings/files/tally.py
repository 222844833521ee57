"""The counts made while a recording is read: fields and rows by type, lines, and the lines skipped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from middleware.model.errors import TraceError
from middleware.recordings.files.recording import BASE_COLUMNS, Recording, RecordingPart

FIRST_BAD_LINES = 20


class BadLine(msgspec.Struct, frozen=True):
    """A line of a recording that was skipped, and why."""

    file: str
    line: int
    reason: str


class BadLines(msgspec.Struct):
    """The number of skipped lines, and the first of them."""

    count: int = 0
    first: list[BadLine] = []


@dataclass(frozen=True)
class StagingResult:
    """The result of the first pass: fields by type (Arrow type by name), rows by type, and the lines skipped."""

    fields: dict[str, dict[str, str]]
    rows: dict[str, int]
    bad: BadLines


@dataclass(frozen=True)
class ChunkReport:
    """An executor's report on one chunk."""

    fields: dict[str, dict[str, str]]
    rows: dict[str, int]
    lines: int
    bad_count: int
    bad: list[tuple[int, str]]


def staged(reports: Sequence[ChunkReport], recording: Recording) -> StagingResult:
    """The sum of the reports on all chunks. Raises TraceError if the recording is empty."""
    fields: dict[str, dict[str, str]] = {}
    rows: dict[str, int] = {}
    for report in reports:
        for name, some in report.fields.items():
            if fields.setdefault(name, some) != some:
                raise TraceError(f"{name} has the fields {some} in one chunk and {fields[name]} in another")
            rows[name] = rows.get(name, 0) + report.rows[name]
    bad = bad_lines(reports, recording)
    if not rows:
        hint = f"; line {bad.first[0].line} of {bad.first[0].file}: {bad.first[0].reason}" if bad.first else ""
        raise TraceError(f"{', '.join(recording.origin)}: no event to read as {recording.reader}{hint}")
    return StagingResult(fields, rows, bad)


def bad_lines(reports: Sequence[ChunkReport], recording: Recording) -> BadLines:
    """The broken lines of all chunks, numbered from 1 within their files (a header is line 1)."""
    found = BadLines(sum(report.bad_count for report in reports))
    before: dict[str, int] = {}
    for report, file in zip(reports, recording.file_of, strict=True):
        start = before.setdefault(file, 1 + recording.header_lines)
        for line, why in report.bad:
            if len(found.first) < FIRST_BAD_LINES:
                found.first.append(BadLine(file, start + line, why))
        before[file] = start + report.lines
    return found


class ChunkTally:
    """Counts what is read of one chunk."""

    def __init__(self) -> None:
        self._fields: dict[str, dict[str, str]] = {}
        self._rows: dict[str, int] = {}
        self._lines = 0
        self._bad_count = 0
        self._bad: list[tuple[int, str]] = []

    def add(self, part: RecordingPart) -> None:
        """Count a part's rows and lines."""
        for name, table in part.tables.items():
            if table.num_rows:
                fields = {n: str(k) for n, k in zip(table.schema.names, table.schema.types, strict=True)}
                own = {n: k for n, k in fields.items() if n not in BASE_COLUMNS and not n.startswith("_")}
                self._fields.setdefault(name, own)
                self._rows[name] = self._rows.get(name, 0) + table.num_rows
        room = FIRST_BAD_LINES - len(self._bad)
        self._bad += [(self._lines + line, why) for line, why in part.bad[:room]]
        self._bad_count += len(part.bad)
        self._lines += part.lines

    def report(self) -> ChunkReport:
        """The counts."""
        return ChunkReport(self._fields, self._rows, self._lines, self._bad_count, self._bad)
