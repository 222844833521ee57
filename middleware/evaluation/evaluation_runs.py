"""Runs: the snippet replayed at its own pace through a real node process, and counted in this process."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from middleware.evaluation.feeder import Feeder, FeedTimes
from middleware.evaluation.modes import NODE, Mode, in_mode
from middleware.evaluation.unkeyed import unkeyed
from middleware.model.errors import RunError
from middleware.model.event import Event, Identity
from middleware.ordering.records import UnitStatistics
from middleware.runtime.clients.collector import Collector
from middleware.runtime.cluster import Cluster
from middleware.runtime.engine import run
from middleware.runtime.report import NodeReport
from middleware.runtime.scenario import Scenario

_PATIENCE = 120.0
_OVERLOAD = 20.0
"""A run may last so many times the snippet (and patience) before it counts as stuck: full speculation overloads a node."""

BATCH = 170
"""Events that the counted runs take at once: what arrives within 5 ms, the step of a paced feed."""


class Replay(msgspec.Struct):
    """The outcome of a run at real speed.

    ``types``
        the event types subscribed to.
    ``delivered``
        when (Unix time, ns) the content that stayed came, by identity.
    """

    mode: Mode
    types: frozenset[str]
    fed: FeedTimes
    finals: list[Event]
    delivered: dict[Identity, int]
    violations: dict[str, int]
    report: NodeReport


class CountedRun(msgspec.Struct):
    """The outcome of a run in this process: all modes get the same arrivals in the same batches, whatever the machine does.

    ``seconds``
        of the recording; ``cpu``: processor seconds that it took.
    """

    mode: Mode
    alpha: float
    seconds: float
    cpu: float
    published: int
    corrected: int
    units: list[UnitStatistics]


def replay(
    scenario: Scenario, trace: Path, mode: Mode, seconds: float, speed: float = 1.0, missing: Sequence[str] = ()
) -> Replay:
    """Run a mode through a node process, fed by a process of its own. Raises RunError if it does not come to its end.

    ``seconds``: how long that takes at the mode's own speed; ``speed``: how many times as fast a recording is replayed in
    every mode; ``missing``: types that are read, and that the trace does not have.
    """
    plan = in_mode(scenario, mode)
    types = frozenset(plan.plan.results if mode.results_only and plan.plan.results else plan.derived)
    limit = _PATIENCE + _OVERLOAD * seconds
    with Cluster(plan) as cluster:
        collector = Collector(cluster.addresses[NODE], types, plan.types, ())
        with closing(collector):
            cluster.await_ready(collector.start)
            with Feeder(trace, cluster.addresses[NODE], mode.speed * speed, missing) as feeder:
                fed = feeder.result(limit)
            ended = collector.join(limit)
        dead = cluster.dead()
        cluster.end()
    if not ended or NODE not in cluster.reports:
        why = collector.failure or (f"its node ended with {dead[NODE]}" if dead else f"nothing was final after {limit:.0f} s")
        raise RunError(f"the run in mode {mode.name} did not come to its end: {why}")
    return Replay(mode, types, fed, collector.finals, collector.delivered, collector.violations, cluster.reports[NODE])


def counted(
    scenario: Scenario,
    arrivals: Sequence[Event],
    mode: Mode,
    alpha: float | None,
    seconds: float,
    clock: Callable[[], float] = time.process_time,
) -> CountedRun:
    """Run a mode in this process, over events in their order of arrival; ``clock`` gives CPU seconds. ``alpha``: None for the
    mode's own, if it is fixed.

    As in a node, what is chosen by cost is chosen by measured cost; what on-demand and full retraction correct is not.
    """
    plan = in_mode(scenario, mode)
    detectors = plan.detectors if mode.keyed else unkeyed(plan.detectors)
    gc.collect()
    began = clock()
    policies = plan.policies(alpha)
    result = run(arrivals, detectors, policies=policies, batch=BATCH, timer=time.perf_counter_ns, failing="skip")
    cpu = clock() - began
    return CountedRun(mode, policies[""].initial_alpha, seconds, cpu, result.published, result.corrected, result.statistics)
