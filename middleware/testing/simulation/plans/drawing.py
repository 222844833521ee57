"""Draws worlds from seeds: what is deployed, who publishes and reads, and what goes wrong; one seed, one plan."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from middleware.link.columnar import takes_columns
from middleware.model.detector import Detector
from middleware.model.errors import EventError
from middleware.model.event import EventType
from middleware.model.schema import arrow_schema
from middleware.model.time import MILLISECOND, SECOND
from middleware.testing.simulation.applications import Probe, Reading, a_stream, an_application
from middleware.testing.simulation.disk import DAMAGES
from middleware.testing.simulation.fragile import sound
from middleware.testing.simulation.network import TICK, Faults
from middleware.testing.simulation.plans.afterwards import afterwards
from middleware.testing.simulation.plans.hard import crashes_of, made_hard
from middleware.testing.simulation.plans.unit_policies import a_policy
from middleware.testing.simulation.plans.world_plan import Incident, SinkPlan, WorldPlan
from middleware.testing.simulation.source_changes import with_changes
from middleware.testing.simulation.world_sources import SourcePlan

Application = Callable[[random.Random], dict[str, Detector]]
"""Draws the application of a world: detectors by name, which read Readings, Probes, and each other's results."""

_WHEN = 8 * SECOND
"""Incidents begin within this time after the first event, or after the second in which all nodes learn what may come from
where; most of them while publishers still publish."""

_PASSING = ("partition", "partition", "pause", "stop reading", "clock step")
_ENDING = ("crash", "crash", "crash", "stop", "kill sink")
_KINDS = (*_ENDING, "partition", "pause", "full", "slow disk", "stop reading", "clock step")


def draw(seed: int, crashes: bool = True, application: Application = an_application) -> WorldPlan:
    """The plan for a seed; without ``crashes`` no peer is ever dropped, so that no node needs a disk."""
    rng = random.Random(seed)
    detectors = application(rng)
    nodes = list("abc"[: rng.choice([1, 1, 2, 2, 3])])
    forgetful = _forgetful(rng, nodes) if crashes else nodes
    acquainted = SECOND if forgetful and crashes else 0
    losses = _loss(rng, nodes, forgetful) if crashes else []
    is_kept = not forgetful and not losses
    pace, burst = rng.choice([(0.1, 1), (0.1, 4), (0.5, 1), (0.5, 4), (1.0, 1), (1.0, 4), (1.0, 16)])
    derived = {kind for detector in detectors.values() for kind in detector.publishes}
    is_mixed = any({Reading, Probe} & {*each.subscribes} and derived & {*each.subscribes} for each in detectors.values())
    by_clock = rng.random() < (0.6 if is_mixed else 0.1)  # what is final depends on clock and K, and these on arrivals
    sources = _sources(rng, nodes, forgetful, by_clock)
    spoken = int(max(len(each.says) for each in sources) / pace / (1 + burst) * 2 * TICK)
    kinds, longest = (_KINDS, 12_000) if crashes else (_PASSING, 5_000)
    is_foreseen = is_kept and all(each.offers for each in sources)  # else nodes promise by what they alone know
    sinks = [_sink(rng, nodes, forgetful, is_kept, is_foreseen) for _ in range(rng.choice([1, 1, 2]))]
    incidents = [*_incidents(rng, nodes, len(sinks), kinds, longest, min(_WHEN, spoken + SECOND // 2)), *losses]
    if is_kept:
        incidents = [replace(each, copy=rng.choice([1, 0.9, 0.3])) if each.kind == "kill sink" else each for each in incidents]
    plan = WorldPlan(
        seed=seed,
        detectors=detectors,
        nodes=nodes,
        forgetful=forgetful,
        policies={name: a_policy(rng, each, by_clock) for name, each in detectors.items()},
        placement={name: rng.choice(nodes) for name in detectors},
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
        made_hard(plan, is_mixed, by_clock)
        _let_some_come_afterwards(plan, kinds)
    else:  # a stopped operator leaves a gap, as a loss does: only one of them at a time
        plan.detectors = sound(plan.detectors)
    _let_columns_come(plan)
    return plan


def _let_columns_come(plan: WorldPlan) -> None:
    """In one world of three, publishers send columns, and sinks read tables."""
    rng = random.Random(plan.seed + 2**35)
    if rng.random() < 0.35:
        for source in [*plan.sources, *(plan.afterwards.sources if plan.afterwards is not None else [])]:
            source.columns = rng.choice([0, 0.5, 1])
        derived = {kind for detector in plan.detectors.values() for kind in detector.publishes}
        has_tables = takes_columns() and all(map(_fits_columns, derived))
        for sink in plan.sinks:
            sink.tables = rng.random() < 0.5 and (sink.raw or has_tables)


def _fits_columns(kind: EventType) -> bool:
    try:
        arrow_schema(kind)
    except EventError:
        return False
    return True


def _let_some_come_afterwards(plan: WorldPlan, kinds: Sequence[str]) -> None:
    """In one world of five, publishers come after all have ended; not if something rare happens besides: one is enough."""
    rng = random.Random(plan.seed + 2**34)
    if plan.rare or plan.later or rng.random() >= 0.2:
        return
    incidents = _incidents(rng, plan.nodes, len(plan.sinks), kinds, 2_000, 2 * SECOND)
    incidents = rng.choice([[], incidents, crashes_of(rng, plan.nodes, 1_000)])
    is_raw = any(sink.raw for sink in plan.sinks)
    plan.afterwards = afterwards(rng, plan.nodes, plan.sources, sorted(incidents, key=lambda each: each.at), is_raw)


def _sink(rng: random.Random, nodes: list[str], forgetful: list[str], is_kept: bool, is_foreseen: bool) -> SinkPlan:
    node = rng.choice(nodes)
    sink = SinkPlan(node, rng.random() < 0.5 and node not in forgetful, raw=is_foreseen and rng.random() < 0.4)
    if sink.resumes:
        sink.marks = rng.random() < 0.6
        sink.dies, sink.away = rng.choice([0, 1, 5, 20]), rng.choice([0, 20, 2_000]) * MILLISECOND
        sink.copy = rng.choice([1, 0.9, 0.3]) if is_kept else 1
    return sink


def _sources(rng: random.Random, nodes: list[str], forgetful: list[str], by_clock: bool) -> list[SourcePlan]:
    """Sources at nodes without a log offer their types beforehand, so that others know what a crash may have lost."""
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


def _loss(rng: random.Random, nodes: list[str], forgetful: list[str]) -> list[Incident]:
    """One world in twenty loses a disk, and twice as many have one that is damaged; from then on less is promised."""
    share = rng.random()
    if share >= 0.18:
        return []
    at = int(rng.random() * _WHEN)
    away = rng.choice([0, 300, 12_000]) * MILLISECOND
    if share < 0.05:
        return [Incident(at, "lose disk", rng.choice(nodes), away)]
    durable = [node for node in nodes if node not in forgetful]
    return (
        [Incident(at // rng.choice([1, 8]), rng.choice(("flip a byte", *DAMAGES)), rng.choice(durable), away)]
        if durable
        else []
    )
