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

from middleware.link.codec import Mark
from middleware.model.change import Change, Retract, Watermark
from middleware.model.errors import SinkError, SlacklineError, UnreachableError
from middleware.model.event import IDENTITY, ORDER, Event, EventType, type_name
from middleware.runtime.records import as_record

CONNECTING: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""How a connection is made, and known to be lost."""

_HOPELESS = (
    "password authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "does not exist",
    "not permitted",
    "connection is bad: invalid",  # a part of the address, such as its port
    "Servname not supported",  # a port that is no number
    "server does not support SSL",
    "certificate verify failed",
    "does not match host name",
)
_SIMPLE = {int: "bigint", float: "double precision", str: "text", bool: "boolean", bytes: "bytea"}
_SCHEMA = """
CREATE TABLE IF NOT EXISTS slackline_marks (sink text PRIMARY KEY, mark jsonb NOT NULL);
CREATE TABLE IF NOT EXISTS slackline_rejected (
    sink text NOT NULL, type text NOT NULL, source text NOT NULL, id bigint NOT NULL, ts bigint NOT NULL,
    reason text NOT NULL, record text NOT NULL, PRIMARY KEY (sink, source, id)
)
"""
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

    A table is made when the first event of its type comes; one that is there is checked. The mark is in the same transaction as
    the rows, in ``slackline_marks``: each final is there once, whatever is killed. Early changes are upserts and deletions. An
    event with a value that the database refuses (a text with NUL, say) is a row in ``slackline_rejected``, with the reason, in
    the same transaction; the others go on.

    ``address``
        as libpq takes it: postgresql://USER@HOST/DATABASE?sslmode=...; passwords are better in PGPASSWORD or ~/.pgpass.
    ``name``
        of the mark. One process at a time may use it: others wait until its connection ends.
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
                f"the address of output {name!r} is none of a database: {error}"
            ) from None  # it may hold a password
        except psycopg.Error as error:
            raise refused(error, f"output {name!r}", SinkError) from None
        try:
            self.mark = self._begun()
        except BaseException as error:
            self.close()
            if isinstance(error, psycopg.Error):
                raise _judged(error) from None
            raise

    def _begun(self) -> Mark | None:
        execute = self._connection.execute
        execute(sql.SQL("SET search_path TO {}").format(self._identifier(self._schema, "schema")))
        taken = execute("SELECT pg_try_advisory_lock(%s)", (_lock_of(f"slackline {self._schema} {self._name}"),)).fetchone()
        if taken is None or not taken[0]:
            raise UnreachableError(f"PostgreSQL: another connection writes under the name {self._name!r}, or has not ended yet")
        with self._connection.transaction():
            self._make_alone()
            execute(_SCHEMA)
        row = execute("SELECT mark::text FROM slackline_marks WHERE sink = %s", (self._name,)).fetchone()
        return msgspec.json.decode(row[0], type=Mark) if row is not None else None

    def _identifier(self, name: str, what: str) -> sql.Identifier:
        """A name, which PostgreSQL would cut if it were too long: then two could become one. Raises SinkError."""
        found = self._connection.execute("SELECT current_setting('max_identifier_length')::int").fetchone()
        assert found is not None
        if (size := len(name.encode())) > found[0]:
            raise SinkError(
                f"PostgreSQL: the {what} {name} of output {self._name!r} has {size} bytes, and names have at most {found[0]} "
                "there: give the type, its field or the prefix a shorter name"
            )
        return sql.Identifier(name)

    def _make_alone(self) -> None:
        """Until this transaction ends, no other sink makes tables here: IF NOT EXISTS alone does not keep two of them apart."""
        self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (_lock_of(f"slackline tables {self._schema}"),))

    def take(self, events: Sequence[Event]) -> None:
        """See Sink."""
        self._write(events, [])
        self.mark = ORDER(events[-1])

    def apply(self, changes: Sequence[Change]) -> None:
        """See ChangeSink."""
        last = {IDENTITY(change.event): change for change in changes if not isinstance(change, Watermark)}
        self._write(
            [change.event for change in last.values() if not isinstance(change, Retract)],
            [change.event for change in last.values() if isinstance(change, Retract)],
            is_final=False,
        )

    def _write(self, events: Sequence[Event], gone: Sequence[Event], is_final: bool = True) -> None:
        try:
            with self._connection.transaction():
                for event_type, same in _by_type(gone).items():
                    keys = [[event.source for event in same], [event.id for event in same]]
                    self._connection.execute(self._table(event_type).delete, keys)
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
            raise _judged(error) from None

    def _insert(self, table: _Table, events: Sequence[Event]) -> None:
        """Insert them at once; if one cannot be stored, halve until it stands alone."""
        try:
            with self._connection.transaction():
                self._connection.execute(table.insert, table.values(events))
        except (psycopg.DataError, errors.IntegrityError, OverflowError, UnicodeEncodeError) as error:
            if len(events) > 1:
                middle = len(events) // 2
                self._insert(table, events[:middle])
                self._insert(table, events[middle:])
            else:
                self._reject(events[0], str(error))

    def _reject(self, event: Event, reason: str) -> None:
        _log.warning("an event that the database refuses is listed in slackline_rejected", output=self._name, why=reason)
        record = msgspec.json.encode(as_record(event)).decode(errors="replace")
        row = self._name, type_name(event.__class__), event.source.replace("\0", "\\0"), event.id, event.ts, reason, record
        self._connection.execute(
            "INSERT INTO slackline_rejected VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING", row
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
    """The type of a column for a field; whatever has no plain one is JSON."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _column_type(arguments[0])
    if origin in (typing.Union, types.UnionType):
        each = {_column_type(one) for one in arguments if one is not type(None)}
        return each.pop() if len(each) == 1 else "jsonb"
    return _SIMPLE.get(annotation, "jsonb")


def refused(error: psycopg.Error, who: str, hopeless: type[SlacklineError]) -> SlacklineError:
    """Why ``who`` has no connection, by whether another attempt may help; libpq has no code then, only text."""
    text = f"PostgreSQL: {str(error).strip()}"
    if any(sign in text for sign in _HOPELESS):
        return hopeless(f"{text}; mend the address of {who}, PGPASSWORD or ~/.pgpass, or what the server allows")
    return UnreachableError(text)


def _judged(error: psycopg.Error) -> SinkError | UnreachableError:
    """Whether another attempt may help: the connection is lost, or the server is out of something, or shuts down."""
    text = f"PostgreSQL: {str(error).strip() or type(error).__name__}"
    return UnreachableError(text) if isinstance(error, psycopg.OperationalError) else SinkError(text)
