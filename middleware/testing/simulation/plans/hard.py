"""Rare difficulties of worlds: each function makes a plan hard in one way, and assumes that nothing is lost for good.

They are drawn with random generators of their own, so that all else stays as it was drawn.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import cast

from msgspec.structs import replace

from middleware.model.change import Insert
from middleware.model.operator import Operator
from middleware.model.time import MILLISECOND, SECOND
from middleware.ordering.lanes.retraction import Retraction
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import Lateness, MaxSlack
from middleware.testing.simulation.applications import Probe, Reading
from middleware.testing.simulation.fragile import Fragile, breaking
from middleware.testing.simulation.plans.unit_policies import a_policy
from middleware.testing.simulation.plans.world_plan import Incident, SinkPlan, WorldPlan
from middleware.testing.simulation.source_changes import SourceChange
from middleware.testing.simulation.world_sources import SourcePlan

HOUR = 3600 * SECOND


def made_hard(plan: WorldPlan, is_mixed: bool, by_clock: bool) -> None:
    """Make a plan hard, or leave it as it is. ``is_mixed``: some detector reads raw and derived events; ``by_clock``: clocks
    determine what is final.
    """
    rng = random.Random(plan.seed + 2**32)
    if is_mixed and by_clock and rng.random() < 0.7:
        _let_watermarks_shift(plan, rng)
    elif (share := rng.random()) < 0.08:
        _let_nodes_promise_for_idle(plan, rng)
    elif share < 0.25:
        _let_readers_die(plan, rng)
    rng = random.Random(plan.seed + 2**33)
    for name, (chance, happen) in RARE.items():
        if rng.random() < chance and happen(plan, rng):
            plan.rare.append(name)


# -- hard in all that happens -----------------------------------------------------------------------------------------


def _let_watermarks_shift(plan: WorldPlan, rng: random.Random) -> None:
    """The finals depend on the largest delays, also of results sent early by an alpha that no log has; then nodes crash.

    A node that replays its steps and computes anew what was final would get something else; even more so because it comes
    back with another allowed lateness.
    """
    derived = {kind for detector in plan.detectors.values() for kind in detector.publishes}
    factors = {name: 3 if derived & {*detector.subscribes} else 1 for name, detector in plan.detectors.items()}
    plan.policies = {name: _shifting(rng, factor) for name, factor in factors.items()}
    plan.later = {name: _shifting(rng, 4 - factor) for name, factor in factors.items()}
    for source in plan.sources:
        source.promises, source.pauses, source.dies = False, 0, 0
    plan.latency, plan.checkpoint_every, plan.idle = rng.choice([0, 5]) * MILLISECOND, 10_000, 10 * SECOND
    plan.incidents = crashes_of(rng, plan.nodes, 1_500)


def _shifting(rng: random.Random, factor: float) -> Policies:
    alpha, retraction = rng.choice([0.0, 1.0]), rng.choice(list(Retraction))
    return Policies(alpha=alpha, slack=MaxSlack, lateness=Lateness(factor, 0), retraction=retraction)


def _let_nodes_promise_for_idle(plan: WorldPlan, rng: random.Random) -> None:
    """Sources fall silent and resume too late, while nodes with slow disks crash: many events are rejected but unreported."""
    for source in plan.sources:
        source.promises = source.offers = True
        source.start = source.dies = 0
        source.pauses, source.silent = rng.randint(1, max(1, len(source.says))), rng.choice([300, 500]) * MILLISECOND
    plan.latency, plan.checkpoint_every, plan.idle = 200 * MILLISECOND, rng.choice([10, 10_000]), 100 * MILLISECOND
    plan.incidents = crashes_of(rng, plan.nodes, 2_500)


def _let_readers_die(plan: WorldPlan, rng: random.Random) -> None:
    """Named readers are killed again and again while results come singly; some come back with less than they had committed."""
    for sink in plan.sinks:
        sink.resumes, sink.marks, sink.dies = True, rng.random() < 0.2, 0
    plan.pace, plan.burst = 0.5, 1
    times = sorted(rng.randrange(6_000) * MILLISECOND for _ in range(9))
    names, aways = [f"sink{number}" for number in range(len(plan.sinks))], [0, 20 * MILLISECOND]
    plan.incidents = [
        Incident(at, "kill sink", rng.choice(names), rng.choice(aways), copy=rng.choice([1, 0.9, 0.3])) for at in times
    ]


def crashes_of(rng: random.Random, nodes: list[str], when: int) -> list[Incident]:
    """Eight crashes within ``when`` ms."""
    times = sorted(rng.randrange(when) * MILLISECOND for _ in range(8))
    return [Incident(at, "crash", rng.choice(nodes), rng.choice([0, 0, 20]) * MILLISECOND) for at in times]


# -- one thing that is rare -------------------------------------------------------------------------------------------


def _let_an_operator_stop(plan: WorldPlan, rng: random.Random) -> bool:
    """An operator stops because a user's function raises."""
    operators = [name for name, each in plan.detectors.items() if isinstance(each, Operator)]
    if operators and not any(isinstance(each, Fragile) for each in plan.detectors.values()):
        name = rng.choice(operators)
        operator = plan.detectors[name]
        assert isinstance(operator, Operator)
        plan.detectors = plan.detectors | {name: breaking(operator, rng.choice([0, 3, 10, 20]), rng.random() < 0.5)}
    return bool(operators)


def _let_policies_change(plan: WorldPlan, rng: random.Random) -> bool:
    """Nodes come back with other policies than before."""
    if not plan.later:
        plan.later = {name: a_policy(rng, each, rng.random() < 0.5) for name, each in plan.detectors.items()}
    return True


def _let_copies_clash(plan: WorldPlan, rng: random.Random) -> bool:
    """A publisher sends some of its events again with other content; or there are two copies of it that disagree."""
    source = rng.choice(plan.sources)
    changed = {each.event.id for each in source.says if type(each) is not Insert}
    indexes = [index for index, each in enumerate(source.says) if type(each) is Insert and each.event.id not in changed]
    chosen = rng.sample(indexes, min(len(indexes), rng.choice([1, 3, 6])))
    if rng.random() < 0.4 and not changed:
        says = [_another(each, source, rng) if index in chosen else each for index, each in enumerate(source.says)]
        plan.sources.append(replace(source, name=source.name + "bis", says=says, start=source.start))
        return bool(chosen)
    changes = source.says.copy()
    for index in sorted(chosen, reverse=True):
        changes.insert(rng.randrange(index + 1, min(len(changes), index + 40) + 1), _another(changes[index], source, rng))
    source.says = changes
    return bool(chosen)


def _another(change: SourceChange, source: SourcePlan, rng: random.Random) -> Insert:
    """Another event of the same source and id."""
    was = cast(Reading, change.event)
    value, ts = (was.value + rng.randint(1, 9)) % 10, max(was.ts + rng.choice([0, 0, 1, 7, -4]), 0)
    return Insert(_a_kind(source, rng)(was.sensor, value, ts=ts, id=was.id, source=was.source))


def _a_kind(source: SourcePlan, rng: random.Random) -> type[Reading]:
    return cast(type[Reading], rng.choice(source.kinds))  # Probes have the same fields


def _let_a_clock_be_wrong(plan: WorldPlan, rng: random.Random) -> bool:
    """A node's clock is wrong by hours, at once or after a crash, and those of all others, two at least, agree."""
    attached = {node: len(plan.nodes) - 1 + sum(source.node == node for source in plan.sources) for node in plan.nodes}
    nodes = [node for node, others in attached.items() if others >= 2]
    if nodes:
        node = rng.choice(nodes)
        plan.walls = dict.fromkeys(plan.nodes, 0) | {node: rng.choice([-2, -5, -48, 3]) * HOUR}
        plan.reset = rng.random() < 0.5
        at = plan.incidents[0].at if plan.incidents else SECOND
        crash = [Incident(at, "crash", node, 0)]
        if not plan.reset and len(plan.nodes) == 2:  # it comes back cut off, and still knows the time
            crash.append(Incident(at + 10 * MILLISECOND, "partition", plan.nodes[0], 12 * SECOND, plan.nodes[1]))
        plan.incidents = sorted(crash + plan.incidents, key=lambda each: each.at)
    return bool(nodes)


def _let_one_lag(plan: WorldPlan, rng: random.Random) -> bool:
    """Some events of one source are hours old: a single one, or a flood of them."""
    sources = [source for source in plan.sources if source.says]
    source = rng.choice(sources)
    source.promises = False
    changes, number = source.says.copy(), max(each.event.id for each in source.says)
    for _ in range(rng.choice([1, 1, 20, 60])):
        number += 1
        ts = -rng.randint(1, 3) * HOUR - rng.randrange(100)
        event = _a_kind(source, rng)(rng.randrange(4), rng.randrange(10), ts=ts, id=number, source=source.name)
        changes.insert(rng.randint(len(changes) // 3, len(changes)), Insert(event))
    source.says = changes
    return True


def _let_a_reader_be_cut_off(plan: WorldPlan, rng: random.Random) -> bool:
    """A reader without a name hears nothing for so long that its node forgets it."""
    nameless = [(f"sink{number}", sink.node) for number, sink in enumerate(plan.sinks) if not sink.resumes]
    if nameless:
        name, node = rng.choice(nameless)
        cut = Incident(rng.randrange(3_000) * MILLISECOND, "partition", name, 12 * SECOND, node)
        plan.incidents = sorted([cut, *plan.incidents], key=lambda each: each.at)
        _let_one_stay(plan, rng)
    return bool(nameless)


def _let_one_stay(plan: WorldPlan, rng: random.Random) -> None:
    """On each node, one reader wants all results, all the time; or none may: then what nodes log is not checked, as what no
    one wants is in no log."""
    if rng.random() < FLAPPING:
        plan.unwatched = True
    else:
        plan.sinks += [SinkPlan(node, resumes=True) for node in plan.nodes]


def _let_readers_join(plan: WorldPlan, rng: random.Random) -> bool:
    """Readers come while events do, alpha shifts, and nodes crash: a replay makes results in other steps than they were."""
    plan.restless = 0.3
    _let_one_stay(plan, rng)
    joins = sorted(rng.randrange(2_000) * MILLISECOND for _ in range(rng.choice([1, 2, 4])))
    plan.joiners = [SinkPlan(rng.choice(plan.nodes), resumes=False, joins=at) for at in joins]
    crashes = [Incident(at + rng.randrange(500) * MILLISECOND, "crash", rng.choice(plan.nodes), 0) for at in joins]
    plan.incidents = sorted([*crashes, *plan.incidents], key=lambda each: each.at)
    if plan.unwatched:
        _let_readers_leave(plan, random.Random(plan.seed + 2**36))
    return True


def _let_readers_leave(plan: WorldPlan, rng: random.Random) -> None:
    """At one node, readers of the same types come and leave quickly, so that these have subscribers for moments only."""
    node, at = rng.choice(plan.nodes), rng.randrange(500)
    for _ in range(rng.choice([3, 6, 12])):
        stays = rng.choice([10, 50, 200])
        plan.joiners.append(SinkPlan(node, resumes=False, joins=at * MILLISECOND, leaves=stays * MILLISECOND))
        at += stays + rng.choice([0, 10, 50, 200])
    plan.joiners.append(SinkPlan(node, resumes=False, joins=at * MILLISECOND))
    plan.joiners.sort(key=lambda each: each.joins)


def _let_publishers_come_and_go(plan: WorldPlan, rng: random.Random) -> bool:
    """One publisher stays; beside it, others end the same types and leave, and new ones come, at any node.

    The events of a new one are newer than all that anyone has promised when the first of them are taken: later, the one that
    stays promises more, which must not make the new one's events late anywhere.
    """
    staying = rng.choice([each for each in plan.sources if each.says])
    staying.promises = staying.offers = staying.lasts = True
    staying.leaves, staying.start, staying.pauses, staying.dies = False, 0, 0, 0
    others = [each for each in plan.sources if not {*each.kinds} & {*staying.kinds}]  # else who does not promise holds all back
    for each in others:
        each.leaves = False
    ending = SourcePlan("ending both", rng.choice(plan.nodes), [Reading, Probe], [], promises=False, leaves=False, offers=True)
    plan.sources, plan.idle = [staying, *others, ending], 600 * SECOND  # no node promises for idle sources
    before, newest = "", max(each.event.ts for source in plan.sources for each in source.says)
    here = rng.choice([node for node in plan.nodes if node != staying.node] or plan.nodes)
    for number in range(rng.choice([2, 2, 3])):
        name, node = f"g{number}", here if rng.random() < 0.6 else rng.choice(plan.nodes)
        newest += 100 * bool(before)
        says = _in_order(staying, rng, name, newest, rng.choice([2, 6]) if not before else rng.choice([6, 30, 60]))
        plan.sources.append(SourcePlan(name, node, staying.kinds, says, True, False, True, after=before, goes=True))
        before, newest = name, says[-1].event.ts
    numbers = max(each.event.id for each in staying.says)
    tail = _in_order(staying, rng, staying.name, newest, 3, numbers)
    staying.says, staying.tail = [*staying.says, *tail], len(tail)
    return True


def _in_order(of: SourcePlan, rng: random.Random, name: str, after: int, count: int, number: int = 0) -> list[SourceChange]:
    """New events of a source's types, in order, after a time and a number."""
    return [
        Insert(_a_kind(of, rng)(rng.randrange(4), rng.randrange(10), ts=after + 10 * at, id=number + at, source=name))
        for at in range(1, count + 1)
    ]


COMINGS = 0.1
"""The share of the worlds in which publishers come and go."""

FLAPPING = 0.3
"""The share of the worlds with a reader that is cut off, or with readers that join, in which no other reader stays: then nobody
wants some results for a while, and their corrections are made, or arrive, before somebody does again."""

RARE: dict[str, tuple[float, Callable[[WorldPlan, random.Random], bool]]] = {
    "operator that stops": (0.09, _let_an_operator_stop),
    "other policies later": (0.06, _let_policies_change),
    "copies that clash": (0.08, _let_copies_clash),
    "clock wrong by hours": (0.07, _let_a_clock_be_wrong),
    "outliers": (0.08, _let_one_lag),
    "reader cut off": (0.12, _let_a_reader_be_cut_off),
    "readers that join": (0.08, _let_readers_join),
    "publishers that come and go": (COMINGS, _let_publishers_come_and_go),
}
"""By name: the share of the worlds that are to have it, and the function that makes a world so, if it can."""
