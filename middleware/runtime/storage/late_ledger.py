"""The late ledger: every event that was skipped, with the reason, and clock, slack and bound of that moment.

A SQLite file in the node's state folder, or memory only. An entry is on disk before the event is acknowledged, and is there
once, however often a node reports it (after a crash it takes the same events anew). The node never waits for a database
that another program has locked: entries go to a spill file beside it, and from there into the database once that is free.
If the disk refuses both, entries wait in memory (a node with a log waits with them), and those that do not fit are dropped
and counted.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import itemgetter
from pathlib import Path

import msgspec
import structlog
import xxhash

from middleware.broker.ingress.checks import RejectedEvent
from middleware.link.codec import encode
from middleware.model.errors import LedgerError
from middleware.model.event import MAX_TS, MIN_TS, type_name
from middleware.ordering.lanes.retraction import EventResults
from middleware.ordering.records import Late
from middleware.runtime.storage.spill import RETRY, Spill
from middleware.runtime.storage.trust import private_database, private_folder

FILE = "late.sqlite"
"""The name of the ledger's file in a node's state folder."""

SPILL = "late.waiting"
"""The name of the spill file beside it, for entries that the database does not take yet."""

MOST_WAITING = 100_000
"""The most entries that wait in memory while the disk refuses."""

MOST_KEPT = 1_000_000
"""The most entries that a ledger keeps; beyond them, the source with most entries loses its oldest ones, which are counted."""

_A_FEW = 100
"""A source with fewer entries than this share of the ledger is one of many: then the oldest entries of all are deleted."""

TRIM_EVERY = 10_000
"""The oldest entries are deleted together, once there are this many too many."""

_PATIENCE = 5.0
"""Seconds that a node waits for another program's lock at its start; once it runs, it never waits for one."""

_GONE = "CREATE TABLE IF NOT EXISTS gone (entries INTEGER NOT NULL, source TEXT)"
"""How many entries were deleted: of one source, or (NULL) of any."""
_BY_SOURCE = "CREATE INDEX IF NOT EXISTS by_source ON entries (source, number)"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS entries (
    number INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, node TEXT NOT NULL, detector TEXT NOT NULL,
    reason TEXT NOT NULL, change TEXT NOT NULL, type TEXT NOT NULL, source TEXT NOT NULL, id INTEGER NOT NULL,
    ts INTEGER NOT NULL, clk INTEGER, k INTEGER, bound INTEGER NOT NULL, record BLOB NOT NULL, digest BLOB NOT NULL,
    told TEXT NOT NULL DEFAULT '',
    UNIQUE (detector, change, type, source, id, ts, reason, digest) ON CONFLICT IGNORE
)
"""

_FIELDS = "number, at, node, detector, reason, change, type, source, id, ts, clk, k, bound, record"
_ENTRY = f"{_FIELDS}, told"
_INSERT = f"INSERT INTO entries ({_FIELDS.removeprefix('number, ')}, digest, told) VALUES ({', '.join('?' * 15)})"
_MOST_DETAILS = 4_096
_log = structlog.get_logger()


class LedgerEntry(msgspec.Struct, frozen=True):
    """An event that was skipped.

    ``number``
        its number in this ledger, from 1.
    ``at``
        when it was listed, Unix time (ns).
    ``detector``
        the detector that skipped it; "" if the node rejected it, so that no detector got it.
    ``reason``
        "late": results of that time had become final by the clock, or the node had promised a watermark beyond it; "ahead": too
        far ahead of all other publishers, or of the wall clock; "clash": another event with the same source and id came
        first; "derived": detectors derive this type, so no publisher may send it; "failed": the detector raised at it;
        "unread": a message to an input that is no event.
    ``clk``, ``k``
        the detector's clock and slack at that moment (ns); None if no detector was involved.
    ``bound``
        the time up to which all was final, or promised; for "ahead", the largest time that would have been taken; for a clash,
        the time of the event that came first.
    ``record``
        the event as msgpack; an unread message as bytes.
    ``details``
        for a failure, the end of the traceback; for a clash, the event that came first; for an unread message, the reason.
    """

    number: int
    at: int
    node: str
    detector: str
    reason: str
    change: str
    type: str
    source: str
    id: int
    ts: int
    clk: int | None
    k: int | None
    bound: int
    record: bytes
    details: str = ""

    @property
    def lateness(self) -> int:
        """By how much (ns) it came too late; for "ahead", by how much it was too early."""
        return self.ts - self.bound if self.reason == "ahead" else self.bound - self.ts


Row = tuple[int, str, str, str, str, str, str, int, int, int | None, int | None, int, bytes, bytes, str]
"""The values that ``_INSERT`` takes."""

_DECODER = msgspec.json.Decoder(Row)


class Ledger:
    """The ledger of one node. ``folder``: its state folder; None: memory only, and only the counts are kept.

    ``listed``: entries so far, in this life. ``lost``: entries dropped in this life, because there was no room in memory, or
    because they were the oldest of more than ``most_kept``; the file has the count of all lives (``deleted_from``). ``retry``:
    seconds after which a disk that refused is tried again. Raises LedgerError.
    """

    def __init__(
        self,
        node: str,
        folder: Path | None = None,
        *,
        most_waiting: int = MOST_WAITING,
        most_kept: int = MOST_KEPT,
        trim_every: int = TRIM_EVERY,
        retry: float = RETRY,
    ) -> None:
        self.node = node
        self._most_waiting, self._most_kept, self._trim_every, self._retry = most_waiting, most_kept, trim_every, retry
        self.listed = self.lost = 0
        self._waiting: list[Row] = []
        self._spilled = 0
        self._unrecorded = 0
        self._refused_at: float | None = None
        self._database: sqlite3.Connection | None = None
        if folder is not None:
            self._spill = Spill(folder / SPILL, _DECODER, most_waiting, retry)
            self._database = _opened(folder / FILE, self._spill)
            self._kept = int(self._database.execute("SELECT COUNT(*) FROM entries").fetchone()[0])

    def report_late(self, detector: str, entries: Iterable[Late]) -> None:
        """Enter the events that a detector's unit reports as late."""
        now = time.time_ns()
        for late in entries:
            event = late.event
            about = type_name(event.__class__), event.source, event.id, event.ts
            seen = late.clk, late.k, late.final
            record = encode(event)
            self._waiting.append((now, self.node, detector, "late", late.change, *about, *seen, record, _digest(record), ""))

    def report_failures(self, detector: str, failures: Iterable[EventResults]) -> None:
        """Enter the events at which a detector raised; they are final, and it runs without them."""
        now = time.time_ns()
        for cause, _, failure in failures:
            about = type_name(cause.__class__), cause.source, cause.id, cause.ts
            record, details = encode(cause), (failure or "")[-_MOST_DETAILS:].encode(errors="replace").decode()
            what = None, None, cause.ts, record, _digest(record), details
            self._waiting.append((now, self.node, detector, "failed", "insert", *about, *what))

    def report_rejections(self, entries: Iterable[RejectedEvent]) -> None:
        """Enter the events that the node rejected."""
        now = time.time_ns()
        for each in entries:
            about = each.type, each.source, each.id, each.ts
            what = each.bound, each.record, _digest(each.record), each.details[:_MOST_DETAILS]
            self._waiting.append((now, self.node, "", each.reason, each.change, *about, None, None, *what))

    def report_unread(self, type: str, source: str, id: int, at: int, body: bytes, details: str) -> None:  # noqa: A002
        """Enter a message from a server beside the mesh that is no event of this type; ``at``: its time, whatever that is."""
        at = min(max(at, MIN_TS), MAX_TS)
        record, seen = msgspec.msgpack.encode(body), (None, None, at)
        details = details[:_MOST_DETAILS].encode(errors="replace").decode()
        about = type, source, id, at
        self._waiting.append(
            (time.time_ns(), self.node, "", "unread", "insert", *about, *seen, record, _digest(record), details)
        )

    def commit(self) -> bool:
        """Write the new entries to the disk, in one transaction. O(entries); free if there are none.

        False if the disk takes them neither into the database nor beside it: then they wait in memory for the next call.
        """
        if not self._waiting:
            return True
        if self._database is None:
            self.listed += len(self._waiting)
            self._waiting.clear()
            return True
        is_due = self._refused_at is None or time.monotonic() - self._refused_at >= self._retry
        if is_due and self._is_written(self._database):
            return True
        self._shed()
        if self._spilled < len(self._waiting) and self._spill.add(self._waiting[self._spilled :]):
            self._spilled = len(self._waiting)
        return self._spilled == len(self._waiting)

    def _is_written(self, database: sqlite3.Connection) -> bool:
        try:
            with database as transaction:
                inserted = transaction.executemany(_INSERT, self._waiting).rowcount
                surplus = self._kept + inserted - self._most_kept
                trimmed = _trim(transaction, surplus, self._most_kept) if surplus >= self._trim_every else 0
                _count_deleted(transaction, self._unrecorded, None)
        except sqlite3.Error as error:
            if self._refused_at is None:
                _log.warning("the late ledger cannot be written; its entries wait beside it", node=self.node, why=str(error))
            self._refused_at = time.monotonic()
            return False
        self._kept += inserted - trimmed
        self.lost += trimmed
        self.listed += len(self._waiting)
        self._waiting.clear()
        if self._spilled:
            self._spill.clear()
        self._spilled = self._unrecorded = 0
        self._refused_at = None
        return True

    def _shed(self) -> None:
        """Keep the waiting entries within bounds; dropped ones are counted."""
        if (surplus := len(self._waiting) - self._most_waiting) > 0:
            del self._waiting[:surplus]
            self._spilled = max(0, self._spilled - surplus)
            self._unrecorded += surplus
            self.listed += surplus
            self.lost += surplus

    def close(self) -> None:
        """Write the waiting entries, if possible, and close the file."""
        self._refused_at = None
        if not self.commit():
            _log.error("the late ledger cannot be written; entries are lost", node=self.node, entries=len(self._waiting))
        if self._database is not None:
            self._spill.close()
            self._database.close()


def _trim(transaction: sqlite3.Connection, surplus: int, most: int) -> int:
    """Delete ``surplus`` entries, and count them by source: one source that sends many does not push out those of others.

    The source with most entries loses its oldest ones, down to what the next one has, and so on. O(entries).
    """
    by_source = transaction.execute(
        "SELECT source, COUNT(*) FROM entries GROUP BY 1 ORDER BY 2 DESC LIMIT ?", (_A_FEW,)
    ).fetchall()
    left = surplus
    share = _even(list(map(itemgetter(1), by_source)), surplus)
    for source, count in by_source:
        many = min(left, count - share)
        if count * _A_FEW < most or many <= 0:
            break
        chosen = "SELECT number FROM entries WHERE source = ? ORDER BY number LIMIT ?"
        transaction.execute(f"DELETE FROM entries WHERE number IN ({chosen})", (source, many))
        _count_deleted(transaction, many, source)
        left -= many
    if left:
        transaction.execute("DELETE FROM entries WHERE number IN (SELECT number FROM entries ORDER BY number LIMIT ?)", (left,))
        _count_deleted(transaction, left, None)
    return surplus


def _even(counts: list[int], surplus: int) -> int:
    """The most that each may keep, so that ``surplus`` go of those that have more. ``counts``: falling.

    >>> _even([90, 50, 10], 20), _even([90, 50, 10], 50), _even([10], 3)
    (70, 45, 7)
    """
    total = 0
    for taken, (count, following) in enumerate(zip(counts, [*counts[1:], 0], strict=True), 1):
        total += count
        if total - taken * following >= surplus:
            return (total - surplus) // taken
    return 0


def _count_deleted(transaction: sqlite3.Connection, entries: int, source: str | None) -> None:
    """Count deleted entries, in one row for each source."""
    if not entries:
        return
    changed = transaction.execute("UPDATE gone SET entries = entries + ? WHERE source IS ?", (entries, source)).rowcount
    if not changed:
        transaction.execute("INSERT INTO gone VALUES (?, ?)", (entries, source))


class Query(msgspec.Struct, frozen=True):
    """Selects the entries that match all given values. ``since``: listed at or after this Unix time (ns)."""

    detector: str | None = None
    reason: str | None = None
    type: str | None = None
    source: str | None = None
    since: int | None = None

    def where(self) -> tuple[str, list[object]]:
        given = [(name, getattr(self, name)) for name in ("detector", "reason", "type", "source")]
        terms = [(f"{name} = ?", value) for name, value in given if value is not None]
        if self.since is not None:
            terms.append(("at >= ?", self.since))
        return " AND ".join(term for term, _ in terms) or "1", [value for _, value in terms]


def read_ledger(path: Path, query: Query | None = None, limit: int | None = None) -> list[LedgerEntry]:
    """Entries of a ledger (its file or folder), oldest first; ``limit``: only the last so many. Raises LedgerError.

    The node may write at the same time.
    """
    where, values = (query if query is not None else Query()).where()
    behind = f"FROM entries WHERE {where} ORDER BY number DESC" + (" LIMIT ?" if limit is not None else "")
    with _reader(path) as rows:
        text = f"SELECT {_ENTRY} {behind}"
        found = [LedgerEntry(*row) for row in rows.execute(text, [*values, *([limit] if limit is not None else [])])]
    return found[::-1]


def read_entry(path: Path, number: int) -> LedgerEntry:
    """One entry. Raises LedgerError if there is none with this number."""
    with _reader(path) as rows:
        row = rows.execute(f"SELECT {_ENTRY} FROM entries WHERE number = ?", (number,)).fetchone()
    if row is None:
        raise LedgerError(f"{path} has no entry {number}: 'slackline late list {path}' shows those that it has")
    return LedgerEntry(*row)


def summary(path: Path, query: Query | None = None) -> list[tuple[str, str, str, int, int]]:
    """By detector, reason and type: the number of entries, and the largest lateness (ns)."""
    where, values = (query if query is not None else Query()).where()
    worst = "MAX(CASE reason WHEN 'ahead' THEN ts - bound ELSE bound - ts END)"
    text = (
        f"SELECT detector, reason, type, COUNT(*), {worst} FROM entries WHERE {where} GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3"
    )
    with _reader(path) as rows:
        return list(rows.execute(text, values))


def deleted_from(path: Path) -> dict[str | None, int]:
    """The number of entries that a ledger has deleted, by source; None: of any source. Raises LedgerError."""
    with _reader(path) as rows:
        return dict(rows.execute("SELECT source, entries FROM gone ORDER BY entries DESC").fetchall())


def _opened(file: Path, spill: Spill[Row]) -> sqlite3.Connection:
    """The ledger's file, made if there is none, with the entries of the spill file added. Raises LedgerError."""
    try:
        private_folder(file.parent)
        private_database(file)
        # one thread at a time uses it, but not always the same one
        database = sqlite3.connect(file, timeout=_PATIENCE, check_same_thread=False)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        waiting, damaged = spill.rows()
        with database:
            database.execute("BEGIN IMMEDIATE")
            database.execute(_SCHEMA)
            database.execute(_BY_SOURCE)
            database.execute(_GONE)
            database.executemany(_INSERT, waiting)
        database.execute("PRAGMA busy_timeout = 0")
    except (OSError, sqlite3.Error) as error:
        raise LedgerError(f"cannot open the late ledger {file}: {error}; the state folder must be this node's own") from None
    if damaged:
        _log.error("entries that waited beside the late ledger cannot be read", file=str(file), entries=damaged)
    spill.clear()
    return database


def _digest(record: bytes) -> bytes:
    """A digest of the record: two late revisions of one event are two entries, but one that is listed again is one."""
    return xxhash.xxh3_64_digest(record)


@contextmanager
def _reader(path: Path) -> Iterator[sqlite3.Connection]:
    file = path / FILE if path.is_dir() else path
    if not file.is_file():
        raise LedgerError(f"there is no late ledger at {path}: give a node's state folder, or the file {FILE} in it")
    try:
        database = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)
        try:
            yield database
        finally:
            database.close()
    except sqlite3.Error as error:
        raise LedgerError(f"{file} is no late ledger: {error}") from None
