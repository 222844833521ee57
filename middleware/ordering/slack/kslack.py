"""Dynamic K-slack: the local clock of a unit, its slack K, and the allowed lateness beyond which no result is revised.

DEBS'13, section 3.2: clk is the largest occurrence time of the clock types; K is the largest delay seen. An event's delay
is measured when it arrives, and again when the clock next moves; an event that was derived early counts as later by its
K+ (Algorithm 1). The allowed lateness is ours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from itertools import repeat
from math import inf
from typing import Any, ClassVar

from middleware.model.event import END, NEVER, Event
from middleware.model.quantities import Duration, duration_of
from middleware.model.time import SECOND

MOST = 600 * SECOND
"""The default upper bound of a learnt slack, ns."""


class SlackPolicy(ABC):
    """How K follows from the delays of events. Each unit has an instance of its own.

    ``k``
        the present slack, ns.
    ``reach``
        the largest delay to be expected, ns: the allowed lateness follows from it.
    ``learnt``
        the attributes that checkpoints keep; all others are as configured.
    ``counts_late``
        whether events that come too late are measured like all others, as in the paper.
    ``only_earliest``
        whether, of the times that it is given as ``delayed``, the earliest is all that counts: then it may be given that alone.
    """

    learnt: tuple[str, ...] = ()
    counts_late: ClassVar[bool] = False
    only_earliest: ClassVar[bool] = False
    k: int
    reach: int

    @abstractmethod
    def observe(self, clk: int, delayed: list[int], events: Sequence[Event]) -> None:
        """Learn from ``events`` that arrived in time, when the clock was ``clk``.

        ``delayed``: the times (each less its K+) of those events that the clock had already passed. If ``events`` is empty,
        they belong to events observed earlier, measured again because the clock has moved.
        """

    def waited(self, clk: int, ts: int) -> None:
        """Since an event with time ``ts`` arrived, the clock stood still; now it moves to ``clk``."""
        self.observe(clk, [ts], ())

    def missed(self, clk: int, events: Sequence[Event], arrived: Sequence[Event]) -> None:  # noqa: B027  # not all learn
        """Some of the events that ``arrived`` were too late, and are listed: by default, nothing is learnt from them."""


class MaxSlack(SlackPolicy):
    """K is the largest delay ever seen, as in the paper. O(1) a batch."""

    learnt = ("k", "reach")
    counts_late = only_earliest = True

    def __init__(self) -> None:
        self.k = self.reach = 0

    def observe(self, clk: int, delayed: list[int], events: Sequence[Event]) -> None:
        if delayed:
            self.k = self.reach = max(self.k, clk - min(delayed))


class QuantileSlack(SlackPolicy):
    """K is a quantile of the latest delays: bursts are forgotten, and rare long delays are left to speculation.

    ``share`` of the last ``window`` events are at most K late. O(1) per event, and a sort of the window every window / 8.
    """

    learnt = ("k", "reach", "_delays", "_unseen")

    def __init__(self, share: float = 0.999, window: int = 8192, most: Duration = MOST) -> None:
        if not 0 < share <= 1:
            raise ValueError(f"share of events within the slack must be in (0, 1], not {share}")
        self.k = self.reach = 0
        self._share = share
        self._most = duration_of(most, "most")
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
    """A fixed K, as in plain K-slack: ``"50ms"``, a timedelta, or ns."""

    only_earliest = True

    def __init__(self, k: Duration) -> None:
        self.k = self.reach = duration_of(k, "k")
        if self.k < 0:
            raise ValueError(f"the slack K must be >= 0, not {k!r}")

    def observe(self, clk: int, delayed: list[int], events: Sequence[Event]) -> None:
        """A fixed slack learns nothing."""


@dataclass(frozen=True, init=False)
class Lateness:
    """The allowed lateness: a unit revises results up to max(factor * K, floor) behind clk.

    ``floor`` is a duration: ``"5s"``, a timedelta, or ns. ``Lateness(1, 0)`` is the paper's setting (lateness = K). Without a
    floor, nothing is final until a delay is measured.
    """

    factor: float
    floor: int

    def __init__(self, factor: float = 2.0, floor: Duration = SECOND) -> None:
        object.__setattr__(self, "factor", factor)
        object.__setattr__(self, "floor", duration_of(floor, "floor"))
        if not 1 <= factor < inf or self.floor < 0:
            raise ValueError(f"a lateness needs factor >= 1 and floor >= 0, not {factor!r} and {floor!r}")

    def of(self, k: int) -> int:
        """The allowed lateness for slack ``k``, ns. Never below ``k``."""
        return max(int(self.factor * k), self.floor, k)


class LocalClock:
    """clk and K of one unit.

    ``clk``
        largest occurrence time of the clock types so far; NEVER before the first.
    ``within``
        upper bound of K, ns: what is final is emitted, whatever delays were seen.
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
        """Measure the delays of new events; ``delayed``: the times (each less its K+) of those that the clock has passed."""
        if self.clk != NEVER and (delayed or events):
            self.policy.observe(self.clk, delayed, events)

    def miss(self, events: Sequence[Event], arrived: Sequence[Event]) -> None:
        """Tell the policy that some of the events that arrived were too late."""
        if self.clk != NEVER:
            self.policy.missed(self.clk, events, arrived)

    def tick(self, first: int, last: int, hold: bool = False) -> None:
        """Move the clock to ``last``, by events of the clock types; ``first`` is the earliest of them beyond clk.

        With ``hold``, it moves only at the next tick without: so all pieces of one arrival see the same clock.
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
        """Make the move of the clock that was held, if there is one."""
        if self._held is not None:
            self.tick(*self._held)

    def pend(self, delayed: list[int]) -> None:
        """Note events that arrived since the clock last moved: their delay is measured again at its next move."""
        if delayed:
            self._pending = min(delayed) if self._pending is None else min(self._pending, *delayed)

    def state(self) -> dict[str, Any]:
        """clk, what is pending, and all that the policy has learnt, as plain values. To be called between two batches."""
        policy = {name: copy(getattr(self.policy, name)) for name in self.policy.learnt}
        return {"clk": self.clk, "within": self.within, "pending": self._pending, "policy": policy}

    def restore(self, state: dict[str, Any]) -> None:
        """Become the clock that gave ``state``. The state of a policy of another kind is ignored."""
        self.clk, self.within, self._pending = state["clk"], state["within"], state["pending"]
        if tuple(state["policy"]) == self.policy.learnt:
            for name, value in state["policy"].items():
                own = getattr(self.policy, name)
                setattr(self.policy, name, deque(value, own.maxlen) if isinstance(own, deque) else copy(value))

    def mark(self, clock: int) -> None:
        """Take a clock mark from outside: events with this time exist elsewhere.

        Events that arrived before it are not measured again: others kept the clock moving when they arrived.
        """
        if clock > self.clk:
            self.clk = clock
            self._pending = None
