"""Kinds of windows: which windows there are, given the events so far. Pure; content is (start, end] throughout.

A late event must revise exactly the results it touches. So each kind says, before and after a change, which windows there are
in the region that the change can touch; the difference is published. Time passes by stepping from one end to the ``next``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from detectors.window.aggregation.monoid import Monoid
from detectors.window.content import Content, SessionContent
from middleware.model.errors import WindowError
from middleware.model.event import END, MAX_TS, Order, Value


class WindowSpan(NamedTuple):
    """A window that is not empty.

    ``low``, ``high``
        the bounds of its content: times or places in the total order, both included.
    ``known_by``
        makes its identity, together with the key; it stays the same while the window grows.
    """

    start: int
    end: int
    low: int | Order
    high: int | Order
    known_by: tuple[Value, ...]


Held = TypeVar("Held", bound=Content)


class WindowKind(Generic[Held]):
    """A kind of windows, over the content of each key.

    ``retention``
        an entry this far (ns) behind the final time is droppable, unless entries that it belongs with are not; 0: see ``due``.
    ``goes_by_rank``
        whether windows depend on how many entries there ever were; then even an empty key is not forgotten.
    """

    retention = 0
    goes_by_rank: ClassVar[bool] = False

    def content(self, monoids: Iterable[Monoid]) -> Held:
        """New, empty content for the windows of one key."""
        return Content(monoids)  # type: ignore[return-value]

    def region(self, content: Held, times: list[int]) -> Any:
        """The region that changes at these times can touch, the same before and after them. Times are sorted."""
        raise NotImplementedError

    def inside(self, content: Held, region: Any, upto: int) -> Iterable[WindowSpan]:
        """The windows of a region with ends not after ``upto``."""
        raise NotImplementedError

    def next(self, content: Held, after: int) -> list[WindowSpan]:
        """All windows with the earliest end after ``after``."""
        raise NotImplementedError

    def droppable(self, content: Held, final: int) -> int:
        """How many of the oldest entries are not needed by any window that ends after ``final``."""
        raise NotImplementedError

    def due(self, content: Held) -> int:
        """The final time at which some entry may become droppable; END if none will."""
        return content.orders[0][0] + self.retention if content else END


def _checked(**durations: int) -> None:
    for name, value in durations.items():
        if not isinstance(value, int) or value <= 0:
            raise WindowError(f"{name} must be a whole number of nanoseconds above 0, not {value!r}")


def _sizes(size: int | tuple[int, ...]) -> tuple[int, ...]:
    sizes = size if isinstance(size, tuple) else (size,)
    for each in sizes:
        _checked(size=each)
    if not sizes or len(set(sizes)) < len(sizes):
        raise WindowError(f"sizes must be different, and one at least: {sizes}")
    return sizes


def end_at(ts: int, every: int, offset: int) -> int:
    """The first of the times ``offset`` + k * ``every`` that is not before ``ts``: where windows end."""
    return offset - (offset - ts) // every * every


def _timed(content: Content, start: int, end: int) -> Iterator[WindowSpan]:
    """The window (start, end], if it is not empty."""
    first = content.first_after(start)
    if first is not None and first <= end:
        yield WindowSpan(start, end, start + 1, end, (start, end))


@dataclass(frozen=True)
class Hopping(WindowKind[Content]):
    """Windows of ``size`` that end every ``every``: (end - size, end], end - ``offset`` a multiple of ``every``.

    Several sizes share their content: ``Hopping((10 * SECOND, MINUTE), every=SECOND)``. Durations in ns.
    """

    size: int | tuple[int, ...]
    every: int
    offset: int = 0

    def __post_init__(self) -> None:
        _checked(every=self.every)
        object.__setattr__(self, "sizes", _sizes(self.size))
        object.__setattr__(self, "retention", max(self.sizes))

    sizes: ClassVar[tuple[int, ...]] = ()

    def end(self, ts: int) -> int:
        """The first end that is not before ``ts``."""
        return end_at(ts, self.every, self.offset)

    def region(self, content: Content, times: list[int]) -> list[int]:
        return sorted({end for ts in times for end in range(self.end(ts), ts + self.retention, self.every)})

    def inside(self, content: Content, region: list[int], upto: int) -> Iterator[WindowSpan]:
        for end in region:
            if end <= upto:
                yield from self._at(content, end)

    def next(self, content: Content, after: int) -> list[WindowSpan]:
        end = self.end(after + 1)
        while True:
            first = content.first_after(end - self.retention)
            if first is None:
                return []
            end = max(end, self.end(first))
            windows = list(self._at(content, end))
            if windows:
                return windows
            end += self.every  # between windows that are further apart than long

    def _at(self, content: Content, end: int) -> Iterator[WindowSpan]:
        for size in self.sizes:
            yield from _timed(content, end - size, end)

    def droppable(self, content: Content, final: int) -> int:
        return content.after(self.end(final + 1) - self.retention)


def Tumbling(size: int, offset: int = 0) -> Hopping:
    """Windows of ``size`` (ns), one after the other."""
    return Hopping(size, size, offset)


@dataclass(frozen=True)
class Sliding(WindowKind[Content]):
    """A window for each event time: (ts - size, ts]. Several sizes (ns) share their content."""

    size: int | tuple[int, ...]

    sizes: ClassVar[tuple[int, ...]] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", _sizes(self.size))
        object.__setattr__(self, "retention", max(self.sizes))

    def region(self, content: Content, times: list[int]) -> list[tuple[int, int]]:
        """Disjoint intervals [from, to) of times."""
        intervals: list[tuple[int, int]] = []
        for ts in times:
            if intervals and ts <= intervals[-1][1]:
                intervals[-1] = intervals[-1][0], ts + self.retention
            else:
                intervals.append((ts, ts + self.retention))
        return intervals

    def inside(self, content: Content, region: list[tuple[int, int]], upto: int) -> Iterator[WindowSpan]:
        for start, end in region:
            ts = content.first_after(start - 1)
            while ts is not None and ts < end and ts <= upto:
                yield from self._at(ts)
                ts = content.first_after(ts)

    def next(self, content: Content, after: int) -> list[WindowSpan]:
        ts = content.first_after(after)
        return [] if ts is None else list(self._at(ts))

    def _at(self, ts: int) -> Iterator[WindowSpan]:
        for size in self.sizes:
            yield WindowSpan(ts - size, ts, ts - size + 1, ts, (ts - size, ts))

    def droppable(self, content: Content, final: int) -> int:
        return content.after(final + 1 - self.retention)


@dataclass(frozen=True)
class Session(WindowKind[SessionContent]):
    """Runs of events, none more than ``gap`` (ns) after the one before; known by the time of their first event.

    A session ends ``gap`` after its last event: only then can no more events belong to it.
    """

    gap: int

    def __post_init__(self) -> None:
        _checked(gap=self.gap)
        object.__setattr__(self, "retention", self.gap)

    def content(self, monoids: Iterable[Monoid]) -> SessionContent:
        return SessionContent(monoids, self.gap)

    def region(self, content: SessionContent, times: list[int]) -> list[tuple[int, int]]:
        """Intervals [first, last] of times: each change, with the sessions it is part of or adjoins."""
        intervals: list[tuple[int, int]] = []
        for ts in times:
            first, last = ts, ts
            place = content.after(ts - self.gap - 1)
            if place < len(content) and content.orders[place][0] <= ts + self.gap:
                first = min(ts, content.first(content.orders[place][0]))
                last = max(ts, content.last(content.orders[content.after(ts + self.gap) - 1][0]))
            if intervals and first <= intervals[-1][1] + self.gap:  # they may become one session
                intervals[-1] = min(first, intervals[-1][0]), max(last, intervals[-1][1])
            else:
                intervals.append((first, last))
        return intervals

    def inside(self, content: SessionContent, region: list[tuple[int, int]], upto: int) -> Iterator[WindowSpan]:
        for low, high in region:
            first = content.first_after(low - 1)
            while first is not None and first <= high:
                last = content.last(first)
                if last + self.gap <= upto:
                    yield self._window(first, last)
                first = content.first_after(last)

    def next(self, content: SessionContent, after: int) -> list[WindowSpan]:
        ts = content.first_after(after - self.gap)
        return [] if ts is None else [self._window(content.first(ts), content.last(ts))]

    def _window(self, first: int, last: int) -> WindowSpan:
        return WindowSpan(first, last + self.gap, first, last, (first,))

    def droppable(self, content: SessionContent, final: int) -> int:
        ts = content.first_after(final - self.gap)
        return len(content) if ts is None else content.after(content.first(ts) - 1)

    def due(self, content: SessionContent) -> int:
        return content.last(content.starts[0]) + self.gap if content else END


@dataclass(frozen=True)
class Landmark(WindowKind[Content]):
    """All since a landmark: (landmark, end] for each multiple of ``every`` with an event since the previous multiple.

    The landmark is ``since``, or with ``period`` its last repetition since then. Durations in ns. Everything since the landmark
    is held until there is a new one.
    """

    since: int
    every: int
    period: int | None = None

    def __post_init__(self) -> None:
        _checked(every=self.every)
        if self.period is not None:
            _checked(period=self.period)
            if self.period % self.every:
                raise WindowError(f"period ({self.period}) must be a multiple of every ({self.every})")
        object.__setattr__(self, "retention", self.period or 0)

    def region(self, content: Content, times: list[int]) -> list[tuple[int, int]]:
        """Intervals (from, to] of times: from a change to the next landmark."""
        intervals: list[tuple[int, int]] = []
        for ts in times:
            until = END if self.period is None else self._landmark(ts) + self.period
            if ts > self.since and not (intervals and intervals[-1][1] == until):
                intervals.append((self._end(ts) - self.every, until))
        return intervals

    def inside(self, content: Content, region: list[tuple[int, int]], upto: int) -> Iterator[WindowSpan]:
        for after, until in region:
            windows = self.next(content, after)
            while windows and windows[0].end <= min(until, upto):
                yield from windows
                windows = self.next(content, windows[0].end)

    def next(self, content: Content, after: int) -> list[WindowSpan]:
        first = content.first_after(max(self.since, self._end(after + 1) - self.every))
        if first is None:
            return []
        start, end = self._landmark(first), self._end(first)
        return [WindowSpan(start, end, start + 1, end, (start, end))]

    def _end(self, ts: int) -> int:
        return end_at(ts, self.every, self.since)

    def _landmark(self, ts: int) -> int:
        if self.period is None:
            return self.since
        return (ts - self.since - 1) // self.period * self.period + self.since

    def droppable(self, content: Content, final: int) -> int:
        return content.after(max(self.since, self._landmark(final + 1)))

    def due(self, content: Content) -> int:
        if not content:
            return END
        oldest = content.orders[0][0]
        if oldest <= self.since:
            return oldest  # it is in no window
        return END if self.period is None else self._landmark(oldest) + self.period


@dataclass(frozen=True)
class Counted(WindowKind[Content]):
    """The last ``size`` events at every ``every``-th event: from the first of them to the last; fewer at the beginning.

    A window is known by its last event. With ``every`` above 1 a late event moves all that come after it.
    """

    size: int
    every: int = 1

    goes_by_rank: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _checked(size=self.size, every=self.every)

    def region(self, content: Content, times: list[int]) -> list[tuple[Order, Order | None]]:
        """Intervals of the total order (None: its end), so far that windows after them were not touched before, either."""
        reach = self.size + len(times) if self.every == 1 else len(content)
        intervals: list[tuple[Any, Any]] = []
        for ts in times:
            place = content.after(ts) + reach
            until = content.orders[place] if place < len(content) else None
            if intervals and (intervals[-1][1] is None or (ts,) <= intervals[-1][1]):
                intervals[-1] = intervals[-1][0], until
            else:
                intervals.append(((ts,), until))
        return intervals

    def inside(self, content: Content, region: list[tuple[Order, Order | None]], upto: int) -> Iterator[WindowSpan]:
        for low, high in region:
            place = bisect_left(content.orders, low)
            stop = len(content) if high is None else bisect_left(content.orders, high)
            for number in range(self._next(content, place), stop, self.every):
                if content.orders[number][0] <= upto:
                    yield self._window(content, number)

    def next(self, content: Content, after: int) -> list[WindowSpan]:
        numbers = range(self._next(content, content.after(after)), len(content), self.every)
        end = content.orders[numbers[0]][0] if numbers else MAX_TS
        return [self._window(content, number) for number in numbers if content.orders[number][0] == end]

    def _next(self, content: Content, place: int) -> int:
        """The number of the first entry from ``place`` on that ends a window."""
        return place + -(content.dropped + place + 1) % self.every

    def _window(self, content: Content, number: int) -> WindowSpan:
        first, last = content.orders[max(0, number - self.size + 1)], content.orders[number]
        return WindowSpan(first[0], last[0], first, last, last)

    def droppable(self, content: Content, final: int) -> int:
        return max(0, content.after(final) - self.size + 1)

    def due(self, content: Content) -> int:
        return content.orders[self.size - 1][0] if len(content) >= self.size else END


def following(kind: WindowKind[Held], content: Held, after: int, upto: int) -> Iterator[list[WindowSpan]]:
    """The windows that end after ``after`` and not after ``upto``: all windows with the same end at a time."""
    windows = kind.next(content, after)
    while windows and windows[0].end <= upto:
        yield windows
        windows = kind.next(content, windows[0].end)
