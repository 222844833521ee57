"""The search: every world that a plan leads to, each once, and a short way to one that breaks a promise."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import msgspec

from middleware.testing.exploration.exploration_plan import ExplorationPlan
from middleware.testing.exploration.explored_nodes import BrokenPromise
from middleware.testing.exploration.explored_world import ExploredWorld, Step

_FAULTS = ("cut", "restart")


class SearchOutcome(msgspec.Struct):
    """The outcome for a plan.

    ``states``: worlds that differ. ``transitions``: steps taken between them. ``ends``: worlds without a next one.
    ``deepest``: steps of the longest way. ``is_whole``: every world was visited. ``broken``: the first broken promise;
    ``steps``: a way to it.
    """

    plan: ExplorationPlan
    states: int = 0
    transitions: int = 0
    ends: int = 0
    deepest: int = 0
    is_whole: bool = True
    broken: str = ""
    steps: list[Step] = []


def explore(
    plan: ExplorationPlan, most: int = 1_000_000, seed: int | None = None, tell: Callable[[SearchOutcome], None] | None = None
) -> SearchOutcome:
    """Visit every world that the plan leads to, at most ``most``. Depth first: memory grows with the length of one way. Only
    the digest of each world is kept.

    ``seed``: the order in which steps are tried, where not all worlds can be visited. ``tell``: is called now and then.
    """
    found, rng = SearchOutcome(plan), random.Random(seed)
    try:
        start = ExploredWorld(plan)
    except BrokenPromise as error:
        found.broken = str(error)
        return found
    seen = {start.digest}
    found.states = 1
    stack: list[tuple[ExploredWorld, list[Step]]] = [(start, list(start.steps()))]
    way: list[Step] = []
    ends_here = [True]
    while stack:
        world, steps = stack[-1]
        if not steps:
            if ends_here.pop():
                found.ends += 1
                try:
                    world.check_end()
                except BrokenPromise as error:
                    return _broken(found, str(error), way)
            stack.pop()
            if way:
                way.pop()
            continue
        step = steps.pop(rng.randrange(len(steps)) if seed is not None else -1)
        try:
            after = world.after(step)
        except BrokenPromise as error:
            return _broken(found, str(error), [*way, step])
        found.transitions += 1
        mark = after.digest
        if mark != world.digest:
            ends_here[-1] = False
        if mark in seen:
            continue
        if found.states >= most:
            found.is_whole = False
            return found
        seen.add(mark)
        found.states += 1
        found.deepest = max(found.deepest, len(way) + 1)
        if tell is not None and found.states % 1_000 == 0:
            tell(found)
        stack.append((after, list(after.steps())))
        ends_here.append(True)
        way.append(step)
    return found


def _broken(found: SearchOutcome, why: str, way: Sequence[Step]) -> SearchOutcome:
    found.steps, found.broken = shortest(found.plan, list(way))
    found.is_whole = False
    assert found.broken, f"a way that broke a promise ({why}) does not do so again: {way}"
    return found


def replay(plan: ExplorationPlan, steps: Sequence[Step]) -> tuple[list[Step], str]:
    """Take these steps, without those that cannot happen, then let everything settle: what is under way arrives, and publishers
    continue. Returns the steps taken until a promise broke, and which one: empty if none did."""
    world, taken = ExploredWorld(plan), list[Step]()
    try:
        for step in steps:
            if step in list(world.steps()):
                taken.append(step)
                world = world.after(step)
        settled = 0
        while settled != world.digest:
            settled = world.digest
            for step in [each for each in world.steps() if each[0] not in _FAULTS]:
                if step in list(world.steps()) and (after := _changed(world, step, taken)) is not None:
                    world = after
        world.check_end()
    except BrokenPromise as error:
        return taken, str(error)
    return taken, ""


def _changed(world: ExploredWorld, step: Step, taken: list[Step]) -> ExploredWorld | None:
    """The world after a step, which is noted unless nothing changes."""
    before = world.digest
    taken.append(step)
    after = world.after(step)
    if after.digest == before:
        taken.pop()
        return None
    return after


def shortest(plan: ExplorationPlan, steps: list[Step]) -> tuple[list[Step], str]:
    """Skip steps while a promise still breaks. O(steps²) replays."""
    steps, why = replay(plan, steps)
    at = len(steps) - 1
    while at >= 0:
        fewer, broken = replay(plan, steps[:at] + steps[at + 1 :])
        if broken and len(fewer) < len(steps):
            steps, why = fewer, broken
            at = min(at, len(steps))
        at -= 1
    return steps, why
