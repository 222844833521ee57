"""Hunts for failing seeds, and reduces a plan to the smallest set of incidents and events that still fails."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import msgspec
from msgspec.structs import replace

from middleware.provenance.smallest import smallest
from middleware.testing.simulation.applications import an_application
from middleware.testing.simulation.plans.drawing import Application, draw
from middleware.testing.simulation.plans.world_plan import WorldPlan
from middleware.testing.simulation.source_changes import SourceChange, consistent
from middleware.testing.simulation.world import World

ENDLESS = 120.0
"""Seconds of processor time after which a world is taken to turn in a circle; most take a tenth of one."""


class WorldOutcome(msgspec.Struct):
    """The outcome of one world. ``failure``: None, or the broken promise. ``troubles``: counts of what happened in it."""

    seed: int
    failure: str | None
    troubles: Counter[str]


def play(plan: WorldPlan, most: float = ENDLESS) -> WorldOutcome:
    """Run a world and check it. Every exception is a failure: a simulated world has no outside. So is a world without end.

    ``most``: seconds of processor time that it may take.
    """
    world = None
    try:
        with _ending_within(most):
            world = World(plan)
            world.run()
            world.check()
    except Exception as error:
        kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
        return WorldOutcome(plan.seed, f"{kind}{error}", world.troubles if world is not None else Counter())
    return WorldOutcome(plan.seed, None, world.troubles)


@contextmanager
def _ending_within(seconds: float) -> Iterator[None]:
    """Raise TimeoutError after so much processor time; only the main thread can."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"it turns in a circle: no end after {seconds:g} s of processor time")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def hunt(first: int, count: int, processes: int = 1, application: Application = an_application) -> Iterator[WorldOutcome]:
    """The outcomes of ``count`` seeds from ``first`` on, in that order, played in this many processes."""
    seeds, outcome = range(first, first + count), partial(_outcome, application)
    if processes <= 1 or count < 2 * processes:
        yield from map(outcome, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(processes, _leave_interrupts_to_the_parent) as pool:
        yield from pool.imap(outcome, seeds, chunksize=min(10, count // processes))


def _outcome(application: Application, seed: int) -> WorldOutcome:
    return play(draw(seed, application=application))


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def shrunk(plan: WorldPlan, attempts: int = 150) -> WorldPlan:
    """A smaller plan that still fails: first with fewer incidents, then with fewer events. At most ``attempts`` replays."""

    def with_events(chosen: list[tuple[int, SourceChange]]) -> WorldPlan:
        kept: dict[int, list[SourceChange]] = {}
        for number, change in chosen:
            kept.setdefault(number, []).append(change)
        sources = [replace(source, says=consistent(kept.get(number, []))) for number, source in enumerate(plan.sources)]
        return replace(plan, sources=sources)

    incidents = smallest(
        plan.incidents, lambda part: play(replace(plan, incidents=part)).failure is not None, attempts=attempts // 3
    )
    plan = replace(plan, incidents=incidents)
    everything = [(number, change) for number, source in enumerate(plan.sources) for change in source.says]
    events = smallest(everything, lambda part: play(with_events(part)).failure is not None, attempts=attempts * 2 // 3)
    return with_events(events)
