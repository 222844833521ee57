"""Tuples as plain values, and what makes ids of results: what all operators of queries share."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import astuple

from detectors.outcomes import unchecked
from middleware.model.event import Event, EventType, Value
from middleware.model.operator import Origin

Rows = Iterable[tuple[Value, ...]]
"""Events as the values of their fields."""


def packed(events: Iterable[Event]) -> list[tuple[Value, ...]]:
    """Events as plain tuples: the types of streams have no module that they could be pickled by."""
    return list(map(astuple, events))


def unpacker(event_type: EventType) -> Callable[[Iterable[tuple[Value, ...]]], list[Event]]:
    """What makes events of this type of what ``packed`` made of them."""
    return lambda rows: [unchecked(event_type, row) for row in rows]


class SourceHashes(dict[str, int]):
    """By source, the number that makes ids of results from ids of causes: they differ where the causes differ."""

    def __init__(self, origin: Origin, role: str = "") -> None:
        super().__init__()
        self._origin, self._role = origin, role

    def __missing__(self, source: str) -> int:
        number = self[source] = self._origin.id(source, self._role)
        return number
