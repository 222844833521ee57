"""A spill file: rows that a database does not take yet are safe beside it, each as a line of JSON.

Another program may lock a database for as long as it likes (a backup, a shell with an open transaction), but not a plain file
of our own. The file exists only while rows wait.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from middleware.runtime.storage.trust import open_private

RETRY = 1.0
"""Seconds after which a disk that refused is tried again."""


_Row = TypeVar("_Row")


class Spill(Generic[_Row]):
    """Rows that ``decoder`` reads, in ``file``; once that holds ``most``, it becomes ``file`` + ".before".

    So the last ``most`` rows are always there, and never more than twice as many. ``rows`` gives what a former life left; rows
    read twice after a crash must do no harm. ``retry``: see RETRY.
    """

    def __init__(self, file: Path, decoder: msgspec.json.Decoder[_Row], most: int, retry: float = RETRY) -> None:
        self._file, self._before = file, file.with_name(file.name + ".before")
        self._decoder, self._most, self._retry = decoder, most, retry
        self._descriptor = -1
        self._count = self._end = 0
        self._refused_at: float | None = None

    def rows(self) -> tuple[list[_Row], int]:
        """The rows of a former life, in order, and the number of damaged lines. A torn last line is not counted: it was never
        confirmed.

        Raises OSError.
        """
        found: list[_Row] = []
        damaged = 0
        for file in (self._before, self._file):
            lines = file.read_bytes().split(b"\n")[:-1] if file.exists() else []
            for line in lines:
                try:
                    found.append(self._decoder.decode(line))
                except (msgspec.DecodeError, UnicodeDecodeError):
                    damaged += 1
        return found, damaged

    def add(self, rows: Sequence[_Row]) -> bool:
        """Write rows to the disk (fsync), all or none; False if it refuses, or did so a moment ago. O(rows)."""
        if self._refused_at is not None and time.monotonic() - self._refused_at < self._retry:
            return False
        try:
            self._append(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
        except OSError:
            self._refused_at = time.monotonic()
            return False
        self._refused_at = None
        self._count += len(rows)
        return True

    def _append(self, data: bytes) -> None:
        if self._count >= self._most:
            self.close()
            os.replace(self._file, self._before)
        if self._descriptor < 0:
            self._open()
        left = memoryview(data)
        try:
            os.ftruncate(self._descriptor, self._end)  # part of a batch that was refused before
            while left:
                left = left[os.write(self._descriptor, left) :]
            os.fsync(self._descriptor)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._end)
            raise
        self._end += len(data)

    def _open(self) -> None:
        self._descriptor = open_private(self._file, os.O_WRONLY | os.O_APPEND)
        self._end, self._count = os.fstat(self._descriptor).st_size, 0
        folder = os.open(self._file.parent, os.O_RDONLY | os.O_CLOEXEC)  # its name must be durable, too
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def clear(self) -> None:
        """Delete the file: the database has all rows."""
        self.close()
        self._end = self._count = 0
        for file in (self._file, self._before):
            with suppress(OSError):  # then the rows are read a second time
                file.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file, and leave it as it is."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
