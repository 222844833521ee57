"""The fields of event types and their kinds, as far as a query needs them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

import msgspec

from detectors.language.value_types import ValueKind, joint, kind_of
from middleware.model.event import Event, EventType, EventTypes


class FieldKind(NamedTuple):
    """The content of a field: its kind, and its annotation in Python (Any if there are several)."""

    kind: ValueKind
    annotation: Any


def resolved(name: str, types: EventTypes) -> str | None:
    """The full name of a type: a namespace may be omitted if only one type has the name."""
    if name in types:
        return name
    tails = [known for known in types if known.rpartition(".")[2] == name]
    return tails[0] if len(tails) == 1 else None


@cache
def columns(event_type: EventType) -> dict[str, FieldKind]:
    """The fields of an event type by name, its own first."""
    return {field.name: FieldKind(kind_of(field.type), field.type) for field in msgspec.structs.fields(event_type)}


def own_fields(event_type: EventType) -> tuple[str, ...]:
    """The fields that an event type has beyond those of all events."""
    return tuple(name for name in event_type.__struct_fields__ if name not in Event.__struct_fields__)


def common_columns(event_types: Iterable[EventType]) -> dict[str, FieldKind]:
    """The fields that all of these types have."""
    first, *others = (columns(each) for each in event_types)
    shared = [name for name in first if all(name in other for other in others)]
    return {name: _merged([first[name], *(other[name] for other in others)]) for name in shared}


def _merged(parts: list[FieldKind]) -> FieldKind:
    annotations = {each.annotation for each in parts}
    return FieldKind(joint(each.kind for each in parts), annotations.pop() if len(annotations) == 1 else Any)
