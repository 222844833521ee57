"""A simulated world: real brokers, units, logs and recovery of several nodes in one thread, on a network, disks and clocks
that fail as the plan says; and the checks that hold it to what Slackline promises."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Container
from itertools import pairwise

from middleware.clock import MILLISECOND, SECOND
from middleware.event import END, IDENTITY, ORDER, Event, Identity, type_name
from middleware.ordering.hierarchy import Hierarchy
from middleware.pubsub.seen import SeenIds
from middleware.testing.oracle import oracle
from middleware.testing.simulation import SimulatedPublisher, Simulation
from middleware.testing.worlds.applications import TYPES
from middleware.testing.worlds.disk import Disk
from middleware.testing.worlds.nodes import DurableNode
from middleware.testing.worlds.plan import Incident, SourcePlan, WorldPlan
from middleware.testing.worlds.watch import Sink, Watch

LONGEST = 600 * SECOND
"""Virtual time within which a world must have come to its end."""


_HARMLESS = {"duplicate", "frame of an unknown link", "Hello of an old epoch", "late for what was promised"}
"""Drops that lose nothing, and those that are listed."""


class Source:
    """A publisher with what it is still to send."""

    def __init__(self, simulation: Simulation, plan: SourcePlan) -> None:
        self.plan = plan
        self.publisher = SimulatedPublisher(simulation, plan.name, plan.node, [plan.kind] if plan.offers else [])
        self.ended = False
        self._sent = 0

    def step(self, rng: random.Random, most: int) -> None:
        """Publish a batch, then promise what is true; leave in the end, or end the stream."""
        arrivals, publisher = self.plan.arrivals, self.publisher
        if self._sent < len(arrivals):
            batch = arrivals[self._sent : self._sent + rng.randint(1, most)]
            self._sent += len(batch)
            publisher.publish(batch)
        elif not self.ended and publisher.idle:
            self.ended = True
            if self.plan.leaves:
                publisher.link.bye("has said all")
            else:
                publisher.advance(self.plan.kind, END)
        if self.plan.promises and not publisher.waiting and self._sent < len(arrivals):
            publisher.advance(self.plan.kind, min(event.ts for event in arrivals[self._sent :]) - 1)


class World:
    """One world; ``run`` plays its plan to the end, ``check`` holds it to its promises. Both raise AssertionError."""

    def __init__(self, plan: WorldPlan) -> None:
        self.plan = plan
        self.troubles: Counter[str] = Counter()
        self.turned: set[Identity] = set()
        self.simulation = Simulation(plan.seed, plan.network)
        self._random = random.Random(plan.seed + 1)
        self.disks = {name: Disk(number + 1, self._random) for number, name in enumerate(plan.nodes)}
        self.watches = {name: Watch(name) for name in plan.nodes}
        self.nodes: dict[str, DurableNode] = {}
        for name in plan.nodes:
            self.disks[name].latency = plan.latency
            self._start(name)
        self.derived = sorted({type_name(t) for detector in plan.detectors for t in detector.publishes})
        self.sinks = [
            Sink(self.simulation, f"sink{number}", node, self.derived, TYPES, resumes=named)
            for number, (node, named) in enumerate(plan.sinks)
        ]
        self.sources = [Source(self.simulation, source) for source in plan.sources]
        self._loss: Loss | None = None
        self._begun = 0
        self._ahead = list(plan.incidents)
        self._endings: list[tuple[int, Incident]] = []

    def _start(self, name: str) -> None:
        """A life of a node begins."""
        plan = self.plan
        here = [detector for detector, node in plan.place.items() if node == name]
        self.nodes[name] = DurableNode(
            self.simulation,
            name,
            plan.nodes,
            TYPES,
            lambda: Hierarchy(plan.detectors, here, plan.policies),
            self.disks[name],
            self.watches[name],
            self._random,
            rate=plan.rates[name],
            checkpoint_every=plan.checkpoint_every,
        )
        recovered = self.nodes[name].recovered
        assert not recovered.withheld, f"node {name} does not come to the finals that it had"
        self.troubles += Counter(records=recovered.records, again=recovered.events, corrected=recovered.corrected)

    # -- incidents ----------------------------------------------------------------------------------------------------

    def _incidents(self) -> None:
        passed = self.simulation.now - self._begun
        for ending in [each for each in self._endings if each[0] <= passed]:
            self._endings.remove(ending)
            self._end(ending[1])
        while self._ahead and self._ahead[0].at <= passed:
            incident = self._ahead.pop(0)
            if not self._overlaps(incident):
                self._begin(incident)
                self._endings.append((passed + incident.duration, incident))

    def _overlaps(self, incident: Incident) -> bool:
        """Whether its target is in trouble already: one thing at a time. Disks are lost while all nodes are up."""
        if incident.kind == "lose disk" and len(self.nodes) < len(self.plan.nodes):
            return True
        return any({other.target, other.other} & {incident.target} for _, other in self._endings)

    def _begin(self, incident: Incident) -> None:
        if incident.kind == "kill sink" and not self._sink(incident.target).resumes:
            return
        self.troubles[incident.kind] += 1
        target = incident.target
        match incident.kind:
            case "lose disk":
                self._loss = Loss(self, target)
                self._crash(target)
                self.disks[target] = Disk(len(self.plan.nodes) + 1, self._random)
                self.disks[target].latency = self.plan.latency
                for watch in self.watches.values():  # it forgets what it wants of others, and what others want of it,
                    watch.is_blind = True  # so that for a while too little is logged
            case "clock step":
                self.nodes[target].leap(incident.duration)
            case "crash":
                self._crash(target)
            case "partition":
                self.simulation.partition(target, incident.other)
            case "pause":
                self.simulation.pause(target)
            case "full":
                self.disks[target].is_full = True
            case "slow disk":
                self.disks[target].latency = 400 * MILLISECOND
            case "stop reading":
                self._sink(target).reading = False
            case "kill sink":
                self.simulation.crash(target)

    def _end(self, incident: Incident) -> None:
        target = incident.target
        match incident.kind:
            case "crash" | "lose disk":
                self._start(target)
            case "partition":
                self.simulation.heal(target, incident.other)
            case "pause":
                self.simulation.resume(target)
            case "full":
                self.disks[target].is_full = False
            case "slow disk":
                self.disks[target].latency = self.plan.latency
            case "stop reading":
                self._sink(target).reading = True
            case "kill sink" if (killed := self._sink(target)).resumes:
                number = self.sinks.index(killed)
                node = self.plan.sinks[number][0]
                self.sinks[number] = Sink(self.simulation, target, node, self.derived, TYPES, resumes=True, before=killed)
                self.sinks[number].watch.is_blind = self._loss is not None  # who died, too, cannot be told that there is a gap

    def _crash(self, name: str) -> None:
        self.simulation.crash(name)
        self.disks[name].crash()
        self._count(self.nodes.pop(name))

    def _sink(self, name: str) -> Sink:
        return next(sink for sink in self.sinks if sink.name == name)

    # -- the run ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Let everyone meet, then publish while things go wrong, until all streams have ended everywhere."""
        simulation, rng, plan = self.simulation, self._random, self.plan
        assert simulation.run_until(lambda: all(sink.ready for sink in self.sinks), LONGEST), "the nodes never met"
        self._begun = simulation.now

        def step() -> None:
            self._incidents()
            for source in self.sources:
                if simulation.now - self._begun >= source.plan.start and rng.random() < plan.pace:
                    source.step(rng, plan.burst)

        assert simulation.run_until(lambda: self.over, LONGEST, step), "progress never came to the end"
        assert simulation.run_until(lambda: self.quiet, LONGEST), "something is never acknowledged"
        simulation.run(SECOND if self._loss is None else 10 * SECOND)  # a lost word of a gap is said again
        for node in self.nodes.values():
            self._count(node)

    @property
    def over(self) -> bool:
        """Whether every stream has ended everywhere and nothing goes wrong any more."""
        if self._ahead or self._endings:
            return False
        everywhere = all(unit.final == END for node in self.nodes.values() for unit in node.hierarchy.units)
        said = all(source.ended for source in self.sources)
        return said and everywhere and all(sink.barrier.progress == END for sink in self.sinks)

    @property
    def quiet(self) -> bool:
        """Whether nothing is under way any more."""
        brokers = [node.broker for node in self.nodes.values()]
        return all(not p.link.queued_bytes and not p.link.unacked_bytes for b in brokers for p in b.statistics().peers)

    def _count(self, node: DurableNode) -> None:
        self.turned.update(node.turned)
        for record in node.hierarchy.statistics():
            self.troubles += Counter(rollbacks=record.rollbacks, failures=record.failures, revised=record.revised)

    # -- the checks ---------------------------------------------------------------------------------------------------

    @property
    def raw(self) -> list[Event]:
        """All events that sources published."""
        return [event for source in self.plan.sources for event in source.arrivals]

    def late(self) -> dict[str, set[Identity]]:
        """By detector, the raw events that are listed as late."""
        return {
            unit.name: {IDENTITY(entry.event) for entry in unit.ledger}
            for node in self.nodes.values()
            for unit in node.hierarchy.units
        }

    def expected(self, without: Container[Event] = ()) -> list[Event]:
        """What the oracle has, leaving out what is listed by now."""
        late = {name: listed | self.turned for name, listed in self.late().items()}
        results = oracle([event for event in self.raw if event not in without], self.plan.detectors, late)
        return sorted([event for events in results.values() for event in events], key=ORDER)

    def check(self) -> None:
        """Hold the run to everything that Slackline promises; if a disk was lost, to all that it promises then."""
        if self._loss is not None:
            self._loss.check(self)
            return
        for name, node in self.nodes.items():
            for unit in node.hierarchy.units:
                unit._check()
                derived = [entry for entry in unit.ledger if entry.event.level]
                assert not derived, f"a derived event was late at {unit.name}: {derived[:1]}"
                assert unit.statistics().unknown == 0, f"{unit.name}: a retraction of what never came"
            stray = node.broker.drops.keys() - _HARMLESS
            assert not stray, f"node {name} dropped {stray}"
        self.troubles += Counter(late=sum(map(len, self.late().values())), turned=len(self.turned))
        expected = self.expected()
        for sink in self.sinks:
            assert not sink.barrier.violations, f"{sink.name}: {dict(sink.barrier.violations)}"
            assert not sink.drops, f"{sink.name} dropped {dict(sink.drops)}"
            _same(sink.finals, expected, f"finals of {sink.name}")
            net = sorted(sink.watch.now.values(), key=ORDER)
            if sink.before is not None:  # it was told from where it was on: what its former lives had is not in it
                net += [event for event in expected if event not in net and event in sink.before.finals]
                net.sort(key=ORDER)
            _same(net, expected, f"net of the early changes of {sink.name}")

    def history(self) -> list[str]:
        """All that the subscribers were told."""
        return [told for sink in self.sinks for told in sink.history]


class Loss:
    """What is still promised of a world in which a node has lost its disk: what was final by then was right and stays so, no
    final comes twice, readers are told that changes are missing, and all streams come to their end."""

    def __init__(self, world: World, node: str) -> None:
        self._node = node
        self._finals = {sink.name: list(sink.finals) for sink in world.sinks}
        all_seen = []
        for each in world.nodes.values():
            world.turned.update(each.turned, ((turned.source, turned.id) for turned in each.core.unlisted))
            all_seen.append(SeenIds())
            all_seen[-1].restore(each.broker.state()["seen"])
        waiting = {identity for each in world.nodes.values() for identity in each.waiting()}
        new = {
            event for event in world.raw if IDENTITY(event) in waiting or not any(IDENTITY(event) in seen for seen in all_seen)
        }
        self._expected = world.expected(without=new)  # those that come from now on may yet be listed as late
        self._readers = [
            sink.name
            for sink, (at, _) in zip(world.sinks, world.plan.sinks, strict=True)
            if at == node and sink.cursor.place[0]
        ]

    def check(self, world: World) -> None:
        """Hold the run to it. Raises AssertionError."""
        for sink in world.sinks:
            before = self._finals[sink.name]
            _same(before, self._expected[: len(before)], f"finals of {sink.name} before node {self._node} lost its disk")
            assert sink.finals[: len(before)] == before, f"{sink.name} changed what was final"
            in_order = all(ORDER(one) < ORDER(other) for one, other in pairwise(sink.finals))
            assert in_order, f"{sink.name} has a final twice, or out of order"
            told = sink.gaps or sink.name not in self._readers
            assert told or sink.before is not None, f"{sink.name} was not told that changes are missing"


def _same(got: list[Event], expected: list[Event], what: str) -> None:
    if got == expected:
        return
    missing = [event for event in expected if event not in got][:2]
    extra = [event for event in got if event not in expected][:2]
    raise AssertionError(
        f"{what} are not the oracle's: {len(got)} for {len(expected)}; missing {missing}; not expected {extra}"
    )
