"""The counts made while a recording is read: fields and rows by type, lines, and the lines skipped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from middleware.model.errors import TraceError
from middleware.recordings.files.recording import BASE_COLUMNS, Recording, RecordingPart

FIRST_BAD_LINES = 20


class BadLine(msgspec.Struct, frozen=True):
    """A line of a recording that was skipped, or of which a cell was lost, and why."""

    file: str
    line: int
    reason: str


class BadLines(msgspec.Struct):
    """The number of skipped lines, or of lost cells, and the first of them."""

    count: int = 0
    first: list[BadLine] = []


def skipped_note(bad: BadLines) -> str:
    """How many lines were skipped, in words."""
    return f"skipped {bad.count:,} broken line{'s' * (bad.count > 1)}"


def lost_note(lost: BadLines) -> str:
    """How many cells were lost, in words."""
    are = "are" if lost.count > 1 else "is"
    return f"{lost.count:,} cell{'s' * (lost.count > 1)} that cannot be read {are} None"


@dataclass(frozen=True)
class StagingResult:
    """The result of the first pass: fields by type (Arrow type by name), rows by type, the lines skipped, and the cells lost:
    those that could not be read, of fields that may be missing."""

    fields: dict[str, dict[str, str]]
    rows: dict[str, int]
    bad: BadLines
    lost: BadLines


class FoundLines:
    """Lines of a chunk, counted from 0, with reasons: how many there are, and the first of them."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[tuple[int, str]] = []

    def add(self, lines: Sequence[tuple[int, str]], start: int = 0) -> None:
        """Count lines that are numbered from ``start`` on."""
        self.first += [(start + line, why) for line, why in lines[: FIRST_BAD_LINES - len(self.first)]]
        self.count += len(lines)


@dataclass(frozen=True)
class ChunkReport:
    """An executor's report on one chunk."""

    fields: dict[str, dict[str, str]]
    rows: dict[str, int]
    lines: int
    bad: FoundLines
    lost: FoundLines


def staged(reports: Sequence[ChunkReport], recording: Recording) -> StagingResult:
    """The sum of the reports on all chunks. Raises TraceError if the recording is empty."""
    fields: dict[str, dict[str, str]] = {}
    rows: dict[str, int] = {}
    for report in reports:
        for name, some in report.fields.items():
            if fields.setdefault(name, some) != some:
                raise TraceError(f"{name} has the fields {some} in one chunk and {fields[name]} in another")
            rows[name] = rows.get(name, 0) + report.rows[name]
    bad = bad_lines(reports, [report.bad for report in reports], recording)
    if not rows:
        hint = f"; line {bad.first[0].line} of {bad.first[0].file}: {bad.first[0].reason}" if bad.first else ""
        raise TraceError(f"{', '.join(recording.origin)}: no event to read as {recording.reader}{hint}")
    return StagingResult(fields, rows, bad, bad_lines(reports, [report.lost for report in reports], recording))


def bad_lines(reports: Sequence[ChunkReport], lines: Sequence[FoundLines], recording: Recording) -> BadLines:
    """The lines found in all chunks, numbered from 1 within their files (a header is line 1)."""
    found = BadLines(sum(some.count for some in lines))
    before: dict[str, int] = {}
    for report, some, file in zip(reports, lines, recording.file_of, strict=True):
        start = before.setdefault(file, 1 + recording.header_lines)
        for line, why in some.first:
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
        self._bad, self._lost = FoundLines(), FoundLines()

    def add(self, part: RecordingPart) -> None:
        """Count a part's rows and lines."""
        for name, table in part.tables.items():
            if table.num_rows:
                fields = {n: str(k) for n, k in zip(table.schema.names, table.schema.types, strict=True)}
                own = {n: k for n, k in fields.items() if n not in BASE_COLUMNS and not n.startswith("_")}
                self._fields.setdefault(name, own)
                self._rows[name] = self._rows.get(name, 0) + table.num_rows
        self._bad.add(part.bad, self._lines)
        self._lost.add(part.lost, self._lines)
        self._lines += part.lines

    def report(self) -> ChunkReport:
        """The counts."""
        return ChunkReport(self._fields, self._rows, self._lines, self._bad, self._lost)
