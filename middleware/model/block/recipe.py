"""Which event types the native core may make itself: those of which a value goes into a field as it is, or not at all."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import Any

from msgspec.structs import fields

from middleware.model.event import EventType, Int64, Timestamp
from middleware.model.schema import is_optional, without_none

Recipe = tuple[EventType, list[tuple[str, str, bool]]]
"""A type, and for each field its name, what it takes, and whether it takes None."""

_TAKES: dict[Any, str] = {int: "int", float: "float", str: "str", bool: "bool", Any: "any", Timestamp: "time", Int64: "long"}


@cache
def recipe(event_type: EventType) -> Recipe | None:
    """How to make events of this type without checks that a look at the values' types does not do; None if there is no way.

    An annotation that is not in the list (a constraint, an enum, a container) needs ``msgspec.convert``, and so does a
    ``__post_init__``.
    """
    config = event_type.__struct_config__
    if config.gc or config.tag is not None or not config.array_like or hasattr(event_type, "__post_init__"):
        return None
    made = []
    for field in fields(event_type):
        takes, nullable = _takes(field.type)
        if takes is None:
            return None
        made.append((field.name, takes, nullable))
    return event_type, made


def _takes(annotation: Any) -> tuple[str | None, bool]:
    """The name of what a field takes, None if it is no plain type, and whether it takes None."""
    kind = without_none(annotation)
    return (_TAKES.get(kind) if isinstance(kind, Hashable) else None), is_optional(annotation)
