"""Prepares events as people have them for a run: in any iterable, with any values, perhaps without ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import compress, count
from operator import attrgetter, not_

from msgspec.structs import replace

from middleware.model.errors import EventError
from middleware.model.event import MAX_TS, MIN_TS, Event, EventType, check_one_class_a_name, plain
from middleware.model.values.carried import all_carried
from middleware.model.words import shown
from middleware.native import by_class

_ID, _SOURCE = attrgetter("id"), attrgetter("source")
_STAMP_KINDS = {"ts": int, "id": int, "source": str}

_AT_ONCE = 1_024
"""Events that are looked at at once: each look at them but the first finds them in the processor's caches."""


def prepare_events(events: Iterable[Event], known: Iterable[EventType] = ()) -> list[Event]:
    """The events as a list, with the values that nodes read, and with ids where their source gives none. O(n).

    ``known``: the types that somebody reads. Raises EventError for a value that is no event, has no time, or has no id while
    others of its source have one; and for one that has the name of a known type, but is of another class.
    """
    if isinstance(events, Event | str | bytes | Mapping | type) or not isinstance(events, Iterable):
        hint = ": collect() it first" if type(events).__name__ == "LazyFrame" else ""
        raise EventError(f"events come in a list, or another iterable, not as {shown(events)}{hint}")
    found, classes, zeros = _as_read(list(events))
    check_one_class_a_name((*known, *classes))
    return _numbered(found, {source for source, number in zeros.items() if number > 1})


def _as_read(events: list[Event]) -> tuple[list[Event], set[EventType], Counter[str]]:
    """The events as nodes read them (``carried``), their classes, and how many of each source have the id 0. O(values).

    Raises EventError for what is no event, for stamps of a wrong type, and for values that no node takes.
    """
    classes, zeros = set[EventType](), Counter[str]()
    read: list[Event] = []
    for at in range(0, len(events), _AT_ONCE):
        some = events[at : at + _AT_ONCE]
        for event_type, own, indexes in by_class(some):
            if not issubclass(event_type, Event):
                index = at + (indexes[0] if indexes else 0)
                raise EventError(f"event {index} is none: {shown(own[0])}; give instances of subclasses of slackline.Event")
            classes.add(event_type)
            if (known := _carried(event_type, own)) is own:
                continue
            for index, event in zip(indexes or range(len(some)), known, strict=True):
                some[index] = event
        read += some
        zeros.update(map(_SOURCE, compress(some, map(not_, map(_ID, some)))))
    return read, classes, zeros


def _carried(event_type: EventType, events: list[Event]) -> list[Event]:
    try:
        return all_carried(event_type, events)
    except EventError:
        for event in events:
            _check_stamps(event)
        raise


def _check_stamps(event: Event) -> None:
    """Raise EventError for a stamp of a wrong type, or a time that is none; the message says what to give."""
    for field, kind in _STAMP_KINDS.items():
        if type(plain(value := getattr(event, field))) is not kind:
            what = "whole nanoseconds" if field == "ts" else f"of type {kind.__name__}"
            raise EventError(f"{event!r}: {field} must be {what}, not {value!r}")
    if not MIN_TS < event.ts < MAX_TS:
        raise EventError(f"{event!r}: ts must lie within 146 years of 1970, in nanoseconds")


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
