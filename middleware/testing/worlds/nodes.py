"""Simulated nodes with detectors: one that keeps a log on a simulated disk and comes back from it, and one that keeps none."""

from __future__ import annotations

import random
from collections.abc import Collection, Hashable, Iterable
from typing import TypeVar, cast

from middleware.change import Batch
from middleware.clock import SECOND
from middleware.durability.core import Core, Doings
from middleware.durability.recovery import Recovered, recover
from middleware.event import EventTypes
from middleware.ordering.hierarchy import Hierarchy
from middleware.pubsub.broker import Broker
from middleware.pubsub.codec import BlockHead, Drops, EventCodec
from middleware.pubsub.effects import Closed, Effects
from middleware.pubsub.ingress import Turned
from middleware.pubsub.journal import Journal, Made, Record, StoodIn
from middleware.pubsub.lasting import LastingBroker
from middleware.pubsub.sources import SourcePolicy
from middleware.pubsub.wire import Parts
from middleware.testing.simulation import Simulation
from middleware.testing.worlds.disk import Disk
from middleware.testing.worlds.said import Claim, Said, claim_of
from middleware.testing.worlds.watch import Watch

_B = TypeVar("_B", bound=Broker)


class _Running:
    """One life of a node: its clock, its detectors, and what was seen of it.

    ``watch``
        sees what it publishes over all its lives. ``rate``: how fast its clock goes, 1 being right.
    """

    broker: Broker
    restless = 0.02
    """Chance of the units' alphas to change in a step."""

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
    ) -> None:
        self.name, self.hierarchy, self.watch = name, hierarchy, watch
        self._simulation = simulation
        self.closed: list[Closed] = []
        self.turned: list[Claim] = []
        """Raw changes that it did not let in, because they came after what was promised for sources that were silent."""
        self._codec, self._random = EventCodec(types), rng
        self._born, self._rate = simulation.now, rate
        self._sources = SourcePolicy(idle=idle)
        self._clock_at_birth = rng.choice([0, simulation.now, 10**15])  # a machine's clock begins anew when it does
        self._calendar = 10**6 * SECOND + simulation.now + rng.choice([0, 0, -3600, 3600]) * SECOND

    def _started(
        self, kind: type[_B], epoch: int, types: EventTypes, peers: Collection[str], journal: Journal | None = None
    ) -> _B:
        """The broker of this life."""
        here = self.hierarchy
        return kind(
            self.name,
            epoch,
            self._local(self._born),
            types=types,
            subscriptions=here.subscriptions,
            publications=here.publications,
            derivations=here.derivations,
            backdate=here.backdate,
            peers=peers,
            journal=journal,
            sources=self._sources,
        )

    @property
    def unlisted(self) -> set[Claim]:
        """Raw changes that were turned away, and that it may not have listed yet."""
        return set()

    def given(self) -> set[Claim]:
        """The changes that its detectors were given, in all its lives."""
        return self._decoded(self.watch.given)

    def _decoded(self, blocks: Iterable[tuple[BlockHead, bytes]]) -> set[Claim]:
        deltas = [self._codec.decode(head, block, Drops()) for head, block in blocks if head.raw]
        return {claim_of(cast(Said, change)) for delta in deltas for change in delta.changes()}

    def _inbox(self) -> list[tuple[BlockHead, bytes]]:
        """What has come in for its detectors since they last ran."""
        return [(head, block) for blocks in self.broker._inbox._blocks.values() for head, block, _ in blocks]

    def leap(self, duration: int) -> None:
        """Its clock steps ahead."""
        self._clock_at_birth += duration

    def close(self) -> None:
        """Begin to leave in order."""
        self.broker.close("stops", self._local(self._simulation.now))

    def receive(self, channel: Hashable, parts: Parts, now: int) -> None:
        """See Endpoint."""
        self.broker.receive(channel, parts, self._local(now))

    def _work(self, local: int) -> list[Batch]:
        """Let the detectors take what has arrived; what they have published."""
        inbox = self._inbox()
        batch = self.broker.take(local)
        if batch is not None:
            self._took(inbox)
            if batch.ground is not None:
                self.watch.go_on()
        results = self.hierarchy.process(batch) if batch is not None else []
        for result in results:
            self.broker.publish(result, local)
        if self._random.random() < self.restless:
            for unit in self.hierarchy.units:
                unit.alpha = self._random.choice([0.0, 0.5, 1.0])
        return results

    def _took(self, blocks: list[tuple[BlockHead, bytes]]) -> None:
        """These were given to the detectors."""
        self.watch.given += blocks

    def _done(self, doings: Doings | Effects) -> list[tuple[Hashable, Parts]]:
        self.closed += doings.closed
        self.turned += map(_turned, doings.turned)
        return doings.sends

    def _local(self, now: int) -> int:
        return self._clock_at_birth + int((now - self._born) * self._rate)


def _turned(turned: Turned) -> Claim:
    return turned.change, turned.source, turned.id, turned.record


class MemoryNode(_Running):
    """One life of a node that keeps no log: the next one knows nothing of it."""

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
    ) -> None:
        super().__init__(simulation, name, types, hierarchy, watch, rng, rate, idle)
        self.broker = self._started(Broker, self._calendar, types, peers)
        simulation.add(self)

    def step(self, now: int) -> list[tuple[Hashable, Parts]]:
        """See Endpoint."""
        local = self._local(now)
        for result in self._work(local):
            self.watch.take(result.deltas, result.progress)
        return self._done(self.broker.settle(local))


class DurableNode(_Running):
    """One life of a node with a log; its watch sees what is stored.

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
    ) -> None:
        super().__init__(simulation, name, types, hierarchy, watch, rng, rate, idle)
        self.disk, self._checkpoint_every = disk, checkpoint_every
        self.journal = Journal(disk.line, disk.read)
        self.journal.oldest = disk.oldest
        disk.epoch = max(disk.epoch + 2**20, self._calendar)
        self._slices = random.Random(disk.epoch)  # of its own: how checkpoints are cut leaves all else as it was drawn
        self.broker: LastingBroker = self._started(LastingBroker, disk.epoch, types, peers, self.journal)
        self.recovered: Recovered
        self.recovered, correction = recover(self.broker, hierarchy, types, disk.checkpoint(), disk.behind_checkpoint())
        self.watch.unstored = [each for each in self.watch.unstored if each[0] <= self.journal.number]
        self.core = Core(self.broker, self.journal, hierarchy, types, self.recovered.turned)
        self.broker.publish(correction, self._local(simulation.now))
        simulation.add(self)

    @property
    def unlisted(self) -> set[Claim]:
        """See above."""
        return set(map(_turned, self.core.unlisted))

    def given(self) -> set[Claim]:
        """See above; also what is not stored yet."""
        return super().given() | self._decoded(block for _, blocks in self.watch.unstored for block in blocks)

    def _took(self, blocks: list[tuple[BlockHead, bytes]]) -> None:
        self.watch.unstored.append((self.journal.number + 1, blocks))  # the record that this step is to be

    def step(self, now: int) -> list[tuple[Hashable, Parts]]:
        """See Endpoint."""
        local = self._local(now)
        sends: list[tuple[Hashable, Parts]] = []
        for record in self.disk.stored(now):
            self._show(record)
            sends += self._done(self.core.stored(record.number, self.disk.oldest))
        self._work(local)
        is_time = self.journal.number % self._checkpoint_every == self._checkpoint_every - 1
        self.core.checkpoint_due |= is_time and not self.core.checkpointing
        doings = self.core.settle(local)
        for write in doings.writes:
            self.disk.write(write, now)
        if self.core.checkpointing and self._slices.random() < 0.5:
            self.disk.write_piece(self.core.go_on(self._slices.randint(1, 4)), now)
        return sends + self._done(doings)

    def _show(self, record: Record) -> None:
        """Let the watch see what a stored record has taken and made."""
        while self.watch.unstored and self.watch.unstored[0][0] <= record.number:
            self.watch.given += self.watch.unstored.pop(0)[1]
        drops = Drops()
        for entry in record.entries:
            self.watch.stands_in |= type(entry) is StoodIn and bool(entry.progress)
            if type(entry) is Made:
                self.watch.take({entry.head.type: self._codec.decode(entry.head, entry.block, drops)}, {})
