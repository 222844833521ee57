"""What the fields of event types hold, as far as a query needs to know."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable
from enum import Enum
from functools import cache
from typing import Any, NamedTuple

import msgspec

from detectors.sequence.functions import Kind
from middleware.event import Event, EventType, EventTypes

_PLAIN: tuple[tuple[type, Kind], ...] = ((bool, Kind.BOOL), (int, Kind.INT), (float, Kind.FLOAT), (str, Kind.TEXT))


class Column(NamedTuple):
    """What a field holds: its kind, whether it may be NULL, and its Python type."""

    kind: Kind
    nullable: bool
    type: Any


def resolved(name: str, types: EventTypes) -> str | None:
    """The full name of the type that is meant: a namespace may be left out where only one type has the name."""
    if name in types:
        return name
    tails = [known for known in types if known.rpartition(".")[2] == name]
    return tails[0] if len(tails) == 1 else None


@cache
def columns(event_type: EventType) -> dict[str, Column]:
    """The fields of an event type by name, its own first."""
    return {field.name: column_of(field.type) for field in msgspec.structs.fields(event_type)}


def own_fields(event_type: EventType) -> tuple[str, ...]:
    """The fields that an event type has beyond those of all events."""
    return tuple(name for name in event_type.__struct_fields__ if name not in Event.__struct_fields__)


def column_of(annotation: Any) -> Column:
    """What a field with this annotation holds."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return column_of(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        parts = [column_of(part) for part in typing.get_args(annotation) if part is not type(None)]
        nullable = type(None) in typing.get_args(annotation) or any(part.nullable for part in parts)
        return _merged(parts)._replace(nullable=nullable)
    if origin is typing.Literal:
        return _merged([column_of(type(value)) for value in typing.get_args(annotation)])
    if annotation is type(None):
        return Column(Kind.NULL, True, annotation)
    if isinstance(annotation, type) and not issubclass(annotation, Enum):
        for plain, kind in _PLAIN:
            if issubclass(annotation, plain):
                return Column(kind, False, plain)
    nullable = annotation is Any or isinstance(annotation, typing.TypeVar)
    return Column(Kind.OTHER, nullable, annotation)


def common_columns(event_types: Iterable[EventType]) -> dict[str, Column]:
    """The fields that all of these types have."""
    first, *others = (columns(each) for each in event_types)
    shared = [name for name in first if all(name in other for other in others)]
    return {name: _merged([first[name], *(other[name] for other in others)]) for name in shared}


def _merged(parts: list[Column]) -> Column:
    nullable = any(part.nullable for part in parts)
    kinds = {part.kind for part in parts} - {Kind.NULL}
    if len(kinds) == 1 and len({part.type for part in parts}) == 1:
        return parts[0]._replace(nullable=nullable)
    if kinds and all(kind.is_number for kind in kinds):
        return Column(Kind.FLOAT if Kind.FLOAT in kinds else Kind.INT, nullable, float if Kind.FLOAT in kinds else int)
    if len(kinds) == 1:
        return Column(kinds.pop(), nullable, Any)
    return Column(Kind.OTHER, nullable, Any)
