"""Rows of CSV files whose quoted texts hold line breaks: where a row ends, and where one surely starts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

MAX_ROW_BYTES = 1 << 20
"""A row over several lines is at most this long: so an unclosed quote is found without a look at the rest of the file."""

MAX_BUFFER_BYTES = 16 << 20
"""Lines are cut anywhere if no row surely starts within this many bytes."""

_RUN = re.compile(rb'"+')


class TextRow(NamedTuple):
    """A row of a file. ``line``: the number of its first line. ``is_closed``: whether each quote in it ends."""

    line: int
    text: bytes
    is_closed: bool = True


class Quotes:
    """Finds rows in CSV lines. A row goes over several lines only if it has ``columns`` cells, each as CSV writes it.

    Otherwise the quote that is open at a line's end is a broken one, and costs that line only.
    """

    def __init__(self, delimiter: str, columns: int) -> None:
        self._delimiter = delimiter.encode()
        end = re.escape(self._delimiter)
        text = rb'"[^"]*+(?:""[^"]*+)*+'
        bare = rb'[^"\n' + end + rb"][^\n" + end + rb"]*+"
        strict = rb"(?:" + text + rb'"(?=' + end + rb"|\r?\n)|" + bare + rb")?+"
        loose = rb"(?:" + text + rb'"[^\n' + end + rb"]*+|" + bare + rb")?+"
        self._row = re.compile(strict + rb"(?:" + end + strict + rb"){%d}\r?\n" % (columns - 1))
        self._line = re.compile(loose + rb"(?:" + end + loose + rb")*+\r?\n?")
        self._open = re.compile(rb"(?:" + strict + end + rb")*+" + text)

    def is_closed(self, line: bytes) -> bool:
        """Whether no quote is open at the end of a line."""
        return b'"' not in line or self._line.fullmatch(line) is not None

    def rows(self, text: bytes) -> Iterator[TextRow]:
        """The rows of whole lines. O(bytes), and O(``MAX_ROW_BYTES``) for each broken quote."""
        text, line, at = text if text.endswith(b"\n") else text + b"\n", 0, 0
        while at < len(text):
            end = text.index(b"\n", at) + 1
            row = TextRow(line, text[at:end])
            if not self.is_closed(row.text):
                whole = self._row.match(text, at, min(at + MAX_ROW_BYTES, len(text)))
                end = whole.end() if whole else end
                row = TextRow(line, text[at:end], whole is not None)
            yield row
            line += row.text.count(b"\n")
            at = end

    def complete(self, text: bytes) -> int:
        """How many bytes of whole lines hold whole rows, if more lines may follow."""
        at = 0
        for row in self.rows(text) if b'"' in text else ():
            if not row.is_closed and len(text) - at < MAX_ROW_BYTES and self._open.fullmatch(text, at):
                return at
            at += len(row.text)
        return len(text)

    def sure_start(self, text: bytes, at: int = 0) -> int | None:
        """The first line start from ``at`` on that no row holds, whatever stands before; ``at`` is one. None if none is sure.

        A quote that is open there would have to end at the next odd run of quotes, before a delimiter or a line end.
        """
        closing = (self._delimiter, b"\r", b"\n", b"")
        for run in _RUN.finditer(text, at) if b'"' in text else ():
            if run.start() < at or len(run[0]) % 2 == 0:
                continue
            if run.start() - at > MAX_ROW_BYTES or text[run.end() : run.end() + 1] not in closing:
                return at
            at = text.find(b"\n", run.end()) + 1
            if not at:
                return None
        return at if len(text) - at > MAX_ROW_BYTES else None

    def whole(self, blocks: Iterable[bytes | None]) -> Iterator[bytes | None]:
        """Blocks of whole lines, cut anew where rows surely start; the first starts with a row."""
        buffer, border = b"", 0
        for block in blocks:
            if buffer and (block is None or len(buffer) > MAX_BUFFER_BYTES):
                yield buffer
                buffer = b""
            if not buffer and (block is None or b'"' not in block):
                yield block
                continue
            border = border if buffer else len(block or b"")
            buffer += block or b""
            at = self.sure_start(buffer, border) if border < len(buffer) else None
            if at is not None:
                yield buffer[:at]
                buffer = buffer[at:]
                border = len(buffer)
        if buffer:
            yield buffer
