"""Publishers of a simulated world: what they say and when, what they promise, how they fall silent, crash and come back."""

from __future__ import annotations

import random
from itertools import groupby

import msgspec

from middleware.link.columnar import takes_columns
from middleware.model.change import Insert, Revise
from middleware.model.event import END, Event
from middleware.testing.simulation.network import SimulatedPublisher, Simulation
from middleware.testing.simulation.said import Said, claim_of, low


class SourcePlan(msgspec.Struct):
    """A source: its node, the changes it says in order, whether it promises watermarks, whether it leaves without an end.

    ``kinds``
        the event types it sends. ``offers``: whether it says so beforehand. ``start``: ns after the world began.
    ``silent``
        how long (ns) it says nothing; ``pauses``: after how many changes (0: never).
    ``dies``
        it crashes after this many changes (0: never), comes back after ``away`` ns, and says all again that it does not know
        to be taken, or, if it ``repeats``, all that it ever said.
    ``columns``
        the share of its new events that it sends as columns.
    """

    name: str
    node: str
    kinds: list[type[Event]]
    says: list[Said]
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


class Source:
    """A publisher, and what it has still to say. ``wall``: what its clock shows when the simulation begins, if it has one.

    ``in_columns``: the events that it has published as columns.
    """

    def __init__(self, simulation: Simulation, plan: SourcePlan, wall: int | None = None) -> None:
        self.plan = plan
        self._wall = wall
        self.ended = False
        self.in_columns = 0
        self._simulation = simulation
        self._said = self._taken = self._until = 0
        self._is_mortal, self._has_paused = bool(plan.dies), not plan.pauses
        self._back_at: int | None = None
        self._forms = random.Random(plan.name)
        self._lows = _lows(plan.says)
        self._attach()

    def _attach(self) -> None:
        self.publisher = SimulatedPublisher(
            self._simulation, self.plan.name, self.plan.node, self.plan.kinds if self.plan.offers else [], shares=True
        )
        self.publisher.link.wall = self._wall

    @property
    def attached(self) -> bool:
        """Whether its node knows what it offers."""
        return self.publisher.link.up and self.publisher.idle

    def step(self, rng: random.Random, most: int) -> None:
        """Say a little, then promise a true watermark; at the end, leave or end the stream. Without credit, it waits."""
        plan, now = self.plan, self._simulation.now
        if self._back_at is not None:
            if now < self._back_at:
                return
            self._back_at, self._said = None, 0 if plan.repeats else self._taken
            self._attach()
        if self.publisher.idle:
            self._taken = self._said
        if now < self._until or self.publisher.waiting:
            return
        if self._said < len(plan.says):
            self._say(plan.says[self._said : self._said + rng.randint(1, most)])
        elif not self.ended and self.publisher.idle:
            self._end()
        if plan.promises and not self.ended and self._said < len(plan.says) and (lowest := self._lows[self._said]) != END:
            for kind in plan.kinds:
                self.publisher.advance(kind, lowest - 1)
        if not self._has_paused and self._said >= plan.pauses:
            self._has_paused, self._until = True, now + plan.silent
        if self._is_mortal and self._said >= plan.dies:
            self._is_mortal, self._back_at = False, now + plan.away
            self._simulation.crash(plan.name)

    def _say(self, says: list[Said]) -> None:
        self._said += len(says)
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

    def _end(self) -> None:
        self.ended = True
        if self.plan.leaves:
            self.publisher.link.bye("has said all")
            return
        for kind in self.plan.kinds:
            self.publisher.advance(kind, END)


def _lows(says: list[Said]) -> list[int]:
    """By position, the least time of the changes said for the first time from there on; END if there are none."""
    seen = set()
    lows = []
    for each in says:
        lows.append(END if claim_of(each) in seen else low(each))
        seen.add(claim_of(each))
    for place in range(len(lows) - 2, -1, -1):
        lows[place] = min(lows[place], lows[place + 1])
    return lows
