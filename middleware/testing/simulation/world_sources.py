"""Publishers of a simulated world: what they send and when, what they promise, how they fall silent, crash and come back."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import groupby

import msgspec

from middleware.link.columnar import takes_columns
from middleware.model.change import Insert, Revise
from middleware.model.event import END, Event
from middleware.testing.simulation.network import SimulatedPublisher, Simulation
from middleware.testing.simulation.source_changes import SourceChange, claim_of, earliest_time


class SourcePlan(msgspec.Struct):
    """A source: its node, the changes it says in order, whether it promises watermarks, whether it leaves without an end.

    ``kinds``
        the event types it sends. ``offers``: whether it says so beforehand. ``start``: ns after the world began.
    ``silent``
        how long (ns) it says nothing; ``pauses``: after how many changes (0: never).
    ``dies``
        it crashes after this many changes (0: never), comes back after ``away`` ns, and says all again that it does not know
        to be taken, or, if it ``repeats``, all that it ever sent.
    ``columns``
        the share of its new events that it sends as columns.
    ``after``
        it attaches only once the source of this name has left. ``goes``: once it has ended its types, it leaves. ``lasts``: it
        does not end before all others have. ``tail``: so many of its changes, the last ones, it says only once no other is to
        come, and each has sent something that was taken.
    """

    name: str
    node: str
    kinds: list[type[Event]]
    says: list[SourceChange]
    promises: bool
    leaves: bool
    offers: bool
    start: int = 0
    pauses: int = 0
    silent: int = 0
    dies: int = 0
    away: int = 0
    repeats: bool = False
    columns: float = 0
    after: str = ""
    goes: bool = False
    lasts: bool = False
    tail: int = 0


class WorldSource:
    """A publisher, and what it has still to say. ``wall``: what its clock shows when the simulation begins, if it has one.
    ``others``: all sources of its world, which may have yet to be made.

    ``in_columns``: the events that it has published as columns. ``has_left``: it has ended its types and gone.
    """

    def __init__(
        self, simulation: Simulation, plan: SourcePlan, wall: int | None = None, others: Sequence[WorldSource] = ()
    ) -> None:
        self.plan = plan
        self._wall = wall
        self.ended = self.has_left = False
        self._others = others
        self.in_columns = 0
        self._simulation = simulation
        self._sent = self._furthest = self._taken = self._until = 0
        self._is_mortal, self._has_paused = bool(plan.dies), not plan.pauses
        self._back_at: int | None = None
        self._forms = random.Random(plan.name)
        self._lows = _lows(plan.says)
        self.is_to_come = bool(plan.after)
        if not self.is_to_come:
            self._attach()

    def _attach(self) -> None:
        self.publisher = SimulatedPublisher(
            self._simulation, self.plan.name, self.plan.node, self.plan.kinds if self.plan.offers else [], shares=True
        )
        self.publisher.link.wall = self._wall

    @property
    def attached(self) -> bool:
        """Whether its node knows what it offers."""
        return not self.is_to_come and self.publisher.link.up and self.publisher.idle

    def step(self, rng: random.Random, most: int) -> None:
        """Say a little, then promise a true watermark; at the end, leave or end the stream. Without credit, it waits."""
        plan, now = self.plan, self._simulation.now
        if self.is_to_come:
            self._come()
            return
        if self._back_at is not None:
            if now < self._back_at:
                return
            self._back_at, self._sent = None, 0 if plan.repeats else self._taken
            self._attach()
        if self.publisher.idle:
            self._taken = self._sent
        if now < self._until or self.publisher.waiting or self._holds_back:
            return
        if self._sent < len(plan.says):
            last = len(plan.says) - (plan.tail if self._sent < len(plan.says) - plan.tail else 0)
            self._send(plan.says[self._sent : min(self._sent + rng.randint(1, most), last)])
        elif not self.ended and self.publisher.idle and self._may_end:
            self._end()
        elif plan.goes and self.publisher.idle:
            self._leave()
        if (
            plan.promises
            and not self.ended
            and not self._holds_back
            and self._sent < len(plan.says)
            and (lowest := self._lows[self._sent]) != END
            and not (self._waits_with_its_tail and lowest == self._lows[-plan.tail])  # all else has been sent before
        ):
            for kind in plan.kinds:
                self.publisher.advance(kind, lowest - 1)
        if not self._has_paused and self._sent >= plan.pauses:
            self._has_paused, self._until = True, now + plan.silent
        if self._is_mortal and self._sent >= plan.dies:
            self._is_mortal, self._back_at = False, now + plan.away
            self._simulation.crash(plan.name)

    @property
    def _holds_back(self) -> bool:
        """Whether it waits: as it has just come, until its first words are taken; or at its tail, beyond which it must not
        promise anything either."""
        if self.plan.after and self._sent and not self._taken:
            return True
        return self._waits_with_its_tail and self._sent == len(self.plan.says) - self.plan.tail

    @property
    def _waits_with_its_tail(self) -> bool:
        return bool(self.plan.tail) and not all(other.is_taken for other in self._others if other is not self)

    @property
    def is_taken(self) -> bool:
        """Whether it is here, and its node has taken something that it has sent."""
        return self.ended or self._taken > 0

    def _come(self) -> None:
        """Attach, once the one has left after which this is to come."""
        if any(other.has_left for other in self._others if other.plan.name == self.plan.after):
            self.is_to_come = False
            self._attach()

    @property
    def so_far(self) -> list[SourceChange]:
        """The events that it has sent in all its lives."""
        return self.plan.says[: self._furthest]

    @property
    def _may_end(self) -> bool:
        return not self.plan.lasts or all(other.ended for other in self._others if other is not self)

    def _send(self, says: list[SourceChange]) -> None:
        self._sent += len(says)
        self._furthest = max(self._furthest, self._sent)
        for is_new, group in groupby(says, lambda each: type(each) is Insert):
            if is_new:
                as_columns = takes_columns() and self._forms.random() < self.plan.columns
                events = [each.event for each in group]
                self.in_columns += as_columns * len(events)
                (self.publisher.publish_columns if as_columns else self.publisher.publish)(events)
                continue
            for each in group:
                if type(each) is Revise:
                    self.publisher.revise(each.old, each.event)
                else:
                    self.publisher.retract(each.event)

    def _leave(self) -> None:
        if self.ended and not self.has_left:
            self.has_left = True
            self.publisher.link.bye("has ended its types")

    def _end(self) -> None:
        self.ended = True
        if self.plan.leaves:
            self.publisher.link.bye("has sent all")
            return
        for kind in self.plan.kinds:
            self.publisher.advance(kind, END)


def _lows(says: list[SourceChange]) -> list[int]:
    """By position, the least time of the changes sent for the first time from there on; END if there are none."""
    seen = set()
    lows = []
    for each in says:
        lows.append(END if claim_of(each) in seen else earliest_time(each))
        seen.add(claim_of(each))
    for index in range(len(lows) - 2, -1, -1):
        lows[index] = min(lows[index], lows[index + 1])
    return lows
