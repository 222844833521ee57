"""Simulated nodes with detectors: one with a log on a simulated disk, from which it recovers, and one without a log."""

from __future__ import annotations

import random
from collections.abc import Collection, Hashable, Iterable, Iterator
from itertools import groupby
from typing import cast

from middleware.broker.broker import Broker
from middleware.broker.effects import Disconnection, Effects
from middleware.broker.ingress.checks import RejectedEvent
from middleware.broker.ingress.sources import SourcePolicy
from middleware.broker.log.log import Log
from middleware.broker.log.log_records import IdlePromise, LocalBlock, ReceivedPayload, Record
from middleware.durability.durable_core import DurableCore
from middleware.durability.recovery import RecoveryResult, recover
from middleware.link.codec import BlockHead, Drops, EventCodec
from middleware.link.frames import Parts
from middleware.model.change import Batch, Delta
from middleware.model.event import END, IDENTITY, NEVER, EventType, EventTypes
from middleware.model.time import SECOND
from middleware.ordering.hierarchy import Hierarchy
from middleware.testing.simulation.disk import Disk
from middleware.testing.simulation.network import Simulation
from middleware.testing.simulation.promise_watch import Watch
from middleware.testing.simulation.source_changes import Claim, SourceChange, claim_of


class _Running:
    """One life of a node: its clock, its detectors, and what the watch saw of it.

    ``watch``
        sees what the node publishes over all its lives. ``rate``: how fast its clock runs; 1 is right. ``wall``: what its wall
        clock shows when the simulation begins, if it has one.
    """

    broker: Broker
    restless = 0.02
    """Probability that the units' alphas change in a step."""

    def __init__(
        self,
        simulation: Simulation,
        name: str,
        types: EventTypes,
        hierarchy: Hierarchy,
        watch: Watch,
        rng: random.Random,
        rate: float,
        idle: int,
        wall: int | None,
    ) -> None:
        self.name, self.hierarchy, self.watch = name, hierarchy, watch
        self._wall = wall
        self._simulation = simulation
        self.closed: list[Disconnection] = []
        self.rejected: list[RejectedEvent] = []
        """Raw changes that it did not admit."""
        self._codec, self._random = EventCodec(types), rng
        self._born, self._rate = simulation.now, rate
        self._sources = SourcePolicy(idle=idle)
        self._clock_at_birth = rng.choice([0, simulation.now, 10**15])  # a machine's clock starts anew when the machine does
        self._calendar = 10**6 * SECOND + simulation.now + rng.choice([0, 0, -3600, 3600]) * SECOND

    def _started(self, epoch: int, types: EventTypes, peers: Collection[str], log: Log | None = None) -> Broker:
        """The broker of this life."""
        here = self.hierarchy
        broker = Broker(
            self.name,
            epoch,
            self._local(self._born),
            types=types,
            subscriptions=here.subscriptions,
            publications=here.publications,
            derivations=here.derivations,
            backdate=here.backdate,
            peers=peers,
            log=log,
            sources=self._sources,
        )
        self._look_at_clock(broker)
        return broker

    def _look_at_clock(self, broker: Broker) -> None:
        if self._wall is not None:
            broker.wall_is(self._wall + self._simulation.now, self._local(self._simulation.now))

    @property
    def unreported(self) -> list[RejectedEvent]:
        """Raw changes that were rejected, but may not be listed yet."""
        return []

    def given(self) -> set[Claim]:
        """The changes given to its detectors, in all its lives."""
        return self._decoded(self.watch.given)

    def longest_run(self, types: Collection[EventType]) -> int:
        """The most raw events of these types that its detectors were given from one source, none of another in between."""
        given = (event for delta in self._raw(self.watch.given) for event in delta.inserts)
        sources = (event.source for event in given if event.__class__ in types)
        return max((sum(1 for _ in run) for _, run in groupby(sources)), default=0)

    def _decoded(self, blocks: Iterable[tuple[BlockHead, bytes]]) -> set[Claim]:
        return {claim_of(cast(SourceChange, change)) for delta in self._raw(blocks) for change in delta.changes()}

    def _raw(self, blocks: Iterable[tuple[BlockHead, bytes]]) -> Iterator[Delta]:
        return (self._codec.decode(head, block, Drops()) for head, block in blocks if head.raw)

    def _inbox(self) -> list[tuple[BlockHead, bytes]]:
        """The blocks that came in for its detectors since they last ran."""
        return list(self.broker.inbox.blocks())

    def leap(self, duration: int) -> None:
        """Let its clock step ahead."""
        self._clock_at_birth += duration

    def close(self) -> None:
        """Begin to leave in order."""
        self.broker.close("stops", self._local(self._simulation.now))

    def receive(self, channel: Hashable, parts: Parts, now: int) -> None:
        """See Endpoint."""
        self.broker.receive(channel, parts, self._local(now))

    def _work(self, local: int) -> list[Batch]:
        """Let the detectors take what has arrived; returns what they have published."""
        self._look_at_clock(self.broker)
        running = [(unit, unit.watermark) for unit in self.hierarchy.units if unit.halted is None]
        inbox = self._inbox()
        batch = self.broker.take(local)
        if batch is not None:
            if batch.floor is not None:  # streams that had ended resume from there before anything can stop
                running = [(unit, batch.floor if until == END else until) for unit, until in running]
            self._took(inbox)
            if batch.floor is not None:
                self.watch.resume()
        results = self.hierarchy.process(batch) if batch is not None else []
        for result in results:
            self.broker.publish(result, local)
        self._halted({unit.name: watermark for unit, watermark in running if unit.halted is not None})
        if self._random.random() < self.restless:
            for unit in self.hierarchy.units:
                unit.alpha = self._random.choice([0.0, 0.5, 1.0])
        return results

    def _took(self, blocks: list[tuple[BlockHead, bytes]]) -> None:
        """Note blocks given to the detectors."""
        self.watch.given += blocks

    def _halted(self, watermarks: dict[str, int]) -> None:
        """Note the units that have stopped in this step, and their watermarks before."""

    def _done(self, effects: Effects) -> list[tuple[Hashable, Parts]]:
        self.closed += effects.closed
        self.rejected += effects.rejected
        return effects.sends

    def _local(self, now: int) -> int:
        return self._clock_at_birth + int((now - self._born) * self._rate)


class MemoryNode(_Running):
    """One life of a node without a log: the next one knows nothing of it."""

    def __init__(
        self,
        simulation: Simulation,
        name: str,
        peers: Collection[str],
        types: EventTypes,
        hierarchy: Hierarchy,
        watch: Watch,
        rng: random.Random,
        *,
        rate: float = 1.0,
        idle: int = 10 * SECOND,
        wall: int | None = None,
    ) -> None:
        super().__init__(simulation, name, types, hierarchy, watch, rng, rate, idle, wall)
        self.broker = self._started(self._calendar, types, peers)
        simulation.add(self)

    def step(self, now: int) -> list[tuple[Hashable, Parts]]:
        """See Endpoint."""
        local = self._local(now)
        for result in self._work(local):
            self.watch.take(result.deltas, result.watermarks)
        return self._done(self.broker.settle(local))


class DurableNode(_Running):
    """One life of a node with a log; its watch sees only what is stored.

    ``checkpoint_every``: records between checkpoints, 2 or more.
    """

    def __init__(
        self,
        simulation: Simulation,
        name: str,
        peers: Collection[str],
        types: EventTypes,
        hierarchy: Hierarchy,
        watch: Watch,
        rng: random.Random,
        disk: Disk,
        *,
        rate: float = 1.0,
        checkpoint_every: int = 10,
        idle: int = 10 * SECOND,
        wall: int | None = None,
    ) -> None:
        super().__init__(simulation, name, types, hierarchy, watch, rng, rate, idle, wall)
        self.disk, self._checkpoint_every = disk, checkpoint_every
        lacks = disk.examine()
        self.log = Log(disk.line, disk.read)
        self.log.oldest = disk.oldest
        disk.epoch = max(disk.epoch + 2**20, self._calendar)
        self._slices = random.Random(disk.epoch)  # separate: how checkpoints are cut must not change other draws
        self.broker = self._started(disk.epoch, types, peers, self.log)
        self.recovered: RecoveryResult
        self.recovered, correction = recover(self.broker, hierarchy, types, disk.checkpoint(), disk.behind_checkpoint())
        self.watch.unstored = [each for each in self.watch.unstored if each[0] <= self.log.number]
        self._promises_again()
        self._stay_stopped()
        self.core = DurableCore(self.broker, hierarchy, types, self.recovered.rejected)
        if lacks:
            self.broker.lost_log(self.log.offset)
        self.broker.publish(correction, self._local(simulation.now))
        simulation.add(self)

    @property
    def unreported(self) -> list[RejectedEvent]:
        """See above."""
        return self.core.unreported

    def given(self) -> set[Claim]:
        """See above; includes changes not stored yet."""
        return super().given() | self._decoded(block for _, blocks in self.watch.unstored for block in blocks)

    def _promises_again(self) -> None:
        """A replay leads to the promises that readers have: what was promised up to each record stands, an END, too."""
        then, now = self.watch.promised.get(self.log.number), self._promises()
        assert then is None or then == now, f"{self.name}: promised {then} up to record {self.log.number}, after a replay {now}"
        self.watch.promised = {self.log.number: now}

    def _promises(self) -> dict[str, int]:
        promises = self.broker.tracker.for_subscribers
        return {name: promises.values.get(name, NEVER) for name in sorted(self.hierarchy.publications)}

    def _stay_stopped(self) -> None:
        """Units that had stopped by the end of the log have stopped for good. In a replay, a unit may stop sooner; results that
        were final by then stand."""
        number, halts = self.log.number, self.watch.halts
        self.watch.halts = {unit.name: (number, unit.watermark) for unit in self.hierarchy.units if unit.halted is not None}
        stored = {name: halt for name, halt in halts.items() if halt[0] <= number}
        assert stored.keys() <= self.watch.halts.keys(), f"{self.name}: resumes though it had stopped: {sorted(stored)}"
        self.watch.halts |= stored

    def _halted(self, watermarks: dict[str, int]) -> None:
        self.watch.halts |= {name: (self.log.number + 1, until) for name, until in watermarks.items()}

    def _took(self, blocks: list[tuple[BlockHead, bytes]]) -> None:
        self.watch.unstored.append((self.log.number + 1, blocks))  # the record that this step will become

    def step(self, now: int) -> list[tuple[Hashable, Parts]]:
        """See Endpoint."""
        local = self._local(now)
        sends: list[tuple[Hashable, Parts]] = []
        for record in self.disk.stored(now):
            self._show(record)
            sends += self._done(self.core.stored(record.number, self.disk.oldest))
        self._work(local)
        is_time = self.log.number % self._checkpoint_every == self._checkpoint_every - 1
        self.core.checkpoint_due |= is_time and not self.core.checkpointing
        effects, write = self.core.settle(local)
        self.watch.promised[self.log.number] = self._promises()
        if write is not None:
            self.disk.write(write, now)
        if self.core.checkpointing and self._slices.random() < 0.5:
            piece = self.core.resume(self._slices.randint(1, 4))
            assert piece is not None, self.core.faults  # all detectors of the worlds can be saved
            self.disk.write_piece(piece, now)
        return sends + self._done(effects)

    def _show(self, record: Record) -> None:
        """Show the watch what a stored record has received and made."""
        while self.watch.unstored and self.watch.unstored[0][0] <= record.number:
            self.watch.given += self.watch.unstored.pop(0)[1]
        drops = Drops()
        for entry in record.entries:
            self.watch.stands_in |= type(entry) is IdlePromise and bool(entry.watermarks)
            if self.watch.contested and type(entry) is ReceivedPayload and entry.peer[0] == "publisher":
                for head, block in zip(entry.changes.blocks, entry.blocks, strict=True):
                    for event in self._codec.decode(head, block, drops).inserts:
                        if IDENTITY(event) in self.watch.contested:
                            self.watch.came_first.setdefault(IDENTITY(event), event)
            if type(entry) is LocalBlock:
                self.watch.take({entry.head.type: self._codec.decode(entry.head, entry.block, drops)}, {})
