"""Numbers for messages whose server gives them none: consecutive, and the same for a message that comes again.

Nodes remember the ids they have seen as intervals: consecutive numbers cost them nothing, digests would cost memory for ever.
The file on disk only grows, by a row for each batch: an index over keys there would be written anew in most of its pages with
each batch. The index is here, in memory: some 140 bytes for each message that is known.
"""

from __future__ import annotations

import os
import sqlite3
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

import msgspec

from middleware.model.errors import StateError, UnreachableError
from middleware.runtime.storage.trust import private_database, private_folder

KEPT = 1_000_000
"""How many messages back a repeat is known, at least."""


_WAIT = 1.0
"""Seconds for which another process may still be ending."""


class MessageNumber(NamedTuple):
    """The number of a message, and when it came first (Unix time, ns)."""

    number: int
    at: int


_Keys = list[tuple[bytes, int]]
"""Keys of a batch, each with its number."""
_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.Decoder(_Keys).decode


class Numbering:
    """The numbers of one input, in a SQLite file. They are on disk before anyone sees them.

    ``line``: the identity of this file: numbers of another one, made anew, are other numbers. Raises StateError, and
    UnreachableError while another process has it.
    """

    def __init__(self, file: Path, kept: int = KEPT) -> None:
        self._file, self._kept, self._last = file, kept, 0
        self._known: dict[bytes, int] = {}
        self._batches: list[tuple[int, int]] = []
        """The last number of each, and when it came."""
        try:
            private_folder(file.parent)
            private_database(file)
            self._database = sqlite3.connect(file, timeout=_WAIT, isolation_level=None, check_same_thread=False)
            execute = self._database.execute
            execute("PRAGMA locking_mode = EXCLUSIVE")  # another process would give the same numbers to other messages
            execute("PRAGMA journal_mode = WAL")
            execute("PRAGMA synchronous = FULL")
            execute("CREATE TABLE IF NOT EXISTS line (line TEXT NOT NULL)")
            execute("CREATE TABLE IF NOT EXISTS batches (last INTEGER PRIMARY KEY, at INTEGER NOT NULL, keys BLOB NOT NULL)")
            execute("INSERT INTO line SELECT ? WHERE NOT EXISTS (SELECT 1 FROM line)", (os.urandom(6).hex(),))
            self.line: str = execute("SELECT line FROM line").fetchone()[0]
            self._load()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise StateError(f"{file} cannot be used: {error}") from None
            raise UnreachableError(f"{file} is in use: another process serves this input") from None
        except (OSError, sqlite3.Error, msgspec.MsgspecError) as error:
            raise StateError(f"{file} cannot be used: {error}; it must be this input's own") from None

    def _load(self) -> None:
        for last, at, keys in self._database.execute("SELECT last, at, keys FROM batches ORDER BY last"):
            self._last = last
            self._known.update(_decode(keys))
            self._batches.append((last, at))

    def numbers(self, keys: Sequence[tuple[bytes, bool]], at: int, counts: Iterable[int] = repeat(1)) -> list[MessageNumber]:
        """The numbers of messages by their keys, in one transaction. O(keys).

        With each key: whether the message may be a repeat. If so, one of that key keeps its number and its time; if not, it
        is new, though its key be known. ``at``: the time of those that are new. ``counts``: how many consecutive numbers each
        takes, the last of which is returned. Raises StateError, UnreachableError.
        """
        known = self._known
        fresh: dict[bytes, int] = {}
        found, added = [], _Keys()
        last = self._last
        for (key, may_repeat), count in zip(keys, counts, strict=False):
            number = (fresh.get(key) or known.get(key, 0)) if may_repeat else 0
            if not number:
                last = number = last + count
                fresh[key] = number
                added.append((key, number))
            found.append(number)
        first_fresh = self._last + 1
        if added:
            self._add(added, last, at)
        return [MessageNumber(number, at if number >= first_fresh else self._time(number)) for number in found]

    def _add(self, added: _Keys, last: int, at: int) -> None:
        """Store a batch with these keys; forget those that are too far back."""
        too_old = (last - self._kept,)
        try:
            with self._database as database:
                database.execute("BEGIN IMMEDIATE")
                database.execute("INSERT INTO batches VALUES (?, ?, ?)", (last, at, _encode(added)))
                old = database.execute("SELECT keys FROM batches WHERE last <= ?", too_old).fetchall()
                database.execute("DELETE FROM batches WHERE last <= ?", too_old)
        except sqlite3.OperationalError as error:  # a full disk, or another program's lock
            raise UnreachableError(f"{self._file} cannot be written now: {error}") from None
        except sqlite3.Error as error:
            raise StateError(f"{self._file} cannot be written: {error}") from None
        self._last = last
        self._known.update(added)
        self._batches.append((last, at))
        for (keys,) in old:
            for key, number in _decode(keys):
                if self._known.get(key) == number:
                    del self._known[key]
        del self._batches[: len(old)]

    def _time(self, number: int) -> int:
        return self._batches[bisect_left(self._batches, (number,))][1]

    def close(self) -> None:
        """Close the file."""
        self._database.close()
