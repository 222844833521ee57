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
from typing import NamedTuple

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
                row.body,
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
    """A row as it was written: its place in the log, its table with the schema, when it was committed (ns), and its JSON."""

    place: str
    table: str
    at: int
    body: bytes


Columns = list[tuple[bytes, Callable[[bytes], bytes]]]
"""Of each column its key in JSON, with the colon, and what makes JSON of the text of a value."""


class _Decoder:
    """Reads the messages of ``pgoutput``, version 1 (PostgreSQL's manual, "Logical Replication Message Formats")."""

    def __init__(self) -> None:
        self._relations: dict[int, tuple[str, Columns]] = {}

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
                yield _Row(f"{lsn}/{ordinal}", table, at, _object(rest[4:], columns))

    def _relation(self, data: bytes) -> None:
        (number,) = struct.unpack_from(">I", data)
        schema, name, rest = data[4:].split(b"\0", 2)
        columns = []
        (count,) = struct.unpack_from(">H", rest, 1)
        rest = rest[3:]
        for _ in range(count):
            column, rest = rest[1:].split(b"\0", 1)
            (kind,) = struct.unpack_from(">I", rest)
            columns.append((msgspec.json.encode(column.decode()) + b":", _FORMS.get(kind, _text)))
            rest = rest[8:]
        self._relations[number] = f"{schema.decode()}.{name.decode()}", columns


def _object(data: bytes, columns: Columns) -> bytes:
    """The new row as a JSON object, without what an update has left as it was and the log does not have."""
    place, parts = 0, list[bytes]()
    while place < len(data):  # of an update, the old row may stand before the new one
        place += 3  # N, or K or O for the old one; and the number of columns
        parts.clear()
        for key, form in columns:
            kind = data[place : place + 1]
            if kind == b"t":
                end = place + 5 + int.from_bytes(data[place + 1 : place + 5])
                parts.append(key + form(data[place + 5 : end]))
                place = end
            else:
                place += 1
                if kind == b"n":
                    parts.append(key + b"null")
    return b"{" + b",".join(parts) + b"}"


def _text(value: bytes) -> bytes:
    return msgspec.json.encode(value.decode())


def _number(value: bytes) -> bytes:
    return value if value[-1:].isdigit() else b"null"  # NaN and infinities, which JSON does not have


def _truth(value: bytes) -> bytes:
    return b"true" if value == b"t" else b"false"


_NUMBERS, _TRUTH, _JSON = (20, 21, 23, 26, 700, 701, 1700), 16, (114, 3802)
_FORMS: dict[int, Callable[[bytes], bytes]] = {
    **dict.fromkeys(_NUMBERS, _number),
    **dict.fromkeys(_JSON, bytes),
    _TRUTH: _truth,
}
"""By the OIDs of types; all others are texts."""


def _judged(error: psycopg.Error) -> SourceError | UnreachableError:
    text = f"PostgreSQL: {str(error).strip() or type(error).__name__}"
    passes = isinstance(error, psycopg.OperationalError | errors.ObjectInUse)
    return UnreachableError(text) if passes else SourceError(text)
