"""Where windows end, and which of them a change touches. Nothing here looks at more of a partition than it must.

``TimedCuts`` are due when time passes a boundary; ``TupleCuts`` are made by tuples: by their number, by an application time of
their own, or by how far they are from the first of their window.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from detectors.cql import statements as s
from detectors.cql.timeline import Timeline, WindowKey
from detectors.cql.windows import Measure, Shape, WindowPlan
from middleware.model.event import Event, Order


class Cut(NamedTuple):
    """A window: its key, the time of its results, the tuples [low, high) that it holds, its bounds, what identifies it."""

    key: WindowKey
    ts: int
    low: int
    high: int
    bounds: tuple[int | None, int]
    identity: tuple[Any, ...]


class _Cuts:
    """What all kinds share."""

    plan: WindowPlan

    def landmark(self, timeline: Timeline, count: int) -> int:
        """How many of the first ``count`` tuples lie before the lower bound of a landmark window."""
        lower = self.plan.lower
        if lower is None:
            return 0
        if self.plan.slide.measure is Measure.CLOCK:
            return _first_after(timeline.clocks, lower, count)
        return min(count, timeline.until(lower))


class TimedCuts(_Cuts):
    """Boundaries ``phase`` + k * slide on the time of the events."""

    def __init__(self, plan: WindowPlan) -> None:
        self.plan = plan
        self.slide = plan.slide.amount
        self._size = plan.size.amount if plan.size is not None and plan.size.measure is Measure.TS else None
        self._count = plan.size.amount if plan.size is not None and plan.size.measure is Measure.COUNT else None
        self._units = plan.size.amount if plan.size is not None and plan.size.measure is Measure.CLOCK else None
        self._least = plan.start  # the first boundary, if there is one
        if plan.shape is Shape.LANDMARK and plan.lower is not None:
            self._least = plan.lower + self.slide

    def after(self, ts: int, timeline: Timeline) -> int:
        """The first boundary at or after a time."""
        plan = self.plan
        if plan.upper is not None:
            return plan.upper
        phase, least = plan.phase, self._least
        if least is not None:
            phase = least
        elif plan.is_anchored and timeline.first is not None:
            least = phase = self._anchored(timeline.first)
        boundary = phase - (phase - ts) // self.slide * self.slide
        return boundary if least is None or boundary > least else least

    def _anchored(self, first: int) -> int:
        """The upper bound of the first window, which starts with the first tuple: it is in it, so lower is just before it."""
        return first + self.slide - max(self.plan.slide.tick, 1)

    def touched(self, timeline: Timeline, places: list[Order], emitted: int) -> set[int]:
        """The boundaries to look at, now that tuples at these places came or went.

        Those up to ``emitted`` whose windows may be others, and the first after it: others follow (``following``).
        """
        plan = self.plan
        if plan.shape is Shape.FIXED:
            assert plan.upper is not None
            lower = plan.lower or 0
            return {plan.upper} if any(lower < order[0] <= plan.upper for order in places) else set()
        touched: set[int] = set()
        if self._size is None:
            low = min(places)[0]
            start = timeline.before(low)
            times = {event.ts for event in timeline.events[start:]} | {order[0] for order in places}
            return {self.after(ts, timeline) for ts in times}
        more = self.slide if plan.on_change else 0
        for ts in {order[0] for order in places}:
            first, end = self.after(ts, timeline), ts + self._size + more
            touched.update(range(first, min(end, emitted + 1), self.slide))
            coming = first + max(0, -((first - emitted - 1) // self.slide)) * self.slide
            if coming < end:
                touched.add(coming)
        return touched

    def following(self, timeline: Timeline, boundary: int) -> int | None:
        """The boundary after one at which there is a tuple in the window, if windows are measured in time."""
        if self._size is None or self.plan.shape is Shape.FIXED:
            return None
        coming = self.after(boundary + 1, timeline)
        place = timeline.until(coming - self._size)
        return max(coming, self.after(timeline.events[place].ts, timeline)) if place < len(timeline) else None

    def cut(self, timeline: Timeline, boundary: int) -> Cut | None:
        """The window that ends at a boundary, or None if there is nothing to report."""
        plan = self.plan
        high = timeline.until(boundary)
        if plan.shape is Shape.FIXED:
            assert plan.lower is not None
            low = timeline.until(plan.lower)
            bounds: tuple[int | None, int] = plan.lower, boundary
        elif self._size is not None:
            low = timeline.until(boundary - self._size)
            bounds = boundary - self._size, boundary
            if plan.on_change and self._is_as_before(timeline, boundary, low, high):
                return None
        else:
            if high <= timeline.until(boundary - self.slide) and not self._is_first(timeline, boundary, high):
                return None
            low, lower = self._low(timeline, high)
            bounds = lower, boundary
        return Cut(boundary, boundary, low, high, bounds, bounds) if high > low else None

    def _is_first(self, timeline: Timeline, boundary: int, high: int) -> bool:
        """Whether this is the first boundary there is: all that came before it is new to it."""
        first = timeline.first
        if high == 0 or timeline.gone or first is None:
            return False
        return boundary == (self._anchored(first) if self.plan.is_anchored else self._least)

    def _is_as_before(self, timeline: Timeline, boundary: int, low: int, high: int) -> bool:
        before = boundary - self.slide
        first = timeline.first
        if first is not None and before < self.after(first, timeline):
            return False  # there was no window before
        assert self._size is not None
        return low == timeline.until(before - self._size) and high == timeline.until(before)

    def _low(self, timeline: Timeline, high: int) -> tuple[int, int | None]:
        """The first tuple of a window that ends before ``high`` and is not measured in the time of the events."""
        if self._count is not None:
            low = max(0, high - self._count)
            return low, timeline.events[low].ts if high else None
        if self._units is not None:
            shown = timeline.clock_before(high) if high else None
            if shown is None:
                return high, None
            return _first_after(timeline.clocks, shown - self._units, high), shown - self._units
        lower = self.plan.lower
        return (0 if lower is None else timeline.until(lower)), lower

    def needed(self, timeline: Timeline, final: int) -> int:
        """How many of the first tuples no window will need that is not final."""
        if self.plan.shape is Shape.FIXED:
            assert self.plan.upper is not None
            return len(timeline) if self.plan.upper <= final else timeline.until(self.plan.lower or 0)
        if self._size is not None:
            return timeline.until(final - self._size - (self.slide if self.plan.on_change else 0))
        settled = timeline.until(final - self.slide)
        if self._count is not None:
            return max(0, settled - self._count)
        if self._units is not None:
            return _first_after(timeline.clocks, timeline.clocks[settled - 1] - self._units, settled) if settled else 0
        return 0


def _first_after(clocks: list[int], time: int, high: int) -> int:
    """The first place before ``high`` where the clock shows more than ``time``."""
    return bisect_right(clocks, time, 0, high)


class TupleCuts(_Cuts):
    """Windows that end with a tuple: every so many tuples, and for each moment or batch if the model reacts to those."""

    def __init__(self, plan: WindowPlan, batch_of: Callable[[Event], Any] | None) -> None:
        self.plan = plan
        self.every = plan.slide.amount
        self._batch_of = batch_of
        self._is_grouped = plan.model is s.Model.TIME or batch_of is not None

    def touched(self, timeline: Timeline, places: list[Order]) -> list[tuple[int, int]]:
        """Ranges [start, end) of the tuples whose windows may be others now, in order."""
        ranges: list[list[int]] = []
        for order in sorted(places):
            start = self._group_start(timeline, timeline.before(order[0]) if self._is_grouped else timeline.place(order))
            end = self._reach(timeline, order)
            if ranges and start <= ranges[-1][1]:
                ranges[-1][1] = max(end, ranges[-1][1])
            else:
                ranges.append([start, end])
        return [(start, end) for start, end in ranges]

    def _reach(self, timeline: Timeline, order: Order) -> int:
        size = self.plan.size
        if self.every > 1 or size is None or size.measure is Measure.CLOCK:
            return len(timeline)
        if size.measure is Measure.COUNT:
            end = min(len(timeline), timeline.place(order) + size.amount + 1)
        else:
            end = timeline.before(order[0] + size.amount)
        return self._group_end(timeline, end)

    def _group_start(self, timeline: Timeline, at: int) -> int:
        if self._is_grouped:
            while 0 < at < len(timeline) and self._same(timeline, at - 1, at):
                at -= 1
        return at

    def _group_end(self, timeline: Timeline, at: int) -> int:
        if self._is_grouped:
            while 0 < at < len(timeline) and self._same(timeline, at - 1, at):
                at += 1
        return at

    def _same(self, timeline: Timeline, one: int, other: int) -> bool:
        """Whether two neighbours are of one moment, or of one batch."""
        a, b = timeline.events[one], timeline.events[other]
        return a.ts == b.ts and (self._batch_of is None or self._batch_of(a) == self._batch_of(b))

    def cuts(self, timeline: Timeline, start: int, end: int) -> Iterator[Cut]:
        """The windows that end with one of the tuples [start, end)."""
        passed = timeline.gone + start
        for at in range(start, end):
            if self._is_grouped and at + 1 < len(timeline) and self._same(timeline, at, at + 1):
                continue
            before, passed = passed, timeline.gone + at + 1
            if passed // self.every > before // self.every:
                yield self._cut(timeline, at)

    def _cut(self, timeline: Timeline, at: int) -> Cut:
        event = timeline.events[at]
        size, high = self.plan.size, at + 1
        low = 0
        lower: int | None = self.plan.lower
        if size is None:
            low = 0 if lower is None else timeline.until(lower)
        elif size.measure is Measure.COUNT:
            low = max(0, high - size.amount)
            lower = timeline.events[low].ts
        elif size.measure is Measure.TS:
            lower = event.ts - size.amount
            low = timeline.until(lower)
        else:
            lower = timeline.clocks[at] - size.amount
            low = _first_after(timeline.clocks, lower, high)
        return Cut(timeline.orders[at], event.ts, low, high, (lower, event.ts), (event.source, event.id))

    def needed(self, timeline: Timeline, final: int) -> int:
        """How many of the first tuples no window will need that is not final."""
        settled = timeline.until(final)
        size = self.plan.size
        if size is None or not settled:
            return 0
        if size.measure is Measure.COUNT:
            return max(0, settled - size.amount)
        if size.measure is Measure.TS:
            return min(settled, timeline.until(final - size.amount))
        return _first_after(timeline.clocks, timeline.clocks[settled - 1] - size.amount, settled)


class ClockCuts(_Cuts):
    """Boundaries on an application time of its own: the tuple beyond one tells that it is passed (Vu 2015, Algorithm 2)."""

    def __init__(self, plan: WindowPlan) -> None:
        self.plan = plan
        self.slide = plan.slide.amount
        self._least = plan.start
        if plan.shape is Shape.LANDMARK and plan.lower is not None:
            self._least = plan.lower + self.slide

    def touched(self, timeline: Timeline, places: list[Order]) -> list[tuple[int, int]]:
        """One range, to the end: a tuple may move the clock for all that follow."""
        return [(timeline.place(min(places)), len(timeline))]

    def cuts(self, timeline: Timeline, start: int, end: int) -> Iterator[Cut]:
        """The windows that are closed by one of the tuples [start, end)."""
        for at in range(start, end):
            shown = timeline.clock_before(at)
            if shown is not None and timeline.clocks[at] > shown:
                for boundary in self._passed(shown, timeline.clocks[at]):
                    cut = self._cut(timeline, at, boundary)
                    if cut is not None:
                        yield cut

    def _passed(self, shown: int, now: int) -> Iterable[int]:
        """The boundaries in [shown, now) at which there is something to report."""
        plan, slide = self.plan, self.slide
        if plan.upper is not None:
            return [plan.upper] if shown <= plan.upper < now else []
        phase = self._least if self._least is not None else plan.phase
        first = phase - (phase - shown) // slide * slide
        if self._least is not None:
            first = max(first, self._least)
        size = plan.size
        if size is not None and size.measure is Measure.CLOCK:
            return range(first, min(now, shown + size.amount), slide)  # later ones are empty
        return [first] if first < now else []  # later ones are the same

    def _cut(self, timeline: Timeline, at: int, boundary: int) -> Cut | None:
        plan, size = self.plan, self.plan.size
        closing = timeline.events[at]
        lower: int | None
        if size is None:
            lower = plan.lower
            low = 0 if lower is None else _first_after(timeline.clocks, lower, at)
        elif size.measure is Measure.CLOCK:
            lower = boundary - size.amount
            low = _first_after(timeline.clocks, lower, at)
        elif size.measure is Measure.COUNT:
            low, lower = max(0, at - size.amount), None
        else:
            last = timeline.events[at - 1].ts if at else closing.ts
            lower = last - size.amount
            low = min(timeline.until(lower), at)
        key = (timeline.orders[at], boundary)
        return Cut(key, closing.ts, low, at, (lower, boundary), (boundary,)) if at > low else None

    def needed(self, timeline: Timeline, final: int) -> int:
        """How many of the first tuples no window will need that is not final."""
        settled = timeline.until(final)
        size = self.plan.size
        if size is None or not settled:
            return 0
        if size.measure is Measure.CLOCK:
            shown = timeline.clocks[settled - 1]
            return min(settled - 1, _first_after(timeline.clocks, shown - size.amount, settled))
        if size.measure is Measure.COUNT:
            return max(0, settled - size.amount)
        return min(settled - 1, timeline.until(timeline.events[settled - 1].ts - size.amount))


class DeltaCuts(_Cuts):
    """Windows that end before the tuple that is farther than a threshold from their first (Vu 2015, 2.2.2)."""

    def __init__(self, plan: WindowPlan, measure: Callable[[Event], float | None]) -> None:
        self.plan = plan
        self.measure = measure

    def touched(self, timeline: Timeline, places: list[Order]) -> list[tuple[int, int]]:
        """From the window that is disturbed to where windows begin again as they did: each begins where the last one ended.

        Of changes that lie behind the first tuple of the open window, only those count that end it. O(log n) each.
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

    def _disturbed(self, timeline: Timeline, first: Order) -> int:
        """Where the window begins that a change at ``first`` may lie in, or end."""
        at = bisect_left(timeline.keys, first)
        return timeline.place(timeline.keys[at - 1]) if at else 0

    def _undisturbed(self, timeline: Timeline, start: int, last: Order) -> int:
        """Where, behind all changes, a window begins that began there before; or the end."""
        for at in self._starts(timeline, start, len(timeline)):
            order = timeline.orders[at]
            if order > last and (order in timeline.published or order == timeline.opened):
                return at
        return len(timeline)

    def _is_ended(self, timeline: Timeline, low: int, places: list[Order]) -> bool:
        """Whether the window that begins at ``low`` holds one of these tuples no more."""
        origin = self.measure(timeline.events[low])
        for order in places:
            at = timeline.place(order)
            is_there = at < len(timeline) and timeline.orders[at] == order
            if is_there and not self._is_near(origin, self.measure(timeline.events[at])):
                return True
        return False

    def _starts(self, timeline: Timeline, start: int, end: int) -> Iterator[int]:
        """Where windows begin among the tuples [start, end), the first of them at ``start``."""
        origin: float | None = None
        for at in range(start, end):
            value = self.measure(timeline.events[at])
            if at == start or not self._is_near(origin, value):
                origin = value
                yield at

    def cuts(self, timeline: Timeline, start: int, end: int) -> Iterator[Cut]:
        """The windows that begin with one of the tuples [start, end), and are closed; one begins at each of both bounds."""
        starts = list(self._starts(timeline, start, end))
        if end < len(timeline):
            starts.append(end)
        else:
            timeline.opened = timeline.orders[starts[-1]] if starts else None
        for low, high in pairwise(starts):
            yield self._cut(timeline, low, high)

    def _is_near(self, origin: float | None, value: float | None) -> bool:
        if origin is None or value is None:
            return origin is value
        return abs(value - origin) <= self.plan.threshold

    @staticmethod
    def _cut(timeline: Timeline, low: int, high: int) -> Cut:
        first, closing = timeline.events[low], timeline.events[high]
        bounds = (first.ts, timeline.events[high - 1].ts)
        return Cut(timeline.orders[low], closing.ts, low, high, bounds, (first.source, first.id))

    def needed(self, timeline: Timeline, final: int) -> int:
        """How many of the first tuples no window will need that is not final: all windows closed by a final tuple."""
        return max(self._starts(timeline, 0, timeline.until(final)), default=0)
