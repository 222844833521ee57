"""The write-ahead file of a database, folded into the database by a thread of its own: so that no commit waits for it.

SQLite does that within a commit, each time that 4 MB have come, and syncs both files: 25 ms and more for whoever waits. A
write-ahead file begins anew when all of it has been folded at a moment at which nothing is written. Under a steady load there
is none, so the writer folds the rest itself once the file is large: by then that is little.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing, suppress

OFTEN = 4 * 2**20
"""Bytes that are written between two foldings, about."""

LARGE = 64 * 2**20
"""Bytes of the write-ahead file from which on the writer helps; at twice as many it waits for nobody."""

_PAGE = 4_096
_COMMIT = 8 * _PAGE
"""What a commit writes beside what it is about, about."""


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
        """The writer has committed so many bytes on a connection that does not fold by itself."""
        self._new += size + _COMMIT
        self._whole += size + _COMMIT
        if self._new >= self._often:
            self._new = 0
            self._work.set()
        if (self._lags or self._whole >= 2 * self._large) and not fold(connection)[1]:
            self._lags, self._whole = False, 0

    def close(self) -> None:
        """Leave the rest to the last connection that is closed."""
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
    """Fold what can be folded without waiting for anyone; pages in the write-ahead file, and how many of them are left.

    A disk that refuses leaves all as it is: the next commit will meet it, too.
    """
    with suppress(sqlite3.Error):
        is_busy, pages, done = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if not is_busy:  # else the other one is at it
            return pages, pages - done
    return 0, 1
