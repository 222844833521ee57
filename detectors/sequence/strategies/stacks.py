"""Active instance stacks (Li et al., ICDCSW 2007, section 4): the events that matches are built from, in order of time.

Late events are put where they belong (sort semantics); events in order are put on top without a search (AIS-CLOCK). Each
instance knows the most recent instance before it in the stack of the previous step (RIP), so that building a match never
searches.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise

from detectors.sequence.planning.sequence_plan import PatternStep, SequencePlan
from middleware.model.event import NEVER, Event


class Stack:
    """The instances of one step in order of time.

    ``rips``
        for each instance, how many of the previous step's stack are earlier than it (purged ones counted): the one just below
        that place is its RIP.
    ``purged``
        how many have been forgotten at the bottom.
    """

    __slots__ = ("events", "purged", "rips", "times")

    def __init__(self) -> None:
        self.times: list[int] = []
        self.events: list[Event] = []
        self.rips: list[int] = []
        self.purged = 0

    def __len__(self) -> int:
        return len(self.times)

    def before(self, ts: int) -> int:
        """How many instances are earlier than ``ts``, purged ones counted. O(1) if all are, else O(log n)."""
        times = self.times
        return self.purged + (len(times) if not times or times[-1] < ts else bisect_left(times, ts))

    def add(self, event: Event, rip: int) -> None:
        """Put an event in its place. O(1) on top, else O(n) to move the (few) events above it."""
        ts, times = event.ts, self.times
        at = len(times) if not times or times[-1] <= ts else bisect_right(times, ts)
        times.insert(at, ts)
        self.events.insert(at, event)
        self.rips.insert(at, rip)

    def shift(self, ts: int, by: int) -> None:
        """Reset the RIPs affected by an earlier instance that came (or went) in the previous stack at ``ts``."""
        for at in range(bisect_right(self.times, ts), len(self.times)):
            self.rips[at] += by

    def index(self, event: Event) -> int | None:
        """Where an event lies. O(log n)."""
        for at in range(bisect_left(self.times, event.ts), len(self.times)):
            held = self.events[at]
            if held.ts != event.ts:
                return None
            if held.id == event.id and held.source == event.source:
                return at
        return None

    def remove(self, at: int) -> None:
        del self.times[at], self.events[at], self.rips[at]

    def between(self, first: int, last: int) -> list[Event]:
        """The events with first <= ts <= last."""
        return self.events[bisect_left(self.times, first) : bisect_right(self.times, last)]

    def purge(self, upto: int) -> int:
        """Forget instances with ts <= ``upto``; returns how many."""
        count = bisect_right(self.times, upto)
        if count:
            del self.times[:count], self.events[:count], self.rips[:count]
            self.purged += count
        return count


class StackPartition:
    """The stacks of one key: one for each positive step, and one for each negated component that belongs to it.

    ``clock``
        the largest time on any stack of a positive step (AIS-CLOCK).
    """

    __slots__ = ("_stacks", "clock", "negated", "positive")

    def __init__(self, plan: SequencePlan) -> None:
        self.positive = [Stack() for _ in plan.steps]
        self.negated = {step.slot: Stack() for step in plan.negations if step.key is not None}
        self._stacks = [*self.positive, *self.negated.values()]
        self.clock = NEVER

    def __len__(self) -> int:
        return sum(map(len, self._stacks))

    def add(self, step: PatternStep, event: Event, as_late: bool = False) -> bool:
        """Add an instance of a positive step, and reset the RIPs of the next stack if it is late; returns whether it is.

        ``as_late``: treat it as late, as if there were no AIS-CLOCK.
        """
        stacks, place, ts = self.positive, step.place, event.ts
        stacks[place].add(event, stacks[place - 1].before(ts) if place else 0)
        is_late = as_late or ts < self.clock
        self.clock = max(self.clock, ts)
        if is_late and place + 1 < len(stacks):
            stacks[place + 1].shift(ts, 1)
        return is_late

    def remove(self, step: PatternStep, event: Event) -> None:
        """Remove an instance of a positive step."""
        stack = self.positive[step.place]
        at = stack.index(event)
        if at is not None:
            stack.remove(at)
            if step.place + 1 < len(self.positive):
                self.positive[step.place + 1].shift(event.ts, -1)

    def purge(self, upto: int) -> None:
        """Forget events with ts <= ``upto``: no future change can make them part of a match, or make them rule one out."""
        for stack in self._stacks:
            stack.purge(upto)

    def check(self) -> None:
        """Check every invariant: the order, and each RIP."""
        for place, stack in enumerate(self.positive):
            assert all(one <= other for one, other in pairwise(stack.times)), "a stack is out of order"
            assert [event.ts for event in stack.events] == stack.times
            for ts, rip in zip(stack.times, stack.rips, strict=True):
                assert place == 0 or self.positive[place - 1].before(ts) == rip, "a RIP points elsewhere"
            assert not stack.times or stack.times[-1] <= self.clock
