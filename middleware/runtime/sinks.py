"""Sinks: final events go to a file, a database or an HTTP endpoint, each once, whatever is killed and when.

A subscriber behind the barrier delivers finals in total order. So one order key, the *mark*, tells what a sink has: it is
stored together with the events, in one transaction, and whoever starts again passes it to ``Subscriber(after=...)``.
What cannot hold a mark (HTTP) gets the events at least once, each with its identity, under a key that is the same for the
same events: the receiver keeps the first.
"""

from __future__ import annotations

import os
import sqlite3
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Protocol

import msgspec
import xxhash

from middleware.change import Advance, Insert
from middleware.errors import SinkError
from middleware.event import END, NEVER, ORDER, Event, type_name
from middleware.pubsub.codec import Mark
from middleware.runtime.subscriber import Subscriber


class Sink(Protocol):
    """Where finals go. ``mark``: the order key of the last event that it has, None if it has none or cannot know."""

    mark: Mark | None

    def take(self, events: Sequence[Event]) -> None:
        """Keep these events, in total order and all later than the mark; they are safe when this returns. Raises SinkError."""
        ...

    def close(self) -> None:
        """Let go of what is open."""
        ...


def deliver(subscriber: Subscriber, sink: Sink, until: int = END) -> int:
    """Deliver finals to a sink until progress has come to ``until``; returns how many. Raises SinkError, NetworkError.

    The subscriber is one with ``consistency="final"`` and, to survive this program, ``resume=...`` and ``after=sink.mark``.
    """
    delivered, told = 0, NEVER
    while told < until:
        events = []
        for change in subscriber.receive():
            if isinstance(change, Insert):
                events.append(change.event)
            elif isinstance(change, Advance):
                told = change.progress
        if events:
            sink.take(events)
            delivered += len(events)
        subscriber.commit()
    return delivered


def as_record(event: Event) -> dict[str, Any]:
    """An event as a flat record: its type name and all its fields."""
    return {"type": type_name(event.__class__)} | msgspec.structs.asdict(event)


class FileSink:
    """JSON lines. A line that was cut off by a crash is cut away; the last whole one tells the mark."""

    def __init__(self, path: Path) -> None:
        try:
            self._file: IO[bytes] = path.open("a+b")
            last = self._repair()
        except OSError as error:
            raise SinkError(f"{path} cannot be written: {error.strerror}") from None
        self.mark: Mark | None = None
        if last is not None:
            try:
                found = msgspec.json.decode(last)
                self.mark = (found["ts"], found["level"], found["source"], found["id"])
            except (msgspec.DecodeError, KeyError, TypeError):
                raise SinkError(f"{path} is no file of this kind: its last line is no event; use another one") from None

    def take(self, events: Sequence[Event]) -> None:
        """See Sink. One write and one fsync for all of them."""
        start = self._file.seek(0, 2)
        try:
            self._file.write(b"".join(msgspec.json.encode(as_record(event)) + b"\n" for event in events))
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            self._file.truncate(start)
            raise SinkError(f"{self._file.name} cannot be written: {error.strerror}") from None
        self.mark = ORDER(events[-1])

    def close(self) -> None:
        """See Sink."""
        self._file.close()

    def _repair(self) -> bytes | None:
        """Cut away what follows the last line end; the last line."""
        file = self._file
        end = file.seek(0, 2)
        tail, start = b"", end
        while start and tail.count(b"\n") < 2:
            size = min(65_536, start)
            start = file.seek(start - size)
            tail = file.read(size) + tail
        whole = tail[: tail.rfind(b"\n") + 1]
        file.truncate(end - len(tail) + len(whole))
        lines = whole.splitlines()
        return lines[-1] if lines else None


class SqliteSink:
    """A table (type, source, id, ts, record) in a SQLite file, with the mark beside it: one transaction a batch."""

    def __init__(self, path: Path, table: str = "finals") -> None:
        if not table.isidentifier():
            raise SinkError(f"{table!r} is no name for a table")
        self._path, self._table = path, table
        try:
            self._connection = sqlite3.connect(path, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.execute(
                f"CREATE TABLE IF NOT EXISTS {table} (type TEXT NOT NULL, source TEXT NOT NULL, id INTEGER NOT NULL, "
                "ts INTEGER NOT NULL, record TEXT NOT NULL, PRIMARY KEY (source, id)) WITHOUT ROWID"
            )
            self._connection.execute("CREATE TABLE IF NOT EXISTS marks (sink TEXT PRIMARY KEY, mark TEXT NOT NULL)")
            row = self._connection.execute("SELECT mark FROM marks WHERE sink = ?", (table,)).fetchone()
        except sqlite3.Error as error:
            raise SinkError(f"{path} cannot be used: {error}") from None
        self.mark: Mark | None = msgspec.json.decode(row[0], type=Mark) if row is not None else None

    def take(self, events: Sequence[Event]) -> None:
        """See Sink."""
        rows = [(type_name(e.__class__), e.source, e.id, e.ts, msgspec.json.encode(as_record(e)).decode()) for e in events]
        mark = ORDER(events[-1])
        try:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.executemany(f"INSERT INTO {self._table} VALUES (?, ?, ?, ?, ?)", rows)
                self._connection.execute(
                    "INSERT OR REPLACE INTO marks VALUES (?, ?)", (self._table, msgspec.json.encode(mark).decode())
                )
        except sqlite3.Error as error:
            raise SinkError(f"{self._path} cannot be written: {error}") from None
        self.mark = mark

    def close(self) -> None:
        """See Sink."""
        self._connection.close()


class HttpSink:
    """POSTs JSON arrays of events; tries again while the endpoint is away or answers 429 or 5xx.

    The header ``Idempotency-Key`` is made of the identities in the batch: the same events come under the same key. Each
    event carries (source, id), by which a receiver, or the topic of a broker behind it, recognises what it has.
    """

    mark: Mark | None = None

    def __init__(self, url: str, *, timeout: float = 10.0, patience: float = 60.0) -> None:
        if not url.startswith(("http://", "https://")):
            raise SinkError(f"{url!r} is no HTTP address")
        self._url, self._timeout, self._patience = url, timeout, patience

    def take(self, events: Sequence[Event]) -> None:
        """See Sink."""
        identities = msgspec.msgpack.encode([(event.source, event.id) for event in events])
        request = urllib.request.Request(
            self._url,
            msgspec.json.encode([as_record(event) for event in events]),
            {"Content-Type": "application/json", "Idempotency-Key": xxhash.xxh3_128_hexdigest(identities)},
        )
        deadline, pause = time.monotonic() + self._patience, 0.05
        while (why := self._post(request)) is not None:
            if time.monotonic() + pause > deadline:
                raise SinkError(f"{self._url} has not taken {len(events)} events within {self._patience:.0f} s: {why}")
            time.sleep(pause)
            pause = min(2 * pause, 5.0)

    def _post(self, request: urllib.request.Request) -> str | None:
        """None if the endpoint took it, or why it may later. Raises SinkError if it never will."""
        try:
            with urllib.request.urlopen(request, timeout=self._timeout):
                return None
        except urllib.error.HTTPError as error:
            error.close()
            if error.code != 429 and error.code < 500:
                raise SinkError(f"{self._url} refuses the events: {error.code} {error.reason}") from None
            return f"{error.code} {error.reason}"
        except OSError as error:
            return str(error)

    def close(self) -> None:
        """See Sink."""
