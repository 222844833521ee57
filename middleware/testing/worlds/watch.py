"""Those who hold a simulated world to its promises: a watch over one producer, and a sink that is both early and final."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from middleware.change import Batch, Delta
from middleware.event import IDENTITY, NEVER, ORDER, Event, EventTypes, Identity
from middleware.pubsub.barrier import Barrier
from middleware.pubsub.codec import BlockHead, Changes, Gap, Mark, Passed, Resumed, decode_payload, encode
from middleware.pubsub.cursor import Cursor
from middleware.pubsub.merge import merged
from middleware.pubsub.wire import Parts, payload_size
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
    """A subscriber that takes each payload by itself: nets the early changes, and holds the final ones behind a barrier.

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
        self._after = ORDER(self.finals[-1]) if self.finals else None
        super().__init__(simulation, name, node, names, types, resumes=resumes, after=self._after)
        self.resumes, self.before = resumes, before
        self.lacks: bool = before is not None and before.lacks
        self.incomplete: bool = before is not None and (before.incomplete or len(self.finals) < len(before.finals))
        self.barrier = Barrier(names)
        self.watch = Watch(name)
        self.cursor = Cursor(self._after)
        self.history: list[str] = []

    def _read(self, parts: Parts) -> None:
        payload = decode_payload(parts)
        if isinstance(payload, Gap) or (isinstance(payload, Resumed) and self._is_beyond(payload.mark)):
            self.barrier.forget()  # what stands may have been withdrawn, so none of it is called final any more
            self.cursor.forget()
            self.watch.is_blind = self.lacks = True
        if not isinstance(payload, Changes):
            super()._read(parts)
            return
        by_type: dict[str, list[Delta]] = {}
        for head, block in zip(payload.blocks, parts[1:], strict=True):
            by_type.setdefault(head.type, []).append(self._codec.decode(head, block, self.drops))
        batch = Batch({name: merged(deltas) for name, deltas in by_type.items()}, payload.progress or {})
        self.history.append(repr((batch.deltas, batch.progress)))
        self.watch.take(batch.deltas, batch.progress)
        finals = self.barrier.take(batch)
        self.link.consume(payload_size(parts))
        if self.resumes:
            self.cursor.moved((payload.line, payload.position), batch.deltas.values(), finals, self.barrier)
        self.finals += self.cursor.fresh(finals)  # stored together with the mark, in one transaction
        if self.resumes:
            self.link.send([encode(Passed(payload.line, self.cursor.position, self.cursor.mark))])

    def _is_beyond(self, mark: Mark | None) -> bool:
        """Whether the node knows that there were finals behind those that this sink has, and does not have them any more."""
        return mark is not None and self._after is not None and mark > self._after
