"""PostgreSQL as a sink: a table for each event type, finals exactly once, early changes as they come and go."""

from __future__ import annotations

import types
import typing
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
import psycopg
import structlog
import xxhash
from psycopg import errors, sql
from psycopg.types.json import Jsonb

from middleware.connect.postgres_connection import CONNECTING, is_alone, judged, refused
from middleware.link.codec import SinkPosition
from middleware.model.change import Change, Retract, Watermark
from middleware.model.errors import SinkError, UnreachableError
from middleware.model.event import IDENTITY, ORDER, Event, EventType, type_name
from middleware.model.quantities import UNIX_TIMES
from middleware.model.words import redacted
from middleware.runtime.json_records import as_record

_REFUSED = (
    psycopg.DataError,
    errors.IntegrityError,
    errors.ProgramLimitExceeded,  # a source that is longer than an index takes
    OverflowError,
    UnicodeEncodeError,
)
"""The database has no column type for an event."""

_LONGEST_SOURCE = 500
_SIMPLE = {int: "bigint", float: "double precision", str: "text", bool: "boolean", bytes: "bytea"}
_SCHEMA = """
CREATE TABLE IF NOT EXISTS slackline_marks (sink text PRIMARY KEY, mark jsonb NOT NULL);
CREATE TABLE IF NOT EXISTS slackline_rejected (
    sink text NOT NULL, type text NOT NULL, source text NOT NULL, id bigint NOT NULL, ts bigint NOT NULL,
    reason text NOT NULL, record text NOT NULL, PRIMARY KEY (sink, source, id)
)
"""
_TIME = sql.SQL(
    "time timestamptz GENERATED ALWAYS AS (CASE WHEN ts >= {} AND ts < {} "
    "THEN to_timestamp((ts / 1000)::double precision / 1000000) END) STORED"
).format(UNIX_TIMES.start, UNIX_TIMES.stop)
"""A double holds the microseconds of Unix time exactly up to the year 2255."""

_log = structlog.get_logger()


class _Column(NamedTuple):
    name: str
    type: str


class _Table(NamedTuple):
    """The statements for one event type, made once."""

    columns: list[_Column]
    insert: sql.Composed
    delete: sql.Composed

    def values(self, events: Sequence[Event]) -> list[list[Any]]:
        """The fields of events, in columns."""
        columns = []
        for name, kind in self.columns:
            column = [getattr(event, name) for event in events]
            if kind == "jsonb":
                column = [None if value is None else Jsonb(value, dumps=msgspec.json.encode) for value in column]
            columns.append(column)
        return columns


class PostgresSink:
    """Rows in one table for each event type: its fields as columns, and (source, id) as the key.

    A table is made when the first event of its type comes; one that is there is checked. Beside ``ts``, which is exact, it has
    the column ``time`` for people and dashboards, which the database derives from it: a timestamptz (microseconds), null where
    ts is no Unix time. There is none if the type has a field of that name. The sink's position is in the same
    transaction as the rows, in ``slackline_marks``: each final is there once, whatever is killed. Early changes are upserts and
    deletions. An event with a value that the database refuses (a text with NUL, say) is a row in ``slackline_rejected``, with
    the reason, in the same transaction; the others are written.

    ``address``
        as libpq takes it: postgresql://USER@HOST/DATABASE?sslmode=...; passwords are better in PGPASSWORD or ~/.pgpass.
    ``name``
        of the position. One process at a time may use it: others wait until its connection ends.
    ``schema``
        where the tables are; it must exist. ``prefix``: what their names begin with.
    """

    def __init__(self, address: str, name: str = "finals", *, schema: str = "public", prefix: str = "") -> None:
        self._name, self._schema, self._prefix = name, schema, prefix
        self._tables: dict[EventType, _Table] = {}
        try:
            self._connection = psycopg.connect(address, autocommit=True, application_name=f"slackline {name}", **CONNECTING)
        except psycopg.ProgrammingError as error:
            raise SinkError(
                f"the address of output {name!r} is none of a database: {redacted(str(error), address)}"
            ) from None  # it may hold a password
        except psycopg.Error as error:
            raise refused(error, f"output {name!r}", SinkError, address) from None
        try:
            self.position = self._begun()
        except BaseException as error:
            self.close()
            if isinstance(error, psycopg.Error):
                raise judged(error, SinkError) from None
            raise

    def _begun(self) -> SinkPosition | None:
        execute = self._connection.execute
        longest = execute("SELECT current_setting('max_identifier_length')::int").fetchone()
        self._longest: int = longest[0] if longest is not None else 0
        execute(sql.SQL("SET search_path TO {}").format(self._identifier(self._schema, "schema")))
        if not is_alone(self._connection, "%s", _lock_of(f"slackline {self._schema} {self._name}")):
            raise UnreachableError(f"PostgreSQL: another connection writes under the name {self._name!r}, or has not ended yet")
        with self._connection.transaction():
            self._make_alone()
            execute(_SCHEMA)
        row = execute("SELECT mark::text FROM slackline_marks WHERE sink = %s", (self._name,)).fetchone()
        return msgspec.json.decode(row[0], type=SinkPosition) if row is not None else None

    def _identifier(self, name: str, what: str) -> sql.Identifier:
        """A name, which PostgreSQL would cut if it were too long: then two could become one. Raises SinkError."""
        if (size := len(name.encode())) > self._longest:
            raise SinkError(
                f"PostgreSQL: the {what} {name} of output {self._name!r} has {size} bytes, and names have at most "
                f"{self._longest} there: give the type, its field or the prefix a shorter name"
            )
        return sql.Identifier(name)

    def _make_alone(self) -> None:
        """Until this transaction ends, no other sink makes tables here: IF NOT EXISTS alone does not keep two of them apart."""
        self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (_lock_of(f"slackline tables {self._schema}"),))

    def take(self, events: Sequence[Event]) -> None:
        """See Sink."""
        self._write(events, [])
        self.position = ORDER(events[-1])

    def apply(self, changes: Sequence[Change]) -> None:
        """See ChangeSink."""
        there = [change for change in changes if not isinstance(change, Watermark)]
        last = {(each.event.__class__, *IDENTITY(each.event)): each for each in there}  # its type may change: two tables
        self._write(
            [change.event for change in last.values() if not isinstance(change, Retract)],
            [change.event for change in last.values() if isinstance(change, Retract)],
            is_final=False,
        )

    def _write(self, events: Sequence[Event], gone: Sequence[Event], is_final: bool = True) -> None:
        try:
            with self._connection.transaction():
                for event_type, same in _by_type(gone).items():
                    self._delete(self._table(event_type), same)
                for event_type, same in _by_type(events).items():
                    self._insert(self._table(event_type), same)
                if is_final:
                    self._connection.execute(
                        "INSERT INTO slackline_marks VALUES (%s, %s) ON CONFLICT (sink) DO UPDATE SET mark = excluded.mark",
                        (self._name, msgspec.json.encode(ORDER(events[-1])).decode()),
                    )
        except (errors.UndefinedTable, errors.UndefinedColumn, errors.DatatypeMismatch) as error:
            raise SinkError(
                f"PostgreSQL: {str(error).splitlines()[0]}: a table was changed while output {self._name!r} wrote to it. "
                "Nothing of this batch is stored; undo the change, or give the output another prefix"
            ) from None
        except psycopg.Error as error:
            raise judged(error, SinkError) from None

    def _delete(self, table: _Table, events: Sequence[Event]) -> None:
        there = [event for event in events if "\0" not in event.source]  # others were refused
        self._connection.execute(table.delete, [[event.source for event in there], [event.id for event in there]])

    def _insert(self, table: _Table, events: Sequence[Event]) -> None:
        """Insert them at once; if one cannot be stored, halve until it stands alone."""
        try:
            with self._connection.transaction():
                self._connection.execute(table.insert, table.values(events))
        except _REFUSED as error:
            if len(events) > 1:
                middle = len(events) // 2
                self._insert(table, events[:middle])
                self._insert(table, events[middle:])
            else:
                self._delete(table, events)  # of a revision, what it replaces stands no more
                self._reject(events[0], str(error))

    def _reject(self, event: Event, reason: str) -> None:
        _log.warning("an event that the database refuses is listed in slackline_rejected", output=self._name, why=reason)
        record = msgspec.json.encode(as_record(event)).decode(errors="replace")
        source = event.source.replace("\0", "\\0")
        if len(source) > _LONGEST_SOURCE:
            source = f"{source[:_LONGEST_SOURCE]}... {xxhash.xxh3_64_hexdigest(source.encode())}"
        row = self._name, type_name(event.__class__), source, event.id, event.ts, reason, record
        self._connection.execute(
            "INSERT INTO slackline_rejected VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT (sink, source, id) DO UPDATE "
            "SET type = excluded.type, ts = excluded.ts, reason = excluded.reason, record = excluded.record",
            row,
        )

    def _table(self, event_type: EventType) -> _Table:
        """The table of a type, made if there is none, and checked. Raises SinkError."""
        if (known := self._tables.get(event_type)) is not None:
            return known
        self._make_alone()
        name = self._prefix + type_name(event_type).replace(".", "_").lower()
        columns = [_Column(field.name, _column_type(field.type)) for field in msgspec.structs.fields(event_type)]
        there: dict[str, str] = dict(
            self._connection.execute(
                "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = %s AND table_name = %s",
                (self._schema, name),
            ).fetchall()
        )
        own_name = self._identifier(name, "table")
        names = [self._identifier(column.name, "column") for column in columns]
        if not there:
            lines = [sql.SQL("{} {}").format(each, sql.SQL(c.type)) for each, c in zip(names, columns, strict=True)]
            if all(column.name != "time" for column in columns):
                lines.append(_TIME)
            body = sql.SQL(", ").join([*lines, sql.SQL("PRIMARY KEY (source, id)")])
            self._connection.execute(sql.SQL("CREATE TABLE {} ({})").format(own_name, body))
        for column in columns:
            if there and there.get(column.name) != column.type:
                found = f"is {there[column.name]}" if column.name in there else "is missing"
                raise SinkError(
                    f"the table {self._schema}.{name} does not fit {type_name(event_type)}: column {column.name} {found}, and "
                    f"must be {column.type}; alter the table, or give the output another prefix"
                )
        own = [each for each, column in zip(names, columns, strict=True) if column.name not in ("source", "id")]
        table = _Table(
            columns,
            sql.SQL("INSERT INTO {} ({}) SELECT * FROM unnest({}) ON CONFLICT (source, id) DO UPDATE SET {}").format(
                own_name,
                sql.SQL(", ").join(names),
                sql.SQL(", ").join(sql.SQL("%s::{}[]").format(sql.SQL(column.type)) for column in columns),
                sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(each) for each in own),
            ),
            sql.SQL(
                "DELETE FROM {} AS t USING unnest(%s::text[], %s::bigint[]) AS gone(source, id) "
                "WHERE t.source = gone.source AND t.id = gone.id"
            ).format(own_name),
        )
        self._tables[event_type] = table
        return table

    def close(self) -> None:
        """See Sink."""
        with suppress(psycopg.Error):
            self._connection.close()


def _lock_of(what: str) -> int:
    """The number of an advisory lock."""
    return xxhash.xxh3_64_intdigest(what.encode()) - 2**63


def _by_type(events: Sequence[Event]) -> dict[EventType, list[Event]]:
    found: dict[EventType, list[Event]] = {}
    for event in events:
        found.setdefault(event.__class__, []).append(event)
    return found


def _column_type(annotation: Any) -> str:
    """The type of a column for a field; a field without one is JSON."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _column_type(arguments[0])
    if origin in (typing.Union, types.UnionType):
        each = {_column_type(one) for one in arguments if one is not type(None)}
        return each.pop() if len(each) == 1 else "jsonb"
    return _SIMPLE.get(annotation, "jsonb")
