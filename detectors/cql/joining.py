"""The operator of joins over windows of time: each side indexed by key and time, so that a change costs what it matches.

Windows of one moment (both sides EVERY the same time): a pair is a result of each boundary that lies in the windows of both.
EVERY 1: a pair is one result, made when the later of the two comes, if the earlier is in its window then.

A pair's results are a function of the pair alone. So nothing that was published need be kept: a tuple that is withdrawn
withdraws what it matches.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from detectors.cql.changes import Unpacker, difference, packed
from detectors.cql.plan import Joined, Side
from detectors.cql.relation import key_code
from detectors.cql.windows import Measure
from middleware.change import Delta
from middleware.event import END, NEVER, ORDER, Event
from middleware.operator import Operation, Operator, Origin

_LEAST_PURGE = 1024
_Key = tuple[Any, ...]
_Parts = dict[_Key, list[Event]]


class JoinOperator(Operator):
    """The operator of a ``Joined`` query."""

    def __init__(self, plan: Joined) -> None:
        self.plan = plan
        self.name = plan.name
        self.subscribes = tuple(dict.fromkeys(side.source.event_type for side in (plan.left, plan.right)))
        self.publishes = (plan.target.event_type,)

    def start(self, name: str, level: int) -> Operation:
        is_timed = self.plan.left.window.slide.measure is Measure.TS
        return (MomentJoin if is_timed else PairJoin)(self.plan, name, level)


class _Index:
    """The tuples of one side by key, in total order."""

    def __init__(self, plan: Joined, side: Side, variable: str) -> None:
        self.event_type = side.source.event_type
        self.size = side.window.size.amount if side.window.size is not None else 0
        self.times: dict[_Key, list[int]] = {}
        self.events: dict[_Key, list[Event]] = {}
        self._parts = plan.frame.define(_parting(side, variable))

    def parts(self, events: list[Event], is_own: bool) -> _Parts:
        """Those of ``events`` that this side takes, by key."""
        own = events if is_own else [event for event in events if event.__class__ is self.event_type]
        parts: _Parts = {}
        self._parts(own, parts)
        return parts

    def insert(self, key: _Key, events: list[Event]) -> None:
        """Put tuples of one key in. O(log n) each, and moving what lies behind."""
        there = self.events.get(key)
        if there is None:
            events.sort(key=ORDER)
            self.events[key] = events
            self.times[key] = [event.ts for event in events]
            return
        times = self.times[key]
        for event in events:
            order = ORDER(event)
            if order > ORDER(there[-1]):
                there.append(event)
                times.append(event.ts)
                continue
            at = bisect_left(there, order, key=ORDER)
            there.insert(at, event)
            times.insert(at, event.ts)

    def remove(self, key: _Key, events: list[Event]) -> None:
        """Take tuples of one key out."""
        there, times = self.events[key], self.times[key]
        for event in events:
            at = bisect_left(there, ORDER(event), key=ORDER)
            del there[at], times[at]
        if not there:
            del self.events[key], self.times[key]

    def forget(self, ts: int) -> int:
        """Forget what lies at or before a time; returns how many tuples are left. O(keys + what is forgotten)."""
        left = 0
        for key, times in list(self.times.items()):
            count = bisect_right(times, ts)
            if count == len(times):
                del self.times[key], self.events[key]
                continue
            if count:
                del times[:count], self.events[key][:count]
            left += len(times)
        return left

    def between(self, key: _Key, above: int, upto: int) -> list[Event]:
        """The tuples of a key with above < ts <= upto. O(log n + what is found)."""
        times = self.times.get(key)
        if times is None:
            return []
        return self.events[key][bisect_right(times, above) : bisect_right(times, upto)]

    def state(self) -> list[Any]:
        return [(key, packed(events)) for key, events in self.events.items()]

    def restore(self, state: list[Any]) -> None:
        unpack = Unpacker(self.event_type)
        self.events = {key: unpack(rows) for key, rows in state}
        self.times = {key: [event.ts for event in events] for key, events in self.events.items()}


class _Join(Operation):
    """What both kinds of joins share."""

    def __init__(self, plan: Joined, name: str, level: int) -> None:
        super().__init__()
        self.plan = plan
        self.left, self.right = _Index(plan, plan.left, "e"), _Index(plan, plan.right, "f")
        self._is_one_type = self.left.event_type is self.right.event_type
        self._emitted = NEVER
        self._held = self._changed = 0
        more = {"source_": name, "level_": level, "id_": Origin(name, level).id, "max": max}
        self._results: Callable[..., list[Event]] = plan.frame.define(self._code(), more)

    def _code(self) -> str:
        raise NotImplementedError

    def _pairs(self, key: _Key, event: Event, other: _Index, is_left: bool) -> list[Event]:
        """The results that a tuple leads to with those of the other side."""
        raise NotImplementedError

    def apply(self, delta: Delta, emitted: int, final: int) -> Delta:
        before = self._matched(delta.retracts, _Index.remove) if delta.retracts else []
        before = self._take_back(before)
        self._emitted = emitted
        after = self._matched(delta.inserts, _Index.insert) if delta.inserts else []
        after = self._hold_back(after) + self._due()
        self._changed += len(delta.inserts) + len(delta.retracts)
        if self._changed > max(_LEAST_PURGE, self._held // 2) or final == END:
            self._changed = 0
            self._held = sum(index.forget(final - index.size) for index in (self.left, self.right))
        return difference(before, after)

    def _matched(self, events: list[Event], change: Callable[[_Index, _Key, list[Event]], None]) -> list[Event]:
        """All results of pairs of which one is among ``events``, which are put in or taken out, side by side."""
        results: list[Event] = []
        sides = ((self.left, self.right, True), (self.right, self.left, False))
        is_removal = change is _Index.remove
        for own, other, is_left in sides:
            for key, part in own.parts(events, False).items():
                change(own, key, part)
                self._held += -len(part) if is_removal else len(part)
                if key in other.times:
                    for event in part:
                        results += self._pairs(key, event, other, is_left)
        return results

    def _take_back(self, results: list[Event]) -> list[Event]:
        return results

    def _hold_back(self, results: list[Event]) -> list[Event]:
        return results

    def _due(self) -> list[Event]:
        return []

    @property
    def held(self) -> int:
        return self._held

    @property
    def keys(self) -> int:
        return len(self.left.times.keys() | self.right.times.keys())

    def snapshot(self) -> Any:
        return self.left.state(), self.right.state(), self._emitted, self._held, self._changed

    def restore(self, state: Any) -> None:
        left, right, self._emitted, self._held, self._changed = state
        self.left.restore(left)
        self.right.restore(right)


class PairJoin(_Join):
    """EVERY 1: each pair once, as the later of the two comes."""

    def _code(self) -> str:
        plan = self.plan
        test = f" if {plan.condition.holds}" if plan.condition is not None else ""
        result = plan.constructor("e.ts if e.ts > f.ts else f.ts", "id_(e.source, e.id, f.source, f.id)")
        return (
            "def made(event, others, is_left):\n"
            "    if is_left:\n"
            "        e = event\n"
            f"        return [{result} for f in others{test}]\n"
            "    f = event\n"
            f"    return [{result} for e in others{test}]\n"
        )

    def _pairs(self, key: _Key, event: Event, other: _Index, is_left: bool) -> list[Event]:
        own = self.left if is_left else self.right
        others = other.between(key, event.ts - other.size, event.ts + own.size - 1)
        return self._results(event, others, is_left) if others else others


class MomentJoin(_Join):
    """Windows that end at the same moments: each pair at each boundary that both windows hold. Due when time has passed it."""

    def __init__(self, plan: Joined, name: str, level: int) -> None:
        super().__init__(plan, name, level)
        window = plan.left.window
        self._slide, self._phase, self._least = window.slide.amount, window.phase, window.start
        self._waiting: dict[int, dict[int, Event]] = {}
        self._heap: list[int] = []

    def _code(self) -> str:
        plan = self.plan
        test = f" if {plan.condition.holds}" if plan.condition is not None else ""
        result = plan.constructor("ts", "id_(ts, e.source, e.id, f.source, f.id)")
        return (
            "def made(event, others, is_left, ts):\n"
            "    if is_left:\n"
            "        e = event\n"
            f"        return [{result} for f in others{test}]\n"
            "    f = event\n"
            f"    return [{result} for e in others{test}]\n"
        )

    def _pairs(self, key: _Key, event: Event, other: _Index, is_left: bool) -> list[Event]:
        own = self.left if is_left else self.right
        results: list[Event] = []
        first = self._phase - (self._phase - event.ts) // self._slide * self._slide
        if self._least is not None:
            first = max(first, self._least)
        for boundary in range(first, event.ts + own.size, self._slide):
            others = other.between(key, boundary - other.size, boundary)
            if others:
                results += self._results(event, others, is_left, boundary)
        return results

    def _take_back(self, results: list[Event]) -> list[Event]:
        """Those that were published; the others are waiting, and are dropped."""
        published = []
        for result in results:
            if result.ts <= self._emitted:
                published.append(result)
            else:
                del self._waiting[result.ts][result.id]
        return published

    def _hold_back(self, results: list[Event]) -> list[Event]:
        """Those whose time has passed; the others wait."""
        emitted = self._emitted
        for result in results:
            if result.ts > emitted:
                waiting = self._waiting.get(result.ts)
                if waiting is None:
                    waiting = self._waiting[result.ts] = {}
                    heappush(self._heap, result.ts)
                waiting[result.id] = result
        return [result for result in results if result.ts <= emitted]

    def _due(self) -> list[Event]:
        due: list[Event] = []
        while self._heap and self._heap[0] <= self._emitted:
            due += self._waiting.pop(heappop(self._heap)).values()
        return due

    def snapshot(self) -> Any:
        waiting = packed(result for results in self._waiting.values() for result in results.values())
        return super().snapshot(), waiting

    def restore(self, state: Any) -> None:
        shared, waiting = state
        super().restore(shared)
        self._waiting, self._heap = {}, []
        assert not self._hold_back(Unpacker(self.plan.target.event_type)(waiting)), "a result waits that is due"


def _parting(side: Side, variable: str) -> str:
    """Code that sorts events into the lists of their keys, those that join at all: a NULL equals nothing."""
    tests = [side.before.holds] if side.before is not None else []
    tests += [f"({code.value}) is not None" for code in side.keys if code.nullable]
    skip = f"        if not ({' and '.join(tests)}):\n            continue\n" if tests else ""
    return (
        "def made(events, parts):\n"
        f"    for {variable} in events:\n"
        f"{skip}"
        f"        key = {key_code(side.keys)}\n"
        "        part = parts.get(key)\n"
        "        if part is None:\n"
        "            part = parts[key] = []\n"
        f"        part.append({variable})\n"
    )
