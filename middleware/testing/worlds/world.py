"""A simulated world: real brokers, units, logs and recovery of several nodes in one thread, on a network, disks and clocks
that fail as the plan says; and the checks that hold it to what Slackline promises."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise

from middleware.clock import MILLISECOND, SECOND
from middleware.event import END, IDENTITY, ORDER, Event, Identity, type_name
from middleware.ordering.hierarchy import Hierarchy
from middleware.testing.oracle import oracle
from middleware.testing.simulation import SimulatedPublisher, Simulation
from middleware.testing.worlds.disk import Disk
from middleware.testing.worlds.nodes import DurableNode, MemoryNode
from middleware.testing.worlds.plan import Incident, SourcePlan, WorldPlan
from middleware.testing.worlds.watch import Sink, Watch

LONGEST = 600 * SECOND
"""Virtual time within which a world must have come to its end."""


_CUTTING = ("partition", "pause", "full")
_PATIENCE = 8 * SECOND
"""Who does not answer for longer may be given up."""

_HARMLESS = {
    "duplicate",
    "change made before",
    "frame of an unknown link",
    "Hello of an old epoch",
    "late for what was promised",
}
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
        self.plan, self._types = plan, plan.types
        self.troubles: Counter[str] = Counter()
        self.turned: set[Identity] = set()
        self.simulation = Simulation(plan.seed, plan.network)
        self._random = random.Random(plan.seed + 1)
        self.disks = {name: Disk(number + 1, self._random) for number, name in enumerate(plan.nodes)}
        self.watches = {name: Watch(name) for name in plan.nodes}
        self.nodes: dict[str, DurableNode | MemoryNode] = {}
        for name in plan.nodes:
            self.disks[name].latency, self.disks[name].retained = plan.latency, plan.retained
            self._start(name)
        self.derived = sorted({type_name(t) for detector in plan.detectors.values() for t in detector.publishes})
        self.sinks = [
            Sink(self.simulation, f"sink{number}", each.node, self.derived, self._types, resumes=each.resumes, marks=each.marks)
            for number, each in enumerate(plan.sinks)
        ]
        self.sources = [Source(self.simulation, source) for source in plan.sources]
        self._loss: Loss | None = None
        self._lines = 1
        self._listed: dict[str, set[Identity]] = {}
        self._begun = 0
        self._ahead = list(plan.incidents)
        self._mortal = [number for number, sink in enumerate(plan.sinks) if sink.dies]
        self._endings: list[tuple[int, Incident]] = []

    def _start(self, name: str) -> None:
        """A life of a node begins."""
        plan = self.plan
        here = [detector for detector, node in plan.place.items() if node == name]
        hierarchy = Hierarchy(plan.detectors, here, plan.policies)
        what = (self.simulation, name, plan.nodes, self._types, hierarchy, self.watches[name], self._random)
        if name in plan.forgetful:
            self.nodes[name] = MemoryNode(*what, rate=plan.rates[name])
            return
        node = DurableNode(*what, self.disks[name], rate=plan.rates[name], checkpoint_every=plan.checkpoint_every)
        self.nodes[name] = node
        recovered = node.recovered
        held = not recovered.withheld or self._loss is not None  # after a loss the same identities may come again
        assert held, f"node {name} does not come to the finals that it had"
        self.troubles += Counter(records=recovered.records, again=recovered.events, corrected=recovered.corrected)

    # -- incidents ----------------------------------------------------------------------------------------------------

    def _incidents(self) -> None:
        passed = self.simulation.now - self._begun
        for ending in [each for each in self._endings if each[0] <= passed]:
            self._endings.remove(ending)
            self._end(ending[1])
        while self._ahead and self._ahead[0].at <= passed:
            incident = self._ahead.pop(0)
            if not self._overlaps(incident) and self._can_be(incident):
                self._begin(incident)
                self._endings.append((passed + incident.duration, incident))
        for number in self._dying():
            sink = self.plan.sinks[number]
            incident = Incident(passed, "kill sink", self.sinks[number].name, sink.away, copy=sink.copy)
            if not self._overlaps(incident):
                self._mortal.remove(number)
                self._begin(incident)
                self._endings.append((passed + incident.duration, incident))

    def _dying(self) -> list[int]:
        """The sinks that are to be killed now, as they have enough."""
        return [number for number in self._mortal if len(self.sinks[number].finals) >= self.plan.sinks[number].dies]

    def _can_be(self, incident: Incident) -> bool:
        """Whether the target comes back from it."""
        if incident.kind == "kill sink":
            return self._sink(incident.target).resumes
        return incident.kind != "stop" or incident.target not in self.plan.forgetful

    def _is_loss(self, incident: Incident) -> bool:
        """Whether it takes away what no one else has: a disk, or a peer that a node without a log gives up."""
        if incident.kind == "lose disk":
            return True
        return bool(self.plan.forgetful) and (
            incident.kind in ("crash", "stop") or (incident.kind in _CUTTING and incident.duration > _PATIENCE)
        )

    def _overlaps(self, incident: Incident) -> bool:
        """Whether its target is in trouble already: one thing at a time. The first loss comes while all nodes are up."""
        if self._is_loss(incident) and self._loss is None and len(self.nodes) < len(self.plan.nodes):
            return True
        return any({other.target, other.other} & {incident.target} for _, other in self._endings)

    def _begin(self, incident: Incident) -> None:
        self.troubles[incident.kind] += 1
        target = incident.target
        if self._is_loss(incident) and self._loss is None:
            self._loss = Loss(self, f"{incident.kind} {target}")
            for watch in self.watches.values():  # a node forgets what it wants of others, and what others want of it,
                watch.is_blind = True  # so that for a while too little is logged
        match incident.kind:
            case "lose disk":
                self._crash(target)
                self.disks[target] = Disk(len(self.plan.nodes) + self._lines, self._random)
                self._lines += 1
                self.disks[target].latency, self.disks[target].retained = self.plan.latency, self.plan.retained
            case "stop":
                self.nodes[target].close()
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
            case "stop":
                self._crash(target)
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
                self._restore(killed, incident.copy)

    def _restore(self, killed: Sink, copy: float) -> None:
        """A sink comes back under its name."""
        number, marks = self.sinks.index(killed), killed.marks
        node, copy = self.plan.sinks[number].node, copy if marks else 1
        again = Sink(
            self.simulation, killed.name, node, self.derived, self._types, resumes=True, marks=marks, before=killed, copy=copy
        )
        if self._loss is not None and (again.lacks or not killed.finals or not marks):
            # it was told that changes are missing, or cannot say what it had, nor the node what it has lost: now or later
            again.watch.is_blind = again.lacks = True
        self.sinks[number] = again
        self.troubles["restored"] += len(again.finals) < len(killed.finals)

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
        if self._ahead or self._endings or self._dying():
            return False
        everywhere = all(unit.final == END for node in self.nodes.values() for unit in node.hierarchy.units)
        said = all(source.ended for source in self.sources)
        return said and everywhere and all(sink.subscription.progress == END for sink in self.sinks)

    @property
    def quiet(self) -> bool:
        """Whether nothing is under way any more."""
        brokers = [node.broker for node in self.nodes.values()]
        return all(not p.link.queued_bytes and not p.link.unacked_bytes for b in brokers for p in b.statistics().peers)

    def _count(self, node: DurableNode | MemoryNode) -> None:
        self.turned.update(node.turned)
        for unit in node.hierarchy.units if node.name in self.plan.forgetful else ():
            self._listed.setdefault(unit.name, set()).update(IDENTITY(entry.event) for entry in unit.ledger)
        for record in node.hierarchy.statistics():
            self.troubles += Counter(rollbacks=record.rollbacks, failures=record.failures, revised=record.revised)

    # -- the checks ---------------------------------------------------------------------------------------------------

    @property
    def raw(self) -> list[Event]:
        """All events that sources published."""
        return [event for source in self.plan.sources for event in source.arrivals]

    def late(self) -> dict[str, set[Identity]]:
        """By detector, the raw events that are listed as late, also those that a node without a log listed in former lives."""
        late = {name: set(listed) for name, listed in self._listed.items()}
        for node in self.nodes.values():
            for unit in node.hierarchy.units:
                late.setdefault(unit.name, set()).update(IDENTITY(entry.event) for entry in unit.ledger)
        return late

    def expected(self, without: Mapping[str, set[Identity]] | None = None) -> list[Event]:
        """What the oracle has, leaving out what is listed by now, and by detector what it is to do ``without``."""
        without = without if without is not None else {}
        late = {name: listed | self.turned | without.get(name, set()) for name, listed in self.late().items()}
        results = oracle(self.raw, self.plan.detectors, late)
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
            stray = node.broker.drops.keys() - _HARMLESS - ({"gap for a reader"} if any(s.lacks for s in self.sinks) else set())
            assert not stray, f"node {name} dropped {stray}"
        self.troubles += Counter(late=sum(map(len, self.late().values())), turned=len(self.turned))
        expected = self.expected()
        for sink in self.sinks:
            sink.link._check()
            assert not sink.drops, f"{sink.name} dropped {dict(sink.drops)}"
            if sink.incomplete and sink.lacks:  # it was told that the log does not reach back to what its copy had
                _same(sink.finals, [event for event in expected if event in sink.finals], f"finals of {sink.name}")
                self.troubles["lacking"] += 1
                continue
            assert not sink.violations, f"{sink.name}: {sink.violations}"
            _same(sink.finals, expected, f"finals of {sink.name}")
            self.troubles["repeated"] += len(sink.repeated)
            assert all(event in expected for event in sink.repeated), f"{sink.name} got again what it never had"
            assert not sink.needless, f"{sink.name} got {sink.needless} finals again that it had committed"
            assert not sink.watch.is_blind, f"{sink.name} supposes a gap where nothing is lost"
            net = sorted(sink.watch.now.values(), key=ORDER)
            if sink.before is not None:  # it was told from where it was on: what its former lives had is not in it
                net += [event for event in expected if event not in net and event in sink.before.finals]
                net.sort(key=ORDER)
            _same(net, expected, f"net of the early changes of {sink.name}")

    def history(self) -> list[str]:
        """All that the subscribers were told."""
        return [told for sink in self.sinks for told in sink.history]


class Loss:
    """What is still promised once something is lost for good: what was final by then was right and stays so, no final comes
    twice, readers are told that changes are missing unless all that they have is right, and all streams come to their end.
    """

    def __init__(self, world: World, what: str) -> None:
        self._what = what
        self._finals = {sink.name: list(sink.finals) for sink in world.sinks}
        for each in world.nodes.values():
            world.turned.update(each.turned, each.unlisted)
        raw = {IDENTITY(event) for event in world.raw}
        to_come = {name: raw - node.given() for name, node in world.nodes.items()}  # may yet be listed as late
        self._expected = world.expected({name: to_come[node] for name, node in world.plan.place.items()})

    def check(self, world: World) -> None:
        """Hold the run to it. Raises AssertionError."""
        for sink in world.sinks:
            before = self._finals[sink.name]
            _same(before, self._expected[: len(before)], f"finals of {sink.name} before {self._what}")
            assert sink.finals[: len(before)] == before, f"{sink.name} changed what was final"
            in_order = all(ORDER(one) < ORDER(other) for one, other in pairwise(sink.finals))
            assert in_order, f"{sink.name} has a final twice, or out of order"
            if not sink.watch.is_blind and not sink.lacks:  # nor was any of its former lives told
                _same(sink.finals, world.expected(), f"{sink.name} was not told that changes are missing: its finals")


def _same(got: list[Event], expected: list[Event], what: str) -> None:
    if got == expected:
        return
    missing = [event for event in expected if event not in got][:2]
    extra = [event for event in got if event not in expected][:2]
    raise AssertionError(
        f"{what} are not the oracle's: {len(got)} for {len(expected)}; missing {missing}; not expected {extra}"
    )
