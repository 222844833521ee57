"""The store of a node: its log and its last checkpoint in one SQLite file, written by a thread of its own.

Each transaction holds what was queued when it began (group commit) and is on the disk when it counts as stored: journal
mode WAL, synchronous=FULL. What a power cut tears is as if it had never begun; SQLite's checksums see to that.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec
import structlog

from middleware.clock import SECOND
from middleware.durability.core import Write
from middleware.errors import StateError
from middleware.pubsub.journal import Record, decode_record, encode_record

FORMAT = 1
"""Of the file; another one is refused."""

_RETRY = 1.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS log (number INTEGER PRIMARY KEY, last INTEGER NOT NULL, at INTEGER NOT NULL, data BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS log_last ON log (last);
CREATE TABLE IF NOT EXISTS checkpoint (number INTEGER PRIMARY KEY, at INTEGER NOT NULL, data BLOB NOT NULL);
"""

_log = structlog.get_logger()


class Retention(msgspec.Struct, frozen=True):
    """How much of the log is kept below the last checkpoint, for those who come late: so long (ns), and so many bytes.

    What a reader has not passed yet is kept four times as long; after that it has a gap, and is told.
    """

    age: int = 24 * 3600 * SECOND
    size: int = 2**30


class Store:
    """The stored state of the node ``name`` in a ``folder`` of its own, for one process at a time. Raises StateError.

    ``line``
        identity of the log. ``epoch``: of this life; it grows from life to life, whatever the clock does.
    """

    def __init__(self, folder: Path, name: str, retention: Retention | None = None) -> None:
        self.file = folder / "log.sqlite"
        self._retention = retention if retention is not None else Retention()
        self._lock = _locked(self.file)
        try:
            self._read = self._connect()
            self._read.executescript(_SCHEMA)
            self.line = self._meta("line", lambda before: before or secrets.randbits(61) + 1)
            self.epoch = self._meta("epoch", lambda before: max(time.time_ns(), before + 2**20))
            if (found := self._meta("format", lambda before: before or FORMAT)) != FORMAT:
                raise StateError(f"{self.file} is of format {found}, this is {FORMAT}: use the version that wrote it")
        except sqlite3.Error as error:
            raise StateError(f"{self.file} cannot be used: {error}") from None
        self._oldest = self._first_position()
        self._bytes = self._total("SELECT sum(length(data)) FROM log")
        self._queue: deque[tuple[Write, bytes | None]] = deque()
        self._done: deque[int] = deque()
        self._work = threading.Condition()
        self._closing = False
        self._wake, self.wakes = os.pipe2(os.O_NONBLOCK)[::-1]
        self._writer = threading.Thread(target=self._write_all, name=f"store of {name}", daemon=True)
        self._writer.start()

    # -- reading ------------------------------------------------------------------------------------------------------

    @property
    def oldest(self) -> int:
        """The position behind which the log begins."""
        return self._oldest

    def checkpoint(self) -> bytes | None:
        """The last checkpoint."""
        row = self._read.execute("SELECT data FROM checkpoint ORDER BY number DESC LIMIT 1").fetchone()
        return row[0] if row is not None else None

    def behind_checkpoint(self) -> Iterator[Record]:
        """The records behind it, in order."""
        query = "SELECT data FROM log WHERE number > coalesce((SELECT max(number) FROM checkpoint), 0) ORDER BY number"
        return (decode_record(data) for (data,) in self._read.execute(query))

    def everything(self) -> Iterator[Record]:
        """All the records there are, in order."""
        return (decode_record(data) for (data,) in self._read.execute("SELECT data FROM log ORDER BY number"))

    def read(self, position: int, size: int) -> Iterator[Record]:
        """Stored records with blocks behind a position, in order, about so many bytes."""
        for (data,) in self._read.execute("SELECT data FROM log WHERE last > ? ORDER BY number", (position,)):
            yield decode_record(data)
            size -= len(data)
            if size <= 0:
                return

    # -- writing ------------------------------------------------------------------------------------------------------

    def write(self, write: Write) -> int:
        """Begin to store; returns the size of the checkpoint in it, or 0. The checkpoint is taken before this returns."""
        checkpoint = write.checkpoint() if write.checkpoint is not None else None
        with self._work:
            self._queue.append((write, checkpoint))
            self._work.notify()
        return len(checkpoint) if checkpoint is not None else 0

    def stored(self) -> int | None:
        """The number of the last record stored, if that has changed since the last time."""
        number = None
        while self._done:
            number = self._done.popleft()
        if number is not None:
            with suppress(BlockingIOError):
                os.read(self.wakes, 4096)
        return number

    @property
    def idle(self) -> bool:
        """Whether everything has been stored, and told."""
        return not self._queue and not self._done

    def close(self) -> None:
        """Store what is queued, unless the disk will not have it, and let go of the file."""
        with self._work:
            self._closing = True
            self._work.notify()
        self._writer.join()
        self._read.close()
        os.close(self._wake)
        os.close(self.wakes)
        self._lock.close()

    # -- the writer's thread ------------------------------------------------------------------------------------------

    def _write_all(self) -> None:
        connection = self._connect()
        while True:
            with self._work:
                self._work.wait_for(lambda: self._queue or self._closing)
                batch = list(self._queue)
            if not batch:
                break
            try:
                self._commit(connection, batch)
            except sqlite3.Error as error:
                connection.rollback()
                _log.error("cannot store, the node waits", file=str(self.file), why=str(error))
                with self._work:
                    if self._closing or self._work.wait_for(lambda: self._closing, _RETRY):
                        break
                continue
            with self._work:
                for _ in batch:
                    self._queue.popleft()
                self._done.append(batch[-1][0].record.number)
            os.write(self._wake, b"!")
        connection.close()

    def _commit(self, connection: sqlite3.Connection, batch: list[tuple[Write, bytes | None]]) -> None:
        now = time.time_ns()
        rows = []
        for write, _ in batch:
            record = write.record
            last = record.first + sum(1 for _ in record.blocks())
            rows.append((record.number, last, now, encode_record(record)))
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO log VALUES (?, ?, ?, ?)", rows)
        checkpoint = next(((write.record.number, data) for write, data in reversed(batch) if data is not None), None)
        if checkpoint is not None:
            connection.execute("DELETE FROM checkpoint")
            connection.execute("INSERT INTO checkpoint VALUES (?, ?, ?)", (checkpoint[0], now, checkpoint[1]))
        added = sum(len(row[3]) for row in rows)
        removed, oldest = self._trim(connection, batch[-1][0].needed, now, added) if checkpoint is not None else (0, 0)
        connection.execute("COMMIT")
        self._bytes += added - removed
        self._oldest = max(self._oldest, oldest)

    def _trim(self, connection: sqlite3.Connection, needed: int, now: int, added: int) -> tuple[int, int]:
        """Forget what lies below the checkpoint and has been kept long enough; the bytes gained, and where the log begins."""
        removed, oldest, at_least, keep = 0, 0, 0, self._retention
        below = "number <= (SELECT max(number) FROM checkpoint)"
        rows = connection.execute(f"SELECT number, last, at, length(data) FROM log WHERE {below} ORDER BY number")
        for number, last, at, size in rows:
            patience = 1 if last <= needed else 4
            held = self._bytes + added - removed
            if now - at <= keep.age * patience and held <= keep.size * patience:
                break
            at_least, removed, oldest = number, removed + size, last
        if at_least:
            connection.execute("DELETE FROM log WHERE number <= ?", (at_least,))
        return removed, oldest

    # -- the file -----------------------------------------------------------------------------------------------------

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.file, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def _meta(self, key: str, change: Callable[[int], int]) -> int:
        """Read a number, and write what it is to be from now on."""
        row = self._read.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        value = change(row[0] if row is not None else 0)
        self._read.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))
        return value

    def _total(self, query: str) -> int:
        return int(self._read.execute(query).fetchone()[0] or 0)

    def _first_position(self) -> int:
        """Where the log begins: with the first block of its first record."""
        row = self._read.execute("SELECT data FROM log ORDER BY number LIMIT 1").fetchone()
        return decode_record(row[0]).first if row is not None else 0


def _locked(file: Path) -> IO[bytes]:
    """Keep other processes away from the file, for as long as the one returned is open. Raises StateError."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = file.with_suffix(".lock").open("wb")
    except OSError as error:
        raise StateError(f"the state folder {file.parent} cannot be used: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise StateError(f"{file} is in use: another process runs this node") from None
    return lock
