"""The plan of a simulated world: all that happens, as data known in advance: to be replayed, inspected, and shrunk."""

from __future__ import annotations

import msgspec

from middleware.model.detector import Detector
from middleware.model.event import EventTypes, type_name
from middleware.model.operator import Operator
from middleware.model.time import SECOND
from middleware.ordering.policies import Policies
from middleware.testing.simulation.applications import Probe, Reading
from middleware.testing.simulation.network import Faults
from middleware.testing.simulation.plans.afterwards import Afterwards
from middleware.testing.simulation.world_sources import SourcePlan


class Incident(msgspec.Struct, frozen=True):
    """A fault that begins ``at`` (ns after the first event), and lasts for a while.

    ``kind``
        crash, stop (a node with a log leaves in order, and comes back), lose disk (a crash from which the node comes back
        without its disk), one of ``disk.DAMAGES`` (a crash, and damage to the log), partition, pause (a node stands still),
        full (disk), slow disk, stop reading (a sink), kill sink (a named sink comes back under its name), clock step (the
        node's clock leaps ahead by the duration, like that of a machine that slept). ``copy``: the share of its data with
        which a killed sink comes back (1: all).
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
    """A sink at a node. ``resumes``: it has a name under which it comes back. ``marks``: it also stores its mark; a sink that
    does not may get finals again that it had taken when it was killed. ``dies``: it is killed once it has this many finals (0:
    only by incidents), comes back after ``away`` ns, and has the share ``copy`` of its finals. ``raw``: it reads raw events
    instead of derived ones. ``tables``: it reads tables. ``joins``: it comes this much later (ns) than the first event, and
    ``leaves`` so long after that (0: it stays).
    """

    node: str
    resumes: bool
    marks: bool = True
    dies: int = 0
    away: int = 0
    copy: float = 1
    raw: bool = False
    tables: bool = False
    joins: int = 0
    leaves: int = 0


class WorldPlan(msgspec.Struct):
    """The whole plan of a world. ``placement``: detector -> node. ``rates``: how fast each node's clock runs.

    ``forgetful``
        nodes without a log.
    ``pace``
        probability that a source publishes in a tick; ``burst``: the most events it then publishes.
    ``latency``
        of the disks, ns. ``checkpoint_every``: records between checkpoints. ``retained``: records kept that no one needs.
    ``idle``
        after this silence (ns), nodes promise for idle publishers. ``restless``: probability that a unit's alpha changes in
        a step; it is as configured again when the node comes back.
    ``afterwards``
        the publishers that come after all have ended, if any do.
    ``later``
        the policies with which nodes come back, if they differ.
    ``walls``
        by node, the error of its wall clock (ns); empty: there are no wall clocks. ``reset``: only after a crash.
    ``joiners``
        sinks that come in the midst of it, in order of time. ``unwatched``: at times no one may want some results, which are in
        no log then: so what nodes log is not checked.
    ``rare``
        the rare difficulties of this world (``hard``).
    """

    seed: int
    detectors: dict[str, Detector]
    nodes: list[str]
    forgetful: list[str]
    placement: dict[str, str]
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
    later: dict[str, Policies] = {}
    afterwards: Afterwards | None = None
    walls: dict[str, int] = {}
    reset: bool = False
    joiners: list[SinkPlan] = []
    unwatched: bool = False
    rare: list[str] = []

    @property
    def types(self) -> EventTypes:
        """All event types in it."""
        derived = {kind for detector in self.detectors.values() for kind in (*detector.subscribes, *detector.publishes)}
        return EventTypes(sorted({Reading, Probe} | derived, key=type_name))


def describe(plan: WorldPlan) -> list[str]:
    """The plan in lines for people."""
    nodes = [f"{node} (clock x{plan.rates[node]}{', no log' if node in plan.forgetful else ''})" for node in plan.nodes]
    lines = [f"nodes: {', '.join(nodes)}; idle after {plan.idle / SECOND} s"]
    lines += [f"{name} on {node}: {plan.policies[name]}" for name, node in plan.placement.items()]
    operators = {name: each for name, each in plan.detectors.items() if isinstance(each, Operator)}
    lines += [f"{name} is {each.definition}" for name, each in operators.items() if each.definition]
    lines += [
        f"source {each.name} at {each.node}: {len(each.says)} changes of {', '.join(map(type_name, each.kinds))}"
        + (", promises" if each.promises else "")
        + (f", {each.columns:.0%} in columns" if each.columns else "")
        + (", leaves" if each.leaves else "")
        + (f", silent for {each.silent / SECOND} s after {each.pauses}" if each.pauses else "")
        + (f", dies after {each.dies} for {each.away / SECOND} s" + ", repeats all" * each.repeats if each.dies else "")
        for each in plan.sources
    ]
    sinks = ", ".join(map(_described, plan.sinks))
    lines += [f"{name} later: {policies}" for name, policies in plan.later.items()]
    lines += [f"wall clock of {node} wrong by {error // SECOND} s" for node, error in plan.walls.items() if error]
    lines += [f"rare: {', '.join(plan.rare)}"] if plan.rare else []
    return [*lines, f"sinks at {sinks}", *map(str, plan.incidents)]


def _described(sink: SinkPlan) -> str:
    name = f" (with a name{' and a mark' * sink.marks})" if sink.resumes else ""
    return sink.node + " (raw)" * sink.raw + " (tables)" * sink.tables + name
