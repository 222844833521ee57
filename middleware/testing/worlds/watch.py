"""Those who hold a simulated world to its promises: a watch over one producer, and a sink."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from middleware.change import Delta, Insert
from middleware.event import IDENTITY, NEVER, ORDER, Event, EventTypes, Identity
from middleware.pubsub.codec import BlockHead, Changes, Drops, EventCodec
from middleware.pubsub.merge import merged
from middleware.pubsub.subscription import Arrived, Interruption
from middleware.pubsub.wire import Parts
from middleware.testing.simulation import SimulatedSubscriber, Simulation


class PromiseError(AssertionError):
    """Someone changed what was final, or took back what was never there."""


class Watch:
    """Nets the changes of one producer, and refuses those that break a promise. ``now``: what stands, by type and identity.

    ``is_blind``
        it was told that changes are missing, and cannot judge those that follow. ``given``: what a node's detectors
        were given. ``unstored``: the same in steps that are not stored, with the number of their record.
    """

    def __init__(self, who: str) -> None:
        self.who = who
        self.is_blind = False
        self.given: list[tuple[BlockHead, bytes]] = []
        self.unstored: list[tuple[int, list[tuple[BlockHead, bytes]]]] = []
        self.now: dict[tuple[str, Identity], Event] = {}
        self.progress: dict[str, int] = {}

    def take(self, deltas: Mapping[str, Delta], progress: Mapping[str, int]) -> None:
        """Take changes, then promises. Raises PromiseError."""
        if self.is_blind:
            return
        for name, delta in deltas.items():
            for event in delta.retracts:
                self._remove(name, event)
        for name, delta in deltas.items():
            for old, new in delta.revises:
                self._remove(name, old)
                self._add(name, new)
            for event in delta.inserts:
                self._add(name, event)
        for name, until in progress.items():
            if until < self.progress.get(name, NEVER):
                raise PromiseError(f"{self.who}: progress of {name} went back to {until}")
            self.progress[name] = until

    def _remove(self, name: str, event: Event) -> None:
        if self.now.pop((name, IDENTITY(event)), None) != event:
            raise PromiseError(f"{self.who}: took back {event}, which does not stand")
        self._check(name, event)

    def _add(self, name: str, event: Event) -> None:
        if self.now.setdefault((name, IDENTITY(event)), event) is not event:
            raise PromiseError(f"{self.who}: {event} stands already")
        self._check(name, event)

    def _check(self, name: str, event: Event) -> None:
        if event.ts <= self.progress.get(name, NEVER):
            raise PromiseError(f"{self.who}: change of {event}, final since {self.progress[name]}")


class Sink(SimulatedSubscriber):
    """A final subscription that stores what it gets together with the mark, and watches the early changes that come by.

    ``history``: all that it was told, as text.
    ``before``: its former life, if it was killed and goes on under its name: of what that one has stored so much is there as
    its ``copy`` has (1: all), and nothing else that it knew.
    ``lacks``: it was told that changes are missing. ``incomplete``: some copy had less than was there.
    """

    def __init__(
        self,
        simulation: Simulation,
        name: str,
        node: str,
        names: Collection[str],
        types: EventTypes,
        *,
        resumes: bool = False,
        before: Sink | None = None,
        copy: float = 1,
    ) -> None:
        self.finals: list[Event] = before.finals[: math.ceil(len(before.finals) * copy)] if before is not None else []
        after = ORDER(self.finals[-1]) if self.finals else None
        super().__init__(simulation, name, node, names, types, final=True, resumes=resumes, after=after)
        self.resumes, self.before = resumes, before
        self.lacks: bool = before is not None and before.lacks
        self.incomplete: bool = before is not None and (before.incomplete or len(self.finals) < len(before.finals))
        self.watch = Watch(name)
        self.history: list[str] = []
        self._codec = EventCodec(types)

    @property
    def violations(self) -> dict[str, int]:
        """Changes to what was final."""
        assert self.subscription.barrier is not None
        return dict(self.subscription.barrier.violations)

    def _interrupted(self, interruption: Interruption) -> None:
        super()._interrupted(interruption)
        self.watch.is_blind = self.lacks = True

    def _read(self, arrived: Arrived) -> None:
        for changes, parts in arrived:
            self._look(changes, parts)
        self.finals += [change.event for change in self.subscription.changes(arrived) if isinstance(change, Insert)]
        if (passed := self.subscription.passed()) is not None:
            self.link.send(passed)

    def _look(self, changes: Changes, parts: Parts) -> None:
        """Watch one payload, as an early reader would see it."""
        by_type: dict[str, list[Delta]] = {}
        for head, block in zip(changes.blocks, parts[1:], strict=True):
            by_type.setdefault(head.type, []).append(self._codec.decode(head, block, Drops()))
        deltas = {name: merged(same) for name, same in by_type.items()}
        self.history.append(repr((deltas, changes.progress or {})))
        self.watch.take(deltas, changes.progress or {})
