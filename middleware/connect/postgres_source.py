"""PostgreSQL as a source: the rows of tables as they are inserted or updated, by logical decoding.

A replication slot keeps in the server what was not acknowledged: a row comes again until then, with the same place in the log.
"""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
import psycopg
from psycopg import errors, sql

from middleware.connect.numbering import Numbering
from middleware.connect.postgres import CONNECTING, refused
from middleware.connect.source import Message, SourceSpec
from middleware.model.errors import SourceError, UnreachableError
from middleware.model.time import SECOND

_MOST_CHANGES = 10_000
_PAUSE = 0.05
_EPOCH = round(datetime(2000, 1, 1, tzinfo=UTC).timestamp()) * SECOND
_WHOLE, _REAL, _TRUTH, _JSON = {20, 21, 23, 26}, {700, 701, 1700}, {16}, {114, 3802}


class PostgresSource:
    """Rows of tables that are inserted, and new versions of those that are updated, as JSON objects; deletions are left out.

    Topics are tables: ``table``, or ``schema.table``. Whole transactions come, in the order and with the time of
    their commits. The server needs ``wal_level = logical``; the role, REPLICATION, and the tables to be its own. A
    publication and a slot called ``slackline_NAME`` are made if they are not there: what was written before is not
    read. The slot keeps the server from throwing away log that was not acknowledged: drop the slot of an input that
    is not used any more.

    ``address``
        as libpq takes it: postgresql://USER@HOST/DATABASE.
    """

    def __init__(self, spec: SourceSpec) -> None:
        self._slot = f"slackline_{re.sub('[^a-z0-9_]', '_', spec.name.lower())}"
        self._tables = list(spec.topics)
        self._last: str | None = None
        self._form = _Decoder()
        self._numbering = Numbering(spec.folder / "numbers.sqlite")
        self._source = f"postgresql:{spec.name}:{self._numbering.line}"
        try:
            try:
                self._connection = psycopg.connect(spec.address, autocommit=True, application_name=self._slot, **CONNECTING)
            except psycopg.ProgrammingError as error:
                raise SourceError(f"the address of input {spec.name!r} is none of a database: {error}") from None
            except psycopg.Error as error:
                raise refused(error, f"input {spec.name!r}", SourceError) from None
            self._begin()
        except BaseException as error:
            self.close()
            if isinstance(error, psycopg.Error):
                raise _judged(error) from None
            raise

    def _begin(self) -> None:
        execute = self._connection.execute
        taken = execute("SELECT pg_try_advisory_lock(hashtextextended(%s, 0))", (self._slot,)).fetchone()
        if taken is None or not taken[0]:
            raise UnreachableError(f"PostgreSQL: another connection reads {self._slot}, or has not ended yet")
        level = execute("SHOW wal_level").fetchone()
        if level is None or level[0] != "logical":
            raise SourceError(
                "PostgreSQL: wal_level must be logical: ALTER SYSTEM SET wal_level = logical, then restart the server"
            )
        tables = sql.SQL(", ").join(sql.Identifier(*each.split(".")) for each in self._tables)
        there = execute("SELECT 1 FROM pg_publication WHERE pubname = %s", (self._slot,)).fetchone()
        verb = "ALTER PUBLICATION {} SET TABLE {}" if there else "CREATE PUBLICATION {} FOR TABLE {}"
        execute(sql.SQL(verb).format(sql.Identifier(self._slot), tables))
        if execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", (self._slot,)).fetchone() is None:
            execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (self._slot,))

    def receive(self, timeout: float) -> Sequence[Message]:
        """See Source. What comes next comes once these are acknowledged."""
        deadline = time.monotonic() + timeout
        while self._last is None:
            try:
                changes = self._connection.execute(
                    "SELECT lsn::text, data FROM pg_logical_slot_peek_binary_changes(%s, NULL, %s, 'proto_version', '1', "
                    "'publication_names', %s)",
                    (self._slot, _MOST_CHANGES, self._slot),
                ).fetchall()
            except psycopg.Error as error:
                raise _judged(error) from None
            if changes:
                self._last = changes[-1][0]
                if rows := list(self._form.rows(changes)):
                    return self._messages(rows)
                self.acknowledge(())
            elif time.monotonic() > deadline:
                break
            else:
                time.sleep(_PAUSE)
        return ()

    def _messages(self, rows: Sequence[_Row]) -> list[Message]:
        numbered = self._numbering.numbers([(row.place.encode(), True) for row in rows], time.time_ns())
        wanted = set(self._tables)
        return [
            Message(
                row.table if row.table in wanted else row.table.partition(".")[2],
                msgspec.json.encode(row.values),
                self._source,
                number,
                row.at,
            )
            for row, (number, _) in zip(rows, numbered, strict=True)
        ]

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """See Source: these are all that were received."""
        try:
            self._connection.execute("SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", (self._slot, self._last))
        except psycopg.Error as error:
            raise _judged(error) from None
        self._last = None

    def close(self) -> None:
        """See Source."""
        with suppress(AttributeError, psycopg.Error):  # it may not have come as far as that
            self._connection.close()
        self._numbering.close()


class _Row(NamedTuple):
    """A row as it was written: its place in the log, its table with the schema, when it was committed (ns), its values."""

    place: str
    table: str
    at: int
    values: dict[str, Any]


class _Decoder:
    """Reads the messages of ``pgoutput``, version 1 (PostgreSQL's manual, "Logical Replication Message Formats")."""

    def __init__(self) -> None:
        self._relations: dict[int, tuple[str, list[tuple[str, Callable[[str], Any]]]]] = {}

    def rows(self, changes: Sequence[tuple[str, bytes]]) -> Iterator[_Row]:
        at, last, ordinal = 0, "", 0
        for lsn, data in changes:
            kind, rest = data[:1], data[1:]
            if kind == b"B":
                at = _EPOCH + struct.unpack_from(">q", rest, 8)[0] * 1_000
            elif kind == b"R":
                self._relation(rest)
            elif kind in (b"I", b"U"):
                (relation,) = struct.unpack_from(">I", rest)
                table, columns = self._relations[relation]
                ordinal = ordinal + 1 if lsn == last else 0  # rows of one COPY share their place
                last = lsn
                yield _Row(f"{lsn}/{ordinal}", table, at, _values(rest[4:], columns))

    def _relation(self, data: bytes) -> None:
        (number,) = struct.unpack_from(">I", data)
        schema, name, rest = data[4:].split(b"\0", 2)
        columns = []
        (count,) = struct.unpack_from(">H", rest, 1)
        rest = rest[3:]
        for _ in range(count):
            column, rest = rest[1:].split(b"\0", 1)
            (kind,) = struct.unpack_from(">I", rest)
            columns.append((column.decode(), _reading(kind)))
            rest = rest[8:]
        self._relations[number] = f"{schema.decode()}.{name.decode()}", columns


def _values(data: bytes, columns: list[tuple[str, Callable[[str], Any]]]) -> dict[str, Any]:
    """The values of the new row; of an update, the old one stands before it."""
    place = 0
    values: dict[str, Any] = {}
    while place < len(data):
        place += 3  # N, or K or O for the old one; and the number of columns
        values = {}
        for name, read in columns:
            kind = data[place : place + 1]
            place += 1
            if kind == b"t":
                (size,) = struct.unpack_from(">I", data, place)
                values[name] = read(data[place + 4 : place + 4 + size].decode())
                place += 4 + size
            elif kind == b"n":
                values[name] = None
    return values


def _reading(kind: int) -> Callable[[str], Any]:
    """How the text of a value of this type (its OID) is read."""
    if kind in _WHOLE:
        return int
    if kind in _REAL:
        return float
    if kind in _TRUTH:
        return lambda text: text == "t"
    if kind in _JSON:
        return msgspec.json.decode
    return str


def _judged(error: psycopg.Error) -> SourceError | UnreachableError:
    text = f"PostgreSQL: {str(error).strip() or type(error).__name__}"
    passes = isinstance(error, psycopg.OperationalError | errors.ObjectInUse)
    return UnreachableError(text) if passes else SourceError(text)
