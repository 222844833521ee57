"""The names known while statements are planned: schemas and streams. Streams and event types correspond one to one."""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from detectors.cql.grammar import statements as s
from detectors.cql.times import Read, time_reader
from detectors.language.code import Code
from detectors.language.expression import FieldRead, FunctionCall
from detectors.language.query_errors import QueryError, TextSpan, nearest
from detectors.language.value_types import INTEGERS, PYTHON, Type, ValueKind, kind_of, kind_of_members
from middleware.model.event import MAX_TS, Event, EventType, type_name
from middleware.model.schema import fields_of
from middleware.model.words import listed

TS = "ts"
"""The attribute that every stream has: the event time, in nanoseconds."""

_TAKEN = frozenset(dir(Event)) | {"namespace"}


class Attribute(NamedTuple):
    """A typed attribute, and the field of the events that holds it."""

    name: str
    kind: ValueKind
    field: str
    is_enum: bool = False
    """Whether the field holds members of an enum: the attribute is what they stand for, and is only read."""

    def code(self, variable: str = "e") -> Code:
        """The code that reads the attribute from an event."""
        value = FieldRead(variable, self.field)
        if self.is_enum:
            return Code(FunctionCall("enum_value", [value]), self.kind)
        return Code(value, self.kind, most=MAX_TS - 1 if self.name == TS else 0)


Schema = tuple[Attribute, ...]


class CatalogStream:
    """A stream: its name, attributes, event type, and where it comes from.

    ``timestamp``
        the attribute that is its application time, in seconds; it gives the ``ts`` of an event.
    ``written``
        the attribute that gives the ``ts`` of a line, and the function that reads it, if the stream names a format.
    ``system_time``
        the attribute that says when a tuple arrived, in nanoseconds, if one does.
    ``source``
        the file or host that it is read from, if any.
    ``rows``
        the rows of a table, which is no stream, but is looked up by streams.
    ``is_derived``
        whether a query writes to it.
    """

    def __init__(self, name: str, schema: Schema, event_type: EventType, timestamp: Attribute | None = None) -> None:
        self.name = name
        self.schema = schema
        self.event_type = event_type
        self.timestamp = timestamp
        self.written: tuple[Attribute, Read] | None = None
        self.system_time: Attribute | None = None
        self.source: s.Host | s.File | None = None
        self.rows: tuple[Event, ...] | None = None
        self.is_derived = False

    def attribute(self, name: str) -> Attribute | None:
        """The attribute of a case-insensitive name, if there is one."""
        return find(self.schema, name)


def find(schema: Iterable[Attribute], name: str) -> Attribute | None:
    """An attribute by its name: exactly as written if possible, else case-insensitively."""
    lower = name.lower()
    same = [each for each in schema if each.name.lower() == lower]
    return next((each for each in same if each.name == name), same[0] if same else None)


def attribute(name: str, kind: ValueKind) -> Attribute:
    """An attribute, with a valid field name for an event type."""
    taken = name in _TAKEN or keyword.iskeyword(name) or name.startswith("__")
    return Attribute(name, kind, name if name == TS else f"{name.strip('_') or 'field'}_" if taken else name)


def checked_schema(attributes: Iterable[tuple[str, ValueKind, TextSpan]]) -> Schema:
    """A schema of these attributes. Raises QueryError if two have the same name, or ``ts`` is no Long."""
    schema: list[Attribute] = []
    for name, kind, span in attributes:
        if find(schema, name) is not None:
            raise QueryError(f"two attributes are named {name!r}: give one of them another name (AS ...)", span)
        made = attribute(name, kind)
        if name.lower() == TS and (kind.type is not Type.LONG or name != TS):
            raise QueryError("ts is the time of every event, a Long (nanoseconds): give this attribute another name", span)
        if any(made.field == other.field for other in schema):
            raise QueryError(f"{name!r} cannot stand beside {listed(a.name for a in schema)}: rename it", span)
        schema.append(made)
    if not any(each.name != TS for each in schema):
        span = attributes[0][2] if isinstance(attributes, list) and attributes else TextSpan(0, 0)
        raise QueryError("a stream needs an attribute besides ts", span)
    return tuple(schema)


def make_event_type(name: str, schema: Schema) -> EventType:
    """The event type of a stream: one field per attribute, in a namespace if the name has one."""
    namespace, _, own = name.rpartition(".")
    fields = [
        (each.field, PYTHON[each.kind.type] | None if each.kind.nullable else PYTHON[each.kind.type])
        for each in schema
        if each.name != TS
    ]
    made: Any = msgspec.defstruct(
        own, fields, bases=(Event,), namespace={"namespace": namespace}, module=__name__, frozen=True, array_like=True, gc=False
    )
    return made  # type: ignore[no-any-return]


def schema_of(event_type: EventType, span: TextSpan) -> Schema:
    """The schema of a Python event type; fields that the language has no type for are omitted."""
    found = []
    for name, hint in fields_of(event_type).items():
        members = kind_of_members(hint)
        kind = members or kind_of(hint)
        if kind.type not in (Type.ANY, Type.NULL):
            found.append(Attribute(name, kind, name, members is not None))
    if not found:
        raise QueryError(
            f"{type_name(event_type)} has no attribute of a type that FlinkCQL knows (int, float, str, bool, or enums of them)",
            span,
        )
    return tuple(found)


class Catalog:
    """Schemas and streams by case-insensitive name.

    ``types``
        the event types of the broker that statements may name without creating them.
    """

    def __init__(self, types: Iterable[EventType] = ()) -> None:
        self._types = {type_name(each).lower(): each for each in types}
        self._schemas: dict[str, tuple[str, Schema]] = {}
        self._streams: dict[str, CatalogStream] = {}

    def __iter__(self) -> Iterator[CatalogStream]:
        return iter(self._streams.values())

    def copied(self) -> Catalog:
        """A copy of the catalog as it is now."""
        copy = Catalog()
        copy.become(self)
        return copy

    def become(self, other: Catalog) -> None:
        """Take over the content of ``other``."""
        self._types, self._schemas, self._streams = dict(other._types), dict(other._schemas), dict(other._streams)

    @property
    def schemas(self) -> dict[str, Schema]:
        """The named schemas."""
        return dict(self._schemas.values())

    def names(self) -> list[str]:
        """The names of all streams that can be read."""
        known = {key: stream.name for key, stream in self._streams.items()}
        return sorted({**{key: type_name(each) for key, each in self._types.items()}, **known}.values())

    def schema(self, ident: s.Ident) -> Schema:
        """A schema by name: a created one, or the schema of a stream."""
        found = self._schemas.get(ident.name.lower())
        if found is not None:
            return found[1]
        stream = self.find(ident.name)
        if stream is not None:
            return stream.schema
        names = [name for name, _ in self._schemas.values()] + self.names()
        raise QueryError(
            f"unknown schema {ident.name!r}{nearest(ident.name, names)} (known: {listed(names) or 'none'})", ident.span
        )

    def resolve(self, schema: s.Schema) -> Schema:
        """The schema that a statement gives: by name, or as attributes in brackets."""
        if isinstance(schema, s.Ident):
            return self.schema(schema)
        return checked_schema([(each.name, ValueKind(each.type, each.nullable), each.span) for each in schema.attributes])

    def create_schema(self, statement: s.CreateSchema) -> None:
        """CREATE SCHEMA: the attributes of the parent come first."""
        if statement.name.name.lower() in self._schemas:
            raise QueryError(f"there is a schema {statement.name.name!r} already: choose another name", statement.name.span)
        own = self.resolve(statement.schema)
        if statement.parent is not None:
            inherited = self.schema(statement.parent)
            own = checked_schema([(each.name, each.kind, statement.schema.span) for each in (*inherited, *own)])
        self._schemas[statement.name.name.lower()] = statement.name.name, own

    def find(self, name: str) -> CatalogStream | None:
        """A stream by name, or None; an event type of the broker becomes a stream when it is first requested."""
        found = self._streams.get(name.lower())
        if found is None and name.lower() in self._types:
            event_type = self._types[name.lower()]
            found = CatalogStream(type_name(event_type), schema_of(event_type, TextSpan(0, 0)), event_type)
            self._streams[name.lower()] = found
        return found

    def stream(self, ident: s.Ident) -> CatalogStream:
        """A stream by name. Raises QueryError with the nearest known name if there is none."""
        found = self.find(ident.name)
        if found is None:
            known = self.names()
            hint = f"{nearest(ident.name, known)} (known: {listed(known) or 'none; CREATE STREAM makes one'})"
            raise QueryError(f"unknown stream {ident.name!r}{hint}", ident.span)
        return found

    def is_free(self, name: str) -> bool:
        """Whether no stream and no event type has this name."""
        return name.lower() not in self._streams and name.lower() not in self._types

    def add(
        self, name: str, schema: Schema, span: TextSpan, timestamp: s.Timestamp | None = None, system_time: str | None = None
    ) -> CatalogStream:
        """Add a stream. With the name of an event type of the broker, it uses that type, which its schema must fit."""
        if name.lower() in self._streams:
            raise QueryError(f"there is a stream {name!r} already: choose another name", span)
        event_type = self._types.get(name.lower())
        if event_type is None:
            event_type = make_event_type(name, schema)
        else:
            schema = _fitting(event_type, schema, span)
        stream = CatalogStream(name if event_type is None else type_name(event_type), schema, event_type)
        if timestamp is not None and timestamp.form is not None:
            written = _known(stream, timestamp.attribute, timestamp.span)
            stream.written = written, time_reader(timestamp.form, written.kind, timestamp.span)
        elif timestamp is not None:
            stream.timestamp = _timestamp(stream, timestamp.attribute, timestamp.span)
        stream.system_time = _system_time(stream, system_time, span)
        self._streams[name.lower()] = stream
        return stream


def _known(stream: CatalogStream, name: str, span: TextSpan) -> Attribute:
    """An attribute of a stream. Raises QueryError if there is none of that name."""
    found = stream.attribute(name)
    if found is None:
        known = [each.name for each in stream.schema]
        raise QueryError(f"unknown attribute {name!r}{nearest(name, known)} ({stream.name} has {listed(known)})", span)
    return found


def _system_time(stream: CatalogStream, name: str | None, span: TextSpan) -> Attribute | None:
    if name is None or name.lower() == TS:
        return None
    found = _known(stream, name, span)
    if found.kind.type is not Type.LONG:
        raise QueryError(f"SYSTEM TIME {name} must be a Long (nanoseconds since 1970, as ts), not a {found.kind}", span)
    return found


def _timestamp(stream: CatalogStream, name: str, span: TextSpan) -> Attribute | None:
    if name.lower() == TS:
        return None
    found = _known(stream, name, span)
    if found.kind.type not in INTEGERS | {Type.DATETIME}:
        raise QueryError(
            f"TIMESTAMP {name} must be a whole number of seconds or a Datetime, not a {found.kind}; or add FORMAT", span
        )
    return found


def _fitting(event_type: EventType, schema: Schema, span: TextSpan) -> Schema:
    """The declared attributes, with the fields of an existing event type."""
    there = schema_of(event_type, span)
    fitted = []
    for each in schema:
        own = find(there, each.name) if each.name != TS else each
        if own is not None and own.is_enum:
            raise QueryError(f"{each.name} of the event type {type_name(event_type)} is an enum, which is only read", span)
        if own is None or PYTHON[own.kind.type] is not PYTHON[each.kind.type]:
            what = "has no such attribute" if own is None else f"has it as {own.kind}"
            raise QueryError(f"{each.name} {each.kind}: the event type {type_name(event_type)} {what}", span)
        fitted.append(Attribute(each.name, ValueKind(each.kind.type, own.kind.nullable), own.field))
    return tuple(fitted)
