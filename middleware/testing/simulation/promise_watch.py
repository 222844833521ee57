"""Checks the promises of a simulated world as it runs: a watch over one producer, and a sink."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping
from itertools import chain

from middleware.broker.merge import merged
from middleware.delivery.subscription import Arrived, Interruption
from middleware.link.codec import BlockHead, Changes, Commit, Drops, EventCodec, SinkPosition, decode_payload
from middleware.link.columnar import takes_columns
from middleware.link.frames import Parts
from middleware.model.block.block import Block
from middleware.model.change import Delta, Insert
from middleware.model.event import END, IDENTITY, NEVER, ORDER, Event, EventTypes, Identity, type_name
from middleware.model.time import MILLISECOND
from middleware.testing.simulation.applications import Probe, Reading
from middleware.testing.simulation.network import SimulatedSubscriber, Simulation

_RAW = frozenset(map(type_name, (Reading, Probe)))

WORK = 500 * MILLISECOND
"""How long a sink without a mark works on what it got."""


class PromiseError(AssertionError):
    """A final event was changed, or a change took back an event that was not there."""


class Watch:
    """Nets the changes of one producer, and refuses those that break a promise. ``now``: the events that stand, by identity:
    an event that changes its type must be taken back under the old type before it comes under the new one.

    ``stands_in``
        whether its node ever promised for silent publishers. ``has_lived``: whether the node has had a life before.
    ``is_blind``
        it knows that changes are missing, so it cannot judge those that follow. ``given``: the changes that a node's
        detectors were given. ``unstored``: those of steps not stored yet, with the number of their record.
    ``halts``
        by stopped unit: the number of the record, and the time up to which its results are final and stand.
    ``promised``
        by record, the watermark of each type published there.
    ``contested``
        identities that several events share. ``came_first``: those of the events that were admitted.
    """

    def __init__(self, who: str) -> None:
        self.who = who
        self.is_blind = self.stands_in = self.has_lived = False
        self.given: list[tuple[BlockHead, bytes]] = []
        self.unstored: list[tuple[int, list[tuple[BlockHead, bytes]]]] = []
        self.halts: dict[str, tuple[int, int]] = {}
        self.contested: set[Identity] = set()
        self.came_first: dict[Identity, Event] = {}
        self.now: dict[Identity, Event] = {}
        self.watermarks: dict[str, int] = {}
        self.promised: dict[int, dict[str, int]] = {}
        self._never_promised: set[str] = set()

    def take(self, deltas: Mapping[str, Delta], watermarks: Mapping[str, int]) -> None:
        """Take changes, then watermarks. Raises PromiseError."""
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
        for name, until in watermarks.items():
            before = self.watermarks.get(name, NEVER)
            is_open = until == NEVER and name in _RAW  # a raw type may become open again
            if until < before and not is_open and name not in self._never_promised:
                raise PromiseError(f"{self.who}: watermark of {name} went back to {until}")
            self.watermarks[name] = max(before, until)

    def resume(self) -> None:
        """Streams that had ended resume, after all that was final; how far that was need not be announced.

        Events that were withdrawn before the end were never final. O(events that stand).
        """
        ended = {name for name, until in self.watermarks.items() if until == END}
        self._never_promised |= ended
        newest = dict.fromkeys(ended, NEVER)
        for event in self.now.values():
            if (name := type_name(event.__class__)) in ended:
                newest[name] = max(event.ts, newest[name])
        self.watermarks |= newest

    def _remove(self, name: str, event: Event) -> None:
        if self.now.pop(IDENTITY(event), None) != event:
            raise PromiseError(f"{self.who}: took back {event}, which does not stand")
        self._check(name, event)

    def _add(self, name: str, event: Event) -> None:
        if self.now.setdefault(IDENTITY(event), event) is not event:
            raise PromiseError(f"{self.who}: {event} stands already")
        self._check(name, event)

    def _check(self, name: str, event: Event) -> None:
        if event.ts <= self.watermarks.get(name, NEVER):
            raise PromiseError(f"{self.who}: change of {event}, final since {self.watermarks[name]}")


class WatchedSink(SimulatedSubscriber):
    """A final subscription that stores its finals, and watches the early changes, too.

    ``history``: all that it received, as text.
    ``before``: its former life, if it was killed and came back under its name: of the finals stored then, it has the share
    ``copy`` (1: all), and nothing else.
    ``marks``: it stores the mark together with the finals, and commits at once. A sink without marks works on them for a while,
    and commits when it reads again, like a caller of ``receive``; then ``repeated`` holds the finals sent a second time, and
    ``needless`` counts those of them that its former lives had certainly committed.
    ``tables``: it reads its finals as tables. ``lacks``: it knows that changes are missing. ``gave_up``: not only those of a
    stopped detector, so it dropped what it buffered. ``incomplete``: some copy had less than was stored.
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
        marks: bool = True,
        tables: bool = False,
        joins: bool = False,
        before: WatchedSink | None = None,
        copy: float = 1,
    ) -> None:
        self.finals: list[Event] = before.finals[: math.ceil(len(before.finals) * copy)] if before is not None else []
        after = ORDER(self.finals[-1]) if self.finals and marks else None
        super().__init__(simulation, name, node, names, types, final=True, resumes=resumes, after=after, joins=joins)
        self.resumes, self.marks, self.before = resumes, marks, before
        self._reads_tables = tables and takes_columns()
        self.repeated: list[Event] = []
        self.needless = 0
        self._safe: SinkPosition | None = before.safe if before is not None else None
        self._sent = self._safe
        self.lacks: bool = before is not None and before.lacks
        self.gave_up: bool = before is not None and before.gave_up
        self.incomplete: bool = before is not None and (before.incomplete or len(self.finals) < len(before.finals))
        self.watch = Watch(name)
        self.watch.is_blind = joins
        self._generation = 0
        self.history: list[str] = []
        self._codec = EventCodec(types)

    @property
    def violations(self) -> dict[str, int]:
        """Changes to final events."""
        assert self.subscription.barrier is not None
        return dict(self.subscription.barrier.violations)

    def _interrupted(self, interruption: Interruption) -> None:
        super()._interrupted(interruption)
        self.watch.is_blind = self.lacks = True
        self.gave_up |= not interruption.stopped

    def _read(self, arrived: Arrived) -> None:
        for changes, parts in arrived:
            self._look(changes, parts)
        if self._reads_tables:
            tables = self.subscription.tables(arrived)
            made = [Block.of(self._codec.types[name], table).events() for name, table in tables.items()]
            self._store(sorted(chain.from_iterable(made), key=ORDER))
        else:
            self._store([change.event for change in self.subscription.changes(arrived) if isinstance(change, Insert)])
        if self.marks:
            self._commit()

    def step(self, now: int) -> list[tuple[Hashable, Parts]]:
        """See Endpoint."""
        if not self.reading or now < self.busy_until:
            return super().step(now)
        self._commit()
        length = len(self.history)
        sends = super().step(now)
        if len(self.history) > length and not self.marks:
            self.busy_until = now + WORK
        return sends

    def _store(self, finals: list[Event]) -> None:
        if not self.marks and self.finals:
            last = ORDER(self.finals[-1])
            again = [event for event in finals if ORDER(event) <= last]
            self.repeated += again
            self.needless += sum(self._safe is not None and ORDER(event) <= self._safe for event in again)
            finals = [event for event in finals if ORDER(event) > last]
        self.finals += finals

    def _commit(self) -> None:
        if (commit := self.subscription.commit()) is not None:
            self.link.send(commit)
            payload = decode_payload(commit)
            assert isinstance(payload, Commit)
            self._sent = payload.position  # of this life: finals of a former one may not have been committed

    @property
    def safe(self) -> SinkPosition | None:
        """The mark up to which the node certainly knows that this has the finals: it has acknowledged it, so it is stored."""
        return self._sent if self.link.idle else self._safe

    def _look(self, changes: Changes, parts: Parts) -> None:
        """Watch one payload as an early reader sees it."""
        by_type: dict[str, list[Delta]] = {}
        for head, block in zip(changes.blocks, parts[1:], strict=True):
            by_type.setdefault(head.type, []).append(self._codec.decode(head, block, Drops()))
        deltas = {name: merged(same) for name, same in by_type.items()}
        self.history.append(repr((deltas, changes.watermarks or {})))
        if changes.generation != self._generation:
            self._generation = changes.generation
            self.watch.resume()
        self.watch.take(deltas, changes.watermarks or {})
