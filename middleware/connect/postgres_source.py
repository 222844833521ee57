"""PostgreSQL as a source: the rows of tables as they are inserted or updated, by logical decoding.

A replication slot keeps in the server what was not acknowledged: a row comes again until then, with the same position in the
same transaction.
"""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
import psycopg
import structlog
from psycopg import errors, sql
from psycopg.rows import scalar_row

from middleware.connect.messages.numbering import Numbering
from middleware.connect.messages.source import Messages, SourceSpec
from middleware.connect.postgres_connection import CONNECTING, is_alone, judged, refused
from middleware.model.errors import SourceError, UnreachableError
from middleware.model.time import SECOND
from middleware.model.words import redacted

_MOST_CHANGES = 10_000
_PAUSE = 0.05
_TEXTS = (
    "client_encoding = UTF8",
    "datestyle = ISO",
    "intervalstyle = iso_8601",
    "bytea_output = hex",
    "extra_float_digits = 1",
)
"""How values are written, whatever the database or the role is set to: times as ISO 8601, numbers with all digits."""

_PEEK = """SELECT data FROM pg_logical_slot_peek_binary_changes(%s, NULL, %s, 'proto_version', '1', 'publication_names', %s)"""
_WRITTEN = "SELECT pg_current_wal_flush_lsn() - '0/0'::pg_lsn"
_MISSING = """SELECT name FROM unnest(%s::text[]) name WHERE NOT EXISTS (
    SELECT 1 FROM pg_publication_rel JOIN pg_publication ON pg_publication.oid = prpubid
    WHERE pubname = %s AND prrelid = to_regclass(name))"""
_LOOK_EVERY = 1.0
"""Seconds between two looks at what else is written, and at whether the tables are still those that are read."""

_IDENTITY = """SELECT relreplident IN ('f', 'i') OR (relreplident = 'd' AND EXISTS (
    SELECT 1 FROM pg_index WHERE indrelid = pg_class.oid AND indisprimary)) FROM pg_class WHERE oid = to_regclass(%s)"""
_log = structlog.get_logger()
_EPOCH = round(datetime(2000, 1, 1, tzinfo=UTC).timestamp()) * SECOND


class PostgresSource:
    """Rows of tables that are inserted, and new versions of those that are updated, as JSON objects; deletions are skipped.

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
        self._end: int | None = None
        """Up to where the log was received and not acknowledged."""
        self._looked_at, self._passed = 0.0, 0
        self._decoder = _Decoder()
        self._numbering = Numbering(spec.folder / "numbers.sqlite")
        self._source = f"postgresql:{spec.name}:{self._numbering.line}"
        try:
            try:
                self._connection = psycopg.connect(spec.address, autocommit=True, application_name=self._slot, **CONNECTING)
            except psycopg.ProgrammingError as error:
                raise SourceError(
                    f"the address of input {spec.name!r} is none of a database: {redacted(str(error), spec.address)}"
                ) from None
            except psycopg.Error as error:
                raise refused(error, f"input {spec.name!r}", SourceError, spec.address) from None
            self._cursor = self._connection.cursor(binary=True, row_factory=scalar_row)
            self._begin()
        except BaseException as error:
            self.close()
            if isinstance(error, psycopg.Error):
                raise judged(error, SourceError) from None
            raise

    def _begin(self) -> None:
        execute = self._connection.execute
        if not is_alone(self._connection, "hashtextextended(%s, 0)", self._slot):
            raise UnreachableError(f"PostgreSQL: another connection reads {self._slot}, or has not ended yet")
        for setting in _TEXTS:
            execute(f"SET {setting}".encode())
        level = execute("SHOW wal_level").fetchone()
        if level is None or level[0] != "logical":
            raise SourceError(
                "PostgreSQL: wal_level must be logical: ALTER SYSTEM SET wal_level = logical, then restart the server"
            )
        tables = sql.SQL(", ").join(sql.Identifier(*each.split(".")) for each in self._tables)
        publish = "insert, update" if self._has_identities() else "insert"
        there = execute("SELECT 1 FROM pg_publication WHERE pubname = %s", (self._slot,)).fetchone()
        create = "CREATE PUBLICATION {} FOR TABLE {} WITH (publish = 'insert')"
        verb = "ALTER PUBLICATION {} SET TABLE {}" if there else create
        if there:
            self._tell_missing()
        execute(sql.SQL(verb).format(sql.Identifier(self._slot), tables))
        options = sql.SQL("ALTER PUBLICATION {} SET (publish = {}, publish_via_partition_root = true)")
        execute(options.format(sql.Identifier(self._slot), sql.Literal(publish)))
        if execute("SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", (self._slot,)).fetchone() is None:
            if there:
                _log.warning("the slot is gone: what was written since it was read last is not read", slot=self._slot)
            execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (self._slot,))

    def _missing(self) -> list[str]:
        """The tables that are not read, as they are not those that were there when reading began."""
        names = [sql.Identifier(*each.split(".")).as_string(self._connection) for each in self._tables]
        return [name for (name,) in self._connection.execute(_MISSING, (names, self._slot)).fetchall()]

    def _tell_missing(self) -> None:
        if missing := self._missing():
            _log.warning("tables are read that were not, or that were made anew: from now on", tables=missing)

    def _look(self) -> None:
        """Nothing has come: let go of the log that others have written, and see that the tables are still the same.

        Raises UnreachableError if they are not: the next connection reads the new ones.
        """
        self._looked_at = time.monotonic()
        try:
            missing = self._missing()
        except psycopg.Error as error:
            raise judged(error, SourceError) from None
        if missing:
            raise UnreachableError("PostgreSQL: a table was made anew: reading begins with the new one")

    def _pass(self, written: int) -> None:
        """Let the slot advance to where the log was before nothing was found in it: what is kept for it, is read each time."""
        if written > self._passed:
            self._end, self._passed = written, written
            self.acknowledge(Messages())

    def _has_identities(self) -> bool:
        """Whether all tables have what distinguishes their rows; false if none has: were updates published, PostgreSQL would
        refuse each that an application makes. Raises SourceError if only some have.
        """
        without = []
        for table in self._tables:
            name = sql.Identifier(*table.split(".")).as_string(self._connection)
            found = self._connection.execute(_IDENTITY, (name,)).fetchone()
            without += [table] if found is not None and not found[0] else []
        if without and len(without) < len(self._tables):
            raise SourceError(
                f"PostgreSQL: {without[0]} has neither a primary key nor a replica identity, so its updates cannot be read as "
                f"those of others are: ALTER TABLE {without[0]} REPLICA IDENTITY FULL, or give it an input of its own"
            )
        if without:
            hint = f"ALTER TABLE {without[0]} REPLICA IDENTITY FULL, or add a primary key, and start again"
            _log.warning("only insertions are read: updates need a primary key", tables=without, hint=hint)
        return not without

    def receive(self, timeout: float) -> Messages:
        """See Source. The next ones come once these are acknowledged."""
        deadline = time.monotonic() + timeout
        while self._end is None:
            is_due = time.monotonic() - self._looked_at > _LOOK_EVERY
            try:
                written = self._connection.execute(_WRITTEN).fetchone() if is_due else None
                changes = self._cursor.execute(_PEEK, (self._slot, _MOST_CHANGES, self._slot)).fetchall()
            except errors.ObjectNotInPrerequisiteState as error:
                raise SourceError(
                    f"PostgreSQL: {str(error).splitlines()[0]}: it has thrown away log that was not read (see "
                    "max_slot_wal_keep_size), and the rows in it. To continue without them, SELECT "
                    f"pg_drop_replication_slot('{self._slot}'), and start again"
                ) from None
            except psycopg.Error as error:
                raise judged(error, SourceError) from None
            if changes:
                transactions, self._end = self._decoder.read(changes)
                if transactions:
                    return self._messages(transactions)
                self.acknowledge(Messages())
            elif written is not None:
                self._look()
                self._pass(int(written[0]))
            elif time.monotonic() > deadline:
                break
            else:
                time.sleep(_PAUSE)
        return Messages()

    def _messages(self, transactions: Sequence[_Transaction]) -> Messages:
        """Rows by their position in the transaction; how many it has is a part of its key, so that its numbers are its own."""
        counts = [len(each.bodies) for each in transactions]
        # with the time, as a server that was put back to an older state writes other rows to the same positions
        keys = [(b"%x/%x/%x" % (each.end, count, each.at), True) for each, count in zip(transactions, counts, strict=True)]
        ids: list[int] = []
        for (last, _), count in zip(self._numbering.numbers(keys, time.time_ns(), counts), counts, strict=True):
            ids += range(last - count + 1, last + 1)
        own = set(self._tables)
        return Messages(
            [table if table in own else table.partition(".")[2] for each in transactions for table in each.tables],
            [body for each in transactions for body in each.bodies],
            [self._source] * len(ids),
            ids,
            [each.at for each, count in zip(transactions, counts, strict=True) for _ in range(count)],
            [None] * len(ids),
        )

    def acknowledge(self, messages: Messages) -> None:
        """See Source: these are all that were received."""
        assert self._end is not None
        try:
            end = f"{self._end >> 32:X}/{self._end & 0xFFFFFFFF:X}"
            self._connection.execute("SELECT pg_replication_slot_advance(%s, %s::pg_lsn)", (self._slot, end))
        except psycopg.Error as error:
            raise judged(error, SourceError) from None
        self._end = None

    def close(self) -> None:
        """See Source."""
        with suppress(AttributeError, psycopg.Error):  # it may not have come as far as that
            self._connection.close()
        self._numbering.close()


class _Transaction(NamedTuple):
    """Where its commit ends in the log, when that was (ns), and its rows: the table of each, with the schema, and its JSON."""

    end: int
    at: int
    tables: list[str]
    bodies: list[bytes]


Columns = list[tuple[bytes, Callable[[bytes], bytes]]]
"""The key of each column in JSON, with the colon, and the function that makes JSON of a value's text."""

_COMMIT, _RELATION, _INSERT, _UPDATE, _TEXT, _NULL, _OLD = b"CRIUtnO"

_UNKNOWN = b'["left as it was by an update, and so not in the log: ALTER TABLE ... REPLICA IDENTITY FULL", 1%b]' % (b"0" * 400)
"""In place of a value that is not in the log: no field takes a text and a number beyond all bounds, not even one of lists, so
that the row is listed as unread with it."""


class _Decoder:
    """Reads the messages of ``pgoutput``, version 1 (PostgreSQL's manual, "Logical Replication Message Formats")."""

    def __init__(self) -> None:
        self._relations: dict[int, tuple[str, Columns]] = {}

    def read(self, changes: Sequence[bytes]) -> tuple[list[_Transaction], int]:
        """The transactions that have rows, and up to where in the log all these go. O(bytes)."""
        found: list[_Transaction] = []
        tables, bodies, end = list[str](), list[bytes](), 0
        for data in changes:
            kind = data[0]
            if kind in (_INSERT, _UPDATE):
                table, columns = self._relations[int.from_bytes(data[1:5])]
                tables.append(table)
                bodies.append(_object(data, columns))
            elif kind == _RELATION:
                self._relation(data[1:])
            elif kind == _COMMIT:
                end, at = struct.unpack_from(">qq", data, 10)
                if bodies:
                    found.append(_Transaction(end, _EPOCH + at * 1_000, tables, bodies))
                    tables, bodies = [], []
        return found, end

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
    """The new row as a JSON object."""
    offset, size, row = 5, len(data), list[bytes]()  # behind the kind of message and the table
    whole: list[bytes] | None = None
    while offset < size:  # of an update, the old row may stand before the new one
        is_whole = data[offset] == _OLD
        offset += 3  # N, or K or O for the old one; and the number of columns
        row = []
        for at, (_, form) in enumerate(columns):
            kind = data[offset]
            offset += 1
            if kind == _TEXT:
                start = offset + 4
                offset = start + int.from_bytes(data[offset:start])
                row.append(form(data[start:offset]))
            elif kind == _NULL:
                row.append(b"null")
            else:  # a long value that the update has left as it was: the log has it in the old row, or not at all
                row.append(whole[at] if whole is not None else _UNKNOWN)
        whole = row if is_whole else None
    return b"{" + b",".join([key + value for (key, _), value in zip(columns, row, strict=True)]) + b"}"


def _text(value: bytes) -> bytes:
    return msgspec.json.encode(value.decode())


def _number(value: bytes) -> bytes:
    return value if value[-1:].isdigit() else b"null"  # NaN and infinities, which JSON does not have


def _truth(value: bytes) -> bytes:
    return b"true" if value == b"t" else b"false"


def _moment(value: bytes) -> bytes:
    return _text(value + b":00" if value[-3:-2] in (b"+", b"-") else value)  # of an offset PostgreSQL writes the hours alone


def _bytes(value: bytes) -> bytes:
    return msgspec.json.encode(bytes.fromhex(value[2:].decode()))


_NUMBERS, _TRUTH, _JSON, _BYTES, _MOMENT = (20, 21, 23, 26, 700, 701, 1700), 16, (114, 3802), 17, 1184
_FORMS: dict[int, Callable[[bytes], bytes]] = {
    **dict.fromkeys(_NUMBERS, _number),
    **dict.fromkeys(_JSON, bytes),
    _TRUTH: _truth,
    _BYTES: _bytes,
    _MOMENT: _moment,
}
"""By the OIDs of types; all others are texts."""
