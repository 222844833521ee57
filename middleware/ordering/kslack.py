"""Dynamic K-slack: the local clock of a unit, its slack K, and the horizon behind which nothing is revised any more.

DEBS'13, section 3.2: clk is the largest occurrence time of the clock types; K is the largest delay seen, an event's
delay being measured when it arrives and again when the clock next moves; an event that was derived prematurely counts
as later by its K+ (Algorithm 1). Design section 4 adds the horizon.
"""

from __future__ import annotations

from collections import deque
from itertools import repeat
from typing import Any, Protocol

import msgspec

from middleware.clock import SECOND
from middleware.event import NEVER


class SlackPolicy(Protocol):
    """How K follows from the delays of events. Each unit has an instance of its own.

    A class may name its attributes that are ``learnt``: they outlast the process, and all others are as configured. Without,
    all of them do.
    """

    @property
    def k(self) -> int:
        """The present slack, ns."""
        ...

    def observe(self, clk: int, delayed: list[int], count: int) -> None:
        """Learn of ``count`` events that met the clock ``clk``.

        ``delayed`` are the occurrence times (each less its K+) of those that may be late; the others are in time.
        """
        ...


class MaxSlack:
    """K is the largest delay ever seen, as in the paper. O(1) a batch."""

    learnt = ("k",)

    def __init__(self) -> None:
        self.k = 0

    def observe(self, clk: int, delayed: list[int], count: int) -> None:
        if delayed:
            self.k = max(self.k, clk - min(delayed))


class QuantileSlack:
    """K is a quantile of the last delays: forgets a burst, and leaves the rare rest to speculation.

    ``share`` of the last ``window`` events are at most K late. O(1) an event, and a sort of the window every window / 8.
    """

    learnt = ("k", "_delays", "_unseen")

    def __init__(self, share: float = 0.999, window: int = 8192) -> None:
        if not 0 < share <= 1:
            raise ValueError(f"share of events within the slack must be in (0, 1], not {share}")
        self.k = 0
        self._share = share
        self._delays: deque[int] = deque(maxlen=window)
        self._unseen = 0

    def observe(self, clk: int, delayed: list[int], count: int) -> None:
        self._delays.extend([clk - ts for ts in delayed])
        self._delays.extend(repeat(0, count - len(delayed)))
        self._unseen += count
        if self._unseen >= len(self._delays) // 8:
            self._unseen = 0
            ranked = sorted(self._delays)
            self.k = max(0, ranked[min(int(self._share * len(ranked)), len(ranked) - 1)])


class FixedSlack:
    """K is given, as in plain K-slack."""

    learnt = ()

    def __init__(self, k: int) -> None:
        if k < 0:
            raise ValueError(f"the slack K must be >= 0 ns, not {k}")
        self.k = k

    def observe(self, clk: int, delayed: list[int], count: int) -> None:
        """A fixed slack learns nothing."""


class Horizon(msgspec.Struct, frozen=True):
    """How far behind clk a unit still revises: max(factor * K, floor).

    ``Horizon(1, 0)`` is the paper's setting (horizon = K). With no floor, nothing is final before a delay was measured.
    """

    factor: float = 2.0
    floor: int = SECOND

    def __post_init__(self) -> None:
        if self.factor < 1 or self.floor < 0:
            raise ValueError(f"a horizon needs factor >= 1 and floor >= 0 ns, not {self.factor} and {self.floor}")

    def of(self, k: int) -> int:
        """The horizon for slack ``k``, ns. Never below ``k``."""
        return max(int(self.factor * k), self.floor, k)


class LocalClock:
    """clk and K of one unit.

    ``clk``
        largest occurrence time of the clock types so far; NEVER before the first.
    """

    __slots__ = ("_held", "_pending", "clk", "policy")

    def __init__(self, policy: SlackPolicy | None = None) -> None:
        self.policy: SlackPolicy = policy if policy is not None else MaxSlack()
        self.clk = NEVER
        self._held: tuple[int, int] | None = None
        self._pending: int | None = None  # earliest event since clk last moved: its delay is measured when clk moves

    @property
    def k(self) -> int:
        return self.policy.k

    def arrive(self, delayed: list[int], count: int) -> None:
        """Measure the delays of ``count`` new events: ``delayed`` are the times (each less its K+) of all that may be late."""
        if self.clk != NEVER and (delayed or count):
            self.policy.observe(self.clk, delayed, count)

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
            self.policy.observe(first, [self._pending], 0)
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
        policy = {name: getattr(self.policy, name) for name in self._learnt}
        return {"clk": self.clk, "pending": self._pending, "policy": policy}

    @property
    def _learnt(self) -> tuple[str, ...]:
        return getattr(self.policy, "learnt", tuple(vars(self.policy)))

    def restore(self, state: dict[str, Any]) -> None:
        """Become the clock that gave ``state``. What a policy of another kind had learnt is of no use to this one."""
        self.clk, self._pending = state["clk"], state["pending"]
        if tuple(state["policy"]) == self._learnt:
            for name, value in state["policy"].items():
                own = getattr(self.policy, name)
                setattr(self.policy, name, deque(value, own.maxlen) if isinstance(own, deque) else value)

    def mark(self, clock: int) -> None:
        """Take a clock mark from outside: events this old exist elsewhere.

        What arrived before it has met a clock that others kept moving: its delay needs no second look.
        """
        if clock > self.clk:
            self.clk = clock
            self._pending = None
