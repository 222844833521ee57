"""The report of a node when it ends, for the program that started it: units, ledgers, adaptation, CPU and memory."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import psutil
import structlog
from msgspec.structs import replace

from middleware.broker.effects import BrokerStatistics
from middleware.broker.watermarks.waiting import UnitStatus
from middleware.model.change import Batch, Delta
from middleware.model.errors import last_line
from middleware.model.event import IDENTITY, Event, Identity, type_name
from middleware.model.quantities import exact_time
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.records import LedgerEntries, UnitStatistics
from middleware.ordering.unit import Unit
from middleware.runtime.failures import Failure, failure_of, locate

_log = structlog.get_logger()

MOST_REPORTED = 100_000
"""The most late events of a detector that a report names."""


MOST_FAILURES = 10_000
"""The most failures of a detector that a report names."""

MOST_INTERVALS = 6_000
"""Intervals of adaptation that are kept; when there are more (50 minutes), every second one is dropped, and so on."""


class AdaptationInterval(msgspec.Struct, frozen=True):
    """One interval of alpha adaptation: Unix time (ns) of its end, the busy factor, and the new alpha by detector.

    ``cpu``
        processor time / elapsed time (1: one core, all of the interval), as the operating system counts it.
    ``memory``
        resident size at its end, bytes.
    ``k``, ``published``, ``corrected``
        by detector: slack K (ns), and the results published, and those revised or withdrawn, since the start.
    ``waiting``, ``held``
        by detector: events in its buffers at the end of the interval: not emitted yet; emitted but kept.
    """

    time: int
    busy: float
    alpha: dict[str, float]
    cpu: float = 0.0
    memory: int = 0
    k: dict[str, int] = {}
    published: dict[str, int] = {}
    corrected: dict[str, int] = {}
    waiting: dict[str, int] = {}
    held: dict[str, int] = {}


class NodeReport(msgspec.Struct):
    """The report of a node's life.

    ``late``
        by detector, the (source, id) of its first MOST_REPORTED late events; the ledger has all.
    ``failures``
        by detector, its first MOST_FAILURES failures: what was raised at a quarantined event, and where.
    ``first_failed``
        by detector, the first quarantined event.
    ``cpu``, ``seconds``, ``memory``
        processor time (s), life time (s), largest resident size (bytes).
    """

    node: str
    units: list[UnitStatistics]
    late: dict[str, list[Identity]]
    failures: dict[str, list[str]]
    adaptation: list[AdaptationInterval]
    broker: BrokerStatistics
    cpu: float
    seconds: float
    memory: int
    first_failed: dict[str, str] = {}


class Reporter:
    """A node's processor: a ``Hierarchy`` that also collects the contents of the node's report."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        self.hierarchy = hierarchy
        self._late: dict[str, list[Identity]] = {unit.name: [] for unit in hierarchy.units}
        self._failures: dict[str, list[str]] = {unit.name: [] for unit in hierarchy.units}
        self._first_failed: dict[str, str] = {}
        self.adaptation: list[AdaptationInterval] = []
        self._intervals, self._spacing = 0, 1
        self._halted: set[str] = set()
        self.subscriptions = hierarchy.subscriptions
        self.publications = hierarchy.publications
        self.derivations, self.backdate = hierarchy.derivations, hierarchy.backdate
        self._process = psutil.Process()
        self._started = self._adapted = time.monotonic()
        self._cpu = self._processor_time()
        self._memory = self._last_resident = 0

    def process(self, batch: Batch, finals: Mapping[str, int | None] | None = None) -> list[Batch]:
        results = self.hierarchy.process(batch, finals)
        if results and results[-1].stopped:
            self._log_halted()
        return results

    def _log_halted(self) -> None:
        """Log each detector that has stopped, once."""
        for unit in self.hierarchy.units:
            if unit.halted is not None and unit.name not in self._halted:
                self._halted.add(unit.name)
                _log.error(
                    "a detector has stopped: its results that were not final are withdrawn, and the events for it are listed "
                    "('slackline late list')",
                    detector=unit.name,
                    why=last_line(unit.halted).partition(":")[0],
                    at=locate(unit.halted, unit.detector),
                )

    def take_listed(self) -> list[LedgerEntries]:
        """The events that units have reported since the last call; the report names a bounded number of them."""
        taken = self.hierarchy.take_listed()
        detectors = {unit.name: unit.detector for unit in self.hierarchy.units} if taken else {}
        for name, late, failed in taken:
            reported = self._late[name]
            reported += [IDENTITY(entry.event) for entry in late[: MOST_REPORTED - len(reported)]]
            if failed:
                self._note([failure_of(name, detectors[name], each.cause, each.failure) for each in failed])
        return taken

    def _note(self, failures: list[Failure]) -> None:
        """Put failures of a detector into the report."""
        first = failures[0]
        reported = self._failures[first.detector]
        if not reported:
            self._first_failed[first.detector] = repr(first.event)
            self._warn(first)
        reported += [
            f"{each.error} ({each.location})" if each.location else each.error
            for each in failures[: MOST_FAILURES - len(reported)]
        ]

    def _warn(self, failure: Failure) -> None:
        """Log the first failure of a detector, without the contents of event and exception: no payload gets into logs."""
        event = failure.event
        _log.warning(
            "a detector has raised; it skips the event, which is listed ('slackline late list')",
            detector=failure.detector,
            raised=failure.error.partition(":")[0],
            at=failure.location,
            of=f"{type_name(event.__class__)} {event.source}:{event.id} ts={exact_time(event.ts)}",
        )

    def finals(self) -> dict[str, int]:
        return self.hierarchy.finals()

    def promised_without(self, names: Collection[str]) -> dict[str, int]:
        return self.hierarchy.promised_without(names)

    def provisional(self) -> list[Event]:
        return self.hierarchy.provisional()

    @property
    def promised(self) -> dict[str, int]:
        return self.hierarchy.promised

    @property
    def halted_at(self) -> dict[str, int]:
        return self.hierarchy.halted_at

    @property
    def halted(self) -> dict[str, str]:
        return self.hierarchy.halted

    def halt(self, names: Collection[str]) -> list[Delta]:
        return self.hierarchy.halt(names)

    def set_aside(self, faults: Mapping[str, str]) -> list[Batch]:
        batches = self.hierarchy.set_aside(faults)
        self._log_halted()
        return batches

    def state(self) -> dict[str, Any]:
        return self.hierarchy.state() | {"late": {name: late.copy() for name, late in self._late.items()}}

    @property
    def code(self) -> dict[str, Any]:
        return self.hierarchy.code

    @property
    def code_identities(self) -> dict[str, str]:
        return self.hierarchy.code_identities

    def parts(self, count: int) -> Mapping[str, Any]:
        return self.hierarchy.parts(count)

    def restore(self, state: Mapping[str, Any], parts: Iterable[Mapping[str, Any]]) -> None:
        self.hierarchy.restore(state, parts)
        self._late |= {name: listed for name, listed in state["late"].items() if name in self._late}

    def adapt(self, busy: float, subscribed: Collection[str], behind: float = 0.0, work: float = 0.0) -> None:
        self.hierarchy.adapt(busy, subscribed, behind, work)
        self._intervals += 1
        if self._intervals % self._spacing:
            return
        if len(self.adaptation) >= MOST_INTERVALS:
            del self.adaptation[::2]
            self._spacing *= 2
        units = self.hierarchy.statistics()
        now, cpu, memory = time.monotonic(), self._processor_time(), self._resident()
        self.adaptation.append(
            AdaptationInterval(
                time=time.time_ns(),
                busy=busy,
                alpha={unit.detector: unit.alpha for unit in units},
                cpu=(cpu - self._cpu) / max(now - self._adapted, 1e-9),
                memory=memory,
                k={unit.detector: unit.k for unit in units},
                published={unit.detector: unit.inserted for unit in units},
                corrected={unit.detector: unit.revised + unit.retracted for unit in units},
                waiting={unit.detector: unit.waiting for unit in units},
                held={unit.detector: unit.held for unit in units},
            )
        )
        self._adapted, self._cpu = now, cpu
        self._memory = max(self._memory, memory)

    def waiting(self) -> list[UnitStatus]:
        """The causes for which each unit waits."""
        return [self._unit_status(unit) for unit in self.hierarchy.units]

    def _unit_status(self, unit: Unit) -> UnitStatus:
        first, key = unit.first_waiting, getattr(unit.detector, "key", None)
        waiting = None
        if first is not None:
            value = repr(getattr(first, key, "")) if isinstance(key, str) else ""
            waiting = (first.ts, type_name(first.__class__), first.source, value)
        counts = unit.statistics()
        return UnitStatus(
            detector=unit.name,
            reads=self.hierarchy.inputs(unit),
            publishes=[type_name(each) for each in unit.detector.publishes],
            watermark=unit.watermark,
            final=unit.final,
            clk=unit.clock.clk,
            k=unit.clock.k,
            alpha=unit.alpha,
            lateness=unit.lateness,
            waiting=counts.waiting,
            first=waiting,
            halted=last_line(unit.halted),
            counts=replace(counts, halted=None),
        )

    def report(self, node: str, broker: BrokerStatistics) -> NodeReport:
        """The report as of now."""
        self.take_listed()
        return NodeReport(
            node=node,
            units=self.hierarchy.statistics(),
            late=self._late,
            failures=self._failures,
            first_failed=self._first_failed,
            adaptation=self.adaptation,
            broker=broker,
            cpu=self._processor_time(),
            seconds=time.monotonic() - self._started,
            memory=max(self._memory, self._resident()),
        )

    def _processor_time(self) -> float:
        """The processor time used by this process so far, seconds."""
        return time.process_time()

    def _resident(self) -> int:
        """Resident size, bytes; the last known one while the system cannot say (with no free file descriptor, for example)."""
        with suppress(OSError, psutil.Error):
            self._last_resident = int(self._process.memory_info().rss)
        return self._last_resident


def write_report(report: NodeReport, file: Path) -> None:
    """Write a report atomically: the file is whole, or not there."""
    part = file.with_name(f".{file.name}.{os.getpid()}")
    part.write_bytes(msgspec.json.encode(report))
    part.replace(file)


def read_report(file: Path) -> NodeReport | None:
    """A node's report, or None if it left none (because it was killed)."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=NodeReport)
    except FileNotFoundError:
        return None
