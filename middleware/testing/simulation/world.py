"""A simulated world: real brokers, units, logs and recovery of several nodes in one thread, on a network, disks and clocks
that fail as planned; and the checks of Slackline's promises."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise

from middleware.broker.ingress.checks import RejectedEvent
from middleware.model.event import END, IDENTITY, ORDER, Event, type_name
from middleware.model.operator import Operator
from middleware.model.time import MILLISECOND, SECOND
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.policies import Policies
from middleware.ordering.slack.robust import JURY_ALONE, RobustSlack
from middleware.ordering.unit import Unit
from middleware.testing.oracle import derived
from middleware.testing.simulation.applications import Probe, Reading
from middleware.testing.simulation.disk import DAMAGES, Disk
from middleware.testing.simulation.fragile import sound
from middleware.testing.simulation.joining import Joiners
from middleware.testing.simulation.network import TICK, Simulation
from middleware.testing.simulation.nodes import DurableNode, MemoryNode
from middleware.testing.simulation.plans.afterwards import late_in_time, refused_in_time
from middleware.testing.simulation.plans.hard import HOUR
from middleware.testing.simulation.plans.world_plan import Incident, SinkPlan, WorldPlan
from middleware.testing.simulation.promise_watch import Watch, WatchedSink
from middleware.testing.simulation.source_changes import Claim, SourceChange, accepted_events, claim, claim_of, contested
from middleware.testing.simulation.world_sources import WorldSource

LONGEST = 600 * SECOND
"""Virtual time within which a world must end."""


WALL = SECOND
"""The time of a correct wall clock when the simulation begins: the events have about that time."""

_ORDINARY = 2_000
"""The allowed lateness (ns) never exceeds this with the delays of a world, except through outliers, or late events of several
sources that others run ahead of."""

_CUTTING = ("partition", "pause", "full")
_PATIENCE = 8 * SECOND
"""A peer that does not answer for longer than this may be dropped."""

_HARMLESS = {
    "duplicate",
    "change made before",
    "frame of an unknown link",
    "Hello of an old epoch",
    "late for what was promised",
    "too far ahead",
    "clash",
}
"""Reasons for drops that lose nothing, or that are listed."""


class World:
    """One world; ``run`` plays its plan to the end, ``check`` checks all promises. Both raise AssertionError."""

    def __init__(self, plan: WorldPlan) -> None:
        self.plan, self._types = plan, plan.types
        self.troubles: Counter[str] = Counter()
        self.rejected: set[Claim] = set()
        """Raw changes that were rejected, except clashes."""
        self.ahead: set[Claim] = set()
        self._late_once: set[Claim] = set()
        self.clashes: set[Claim] = set()
        self._is_after = True
        self._contested = contested(self.source_changes)
        self._is_after = False
        self.simulation = Simulation(plan.seed, plan.network, lull=5 * TICK)
        self._random = random.Random(plan.seed + 1)
        self.disks = {name: Disk(number + 1, self._random) for number, name in enumerate(plan.nodes)}
        self.watches = {name: Watch(name) for name in plan.nodes}
        for watch in self.watches.values():
            watch.contested = self._contested
            watch.is_blind = plan.unwatched
        for incident in plan.incidents:
            if incident.kind in DAMAGES:
                self.disks[incident.target].remembers = True
        self.nodes: dict[str, DurableNode | MemoryNode] = {}
        for name in plan.nodes:
            self.disks[name].latency, self.disks[name].retained = plan.latency, plan.retained
            self._start(name)
        self.derived = sorted({type_name(t) for detector in plan.detectors.values() for t in detector.publishes})
        self.sinks = [self._sink_of(f"sink{number}", each) for number, each in enumerate(plan.sinks)]
        self.sources: list[WorldSource] = []
        self.sources += [
            WorldSource(self.simulation, each, WALL if plan.walls else None, self.sources) for each in plan.sources
        ]
        self._joiners = Joiners(plan.joiners, self._sink_of)
        self._loss: Loss | None = None
        self._lines = 1
        self._is_older = False
        self._lost_logs: set[str] = set()
        self._listed: dict[str, set[Claim]] = {}
        self._begun = self._newest = 0
        self._ahead = list(plan.incidents)
        self._mortal = [number for number, sink in enumerate(plan.sinks) if sink.dies]
        self._endings: list[tuple[int, Incident]] = []

    def _sink_of(self, name: str, plan: SinkPlan, before: WatchedSink | None = None, copy: float = 1) -> WatchedSink:
        """Begin a life of a sink."""
        names = [type_name(kind) for kind in (Reading, Probe)] if plan.raw else self.derived
        return WatchedSink(
            self.simulation,
            name,
            plan.node,
            names,
            self._types,
            resumes=plan.resumes,
            marks=plan.marks,
            tables=plan.tables,
            joins=bool(plan.joins or plan.leaves),
            before=before,
            copy=copy,
        )

    def _start(self, name: str) -> None:
        """Begin a life of a node."""
        plan = self.plan
        here = [detector for detector, node in plan.placement.items() if node == name]
        wrong = plan.walls.get(name, 0) if self.watches[name].has_lived or not plan.reset else 0
        hierarchy = Hierarchy(plan.detectors, here, self._policies(name))
        wall = WALL + wrong if plan.walls else None
        what = (self.simulation, name, plan.nodes, self._types, hierarchy, self.watches[name], self._random)
        if name in plan.forgetful:
            self.nodes[name] = MemoryNode(*what, rate=plan.rates[name], idle=plan.idle, wall=wall)
            return
        node = DurableNode(
            *what,
            self.disks[name],
            rate=plan.rates[name],
            idle=plan.idle,
            checkpoint_every=plan.checkpoint_every,
            wall=wall,
        )
        self.nodes[name] = node
        node.restless, recovered = plan.restless, node.recovered
        halted = any(unit.halted is not None for unit in hierarchy.units)  # perhaps sooner than in the former life
        held = not recovered.withheld or halted or self._loss is not None  # after a loss the same identities may come again
        assert held, f"node {name} does not come to the finals that it had"
        self.troubles += Counter(records=recovered.records, again=recovered.events, corrected=recovered.corrected)

    def _policies(self, name: str) -> dict[str, Policies]:
        """The policies of a node's life that is about to begin."""
        is_back = self.watches[name].has_lived
        self.watches[name].has_lived = True
        return self.plan.policies | (self.plan.later if is_back else {})

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
        """The sinks to be killed now, since they have enough finals."""
        return [number for number in self._mortal if len(self.sinks[number].finals) >= self.plan.sinks[number].dies]

    def _can_be(self, incident: Incident) -> bool:
        """Whether the target comes back from it."""
        if incident.kind == "kill sink":
            return self._sink(incident.target).resumes
        return incident.kind != "stop" or incident.target not in self.plan.forgetful

    def _is_loss(self, incident: Incident) -> bool:
        """Whether it destroys data that no one else has: a disk, or a peer that a node without a log drops."""
        if incident.kind == "lose disk" or incident.kind in DAMAGES:
            return True
        return bool(self.plan.forgetful) and (
            incident.kind in ("crash", "stop") or (incident.kind in _CUTTING and incident.duration > _PATIENCE)
        )

    def _overlaps(self, incident: Incident) -> bool:
        """Whether its target already has a fault: one at a time. The first loss comes while all nodes are up."""
        if self._is_loss(incident) and self._loss is None and len(self.nodes) < len(self.plan.nodes):
            return True
        return any({other.target, other.other} & {incident.target} for _, other in self._endings)

    def _begin(self, incident: Incident) -> None:
        self.troubles[incident.kind] += incident.kind not in DAMAGES
        target = incident.target
        if self._is_loss(incident) and self._loss is None:
            self._loss = Loss(self, incident)
            for watch in self.watches.values():  # a node forgets its subscriptions, and those of others to it,
                watch.is_blind = True  # so that for a while too little is logged
        match incident.kind:
            case "lose disk" | "flip a byte" | "cut log" | "older log" | "older folder":
                self._lose(target, incident.kind)
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
            case "crash" | "lose disk" | "flip a byte" | "cut log" | "older log" | "older folder":
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

    def _restore(self, killed: WatchedSink, copy: float) -> None:
        """A sink comes back under its name."""
        number = self.sinks.index(killed)
        again = self._sink_of(killed.name, self.plan.sinks[number], killed, copy if killed.marks else 1)
        again.watch.is_blind = again.lacks or self._is_older  # a former life knew of missing changes
        self.sinks[number] = again
        self._exempt(again)
        self.troubles["restored"] += len(again.finals) < len(killed.finals)

    def _lose(self, name: str, kind: str) -> None:
        """Crash a node, and lose or damage its disk: it may no longer know the named subscriptions."""
        self._lost_logs.add(name)
        for sink in self.sinks:
            if sink.before is not None and sink.link.peer is None:  # it has yet to hear from the lost node
                self._exempt(sink)
        self._crash(name)
        if kind in DAMAGES:
            self.troubles[kind] += self.disks[name].damage(kind)
            self._is_older |= kind == "older folder"
            for sink in self.sinks if self._is_older else ():
                sink.watch.is_blind = True  # if no one can tell that it is older, no one gets a gap: only finals are checked
            return
        self.disks[name] = Disk(len(self.plan.nodes) + self._lines, self._random)
        self._lines += 1
        self.disks[name].latency, self.disks[name].retained = self.plan.latency, self.plan.retained

    def _exempt(self, sink: WatchedSink) -> None:
        """Exempt a sink without a position, at a node that has lost what it knew of it: it never gets a gap."""
        if self.plan.sinks[self.sinks.index(sink)].node in self._lost_logs and not (sink.marks and sink.finals):
            sink.watch.is_blind = sink.lacks = True

    def _crash(self, name: str) -> None:
        self.simulation.crash(name)
        self.disks[name].crash()
        self._count(self.nodes.pop(name))

    def _sink(self, name: str) -> WatchedSink:
        return next(sink for sink in self.sinks if sink.name == name)

    # -- the run ------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Let everyone meet, then publish while things go wrong, until all streams have ended everywhere."""
        simulation, plan = self.simulation, self.plan
        assert simulation.run_until(lambda: self._has_met, LONGEST), "the nodes never met"
        simulation.run(5 * TICK)
        assert simulation.run_until(lambda: self.quiet, LONGEST), "nodes have never exchanged all"
        self._play()
        if plan.afterwards is not None:
            final = [event for sink in self.sinks for event in sink.finals]  # and unread ones, which stand, too
            self._newest = max((event.ts for event in final + self.expected()), default=0)
            self._is_after = True
            self.sources += [WorldSource(simulation, each) for each in plan.afterwards.sources]
            if plan.afterwards.is_foreseen:
                assert simulation.run_until(lambda: self._has_met, LONGEST), "who comes afterwards never attaches"
            self._ahead = list(plan.afterwards.incidents)
            self._play()
        simulation.run(SECOND if self._loss is None else 10 * SECOND)  # a lost message about a gap is sent again
        for node in self.nodes.values():
            self._count(node)
        self.troubles["in columns"] = sum(source.in_columns for source in self.sources)

    def _play(self) -> None:
        """Publish while things go wrong, until all streams have ended everywhere."""
        simulation, rng, plan = self.simulation, self._random, self.plan
        stepped = self._begun = simulation.now

        def step() -> None:
            nonlocal stepped
            self._incidents()
            self._joiners.step(simulation.now - self._begun, self.sources)
            ticks, stepped = (simulation.now - stepped) // TICK, simulation.now
            for source in self.sources:
                if simulation.now - self._begun >= source.plan.start and rng.random() < plan.pace * ticks:
                    source.step(rng, plan.burst)

        assert simulation.run_until(lambda: self.over, LONGEST, step), "progress never came to the end"
        assert simulation.run_until(lambda: self.quiet, LONGEST), "something is never acknowledged"

    @property
    def _has_met(self) -> bool:
        return all(sink.ready for sink in self.sinks) and all(
            source.attached or source.ended or source.is_to_come for source in self.sources
        )

    @property
    def over(self) -> bool:
        """Whether every stream has ended everywhere and no more faults come."""
        if self._ahead or self._endings or self._dying():
            return False
        everywhere = all(unit.final == END for node in self.nodes.values() for unit in node.hierarchy.units)
        have_ended = all(source.ended for source in self.sources)
        return have_ended and everywhere and all(sink.subscription.watermark == END for sink in self.sinks)

    @property
    def quiet(self) -> bool:
        """Whether nothing is under way any more."""
        brokers = [node.broker for node in self.nodes.values()]
        return all(not p.link.queued_bytes and not p.link.unacked_bytes for b in brokers for p in b.statistics().peers)

    def note_rejections(self, rejected: Iterable[RejectedEvent]) -> None:
        """Note changes that a node has rejected, and lists."""
        for each in rejected:
            listed = each.change, each.source, each.id, each.record
            (self.clashes if each.reason == "clash" else self.rejected).add(listed)
            if each.reason in ("ahead", "late"):
                (self.ahead if each.reason == "ahead" else self._late_once).add(listed)

    def _count(self, node: DurableNode | MemoryNode) -> None:
        self.note_rejections(node.rejected)
        for unit in node.hierarchy.units if node.name in self.plan.forgetful else ():
            self._listed.setdefault(unit.name, set()).update(_listed(unit))
        for record in node.hierarchy.statistics():
            self.troubles += Counter(rollbacks=record.rollbacks, failures=record.failures, revised=record.revised)

    # -- the checks ---------------------------------------------------------------------------------------------------

    @property
    def source_changes(self) -> list[SourceChange]:
        """All changes that sources have sent, or will send."""
        later = self.plan.afterwards.sources if self.plan.afterwards is not None and self._is_after else []
        return [each for source in [*self.plan.sources, *later] for each in source.says]

    @property
    def halts(self) -> dict[str, tuple[int, int]]:
        """The stopped units, see Watch."""
        return {name: halt for watch in self.watches.values() for name, halt in watch.halts.items()}

    def accepted_events(self, refused: Collection[Claim]) -> list[Event]:
        """The raw events that stand at the end without the refused changes."""
        came_first = {identity: event for watch in self.watches.values() for identity, event in watch.came_first.items()}
        return accepted_events(self.source_changes, refused, dict.fromkeys(self._contested) | came_first)

    def late(self) -> dict[str, set[Claim]]:
        """By detector, the raw changes listed as late, including those that a node without a log listed in former lives."""
        late = {name: set(listed) for name, listed in self._listed.items()}
        for node in self.nodes.values():
            for unit in node.hierarchy.units:
                late.setdefault(unit.name, set()).update(_listed(unit))
        return late

    def expected(self, without: Mapping[str, set[Claim]] | None = None) -> list[Event]:
        """The oracle's results, leaving out the changes listed so far, and by detector those that it is to do ``without``."""
        late, out = self.late(), without if without is not None else {}
        results = derived(
            sound(self.plan.detectors),
            lambda name: self.accepted_events(late.get(name, set()) | self.rejected | out.get(name, set())),
            {name: until for name, (_, until) in self.halts.items()},
        )
        return sorted([event for events in results.values() for event in events], key=ORDER)

    def check(self) -> None:
        """Check all of Slackline's promises; after a loss, all that are still made then."""
        if self._loss is not None:
            self._loss.check(self)
            return
        if self._has_met_an_end:
            self.troubles["offered while it ended"] += 1
            return
        self.rejected -= self._taken_after_all()
        for name, node in self.nodes.items():
            for unit in node.hierarchy.units:
                unit.check()
                derived = [entry for entry in unit.late if entry.event.level]
                assert not derived, f"a derived event was late at {unit.name}: {derived[:1]}"
                assert unit.statistics().unknown == 0, f"{unit.name}: a retraction of what never came"
            announced = {"gap for a reader"} if any(sink.lacks for sink in [*self.sinks, *self._joiners.sinks]) else set()
            announced |= {"gap in what a node sends"} if self.halts else set()
            stray = node.broker.drops.keys() - _HARMLESS - announced
            assert not stray, f"node {name} dropped {stray}"
        self.troubles += Counter(late=sum(map(len, self.late().values())), rejected=len(self.rejected))
        self._check_late()
        if self.plan.afterwards is not None and not any(watch.stands_in for watch in self.watches.values()):
            margin = max(node.hierarchy.backdate * node.broker.tracker.generations.number for node in self.nodes.values())
            refused = refused_in_time(self.rejected, self.plan.sources, self.plan.afterwards, self._newest, margin)
            late = [(unit, each) for node in self.nodes.values() for unit in node.hierarchy.units for each in unit.late]
            wrong = late_in_time(late, self.plan.sources, self.plan.afterwards, self._newest, margin)
            assert not refused, f"rejected, though newer than all that was final: {refused[:2]}"
            assert not wrong, f"listed as late, though newer than all that was final: {wrong[:2]}"
        self._check_rare()
        results, raw = self.expected(), sorted(self.accepted_events(self.rejected), key=ORDER)
        for number, sink in enumerate(self.sinks):
            is_raw = self.plan.sinks[number].raw
            expected = raw if is_raw else results
            sink.link.check()
            assert not sink.drops, f"{sink.name} dropped {dict(sink.drops)}"
            if sink.lacks and (sink.incomplete or self._was_cut_off(sink)):
                # it knows that the log does not reach back to its copy, or that nothing was kept for it
                _same(sink.finals, [event for event in expected if event in sink.finals], f"finals of {sink.name}")
                self.troubles["lacking"] += 1
                continue
            if self.halts and not is_raw:
                self._check_stopped(sink, self.plan.sinks[number].node, expected)
                continue
            assert not sink.violations, f"{sink.name}: {sink.violations}"
            _same(sink.finals, expected, f"finals of {sink.name}")
            self.troubles["repeated"] += len(sink.repeated)
            assert all(event in expected for event in sink.repeated), f"{sink.name} got again what it never had"
            assert not sink.needless, f"{sink.name} got {sink.needless} finals again that it had committed"
            assert not sink.watch.is_blind, f"{sink.name} supposes a gap where nothing is lost"
            net = sorted(sink.watch.now.values(), key=ORDER)
            if sink.before is not None:  # its changes begin where it resumed: those of its former lives are missing
                net += [event for event in expected if event not in net and event in sink.before.finals]
                net.sort(key=ORDER)
            _same(net, expected, f"net of the early changes of {sink.name}")

        if not self.halts:
            is_complete = not any(isinstance(each, Operator) for each in self.plan.detectors.values())  # windows may be wide
            self.troubles += self._joiners.check(results, is_complete)

    def _was_cut_off(self, sink: WatchedSink) -> bool:
        return any(each.kind == "partition" and each.target == sink.name for each in self.plan.incidents)

    def _check_stopped(self, sink: WatchedSink, node: str, expected: list[Event]) -> None:
        """Check that a sink gets what was final before the stop, and learns that nothing more comes. For results that other
        nodes derive from it, it gets an ordinary gap: then it drops what it holds back."""
        assert sink.lacks, f"{sink.name} does not know that there is nothing more of {sorted(self.halts)}"
        is_away = any(other != node for other in self.plan.placement.values())
        assert is_away or not sink.gave_up, f"{sink.name} got a gap as if something were lost"
        if sink.gave_up:
            expected = [event for event in expected if event in sink.finals]
        _same(sink.finals, expected, f"finals of {sink.name}, where {sorted(self.halts)} have stopped,")

    @property
    def _has_met_an_end(self) -> bool:
        """Whether a type was offered at one node while it ended at another: events may be late until that one knew."""
        return self.plan.afterwards is None and any(node.broker.tracker.generations.number for node in self.nodes.values())

    def _taken_after_all(self) -> set[Claim]:
        """Events rejected as too far ahead, but taken when they came again; a refused change stays refused."""
        seen = [node.broker.ingress.seen for node in self.nodes.values()]
        ahead = [each for each in self.ahead - self._late_once if each[0] == "insert"]
        return {each for each in ahead if any((each[1], each[2]) in ids for ids in seen)}

    def _check_late(self) -> None:
        """Check that only late events are called late: an event above its source's own watermark, before its node promises on
        behalf of the source, and within a detector's allowed lateness, is taken."""
        if self.plan.forgetful or any(watch.stands_in for watch in self.watches.values()):
            return
        timely = {source.name for source in self.plan.sources if source.offers}
        rejected = [each for each in self.rejected if each[1] in timely]
        assert not rejected, f"rejected, though no one had promised that it would not come: {rejected[:2]}"
        for node in self.nodes.values():
            for unit in node.hierarchy.units:
                floor = min(self._floors(unit.name))
                wrong = [each for each in unit.late if each.event.source in timely and each.final > each.clk - floor]
                assert not wrong, f"{unit.name} lists as late what is not: {wrong[:2]}"

    def _check_rare(self) -> None:
        """Check the promises for wrong clocks, clashing copies, and events that are hours old."""
        is_alone = "outliers" in self.plan.rare  # the only other publisher may have sent only events hours old
        assert not self.ahead or is_alone, f"rejected as too far ahead: {self.ahead}"
        came_first = {identity: event for watch in self.watches.values() for identity, event in watch.came_first.items()}
        rivals = {each.event for each in self.source_changes if IDENTITY(each.event) in self._contested} - {
            *came_first.values()
        }
        clashes = {claim("insert", event) for event in rivals if IDENTITY(event) in came_first}
        possible = {claim("insert", each.event) for each in self.source_changes if IDENTITY(each.event) in self._contested}
        assert self.clashes <= possible, f"no clash: {self.clashes - possible}"  # also with an event that was rejected, too
        is_known = self.plan.retained >= len(self.source_changes)  # the first event is still in the log
        assert not is_known or clashes <= self.clashes, f"clashes that are not listed: {clashes - self.clashes}"
        for node, unit in ((each, unit) for each in self.nodes.values() for unit in each.hierarchy.units):
            if isinstance(unit.clock.policy, RobustSlack) and all(floors := self._floors(unit.name)):
                delays = [
                    each.clk - each.event.ts for each in unit.late if each.event.ts > -HOUR
                ]  # outliers are older than that
                voted = unit.policies.lateness.of(max(delays, default=0))
                most = max(2 * max(floors), _ORDINARY, voted)
                if unit.lateness > most:  # right only where one source sends alone, and delays nobody else
                    run = node.longest_run(unit.detector.subscribes)
                    assert run >= JURY_ALONE, f"outliers moved the allowed lateness of {unit.name}"
        self.troubles += Counter(clashes=len(self.clashes), halts=len(self.halts))

    def _floors(self, name: str) -> list[int]:
        """The floors of the allowed lateness that a unit has or had."""
        return [each[name].lateness.floor for each in (self.plan.policies, self.plan.later) if name in each]

    def history(self) -> list[str]:
        """All that the subscribers received."""
        return [line for sink in self.sinks for line in sink.history]


class Loss:
    """The promises after data is lost for good: results that were final by then were right and stay so, no final comes
    twice, readers get a gap unless all that they have is right, and all streams come to their end.
    """

    def __init__(self, world: World, incident: Incident) -> None:
        self._what = f"{incident.kind} {incident.target}"
        self._is_silent = incident.kind == "older folder"  # perhaps no one has seen more
        self._finals = {sink.name: list(sink.finals) for sink in world.sinks}
        for each in world.nodes.values():
            world.note_rejections(each.rejected)
            world.note_rejections(each.unreported)
        sent = set(map(claim_of, world.source_changes))
        to_come = {name: sent - node.given() for name, node in world.nodes.items()}  # may yet be listed as late
        self._expected = world.expected({name: to_come[node] for name, node in world.plan.placement.items()})

    def check(self, world: World) -> None:
        """Check these promises. Raises AssertionError."""
        for sink in world.sinks:
            before = self._finals[sink.name]
            _same(before, self._expected[: len(before)], f"finals of {sink.name} before {self._what}")
            assert sink.finals[: len(before)] == before, f"{sink.name} changed what was final"
            in_order = all(ORDER(one) < ORDER(other) for one, other in pairwise(sink.finals))
            assert in_order, f"{sink.name} has a final twice, or out of order"
            if not sink.watch.is_blind and not sink.lacks and not self._is_silent:  # nor any of its former lives
                _same(sink.finals, world.expected(), f"{sink.name} does not know that changes are missing: its finals")


def _listed(unit: Unit) -> set[Claim]:
    return {claim(entry.change, entry.event) for entry in unit.late}


def _same(got: list[Event], expected: list[Event], what: str) -> None:
    if got == expected:
        return
    missing = [event for event in expected if event not in got][:2]
    extra = [event for event in got if event not in expected][:2]
    raise AssertionError(
        f"{what} are not the oracle's: {len(got)} for {len(expected)}; missing {missing}; not expected {extra}"
    )
