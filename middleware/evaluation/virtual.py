"""Runs in virtual time: one process takes arrivals as fast as it can, while the recording's own clock steers alpha.

Every 0.5 s of the recording alpha is adapted by Algorithm 3, as in a node. The busy factor is the processor time that these
0.5 s took, on a machine so slow that pure buffering keeps it busy for ``LOAD`` of the time: the paper's machine was busy for 50
to 70 %. So 45 minutes need not take 45 minutes, and other work on the machine changes little.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from statistics import fmean

import msgspec

from middleware.evaluation.measuring.corrections import CorrectionCounts, corrected
from middleware.evaluation.measuring.parts import Parts, parts
from middleware.evaluation.measuring.wire import Wire, WireRecords, keys_of
from middleware.evaluation.modes import Mode, in_mode
from middleware.model.change import Batch
from middleware.model.event import IDENTITY, ORDER, Event, Identity
from middleware.model.identity import published_types
from middleware.model.values.state import same_events
from middleware.ordering.alpha.adaptation import INTERVAL
from middleware.runtime.engine import Stepper
from middleware.runtime.scenario import Scenario
from middleware.testing.oracle import LenientOracle

LOAD = 0.6
"""How busy pure buffering keeps the machine."""

AT_ONCE = 5_000_000
"""Events that arrive within so many ns are taken at once, as a paced feed gives them."""

_PARTS_FIRST, _PARTS_EVERY = 4, 40
"""Memory is looked at in each of the first intervals, then in every 40th: each look copies all of it."""

Arrivals = Iterable[tuple[list[int], list[Event]]]
"""Times of arrival (ns) and events, in order of arrival (``read_arrivals``)."""


class Course(msgspec.Struct, frozen=True):
    """One interval: seconds since the first arrival, mean alpha of the units, and the busy factor."""

    at: float
    alpha: float
    busy: float


class Virtual(msgspec.Struct):
    """A mode in virtual time.

    ``corrections``, ``records``: results published and corrected, and their records on the wire. ``latency``: mean
    milliseconds from an event to the content that stayed, in the recording's time, by result type that people wait for:
    what processing takes is not in it. ``alpha``, ``busy``: means. ``memory``: means over the run. ``cpu``: seconds.
    ``finals``: how many; ``oracle_equal``: whether they are those of the in-order oracle.
    """

    mode: Mode
    seconds: float
    events: int
    corrections: CorrectionCounts
    records: WireRecords
    latency: dict[str, float]
    alpha: float
    busy: float
    memory: Parts
    cpu: float
    executed: int
    late: int
    finals: int
    oracle_equal: bool
    course: list[Course]


def virtual(
    scenario: Scenario,
    arrivals: Arrivals,
    mode: Mode,
    oracle: LenientOracle,
    slowness: float = 1.0,
    clock: Callable[[], float] = time.process_time,
) -> Virtual:
    """Run a mode over arrivals, and hold its finals against the ``oracle`` over the same ones.

    ``slowness``: how many times as slow as this machine the virtual one is (``slowness_of``); ``clock`` gives CPU seconds.
    """
    return _Run(in_mode(scenario, mode), mode, slowness, clock).over(arrivals, oracle)


def slowness_of(buffering: Virtual) -> float:
    """How slow a machine must be that pure buffering keeps busy for ``LOAD`` of the time."""
    return LOAD * buffering.seconds / max(buffering.cpu, 1e-9)


class _Run:
    """One run in virtual time."""

    def __init__(self, plan: Scenario, mode: Mode, slowness: float, clock: Callable[[], float]) -> None:
        self._plan, self._mode, self._slowness, self._clock = plan, mode, slowness, clock
        self._derived = published_types(plan.detectors)
        self._stepper = Stepper(plan.detectors, plan.policies(), time.perf_counter_ns, plan.adaptation)
        self._wire = Wire(keys_of(plan.detectors))
        self._results = frozenset(plan.plan.results)
        self._came: dict[Identity, tuple[str, float]] = {}
        self._course: list[Course] = []
        self._memory: list[Parts] = []
        self._cpu = self._spent = 0.0

    def over(self, arrivals: Arrivals, oracle: LenientOracle) -> Virtual:
        first = now = -1
        due = 0
        for now, some in _at_once(arrivals):
            if first < 0:
                first, due = now, now + INTERVAL
            while now >= due:
                self._adapt((due - first) / 1e9)
                due += INTERVAL
            began = self._clock()
            _, published = self._stepper.take([event for event in some if event.__class__ not in self._derived])
            self._spent += self._clock() - began
            self._note(published, now)
        self._cpu += self._spent
        self._note(self._stepper.end(), now)
        return self._virtual((now - first) / 1e9, oracle)

    def _adapt(self, at: float) -> None:
        """An interval has passed."""
        busy = self._spent * self._slowness / (INTERVAL / 1e9)
        self._cpu, self._spent = self._cpu + self._spent, 0.0
        hierarchy = self._stepper.hierarchy
        hierarchy.adapt(min(busy, 1.0), hierarchy.publications, max(0.0, 1.0 - 1.0 / busy) if busy else 0.0)
        self._course.append(Course(at, fmean(unit.alpha for unit in hierarchy.units), busy))
        if len(self._course) <= _PARTS_FIRST or len(self._course) % _PARTS_EVERY == 0:
            self._memory.append(parts(hierarchy, self._stepper.seen))

    def _note(self, published: list[Batch], now: int) -> None:
        """Count what goes over the wire, and note when the contents that people wait for came."""
        for batch in published:
            self._wire.take(batch)
            for name in self._results & batch.deltas.keys():
                delta = batch.deltas[name]
                for event in delta.retracts:
                    self._came.pop(IDENTITY(event), None)
                for event in (*delta.inserts, *(new for _, new in delta.revises)):
                    self._came[IDENTITY(event)] = name, (now - event.ts) / 1e6

    def _virtual(self, seconds: float, oracle: LenientOracle) -> Virtual:
        result = self._stepper.run()
        finals = sorted((event for events in result.finals.values() for event in events), key=ORDER)
        waits: dict[str, list[float]] = {}
        for name, latency in self._came.values():
            waits.setdefault(name, []).append(latency)
        return Virtual(
            mode=self._mode,
            seconds=seconds,
            events=result.events,
            corrections=corrected(result.statistics, self._plan),
            records=self._wire.records,
            latency={name: fmean(waits[name]) for name in self._plan.plan.results if name in waits},
            alpha=fmean(each.alpha for each in self._course) if self._course else self._stepper.hierarchy.units[0].alpha,
            busy=fmean(each.busy for each in self._course) if self._course else 0.0,
            memory=Parts.mean(self._memory or [parts(self._stepper.hierarchy, self._stepper.seen)]),
            cpu=self._cpu,
            executed=sum(unit.executed for unit in result.statistics),
            late=sum(map(len, result.late.values())),
            finals=len(finals),
            oracle_equal=same_events(finals, oracle.finals([result.late_identities()])),
            course=self._course,
        )


def _at_once(arrivals: Arrivals) -> Iterator[tuple[int, list[Event]]]:
    """The events that arrive within ``AT_ONCE``, with the time of the last arrival."""
    pairs = ((arrival, event) for times, events in arrivals for arrival, event in zip(times, events, strict=True))
    for slot, some in groupby(pairs, key=lambda pair: pair[0] // AT_ONCE):
        yield (slot + 1) * AT_ONCE, [event for _, event in some]
