"""Files that grow: the lines that have come since the last look, as events."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from middleware.connect.files.formats import is_text
from middleware.connect.files.mapped import parser_of
from middleware.connect.files.mapping import Mapping
from middleware.connect.files.tally import BadLine
from middleware.connect.files.text import BLOCK_BYTES, BOM, header_line, salvage
from middleware.connect.tables.columns import columns_of
from middleware.model.errors import TraceError
from middleware.model.event import Event, EventType

if TYPE_CHECKING:
    import pyarrow as pa

_PAUSE = 0.1
"""Seconds between two looks at files that have not grown."""


class Follower:
    """A text file that others append to. Rows without ids are numbered as they come, for each source.

    ``bad``: lines that did not fit. Raises TraceError if the file cannot be followed, or ceases to be what it was.
    """

    def __init__(self, file: Path, mapping: Mapping, event_type: EventType) -> None:
        if not is_text(file) or file.suffix in (".gz", ".bz2"):
            raise TraceError(f"{file} cannot be followed: only CSV and JSON lines grow line by line")
        self.bad: list[BadLine] = []
        self._file, self._mapping, self._type = file, mapping, event_type
        self._parse, self._has_header = parser_of(file, mapping)
        self._numbers: Counter[str] = Counter()
        self._inode = -1
        self._at = self._line = 0

    def take(self) -> list[Event]:
        """The events of whole lines that have come; empty if there are none. A file that was replaced is read anew."""
        try:
            with self._file.open("rb") as text:
                found = os.fstat(text.fileno())
                if found.st_ino != self._inode or found.st_size < self._at:
                    self._begin(found.st_ino)
                text.seek(self._at)
                block = text.read(BLOCK_BYTES)
        except OSError as error:
            raise TraceError(f"{self._file} cannot be read: {error.strerror}") from None
        whole = block[: block.rfind(b"\n") + 1]
        if not whole:
            if len(block) == BLOCK_BYTES:
                raise TraceError(f"{self._file}: a line of more than {BLOCK_BYTES:,} bytes")
            return []
        tables, bad = salvage(whole if self._at else whole.removeprefix(BOM), self._parse)
        self.bad += [BadLine(str(self._file), self._line + line + 1, why) for line, why in bad]
        self._at += len(whole)
        self._line += whole.count(b"\n")
        return [event for _, table in tables for event in self._numbered(table)]

    def _begin(self, inode: int) -> None:
        self._inode = inode
        self._at = len(header_line(self._file)) if self._has_header else 0
        self._line = int(self._has_header)

    def _numbered(self, table: pa.Table) -> list[Event]:
        if self._mapping.id is None:
            table = table.append_column("id", [[self._next(source) for source in table["source"].to_pylist()]])
        return columns_of(table, self._type).events()

    def _next(self, source: str) -> int:
        self._numbers[source] += 1
        return self._numbers[source] - 1


def followed(followers: Sequence[Follower]) -> Iterator[list[Event]]:
    """What comes, without an end; an empty list whenever nothing has come for a while."""
    while True:
        found = [event for follower in followers for event in follower.take()]
        yield found
        if not found:
            time.sleep(_PAUSE)
