"""Kinds of windows: which windows there are, given the events so far. Pure; content is (start, end] throughout.

A late event must revise exactly the results it touches. So each kind says at which ends a change may touch windows, and which
windows there are at an end, before and after the change. Time passes by stepping from one end to the ``next``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from detectors.window.aggregation.monoid import Monoid
from detectors.window.content import Content, SortedPlaces
from middleware.model.errors import QuantityError, WindowError
from middleware.model.event import END, NEVER, Order, Value
from middleware.model.quantities import Duration, duration_of


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


Held = TypeVar("Held", bound=SortedPlaces)


class WindowEnds(ABC, Generic[Held]):
    """Where windows end, over the content of each key.

    ``retention``
        an entry this far (ns) behind the final time is droppable, unless entries that it belongs with are not; 0: see ``due``.
    """

    retention = 0

    def touched(self, content: Held, times: list[int], upto: int) -> set[int]:
        """The ends up to ``upto`` at which changes at these times may make, alter or remove windows. Times are sorted.

        The ends for content before the changes serve for content after them as well, and the other way round.
        """
        touched: set[int] = set()
        done = NEVER
        for ts in times:
            end, until = self.end(content, ts), min(self.until(ts), upto)
            if end <= until:
                touched.update((end,), self.ends(content, max(done, end - 1), until))
                done = max(done, until)
        return touched

    def end(self, content: Held, ts: int) -> int:
        """The first end of a window that an event at ``ts`` may be in."""
        return ts

    def until(self, ts: int) -> int:
        """The last such end; by default there is none."""
        return END

    def ends(self, content: Held, after: int, upto: int) -> Iterator[int]:
        """The ends after ``after`` and not after ``upto``."""
        end = self.next(content, after)
        while end is not None and end <= upto:
            yield end
            end = self.next(content, end)

    @abstractmethod
    def next(self, content: Held, after: int) -> int | None:
        """The earliest end after ``after`` at which there may be windows."""

    @abstractmethod
    def droppable(self, content: Held, final: int) -> int:
        """How many of the oldest entries are not needed by any window that ends after ``final``."""


class WindowKind(WindowEnds[Held]):
    """A kind of windows: which there are at an end, too.

    ``goes_by_rank``
        whether windows depend on how many entries there ever were; then even an empty key is not forgotten.
    """

    goes_by_rank: ClassVar[bool] = False

    def content(self, monoids: Iterable[Monoid]) -> Content:
        """New, empty content for the windows of one key."""
        return Content(monoids)

    @abstractmethod
    def at(self, content: Held, end: int) -> Iterator[WindowSpan]:
        """The windows that end at ``end``, if any do."""

    def due(self, content: Held) -> int:
        """The final time at which some entry may become droppable; END if none will."""
        return content.orders[0][0] + self.retention if content else END


def _length(name: str, given: Duration) -> int:
    """The nanoseconds of a duration above 0; raises WindowError."""
    length = _nanoseconds(name, given)
    if length <= 0:
        raise WindowError(f"{name} must be a duration above 0, not {given!r}")
    return length


def _nanoseconds(name: str, given: Duration) -> int:
    try:
        return duration_of(given, name)
    except QuantityError as error:
        raise WindowError(str(error)) from None


def _sizes(size: Duration | tuple[Duration, ...]) -> tuple[int, ...]:
    sizes = tuple(_length("size", each) for each in (size if isinstance(size, tuple) else (size,)))
    if not sizes or len(set(sizes)) < len(sizes):
        raise WindowError(f"sizes must be different, and one at least: {size}")
    return sizes


def _count(name: str, given: int) -> int:
    if not isinstance(given, int) or given <= 0:
        raise WindowError(f"{name} must be a whole number of events above 0, not {given!r}")
    return given


def _set(kind: WindowKind[Any], **values: object) -> None:
    """Set attributes of a kind of windows in its constructor; they do not change later."""
    for name, value in values.items():
        object.__setattr__(kind, name, value)


def end_at(ts: int, every: int, offset: int) -> int:
    """The first of the times ``offset`` + k * ``every`` that is not before ``ts``: where windows end."""
    return offset - (offset - ts) // every * every


class HoppingEnds(WindowEnds[Held]):
    """The ends of windows every ``every``, none of them longer than ``retention``."""

    every: int
    offset: int

    def end(self, content: Held, ts: int) -> int:
        return end_at(ts, self.every, self.offset)

    def touched(self, content: Held, times: list[int], upto: int) -> set[int]:
        touched: set[int] = set()
        for ts in times:
            touched.update(range(self.end(content, ts), min(ts + self.retention, upto + 1), self.every))
        return touched

    def next(self, content: Held, after: int) -> int | None:
        end = self.end(content, after + 1)
        first = content.first_after(end - self.retention)
        return None if first is None else max(end, self.end(content, first))

    def droppable(self, content: Held, final: int) -> int:
        return content.after(min(final, self.end(content, final + 1) - self.retention))


@dataclass(frozen=True, init=False)
class Hopping(HoppingEnds[Content], WindowKind[Content]):
    """Windows of ``size`` that end every ``every``: (end - size, end], end - ``offset`` a multiple of ``every``.

    Several sizes share their content: ``Hopping(("10s", "1 min"), every="1s")``. Durations are texts, timedeltas, or ns.
    """

    size: int | tuple[int, ...]
    every: int
    offset: int

    sizes: ClassVar[tuple[int, ...]] = ()

    def __init__(self, size: Duration | tuple[Duration, ...], every: Duration, offset: Duration = 0) -> None:
        sizes = _sizes(size)
        _set(self, size=sizes if isinstance(size, tuple) else sizes[0], every=_length("every", every))
        _set(self, offset=_nanoseconds("offset", offset), sizes=sizes, retention=max(sizes))

    def at(self, content: Content, end: int) -> Iterator[WindowSpan]:
        for size in self.sizes:
            first = content.first_after(end - size)
            if first is not None and first <= end:
                yield WindowSpan(end - size, end, end - size + 1, end, (end - size, end))


def Tumbling(size: Duration, offset: Duration = 0) -> Hopping:
    """Windows of ``size``, such as ``"10s"``, a timedelta, or ns, one after the other."""
    return Hopping(size, size, offset)


@dataclass(frozen=True, init=False)
class Sliding(WindowKind[Content]):
    """A window for each event time: (ts - size, ts]. Several sizes share their content; see ``Hopping``."""

    size: int | tuple[int, ...]

    sizes: ClassVar[tuple[int, ...]] = ()

    def __init__(self, size: Duration | tuple[Duration, ...]) -> None:
        sizes = _sizes(size)
        _set(self, size=sizes if isinstance(size, tuple) else sizes[0], sizes=sizes, retention=max(sizes))

    def until(self, ts: int) -> int:
        return ts + self.retention - 1

    def next(self, content: Content, after: int) -> int | None:
        return content.first_after(after)

    def at(self, content: Content, end: int) -> Iterator[WindowSpan]:
        if content.first_after(end - 1) == end:
            for size in self.sizes:
                yield WindowSpan(end - size, end, end - size + 1, end, (end - size, end))

    def droppable(self, content: Content, final: int) -> int:
        return content.after(final + 1 - self.retention)


@dataclass(frozen=True, init=False)
class Session(WindowKind[SortedPlaces]):
    """Runs of events, none more than ``gap`` after the one before; known by the time of their first event.

    A session ends ``gap`` after its last event: only then can no more events belong to it.
    """

    gap: int

    def __init__(self, gap: Duration) -> None:
        length = _length("gap", gap)
        _set(self, gap=length, retention=length)

    def content(self, monoids: Iterable[Monoid]) -> Content:
        return Content(monoids, self.gap)

    def touched(self, content: SortedPlaces, times: list[int], upto: int) -> set[int]:
        """A change at a time, and the events next to it, belong to all sessions that it touches, before it and after it."""
        touched = {ts for ts in times if ts + self.gap <= upto}
        for ts in times:
            if ts > upto:
                break
            before, after = content.before(ts), content.after(ts)
            if before:
                touched.add(content.orders[before - 1][0])
            if after < len(content):
                touched.add(self._last(content, after))
        return {last + self.gap for last in touched if last + self.gap <= upto}

    @staticmethod
    def _last(content: SortedPlaces, place: int) -> int:
        """The time of the last event of the session that this one is in."""
        return content.orders[content.run(content.orders[place][0])[1] - 1][0]

    def next(self, content: SortedPlaces, after: int) -> int | None:
        place = content.after(after - self.gap)
        return self._last(content, place) + self.gap if place < len(content) else None

    def at(self, content: SortedPlaces, end: int) -> Iterator[WindowSpan]:
        low, high = self.places(content, end)
        if low < high:
            first = content.orders[low][0]
            yield WindowSpan(first, end, first, end - self.gap, (first,))

    def places(self, content: SortedPlaces, end: int) -> tuple[int, int]:
        """The places [low, high) of the session that ends there; nowhere if none does."""
        low, high = content.run(end - self.gap)
        return (low, high) if low < high and content.orders[high - 1][0] == end - self.gap else (0, 0)

    def droppable(self, content: SortedPlaces, final: int) -> int:
        ts = content.first_after(final - self.gap)
        return len(content) if ts is None else content.run(ts)[0]

    def due(self, content: SortedPlaces) -> int:
        return self._last(content, 0) + self.gap if content else END


@dataclass(frozen=True, init=False)
class Landmark(WindowKind[Content]):
    """All since a landmark: (landmark, end] for each multiple of ``every`` with an event since the previous multiple.

    The landmark is ``since`` (a time, ns), or with ``period`` its last repetition since then. Everything since the landmark is
    held until there is a new one.
    """

    since: int
    every: int
    period: int | None

    def __init__(self, since: int, every: Duration, period: Duration | None = None) -> None:
        step, repeats = _length("every", every), None if period is None else _length("period", period)
        if repeats is not None and repeats % step:
            raise WindowError(f"period ({period}) must be a multiple of every ({every})")
        _set(self, since=since, every=step, period=repeats, retention=repeats or 0)

    def end(self, content: Content, ts: int) -> int:
        return end_at(ts, self.every, self.since)

    def until(self, ts: int) -> int:
        if ts <= self.since:
            return self.since
        return END if self.period is None else self._landmark(ts) + self.period

    def next(self, content: Content, after: int) -> int | None:
        first = content.first_after(max(self.since, self.end(content, after + 1) - self.every))
        return None if first is None else self.end(content, first)

    def at(self, content: Content, end: int) -> Iterator[WindowSpan]:
        if self.next(content, end - 1) == end:
            start = self._landmark(end)
            yield WindowSpan(start, end, start + 1, end, (start, end))

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
        _count("size", self.size)
        _count("every", self.every)

    def touched(self, content: Content, times: list[int], upto: int) -> set[int]:
        reach = self.size + len(times) if self.every == 1 else len(content)
        touched, done = set(times), 0
        for ts in times:
            start, done = max(done, content.before(ts)), max(done, content.after(ts) + reach)
            touched.update([order[0] for order in content.orders[start:done]])
        return {ts for ts in touched if ts <= upto}

    def next(self, content: Content, after: int) -> int | None:
        number = self._next(content, content.after(after))
        return content.orders[number][0] if number < len(content) else None

    def at(self, content: Content, end: int) -> Iterator[WindowSpan]:
        for number in range(self._next(content, content.before(end)), content.after(end), self.every):
            first, last = content.orders[max(0, number - self.size + 1)], content.orders[number]
            yield WindowSpan(first[0], end, first, last, last)

    def _next(self, content: Content, place: int) -> int:
        """The number of the first entry from ``place`` on that ends a window."""
        return place + -(content.dropped + place + 1) % self.every

    def droppable(self, content: Content, final: int) -> int:
        return max(0, content.after(final) - self.size + 1)

    def due(self, content: Content) -> int:
        return content.orders[self.size - 1][0] if len(content) >= self.size else END
