"""Sinks: final events go to a file, a database or an HTTP endpoint, each once, whatever process is killed and when.

A subscriber behind the barrier delivers finals in total order. So one order key, its *position*, says what a sink has: it is
stored together with the events, in one transaction, and after a restart it is passed to ``Subscriber(after=...)``.
A sink that cannot store its position (HTTP) gets the events at least once, each with its identity: the receiver drops repeats.
Some sinks also take early changes: each replaces, or takes away, what the sink has of that identity, so repeats do no harm.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import msgspec

from middleware.extensions import extensions, fitting
from middleware.link.codec import SinkPosition
from middleware.model.change import Change, Insert, Watermark
from middleware.model.errors import SinkError
from middleware.model.event import END, NEVER, ORDER, Event, type_name
from middleware.model.words import redacted
from middleware.runtime.clients.subscriber import Subscriber
from middleware.runtime.json_records import as_record
from middleware.runtime.sinks.http import HttpSink
from middleware.runtime.storage.trust import make_private


class Sink(Protocol):
    """A destination of events. ``position``: the order key of the last final it has, None if it has none or cannot know.

    A connector is made from an address, the name of its position, and options of its own. Its maker and its methods raise
    UnreachableError if another attempt with a new sink may help, and SinkError if none will.
    """

    position: SinkPosition | None

    def take(self, events: Sequence[Event]) -> None:
        """Store these finals, in total order and all later than the position; they are safe on return."""
        ...

    def close(self) -> None:
        """Close what is open."""
        ...


@runtime_checkable
class ChangeSink(Sink, Protocol):
    """A destination that takes early changes, too: what it has of an identity is replaced, or taken away again."""

    def apply(self, changes: Sequence[Change]) -> None:
        """Store the effect of these insertions, revisions and retractions; it is safe on return, and the same if repeated."""
        ...


def open_sink(to: str, name: str = "finals", /, **options: Any) -> Sink:
    """The sink for a text: FILE.jsonl, FILE.sqlite (or .db), FILE.mcap, an HTTP address or a connector (``slackline.outputs``).

    ``name``: under which a table or a connector keeps its position. Raises SinkError, UnreachableError.
    """
    scheme, separator, _ = to.partition("://")
    if separator and scheme not in ("http", "https"):
        return _connected(scheme, to, name, options)
    if separator:
        return _made(HttpSink, scheme, to, options)
    suffix = Path(to).suffix.lower()
    if suffix == ".mcap":
        return _connected("mcap", to, name, options)
    if options:
        raise SinkError(f"{redacted(to)}: it has no option {next(iter(options))!r}")
    if suffix == ".jsonl":
        return FileSink(Path(to))
    if suffix in (".sqlite", ".db"):
        return SqliteSink(Path(to), name)
    raise SinkError(
        f"{redacted(to)!r} is no sink: give FILE.jsonl, FILE.sqlite (or FILE.db), FILE.mcap, http(s)://HOST/PATH, "
        f"or {', '.join(f'{each}://...' for each in extensions('outputs'))}"
    )


def _connected(scheme: str, to: str, name: str, options: dict[str, Any]) -> Sink:
    outputs = extensions("outputs")
    if scheme not in outputs:
        raise SinkError(f"{redacted(to)!r}: there is no connector {scheme}; there are http, https, {', '.join(outputs)}")
    return _made(outputs[scheme].load(), scheme, to, options, name=name)


def _made(make: Callable[..., Sink], scheme: str, to: str, options: dict[str, Any], **own: str) -> Sink:
    try:
        fit = fitting(make, options)
    except ValueError as error:
        raise SinkError(f"{scheme}: {error}") from None  # the address may hold a password
    return make(to, **own, **fit)


def deliver(
    subscriber: Subscriber,
    sink: Sink,
    until: int = END,
    count: int | None = None,
    on_delivery: Callable[[int], None] | None = None,
) -> int:
    """Deliver to a sink until the watermark reaches ``until``; returns the number of finals, or of changes. Raises SinkError,
    UnreachableError, NetworkError.

    A subscriber with ``consistency="final"`` delivers finals, and one with "early" changes, to a ChangeSink. To survive this
    program it must have ``resume=...`` and, with finals, ``after=sink.position``. ``count``: end after this many.
    ``on_delivery``: called with the number so far, after each batch.
    """
    is_early = subscriber.consistency == "early"
    if is_early and not isinstance(sink, ChangeSink):
        raise SinkError(f"{type(sink).__name__} takes final events only, no early changes")
    delivered, watermark = 0, NEVER
    while watermark < until:
        changes: list[Change] = []
        for change in subscriber.receive():
            if isinstance(change, Watermark):
                watermark = change.ts
            else:
                changes.append(change)
        taken = changes if count is None else changes[: count - delivered]
        if taken:
            if is_early:
                sink.apply(taken)  # type: ignore[attr-defined]
            else:
                sink.take([change.event for change in taken if isinstance(change, Insert)])
            delivered += len(taken)
            if on_delivery is not None:
                on_delivery(delivered)
        if len(taken) < len(changes):
            if not is_early:  # of early changes that came together, all or none: the next subscriber gets them again
                subscriber.rest.extend(changes[len(taken) :])
                subscriber.commit_upto(taken[-1].event)  # type: ignore[union-attr]
            break
        subscriber.commit()
        if delivered == count:
            break
    return delivered


class _Line(msgspec.Struct):
    """The fields that a line written by a sink must have."""

    type: str
    ts: int
    level: int
    source: str
    id: int


_line = msgspec.json.Decoder(_Line).decode


_BEGINNING = b'{"type":"'

UNSYNCED = 64 * 2**20
"""A write torn by a power cut lies within this many bytes of a file's end; no batch comes near that size."""


class FileSink:
    """JSON lines. An incomplete line after a crash is cut away, as is all that follows a hole (NULs) left by a power cut; the
    last whole line gives the position.

    A file not written by a sink is refused, and left as it is. ``unsynced``: how far from its end (bytes) a hole may be.
    """

    def __init__(self, path: Path, unsynced: int = UNSYNCED) -> None:
        self._path, self._unsynced = path, unsynced
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SinkError(f"{path} cannot be written: {error.strerror}") from None
        try:
            _lock(self._descriptor)
            self.position, self._end = self._repaired()
            _keep_name(path)
        except BlockingIOError:
            self.close()
            raise SinkError(f"{path} is in use: another program writes it") from None
        except OSError as error:
            self.close()
            raise SinkError(f"{path} cannot be written: {error.strerror}") from None
        except SinkError:
            self.close()
            raise

    def take(self, events: Sequence[Event]) -> None:
        """See Sink. All of them are written and synced (fsync) at once, or none of them stays in the file."""
        left = memoryview(b"".join(msgspec.json.encode(as_record(event)) + b"\n" for event in events))
        end = self._end + len(left)
        try:
            if os.fstat(self._descriptor).st_size > self._end:  # last time, even the truncation failed
                os.ftruncate(self._descriptor, self._end)
            while left:
                left = left[os.write(self._descriptor, left) :]
            os.fsync(self._descriptor)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._end)
            raise SinkError(f"{self._path} cannot be written: {error.strerror}") from None
        self.position, self._end = ORDER(events[-1]), end

    def close(self) -> None:
        """See Sink."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _repaired(self) -> tuple[SinkPosition | None, int]:
        """The position, and the size after all behind the last whole line is cut away; only a sink's own file is cut."""
        found = os.fstat(self._descriptor).st_size
        size = self._sound(found)
        tail, length = b"", 65_536
        while len(tail) < size and tail.count(b"\n") < 2:
            tail = os.pread(self._descriptor, min(length, size), max(0, size - length))
            length *= 2
        end = size - len(tail) + tail.rfind(b"\n") + 1
        cut = tail[tail.rfind(b"\n") + 1 :]
        lines = tail[: len(tail) - len(cut)].splitlines()
        position = _position_in(lines[-1]) if lines else None
        is_own = position is not None if lines else not found or (bool(cut) and _is_cut_off(cut))
        if not is_own:
            raise SinkError(f"{self._path} is no file of this kind: its last line is no event; use another one")
        if end < found:
            os.ftruncate(self._descriptor, end)
        return position, end

    def _sound(self, size: int) -> int:
        """The offset of the first NUL byte, which no line has: a page there did not reach the disk, though the size did."""
        start = max(0, size - self._unsynced)
        while part := os.pread(self._descriptor, min(2**20, size - start), start):
            if (index := part.find(0)) >= 0:
                return start + index
            start += len(part)
        return size


def _position_in(line: bytes) -> SinkPosition | None:
    """The order key of the event in a line; None if the line holds no event."""
    try:
        found = _line(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found.ts, found.level, found.source, found.id


def _is_cut_off(start: bytes) -> bool:
    """Whether the only line of a file is the start of a record, or a whole record without its line end."""
    if start[: len(_BEGINNING)] != _BEGINNING[: len(start)]:
        return False
    try:
        msgspec.json.decode(start)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return True
    return _position_in(start) is not None


def _lock(descriptor: int) -> None:
    """Lock a file against other sinks until it is closed: neither would know what the other wrote. Raises BlockingIOError."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # a file system without locks
        return


def _keep_name(path: Path) -> None:
    """Sync a file's entry in its folder: else a power cut may take a new file away, with all its contents."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


class SqliteSink:
    """A table ``finals`` (type, source, id, ts, record) and the position in a SQLite file: one transaction per batch.

    Several sinks may share a file, each under a ``name`` of its own.
    """

    def __init__(self, path: Path, name: str = "finals") -> None:
        self._path, self._name = path, name
        with ExitStack() as undo:
            try:
                make_private(path)
                self._connection = undo.enter_context(closing(sqlite3.connect(path, isolation_level=None)))
                self.position = self._begun()
            except (OSError, sqlite3.Error, msgspec.MsgspecError) as error:
                raise SinkError(f"{path} cannot be used: {error}") from None
            undo.pop_all()

    def _begun(self) -> SinkPosition | None:
        """Make the tables if they do not exist; returns the position."""
        execute = self._connection.execute
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = FULL")
        execute(
            "CREATE TABLE IF NOT EXISTS finals (type TEXT NOT NULL, source TEXT NOT NULL, id INTEGER NOT NULL, "
            "ts INTEGER NOT NULL, record TEXT NOT NULL, PRIMARY KEY (source, id)) WITHOUT ROWID"
        )
        execute("CREATE TABLE IF NOT EXISTS marks (sink TEXT PRIMARY KEY, mark TEXT NOT NULL)")
        row = execute("SELECT mark FROM marks WHERE sink = ?", (self._name,)).fetchone()
        execute("SELECT type, source, id, ts, record FROM finals LIMIT 0")  # another program's may differ
        return msgspec.json.decode(row[0], type=SinkPosition) if row is not None else None

    def take(self, events: Sequence[Event]) -> None:
        """See Sink."""
        rows = [(type_name(e.__class__), e.source, e.id, e.ts, msgspec.json.encode(as_record(e)).decode()) for e in events]
        position = ORDER(events[-1])
        had = bisect_right(events, self.position, key=ORDER) if self.position is not None else 0
        try:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.executemany("INSERT INTO finals VALUES (?, ?, ?, ?, ?)", rows[:had])  # a repeat is an error,
                self._connection.executemany("INSERT OR REPLACE INTO finals VALUES (?, ?, ?, ?, ?)", rows[had:])  # if its own
                self._connection.execute(
                    "INSERT OR REPLACE INTO marks VALUES (?, ?)", (self._name, msgspec.json.encode(position).decode())
                )
        except sqlite3.Error as error:
            raise SinkError(f"{self._path} cannot be written: {error}") from None
        self.position = position

    def close(self) -> None:
        """See Sink."""
        self._connection.close()


__all__ = ["ChangeSink", "FileSink", "HttpSink", "Sink", "SqliteSink", "as_record", "deliver", "open_sink"]
