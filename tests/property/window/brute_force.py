"""The oracle of windows: written from their definitions alone, over the sorted input. It shares no code with the operators."""

from collections import defaultdict
from typing import Any

from detectors.window import Counted, Hopping, Landmark, Session, Sliding
from middleware.model.event import ORDER

Found = tuple[Any, int, int, tuple[Any, ...]]
"""Key, start, end, and the events of a window, in order."""


def windows_of(kind: Any, events: list[Any]) -> list[tuple[int, int, list[Any]]]:
    """(start, end, events) of all windows over the events of one key, which are sorted."""
    rules = {Hopping: hopping, Sliding: sliding, Session: sessions, Landmark: landmarks, Counted: counted}
    return rules[type(kind)](kind, events)


def sizes(kind) -> tuple[int, ...]:
    return kind.size if isinstance(kind.size, tuple) else (kind.size,)


def between(events, start, end):
    return [event for event in events if start < event.ts <= end]


def hopping(kind, events):
    low, high = events[0].ts, events[-1].ts + max(sizes(kind)) + kind.every
    ends = [end for end in range(low, high) if (end - kind.offset) % kind.every == 0]
    found = [(end - size, end, between(events, end - size, end)) for end in ends for size in sizes(kind)]
    return [window for window in found if window[2]]


def sliding(kind, events):
    times = sorted({event.ts for event in events})
    return [(ts - size, ts, between(events, ts - size, ts)) for ts in times for size in sizes(kind)]


def sessions(kind, events):
    runs = [[events[0]]]
    for event in events[1:]:
        if event.ts - runs[-1][-1].ts > kind.gap:
            runs.append([])
        runs[-1].append(event)
    return [(run[0].ts, run[-1].ts + kind.gap, run) for run in runs]


def landmarks(kind, events):
    found = []
    for end in range(kind.since + kind.every, events[-1].ts + kind.every + 1, kind.every):
        start = kind.since
        while kind.period is not None and start + kind.period < end:
            start += kind.period
        if between(events, end - kind.every, end):
            found.append((start, end, between(events, start, end)))
    return found


def counted(kind, events):
    ends = [number for number in range(len(events)) if (number + 1) % kind.every == 0]
    runs = [events[max(0, number + 1 - kind.size) : number + 1] for number in ends]
    return [(run[0].ts, run[-1].ts, run) for run in runs]


def brute_force(kind, events, key=lambda event: ()) -> list[Found]:
    by_key = defaultdict(list)
    for event in sorted(events, key=ORDER):
        by_key[key(event)].append(event)
    return [(k, start, end, tuple(held)) for k, own in by_key.items() for start, end, held in windows_of(kind, own)]
