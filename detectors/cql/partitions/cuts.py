"""Finds where windows end and which of them a change touches, looking at no more of a partition than necessary.

``TimedCuts`` and ``SessionCuts`` are due when time passes their end; ``window.kinds`` says which ends a change touches. Other
cuts are made by tuples: by their number (``TupleCuts``), by an application time of their own (``ClockCuts``), or by their
distance from the first of their window (``DeltaCuts``).
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from detectors.cql.grammar import statements as s
from detectors.cql.partitions.tuple_timeline import TupleTimeline, WindowKey
from detectors.cql.planning.window_plans import Measure, Point, Shape, WindowExtent, WindowPlan
from detectors.window.kinds import HoppingEnds, Session, WindowEnds, end_at
from middleware.model.event import MAX_TS, NEVER, Event, Order, Value


class Cut(NamedTuple):
    """A window: its key, the time of its results, the tuples [low, high) that it holds, its bounds and its identity.

    ``last``: the tuple that its result is about, for OVER.
    """

    key: WindowKey
    ts: int
    low: int
    high: int
    bounds: tuple[int | None, int]
    identity: tuple[Value, ...]
    last: Event | None = None


class _Cuts:
    """The base of windows that end at a boundary or with a tuple: finds their content."""

    def __init__(self, plan: WindowPlan) -> None:
        self.plan = plan
        self.every = plan.slide.amount
        self._size = plan.size
        self.offset = plan.phase
        self._least = plan.start  # the first boundary, if there is one
        if plan.shape is Shape.LANDMARK and plan.lower is not None:
            self._least = plan.lower + self.every

    def boundary(self, time: int, least: int | None) -> int:
        """The first boundary at or after a time; ``least``, if given, is the first of all."""
        if least is None:
            return end_at(time, self.every, self.offset)
        return max(least, end_at(time, self.every, least))

    def low(self, timeline: TupleTimeline, count: int, ts: int, clock: int | None) -> tuple[int, int | None]:
        """The first tuple of a window that ends with the first ``count``, and its lower bound.

        ``ts``, ``clock``: its end, for windows whose size is measured in event time or by that clock.
        """
        size = self._size
        if size is None:
            return self.landmark(timeline, count), self.plan.lower
        if size.measure is Measure.COUNT:
            low = max(0, count - size.amount)
            return low, timeline.events[low].ts
        if size.measure is Measure.TS:
            return timeline.after(ts - size.amount), ts - size.amount
        assert clock is not None
        return timeline.clock_after(clock - size.amount, count), clock - size.amount

    def landmark(self, timeline: TupleTimeline, count: int) -> int:
        """How many of the first ``count`` tuples lie before the lower bound of a landmark window."""
        lower = self.plan.lower
        if lower is None:
            return 0
        if self.plan.slide.measure is Measure.CLOCK:
            return timeline.clock_after(lower, count)
        return min(count, timeline.after(lower))

    def kept(self, timeline: TupleTimeline, settled: int, ts: int) -> int:
        """How many of the first ``settled`` tuples are not in any window that ends after these tuples, at ``ts`` or later."""
        if self._size is None or not settled:
            return 0
        return self.low(timeline, settled, ts, timeline.clock_before(settled))[0]


class TimedCuts(_Cuts, WindowEnds[TupleTimeline]):
    """Windows that end at boundaries ``phase`` + k * slide in event time."""

    def __init__(self, plan: WindowPlan) -> None:
        super().__init__(plan)
        self._is_anchored = plan.is_anchored

    def end(self, timeline: TupleTimeline, ts: int) -> int:
        return self.boundary(ts, self._first(timeline))

    def _first(self, timeline: TupleTimeline) -> int | None:
        """The first boundary of all, if there is one. The first of anchored windows starts with the first tuple."""
        first = timeline.first if self._is_anchored else None
        return self._least if first is None else first + self.every - max(self.plan.slide.tick, 1)

    def cut(self, timeline: TupleTimeline, boundary: int) -> Cut | None:
        """The window that ends at a boundary, or None if there is nothing to report."""
        high = timeline.after(boundary)
        if not self._is_news(timeline, boundary, high):
            return None
        low, lower = self.low(timeline, high, boundary, timeline.clock_before(high))
        bounds = lower, boundary
        return Cut(boundary, boundary, low, high, bounds, bounds) if high > low else None

    @abstractmethod
    def _is_news(self, timeline: TupleTimeline, boundary: int, high: int) -> bool:
        """Whether to report the window that ends there with the first ``high`` tuples."""


class BoundaryCuts(TimedCuts):
    """Windows that have no length in time: there is one at each boundary before which tuples have come since the last."""

    def next(self, timeline: TupleTimeline, after: int) -> int | None:
        least = self._first(timeline)
        end = self.boundary(after + 1, least)
        first = timeline.first_after(NEVER if end == least else end - self.every)
        return None if first is None else self.boundary(first, least)

    def _is_news(self, timeline: TupleTimeline, boundary: int, high: int) -> bool:
        return self.next(timeline, boundary - 1) == boundary

    def droppable(self, timeline: TupleTimeline, final: int) -> int:
        return self.kept(timeline, timeline.after(final - self.every), final)


class HoppingCuts(TimedCuts, HoppingEnds[TupleTimeline]):
    """Windows of a length of time: at each boundary, or where they change; or the one of a FIXED clause."""

    def __init__(self, plan: WindowPlan) -> None:
        super().__init__(plan)
        if plan.upper is not None and plan.lower is not None:
            self._least, self.every, self._size = plan.upper, 2 * MAX_TS, WindowExtent(Measure.TS, plan.upper - plan.lower)
        assert self._size is not None
        self._length = self._size.amount
        self._is_compared = plan.on_change and plan.upper is None
        self.retention = self._length + (self.every if self._is_compared else 0)  # the next window differs from one of its own

    def _is_news(self, timeline: TupleTimeline, boundary: int, high: int) -> bool:
        if not self._is_compared:
            return True
        if self.end(timeline, boundary) != boundary:
            return False  # the anchor has moved since it was one
        before, first = boundary - self.every, timeline.first
        if first is not None and before < self.end(timeline, first):
            return True  # there was no window before
        low, low_before = timeline.after(boundary - self._length), timeline.after(before - self._length)
        return low != low_before or high != timeline.after(before)


class SessionCuts(Session):
    """Sessions of tuples."""

    def cut(self, timeline: TupleTimeline, boundary: int) -> Cut | None:
        """The session that ends at a time, or None if none does."""
        low, high = self.places(timeline, boundary)
        if low == high:
            return None
        bounds = timeline.events[low].ts, boundary
        return Cut(boundary, boundary, low, high, bounds, bounds)


class TupleCuts(_Cuts):
    """Windows that end with a tuple: every so many tuples, or with the moment or batch that reaches that number."""

    def __init__(self, plan: WindowPlan, batch_of: Callable[[Event], object] | None) -> None:
        super().__init__(plan)
        self._batch_of = batch_of
        self._is_joint = (
            plan.model is s.ExecutionModel.TIME or batch_of is not None
        )  # one window for all tuples of a moment or batch
        self._is_grouped = self._is_joint or plan.has_peers

    def touched(self, timeline: TupleTimeline, places: list[Order]) -> list[tuple[int, int]]:
        """Ranges [start, end) of the tuples whose windows may have changed, in order."""
        ranges: list[list[int]] = []
        for order in sorted(places):
            start = self._group_edge(timeline, timeline.before(order[0]) if self._is_grouped else timeline.place(order), -1)
            end = self._reach(timeline, order)
            if ranges and start <= ranges[-1][1]:
                ranges[-1][1] = max(end, ranges[-1][1])
            else:
                ranges.append([start, end])
        return [(start, end) for start, end in ranges]

    def _reach(self, timeline: TupleTimeline, order: Order) -> int:
        size = self._size
        if self.every > 1 or size is None or size.measure is Measure.CLOCK:
            return len(timeline)
        if size.measure is Measure.COUNT:
            end = min(len(timeline), timeline.place(order) + size.amount + 1)
        else:
            end = timeline.before(order[0] + size.amount)
        return self._group_edge(timeline, end, 1)

    def _group_edge(self, timeline: TupleTimeline, at: int, step: int) -> int:
        """The first place from ``at`` forward (``step`` 1) or backward (-1) where another moment or batch begins."""
        if self._is_grouped:
            while 0 < at < len(timeline) and self._same(timeline, at - 1, at):
                at += step
        return at

    def _same(self, timeline: TupleTimeline, one: int, other: int) -> bool:
        """Whether two neighbours belong to the same moment or batch."""
        a, b = timeline.events[one], timeline.events[other]
        return a.ts == b.ts and (self._batch_of is None or self._batch_of(a) == self._batch_of(b))

    def cuts(self, timeline: TupleTimeline, start: int, end: int) -> Iterator[Cut]:
        """The windows that end with one of the tuples [start, end)."""
        passed = timeline.dropped + start
        for at in range(start, end):
            if self._is_joint and at + 1 < len(timeline) and self._same(timeline, at, at + 1):
                continue
            before, passed = passed, timeline.dropped + at + 1
            if passed // self.every > before // self.every:
                yield self._cut(timeline, at)

    def _cut(self, timeline: TupleTimeline, at: int) -> Cut:
        event = timeline.events[at]
        low, lower = self.low(timeline, at + 1, event.ts, timeline.clock_before(at + 1))
        high = timeline.after(event.ts) if self.plan.has_peers else at + 1
        last = event if self.plan.is_over else None
        return Cut(timeline.orders[at], event.ts, low, high, (lower, event.ts), (event.source, event.id), last)

    def droppable(self, timeline: TupleTimeline, final: int) -> int:
        """How many of the first tuples only final windows need."""
        return self.kept(timeline, timeline.after(final), final)


class ClockCuts(_Cuts):
    """Boundaries on a separate application time: a tuple beyond a boundary shows that it has passed (Vu 2015, Algorithm 2)."""

    def touched(self, timeline: TupleTimeline, places: list[Order]) -> list[tuple[int, int]]:
        """One range, to the end: a tuple may move the clock for all tuples that follow."""
        return [(timeline.place(min(places)), len(timeline))]

    def cuts(self, timeline: TupleTimeline, start: int, end: int) -> Iterator[Cut]:
        """The windows that one of the tuples [start, end) closes."""
        for at in range(start, end):
            shown = timeline.clock_before(at)
            if shown is not None and timeline.clocks[at] > shown:
                for boundary in self._passed(shown, timeline.clocks[at]):
                    cut = self._cut(timeline, at, boundary)
                    if cut is not None:
                        yield cut

    def _passed(self, shown: int, now: int) -> Iterable[int]:
        """The boundaries in [shown, now) at which there is something to report."""
        upper, size = self.plan.upper, self._size
        if upper is not None:
            return [upper] if shown <= upper < now else []
        first = self.boundary(shown, self._least)
        if size is not None and size.measure is Measure.CLOCK:
            return range(first, min(now, shown + size.amount), self.every)  # later ones are empty
        return [first] if first < now else []  # later ones are the same

    def _cut(self, timeline: TupleTimeline, at: int, boundary: int) -> Cut | None:
        if not at:
            return None
        closing, size = timeline.events[at], self._size
        low, lower = self.low(timeline, at, timeline.events[at - 1].ts, boundary)
        if size is not None and size.measure is Measure.COUNT:
            lower = None  # it is not a time of that clock
        return Cut((timeline.orders[at], boundary), closing.ts, low, at, (lower, boundary), (boundary,)) if at > low else None

    def droppable(self, timeline: TupleTimeline, final: int) -> int:
        """How many of the first tuples only final windows need."""
        settled = timeline.after(final)
        if not settled:
            return 0
        if self.plan.shape is Shape.FIXED:
            assert self.plan.upper is not None
            clock = timeline.clock_before(settled)
            is_over = clock is not None and clock > self.plan.upper
            return settled if is_over else self.landmark(timeline, settled)
        return self.kept(timeline, settled, timeline.events[settled - 1].ts)


class DeltaCuts:
    """Windows that end before the tuple that is farther than a threshold from their first (Vu 2015, 2.2.2)."""

    def __init__(self, plan: WindowPlan, measure: Callable[[Event], Point | None]) -> None:
        self.plan = plan
        self.measure = measure

    def touched(self, timeline: TupleTimeline, places: list[Order]) -> list[tuple[int, int]]:
        """From the disturbed window to where windows again begin as before: each begins where the last one ended.

        Of the changes after the first tuple of the open window, only those that end it count. O(log n) each.
        """
        opened = timeline.opened
        inside = [order for order in places if opened is not None and order > opened]
        before = places if not inside else [order for order in places if opened is not None and order <= opened]
        ranges = []
        if before:
            start = self._disturbed(timeline, min(before))
            end = self._undisturbed(timeline, start, max(before))
            ranges.append((start, end))
            if end == len(timeline):
                return ranges
        if opened is not None and inside:
            low = timeline.place(opened)
            if self._is_ended(timeline, low, inside):
                ranges.append((low, len(timeline)))
        return ranges

    def _disturbed(self, timeline: TupleTimeline, first: Order) -> int:
        """The start of the window that a change at ``first`` may be in, or may end."""
        at = bisect_left(timeline.keys, first)
        return timeline.place(timeline.keys[at - 1]) if at else 0

    def _undisturbed(self, timeline: TupleTimeline, start: int, last: Order) -> int:
        """The first place after all changes where a window begins that began there before; else the end."""
        for at in self._starts(timeline, start, len(timeline)):
            order = timeline.orders[at]
            if order > last and (order in timeline.published or order == timeline.opened):
                return at
        return len(timeline)

    def _is_ended(self, timeline: TupleTimeline, low: int, places: list[Order]) -> bool:
        """Whether one of these tuples ends the window that begins at ``low``."""
        origin = self.measure(timeline.events[low])
        for order in places:
            at = timeline.place(order)
            is_there = at < len(timeline) and timeline.orders[at] == order
            if is_there and not self._is_near(origin, self.measure(timeline.events[at])):
                return True
        return False

    def _starts(self, timeline: TupleTimeline, start: int, end: int) -> Iterator[int]:
        """Where windows begin among the tuples [start, end), the first of them at ``start``."""
        origin: Point | None = None
        for at in range(start, end):
            value = self.measure(timeline.events[at])
            if at == start or not self._is_near(origin, value):
                origin = value
                yield at

    def cuts(self, timeline: TupleTimeline, start: int, end: int) -> Iterator[Cut]:
        """The closed windows that begin with one of the tuples [start, end); windows begin at both bounds."""
        starts = list(self._starts(timeline, start, end))
        if end < len(timeline):
            starts.append(end)
        else:
            timeline.opened = timeline.orders[starts[-1]] if starts else None
        for low, high in pairwise(starts):
            yield self._cut(timeline, low, high)

    def _is_near(self, origin: Point | None, value: Point | None) -> bool:
        if origin is None or value is None:
            return origin is value
        try:
            return self.plan.distance(origin, value) <= self.plan.threshold
        except (ArithmeticError, ValueError, TypeError):  # where a distance is not defined, it is far
            return False

    @staticmethod
    def _cut(timeline: TupleTimeline, low: int, high: int) -> Cut:
        first, closing = timeline.events[low], timeline.events[high]
        bounds = (first.ts, timeline.events[high - 1].ts)
        return Cut(timeline.orders[low], closing.ts, low, high, bounds, (first.source, first.id))

    def droppable(self, timeline: TupleTimeline, final: int) -> int:
        """How many of the first tuples only final windows need: those in all windows closed by a final tuple."""
        return max(self._starts(timeline, 0, timeline.after(final)), default=0)
