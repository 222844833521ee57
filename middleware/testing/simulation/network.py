"""A simulated network for the pure cores: virtual time, a seed, and links that lose, repeat, delay and reorder messages.

The brokers and links that run behind sockets run here. One seed gives one history, so a failure can be replayed.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Protocol

import msgspec

from middleware.broker.broker import Broker
from middleware.broker.effects import Disconnection
from middleware.broker.ingress.sources import SourcePolicy
from middleware.delivery.publication import Frame, Publication
from middleware.delivery.subscription import Arrived, Interruption, Subscription
from middleware.link.codec import EventCodec, OnSlow, SinkPosition
from middleware.link.frames import Parts, Role, decode_frame, payload_size
from middleware.link.link import Link
from middleware.model.block.block import Block
from middleware.model.change import Batch, Insert, grouped
from middleware.model.event import Event, EventTypes
from middleware.model.time import MILLISECOND

TICK = 10 * MILLISECOND
"""Virtual time between two steps of every endpoint."""

_UP = "node"
"""A client's channel to its node."""


class Faults(msgspec.Struct):
    """The network's faults: probabilities from 0 to 1, delays in nanoseconds (drawn evenly, so they reorder messages)."""

    drop: float = 0.0
    duplicate: float = 0.0
    delay_least: int = MILLISECOND
    delay_most: int = MILLISECOND


class Endpoint(Protocol):
    """Something on the network. Only the simulation calls it."""

    name: str

    def receive(self, channel: Hashable, parts: Parts, now: int) -> None:
        """Take a message."""
        ...

    def step(self, now: int) -> list[tuple[Hashable, Parts]]:
        """Let time pass; returns the messages to send, by channel."""
        ...


class Simulation:
    """Endpoints by name, the messages between them, and the virtual time ``now``.

    ``lull``: how far time advances at once while nothing is under way.
    """

    def __init__(self, seed: int, faults: Faults | None = None, lull: int = TICK) -> None:
        self.now = 0
        self._lull, self._is_still = lull, False
        self.faults = faults if faults is not None else Faults()
        self._random = random.Random(seed)
        self._endpoints: dict[str, Endpoint] = {}
        self._life: dict[str, int] = {}
        self._cut: set[frozenset[str]] = set()
        self._paused: dict[str, list[tuple[Hashable, Parts, int]]] = {}
        self._number = 0
        self._under_way: list[tuple[int, int, str, int, Hashable, Parts]] = []

    def add(self, endpoint: Endpoint) -> None:
        """Put an endpoint on the network; an earlier one with its name has crashed, and is replaced."""
        self._endpoints[endpoint.name] = endpoint
        self._life[endpoint.name] = self._life.get(endpoint.name, 0) + 1

    def crash(self, name: str) -> None:
        """Take an endpoint off the network without a goodbye."""
        del self._endpoints[name]
        self._paused.pop(name, None)

    def pause(self, name: str) -> None:
        """Make an endpoint do nothing; messages to it wait."""
        self._paused.setdefault(name, [])

    def resume(self, name: str) -> None:
        """Let a paused endpoint continue."""
        for channel, parts, _ in self._paused.pop(name, []):
            self._endpoints[name].receive(channel, parts, self.now)

    def partition(self, one: str, other: str) -> None:
        """Lose everything between the two until ``heal``."""
        self._cut.add(frozenset((one, other)))

    def heal(self, one: str | None = None, other: str | None = None) -> None:
        """End the partition between the two, or all."""
        if one is None or other is None:
            self._cut.clear()
        else:
            self._cut.discard(frozenset((one, other)))

    def run(self, duration: int, each: Callable[[], None] | None = None) -> None:
        """Let virtual time pass; ``each`` is called once a TICK."""
        self.run_until(lambda: False, duration, each)

    def run_until(self, done: Callable[[], bool], limit: int, each: Callable[[], None] | None = None) -> bool:
        """Let virtual time pass until ``done`` or for ``limit`` nanoseconds; returns whether it was done."""
        end = self.now + limit
        while self.now < end:
            if done():
                return True
            self.now += self._lull if self._is_still and not self._under_way else TICK
            self._is_still = True
            self._deliver()
            if each is not None:
                each()
            for endpoint in [each for name, each in self._endpoints.items() if name not in self._paused]:
                for channel, parts in endpoint.step(self.now):
                    self._is_still = False
                    self._send(endpoint.name, channel, parts)
        return done()

    def _deliver(self) -> None:
        while self._under_way and self._under_way[0][0] <= self.now:
            at, _, target, life, channel, parts = heappop(self._under_way)
            if target in self._endpoints and (life == 0 or life == self._life[target]):
                if target in self._paused:
                    self._paused[target].append((channel, parts, at))
                else:
                    self._endpoints[target].receive(channel, parts, at)

    def _send(self, source: str, channel: Hashable, parts: Parts) -> None:
        """Send a message: the dialling side names its target; the dialled side answers on the channel (dialler, its life)."""
        if isinstance(channel, tuple):
            target, life = channel
            arrives_on: Hashable = source
        else:
            target, life = str(channel), 0
            arrives_on = (source, self._life[source])
        if frozenset((source, target)) in self._cut:
            return
        for _ in range(1 + (self._random.random() < self.faults.duplicate)):
            if self._random.random() >= self.faults.drop:
                self._number += 1
                at = self.now + self._random.randint(self.faults.delay_least, self.faults.delay_most)
                heappush(self._under_way, (at, self._number, target, life, arrives_on, parts))


class SimulatedNode:
    """A broker, and optionally a function in place of detectors. ``derives``: its types; or by type, what it depends on."""

    def __init__(
        self,
        simulation: Simulation,
        name: str,
        peers: Collection[str] = (),
        types: EventTypes | None = None,
        *,
        reads: Collection[str] = (),
        derives: Collection[str] | Mapping[str, Collection[str]] = (),
        process: Callable[[Batch], list[Batch]] | None = None,
        sources: SourcePolicy | None = None,
    ) -> None:
        self.name = name
        self.closed: list[Disconnection] = []
        self.batches: list[Batch] = []
        """The events that the detectors have been given."""
        epoch = simulation.now + 1
        rests = derives if isinstance(derives, Mapping) else {}
        self.broker = Broker(
            name,
            epoch,
            simulation.now,
            types=types,
            subscriptions=reads,
            publications=derives,
            derivations={read: [made for made, below in rests.items() if read in below] for read in reads},
            peers=peers,
            sources=sources,
        )
        self._process = process
        simulation.add(self)

    def receive(self, channel: Hashable, parts: Parts, now: int) -> None:
        """See Endpoint."""
        self.broker.receive(channel, parts, now)

    def step(self, now: int) -> list[tuple[Hashable, Parts]]:
        """See Endpoint."""
        batch = self.broker.take(now)
        if batch is not None:
            self.batches.append(batch)
            for result in self._process(batch) if self._process is not None else ():
                self.broker.publish(result, now)
        effects = self.broker.settle(now)
        self.closed += effects.closed
        return effects.sends


class _SimulatedClient:
    def __init__(self, simulation: Simulation, role: Role, name: str, node: str, greeting: Parts) -> None:
        self.name, self._node = name, node
        self.link = Link(name, role, simulation.now + 1, simulation.now, dials=True, durable=True)
        self.link.greeting = greeting
        simulation.add(self)

    def receive(self, channel: Hashable, parts: Parts, now: int) -> None:
        """See Endpoint."""
        restarts = self.link.restarts
        payload = self.link.receive(decode_frame(parts[0]), parts[1:], now)
        if payload is not None:
            self._take(payload)
        if restarts != self.link.restarts:
            self._restarted()

    def step(self, now: int) -> list[tuple[Hashable, Parts]]:
        """See Endpoint."""
        self.link.tick(now)
        self.link.settle(now)
        sends: list[tuple[Hashable, Parts]] = [(self._node, parts) for parts in self.link.outbox]
        self.link.outbox.clear()
        return sends

    def _take(self, parts: Parts) -> None:
        self.link.consume(payload_size(parts))

    def _restarted(self) -> None:
        """The node has lost what it knew of this link."""


class SimulatedPublisher(_SimulatedClient):
    """Publishes raw events as long as it has credit; the rest waits in ``waiting``, as in a blocked program."""

    def __init__(
        self, simulation: Simulation, name: str, node: str, types: Collection[type[Event]] = (), shares: bool = False
    ) -> None:
        self.waiting: deque[Frame | tuple[type[Event], int]] = deque()
        self._publication = Publication(types)
        super().__init__(simulation, "publisher", name, node, self._publication.greeting)
        self.link.shares = shares

    @property
    def idle(self) -> bool:
        """Whether the node has taken everything."""
        return not self.waiting and self.link.idle

    def publish(self, events: Sequence[Event]) -> None:
        """See Publisher."""
        self.waiting.extend(self._publication.frames(events))

    def publish_columns(self, events: Sequence[Event]) -> None:
        """Publish columns, however few rows they have: see ``Publisher.publish_tables``."""
        import numpy as np

        by_type = grouped(events)
        columns = [Block.from_events(type(delta.inserts[0]), delta.inserts) for delta in by_type.values()]
        arrival_order = [np.array(delta.arrival_order) for delta in by_type.values()] if len(columns) > 1 else None
        self.waiting.extend(self._publication.slices(columns, arrival_order, fewest=1))

    def revise(self, old: Event, new: Event) -> None:
        """See Publisher."""
        self.waiting.append(self._publication.revision(old, new))

    def retract(self, event: Event) -> None:
        """See Publisher."""
        self.waiting.append(self._publication.retraction(event))

    def advance(self, event_type: type[Event], watermark: int) -> None:
        """Promise a watermark, to be sent after all that was published."""
        self.waiting.append((event_type, watermark))

    def step(self, now: int) -> list[tuple[Hashable, Parts]]:
        """See Endpoint."""
        while self.waiting and self.link.has_room:
            first = self.waiting.popleft()
            if isinstance(first, Frame):
                self.link.send(self._publication.payload_of(first if self.link.takes_columns else first.in_rows()))
            else:
                self.link.send(self._publication.promise(*first))
        return super().step(now)

    def _restarted(self) -> None:
        self.link.greeting = self._publication.greeting
        if (retraction_frame := self._publication.restarted()) is not None:
            self.link.send(retraction_frame)


class SimulatedSubscriber(_SimulatedClient):
    """Keeps what it gets. While ``reading`` is off it takes nothing, like a program that hangs on a system that does not.

    ``gaps``: how often changes were missing. ``busy_until``: until then, it works on what it has and takes nothing.
    """

    def __init__(
        self,
        simulation: Simulation,
        name: str,
        node: str,
        patterns: Collection[str],
        types: EventTypes,
        *,
        final: bool = False,
        on_slow: OnSlow = "block",
        resumes: bool = False,
        after: SinkPosition | None = None,
        joins: bool = False,
    ) -> None:
        self.events: list[Event] = []
        self.watermarks: dict[str, int] = {}
        self.gaps = self.busy_until = 0
        self.reading = True
        self.subscription = Subscription(
            sorted(patterns), EventCodec(types), final=final, on_slow=on_slow, resumes=resumes, after=after, joins=joins
        )
        super().__init__(simulation, "subscriber", name, node, self.subscription.greeting)

    @property
    def ready(self) -> bool:
        """Whether all nodes know it."""
        return self.subscription.ready

    @property
    def drops(self) -> dict[str, int]:
        """Events and frames it could not take, by reason; for gaps see above."""
        return {reason: count for reason, count in self.subscription.drops.items() if reason != "interruption"}

    def step(self, now: int) -> list[tuple[Hashable, Parts]]:
        """See Endpoint."""
        while self.reading and now >= self.busy_until and self.subscription.pending:
            arrived, size = self.subscription.take()
            self.link.consume(size)
            for interruption in self.subscription.interruptions:
                self._interrupted(interruption)
            self.subscription.interruptions.clear()
            self._read(arrived)
        return super().step(now)

    def _take(self, parts: Parts) -> None:
        self.subscription.receive(parts)

    def _restarted(self) -> None:
        self.link.greeting = self.subscription.restarted()

    def _interrupted(self, interruption: Interruption) -> None:
        self.gaps += 1

    def _read(self, arrived: Arrived) -> None:
        self.events += [change.event for change in self.subscription.changes(arrived) if isinstance(change, Insert)]
        for changes, _ in arrived:
            self.watermarks = changes.watermarks if changes.watermarks is not None else self.watermarks
