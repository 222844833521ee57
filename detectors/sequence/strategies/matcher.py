"""Skip-till-any-match over changes in any order: which matches appear, and which no longer stand.

Matches are not stored: which ones stand follows from the stacks and from how far time has come. A late event makes the matches
that hold it; a withdrawn event withdraws them; a late negative withdraws the matches that it rules out, and a withdrawn
negative restores them. A search that starts from the changed event finds them.

For study (see ``Algorithm``): without one, `middleware/native/src/sequence/matching.rs` runs a query.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from detectors.sequence.algorithm import Algorithm, ScanWork
from detectors.sequence.planning.sequence_plan import PatternStep, SequencePlan
from detectors.sequence.strategies.construction import Search, schedules
from detectors.sequence.strategies.matches import Fail, Identify, Match, MatchChanges, Roles, first_of, last_of
from detectors.sequence.strategies.stacks import Stack, StackPartition
from middleware.model.event import NEVER, TS, Event, Key


class Matcher:
    """The running state of a query with strategy skip-till-any-match, by any algorithm that takes disorder."""

    def __init__(
        self,
        plan: SequencePlan,
        identify: Identify,
        fail: Fail,
        algorithm: Algorithm = Algorithm.PARTITION,
        work: ScanWork | None = None,
    ) -> None:
        self._plan = plan
        self._identify = identify
        self._fail = fail
        self._roles = Roles(plan)
        self._schedules = schedules(plan)
        self._algorithm = algorithm
        self._work = work or ScanWork()
        self._partitions: dict[Key, StackPartition] = {}
        self._common = {step.slot: Stack() for step in plan.negations if step.key is None}
        self._due: list[tuple[int, int, Key]] = []
        self._pushed = 0
        self._emitted = self._swept = NEVER

    def apply(self, inserts: list[Event], retracts: list[Event], emitted: int, final: int) -> MatchChanges:
        """Take changes and time; returns the net change of the matches that stand."""
        changes = MatchChanges(self._identify)
        for event in retracts:
            for role in self._fitting(event):
                self._retract(event, *role, changes)
        for event in sorted(inserts, key=TS):
            for role in self._fitting(event):
                self._insert(event, *role, changes)
        if self._plan.trails:
            self._complete(emitted, changes)
        self._emitted = emitted
        if final - self._plan.reach > self._swept:
            self._purge(final)
        return changes

    def _fitting(self, event: Event) -> list[tuple[PatternStep, Key]]:
        """The roles of an event, negated ones first, because it is in no match that it rules out."""
        try:
            roles = [(step, key) for step, key in self._roles(event) if step is not None]
        except TypeError as error:
            self._fail(event, f"no key can be made of it: {error}")
            return []
        return sorted(roles, key=lambda role: not role[0].negated) if len(roles) > 1 else roles

    def _insert(self, event: Event, step: PatternStep, key: Key, changes: MatchChanges) -> None:
        if step.negated:
            for partition in self._reached(key, step):
                for match in self._ruled_out(partition, step, event):
                    changes.withdraw(match)
            self._negatives(key, step).add(event, 0)
            return
        partition = self._partition(key)
        is_late = partition.add(step, event, self._algorithm is Algorithm.SORT)
        if is_late or step.place + 1 == len(self._plan.steps):  # an event in time completes a match only as its last event
            for match in self._not_ruled_out(partition, self._search(partition, step.place, event)):
                changes.make(match)
        if self._plan.trails and step.place == 0:
            self._pushed += 1
            heappush(self._due, (event.ts, self._pushed, key))

    def _retract(self, event: Event, step: PatternStep, key: Key, changes: MatchChanges) -> None:
        partition = self._partitions.get(key)
        if not step.negated:
            if partition is not None and (at := partition.positive[step.place].index(event)) is not None:
                held = partition.positive[step.place].events[at]
                for match in self._not_ruled_out(partition, self._search(partition, step.place, held)):
                    changes.withdraw(match)
                partition.remove(step, event)
            return
        stack = self._negatives(key, step)
        at = stack.index(event)
        if at is not None:
            stack.remove(at)
            for reached in self._reached(key, step):
                for match in self._ruled_out(reached, step, event):
                    changes.make(match)

    def _reached(self, key: Key, step: PatternStep) -> list[StackPartition]:
        """The partitions in which a negative may rule matches out."""
        if step.key is None:
            return list(self._partitions.values())
        partition = self._partitions.get(key)
        return [partition] if partition is not None else []

    def _negatives(self, key: Key, step: PatternStep) -> Stack:
        if step.key is None:
            return self._common[step.slot]
        return self._partition(key).negated[step.slot]

    def _partition(self, key: Key) -> StackPartition:
        found = self._partitions.get(key)
        if found is None:
            found = self._partitions[key] = StackPartition(self._plan)
        return found

    def _search(self, partition: StackPartition, given: int, event: Event) -> Search:
        divides = self._algorithm is Algorithm.PARTITION
        return Search(self._plan, partition, self._schedules[given], given, event, divides, self._work)

    def _ruled_out(self, partition: StackPartition, step: PatternStep, event: Event) -> Iterator[Match]:
        """The matches that only this negative rules out; it is not on its stack."""
        ts, within, last = event.ts, self._plan.within, len(self._plan.steps) - 1
        if step.place <= last and ts >= partition.clock:
            return  # no event is later, so no match spans it
        search = Search(self._plan, partition, self._schedules[-1])
        for place in range(last + 1):
            search.floors[place] = ts + 1 if place >= step.place else ts - within
        search.ceilings[last] = ts + within
        if step.place:
            search.ceilings[step.place - 1] = ts - 1
        for match in self._not_ruled_out(partition, search):
            if self._rules_out(step, event, match):
                yield match

    def _not_ruled_out(self, partition: StackPartition, search: Search) -> Iterator[Match]:
        """The matches of a search that are complete and not ruled out by a negative."""
        plan = self._plan
        if plan.trails and not plan.steps[0].kleene:
            search.ceilings[0] = min(search.ceilings[0], self._emitted - plan.within)
        for match in search.matches():
            if plan.trails and first_of(match).ts > self._emitted - plan.within:
                continue
            if not any(self._is_ruled_out(partition, step, match) for step in plan.negations):
                yield match

    def _is_ruled_out(self, partition: StackPartition, step: PatternStep, match: Match) -> bool:
        stack = self._common[step.slot] if step.key is None else partition.negated[step.slot]
        if not stack.times:
            return False
        first, last = first_of(match).ts, last_of(match).ts
        low, high = last - self._plan.within, first + self._plan.within
        if step.place:
            low = last_of(match[: step.place]).ts + 1
        if step.place < len(match):
            high = first_of(match[step.place :]).ts - 1
        return any(self._rules_out(step, event, match) for event in stack.between(low, high))

    def _rules_out(self, step: PatternStep, event: Event, match: Match) -> bool:
        """Whether the conditions on a negative hold for it and a match, given that its place in the match is right."""
        places, slot = self._plan.place_of_slot, step.slot
        return all(
            test.test(*[event if each == slot else match[places[each]] for each in test.slots]) for test in step.conditions
        )

    def _complete(self, emitted: int, changes: MatchChanges) -> None:
        """Make the matches whose window has passed by now and that no event so far rules out."""
        before, self._emitted = self._emitted, emitted
        until, seen = emitted - self._plan.within, set()
        while self._due and self._due[0][0] <= until:
            ts, _, key = heappop(self._due)
            partition = self._partitions.get(key)
            if ts <= before - self._plan.within or partition is None or (ts, key) in seen:
                continue
            seen.add((ts, key))
            search = Search(self._plan, partition, self._schedules[-1])
            search.floors = [ts] * len(search.floors)
            if not self._plan.steps[0].kleene:
                search.ceilings[0] = ts
            for match in self._not_ruled_out(partition, search):
                if first_of(match).ts == ts:
                    changes.make(match)

    def _purge(self, final: int) -> None:
        """Forget events that no future change can need, once every quarter of a window. Amortised O(1) per event."""
        upto = final - self._plan.reach
        self._swept = upto + self._plan.within // 4
        for stack in self._common.values():
            stack.purge(upto)
        for key, partition in list(self._partitions.items()):
            partition.purge(upto)
            if not len(partition):
                del self._partitions[key]

    @property
    def held(self) -> int:
        """Events on stacks."""
        return sum(map(len, self._partitions.values())) + sum(map(len, self._common.values()))

    @property
    def keys(self) -> int:
        return len(self._partitions)

    def events(self) -> list[Event]:
        """Every event held, once for each of its roles."""
        stacks = [stack for each in self._partitions.values() for stack in (*each.positive, *each.negated.values())]
        return [event for stack in (*stacks, *self._common.values()) for event in stack.events]

    def check(self) -> None:
        for partition in self._partitions.values():
            partition.check()
