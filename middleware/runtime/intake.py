"""Prepares events as people have them for a run: in any iterable, with numpy numbers, perhaps without ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from operator import attrgetter

from msgspec.structs import replace

from middleware import native
from middleware.model.errors import EventError
from middleware.model.event import MAX_TS, MIN_TS, Event, EventType, with_plain_values

_STAMP_KINDS = {"ts": int, "id": int, "source": str}


def taken(events: Iterable[Event]) -> list[Event]:
    """The events as a list, with Python numbers, and with ids where their source gives none. O(n).

    Raises EventError for a value that is no event, has no time, or has no id while others of its source have one.
    """
    if isinstance(events, Event | str | bytes | Mapping | type) or not isinstance(events, Iterable):
        raise EventError(f"events come in a list, or another iterable, not as {_told(events)}")
    found = list(events)
    if stray := {kind for kind in set(map(type, found)) if not issubclass(kind, Event)}:
        place, event = next((place, event) for place, event in enumerate(found) if type(event) in stray)
        raise EventError(f"event {place} is none: {_told(event)}; give instances of subclasses of middleware.Event")
    found = _plain(found)
    if outside := next((event for event in found if not MIN_TS < event.ts < MAX_TS), None):
        raise EventError(f"{outside!r}: ts must lie within 146 years of 1970, in nanoseconds")
    return _numbered(found)


def _told(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def _plain(events: list[Event]) -> list[Event]:
    """The events with Python numbers in place of numpy's, in fields, too. Raises EventError for stamps of a wrong type."""
    by_field = _kinds_by_field(events)
    of_all = set[type]().union(*by_field.values())
    if any(kind.__module__ == "numpy" for kind in of_all) or of_all & {list, dict, tuple, set, frozenset}:
        events = list(map(with_plain_values, events))
        by_field = _kinds_by_field(events)
    for field, kind in _STAMP_KINDS.items():
        if by_field.get(field, {kind}) != {kind}:
            event = next(event for event in events if type(getattr(event, field)) is not kind)
            what = "whole nanoseconds" if field == "ts" else f"of type {kind.__name__}"
            raise EventError(f"{event!r}: {field} must be {what}, not {getattr(event, field)!r}")
    return events


def plain_kinds(events: list[Event], fields: Sequence[str]) -> list[set[type]]:
    """For each of the fields, which all the events have, the types of its values. O(values)."""
    return [set(map(type, map(attrgetter(field), events))) for field in fields]


kinds = native.kinds if native.AVAILABLE else plain_kinds
"""The native twin goes through the events once."""


def _kinds_by_field(events: list[Event]) -> dict[str, set[type]]:
    """The types of values by the name of their field, over events of all types."""
    found: dict[str, set[type]] = {}
    event_types: set[EventType] = set(map(type, events))
    for event_type in event_types:
        own = events if len(event_types) == 1 else [event for event in events if type(event) is event_type]
        for field, some in zip(event_type.__struct_fields__, kinds(own, event_type.__struct_fields__), strict=True):
            found.setdefault(field, set()).update(some)
    return found


def _numbered(events: list[Event]) -> list[Event]:
    """The events, with ids in order of arrival where no event of a source has one (the default id is 0)."""
    zeros = Counter(event.source for event in events if event.id == 0)
    several = {source for source, number in zeros.items() if number > 1}
    if not several:
        return events
    by_source: dict[str, list[Event]] = {source: [] for source in several}
    for event in events:
        if event.source in several:
            by_source[event.source].append(event)
    numbers = {source: count() for source, own in by_source.items() if _has_no_ids(source, own)}
    return [replace(event, id=next(numbers[event.source])) if event.source in numbers else event for event in events]


def _has_no_ids(source: str, events: list[Event]) -> bool:
    """Whether all events of a source lack ids. Equal events are repeats of one event."""
    without = [event for event in events if event.id == 0]
    if all(event == without[0] for event in without):
        return False
    if len(without) < len(events):
        raise EventError(
            f"{len(without):,} events of source {source!r} have no id, others have one; (source, id) must name each event: "
            f"give ids to all of them, or to none, such as {_told(without[1])}"
        )
    return True
