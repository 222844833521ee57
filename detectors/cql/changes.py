"""Tuples as plain values, and ids of results: shared by all operators of queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import astuple

from detectors.outcomes import unchecked
from middleware.model.event import Event, EventType, Value
from middleware.model.operator import Origin

Rows = Iterable[tuple[Value, ...]]
"""Events as the values of their fields."""


def packed(events: Iterable[Event]) -> list[tuple[Value, ...]]:
    """Events as plain tuples: the types of streams have no module to be pickled by."""
    return list(map(astuple, events))


def unpacker(event_type: EventType) -> Callable[[Iterable[tuple[Value, ...]]], list[Event]]:
    """A function that turns what ``packed`` gave back into events of this type."""
    return lambda rows: [unchecked(event_type, row) for row in rows]


class SourceHashes(dict[str, int]):
    """For each source, the number that turns ids of causes into ids of results, so that different causes give different ids."""

    def __init__(self, origin: Origin, role: str = "") -> None:
        super().__init__()
        self._origin, self._role = origin, role

    def __missing__(self, source: str) -> int:
        number = self[source] = self._origin.id(source, self._role)
        return number
