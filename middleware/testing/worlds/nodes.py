"""Simulated nodes with detectors: one that keeps a log on a simulated disk, and comes back from it."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Hashable

from middleware.clock import SECOND
from middleware.durability.core import Core, Doings
from middleware.durability.recovery import Recovered, recover
from middleware.event import IDENTITY, EventTypes, Identity
from middleware.ordering.hierarchy import Hierarchy
from middleware.pubsub.codec import Drops, EventCodec
from middleware.pubsub.effects import Closed
from middleware.pubsub.journal import Journal, Made, Record
from middleware.pubsub.lasting import LastingBroker
from middleware.pubsub.wire import Parts
from middleware.testing.simulation import Simulation
from middleware.testing.worlds.disk import Disk
from middleware.testing.worlds.watch import Watch


class DurableNode:
    """One life of a node with a log. ``watch`` sees what it publishes over all its lives, once that is stored.

    ``rate``
        how fast its clock goes, 1 being right. ``checkpoint_every``: records between checkpoints.
    """

    def __init__(
        self,
        simulation: Simulation,
        name: str,
        peers: Collection[str],
        types: EventTypes,
        hierarchy: Callable[[], Hierarchy],
        disk: Disk,
        watch: Watch,
        rng: random.Random,
        *,
        rate: float = 1.0,
        checkpoint_every: int = 10,
    ) -> None:
        self.name, self.disk, self.watch = name, disk, watch
        self.closed: list[Closed] = []
        self.turned: list[Identity] = []
        """Raw events that it did not let in, because they came after what was promised for sources that were silent."""
        self._codec, self._random = EventCodec(types), rng
        self._born, self._rate, self._checkpoint_every = simulation.now, rate, checkpoint_every
        self._clock_at_birth = rng.choice([0, simulation.now, 10**15])  # a machine's clock begins anew when it does
        self.hierarchy = hierarchy()
        self.journal = Journal(disk.line, disk.read)
        self.journal.oldest = disk.oldest
        calendar = 10**6 * SECOND + simulation.now + rng.choice([0, 0, -3600, 3600]) * SECOND
        disk.epoch = max(disk.epoch + 2**20, calendar)
        self.broker = LastingBroker(
            name,
            disk.epoch,
            self._local(simulation.now),
            types=types,
            subscriptions=self.hierarchy.subscriptions,
            publications=self.hierarchy.publications,
            peers=peers,
            journal=self.journal,
        )
        self.recovered: Recovered
        self.recovered, correction = recover(self.broker, self.hierarchy, types, disk.checkpoint(), disk.behind_checkpoint())
        self.core = Core(self.broker, self.journal, self.hierarchy, types, self.recovered.turned)
        self.broker.publish(correction, self._local(simulation.now))
        simulation.add(self)

    def waiting(self) -> set[Identity]:
        """What has come in, and was not given to the detectors yet."""
        blocks = [block for blocks in self.broker._inbox._blocks.values() for block in blocks]
        deltas = [delta or self._codec.decode(head, block, Drops()) for head, block, delta in blocks]
        return {IDENTITY(event) for delta in deltas for event in delta.inserts}

    def leap(self, duration: int) -> None:
        """Its clock steps ahead."""
        self._clock_at_birth += duration

    def receive(self, channel: Hashable, parts: Parts, now: int) -> None:
        """See Endpoint."""
        self.broker.receive(channel, parts, self._local(now))

    def step(self, now: int) -> list[tuple[Hashable, Parts]]:
        """See Endpoint."""
        local = self._local(now)
        sends: list[tuple[Hashable, Parts]] = []
        for record in self.disk.stored(now):
            self._show(record)
            sends += self._done(self.core.stored(record.number, self.disk.oldest))
        batch = self.broker.take(local)
        if batch is not None:
            for result in self.hierarchy.process(batch):
                self.broker.publish(result, local)
        if self._random.random() < 0.02:
            for unit in self.hierarchy.units:
                unit.alpha = self._random.choice([0.0, 0.5, 1.0])
        self.core.checkpoint_due |= self.journal.number % self._checkpoint_every == self._checkpoint_every - 1
        doings = self.core.settle(local)
        for write in doings.writes:
            self.disk.write(write, now)
        return sends + self._done(doings)

    def _done(self, doings: Doings) -> list[tuple[Hashable, Parts]]:
        self.closed += doings.closed
        self.turned += [(turned.source, turned.id) for turned in doings.turned]
        return doings.sends

    def _local(self, now: int) -> int:
        return self._clock_at_birth + int((now - self._born) * self._rate)

    def _show(self, record: Record) -> None:
        """Let the watch see what a stored record has made."""
        drops = Drops()
        for entry in record.entries:
            if type(entry) is Made:
                self.watch.take({entry.head.type: self._codec.decode(entry.head, entry.block, drops)}, {})
