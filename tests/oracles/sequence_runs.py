"""The rule: under skip-till-next-match and strict contiguity each event begins one run, and events in order continue it.

Under these strategies a run is a function of its first event and of the events that follow within the window. A change touches
only the runs that began within one window before it: they are run before and after the change, and the difference is published.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from heapq import heappop, heappush
from operator import is_
from typing import NamedTuple

from detectors.sequence.algorithm import Algorithm
from detectors.sequence.grammar.syntax import Strategy
from detectors.sequence.planning.sequence_plan import PatternStep, SequencePlan
from detectors.sequence.strategies.construction import Test, due, placed
from detectors.sequence.strategies.matcher import Matcher
from detectors.sequence.strategies.matches import Fail, Identify, Match, MatchChanges, Part, Roles, first_of, last_of
from middleware.model.event import NEVER, ORDER, Event, Key, Order

Range = tuple[int, int]
"""From the first to the last time, both included."""


class RunEntry(NamedTuple):
    """An event in the total order, and its possible roles: places of positive steps, and slots of negated ones."""

    order: Order
    event: Event
    places: tuple[int, ...]
    slots: tuple[int, ...]


class Due(NamedTuple):
    """Conditions to check when an event is taken for a place, and when the group of a place is complete."""

    taken: tuple[Test, ...]
    complete: tuple[Test, ...]


class Runs:
    """The running state of a query with one of these two strategies."""

    def __init__(self, plan: SequencePlan, identify: Identify, fail: Fail) -> None:
        self._plan = plan
        self._identify = identify
        self._fail = fail
        self._roles = Roles(plan)
        self._due = [_due(plan, place) for place in range(len(plan.steps))]
        self._entries: dict[Key, list[RunEntry]] = {}
        self._common: list[RunEntry] = []
        self._starts: list[tuple[int, int, Key]] = []
        self._pushed = 0
        self._emitted = self._swept = NEVER
        self._is_strict = plan.strategy is Strategy.STRICT

    def apply(self, inserts: list[Event], retracts: list[Event], emitted: int, final: int) -> MatchChanges:
        """Take changes and time; returns the net change of the matches that stand."""
        gone, come = self._placed(retracts), self._placed(inserts)
        touched = self._touched(gone, come, emitted)
        before = self._matches(touched)
        for key, entry in gone:
            self._remove(key, entry)
        for key, entry in come:
            self._add(key, entry)
        self._emitted = emitted
        after = self._matches(touched)
        changes = MatchChanges(self._identify)
        for identity, match in before.items():
            if not _is_same(after.get(identity), match):
                changes.withdrawn[identity] = match
        changes.made = {identity: match for identity, match in after.items() if not _is_same(before.get(identity), match)}
        if final - self._plan.reach > self._swept:
            self._purge(final)
        return changes

    def _placed(self, events: list[Event]) -> list[tuple[Key, RunEntry]]:
        """Events with their partitions (None: all) and their roles there."""
        placed = []
        for event in events:
            by_key: dict[Key, tuple[list[int], list[int]]] = {}
            try:
                for step, key in self._roles(event, every=self._is_strict):
                    places, slots = by_key.setdefault(key, ([], []))
                    if step is not None:
                        (slots if step.negated else places).append(step.slot if step.negated else step.place)
            except TypeError as error:
                self._fail(event, f"no key can be made of it: {error}")
                continue
            for key, (places, slots) in by_key.items():
                placed.append((key, RunEntry(ORDER(event), event, tuple(places), tuple(slots))))
        return placed

    def _add(self, key: Key, entry: RunEntry) -> None:
        insort(self._common if key is None else self._entries.setdefault(key, []), entry)
        if self._plan.trails and 0 in entry.places:
            self._pushed += 1
            heappush(self._starts, (entry.event.ts, self._pushed, key))

    def _remove(self, key: Key, entry: RunEntry) -> None:
        entries = self._common if key is None else self._entries.get(key, [])
        at = bisect_left(entries, entry.order, key=lambda each: each.order)
        if at < len(entries) and entries[at].order == entry.order:
            del entries[at]

    def _touched(
        self, gone: list[tuple[Key, RunEntry]], come: list[tuple[Key, RunEntry]], emitted: int
    ) -> dict[Key, list[Range]]:
        """For each partition, the times of first events whose runs may change."""
        within, leads = self._plan.within, {step.slot for step in self._plan.negations if step.place == 0}
        touched: dict[Key, list[Range]] = {}
        for key, entry in (*gone, *come):
            ts = entry.event.ts
            reach = (ts - within, ts + within if leads.intersection(entry.slots) else ts)
            for each in self._entries if key is None else (key,):  # a new partition is touched as a whole anyway
                touched.setdefault(each, []).append(reach)
        while self._starts and self._starts[0][0] <= emitted - within:
            ts, _, key = heappop(self._starts)
            touched.setdefault(key, []).append((ts, ts))
        return touched

    def _matches(self, touched: dict[Key, list[Range]]) -> dict[int, Match]:
        """The matches that stand now, of the runs that began at these times."""
        found: dict[int, Match] = {}
        for key, ranges in touched.items():
            entries = self._entries.get(key, [])
            for first, last in _merged(ranges):
                at = bisect_left(entries, first, key=lambda entry: entry.event.ts)
                while at < len(entries) and entries[at].event.ts <= last:
                    if 0 in entries[at].places:
                        for match in self._matches_from(entries, at):
                            found[self._identify(match)] = match
                    at += 1
        return found

    def _matches_from(self, entries: list[RunEntry], start: int) -> Iterator[Match]:
        plan = self._plan
        if plan.trails and entries[start].event.ts > self._emitted - plan.within:
            return
        for match in self._run(entries, start):
            if not any(self._is_ruled_out(entries, step, match) for step in plan.negations):
                yield match

    def _run(self, entries: list[RunEntry], start: int) -> Iterator[Match]:
        """The matches of the run that begins with an entry: at most one, or one for each event of a final Kleene step."""
        steps, first = self._plan.steps, entries[start].event
        until, last = first.ts + self._plan.within, len(steps) - 1
        bound: list[Part] = [(first,) if steps[0].kleene else first]
        if not self._hold(self._due[0].taken, bound):
            return
        newest, place = first, 0
        if place == last:
            yield from self._completed(bound)
            if not steps[last].kleene:
                return
        for at in range(start + 1, len(entries)):
            entry = entries[at]
            if entry.event.ts > until:
                return
            taken = self._taken(bound, place, entry) if entry.event.ts > newest.ts else None
            if taken is not None:
                bound, newest, place = taken, entry.event, len(taken) - 1
                if place == last:
                    yield from self._completed(bound)
                    if not steps[last].kleene:
                        return
            elif self._is_strict:
                return

    def _taken(self, bound: list[Part], place: int, entry: RunEntry) -> list[Part] | None:
        """The binding with this event added: for the next step if it fits that, else to the current group; else None."""
        steps, event = self._plan.steps, entry.event
        if place + 1 < len(steps) and place + 1 in entry.places and self._hold(self._due[place].complete, bound):
            grown = [*bound, (event,) if steps[place + 1].kleene else event]
            if self._hold(self._due[place + 1].taken, grown):
                return grown
        if steps[place].kleene and place in entry.places:
            group = bound[-1]
            assert isinstance(group, tuple)
            if self._hold(self._due[place].taken, [*bound[:-1], (group[-1], event)]):
                return [*bound[:-1], (*group, event)]
        return None

    def _completed(self, bound: list[Part]) -> Iterator[Match]:
        if self._hold(self._due[-1].complete, bound):
            yield tuple(bound)

    def _hold(self, tests: tuple[Test, ...], bound: list[Part]) -> bool:
        return all(test(*[bound[place] for place in places]) for test, places in tests)

    def _is_ruled_out(self, entries: list[RunEntry], step: PatternStep, match: Match) -> bool:
        first, last = first_of(match).ts, last_of(match).ts
        low, high = last - self._plan.within, first + self._plan.within
        if step.place:
            low = last_of(match[: step.place]).ts + 1
        if step.place < len(match):
            high = first_of(match[step.place :]).ts - 1
        among = self._common if step.key is None else entries
        at = bisect_left(among, low, key=lambda entry: entry.event.ts)
        while at < len(among) and among[at].event.ts <= high:
            if step.slot in among[at].slots and self._rules_out(step, among[at].event, match):
                return True
            at += 1
        return False

    def _rules_out(self, step: PatternStep, event: Event, match: Match) -> bool:
        places, slot = self._plan.place_of_slot, step.slot
        return all(
            test.test(*[event if each == slot else match[places[each]] for each in test.slots]) for test in step.conditions
        )

    def _purge(self, final: int) -> None:
        """Forget events that no future change can need, once every quarter of a window."""
        upto = final - self._plan.reach
        self._swept = upto + self._plan.within // 4
        for key, entries in [*self._entries.items(), (None, self._common)]:
            del entries[: bisect_right(entries, upto, key=lambda entry: entry.event.ts)]
            if not entries and key is not None:
                del self._entries[key]

    @property
    def held(self) -> int:
        """Events kept."""
        return sum(map(len, self._entries.values())) + len(self._common)

    @property
    def keys(self) -> int:
        return len(self._entries)

    def events(self) -> list[Event]:
        """Every event held, once for each of its roles."""
        return [entry.event for entries in (*self._entries.values(), self._common) for entry in entries]


def _is_same(one: Match | None, other: Match) -> bool:
    """Whether two matches with the same identity hold the same event objects: equal ones may differ in a zero's sign."""
    return one is not None and all(
        all(map(is_, part, again)) if isinstance(part, tuple) and isinstance(again, tuple) else part is again
        for part, again in zip(one, other, strict=True)
    )


def _merged(ranges: list[Range]) -> list[Range]:
    """The ranges in order, with those that touch or overlap merged."""
    merged: list[Range] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def _due(plan: SequencePlan, place: int) -> Due:
    taken, complete = due(plan, place)
    return Due(tuple(placed(test, plan) for test in taken), tuple(placed(test, plan) for test in complete))


def plain_sequence(plan: SequencePlan, identify: Identify, fail: Fail) -> Matcher | Runs:
    """What runs a query in Python: the paper's last algorithm for skip-till-any-match, runs for the other strategies."""
    return Matcher(plan, identify, fail, Algorithm.PARTITION) if plan.strategy is Strategy.ANY else Runs(plan, identify, fail)
