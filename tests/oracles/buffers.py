"""The rule: a buffer holds events in strict total order, without repeats; batches are split, sorted and merged into it."""

from __future__ import annotations

from bisect import bisect_left

from middleware.model.event import END, LEVEL, NEVER, ORDER, TS, Event
from middleware.ordering.buffer import arranged, place_of

_FEW = 8
"""Events are inserted one by one if this many times their number is less than the length of the tail they fall into."""

Own = tuple[type[Event], list[Event], list[int] | None]
"""A class, its events as they came, and their places among all, if these are of several classes."""


def by_class(events: list[Event]) -> list[Own]:
    """In the order in which the classes came. O(events)."""
    found: dict[type[Event], tuple[list[Event], list[int]]] = {}
    for place, event in enumerate(events):
        own = found.get(event.__class__)
        if own is None:
            own = found[event.__class__] = ([], [])
        own[0].append(event)
        own[1].append(place)
    return [(kind, own, places if len(found) > 1 else None) for kind, (own, places) in found.items()]


def split(events: list[Event], top: int) -> tuple[list[Event], list[Event]]:
    """Split a batch into a strictly increasing run of events later than ``top``, and the rest, in arrival order.

    One cheap pass: the run (most of a usual batch) needs no sorting, and no event in it can be a duplicate. O(n).
    """
    ahead: list[Event] = []
    behind: list[Event] = []
    for event in events:
        ts = event.ts
        if ts > top:
            ahead.append(event)
            top = ts
        else:
            behind.append(event)
    return ahead, behind


def in_time(events: list[Event], start: int) -> list[int] | None:
    """Put events in order of time, those of one time in the order they have.

    Returns how far each then lies above ``start``, at least 0; None if none does. O(n) if they are in order.
    """
    events.sort(key=TS)
    if not events or events[-1].ts <= start:
        return None
    return [max(0, event.ts - start) for event in events]


def merge(buffer: list[Event], events: list[Event]) -> tuple[list[Event], int]:
    """Merge ``events`` into ``buffer``, both in strict total order.

    Returns the events that were added, and the number of duplicates, which were not: the event in the buffer came first.
    O(k log n) for few events, O(tail they fall into) for many.
    """
    if not events:
        return events, 0
    if not buffer or buffer[-1].ts < events[0].ts:
        buffer += events
        return events, 0
    if len(events) * _FEW < len(buffer) - bisect_left(buffer, events[0].ts, key=TS):
        came, at = [], 0
        for event in events:
            at = place_of(buffer, event, at)
            if at < len(buffer) and buffer[at].ts == event.ts and ORDER(buffer[at]) == ORDER(event):
                continue
            buffer.insert(at, event)
            came.append(event)
    else:
        came = _merge_tail(buffer, events)
    return came, len(events) - len(came)


def _merge_tail(buffer: list[Event], events: list[Event]) -> list[Event]:
    """Merge many events by one sort of the tail they fall into (two runs: timsort merges them in linear time)."""
    at = bisect_left(buffer, events[0].ts, key=TS)
    tail = buffer[at:]
    merged, repeats = arranged(tail + events)
    buffer[at:] = merged
    if not repeats:
        return events
    known = set(map(ORDER, tail))
    return [event for event in events if ORDER(event) not in known]


def span(events: list[Event]) -> tuple[int, int, bool]:
    """The earliest and the latest time of events (END and NEVER if there are none), and whether all are raw. O(n)."""
    times = list(map(TS, events))
    return min(times, default=END), max(times, default=NEVER), not any(map(LEVEL, events))
