"""What happens in a simulated world, drawn from a seed before it begins: so that it can be replayed, looked at, and shrunk."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from middleware.clock import MILLISECOND, SECOND
from middleware.detector import Detector
from middleware.event import EventTypes, type_name
from middleware.operator import Operator
from middleware.ordering.kslack import FixedSlack, Horizon, MaxSlack, QuantileSlack
from middleware.ordering.retraction import Retraction
from middleware.ordering.unit import Policies
from middleware.testing.simulation import TICK, Faults
from middleware.testing.worlds.afterwards import Afterwards, afterwards
from middleware.testing.worlds.applications import Probe, Reading, a_stream, an_application
from middleware.testing.worlds.said import with_changes
from middleware.testing.worlds.sources import SourcePlan

Application = Callable[[random.Random], dict[str, Detector]]
"""Draws what is deployed in a world: detectors by name, which read Readings, Probes, and each other's results."""

_WHEN = 8 * SECOND
"""Incidents begin within so long after the first event, or after the second in which all learn what may come from where;
most of them within the time in which publishers speak."""

_PASSING = ("partition", "partition", "pause", "stop reading", "clock step")
_ENDING = ("crash", "crash", "crash", "stop", "kill sink")
_KINDS = (*_ENDING, "partition", "pause", "full", "slow disk", "stop reading", "clock step")


class Incident(msgspec.Struct, frozen=True):
    """Something goes wrong ``at`` (ns after the first event), for a while.

    ``kind``
        crash, stop (a node with a log leaves in order, and comes back), lose disk (a crash from which the node comes back
        without its disk), partition, pause (a node stands still), full (disk), slow disk, stop reading (a sink), kill sink (one
        that has a name comes back under it), clock step (the node's clock leaps ahead by the duration, as that of a machine
        that slept). ``copy``: a killed sink comes back with so much of what it had (1: all).
    ``other``
        the other side of a partition.
    """

    at: int
    kind: str
    target: str
    duration: int
    other: str = ""
    copy: float = 1

    def __str__(self) -> str:
        between = f" from {self.other}" if self.other else ""
        copy = f", with {self.copy} of what it had" if self.copy < 1 else ""
        return f"{self.at / SECOND:.2f} s: {self.kind} {self.target}{between} for {self.duration / SECOND:.2f} s{copy}"


class SinkPlan(msgspec.Struct):
    """A sink at a node. ``resumes``: it has a name to come back under. ``marks``: it also stores the mark of what it has; one
    that does not may get again what it had taken when it was killed. ``dies``: it is killed once it has so many finals (0:
    only by incidents), comes back after ``away`` ns, and has so much of them as its ``copy`` has. ``raw``: it reads what
    publishers send instead of what is derived of it.
    """

    node: str
    resumes: bool
    marks: bool = True
    dies: int = 0
    away: int = 0
    copy: float = 1
    raw: bool = False


class WorldPlan(msgspec.Struct):
    """All of a world. ``place``: detector -> node. ``rates``: how fast each node's clock goes.

    ``forgetful``
        nodes that keep no log.
    ``pace``
        chance that a source publishes in a tick, ``burst``: at most so many events.
    ``latency``
        of the disks, ns. ``checkpoint_every``: records between checkpoints. ``retained``: records kept that nobody needs.
    ``idle``
        after so long (ns) nodes promise in the place of publishers that say nothing. ``restless``: chance of a unit's alpha
        to change in a step; it is as configured again when the node comes back.
    ``later``
        who comes after all have ended, if anyone does.
    """

    seed: int
    detectors: dict[str, Detector]
    nodes: list[str]
    forgetful: list[str]
    place: dict[str, str]
    policies: dict[str, Policies]
    network: Faults
    sources: list[SourcePlan]
    sinks: list[SinkPlan]
    rates: dict[str, float]
    incidents: list[Incident]
    pace: float
    burst: int
    latency: int
    checkpoint_every: int
    retained: int
    idle: int
    restless: float
    later: Afterwards | None = None

    @property
    def types(self) -> EventTypes:
        """All event types that there are in it."""
        derived = {kind for detector in self.detectors.values() for kind in (*detector.subscribes, *detector.publishes)}
        return EventTypes(sorted({Reading, Probe} | derived, key=type_name))


def draw(seed: int, crashes: bool = True, application: Application = an_application) -> WorldPlan:
    """The plan that a seed stands for; without ``crashes`` nobody is ever given up, so that no node needs a disk."""
    rng = random.Random(seed)
    detectors = application(rng)
    nodes = list("abc"[: rng.choice([1, 1, 2, 2, 3])])
    forgetful = _forgetful(rng, nodes) if crashes else nodes
    acquainted = SECOND if forgetful and crashes else 0
    losses = _loss(rng, nodes) if crashes else []
    is_kept = not forgetful and not losses
    pace, burst = rng.choice([(0.1, 1), (0.1, 4), (0.5, 1), (0.5, 4), (1.0, 1), (1.0, 4), (1.0, 16)])
    derived = {kind for detector in detectors.values() for kind in detector.publishes}
    is_mixed = any({Reading, Probe} & {*each.subscribes} and derived & {*each.subscribes} for each in detectors.values())
    by_clock = rng.random() < (0.6 if is_mixed else 0.1)  # what is final goes by clock and K, and these by what comes when
    sources = _sources(rng, nodes, forgetful, by_clock)
    spoken = int(max(len(each.says) for each in sources) / pace / (1 + burst) * 2 * TICK)
    kinds, longest = (_KINDS, 12_000) if crashes else (_PASSING, 5_000)
    is_foreseen = is_kept and all(each.offers for each in sources)  # nodes may have promised what they know of alone
    sinks = [_sink(rng, nodes, forgetful, is_kept, is_foreseen) for _ in range(rng.choice([1, 1, 2]))]
    incidents = [*_incidents(rng, nodes, len(sinks), kinds, longest, min(_WHEN, spoken + SECOND // 2)), *losses]
    if is_kept:
        incidents = [replace(each, copy=rng.choice([1, 0.9, 0.3])) if each.kind == "kill sink" else each for each in incidents]
    plan = WorldPlan(
        seed=seed,
        detectors=detectors,
        nodes=nodes,
        forgetful=forgetful,
        policies={name: a_policy(rng, by_clock) for name in detectors},
        place={name: rng.choice(nodes) for name in detectors},
        network=Faults(rng.choice([0, 0.02, 0.1]), rng.choice([0, 0.2]), MILLISECOND, rng.choice([1, 40, 80]) * MILLISECOND),
        sources=sources,
        sinks=sinks,
        rates={node: rng.choice([1.0, 1.0, 0.9, 1.1]) for node in nodes},
        incidents=sorted([replace(each, at=each.at + acquainted) for each in incidents], key=lambda each: each.at),
        pace=pace,
        burst=burst,
        latency=rng.choice([0, 5, 40, 200]) * MILLISECOND,
        checkpoint_every=rng.choice([2, 2, 3, 5, 10, 50, 10_000]),
        retained=rng.choice([0, 20, 10_000]),
        idle=rng.choice([100, 300, 1_000, 10_000, 10_000]) * MILLISECOND if crashes else 10 * SECOND,
        restless=0.3 if by_clock else 0.02,
    )
    if crashes and is_kept:
        apart = random.Random(seed + 2**32)  # of its own: all other worlds stay as they were drawn
        if is_mixed and by_clock and apart.random() < 0.7:
            _let_watermarks_shift(plan, apart)
        elif (share := apart.random()) < 0.08:
            _let_nodes_stand_in(plan, apart)
        elif share < 0.2:
            _let_readers_die(plan, apart)
        if apart.random() < 0.2:
            incidents = _incidents(apart, nodes, len(sinks), kinds, 2_000, 2 * SECOND)
            incidents = apart.choice([[], incidents, _crashes(apart, nodes, 1_000)])
            is_raw = any(sink.raw for sink in plan.sinks)
            plan.later = afterwards(apart, nodes, sources, sorted(incidents, key=lambda each: each.at), is_raw)
    return plan


def _let_watermarks_shift(plan: WorldPlan, rng: random.Random) -> None:
    """What is final goes by the largest delays, also of results that came early by an alpha that no log has; then nodes crash.

    Whoever takes their steps again and works out anew what was final comes to something else.
    """
    derived = {kind for detector in plan.detectors.values() for kind in detector.publishes}
    for name, detector in plan.detectors.items():
        horizon = Horizon(3 if derived & {*detector.subscribes} else 1, 0)
        alpha, retraction = rng.choice([0.0, 1.0]), rng.choice(list(Retraction))
        plan.policies[name] = Policies(alpha=alpha, slack=MaxSlack, horizon=horizon, retraction=retraction)
    for source in plan.sources:
        source.promises, source.pauses, source.dies = False, 0, 0
    plan.latency, plan.checkpoint_every, plan.idle = rng.choice([0, 5]) * MILLISECOND, 10_000, 10 * SECOND
    plan.incidents = _crashes(rng, plan.nodes, 1_500)


def _let_nodes_stand_in(plan: WorldPlan, rng: random.Random) -> None:
    """Sources fall silent and go on too late, while nodes with slow disks crash: much is turned away, and not listed yet."""
    for source in plan.sources:
        source.promises = source.offers = True
        source.start = source.dies = 0
        source.pauses, source.silent = rng.randint(1, max(1, len(source.says))), rng.choice([300, 500]) * MILLISECOND
    plan.latency, plan.checkpoint_every, plan.idle = 200 * MILLISECOND, rng.choice([10, 10_000]), 100 * MILLISECOND
    plan.incidents = _crashes(rng, plan.nodes, 2_500)


def _let_readers_die(plan: WorldPlan, rng: random.Random) -> None:
    """Named readers are killed again and again while results come singly, some with less than they had said they have."""
    for sink in plan.sinks:
        sink.resumes, sink.marks, sink.dies = True, rng.random() < 0.4, 0
    plan.pace, plan.burst = 0.5, 1
    times = sorted(rng.randrange(4_000) * MILLISECOND for _ in range(12))
    names, aways = [f"sink{number}" for number in range(len(plan.sinks))], [0, 20 * MILLISECOND]
    plan.incidents = [
        Incident(at, "kill sink", rng.choice(names), rng.choice(aways), copy=rng.choice([1, 0.9, 0.3])) for at in times
    ]


def _crashes(rng: random.Random, nodes: list[str], when: int) -> list[Incident]:
    """Eight of them within ``when`` ms."""
    times = sorted(rng.randrange(when) * MILLISECOND for _ in range(8))
    return [Incident(at, "crash", rng.choice(nodes), rng.choice([0, 0, 20]) * MILLISECOND) for at in times]


def _sink(rng: random.Random, nodes: list[str], forgetful: list[str], is_kept: bool, is_foreseen: bool) -> SinkPlan:
    node = rng.choice(nodes)
    sink = SinkPlan(node, rng.random() < 0.5 and node not in forgetful, raw=is_foreseen and rng.random() < 0.4)
    if sink.resumes:
        sink.marks = rng.random() < 0.6
        sink.dies, sink.away = rng.choice([0, 1, 5, 20]), rng.choice([0, 20, 2_000]) * MILLISECOND
        sink.copy = rng.choice([1, 0.9, 0.3]) if is_kept else 1
    return sink


def a_policy(rng: random.Random, by_clock: bool = False) -> Policies:
    """A policy with anything in it but a horizon too narrow to be worth a test. ``by_clock``: one with much that is late."""
    wide = [] if by_clock else [Horizon(2, 200), Horizon(1, 10_000)]
    slack = [lambda: QuantileSlack(0.7, 16)] if by_clock else [None, lambda: FixedSlack(6)]
    return Policies(
        alpha=rng.choice([0.0, 0.0, 0.5, 1.0]),
        slack=rng.choice([None, lambda: QuantileSlack(0.9, 32), *slack]),
        horizon=rng.choice([Horizon(1, 0), Horizon(2, 10), *wide]),
        retraction=rng.choice(list(Retraction)),
        spacing=rng.choice([None, 1, 3, 8]),
    )


def _sources(rng: random.Random, nodes: list[str], forgetful: list[str], by_clock: bool) -> list[SourcePlan]:
    """Sources at nodes without a log say beforehand what they will send, so that others know what a crash may have taken."""
    sources = []
    share, repeats = rng.choice([0, 0, 0.1, 0.4]), rng.choice([0, 0, 3, 10])
    promising = 0 if by_clock else rng.choice([0, 0.5, 0.5, 1])
    for number in range(rng.choice([1, 2, 2, 3, 4])):
        kinds: list[type[Reading] | type[Probe]] = [Reading] if number == 0 or rng.random() < 0.5 else [Probe]
        if rng.random() < 0.2:
            kinds = [Reading, Probe]
        name, node = f"p{number}", rng.choice(nodes)
        says = with_changes(rng, a_stream(rng, kinds, name), share, repeats)
        source = SourcePlan(
            name=name,
            node=node,
            kinds=[*kinds],
            says=says,
            promises=rng.random() < promising,
            leaves=number > 1 and rng.random() < 0.4,
            offers=rng.random() < 0.8 or node in forgetful,
            start=rng.choice([0, 0, 0, 1, 3]) * SECOND,
        )
        if rng.random() < 0.3:
            source.pauses, source.silent = rng.randint(1, len(says)), rng.choice([500, 2_000]) * MILLISECOND
        if rng.random() < 0.3 and node not in forgetful:
            source.dies, source.away = rng.randint(1, len(says)), rng.choice([0, 50, 1_000]) * MILLISECOND
            source.repeats = rng.random() < 0.5
        sources.append(source)
    if not any(Probe in source.kinds and not source.leaves for source in sources):
        sources.append(SourcePlan("ending", rng.choice(nodes), [Probe], [], promises=False, leaves=False, offers=True))
    return sources


def _forgetful(rng: random.Random, nodes: list[str]) -> list[str]:
    """In one world of ten, some nodes keep no log; if one is lost, less is promised from then on."""
    return sorted(rng.sample(nodes, rng.randint(1, len(nodes)))) if rng.random() < 0.1 else []


def _incidents(
    rng: random.Random, nodes: list[str], sinks: int, kinds: Sequence[str], longest: int, when: int
) -> list[Incident]:
    incidents = []
    for _ in range(rng.choice([1, 2, 3, 4, 8])):
        kind = rng.choice(kinds)
        at = int(rng.random() ** 2 * _WHEN) if rng.random() < 0.2 else int(rng.random() * when)
        duration = rng.choice([0, 0, 20, 20, 300, 300, 2_000, longest]) * MILLISECOND
        if kind == "partition":
            if len(nodes) > 1:
                one, other = rng.sample(nodes, 2)
                incidents.append(Incident(at, kind, one, duration, other))
        else:
            target = f"sink{rng.randrange(sinks)}" if "sink" in kind or "read" in kind else rng.choice(nodes)
            incidents.append(Incident(at, kind, target, duration))
    return incidents


def _loss(rng: random.Random, nodes: list[str]) -> list[Incident]:
    """One world in twenty loses a disk; from then on less is promised."""
    if rng.random() >= 0.05:
        return []
    at = int(rng.random() * _WHEN)
    return [Incident(at, "lose disk", rng.choice(nodes), rng.choice([0, 300, 12_000]) * MILLISECOND)]


def describe(plan: WorldPlan) -> list[str]:
    """The plan in lines for people."""
    nodes = [f"{node} (clock x{plan.rates[node]}{', no log' if node in plan.forgetful else ''})" for node in plan.nodes]
    lines = [f"nodes: {', '.join(nodes)}; idle after {plan.idle / SECOND} s"]
    lines += [f"{name} on {node}: {plan.policies[name]}" for name, node in plan.place.items()]
    operators = {name: each for name, each in plan.detectors.items() if isinstance(each, Operator)}
    lines += [f"{name} is {each.definition}" for name, each in operators.items() if each.definition]
    lines += [
        f"source {each.name} at {each.node}: {len(each.says)} changes of {', '.join(map(type_name, each.kinds))}"
        + (", promises" if each.promises else "")
        + (", leaves" if each.leaves else "")
        + (f", silent for {each.silent / SECOND} s after {each.pauses}" if each.pauses else "")
        + (f", dies after {each.dies} for {each.away / SECOND} s" + ", repeats all" * each.repeats if each.dies else "")
        for each in plan.sources
    ]
    sinks = ", ".join(
        each.node + " (raw)" * each.raw + (f" (with a name{' and a mark' * each.marks})" if each.resumes else "")
        for each in plan.sinks
    )
    return [*lines, f"sinks at {sinks}", *map(str, plan.incidents)]
