"""The store of a node: its log and its last checkpoint in one SQLite file, written by a thread of its own.

Each transaction holds what was queued when it began (group commit) and is on the disk when it counts as stored: journal
mode WAL, synchronous=FULL. A transaction torn by a power cut is as if it had never begun; SQLite's checksums ensure that.
Damage to the file is found: records are chained by checksums, and a witness beside it holds the end of the log (decision 026).
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import msgspec
import structlog

from middleware.broker.log.log_records import Record, decode_record, encode_record
from middleware.durability.checkpoint import Piece
from middleware.durability.durable_core import Write
from middleware.model.errors import StateError
from middleware.model.quantities import Duration, duration_of
from middleware.model.time import SECOND
from middleware.runtime.storage import checkpoints
from middleware.runtime.storage.chain import ChainedRecord, RecordPosition, checksum
from middleware.runtime.storage.checkpoints import Pieces, rows_of
from middleware.runtime.storage.folding import Folding
from middleware.runtime.storage.integrity import (
    ADVICE,
    COLUMNS,
    Examination,
    chained_records,
    check_identity,
    identity,
)
from middleware.runtime.storage.number_pipe import NumberPipe
from middleware.runtime.storage.trust import open_private, private_database, private_folder
from middleware.runtime.storage.witness import LogEnd, Witness

FORMAT = 3
"""The format of the file; any other is refused."""

_WAL_VERSION = 3_007_000
"""The fields of the header of a log written ahead (https://sqlite.org/walformat.html)."""

RETRY = 1.0
"""Seconds after which a disk that refused is asked again."""

_TRANSIENT = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM}
)
"""Errors that may pass (no room, memory or file descriptors): tried again. Any other error would recur for ever."""

_PASSING = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EINTR}
)
"""Such errors of other files. None of these grows, so "too large" (EFBIG) means a limit of the process."""

_TRIMMED = 32
"""The most records deleted in one transaction."""

_META = "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS owner (name TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS log (number INTEGER PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL, at INTEGER NOT NULL,
    size INTEGER NOT NULL, data BLOB NOT NULL, before INTEGER, sum INTEGER);
CREATE INDEX IF NOT EXISTS log_last ON log (last);
CREATE TABLE IF NOT EXISTS log_rest (part INTEGER PRIMARY KEY, number INTEGER NOT NULL, data BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS log_rest_number ON log_rest (number);
"""

_ADVICE_FOR_NOW = (
    "see that the file may be opened, and that there is room, memory and a file descriptor to spare, and start the node again: "
    "it resumes where it was"
)

_log = structlog.get_logger()


@dataclass(frozen=True, init=False)
class Retention:
    """How much of the log is kept below the last checkpoint, for slow readers: for how long, and how many bytes.

    Records that a reader has not read yet are kept four times as long; after that the reader gets a gap. Only the node's
    running time counts: the wall clock may leap, by decades when a machine without a battery finds its time.
    ``behind``: bytes of log after the last checkpoint at which another one is due, so that less is kept and recovered.
    """

    age: int
    size: int
    behind: int

    def __init__(self, age: Duration = 24 * 3600 * SECOND, size: int = 2**30, behind: int = 64 * 2**20) -> None:
        for name, value in ("age", duration_of(age, "age")), ("size", size), ("behind", behind):
            object.__setattr__(self, name, value)


class Store:
    """The stored state of the node ``name`` in a ``folder`` of its own, for one process at a time. Raises StateError.

    ``line``
        the log's identity. ``epoch``: that of this life; it grows from life to life, whatever the clock does.
    ``is_new``
        whether there was no log before.
    ``lacks``
        what is missing of the log: "end", only its beginning is here; "all", it is a different log.
    ``running``
        the clock (ns) by which records age; it may start anew in each life. ``retry``: see RETRY.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        retention: Retention | None = None,
        *,
        running: Callable[[], int] = time.monotonic_ns,
        retry: float = RETRY,
    ) -> None:
        self.file = folder / "log.sqlite"
        self.retention = retention if retention is not None else Retention()
        self._running, self._retry = running, retry
        self._lock = _locked(self.file)
        with ExitStack() as undo:
            undo.callback(self._lock.close)
            while not self._is_open(name):
                time.sleep(retry)
            undo.callback(self._read.close)
            undo.callback(self._witness.close)
            undo.pop_all()
        self._failure: StateError | None = None
        self.commits = self.committing = 0
        """Transactions so far, and the time spent on them (ns): any thread may read these."""
        self._queue: deque[Write | Piece] = deque()
        self._pieces = Pieces()
        self._needed, self._trimming = 0, False
        self._stored_numbers = NumberPipe()
        self._work = threading.Condition()
        self._closing = False
        self._writer = threading.Thread(target=self._write_all, name=f"store of {name}", daemon=True)
        self._writer.start()

    def _is_open(self, name: str) -> bool:
        """Open the file, if the disk allows it now; returns whether it is open."""
        with ExitStack() as undo:
            try:
                private_database(self.file)
                self._witness = undo.enter_context(closing(Witness(self.file.with_suffix(".witness"))))
                self._read = undo.enter_context(closing(self._connect()))
                self._open(name)
            except (sqlite3.Error, OSError) as error:
                if not _may_pass(error) or _code(error) == sqlite3.SQLITE_CANTOPEN:  # may last for ever: no permission
                    raise StateError(f"{self.file} cannot be used: {error}; {_advice(error, self.file)}") from None
                _log.error("cannot start on this disk, the node waits", file=str(self.file), why=str(error))
                return False
            undo.pop_all()
        return True

    def _open(self, name: str) -> None:
        self._read.execute(_META)
        check_identity(self._read, self.file)
        if (found := self._meta("format", lambda before: before or FORMAT)) != FORMAT:
            raise StateError(
                f"{self.file} is of format {found}, this is {FORMAT}: use the version that wrote it, or another state folder"
            )
        self._read.executescript(_SCHEMA + checkpoints.SCHEMA)
        self._claim(name)
        self.is_new = not self._meta("line", lambda before: before)
        self.line = self._meta("line", lambda before: before or secrets.randbits(61) + 1)
        self._meta("identity", lambda _: identity(self._read))
        self.lacks, self._end = Examination(self.file, self._read, self._witness, self.line).result(is_new=self.is_new)
        self.epoch = self._meta("epoch", lambda before: max(time.time_ns(), before + 2**20))
        self._bytes = self._meta("bytes", lambda before: before)
        self._oldest = self._total("SELECT coalesce((SELECT first FROM log ORDER BY number LIMIT 1), 0)")
        last = "SELECT at FROM {} ORDER BY number DESC LIMIT 1"
        last_age = f"SELECT coalesce(({last.format('log')}), ({last.format('checkpoint')}), 0)"
        self._aged = self._total(last_age) - self._running()

    @property
    def wakes(self) -> int:
        """A file descriptor that becomes readable when ``stored`` has news."""
        return self._stored_numbers.wakes

    # -- reading ------------------------------------------------------------------------------------------------------

    @property
    def oldest(self) -> int:
        """The offset after which the log begins."""
        return self._oldest

    @property
    def size(self) -> int:
        """Bytes of the records kept."""
        return self._bytes

    @property
    def is_whole(self) -> bool:
        """Whether the log still begins with its very first record."""
        first = "SELECT coalesce((SELECT min(number) FROM log), (SELECT max(number) + 1 FROM checkpoint), 1)"
        return all(number == 1 for (number,) in self._rows(first))

    def checkpoint(self, is_needed: bool = True) -> Iterator[bytes] | None:
        """The pieces of the last complete checkpoint, in order. None if it is damaged and not needed."""
        with self._reading():
            found = checkpoints.last(self._read)
            if found is not None and not is_needed and checkpoints.is_damaged(self._read):
                return None
        return self._read_on(found) if found is not None else None

    def _read_on(self, rows: Iterator[bytes]) -> Iterator[bytes]:
        with self._reading():
            yield from rows

    def behind_checkpoint(self) -> Iterator[Record]:
        """The records after the checkpoint, in order."""
        return self._all("number > coalesce((SELECT max(number) FROM checkpoint), ?)")

    def everything(self) -> Iterator[Record]:
        """All records, in order."""
        return self._all("number > ?")

    def _all(self, which: str) -> Iterator[Record]:
        """Records, in order. Raises StateError if one is damaged or missing."""
        number = None
        for record in self._stored(which, 0):
            if number not in (None, record.position.number - 1) or not record.is_intact():
                raise StateError(f"{self.file} is damaged: record {(number or 0) + 1} is missing or has changed; {ADVICE}")
            number = record.position.number
            yield self._decoded(record.data)

    def read(self, offset: int, size: int) -> Iterator[Record]:
        """Stored records with blocks after an offset, in order, about ``size`` bytes.

        Damaged records are skipped, and one call never returns records from both sides of the damage: so a reader sees the
        gap by the first offset that it gets.
        """
        number, is_begun = 0, False
        for record in self._stored("last > ?", offset):
            is_intact = record.is_intact() and record.position.last > offset
            if not is_intact:
                _log.error("a stored record is damaged: readers get a gap", file=str(self.file), record=record.position.number)
            if is_begun and (not is_intact or record.position.number != number + 1):
                return
            if is_intact:
                yield self._decoded(record.data)
                number, is_begun, size = record.position.number, True, size - record.position.size
                if size <= 0:
                    return

    def _stored(self, which: str, bound: int) -> Iterator[ChainedRecord]:
        """Records as they are found, in order."""
        with self._reading():
            yield from chained_records(self._read, which, bound)

    def _rows(self, query: str, *values: int) -> Iterator[tuple[Any, ...]]:
        with self._reading():
            yield from iter(self._read.execute(query, values).fetchone, None)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StateError(f"{self.file} cannot be read: {error}; {_advice(error, self.file)}") from None

    def _decoded(self, data: bytes) -> Record:
        try:
            return decode_record(data)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise StateError(f"{self.file} holds a record that is none: {error}; {ADVICE}") from None

    # -- writing ------------------------------------------------------------------------------------------------------

    def write(self, item: Write | Piece) -> None:
        """Queue a record or a piece. Raises StateError if nothing can be stored any more."""
        self._check_writer()
        with self._work:
            self._queue.append(item)
            self._work.notify()

    def stored(self) -> int | None:
        """The number of the last record stored, if it has changed since the last call.

        Raises StateError if nothing can be stored any more, and a retry would not help.
        """
        number = self._stored_numbers.take()
        self._check_writer()
        return number

    def _check_writer(self) -> None:
        if self._failure is not None:
            raise self._failure

    @property
    def idle(self) -> bool:
        """Whether everything has been stored, and ``stored`` has returned the last number."""
        return not self._queue and not self._stored_numbers.pending

    def close(self) -> None:
        """Store what is queued, unless the disk refuses, and close the file."""
        with self._work:
            self._closing = True
            self._work.notify()
        self._writer.join()
        self._read.close()
        self._witness.close()
        self._stored_numbers.close()
        self._lock.close()

    # -- the writer's thread ------------------------------------------------------------------------------------------

    def _write_all(self) -> None:
        """Run the thread. However it ends, the node's own thread learns of it."""
        try:
            with closing(self._connect()) as connection, closing(Folding(self._connect)) as folding:
                connection.execute("PRAGMA wal_autocheckpoint = 0")
                while batch := self._next_batch():
                    if not self._is_stored(connection, batch):
                        break
                    folding.written(connection, sum(item.size for item in batch))
                    self._tidy(connection)
        except BaseException as error:
            self._failure = StateError(f"{self.file} cannot be written, now or later: {error}; {_advice(error, self.file)}")
            self._stored_numbers.wake()

    def _next_batch(self) -> list[Write | Piece]:
        """The next items to store; empty if the store is closed."""
        while True:
            with self._work:
                self._work.wait_for(lambda: self._queue or self._closing, self._witness.due)
                batch, is_over = list(self._queue), self._closing
            if self._witness.due == 0:
                self._witness.sync()
            if batch or is_over:
                return batch

    def _tidy(self, connection: sqlite3.Connection) -> None:
        """While nothing waits, delete rows no longer needed, a few at a time."""
        try:
            while (self._trimming or self._pieces.stale) and not self._queue and not self._closing:
                self._commit(connection, [])
        except sqlite3.Error:  # the next record will meet the same error, and report it
            with suppress(sqlite3.Error):
                connection.rollback()

    def _is_stored(self, connection: sqlite3.Connection, batch: list[Write | Piece]) -> bool:
        """Store a batch, however long the disk refuses; False if the store is closed meanwhile."""
        is_committed = False
        while True:
            try:
                start = self._running()
                if not is_committed:
                    self._commit(connection, batch)
                is_committed = True
                self._witness.write(self._end)
                self.commits, self.committing = self.commits + 1, self.committing + self._running() - start
                break
            except (sqlite3.Error, OSError) as error:
                if not _may_pass(error):
                    raise
                with suppress(sqlite3.Error):
                    connection.rollback()
                _log.error("cannot store, the node waits", file=str(self.file), why=str(error))
                with self._work:
                    if self._closing or self._work.wait_for(lambda: self._closing, self._retry):
                        return False
        # The number first: whoever finds the queue empty in between would take what it waits for to have been reported.
        self._stored_numbers.put([item.record.number for item in batch if isinstance(item, Write)][-1:])
        with self._work:
            for _ in batch:
                self._queue.popleft()
        self._stored_numbers.wake()
        return True

    def _commit(self, connection: sqlite3.Connection, batch: list[Write | Piece]) -> None:
        now = self._aged + self._running()
        writes = [item for item in batch if isinstance(item, Write)]
        rows: list[tuple[Any, ...]] = []
        rest: list[tuple[int, memoryview]] = []
        total = self._end.sum
        for record in (write.record for write in writes):
            data = encode_record(record)
            first, *parts = rows_of(data)
            position = RecordPosition(
                record.number, record.first, record.first + sum(1 for _ in record.blocks()), now, len(data)
            )
            before, total = total, checksum(total, position, data)
            rows.append((*position, before, total, first))
            rest += [(record.number, part) for part in parts]
        came = [piece for item in batch for piece in (item.pieces if isinstance(item, Write) else (item,))]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(f"INSERT INTO log ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        connection.executemany("INSERT INTO log_rest (number, data) VALUES (?, ?)", rest)
        if writes:
            self._needed = writes[-1].needed
        self._trimming |= self._pieces.keep(connection, came, now)
        self._pieces.forget_some(connection)
        size = self._bytes + sum(row[4] for row in rows)
        oldest = 0
        if self._trimming:
            size, oldest = self._trim(connection, now, size)
        connection.execute("UPDATE meta SET value = ? WHERE key = 'bytes'", (size,))
        connection.execute("COMMIT")
        self._bytes = size
        if rows:
            self._end = LogEnd(self.line, rows[-1][0], total)
        self._oldest = max(self._oldest, oldest)

    def _trim(self, connection: sqlite3.Connection, now: int, total: int) -> tuple[int, int]:
        """Delete some records below the checkpoint that have been kept long enough; returns the bytes left, and the offset
        where the log begins."""
        oldest, at_least, keep = 0, 0, self.retention
        below = "number < (SELECT max(number) FROM checkpoint)"
        rows = connection.execute(f"SELECT number, last, at, size FROM log WHERE {below} ORDER BY number LIMIT ?", (_TRIMMED,))
        found = rows.fetchall()
        self._trimming = len(found) == _TRIMMED
        for number, last, at, size in found:
            patience = 1 if last <= self._needed else 4
            if now - at <= keep.age * patience and total <= keep.size * patience:
                self._trimming = False
                break
            at_least, total, oldest = number, total - size, last
        if at_least:
            connection.execute("DELETE FROM log WHERE number <= ?", (at_least,))
            connection.execute("DELETE FROM log_rest WHERE number <= ?", (at_least,))
        return total, oldest

    # -- the file -----------------------------------------------------------------------------------------------------

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.file, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _meta(self, key: str, change: Callable[[int], int]) -> int:
        """Read a number, change it, and return the new value."""
        row = self._read.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        value = change(row[0] if row is not None else 0)
        self._read.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))
        return value

    def _claim(self, name: str) -> None:
        """Refuse another node's log: else peers would be served from it as if it were this node's."""
        for (owner,) in self._read.execute("SELECT name FROM owner"):
            if owner != name:
                raise StateError(
                    f"{self.file} is the log of node {owner!r}, and this is {name!r}: give each node a state folder of its own"
                )
            return
        self._read.execute("INSERT INTO owner VALUES (?)", (name,))

    def _total(self, query: str) -> int:
        return int(self._read.execute(query).fetchone()[0] or 0)


def _code(error: BaseException) -> int:
    """SQLite's primary error code, without the details."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _may_pass(error: BaseException) -> bool:
    """Whether the error may pass."""
    return error.errno in _PASSING if isinstance(error, OSError) else _code(error) in _TRANSIENT


def _advice(error: BaseException, file: Path) -> str:
    if _code(error) == sqlite3.SQLITE_CANTOPEN and _is_of_unknown_version(file.with_name(file.name + "-wal")):
        return ADVICE
    return _ADVICE_FOR_NOW if _may_pass(error) or isinstance(error, OSError) else ADVICE


def _is_of_unknown_version(wal: Path) -> bool:
    """Whether a log written ahead says that it has a version which no SQLite writes: then SQLite "cannot open" the database."""
    try:
        with wal.open("rb") as opened:
            header = opened.read(8)
    except OSError:
        return False
    return len(header) == 8 and int.from_bytes(header[4:], "big") != _WAL_VERSION


def _locked(file: Path) -> IO[bytes]:
    """Lock the file against other processes, for as long as the returned file is open. Raises StateError."""
    try:
        private_folder(file.parent)
        lock = os.fdopen(open_private(file.with_suffix(".lock"), os.O_WRONLY), "wb")
    except OSError as error:
        raise StateError(f"the state folder {file.parent} cannot be used: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise StateError(f"{file} is in use: another process runs this node") from None
    return lock
