"""Algorithms 1, 2 and 3 of Li et al. (ICDCSW 2007) as printed, to be studied and measured by themselves.

For plain ``SEQ(E1, ..., Em) WITHIN W``: sequence scan and construction (SSC) over active instance stacks (AIS), window filter
(WD), and purge (PSSC) by the slack K. Events are named and timed as in the paper's figures: type and time stamp, such as a7.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from detectors.sequence.algorithm import Algorithm

Sequence = tuple["Reading", ...]


class Reading(NamedTuple):
    """An event: its type and its time."""

    type: str
    ts: int

    def __str__(self) -> str:
        return f"{self.type.lower()}{self.ts}"


@dataclass(eq=False, slots=True)
class Instance:
    """An active instance: an event on a stack, and the most recent instance in the stack before it (RIP).

    ``number``: how many were put on its stack before it, which is where it lies if they are all appended.
    """

    event: Reading
    rip: Instance | None = None
    number: int = 0

    def __str__(self) -> str:
        return f"{self.event}({self.rip.event if self.rip else ''})"


@dataclass(slots=True)
class Work:
    """What was done, counted: what the figures compare beside processor time.

    ``searched``, ``checked``, ``resets``
        events whose place on a stack was searched; RIPs looked at, and reset.
    ``constructed``, ``filtered``
        sequences that SSC built, and how many of them WD removed: those were built in vain.
    """

    searched: int = 0
    checked: int = 0
    resets: int = 0
    constructed: int = 0
    filtered: int = 0
    purged: int = 0
    most_held: int = 0


@dataclass(slots=True)
class Stack:
    """Instances from bottom to top, and their times."""

    instances: list[Instance] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    purged: int = 0

    def before(self, ts: int) -> Instance | None:
        at = bisect_left(self.times, ts)
        return self.instances[at - 1] if at else None

    @property
    def top(self) -> Instance | None:
        return self.instances[-1] if self.instances else None


class Scan:
    """SSC, WD and PSSC for one query.

    ``slack``
        K, in units of time; None: nothing is ever purged (but TOTAL_ORDER purges by the window alone if ``purges``).
    ``produces``
        whether sequences are constructed at all, or only the stacks (what Figure 6 measures).
    """

    def __init__(
        self,
        types: str,
        within: int,
        algorithm: Algorithm,
        slack: int | None = None,
        purges: bool = True,
        produces: bool = True,
    ) -> None:
        self.stacks = [Stack() for _ in types]
        self.work = Work()
        self.clock = self.ais_clock = -1
        self._steps = {name: step for step, name in enumerate(types)}
        self._within = within
        self._algorithm = algorithm
        self._keeps = 0 if algorithm is Algorithm.TOTAL_ORDER else slack
        self._purges = purges and self._keeps is not None
        self._produces = produces

    def take(self, event: Reading) -> list[Sequence]:
        """Take the next event to arrive; the new results, each within the window."""
        if event.ts > self.clock:
            self.clock = event.ts
            if self._purges:
                self._purge()
        step = self._steps.get(event.type)
        if step is None:
            return []
        scanned = self._scan(step, event)
        if not self._produces:
            self.work.most_held = max(self.work.most_held, self.held)
            return []
        built = list(scanned)
        results = [sequence for sequence in built if sequence[-1].ts - sequence[0].ts <= self._within]
        self.work.constructed += len(built)
        self.work.filtered += len(built) - len(results)
        self.work.most_held = max(self.work.most_held, self.held)
        return results

    @property
    def held(self) -> int:
        """Instances on all stacks."""
        return sum(len(stack.times) for stack in self.stacks)

    def _scan(self, step: int, event: Reading) -> Iterator[Sequence]:
        is_last = step == len(self.stacks) - 1
        if self._algorithm is Algorithm.TOTAL_ORDER:
            if step and not self.stacks[step - 1].times:
                return iter(())  # the state is not active: the event is discarded
            instance = self._append(step, event)
            return self._down(step, instance) if is_last else iter(())
        if self._algorithm is not Algorithm.SORT and event.ts >= self.ais_clock:
            self.ais_clock = event.ts
            instance = self._append(step, event)
            low = event.ts - self._within if self._algorithm is Algorithm.PARTITION else -1  # the divider
            return self._down(step, instance, low) if is_last else iter(())
        self.ais_clock = max(self.ais_clock, event.ts)
        instance = self._sort(step, event)
        self._reset(step, instance)
        return self._through(step, instance)

    def _append(self, step: int, event: Reading) -> Instance:
        """Append semantics: on top; its RIP is the top of the stack before."""
        rip = self.stacks[step - 1].top if step else None
        if rip is not None and rip.event.ts >= event.ts and self._algorithm is not Algorithm.TOTAL_ORDER:
            rip = self.stacks[step - 1].before(event.ts)
        stack = self.stacks[step]
        instance = Instance(event, rip, stack.purged + len(stack.times))
        stack.instances.append(instance)
        stack.times.append(event.ts)
        return instance

    def _sort(self, step: int, event: Reading) -> Instance:
        """Sort semantics: where its time belongs."""
        instance = Instance(event, self.stacks[step - 1].before(event.ts) if step else None)
        stack = self.stacks[step]
        at = bisect_right(stack.times, event.ts)
        self.work.searched += 1
        stack.instances.insert(at, instance)
        stack.times.insert(at, event.ts)
        return instance

    def _reset(self, step: int, instance: Instance) -> None:
        """Check the RIPs in the stack to the right, and reset those that the new instance affects."""
        if step + 1 == len(self.stacks):
            return
        ts = instance.event.ts
        for other in self.stacks[step + 1].instances:
            self.work.checked += 1
            if other.event.ts > ts and (other.rip is None or other.rip.event.ts <= ts):
                other.rip = instance
                self.work.resets += 1

    def _down(self, step: int, instance: Instance, low: int = -1) -> Iterator[Sequence]:
        """All sequences that end with an instance, by depth-first search down the RIPs; none older than ``low``."""
        if step == 0:
            yield (instance.event,)
            return
        if instance.rip is None:
            return
        stack = self.stacks[step - 1]
        if self._algorithm is Algorithm.TOTAL_ORDER:
            at = instance.rip.number - stack.purged
        else:
            at = bisect_right(stack.times, instance.rip.event.ts) - 1
        while at >= 0 and stack.times[at] >= low:
            for sequence in self._down(step - 1, stack.instances[at], low):
                yield (*sequence, instance.event)
            at -= 1

    def _through(self, step: int, instance: Instance) -> Iterator[Sequence]:
        """All sequences that hold an instance: those that end with it, each with those that continue from it."""
        tails = list(self._up(step, instance))
        if tails:
            for head in self._down(step, instance):
                for tail in tails:
                    yield head + tail

    def _up(self, step: int, instance: Instance) -> Iterator[Sequence]:
        if step + 1 == len(self.stacks):
            yield ()
            return
        stack = self.stacks[step + 1]
        for at in range(bisect_right(stack.times, instance.event.ts), len(stack.times)):
            for tail in self._up(step + 1, stack.instances[at]):
                yield (stack.instances[at].event, *tail)

    def _purge(self) -> None:
        """PSSC: forget instances with ts + W + K < CLOCK (Algorithm 3); K is 0 where total order is taken for granted."""
        outdated = self.clock - self._within - (self._keeps or 0)
        for stack in self.stacks:
            count = bisect_left(stack.times, outdated)
            if count:
                del stack.times[:count], stack.instances[:count]
                stack.purged += count
                self.work.purged += count
