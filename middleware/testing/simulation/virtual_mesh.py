"""Several nodes in virtual time: hierarchies that send each other what they publish, over links with delays.

No sockets, no processes, no clock: one thread, one seed, the same run every time. A node that is free takes all that has
arrived, as a real one does, and is busy for as long as its work costs. Links keep the order and lose nothing; runs differ
only in which node is faster. For faults of links and nodes see ``world``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from heapq import heappop, heappush
from random import Random

from middleware.broker.merge import merged
from middleware.model.change import Batch, Delta
from middleware.model.event import NEVER
from middleware.model.time import MILLISECOND
from middleware.ordering.hierarchy import Hierarchy

Delay = Callable[[Random], int]
"""How long a message takes, ns."""

Cost = Callable[[int, int], int]
"""How long a node works (ns) on a step with these numbers of changes in and out."""


def local_network(generator: Random) -> int:
    """A local network: 0.2 ms, rarely some milliseconds (lognormal)."""
    return round(generator.lognormvariate(0, 0.8) * MILLISECOND / 5)


def no_cost(changes_in: int, changes_out: int) -> int:
    """Work takes no time."""
    return 0


class _Reader:
    """A subscriber to types. The watermark of a type is the least of those of its publishers."""

    def __init__(self, subscriptions: frozenset[str]) -> None:
        self.subscriptions = subscriptions
        self._promised: dict[str, dict[str, int]] = {}

    def expect(self, type_name: str, sender: str) -> None:
        """Note that the type may come from this sender, which has promised nothing yet."""
        self._promised.setdefault(type_name, {})[sender] = NEVER

    def promise(self, sender: str, watermarks: Mapping[str, int]) -> None:
        """Take the sender's watermarks."""
        for type_name, until in watermarks.items():
            origins = self._promised.setdefault(type_name, {})
            origins[sender] = max(until, origins.get(sender, NEVER))

    def watermarks(self) -> dict[str, int]:
        """The watermarks, by type."""
        return {type_name: min(origins.values()) for type_name, origins in self._promised.items()}


class CollectingSink(_Reader):
    """Takes all that arrives, at once. ``taken``: (virtual time, batch), in order; the batch's watermarks are combined."""

    def __init__(self, types: Collection[str]) -> None:
        super().__init__(frozenset(types))
        self.taken: list[tuple[int, Batch]] = []


class _Node(_Reader):
    """A node, and the batches that have arrived for it."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        super().__init__(hierarchy.subscriptions)
        self.hierarchy = hierarchy
        self.inbox: list[Batch] = []
        self.clock: int | None = None
        self.is_busy = False


class VirtualMesh:
    """See the module.

    ``nodes``
        the hierarchies by node; ``entry`` is the node that gets the raw events.
    ``sinks``
        the subscribers to results, by name.
    ``delay``, ``cost``
        how long messages and work take.
    """

    def __init__(
        self,
        nodes: Mapping[str, Hierarchy],
        entry: str,
        sinks: Mapping[str, CollectingSink],
        generator: Random,
        delay: Delay = local_network,
        cost: Cost = no_cost,
    ) -> None:
        self.now = 0
        self._nodes = {name: _Node(hierarchy) for name, hierarchy in nodes.items()}
        self._sinks, self._entry, self._generator, self._delay, self._cost = dict(sinks), entry, generator, delay, cost
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0
        self._arrival: dict[tuple[str, str], int] = {}
        readers: dict[str, _Reader] = {**self._nodes, **self._sinks}
        for name, reader in readers.items():
            for other, peer in self._nodes.items():
                for type_name in reader.subscriptions & peer.hierarchy.publications:
                    if other != name:
                        reader.expect(type_name, other)

    def feed(self, at: int, batch: Batch) -> None:
        """Raw events with watermarks and clock, to arrive at the entry at virtual time ``at``."""
        self._at(at, lambda: self._fed(batch))

    def run(self) -> None:
        """Run to the end of all that was fed."""
        while self._agenda:
            self.now, _, action = heappop(self._agenda)
            action()

    def _at(self, time: int, action: Callable[[], None]) -> None:
        self._number += 1
        heappush(self._agenda, (time, self._number, action))

    def _fed(self, batch: Batch) -> None:
        """The entry forwards what comes in, as brokers do, and sends the clock mark to everyone."""
        for name, node in self._nodes.items():
            part = _part(batch, node.subscriptions, batch.watermarks, batch.clock)
            if name == self._entry:
                self._arrived(name, self._entry, part)
            else:
                self._send(self._entry, name, part, self.now)

    def _send(self, sender: str, receiver: str, batch: Batch, leaves: int) -> None:
        """Send a batch; each link is first in, first out."""
        link = (sender, receiver)
        arrival = max(leaves + self._delay(self._generator), self._arrival.get(link, 0))
        self._arrival[link] = arrival
        self._at(arrival, lambda: self._arrived(receiver, sender, batch))

    def _arrived(self, receiver: str, sender: str, batch: Batch) -> None:
        if receiver in self._sinks:
            sink = self._sinks[receiver]
            sink.promise(sender, batch.watermarks)
            sink.taken.append((self.now, Batch(batch.deltas, sink.watermarks())))
            return
        node = self._nodes[receiver]
        node.inbox.append(batch)
        node.promise(sender, batch.watermarks)
        if batch.clock is not None:
            node.clock = batch.clock if node.clock is None else max(node.clock, batch.clock)
        if not node.is_busy:
            self._step(receiver)

    def _step(self, name: str) -> None:
        """Process all that has arrived; the results leave when the work is done."""
        node = self._nodes[name]
        if not node.inbox:
            node.is_busy = False
            return
        node.is_busy = True
        arrived, node.inbox = node.inbox, []
        deltas: dict[str, list[Delta]] = {}
        for batch in arrived:
            for type_name, delta in batch.deltas.items():
                deltas.setdefault(type_name, []).append(delta)
        taken = {type_name: net for type_name, same in deltas.items() if (net := merged(same))}
        made = node.hierarchy.process(Batch(taken, node.watermarks(), node.clock))
        work = self._cost(_count(taken.values()), sum(_count(batch.deltas.values()) for batch in made))
        for batch in made:
            self._publish(name, batch, self.now + work)
        self._at(self.now + work, lambda: self._step(name))

    def _publish(self, name: str, batch: Batch, leaves: int) -> None:
        readers: dict[str, _Reader] = {**self._nodes, **self._sinks}
        for other, reader in readers.items():
            part = _part(batch, reader.subscriptions, batch.watermarks)
            if other != name and (part.deltas or part.watermarks):
                self._send(name, other, part, leaves)


def _part(batch: Batch, subscriptions: Collection[str], watermarks: Mapping[str, int], clock: int | None = None) -> Batch:
    subscribed = {name: delta for name, delta in batch.deltas.items() if name in subscriptions}
    return Batch(subscribed, {name: until for name, until in watermarks.items() if name in subscriptions}, clock)


def _count(deltas: Collection[Delta]) -> int:
    return sum(map(len, deltas))
