"""Folds the write-ahead file of a database into the database, in a thread of its own, so that no commit waits for that.

SQLite does this within a commit, after every 4 MB, and syncs both files: a wait of 25 ms and more. A write-ahead file starts
anew when all of it has been folded at a moment when nothing is being written. Under a steady load there is no such moment,
so the writer folds the rest itself once the file is large: by then little is left.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing, suppress

OFTEN = 4 * 2**20
"""About how many bytes are written between two foldings."""

LARGE = 64 * 2**20
"""From this size (bytes) of the write-ahead file on, the writer helps; at twice that, it does not wait for the thread."""

_PAGE = 4_096
_COMMIT = 8 * _PAGE
"""About how many bytes a commit writes besides its data."""


class Folding:
    """See the module. ``connect`` opens the database; ``written`` is for the writer's thread. ``often``, ``large``: bytes."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], often: int = OFTEN, large: int = LARGE) -> None:
        self._connect, self._often, self._large = connect, often, large
        self._new = self._whole = 0
        self._lags = self._closing = False
        self._work = threading.Event()
        self._thread = threading.Thread(target=self._fold_all, name="folding", daemon=True)
        self._thread.start()

    def written(self, connection: sqlite3.Connection, size: int) -> None:
        """To be called after a commit of ``size`` bytes, on a connection that does not fold by itself."""
        self._new += size + _COMMIT
        self._whole += size + _COMMIT
        if self._new >= self._often:
            self._new = 0
            self._work.set()
        if (self._lags or self._whole >= 2 * self._large) and not fold(connection)[1]:
            self._lags, self._whole = False, 0

    def close(self) -> None:
        """End; the rest is folded when the last connection is closed."""
        self._closing = True
        self._work.set()
        self._thread.join()

    def _fold_all(self) -> None:
        with suppress(sqlite3.Error), closing(self._connect()) as connection:
            while self._work.wait() and not self._closing:
                self._work.clear()
                self._whole = fold(connection)[0] * _PAGE
                self._lags |= self._whole >= self._large


def fold(connection: sqlite3.Connection) -> tuple[int, int]:
    """Fold as much as possible without waiting; returns the pages in the write-ahead file, and how many of them are left.

    If the disk refuses, all stays as it is: the next commit will fail, too.
    """
    with suppress(sqlite3.Error):
        is_busy, pages, done = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if not is_busy:  # else the other thread is folding
            return pages, pages - done
    return 0, 1
