"""The operator of MATCH_RECOGNIZE: attempts to match, one after the other along the tuples of a partition.

An attempt begins at each tuple that no match skips. A result has the time at which it is certain: that of the last tuple that
the attempt, and those before it, had to look at. What was attempted before the first changed tuple stands.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from heapq import heappop, heappush
from operator import attrgetter
from typing import Any, NamedTuple

from detectors.cql.changes import unpacker
from detectors.cql.grammar.pattern import attempt
from detectors.cql.grammar.statements import Skip
from detectors.cql.partitions.tuple_timeline import TupleTimeline, plain
from detectors.cql.planning.query_plan import PatternPlan
from detectors.cql.query_operators.query_operator import QueryOperator
from detectors.cql.query_operators.relation import parting
from detectors.outcomes import difference
from middleware.model.change import Delta
from middleware.model.event import END, NEVER, Event, Order, Value
from middleware.model.identity import canonical
from middleware.model.later import Later
from middleware.model.operator import Operation, Origin, Snapshot

LEAST_PURGE = 256
"""The least number of changes between two purges."""

PURGE_SHARE = 0.5
"""The same as a share of the tuples held, so that purging costs O(1) per change."""

_Key = tuple[Value, ...]
Bound = tuple[Any, ...]
"""A place in the total order, or one between two: a longer tuple is behind the one that it begins with."""


class Attempt(NamedTuple):
    """An attempt that is decided.

    ``until``
        changes from here on touch neither it nor those before.
    ``resume``
        where the next attempt begins.
    ``certain``
        the time at which it, and all before it, are certain.
    """

    until: Bound
    resume: Bound
    certain: int


_FIRST = Attempt((), (), NEVER)
_until, _certain = attrgetter("until"), attrgetter("certain")


class MatchPartition:
    """The tuples of a partition, its attempts in order, and the last of those that are forgotten."""

    __slots__ = ("attempts", "forgotten", "timeline")

    def __init__(self) -> None:
        self.timeline = TupleTimeline(None)
        self.attempts: list[Attempt] = []
        self.forgotten = _FIRST

    @property
    def last(self) -> Attempt:
        """The last attempt that is decided."""
        return self.attempts[-1] if self.attempts else self.forgotten


class MatchOperator(QueryOperator[PatternPlan]):
    """The operator of a ``PatternPlan`` query."""

    def start(self, name: str, level: int) -> Operation:
        return MatchOperation(self.plan, name, level)


class MatchOperation(Operation):
    """Tuples in order cost an attempt each, and what is open is attempted again; a late one costs all attempts behind it."""

    def __init__(self, plan: PatternPlan, name: str, level: int) -> None:
        super().__init__()
        self.plan = plan
        origin = Origin(name, level)
        self._parts = plan.frame.define(parting(plan.before, plan.partition))
        self._tests = [None if test is None else plan.frame.function("r, s, i, l", test.holds) for test in plan.tests]
        more: dict[str, object] = {"source_": origin.source, "level_": origin.level, "id_": origin.id}
        result = plan.constructor("ts", "id_(*window)")
        self._result = plan.frame.define(f"def made(r, s, i, l, ts, window):\n    return {result}\n", more)
        self._partitions: dict[_Key, MatchPartition] = {}
        self._due: dict[int, dict[_Key, None]] = {}  # open attempts by the time at which no tuple can join them any more
        self._heap: list[int] = []
        self._emitted = self._final = NEVER
        self._held = self._changed = 0

    def apply(self, delta: Delta, emitted: int, final: int) -> Delta:
        out = Delta()
        self._emitted, self._final = emitted, final
        parts: dict[_Key, tuple[list[Event], list[Event]]] = {}
        self._parts(delta.retracts, parts, 0)
        self._parts(delta.inserts, parts, 1)
        for key, (retracts, inserts) in parts.items():
            partition = self._partitions.get(key)
            if partition is None:
                partition = self._partitions[key] = MatchPartition()
            self._held += len(inserts) - len(retracts)
            self._changed += len(inserts) + len(retracts)
            places = partition.timeline.change(retracts, inserts)
            self._advance(key, partition, min(places), out)
        while self._heap and self._heap[0] <= emitted:
            for key in self._due.pop(heappop(self._heap)):
                if (partition := self._partitions.get(key)) is not None:
                    self._advance(key, partition, None, out)
        if self._changed > max(LEAST_PURGE, self._held * PURGE_SHARE) or final == END:
            self._purge()
        return out

    def _advance(self, key: _Key, partition: MatchPartition, changed: Order | None, out: Delta) -> None:
        """Redo the attempts that a change touches, and go on as far as tuples are there."""
        timeline, attempts = partition.timeline, partition.attempts
        if changed is not None:
            del attempts[bisect_left(attempts, changed, key=_until) :]
        begin = bisect_left(timeline.orders, partition.last.resume)
        gone = {window: None for window in timeline.keys_between(None, None) if window >= partition.last.resume}
        made: list[tuple[Order, list[Event]]] = []
        while begin < len(timeline):
            found = self._attempt(key, partition, begin)
            if found is None:
                break
            if found:
                made.append((timeline.orders[begin], found))
            begin = bisect_left(timeline.orders, partition.last.resume)
        for start, results in made:
            gone.pop(start, None)
            self._publish(timeline, start, results, out)
        for start in gone:
            self._publish(timeline, start, [], out)

    def _attempt(self, key: _Key, partition: MatchPartition, begin: int) -> list[Event] | None:
        """The results of the attempt that begins at a place; None if it is not decided yet."""
        plan, timeline = self.plan, partition.timeline
        events, first = timeline.events, timeline.events[begin]
        limit = None if plan.within is None else first.ts + plan.within
        length, labels, read, is_cut = attempt(plan.steps, self._tests, events, begin, limit, self._emitted)
        if length is None:
            if limit is not None:
                self._mark(limit, key)
            return None
        certain = events[begin + read - 1].ts
        until: Bound = (*timeline.orders[begin + read - 1], 0)
        if is_cut and limit is not None:
            certain, until = limit, (limit + 1,)
        before = partition.last
        certain = max(certain, before.certain)
        resume = self._resume(timeline, begin, labels[:length])
        partition.attempts.append(Attempt(max(until, before.until), resume, certain))
        if not length:
            return []
        known = tuple(map(canonical, key))
        identity = (known[0] if len(known) == 1 else known, first.source, first.id)
        return [self._result(events, begin, begin + length - 1, labels, certain, identity)]

    def _resume(self, timeline: TupleTimeline, begin: int, labels: list[int]) -> Bound:
        """Where the next attempt begins."""
        after_first: Bound = (*timeline.orders[begin], 0)
        if not labels or self.plan.skip is Skip.NEXT:
            return after_first
        if self.plan.skip is Skip.PAST:
            return (*timeline.orders[begin + len(labels) - 1], 0)
        places = [place for place, label in enumerate(labels) if label == self.plan.skip_to]
        if not places:
            return after_first
        return max(after_first, timeline.orders[begin + places[0 if self.plan.skip is Skip.FIRST else -1]])

    @staticmethod
    def _publish(timeline: TupleTimeline, start: Order, results: list[Event], out: Delta) -> None:
        changed = difference(timeline.publish(start, results), results)
        out.inserts.extend(changed.inserts)
        out.revises += changed.revises
        out.retracts += changed.retracts

    def _mark(self, limit: int, key: _Key) -> None:
        """Have the partition looked at once time has passed the limit of its open attempt."""
        keys = self._due.get(limit)
        if keys is None:
            keys = self._due[limit] = {}
            heappush(self._heap, limit)
        keys[key] = None

    def _purge(self) -> None:
        """Forget attempts that are final, and tuples before those that are not. O(partitions + forgotten tuples)."""
        final = self._final
        self._changed = self._held = 0
        for key, partition in list(self._partitions.items()):
            timeline, attempts = partition.timeline, partition.attempts
            count = bisect_right(attempts, final, key=_certain)
            if count:
                partition.forgotten = attempts[count - 1]
                del attempts[:count]
            place = bisect_left(timeline.orders, partition.forgotten.resume)
            timeline.forget(len(timeline) if final == END else max(0, place - self.plan.back), final)
            self._held += len(timeline)
            if not timeline.events and not timeline.published:
                del self._partitions[key]

    @property
    def held(self) -> int:
        return self._held

    @property
    def keys(self) -> int:
        return len(self._partitions)

    def snapshot(self) -> Snapshot:
        timelines = Later(plain, [(key, partition.timeline.state()) for key, partition in self._partitions.items()])
        forgotten = {key: tuple(partition.forgotten) for key, partition in self._partitions.items()}
        due = [(limit, list(keys)) for limit, keys in self._due.items()]
        return timelines, forgotten, due, self._emitted, self._final, self._held, self._changed

    def restore(self, state: Snapshot) -> None:
        timelines, forgotten, due, self._emitted, self._final, self._held, self._changed = state
        unpack, unpack_results = unpacker(self.plan.source.event_type), unpacker(self.plan.target.event_type)
        self._partitions = {}
        for key, saved, _ in timelines:
            partition = self._partitions[key] = MatchPartition()
            partition.timeline.restore(saved, unpack, unpack_results)
            partition.forgotten = Attempt(*forgotten[key])
            self._advance(key, partition, None, Delta())  # attempts again what was published
        self._due = {limit: dict.fromkeys(keys) for limit, keys in due}
        self._heap = sorted(self._due)
