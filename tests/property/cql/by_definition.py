"""Windows by definition: what an execution of windows must come to, computed from the sorted events without any cleverness.

The definitions are those of Vu 2015 (sections 2.2, 3.1 to 3.3). Time windows hold (lower, upper]. O(windows * events).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

from middleware.model.event import ORDER, Event

Measure = Literal["ts", "count", "clock"]
Model = Literal["tuple", "time", "batch"]


class Extent(NamedTuple):
    """So many nanoseconds of ``ts``, tuples, or units of a clock of one's own; ``tick`` is the resolution of that time."""

    measure: Measure
    amount: int
    tick: int = 0


class Spec(NamedTuple):
    """A window specification.

    ``size``
        None: all since ``lower`` (None: since ever), the landmark window.
    ``start``
        upper bound of the first window, in time.
    ``clock``
        the application time of an event, for extents measured by a clock; it is taken never to run backwards.
    ``batch``
        what tells batches of one moment apart, in the batch-driven model (None: each event is one).
    """

    size: Extent | None
    slide: Extent
    model: Model = "tuple"
    start: int | None = None
    lower: int | None = None
    clock: Callable[[Event], int] | None = None
    batch: Callable[[Event], Any] | None = None


class Window(NamedTuple):
    """A window that is reported: when, and what is in it, in total order."""

    ts: int
    events: list[Event]


def naive_windows(events: Iterable[Event], spec: Spec) -> list[Window]:
    """All windows that are reported over these events, once the stream has ended."""
    ordered = sorted(events, key=ORDER)
    if not ordered:
        return []
    if spec.slide.measure == "ts":
        return _timed(ordered, spec)
    return _counted(ordered, spec) if spec.slide.measure == "count" else _clocked(ordered, spec)


def _apart(one: float, other: float) -> float:
    return abs(one - other)


def naive_delta(
    events: Iterable[Event], measure: Callable[[Event], Any], threshold: float, distance: Callable[[Any, Any], float] = _apart
) -> list[Window]:
    """Delta windows: one is closed, and reported, by the first event farther than the threshold from its first."""
    windows = []
    window: list[Event] = []
    for event in sorted(events, key=ORDER):
        if window and distance(measure(window[0]), measure(event)) > threshold:
            windows.append(Window(event.ts, window))
            window = []
        window = [*window, event]
    return windows


def naive_sessions(events: Iterable[Event], gap: int) -> list[tuple[int, int, list[Event]]]:
    """(start, end, content) of runs of events, none more than ``gap`` after the one before; they end a gap after their last."""
    runs: list[list[Event]] = []
    for event in sorted(events, key=ORDER):
        if not runs or event.ts - runs[-1][-1].ts > gap:
            runs.append([])
        runs[-1].append(event)
    return [(run[0].ts, run[-1].ts + gap, run) for run in runs]


def _clocks(ordered: list[Event], spec: Spec) -> list[int]:
    shown: list[int] = []
    for event in ordered:
        time = spec.clock(event) if spec.clock else event.ts
        shown.append(max([time, *shown[-1:]]))
    return shown


def _content(ordered: list[Event], spec: Spec, upper: int | None) -> list[Event]:
    """What of the events so far is within the size; ``upper``: where the window ends, if size and slide are measured alike."""
    size = spec.size
    if not ordered:
        return []
    if size is None:
        if spec.lower is None:
            return ordered
        if spec.slide.measure == "clock":
            return [event for event, time in zip(ordered, _clocks(ordered, spec), strict=True) if time > spec.lower]
        return [event for event in ordered if event.ts > spec.lower]
    if size.measure == "count":
        return ordered[-size.amount :]
    same = upper is not None and size.measure == spec.slide.measure
    if size.measure == "ts":
        end = upper if same and upper is not None else ordered[-1].ts
        return [event for event in ordered if event.ts > end - size.amount]
    clocks = _clocks(ordered, spec)
    end = upper if same and upper is not None else clocks[-1]
    return [event for event, time in zip(ordered, clocks, strict=True) if time > end - size.amount]


def _boundaries(spec: Spec, first: int, last: int, anchor: int) -> list[int]:
    """All boundaries from the one at or after ``first`` to the last that could matter."""
    slide = spec.slide.amount
    least = spec.start
    if spec.size is None and spec.lower is not None:
        least = spec.lower + slide
    if least is None and spec.model == "time" and spec.size is not None and spec.slide.measure == "ts":
        least = anchor + slide - max(spec.slide.tick, 1)  # the first window starts with the first event, which is in it
    boundary = least if least is not None else (first // slide - 1) * slide - spec.slide.tick
    found = []
    while boundary <= last:
        if least is not None or boundary >= first:
            found.append(boundary)
        boundary += slide
    return found


def _timed(ordered: list[Event], spec: Spec) -> list[Window]:
    reach = spec.size.amount if spec.size is not None and spec.size.measure == "ts" else 0
    last = max(ordered[-1].ts, spec.start or 0, spec.lower or 0) + reach + 2 * spec.slide.amount
    windows = []
    before: list[Event] = []
    so_far: list[Event] = []
    for boundary in _boundaries(spec, ordered[0].ts, last, ordered[0].ts):
        came = [event for event in ordered if event.ts <= boundary]
        content = _content(came, spec, boundary)
        sliding = spec.size is not None and spec.size.measure == "ts"
        news = content != before if sliding and spec.model != "tuple" else True if sliding else came != so_far
        if content and news:
            windows.append(Window(boundary, content))
        before, so_far = content, came
    return windows


def _counted(ordered: list[Event], spec: Spec) -> list[Window]:
    windows = []
    reported = 0
    for number, event in enumerate(ordered, 1):
        follower = ordered[number] if number < len(ordered) else None
        if follower is not None and spec.model != "tuple" and follower.ts == event.ts:
            in_time = spec.model == "time"
            if in_time or (spec.batch is not None and spec.batch(follower) == spec.batch(event)):
                continue
        if number // spec.slide.amount > reported // spec.slide.amount:
            content = _content(ordered[:number], spec, None)
            if content:
                windows.append(Window(event.ts, content))
        reported = number
    return windows


def _clocked(ordered: list[Event], spec: Spec) -> list[Window]:
    windows = []
    clocks = _clocks(ordered, spec)
    for number in range(1, len(ordered)):
        passed = [
            b for b in _boundaries(spec, clocks[number - 1], clocks[number], 0) if clocks[number - 1] <= b < clocks[number]
        ]
        if not (spec.size is not None and spec.size.measure == "clock"):
            passed = passed[:1]
        for boundary in passed:
            content = _content(ordered[:number], spec, boundary)
            if content:
                windows.append(Window(ordered[number].ts, content))
    return windows
