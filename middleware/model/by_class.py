"""Events by their class."""

from __future__ import annotations

from middleware import native
from middleware.model.event import Event

Own = tuple[type[Event], list[Event], list[int] | None]
"""A class, its events as they came, and their places among all, if these are of several classes."""


def plain_by_class(events: list[Event]) -> list[Own]:
    """In the order in which the classes came. O(events)."""
    found: dict[type[Event], tuple[list[Event], list[int]]] = {}
    for place, event in enumerate(events):
        own = found.get(event.__class__)
        if own is None:
            own = found[event.__class__] = ([], [])
        own[0].append(event)
        own[1].append(place)
    return [(kind, own, places if len(found) > 1 else None) for kind, (own, places) in found.items()]


by_class = native.by_class if native.AVAILABLE else plain_by_class
"""Its native twin, where it is built."""
