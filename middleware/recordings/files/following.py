"""Files that grow: the lines that have come since the last look, as events."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from middleware.model.errors import TraceError
from middleware.model.event import Event, EventType
from middleware.recordings.files.formats import is_text
from middleware.recordings.files.mapped import parser_of
from middleware.recordings.files.mapping import Mapping
from middleware.recordings.files.tally import BadLine
from middleware.recordings.files.text import BLOCK_BYTES, BOM, MAX_LINE_BYTES, header_line, is_packed, salvage
from middleware.recordings.tables.table_columns import columns_of

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_ROWS = 2**48
"""Rows of a source in a file."""

_PAUSE = 0.1
"""Seconds between two looks at files that have not grown."""


class Follower:
    """A text file that others append to. Rows without ids are numbered as they come, for each source.

    ``bad``: lines that did not fit; ``lost``: cells that could not be read, and are None. ``number``: of this file among those
    that are followed together, which may have rows of one source. The ids of the files lie far apart, so a row has the same one
    each time the file is read from its start, however the files grow. Raises TraceError if the file cannot be followed, or
    ceases to be what it was.
    """

    def __init__(self, file: Path, mapping: Mapping, event_type: EventType, number: int = 0) -> None:
        if not is_text(file) or is_packed(file):
            raise TraceError(f"{file} cannot be followed: only CSV and JSON lines grow line by line")
        self.bad: list[BadLine] = []
        self.lost: list[BadLine] = []
        self._file, self._mapping, self._type = file, mapping, event_type
        self._parser, self._quotes = parser_of(file, mapping)
        self._has_header = self._quotes is not None
        self._is_ending = False
        """Whether another file has replaced it, so nothing follows."""
        self._first, self._numbers = number * _MOST_ROWS, Counter[str]()
        self._text: BinaryIO | None = None
        self._header: bytes | None = None
        self._at = self._line = 0
        self._is_inside = False
        """Whether what comes next belongs to a line that is too long."""

    def take(self) -> list[Event]:
        """The events of whole lines that have come; empty if there are none.

        A file that was cut short is read anew, as is one that replaced it, once the old one is read to its end.
        """
        try:
            block = self._without_rest(self._block())
        except OSError as error:
            raise TraceError(f"{self._file} cannot be read: {error.strerror}") from None
        whole = block[: block.rfind(b"\n") + 1]
        if whole and self._quotes and not self._is_ending:
            rows = self._quotes.complete(whole)
            if not rows and len(block) < BLOCK_BYTES:
                return []  # a quote is open: its row may continue in the lines that follow
            whole = whole[:rows] or whole
        if not whole:
            if len(block) > MAX_LINE_BYTES:
                self.bad.append(BadLine(str(self._file), self._line + 1, f"a line of more than {MAX_LINE_BYTES:,} bytes"))
                self._at, self._is_inside = self._at + len(block), True
            return []
        found = salvage(whole if self._at else whole.removeprefix(BOM), self._parser, self._quotes)
        self.bad += self._numbered_lines(found.bad)
        self.lost += self._numbered_lines(found.lost)
        self._at += len(whole)
        self._line += whole.count(b"\n")
        return self._numbered(found.table) if found.table.num_rows else []

    def _block(self) -> bytes:
        """The next bytes: with a whole line, unless there is none, or it is too long."""
        if self._text is None and not self._begin():
            return b""
        assert self._text is not None
        descriptor = self._text.fileno()
        was = os.fstat(descriptor)
        # asked before it is read: then nothing comes into the old one any more
        has_followed = self._is_ending = self._is_replaced(was)
        if was.st_size < self._at:
            self.close()
            return self._block()
        block = os.pread(descriptor, BLOCK_BYTES, self._at)
        if len(block) == BLOCK_BYTES and b"\n" not in block:
            block = os.pread(descriptor, MAX_LINE_BYTES + 1, self._at)
        if not has_followed or b"\n" in block:
            return block
        self.close()
        return block + b"\n" if block else self._block()

    def _without_rest(self, block: bytes) -> bytes:
        """The bytes without the rest of a line that is too long."""
        if not self._is_inside:
            return block
        rest = block.find(b"\n") + 1
        self._is_inside = not rest
        self._line += bool(rest)
        self._at += rest or len(block)
        return block[rest or len(block) :]

    def _begin(self) -> bool:
        """Open the file; whether it has its header. Raises TraceError if that is another one than before."""
        header = header_line(self._file) if self._has_header else b"\n"
        if not header.endswith(b"\n"):
            return False
        if self._header not in (None, header):
            raise TraceError(f"{self._file} has other columns than the file that it replaces: read it as another one")
        self._header = header
        self._text = self._file.open("rb")
        self._at = len(header) if self._has_header else 0
        self._line, self._is_inside = int(self._has_header), False
        return True

    def _is_replaced(self, was: os.stat_result) -> bool:
        """Whether another file has its name; for a moment, none may have it."""
        try:
            return self._file.stat().st_ino != was.st_ino
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Close what is open."""
        if self._text is not None:
            self._text.close()
            self._text = None

    def _numbered_lines(self, lines: Sequence[tuple[int, str]]) -> list[BadLine]:
        return [BadLine(str(self._file), self._line + line + 1, why) for line, why in lines]

    def _numbered(self, table: pa.Table) -> list[Event]:
        if self._mapping.id is None:
            table = table.append_column("id", [[self._next(source) for source in table["source"].to_pylist()]])
        return columns_of(table, self._type).events()

    def _next(self, source: str) -> int:
        self._numbers[source] += 1
        return self._first + self._numbers[source] - 1


def followed(followers: Sequence[Follower]) -> Iterator[list[Event]]:
    """The lines as they come, without an end; an empty list whenever nothing has come for a while."""
    while True:
        found = [event for follower in followers for event in follower.take()]
        yield found
        if not found:
            time.sleep(_PAUSE)
