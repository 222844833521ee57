"""The witness of a log: a small file beside it with the number of its last record, so that a shortened log is found out.

SQLite silently drops what follows a damaged frame of its write-ahead file, and a log may be removed, or replaced by an older
one. The witness is written after each commit, and before any effect of it leaves the node: so it is never ahead of the log,
and never behind what anyone outside has seen. It is synced (fdatasync) in the background, so that no batch waits for
that: a power cut may take its last moment, which is no loss while the disk has kept the log.
"""

from __future__ import annotations

import os
import struct
import time
from contextlib import suppress
from pathlib import Path

import msgspec
import xxhash

from middleware.runtime.storage.trust import open_private

SYNC = 0.1
"""Seconds within which what was written is synced."""

_MAGIC = b"SLWT"
_FORM = struct.Struct("<4sQQQQQ")
_SLOT = 512
"""Bytes of a sector, which a disk writes as a whole; two are written in turn, so that one is always valid."""


class LogEnd(msgspec.Struct, frozen=True):
    """The last record of a log that counted as stored: the log's identity, the record's number, its checksum."""

    line: int
    number: int
    sum: int


class Witness:
    """See the module. ``seen``: its contents; None if it was just made, or (``is_damaged``) cannot be read.

    Raises OSError.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._descriptor = open_private(file, os.O_RDWR)
        try:
            content = os.pread(self._descriptor, 2 * _SLOT, 0)
            os.posix_fallocate(self._descriptor, 0, 2 * _SLOT)  # later writes need no more room
        except BaseException:
            os.close(self._descriptor)
            raise
        slots = [found for at in (0, _SLOT) if (found := _read(content[at : at + _FORM.size])) is not None]
        self._turn = max((turn for turn, _ in slots), default=0)
        self.seen: LogEnd | None = dict(slots).get(self._turn)
        self.is_damaged = bool(content.strip(b"\0")) and not slots
        self._unsynced = False
        self._synced_at = time.monotonic()

    def write(self, seen: LogEnd) -> None:
        """Write it, so that it survives this process. Raises OSError."""
        turn = self._turn + 1
        form = _FORM.pack(_MAGIC, turn, seen.line, seen.number, seen.sum, 0)
        form = _FORM.pack(_MAGIC, turn, seen.line, seen.number, seen.sum, xxhash.xxh3_64_intdigest(form))
        os.pwrite(self._descriptor, form, turn % 2 * _SLOT)
        self._turn, self.seen, self._unsynced = turn, seen, True

    @property
    def due(self) -> float | None:
        """Seconds until it must be synced; None if there is nothing to sync."""
        return max(0.0, self._synced_at + SYNC - time.monotonic()) if self._unsynced else None

    def sync(self) -> None:
        """Sync it, so that it survives a power cut. If the disk refuses, the next sync tries again."""
        self._unsynced, self._synced_at = False, time.monotonic()
        with suppress(OSError):
            os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Sync and close the file."""
        self.sync()
        os.close(self._descriptor)


def _read(form: bytes) -> tuple[int, LogEnd] | None:
    """A slot's turn and contents; None if it was never written, or is damaged."""
    if len(form) < _FORM.size:
        return None
    magic, turn, line, number, total, digest = _FORM.unpack(form)
    if magic != _MAGIC or digest != xxhash.xxh3_64_intdigest(_FORM.pack(magic, turn, line, number, total, 0)):
        return None
    return turn, LogEnd(line, number, total)
