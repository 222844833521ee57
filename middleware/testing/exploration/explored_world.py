"""One state of an exploration: nodes, their clients and the messages between nodes; what can happen next; what must hold.

Clients and their node exchange messages at once: a frame under way is the same to a node as an act that is yet to be done.
Messages between nodes wait, in order, until a step delivers what one step of the sender has sent. Time passes for all nodes at
once, and only while nothing is under way: messages are faster than the pauses after which links try again. A heartbeat without
news is lost, as any message may be. A lone acknowledgement arrives at once: a later one would only put off acts that follow
from it, and the exploration puts off each act anyway.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from middleware.link.frames import Ack, Hello, Parts, decode_frame
from middleware.model.event import END, NEVER
from middleware.model.time import MILLISECOND, SECOND
from middleware.testing.exploration.digest import digest
from middleware.testing.exploration.exploration_plan import ExplorationPlan
from middleware.testing.exploration.explored_nodes import RAW, BrokenPromise, ExploredNode, as_bound
from middleware.testing.exploration.publishers import ExploredPublisher
from middleware.testing.exploration.subscribers import ExploredSubscriber

Step = tuple[str, ...]
"""A happening: (kind, who, ...)."""

Group = tuple[tuple[Hashable, Parts], ...]
"""A message that one step of a node sends to another: (channel on which it arrives, message)."""

TICK = 100 * MILLISECOND
"""How much time passes with each step: links try again after as much, and no publisher is idle before the plan is over."""

_ROUNDS = 40
"""How many rounds of messages between a publisher and its node, or of a quiet time, may follow from one step."""


class ExploredWorld:
    """See the module. A world never changes: ``after`` returns the next one."""

    def __init__(self, plan: ExplorationPlan) -> None:
        self.plan = plan
        self.now = SECOND
        self.nodes = {
            name: ExploredNode(
                name, [other for other in plan.nodes if other != name], name in plan.readers, name in plan.durable
            )
            for name in plan.nodes
        }
        self.publishers = {each.name: ExploredPublisher(each) for each in plan.publishers}
        self.subscribers = {each.name: ExploredSubscriber(each) for each in plan.subscribers}
        self.wires: dict[tuple[str, str], tuple[Group, ...]] = {}
        self.cuts, self.restarts = plan.cuts, plan.restarts
        self.lost: frozenset[str] = frozenset()
        """Nodes that have lost what they had."""
        self._announced: dict[tuple[str, Hashable], tuple[int, ...]] = {}
        self._own: set[str] = set()
        self._digests: dict[str, int] = {}
        if plan.linked:
            self._link()

    def _link(self) -> None:
        """Let the nodes meet."""
        before = None
        while before != self.digest:
            before = self.digest
            met = self.after(next(step for step in self.steps() if step[0] in ("deliver", "tick")))
            while met.wires:
                met = met.after(next(step for step in met.steps() if step[0] == "deliver"))
            self.__dict__.update(met.__dict__)

    # -- what can happen ----------------------------------------------------------------------------------------------

    def steps(self) -> Iterator[Step]:
        """All that can happen now."""
        for source, target in sorted(self.wires):
            yield "deliver", source, target
        yield from self._steps_of_clients()
        if self.cuts:
            for one in self.plan.nodes:
                for other in self.plan.nodes:
                    if one < other and self._is_up(one, other):
                        yield "cut", one, other
        if self.restarts:
            for name in self.plan.mortal:
                yield "restart", name
        if not self.wires:
            yield ("tick",)

    def _steps_of_clients(self) -> Iterator[Step]:
        for name, publisher in sorted(self.publishers.items()):
            if publisher.link is None:
                after = publisher.plan.after
                if not after or self.publishers[after].has_left:
                    yield "attach", name
            elif publisher.can_act:
                yield "act", name
        for name, subscriber in sorted(self.subscribers.items()):
            if subscriber.can_come:
                yield "come", name
            elif subscriber.can_leave:
                yield "leave", name

    def _is_up(self, one: str, other: str) -> bool:
        peer = self.nodes[one].broker.attachments.peers.get(("node", other))
        return peer is not None and peer.link.up

    def after(self, step: Step) -> ExploredWorld:
        """The world after a step. Raises BrokenPromise if a promise does not hold."""
        world = self._next()
        match step:
            case ("deliver", source, target):
                waiting = world.wires[source, target]
                if len(waiting) > 1:
                    world.wires[source, target] = waiting[1:]
                else:
                    del world.wires[source, target]
                world._arrive(target, waiting[0])
            case ("attach" | "act" | "come" | "leave" as kind, name):
                world._act(kind, name)
            case ("tick",):
                for name in world.plan.nodes:
                    world._run(name)
                for client in world._clients():
                    if client.is_attached:
                        world._talk(client.plan.name)
            case ("cut", one, other):
                world.cuts -= 1
                world._cut(one, other)
            case ("restart", name):
                world.restarts -= 1
                world._restart(name)
        world._check()
        return world

    def _next(self) -> ExploredWorld:
        world = object.__new__(ExploredWorld)
        world.__dict__.update(self.__dict__)
        world.now = self.now + TICK
        world.nodes, world.publishers, world.wires = dict(self.nodes), dict(self.publishers), dict(self.wires)
        world.subscribers = dict(self.subscribers)
        world._announced, world._own, world._digests = dict(self._announced), set(), dict(self._digests)
        return world

    def _node(self, name: str) -> ExploredNode:
        if name not in self._own:
            self.nodes[name] = self.nodes[name].copy()
            self._own.add(name)
            self._digests.pop(name, None)
        return self.nodes[name]

    def _publisher(self, name: str) -> ExploredPublisher:
        if name not in self._own:
            self.publishers[name] = self.publishers[name].copy()
            self._own.add(name)
            self._digests.pop(name, None)
        return self.publishers[name]

    def _subscriber(self, name: str) -> ExploredSubscriber:
        if name not in self._own:
            self.subscribers[name] = self.subscribers[name].copy()
            self._own.add(name)
            self._digests.pop(name, None)
        return self.subscribers[name]

    def _act(self, kind: str, name: str) -> None:
        """A client does something."""
        match kind:
            case "attach":
                self._publisher(name).attach(self.now)
            case "act":
                self._publisher(name).act()
            case "come":
                self._subscriber(name).come(self.now)
            case "leave":
                self._subscriber(name).leave()
        self._talk(name)

    def _clients(self) -> list[ExploredPublisher | ExploredSubscriber]:
        return [*self.publishers.values(), *self.subscribers.values()]

    def _client(self, name: str) -> ExploredPublisher | ExploredSubscriber:
        return self._publisher(name) if name in self.publishers else self._subscriber(name)

    # -- messages -----------------------------------------------------------------------------------------------------

    def _talk(self, name: str) -> None:
        """Let a client and its node exchange messages until both have sent all."""
        client = self._client(name)
        for _ in range(_ROUNDS):
            sends = client.step(self.now)
            if not sends:
                return
            node = self._node(client.plan.node)
            for _, parts in sends:
                node.broker.receive((name, 1), parts, self.now)
            self._run(node.name)
        raise BrokenPromise(f"{name} and its node talk without an end")

    def _run(self, name: str) -> None:
        """A step of a node; what it sends to clients arrives at once."""
        node = self._node(name)
        groups: dict[str, list[tuple[Hashable, Parts]]] = {}
        answers: dict[str, None] = {}
        try:
            sends = node.step(self.now)
        except BrokenPromise as error:
            raise BrokenPromise(f"node {name}: {error}") from None
        for channel, parts in sends:
            if isinstance(channel, tuple) and channel[0] in self.publishers.keys() | self.subscribers.keys():
                client = self._client(channel[0])
                if not client.has_left:
                    client.receive(parts, self.now)
                    answers[channel[0]] = None
            elif self._is_news(name, channel, parts):
                target = str(channel[0] if isinstance(channel, tuple) else channel)
                if not isinstance(channel, tuple) or channel[1] == self.nodes[target].life:
                    arrives = name if isinstance(channel, tuple) else (name, node.life)
                    groups.setdefault(target, []).append((arrives, parts))
        for target, group in groups.items():
            if (name, target) not in self.wires and all(type(decode_frame(parts[0])) is Ack for _, parts in group):
                self._arrive(target, tuple(group))
            else:
                self.wires[name, target] = (*self.wires.get((name, target), ()), tuple(group))
        for answer in answers:
            self._settle(answer)
            self._talk_back(answer)

    def _arrive(self, target: str, group: Group) -> None:
        node = self._node(target)
        for channel, parts in group:
            if not isinstance(channel, tuple) or channel[1] == self.nodes[channel[0]].life:
                node.broker.receive(channel, parts, self.now)
        self._run(target)

    def _talk_back(self, name: str) -> None:
        client = self._client(name)
        sends = client.step(self.now)
        self._settle(name)
        if sends:
            node = self._node(client.plan.node)
            for _, parts in sends:
                node.broker.receive((name, 1), parts, self.now)
            self._run(node.name)

    def _settle(self, name: str) -> None:
        if name in self.publishers:
            publisher = self._publisher(name)
            publisher.settled(self.nodes[publisher.plan.node].floor)

    def _is_news(self, name: str, channel: Hashable, parts: Parts) -> bool:
        """Whether a message is neither a heartbeat without news, nor a greeting that is under way already."""
        frame = decode_frame(parts[0])
        if type(frame) is Hello:
            target = str(channel[0] if isinstance(channel, tuple) else channel)
            return all(parts != other for group in self.wires.get((name, target), ()) for _, other in group)
        if type(frame) is not Ack or frame.missing or frame.asks:
            return True
        announced = (frame.epoch, frame.received, frame.sent)
        key = (name, channel)
        if self._announced.get(key) == announced:
            return False
        self._announced[key] = announced
        return True

    def _cut(self, one: str, other: str) -> None:
        """The channel between two nodes breaks: what is under way is lost."""
        for source, target in ((one, other), (other, one)):
            self.wires.pop((source, target), None)
            node = self._node(source)
            peer = node.broker.attachments.peers.get(("node", target))
            if peer is not None:
                node.broker.disconnected(peer.channel, self.now)
                self._announced.pop((source, peer.channel), None)

    def _restart(self, name: str) -> None:
        """A node crashes and comes back: with its log, or with nothing."""
        node = self._node(name)
        for other in self.plan.nodes:
            if other != name:
                self._cut(*sorted((name, other)))
        for key in [key for key in self._announced if key[0] == name]:
            del self._announced[key]
        node.life += 1
        node.start(self.now)
        if not node.keeps:
            self.lost |= {name}
        for client in self._clients():
            if client.plan.node == name and client.is_attached:
                mine = self._client(client.plan.name)
                assert mine.link is not None
                mine.link.broken()

    # -- what must hold -----------------------------------------------------------------------------------------------

    def _check(self) -> None:
        self._check_rejected()
        for publisher in self.publishers.values():
            if publisher.admitted == END and publisher.acknowledged not in (None, END):
                raise BrokenPromise(
                    f"publisher {publisher.plan.name} is admitted to a type that has ended, and all it says is late"
                )
        attached = [each for each in self.publishers.values() if each.is_attached]
        unended = [each for each in self.publishers.values() if each.has_left and each.promised != END]
        if unended or not attached or any(each.acknowledged is None for each in attached):
            return
        for node in self.nodes.values():
            if node.relay is not None and node.name not in self.lost:
                promises = node.broker.tracker.for_detectors
                if RAW in promises.open or RAW not in promises.values:
                    raise BrokenPromise(f"node {node.name} goes by the clock, though all publishers have promised")

    def _check_rejected(self) -> None:
        """A node takes each event that is newer than its publisher's promises and than all that was final at admission."""
        for node in self.nodes.values():
            for event in node.rejected:
                publisher = self.publishers[event.source]
                at, owed = publisher.sent[event.id]
                if owed is not None and at > owed and node.name not in self.lost:
                    raise BrokenPromise(
                        f"node {node.name} rejects the event of {at} from {event.source} ({as_bound(event.bound)} was"
                        f" promised), which was owed all times after {as_bound(owed)}"
                    )

    def check_end(self) -> None:
        """Nothing more can happen: all have sent all, nothing is missing, and all is final that was promised."""
        for publisher in self.publishers.values():
            after = publisher.plan.after
            if publisher.next is not None and not (after and not self.publishers[after].has_left):
                raise BrokenPromise(f"publisher {publisher.plan.name} waits for ever to {publisher.next}")
        self._check_read()
        attached = [each for each in self.publishers.values() if each.is_attached]
        least = min((each.promised for each in attached), default=END)
        everyone = all(each.promised == END for each in self.publishers.values() if each.has_left)
        for node in self.nodes.values():
            if node.relay is None or node.name in self.lost:
                continue
            for publisher in self.publishers.values():
                rejected = {
                    rejected.id
                    for rejected in self.nodes[publisher.plan.node].rejected
                    if rejected.source == publisher.plan.name
                }
                for number in publisher.sent.keys() - rejected:
                    count = node.relay.given[publisher.plan.name, number]
                    if count != 1 and publisher.plan.node not in self.lost:
                        raise BrokenPromise(f"node {node.name} was given event {number} of {publisher.plan.name} {count} times")
            bound = node.relay.bound if node.relay.bound is not None else NEVER
            if everyone and not self.lost and bound < least:
                raise BrokenPromise(
                    f"node {node.name} waits: its watermark is {as_bound(bound)}, and all have promised {as_bound(least)}"
                )

    def _check_read(self) -> None:
        """A subscriber knows by now whether the event was withdrawn."""
        gone = {(name, number) for name, publisher in self.publishers.items() for number in publisher.withdrawn}
        for name, subscriber in self.subscribers.items():
            if subscriber.is_attached and (wrong := subscriber.stands & gone):
                raise BrokenPromise(f"subscriber {name} never learned that {sorted(wrong)} were withdrawn")

    @property
    def digest(self) -> int:
        """See ``digest``."""
        for name, each in (*self.nodes.items(), *self.publishers.items(), *self.subscribers.items()):
            if name not in self._digests:
                self._digests[name] = digest(each)
        wires = [
            (source, target, [[(str(channel), parts) for channel, parts in group] for group in groups])
            for (source, target), groups in sorted(self.wires.items())
        ]
        announced = sorted((str(key), value) for key, value in self._announced.items())
        return digest([sorted(self._digests.items()), wires, announced, self.cuts, self.restarts])
