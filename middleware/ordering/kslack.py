"""Dynamic K-slack: the local clock of a unit, its slack K, and the allowed lateness behind which nothing is revised any more.

DEBS'13, section 3.2: clk is the largest occurrence time of the clock types; K is the largest delay seen, an event's
delay being measured when it arrives and again when the clock next moves; an event that was derived prematurely counts
as later by its K+ (Algorithm 1). Design section 4 adds the allowed lateness.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from copy import copy
from itertools import repeat
from typing import Any, ClassVar

import msgspec

from middleware.model.event import END, NEVER, Event
from middleware.model.time import SECOND

MOST = 600 * SECOND
"""By default no slack that is learnt grows beyond this, ns."""


class SlackPolicy:
    """How K follows from the delays of events. Each unit has an instance of its own.

    ``k``
        the present slack, ns.
    ``reach``
        the largest delay that is to be expected, ns: the allowed lateness rests on it.
    ``learnt``
        the attributes that outlast the process; all others are as configured.
    ``counts_late``
        whether events that come too late are measured as all others are, as in the paper.
    """

    learnt: tuple[str, ...] = ()
    counts_late: ClassVar[bool] = False
    k: int
    reach: int

    def observe(self, clk: int, delayed: list[int], events: Sequence[Event]) -> None:
        """Learn of ``events`` that met the clock ``clk`` and came in time.

        ``delayed`` are the times (each less its K+) of those of them that the clock had passed. Without events, they are
        of events that were told before, and met a clock that has moved since.
        """
        raise NotImplementedError

    def waited(self, clk: int, ts: int) -> None:
        """An event of time ``ts`` had the clock stand still behind it until it moved to ``clk``."""
        self.observe(clk, [ts], ())

    def missed(self, clk: int, events: Sequence[Event], arrived: Sequence[Event]) -> None:
        """Some events of those that ``arrived`` came too late, and are listed: by default they teach nothing."""


class MaxSlack(SlackPolicy):
    """K is the largest delay ever seen, as in the paper. O(1) a batch."""

    learnt = ("k", "reach")
    counts_late = True

    def __init__(self) -> None:
        self.k = self.reach = 0

    def observe(self, clk: int, delayed: list[int], events: Sequence[Event]) -> None:
        if delayed:
            self.k = self.reach = max(self.k, clk - min(delayed))


class QuantileSlack(SlackPolicy):
    """K is a quantile of the last delays: forgets a burst, and leaves the rare rest to speculation.

    ``share`` of the last ``window`` events are at most K late. O(1) an event, and a sort of the window every window / 8.
    """

    learnt = ("k", "reach", "_delays", "_unseen")

    def __init__(self, share: float = 0.999, window: int = 8192, most: int = MOST) -> None:
        if not 0 < share <= 1:
            raise ValueError(f"share of events within the slack must be in (0, 1], not {share}")
        self.k = self.reach = 0
        self._share = share
        self._most = most
        self._delays: deque[int] = deque(maxlen=window)
        self._unseen = 0

    def observe(self, clk: int, delayed: list[int], events: Sequence[Event]) -> None:
        self._delays.extend([clk - ts for ts in delayed])
        self._delays.extend(repeat(0, len(events) - len(delayed)))
        self._unseen += len(events)
        if self._unseen >= len(self._delays) // 8:
            self._unseen = 0
            ranked = sorted(self._delays)
            self.k = self.reach = min(max(0, ranked[min(int(self._share * len(ranked)), len(ranked) - 1)]), self._most)


class FixedSlack(SlackPolicy):
    """K is given, as in plain K-slack."""

    def __init__(self, k: int) -> None:
        if k < 0:
            raise ValueError(f"the slack K must be >= 0 ns, not {k}")
        self.k = self.reach = k

    def observe(self, clk: int, delayed: list[int], events: Sequence[Event]) -> None:
        """A fixed slack learns nothing."""


class Lateness(msgspec.Struct, frozen=True):
    """How far behind clk a unit still revises: max(factor * K, floor).

    ``Lateness(1, 0)`` is the paper's setting (lateness = K). With no floor, nothing is final before a delay was measured.
    """

    factor: float = 2.0
    floor: int = SECOND

    def __post_init__(self) -> None:
        if self.factor < 1 or self.floor < 0:
            raise ValueError(f"a lateness needs factor >= 1 and floor >= 0 ns, not {self.factor} and {self.floor}")

    def of(self, k: int) -> int:
        """The allowed lateness for slack ``k``, ns. Never below ``k``."""
        return max(int(self.factor * k), self.floor, k)


class LocalClock:
    """clk and K of one unit.

    ``clk``
        largest occurrence time of the clock types so far; NEVER before the first.
    ``within``
        K is no longer than this: what is final is emitted, whatever delays were seen.
    """

    __slots__ = ("_held", "_pending", "clk", "policy", "within")

    def __init__(self, policy: SlackPolicy) -> None:
        self.policy = policy
        self.clk = NEVER
        self.within = END
        self._held: tuple[int, int] | None = None
        self._pending: int | None = None  # earliest event since clk last moved: its delay is measured when clk moves

    @property
    def k(self) -> int:
        k, within = self.policy.k, self.within
        return k if k < within else within

    def arrive(self, delayed: list[int], events: Sequence[Event]) -> None:
        """Measure the delays of new events: ``delayed`` are the times (each less its K+) of all that the clock has passed."""
        if self.clk != NEVER and (delayed or events):
            self.policy.observe(self.clk, delayed, events)

    def miss(self, events: Sequence[Event], arrived: Sequence[Event]) -> None:
        """Some events of those that arrived came too late."""
        if self.clk != NEVER:
            self.policy.missed(self.clk, events, arrived)

    def tick(self, first: int, last: int, hold: bool = False) -> None:
        """Move the clock, by events of its types from ``first`` (the first beyond clk) to ``last``.

        With ``hold`` it moves at the next tick without: what comes in several pieces at once meets one clock.
        """
        if self._held is not None:
            first, last = min(first, self._held[0]), max(last, self._held[1])
            self._held = None
        if hold:
            self._held = first, last
            return
        if self._pending is not None:
            self.policy.waited(first, self._pending)
            self._pending = None
        self.clk = last

    def release(self) -> None:
        """Move the clock by what was held, if anything was."""
        if self._held is not None:
            self.tick(*self._held)

    def pend(self, delayed: list[int]) -> None:
        """Note events that arrived since the clock last moved: their delay is measured again when it does."""
        if delayed:
            self._pending = min(delayed) if self._pending is None else min(self._pending, *delayed)

    def state(self) -> dict[str, Any]:
        """clk, what is pending, and all that the policy has learnt, as plain values. To be taken between two batches."""
        policy = {name: copy(getattr(self.policy, name)) for name in self.policy.learnt}
        return {"clk": self.clk, "within": self.within, "pending": self._pending, "policy": policy}

    def restore(self, state: dict[str, Any]) -> None:
        """Become the clock that gave ``state``. What a policy of another kind had learnt is of no use to this one."""
        self.clk, self.within, self._pending = state["clk"], state.get("within", END), state["pending"]
        if tuple(state["policy"]) == self.policy.learnt:
            for name, value in state["policy"].items():
                own = getattr(self.policy, name)
                setattr(self.policy, name, deque(value, own.maxlen) if isinstance(own, deque) else copy(value))

    def mark(self, clock: int) -> None:
        """Take a clock mark from outside: events this old exist elsewhere.

        What arrived before it has met a clock that others kept moving: its delay needs no second look.
        """
        if clock > self.clk:
            self.clk = clock
            self._pending = None
