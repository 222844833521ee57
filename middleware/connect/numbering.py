"""Numbers for messages whose server gives them none: consecutive, and the same for a message that comes again.

Nodes remember the ids they have seen as intervals: consecutive numbers cost them nothing, digests would cost memory for ever.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from middleware.model.errors import StateError, UnreachableError
from middleware.runtime.storage.trust import private_database, private_folder

KEPT = 1_000_000
"""How many messages back a repeat is known."""

_AT_ONCE = 500


class Numbered(NamedTuple):
    """The number of a message, and when it came first (Unix time, ns)."""

    number: int
    at: int


class Numbering:
    """The numbers of one input, in a SQLite file. They are on disk before anyone sees them.

    ``line``: the identity of this file: numbers of another one, made anew, are other numbers. Raises StateError.
    """

    def __init__(self, file: Path, kept: int = KEPT) -> None:
        self._file, self._kept = file, kept
        try:
            private_folder(file.parent)
            private_database(file)
            self._database = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
            execute = self._database.execute
            execute("PRAGMA journal_mode = WAL")
            execute("PRAGMA synchronous = FULL")
            execute("CREATE TABLE IF NOT EXISTS line (line TEXT NOT NULL)")
            execute("CREATE TABLE IF NOT EXISTS numbers (number INTEGER PRIMARY KEY, key BLOB UNIQUE, at INTEGER NOT NULL)")
            execute("INSERT INTO line SELECT ? WHERE NOT EXISTS (SELECT 1 FROM line)", (os.urandom(6).hex(),))
            self.line: str = execute("SELECT line FROM line").fetchone()[0]
            self._last: int = execute("SELECT coalesce(max(number), 0) FROM numbers").fetchone()[0]
        except (OSError, sqlite3.Error) as error:
            raise StateError(f"{file} cannot be used: {error}; it must be this input's own") from None

    def numbers(self, keys: Sequence[tuple[bytes, bool]], at: int) -> list[Numbered]:
        """The numbers of messages by their keys, in one transaction. O(log kept) each.

        With each key: whether the message may be a repeat. If so, one of that key keeps its number and its time; if not, it
        is new, though its key be known. ``at``: the time of those that are new. Raises StateError, UnreachableError.
        """
        found, fresh = [], []
        last = self._last
        try:
            with self._database as database:
                database.execute("BEGIN IMMEDIATE")
                known = self._known([key for key, may_repeat in keys if may_repeat])
                for key, may_repeat in keys:
                    if not may_repeat or key not in known:
                        last += 1
                        known[key] = Numbered(last, at)
                        fresh.append((last, key, at))
                    found.append(known[key])
                database.executemany("INSERT OR REPLACE INTO numbers VALUES (?, ?, ?)", fresh)
                database.execute("DELETE FROM numbers WHERE number <= ?", (last - self._kept,))
        except sqlite3.OperationalError as error:  # a full disk, or another program's lock
            raise UnreachableError(f"{self._file} cannot be written now: {error}") from None
        except sqlite3.Error as error:
            raise StateError(f"{self._file} cannot be written: {error}") from None
        self._last = last
        return found

    def _known(self, keys: Sequence[bytes]) -> dict[bytes, Numbered]:
        """Those of these keys that have a number."""
        known = {}
        for start in range(0, len(keys), _AT_ONCE):
            some = keys[start : start + _AT_ONCE]
            which = ", ".join("?" * len(some))
            for key, *numbered in self._database.execute(f"SELECT key, number, at FROM numbers WHERE key IN ({which})", some):
                known[key] = Numbered(*numbered)
        return known

    def close(self) -> None:
        """Close the file."""
        self._database.close()
