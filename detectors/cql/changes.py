"""Results and tuples as changes and as plain values: what all operators of queries share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import astuple

from middleware.change import Delta
from middleware.event import Event, EventType
from middleware.operator import Origin
from middleware.state import exactly


def difference(before: list[Event], after: list[Event]) -> Delta:
    """What changes when results ``before`` become results ``after``; all are of one operator. O(results)."""
    if not before:
        return Delta(after)
    was: dict[int, Event] = {event.id: event for event in before}
    delta = Delta()
    for event in after:
        old = was.pop(event.id, None)
        if old is None:
            delta.inserts.append(event)
        elif old != event or not exactly(old, event):
            delta.revises.append((old, event))
    delta.retracts = list(was.values())
    return delta


def packed(events: Iterable[Event]) -> list[tuple[Any, ...]]:
    """Events as plain tuples: the types of streams have no module that they could be pickled by."""
    return list(map(astuple, events))


class Unpacker:
    """Makes events of one type from plain tuples."""

    def __init__(self, event_type: EventType) -> None:
        self._type = event_type
        self._fields = event_type.__struct_fields__

    def __call__(self, packed: Iterable[tuple[Any, ...]]) -> list[Event]:
        count = len(self._fields) - 4
        return [self._type(*row[:count], **dict(zip(self._fields[count:], row[count:], strict=True))) for row in packed]


class SourceHashes(dict[str, int]):
    """By source, the number that makes ids of results from ids of causes: they differ where the causes differ."""

    def __init__(self, origin: Origin, role: str = "") -> None:
        super().__init__()
        self._origin, self._role = origin, role

    def __missing__(self, source: str) -> int:
        number = self[source] = self._origin.id(source, self._role)
        return number
