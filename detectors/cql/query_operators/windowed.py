"""The operator of queries over windows: keeps each partition in order, and re-evaluates the windows that a change touches."""

from __future__ import annotations

import traceback
from contextlib import suppress
from heapq import heappop, heappush

from detectors.cql.changes import unpacker
from detectors.cql.partitions import trees
from detectors.cql.partitions.cuts import (
    BoundaryCuts,
    ClockCuts,
    Cut,
    DeltaCuts,
    HoppingCuts,
    SessionCuts,
    TimedCuts,
    TupleCuts,
)
from detectors.cql.partitions.tuple_timeline import TupleTimeline, WindowKey, plain
from detectors.cql.planning.query_plan import WindowQueryPlan
from detectors.cql.planning.window_plans import Measure, Shape, WindowPlan
from detectors.cql.query_operators.query_operator import QueryOperator
from detectors.cql.query_operators.relation import evaluation, parting, single_result
from detectors.cql.query_operators.stepped_queries import SteppedQuery, can_run
from detectors.outcomes import difference
from middleware.model.change import Delta
from middleware.model.event import END, IDENTITY, NEVER, Event, Order, Value
from middleware.model.identity import canonical
from middleware.model.later import Later
from middleware.model.operator import Operation, Origin, Snapshot

LEAST_PURGE = 256
"""The least number of changes between two purges."""

PURGE_SHARE = 0.5
"""The same as a share of the tuples held, so that purging costs O(1) per change."""

_Key = tuple[Value, ...]


class WindowedOperator(QueryOperator[WindowQueryPlan]):
    """The operator of a ``WindowQueryPlan`` query."""

    def start(self, name: str, level: int) -> Operation:
        kind = SteppedQuery if can_run(self.plan) else WindowedOperation
        return kind(self.plan, name, level)


class WindowedOperation(Operation):
    """A timeline for each partition. A change costs as much as the windows it touches; quiet partitions cost nothing."""

    def __init__(self, plan: WindowQueryPlan, name: str, level: int) -> None:
        super().__init__()
        self.plan = plan
        frame, window = plan.frame, plan.window
        self._parts = frame.define(parting(plan.before, plan.partition))
        self._origin = Origin(name, level)
        self._evaluate, self._result = evaluation(plan, self._origin), single_result(plan, self._origin)
        self._tree_plan = trees.tree_plan(plan)
        self._clock_of = frame.function("e", window.clock.value) if window.clock is not None else None
        self._timed = _cuts_by_time(window) if window.is_timed else None
        self._gap = window.slide.amount if window.shape is Shape.SESSION else 0
        self._made = None if window.is_timed else _cuts_by_tuples(plan)
        self._timelines: dict[_Key, TupleTimeline] = {}
        self._due: dict[int, dict[_Key, None]] = {}  # dicts, for an order that is the same in every process
        self._heap: list[int] = []
        self._emitted = self._final = NEVER
        self._held = self._changed = 0

    def apply(self, delta: Delta, emitted: int, final: int) -> Delta:
        out = Delta()
        parts: dict[_Key, tuple[list[Event], list[Event]]] = {}
        self._parts(delta.retracts, parts, 0)
        self._parts(delta.inserts, parts, 1)
        for key, (retracts, inserts) in parts.items():
            timeline = self._timelines.get(key)
            if timeline is None:
                if not self._can_name(key, retracts, inserts):
                    continue
                timeline = self._timelines[key] = TupleTimeline(self._clock_of, self._gap)
            self._held += len(inserts) - len(retracts)
            self._changed += len(inserts) + len(retracts)
            first = timeline.first
            places = timeline.change(retracts, inserts)
            if self._timed is not None:
                if self.plan.window.is_anchored and timeline.first != first:
                    self._move_anchor(key, timeline)
                else:
                    self._touch(key, timeline, places)
            elif self._made is not None:
                for start, end in self._made.touched(timeline, places):
                    self._redo(key, timeline, start, end, out)
        before, self._emitted, self._final = self._emitted, emitted, final
        self._report(before, out)
        if self._changed > max(LEAST_PURGE, self._held * PURGE_SHARE) or final == END:
            self._purge()
        return out

    def _can_name(self, key: _Key, retracts: list[Event], inserts: list[Event]) -> bool:
        """Whether a new key can be part of an identity; else its events fail. A text with half a character cannot."""
        try:
            self._origin.id(*key)
        except UnicodeEncodeError:
            failure = traceback.format_exc(limit=-8)
            for event in retracts:
                self.failures.pop(IDENTITY(event), None)
            for event in inserts:
                self.fail(event, failure)
            return False
        return True

    # windows that are due when time passes

    def _touch(self, key: _Key, timeline: TupleTimeline, places: list[Order]) -> None:
        """Have the windows evaluated that changes at these places touch, and the next one to come."""
        assert self._timed is not None
        if min(places)[0] <= self._emitted:
            for end in self._timed.touched(timeline, sorted({order[0] for order in places}), self._emitted):
                self._mark(key, end)
        self._mark(key, self._timed.next(timeline, self._emitted))

    def _mark(self, key: _Key, boundary: int | None) -> None:
        """Have the windows evaluated that end there, once time has passed it."""
        if boundary is not None and boundary <= END:  # a FIXED clause has no other windows
            keys = self._due.get(boundary)
            if keys is None:
                keys = self._due[boundary] = {}
                heappush(self._heap, boundary)
            keys[key] = None

    def _move_anchor(self, key: _Key, timeline: TupleTimeline) -> None:
        """Re-anchor all windows of the partition, as its first tuple is another. Final windows have a final anchor."""
        for boundary in timeline.keys:
            self._mark(key, boundary)
        if timeline.events:
            self._touch(key, timeline, timeline.orders)

    def _report(self, before: int, out: Delta) -> None:
        """Evaluate the windows that are due; each that ends after ``before``, and so is new, makes the next one due."""
        heap, due, timed = self._heap, self._due, self._timed
        while timed is not None and heap and heap[0] <= self._emitted:
            boundary = heappop(heap)
            for key in due.pop(boundary):
                timeline = self._timelines[key]
                self._publish(key, timeline, boundary, timed.cut(timeline, boundary), out)
                if boundary > before:
                    self._mark(key, timed.next(timeline, boundary))

    # windows that tuples make

    def _redo(self, key: _Key, timeline: TupleTimeline, start: int, end: int, out: Delta) -> None:
        """Re-evaluate the windows that the tuples [start, end) make."""
        assert self._made is not None
        orders = timeline.orders
        above: Value = orders[start - 1] if start else None
        below: Value = orders[end] if end < len(orders) else None
        if isinstance(self._made, ClockCuts):
            above, below = above and (above, END), below and (below, NEVER)
        gone = dict.fromkeys(timeline.keys_between(above, below))
        for cut in self._made.cuts(timeline, start, end):
            gone.pop(cut.key, None)
            self._publish(key, timeline, cut.key, cut, out)
        for window in gone:
            self._publish(key, timeline, window, None, out)

    def _publish(self, key: _Key, timeline: TupleTimeline, window: WindowKey, cut: Cut | None, out: Delta) -> None:
        """Set the results of a window, and add what changes to ``out``."""
        results: list[Event] = []
        if cut is not None:
            known = tuple(map(canonical, key))
            identity = (known[0] if len(known) == 1 else known, *cut.identity)
            results = self._results(timeline, cut, identity)
        before = timeline.publish(window, results)
        if not before:
            out.inserts.extend(results)
            return
        changed = difference(before, results)
        out.inserts.extend(changed.inserts)
        out.revises += changed.revises
        out.retracts += changed.retracts

    def _results(self, timeline: TupleTimeline, cut: Cut, identity: tuple[Value, ...]) -> list[Event]:
        """The results of a window: folded if it is small, else looked up."""
        events, plan, last = timeline.events, self._tree_plan, cut.last
        if timeline.prefix is not None:
            first, values = timeline.prefix.values(events[cut.low : cut.high])
            return self._result(last or first, values, cut.bounds, cut.ts, identity)
        if plan is not None and cut.high - cut.low > plan.small:
            with suppress(trees.Refold, OverflowError):
                if timeline.trees is None:
                    timeline.trees = trees.Trees(plan, events, timeline.orders)
                found, values = timeline.trees.values(events, timeline.orders, cut.low, cut.high)
                return [] if found is None else self._result(last or found, values, cut.bounds, cut.ts, identity)
        return self._evaluate(events[cut.low : cut.high], last or cut.bounds, cut.ts, identity)

    # memory

    def _purge(self) -> None:
        """Forget what only final windows need. O(partitions + forgotten tuples)."""
        final = self._final
        cuts = self._timed or self._made
        assert cuts is not None
        self._changed = self._held = 0
        empty = []
        for key, timeline in self._timelines.items():
            timeline.forget(len(timeline) if final == END else self._needed(timeline), final)
            self._held += len(timeline)
            if not timeline.events and not timeline.published and self._is_forgettable():
                empty.append(key)
        waiting = {key for keys in self._due.values() for key in keys} if empty else set()
        for key in empty:
            if key not in waiting:
                del self._timelines[key]

    def _needed(self, timeline: TupleTimeline) -> int:
        """How many tuples may be forgotten. Landmark windows need all, but may have them summed up."""
        cuts = self._timed or self._made
        assert cuts is not None
        plan, window, final = self._tree_plan, self.plan.window, self._final
        if window.shape is not Shape.LANDMARK or isinstance(cuts, DeltaCuts | SessionCuts):
            return cuts.droppable(timeline, final)
        if plan is None or not plan.sums_up:
            return 0
        slide = window.slide.amount if self._timed is not None else 0
        count = max(0, timeline.after(final - slide) - (0 if self._timed is not None else 1))
        low = cuts.landmark(timeline, count)
        if low < count:
            if timeline.prefix is None:
                timeline.prefix = trees.Prefix(plan)
            timeline.prefix.add(timeline.events[low:count])
        return count

    def _is_forgettable(self) -> bool:
        """Whether an empty partition can be forgotten: no count, clock or anchor continues from it."""
        window = self.plan.window
        if self._final == END:
            return True
        counts = window.slide.measure is Measure.COUNT and window.slide.amount > 1
        return (
            window.shape not in (Shape.DELTA, Shape.LANDMARK) and not counts and window.clock is None and not window.is_anchored
        )

    @property
    def held(self) -> int:
        return self._held

    @property
    def keys(self) -> int:
        return len(self._timelines)

    def snapshot(self) -> Snapshot:
        timelines = Later(plain, [(key, timeline.state()) for key, timeline in self._timelines.items()])
        due = [(boundary, list(keys)) for boundary, keys in self._due.items()]
        return timelines, due, self._emitted, self._final, self._held, self._changed

    def restore(self, state: Snapshot) -> None:
        timelines, due, self._emitted, self._final, self._held, self._changed = state
        self._timelines = {}
        for key, saved, prefix in timelines:
            timeline = self._timelines[key] = TupleTimeline(self._clock_of, self._gap)
            unpack = unpacker(self.plan.source.event_type)
            timeline.restore(saved, unpack, unpacker(self.plan.target.event_type))
            if prefix is not None and self._tree_plan is not None:
                size, ends, partials = prefix
                timeline.prefix = trees.Prefix(self._tree_plan, (trees.TupleRange(size, *unpack(ends)), partials))
        self._due = {boundary: dict.fromkeys(keys) for boundary, keys in due}
        self._heap = sorted(self._due)


def _cuts_by_time(window: WindowPlan) -> TimedCuts | SessionCuts:
    if window.shape is Shape.SESSION:
        return SessionCuts(window.slide.amount)
    is_long = window.shape is Shape.FIXED or (window.size is not None and window.size.measure is Measure.TS)
    return HoppingCuts(window) if is_long else BoundaryCuts(window)


def _cuts_by_tuples(plan: WindowQueryPlan) -> TupleCuts | ClockCuts | DeltaCuts:
    window, frame = plan.window, plan.frame
    if window.shape is Shape.DELTA:
        assert window.measured is not None
        return DeltaCuts(window, frame.function("e", window.measured.value))
    if window.slide.measure is Measure.CLOCK:
        return ClockCuts(window)
    return TupleCuts(window, frame.function("e", window.batch.value) if window.batch is not None else None)
