"""When lines came in: each later than the one before, and the same if a file is read again from its first line."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

from middleware.model.errors import UnreachableError
from middleware.runtime.storage.trust import open_private, private_folder

_ROW = struct.Struct("<qq")


class LineArrivals:
    """The times (Unix, ns) of lines by number, asked for in order. O(1) memory.

    ``file``: where they are kept, a row for each block of lines: its last line, and when that came. It is on disk before anyone
    sees it. None: they need not outlast the process. Raises StateError, OSError.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._last = self._at = 0
        self._file: int | None = None
        self._kept = 0
        """Where the next row begins."""
        if file is not None:
            private_folder(file.parent)
            self._file = open_private(file, os.O_RDWR)

    def times(self, first: int, count: int) -> list[int]:
        """When these lines came: those that are new, now. O(lines). Raises UnreachableError: then they are still unknown."""
        found: list[int] = []
        last, number = first + count - 1, first
        while number <= last:
            if number > self._last and not self._was_kept():
                self._came(number, last)
            until = min(last, self._last)
            found += range(self._at - self._last + number, self._at - self._last + until + 1)
            number = until + 1
        return found

    def _was_kept(self) -> bool:
        """Go on to the next row, if there is one."""
        if self._file is None or len(row := os.pread(self._file, _ROW.size, self._kept)) < _ROW.size:
            return False
        self._last, self._at = _ROW.unpack(row)
        self._kept += _ROW.size
        return True

    def _came(self, first: int, last: int) -> None:
        """These lines have come now."""
        at = max(self._at + 1, time.time_ns()) + last - first
        if self._file is not None:
            try:
                if os.pwrite(self._file, _ROW.pack(last, at), self._kept) < _ROW.size:
                    raise OSError("it was written in part")
                os.fdatasync(self._file)
            except OSError as error:
                raise UnreachableError(f"when lines came cannot be written now: {error.strerror or error}") from None
            self._kept += _ROW.size
        self._last, self._at = last, at
