"""Prepares events as people have them for a run: in any iterable, with numpy numbers, perhaps without ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import compress, count
from operator import attrgetter, not_
from typing import NamedTuple

from msgspec.structs import replace

from middleware import native
from middleware.model.by_class import by_class
from middleware.model.errors import EventError
from middleware.model.event import MAX_TS, MIN_TS, TS, Event, EventType, Value, check_one_class_a_name, with_plain_values
from middleware.model.schema import fields_of, item_type, plain_type
from middleware.model.words import shown

_ID, _SOURCE = attrgetter("id"), attrgetter("source")
_STAMP_KINDS = {"ts": int, "id": int, "source": str}

_AT_ONCE = 1_024
"""Events that are looked at at once: each look at them but the first finds them in the processor's caches."""


def taken(events: Iterable[Event], known: Iterable[EventType] = ()) -> list[Event]:
    """The events as a list, with Python numbers, and with ids where their source gives none. O(n).

    ``known``: the types that somebody reads. Raises EventError for a value that is no event, has no time, or has no id while
    others of its source have one; and for one that has the name of a known type, but is of another class.
    """
    if isinstance(events, Event | str | bytes | Mapping | type) or not isinstance(events, Iterable):
        hint = ": collect() it first" if type(events).__name__ == "LazyFrame" else ""
        raise EventError(f"events come in a list, or another iterable, not as {shown(events)}{hint}")
    found, seen = _plain(list(events))
    check_one_class_a_name((*known, *seen.classes))
    if not MIN_TS < seen.earliest <= seen.latest < MAX_TS and found:
        outside = next(event for event in found if not MIN_TS < event.ts < MAX_TS)
        raise EventError(f"{outside!r}: ts must lie within 146 years of 1970, in nanoseconds")
    return _numbered(found, {source for source, number in seen.zeros.items() if number > 1})


class _Seen(NamedTuple):
    """What events hold: their classes; the types of values by the name of their field, over events of all types; and, where all
    stamps are of the right type, how many of each source have the id 0, and the earliest and the latest time.
    """

    classes: set[EventType]
    by_field: dict[str, set[type]]
    zeros: Counter[str]
    earliest: int
    latest: int


def _seen(events: list[Event]) -> _Seen:
    """Raises EventError for what is no event. O(values)."""
    classes: set[EventType] = set()
    by_field: dict[str, set[type]] = {}
    zeros, earliest, latest = Counter[str](), MAX_TS, MIN_TS
    for at in range(0, len(events), _AT_ONCE):
        some = events[at : at + _AT_ONCE]
        for event_type, own, places in by_class(some):
            if not issubclass(event_type, Event):
                place = at + (places[0] if places else 0)
                raise EventError(f"event {place} is none: {shown(own[0])}; give instances of subclasses of middleware.Event")
            classes.add(event_type)
            for field, found in zip(event_type.__struct_fields__, kinds(own, event_type.__struct_fields__), strict=True):
                by_field.setdefault(field, set()).update(found)
        if all(by_field[field] == {kind} for field, kind in _STAMP_KINDS.items()):
            zeros.update(map(_SOURCE, compress(some, map(not_, map(_ID, some)))))
            times = list(map(TS, some))
            earliest, latest = min(earliest, *times), max(latest, *times)
    return _Seen(classes, by_field, zeros, earliest, latest)


def _plain(events: list[Event]) -> tuple[list[Event], _Seen]:
    """The events with values as nodes have them: Python numbers in place of numpy's, times in UTC; and what they hold.

    Raises EventError for what is no event, and for stamps of a wrong type.
    """
    seen = _seen(events)
    of_all = set[type]().union(*seen.by_field.values())
    if any(kind.__module__ == "numpy" for kind in of_all) or of_all & {list, dict, tuple, set, frozenset, datetime}:
        events = list(map(with_plain_values, events))
        seen = _seen(events)
    if wide := {kind: names for kind in seen.classes if (names := _whole_floats(kind, seen))}:
        events = [_with_floats(event, wide.get(event.__class__, ())) for event in events]
    for field, kind in _STAMP_KINDS.items():
        if seen.by_field.get(field, {kind}) != {kind}:
            event = next(event for event in events if type(getattr(event, field)) is not kind)
            what = "whole nanoseconds" if field == "ts" else f"of type {kind.__name__}"
            raise EventError(f"{event!r}: {field} must be {what}, not {getattr(event, field)!r}")
    return events, seen


def _whole_floats(kind: EventType, seen: _Seen) -> list[str]:
    """The fields of floats that may hold whole numbers, which are floats on the wire and in columns, too."""
    return [
        name
        for name, hint in fields_of(kind).items()
        if (int in seen.by_field[name] and plain_type(hint) is float)
        or (seen.by_field[name] & {list, tuple} and item_type(plain_type(hint)) is float)
    ]


def _with_floats(event: Event, names: Sequence[str]) -> Event:
    whole = {name: found for name in names if (found := _floats(value := getattr(event, name))) is not value}
    return replace(event, **whole) if whole else event


def _floats(value: Value) -> Value:
    """A whole number, or those in a list, as floats; itself if there is none, or if one is as large as no float."""
    try:
        if type(value) is int:
            return float(value)
        if type(value) in (list, tuple) and int in map(type, value):
            return type(value)(float(each) if type(each) is int else each for each in value)
    except OverflowError:  # whoever makes columns or bytes of it says so
        pass
    return value


def plain_kinds(events: list[Event], fields: Sequence[str]) -> list[set[type]]:
    """For each of the fields, which all the events have, the types of its values. O(values)."""
    return [set(map(type, map(attrgetter(field), events))) for field in fields]


kinds = native.kinds if native.AVAILABLE else plain_kinds
"""The native twin goes through the events once."""


def _numbered(events: list[Event], several: set[str]) -> list[Event]:
    """The events, with ids in order of arrival where no event of a source has one (the default id is 0).

    ``several``: the sources of which several events have that.
    """
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
            f"give ids to all of them, or to none, such as {shown(without[1])}"
        )
    return True
