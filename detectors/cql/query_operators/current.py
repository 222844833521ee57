"""The operator of all other joins: at each moment at which a window of either side ends, both current windows are joined.

A side's current window is the one that ended last. Moments are the ends of windows that hold something, in ``ts``: where
windows end by a clock of their own, the tuple that passes the end shows it. Both are joined afresh at each moment that a change
touches; ``joining`` is faster where pairs alone decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from detectors.cql.changes import packed, unpacker
from detectors.cql.partitions.tuple_timeline import TupleTimeline, plain
from detectors.cql.planning.query_plan import JoinQueryPlan, Side
from detectors.cql.planning.window_plans import Measure
from detectors.cql.query_operators.relation import NOTHING, joining_keys
from detectors.language.expression import TRUE
from detectors.outcomes import difference
from detectors.window.kinds import end_at
from middleware.model.change import Delta
from middleware.model.event import END, NEVER, Event, Key
from middleware.model.later import Later
from middleware.model.operator import Operation, Origin, Snapshot

LEAST_PURGE = 256
"""The least number of changes between two purges."""

PURGE_SHARE = 0.5
"""The same as a share of the tuples held, so that purging costs O(1) per change."""


class CurrentWindows:
    """One side: its tuples, and its window at any time. Windows are measured in ``ts``, or by a clock of their own."""

    def __init__(self, side: Side, clock_of: Callable[[Event], int] | None) -> None:
        window = side.window
        assert window.size is not None
        self._size, self._slide = window.size.amount, window.slide.amount
        self._phase, self._start = window.phase, window.start
        self._is_clocked = window.slide.measure is Measure.CLOCK
        self.timeline = TupleTimeline(clock_of)

    @property
    def reach(self) -> int | None:
        """How long a change is felt, in ns; None: for ever, as it may move the clock."""
        return None if self._is_clocked else self._size + self._slide

    def _last_end(self, time: int) -> int | None:
        """The last end of a window up to a time on the side's axis; None if there is none."""
        end = end_at(time + 1, self._slide, self._phase) - self._slide
        return None if self._start is not None and end < self._start else end

    def _current(self, ts: int) -> int | None:
        """Where the current window ends, on the side's axis."""
        if not self._is_clocked:
            return self._last_end(ts)
        shown = self.timeline.clock_before(self.timeline.after(ts))
        return None if shown is None else self._last_end(shown - 1)  # a clock passes an end when it is beyond it

    def _places(self, end: int) -> tuple[int, int]:
        """The tuples [low, high) of the window that ends there."""
        timeline, start = self.timeline, end - self._size
        if self._is_clocked:
            count = len(timeline)
            return timeline.clock_after(start, count), timeline.clock_after(end, count)
        return timeline.after(start), timeline.after(end)

    def content(self, ts: int) -> list[Event]:
        """The tuples of the window that is current at a time, in total order."""
        end = self._current(ts)
        if end is None:
            return []
        low, high = self._places(end)
        return self.timeline.events[low:high]

    def moments(self, low: int, high: int) -> Iterator[int]:
        """The times in [low, high] at which a window that is not empty ends."""
        return self._passed(low, high) if self._is_clocked else self._ends(low, high)

    def _ends(self, low: int, high: int) -> Iterator[int]:
        timeline, size = self.timeline, self._size
        while True:
            end = end_at(low, self._slide, self._phase)
            end = end if self._start is None else max(end, self._start)
            first = timeline.first_after(end - size)
            if end > high or first is None:
                return
            if first <= end:
                yield end
            low = max(end + 1, first)

    def _passed(self, low: int, high: int) -> Iterator[int]:
        timeline = self.timeline
        at, last = timeline.before(low), timeline.after(high)
        before = timeline.clock_before(at)
        end = None if before is None else self._last_end(before - 1)
        while at < last:
            ts = timeline.events[at].ts
            at = timeline.after(ts)
            now = self._last_end(timeline.clocks[at - 1] - 1)
            if now is not None and now != end:
                first, behind = self._places(now)
                if first < behind:
                    yield ts
            end = now

    def forget(self, final: int) -> None:
        """Forget the tuples that are in no window that is current after a time."""
        timeline = self.timeline
        if final == END:
            timeline.forget(len(timeline), final)
            return
        end = self._current(final)
        if end is not None:
            timeline.forget(min(self._places(end)[0], timeline.after(final)), final)


class CurrentJoin(Operation):
    """Runs the join. A change costs O(both windows + results) for each moment that it touches."""

    def __init__(self, plan: JoinQueryPlan, name: str, level: int) -> None:
        super().__init__()
        self.plan = plan
        self._sides_of = [(plan.left, plan.left.source.event_type), (plan.right, plan.right.source.event_type)]
        sides = ((plan.left, "e"), (plan.right, "f"))
        self._enter = [plan.frame.define(_entering(side, variable)) for side, variable in sides]
        self._keys = [plan.frame.define(joining_keys(side.keys, variable)) for side, variable in sides]
        clocks = [side.window.clock for side, _ in sides]
        self._clocks = [None if clock is None else plan.frame.function("e", clock.value) for clock in clocks]
        origin = Origin(name, level)
        more: dict[str, object] = {"source_": origin.source, "level_": origin.level}
        tested = plan.condition.holds if plan.condition is not None else TRUE
        self._fits = plan.frame.function("e, f", tested)
        after = f" if {plan.after.holds} else None" if plan.after is not None else ""
        code = f"def made(e, f, ts, number):\n    return {plan.constructor('ts', 'number')}{after}\n"
        self._result = plan.frame.define(code, more)
        self._id = origin.id
        self._sides = self._new()
        self._published: dict[int, list[Event]] = {}
        self._emitted = self._final = NEVER
        self._changed = 0

    def _new(self) -> list[CurrentWindows]:
        return [CurrentWindows(side, clock) for (side, _), clock in zip(self._sides_of, self._clocks, strict=True)]

    def apply(self, delta: Delta, emitted: int, final: int) -> Delta:
        places: list[int] = []
        for side, (_, event_type), enter in zip(self._sides, self._sides_of, self._enter, strict=True):
            retracts = enter([event for event in delta.retracts if event.__class__ is event_type])
            inserts = enter([event for event in delta.inserts if event.__class__ is event_type])
            if retracts or inserts:
                places += [order[0] for order in side.timeline.change(retracts, inserts)]
        before, self._emitted, self._final = self._emitted, emitted, final
        out = Delta()
        if places:
            reaches = [side.reach for side in self._sides]
            last = before if None in reaches else min(before, max(places) + max(reach or 0 for reach in reaches))
            self._redo(min(places), last, out)
        if emitted > before:
            self._redo(before + 1, emitted, out)
        self._changed += len(delta.inserts) + len(delta.retracts)
        if self._changed > max(LEAST_PURGE, self.held * PURGE_SHARE) or final == END:
            self._purge()
        return out

    def _redo(self, low: int, high: int, out: Delta) -> None:
        """Join again at all moments in [low, high]."""
        if low > high:
            return
        moments = {ts for side in self._sides for ts in side.moments(low, high)}
        moments.update(ts for ts in self._published if low <= ts <= high)
        for ts in sorted(moments):
            is_moment = any(ts in side.moments(ts, ts) for side in self._sides)
            results = self._joined(ts) if is_moment else []
            changed = difference(self._published.pop(ts, []), results)
            if results:
                self._published[ts] = results
            out.inserts.extend(changed.inserts)
            out.revises += changed.revises
            out.retracts += changed.retracts

    def _joined(self, ts: int) -> list[Event]:
        """The results of the windows that are current at a time."""
        left, right = (side.content(ts) for side in self._sides)
        by_key: dict[Key, list[Event]] = {}
        for key, f in zip(self._keys[1](right), right, strict=True):
            if key is not None:
                by_key.setdefault(key, []).append(f)
        keeps_left, keeps_right = self.plan.keeps
        results: list[Event | None] = []
        met: set[int] = set()
        for key, e in zip(self._keys[0](left), left, strict=True):
            is_met = False
            for f in by_key.get(key, ()) if key is not None else ():
                if self._fits(e, f):
                    is_met = True
                    met.add(id(f))
                    results.append(self._result(e, f, ts, self._id(ts, e.source, e.id, f.source, f.id)))
            if keeps_left and not is_met:
                results.append(self._result(e, NOTHING, ts, self._id(ts, "left", e.source, e.id)))
        if keeps_right:
            alone = (f for f in right if id(f) not in met)
            results += [self._result(NOTHING, f, ts, self._id(ts, "right", f.source, f.id)) for f in alone]
        return [each for each in results if each is not None]

    def _purge(self) -> None:
        self._changed = 0
        for side in self._sides:
            side.forget(self._final)
        for ts in [ts for ts in self._published if ts <= self._final]:
            del self._published[ts]

    @property
    def held(self) -> int:
        return sum(len(side.timeline) for side in self._sides)

    @property
    def keys(self) -> int:
        return 1

    def snapshot(self) -> Snapshot:
        timelines = Later(_plain, [side.timeline.state() for side in self._sides])
        results = Later(packed, [event for events in self._published.values() for event in events])
        return timelines, results, self._emitted, self._final, self._changed

    def restore(self, state: Snapshot) -> None:
        timelines, results, self._emitted, self._final, self._changed = state
        self._sides, self._published = self._new(), {}
        unpack_results = unpacker(self.plan.target.event_type)
        for side, (_, event_type), (_, saved, _) in zip(self._sides, self._sides_of, timelines, strict=True):
            side.timeline.restore(saved, unpacker(event_type), unpack_results)
        for event in unpack_results(results):
            self._published.setdefault(event.ts, []).append(event)


def _entering(side: Side, variable: str) -> str:
    """Code for the tuples that enter windows at all."""
    test = f" if {side.before.holds}" if side.before is not None else ""
    return f"def made(events):\n    return [{variable} for {variable} in events{test}]\n"


def _plain(states: list[Any]) -> list[Any]:
    return list(plain([(number, state) for number, state in enumerate(states)]))
