"""Constructs exactly the matches that hold an event that came or went, or that time has completed.

A depth-first search down the RIP pointers, from the last step to the first (Wu, Diao, Rizvi, SIGMOD 2006, section 4.2). A given
event and time bounds narrow every step; a condition is checked as soon as everything it reads is bound. The core has the
same schedules; ``Search`` is for study (see ``Algorithm``).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any, NamedTuple

from detectors.language.code import Made
from detectors.sequence.algorithm import ScanWork
from detectors.sequence.planning.sequence_plan import Condition, SequencePlan
from detectors.sequence.strategies.matches import Match, first_of, last_of
from detectors.sequence.strategies.stacks import Stack, StackPartition
from middleware.model.event import MAX_TS, MIN_TS, Event

Test = tuple[Made, tuple[int, ...]]
"""A condition and the places of the events it reads."""


class Schedule(NamedTuple):
    """The conditions of one kind of search, by place: checked when it is bound and, for Kleene steps, event by event."""

    at: tuple[tuple[Test, ...], ...]
    stepwise: tuple[tuple[Test, ...], ...]


Places = list[tuple[Condition, ...]]


def schedules(plan: SequencePlan) -> list[Schedule]:
    """The schedule for each place whose event may be given; the last one is for no given event. O(steps * conditions)."""

    def tests(places: Places) -> tuple[tuple[Test, ...], ...]:
        return tuple(tuple(placed(condition, plan) for condition in conditions) for conditions in places)

    return [Schedule(tests(at), tests(stepwise)) for at, stepwise in scheduled(plan)]


def scheduled(plan: SequencePlan) -> list[tuple[Places, Places]]:
    """The conditions of each schedule, by place: those to check when it is bound, and those to check event by event."""
    return [_scheduled(plan, given) for given in (*range(len(plan.steps)), None)]


def _scheduled(plan: SequencePlan, given: int | None) -> tuple[Places, Places]:
    count = len(plan.steps)
    order = [place for place in reversed(range(count)) if place != given or plan.steps[place].kleene]
    known = set(range(count)) - set(order)
    waiting = list(plan.conditions)
    at: Places = [()] * count
    stepwise: Places = [()] * count
    for place in order:
        if plan.steps[place].kleene:
            stepwise[place] = tuple(test for test in waiting if _is_stepwise(test, plan, place, known))
            waiting = [test for test in waiting if test not in stepwise[place]]
        known.add(place)
        at[place] = tuple(test for test in waiting if _places(test, plan) <= known)
        waiting = [test for test in waiting if test not in at[place]]
    return at, stepwise


def _is_stepwise(test: Condition, plan: SequencePlan, place: int, known: set[int]) -> bool:
    return test.is_stepwise(plan.steps[place].slot) and _places(test, plan) <= known | {place}


def _places(test: Condition, plan: SequencePlan) -> set[int]:
    return {plan.place_of_slot[slot] for slot in test.slots}


def placed(test: Condition, plan: SequencePlan) -> Test:
    """A condition with the places of the events it reads."""
    return test.test, tuple(plan.place_of_slot[slot] for slot in test.slots)


def due(plan: SequencePlan, place: int) -> tuple[list[Condition], list[Condition]]:
    """The conditions to check when an event is taken for a place, and when the group of the place is complete."""
    step = plan.steps[place]
    places = plan.place_of_slot
    newest = [test for test in plan.conditions if max(places[slot] for slot in test.slots) == place]
    if not step.kleene:
        return newest, []
    return [test for test in newest if test.is_stepwise(step.slot)], [
        test for test in newest if not test.is_stepwise(step.slot)
    ]


class Search:
    """One search for matches in a partition.

    ``given``
        the place whose event (or one of whose events) is ``event``, as it lies on its stack; None if no event is given.
    ``floors``, ``ceilings``
        for each place, the first and the last time (both included) that its events may have.
    ``divides``
        whether it stops at the divider, below which all is outdated; else sequences longer than the window are built, too, and
        filtered out.
    """

    def __init__(
        self,
        plan: SequencePlan,
        partition: StackPartition,
        schedule: Schedule,
        given: int | None = None,
        event: Any = None,
        divides: bool = True,
        work: ScanWork | None = None,
    ) -> None:
        self.floors = [MIN_TS] * len(plan.steps)
        self.ceilings = [MAX_TS] * len(plan.steps)
        self._steps = plan.steps
        self._within = plan.within
        self._stacks: list[Stack] = partition.positive
        self._at, self._stepwise = schedule
        self._given = given
        self._event = event
        self._bound: list[Any] = [None] * len(plan.steps)
        self._low = MIN_TS
        self._divides = divides
        self._work = work or ScanWork()
        self._work.searches += 1
        if given is not None:
            self._give(given, event)

    def _give(self, given: int, event: Event) -> None:
        for place in range(len(self._steps)):
            self.floors[place] = event.ts + 1 if place > given else event.ts - self._within if self._divides else MIN_TS
        if self._divides:
            self.ceilings[-1] = event.ts + self._within
        if not self._steps[given].kleene:
            self._bound[given] = event

    def matches(self) -> Iterator[Match]:
        """Give the matches one by one; the stacks must not change meanwhile."""
        last = len(self._steps) - 1
        return self._grow(last, len(self._stacks[last]))

    def _grow(self, place: int, end: int) -> Iterator[Match]:
        """Bind ``place`` to each fitting instance among the first ``end`` of its stack, and continue below."""
        if place < 0:
            match = tuple(self._bound)
            self._work.constructed += 1
            if self._divides or last_of(match).ts - first_of(match).ts <= self._within:
                yield match
            else:
                self._work.filtered += 1
        elif self._steps[place].kleene:
            yield from self._grow_group(place, end, ())
        elif place == self._given:
            at = self._stacks[place].index(self._event)
            if at is not None and at < end:
                yield from self._bind(place, at)
        else:
            stack = self._stacks[place]
            at = min(end, bisect_right(stack.times, self.ceilings[place])) - 1
            low = self.floors[place] if place == len(self._steps) - 1 else max(self.floors[place], self._low)
            while at >= 0 and stack.times[at] >= low:
                yield from self._bind(place, at)
                at -= 1

    def _bind(self, place: int, at: int) -> Iterator[Match]:
        stack = self._stacks[place]
        self._bound[place] = stack.events[at]
        if place == len(self._steps) - 1 and self._divides:
            self._low = stack.times[at] - self._within
        if self._hold(self._at[place]):
            yield from self._grow(place - 1, self._below(place, at))

    def _below(self, place: int, at: int) -> int:
        """How many instances of the stack below are earlier than this one, which is where its RIP points."""
        return self._stacks[place].rips[at] - self._stacks[place - 1].purged if place else 0

    def _hold(self, tests: tuple[Test, ...]) -> bool:
        bound = self._bound
        return all(test(*[bound[place] for place in places]) for test, places in tests)

    def _grow_group(self, place: int, end: int, group: tuple[Event, ...]) -> Iterator[Match]:
        """Extend a group at its front by each fitting instance; with each group continue below, and extend it further."""
        stack, is_last = self._stacks[place], place == len(self._steps) - 1
        must = place == self._given and not any(event is self._event for event in group)
        at = min(end, bisect_right(stack.times, self.ceilings[place])) - 1
        while at >= 0:
            ts, event = stack.times[at], stack.events[at]
            low = self.floors[place] if is_last and not group else max(self.floors[place], self._low)
            if ts < low or (must and ts < self._event.ts):
                return
            if is_last and not group and self._divides:
                self._low = ts - self._within
            self._bound[place] = (event, *group[:1])
            if self._hold(self._stepwise[place]):
                grown = self._bound[place] = (event, *group)
                if (not must or event is self._event) and self._hold(self._at[place]):
                    yield from self._grow(place - 1, self._below(place, at))
                yield from self._grow_group(place, bisect_left(stack.times, ts), grown)
            at -= 1
