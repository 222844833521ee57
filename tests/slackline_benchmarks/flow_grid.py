"""Figure 9 in virtual time: each worker a machine of its own, however few cores there are here.

Every node is the real thing (units, operators, programs); only the network and the time that work takes are modelled: what
a change costs is what it costs on real nodes (``CHANGE``, measured by ``trials``: processor time by changes).
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from slackline_benchmarks.flow_input import arriving

from middleware.delivery.barrier import Barrier
from middleware.model.change import Batch, Delta
from middleware.model.errors import RunError
from middleware.model.event import END
from middleware.model.time import MILLISECOND, SECOND
from middleware.ordering.hierarchy import Hierarchy
from middleware.testing.simulation.virtual_mesh import CollectingSink, VirtualMesh, local_network
from scenarios.search.workers import Mode, placed, promises

CHANGE = 20_000
"""Nanoseconds of work for each change that comes in or goes out."""

STEP = 100_000
"""Nanoseconds of work for each step."""


class Cell(NamedTuple):
    """One run: arrivals at the barrier by results, and the mean release latency in virtual milliseconds."""

    workers: int
    rate: float
    ratio: float
    release: float
    text: str = "zipf"
    late: float = 0.0


def cell(
    workers: int,
    rate: float,
    seconds: float,
    seed: int = 7,
    mode: Mode = Mode.OPTIMISTIC,
    punctuation: int = 0,
    text: str = "zipf",
    late: float = 0.0,
) -> Cell:
    """Pages (``flow_input.arriving``) at a steady rate, with a promise every ``punctuation`` pages (0: ten times a second)."""
    scenario = placed(workers, mode)
    policies = scenario.policies()
    nodes = {name: Hierarchy(scenario.detectors, here, policies) for name, here in scenario.placement.items()}
    sink = CollectingSink(["search.Posted"])
    mesh = VirtualMesh(nodes, scenario.entry, {"sink": sink}, Random(seed), local_network, _cost)
    written = {}
    every = punctuation or max(1, round(rate / 10))
    given = arriving(text, seconds, rate, late, seed)
    promised = promises(given)
    clock = at = 0
    for number, page in enumerate(given):
        at, clock = round(number * SECOND / rate), max(clock, page.ts)
        written[page.ts] = at
        watermarks = {"search.Page": promised[number]} if number % every == every - 1 else {}
        mesh.feed(at, Batch({"search.Page": Delta([page])}, watermarks, clock))
    mesh.feed(at, Batch({}, {"search.Page": END}))
    mesh.run()
    barrier = Barrier(["search.Posted"])
    arrived, waits = 0, list[float]()
    for now, batch in sink.taken:
        arrived += sum(len(delta) + len(delta.revises) for delta in batch.deltas.values())
        waits += [(now - written[event.ts]) / MILLISECOND for event in barrier.take(batch)]
    if barrier.violations or barrier.watermark != END:
        raise RunError(f"the barrier was broken: {dict(barrier.violations)}, watermark {barrier.watermark}")
    return Cell(workers, rate, arrived / len(waits), sum(waits) / len(waits), text, late)


def _cost(changes_in: int, changes_out: int) -> int:
    return STEP + CHANGE * (changes_in + changes_out)
