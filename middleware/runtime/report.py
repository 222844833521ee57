"""What a node says of itself when it ends, for whoever started it: units, ledgers, adaptation, CPU and memory."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
import psutil

from middleware.change import Batch
from middleware.event import IDENTITY, Identity
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.unit import UnitStatistics
from middleware.pubsub.broker import BrokerStatistics


class Adaptation(msgspec.Struct, frozen=True):
    """One interval of alpha adaptation: Unix time (ns), busy factor, and alpha by detector afterwards."""

    time: int
    busy: float
    alpha: dict[str, float]


class NodeReport(msgspec.Struct):
    """A node's life.

    ``late``
        by detector, the (source, id) of what its ledger lists.
    ``failures``
        by detector, the last line of the traceback of each quarantined event.
    ``cpu``, ``seconds``, ``memory``
        processor time (s), life time (s), largest resident size (bytes).
    """

    node: str
    units: list[UnitStatistics]
    late: dict[str, list[Identity]]
    failures: dict[str, list[str]]
    adaptation: list[Adaptation]
    broker: BrokerStatistics
    cpu: float
    seconds: float
    memory: int


class Reporter:
    """The processor of a node that keeps a diary: a ``Hierarchy``, and what is needed for its report."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        self.hierarchy = hierarchy
        self.adaptation: list[Adaptation] = []
        self.subscriptions = hierarchy.subscriptions
        self.publications = hierarchy.publications
        self._process = psutil.Process()
        self._started = time.monotonic()
        self._memory = 0

    def process(self, batch: Batch) -> list[Batch]:
        return self.hierarchy.process(batch)

    def adapt(self, busy: float) -> None:
        self.hierarchy.adapt(busy)
        alphas: Mapping[str, float] = {unit.name: unit.alpha for unit in self.hierarchy.units}
        self.adaptation.append(Adaptation(time.time_ns(), busy, dict(alphas)))
        self._memory = max(self._memory, self._process.memory_info().rss)

    def report(self, node: str, broker: BrokerStatistics) -> NodeReport:
        """The report as of now."""
        times = self._process.cpu_times()
        units = self.hierarchy.units
        return NodeReport(
            node=node,
            units=self.hierarchy.statistics(),
            late={unit.name: [IDENTITY(entry.event) for entry in unit.ledger] for unit in units},
            failures={unit.name: [_last_line(failed.failure) for failed in unit.quarantine] for unit in units},
            adaptation=self.adaptation,
            broker=broker,
            cpu=times.user + times.system,
            seconds=time.monotonic() - self._started,
            memory=max(self._memory, self._process.memory_info().rss),
        )


def write_report(report: NodeReport, file: Path) -> None:
    """Write a report so that it is there as a whole or not at all."""
    part = file.with_name(f".{file.name}.{os.getpid()}")
    part.write_bytes(msgspec.json.encode(report))
    part.replace(file)


def read_report(file: Path) -> NodeReport | None:
    """A node's report, or None if it left none (it was killed)."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=NodeReport)
    except FileNotFoundError:
        return None


def _last_line(failure: str | None) -> str:
    return (failure or "").strip().rpartition("\n")[2]
