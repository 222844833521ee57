"""Sorted buffers of events: plain lists in strict total order, merged a batch at a time with C-speed primitives.

A strict order holds no (source, id) twice at one time stamp, so duplicates are found here, too: a second arrival ties
with the first. Times alone are compared first, because ties are rare and attribute tuples cost four times as much.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise
from operator import lt

from middleware import native
from middleware.model.event import ORDER, TS, Event

_FEW = 8
"""Events are inserted one by one if this many times their number is less than the length of the tail they fall into."""


def plain_split(events: list[Event], top: int) -> tuple[list[Event], list[Event]]:
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


split = native.split if native.AVAILABLE else plain_split
"""The native twin does the same, sooner."""


def plain_in_time(events: list[Event], start: int) -> list[int] | None:
    """Put events in order of time, those of one time in the order they have.

    Returns how far each then lies above ``start``, at least 0; None if none does. O(n) if they are in order.
    """
    events.sort(key=TS)
    if not events or events[-1].ts <= start:
        return None
    return [max(0, event.ts - start) for event in events]


in_time = native.in_time if native.AVAILABLE else plain_in_time
"""The native twin does the same, sooner."""


def sort(events: list[Event]) -> bool:
    """Put events in total order, those with one order key in the order they have. Returns whether no two share a time: then
    times alone decide, which costs a quarter. O(n log n); O(n) if they are in order."""
    events.sort(key=TS)
    times = [event.ts for event in events]
    if all(map(lt, times, times[1:])):
        return True
    events.sort(key=ORDER)
    return False


def arranged(events: list[Event]) -> tuple[list[Event], int]:
    """The events in strict total order, and how many duplicates were left out. O(n log n); O(n) if they are in order."""
    if len(events) < 2:
        return events, 0
    ordered = events.copy()
    if sort(ordered):
        return ordered, 0
    keys = list(map(ORDER, ordered))
    unique = [ordered[0]] + [event for event, key, before in zip(ordered[1:], keys[1:], keys, strict=False) if key != before]
    return unique, len(ordered) - len(unique)


def plain_merge(buffer: list[Event], events: list[Event]) -> tuple[list[Event], int]:
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


merge = native.merge if native.AVAILABLE else plain_merge
"""The native twin does the same, sooner."""


def place_of(buffer: list[Event], event: Event, start: int = 0) -> int:
    """The position of the event in the buffer from ``start`` on, or the one it would have. O(log n)."""
    at = bisect_left(buffer, event.ts, start, key=TS)
    if at < len(buffer) and buffer[at].ts == event.ts and buffer[at] is not event:
        return bisect_left(buffer, ORDER(event), at, key=ORDER)
    return at


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


def position_of(buffer: list[Event], event: Event) -> int | None:
    """The position of the event with this order key, or None. O(log n)."""
    at = place_of(buffer, event, 0)
    return at if at < len(buffer) and (buffer[at] is event or ORDER(buffer[at]) == ORDER(event)) else None


def remove(buffer: list[Event], events: list[Event]) -> tuple[list[Event], list[Event]]:
    """Remove events; returns those that were in the buffer, in order, and those that were not. O(k log n) and one pass."""
    places: dict[int, Event] = {}
    missing = []
    for event in events:
        at = position_of(buffer, event)
        if at is None or at in places:
            missing.append(event)
        else:
            places[at] = event
    order = sorted(places)
    gone = [buffer[at] for at in order]
    if len(order) == 1:
        del buffer[order[0]]
    elif order:
        tail: list[Event] = []
        for at, after in pairwise([*order, len(buffer)]):
            tail += buffer[at + 1 : after]
        buffer[order[0] :] = tail
    return gone, missing


def count_until(buffer: list[Event], ts: int) -> int:
    """How many events have a time stamp <= ``ts``. O(log n)."""
    if not buffer or buffer[0].ts > ts:
        return 0
    if buffer[-1].ts <= ts:
        return len(buffer)
    return bisect_right(buffer, ts, key=TS)
