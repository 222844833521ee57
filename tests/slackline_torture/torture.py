"""Torture: faults by a seed on real nodes, while sources continue; in the end, all must be as if nothing had happened."""

from __future__ import annotations

import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
from slackline_torture.application import Digest, Mark, Rise, application
from slackline_torture.faults import Blow, drawn, strike
from slackline_torture.processes import TorturedMesh
from slackline_torture.sources import Source

from middleware.model.change import Insert, Watermark
from middleware.model.errors import NetworkError, RunError
from middleware.model.event import IDENTITY, NEVER, ORDER, Event, EventTypes, type_name
from middleware.model.time import SECOND
from middleware.runtime.clients import Subscriber
from middleware.runtime.report import NodeReport, read_report
from middleware.runtime.storage.late_ledger import LedgerEntry, read_ledger
from middleware.testing.oracle import oracle

SOURCES = 3
RESULTS = (Rise, Mark, Digest)

_READY = 60.0
_RESUME = 90.0
_END = 120.0


class Struck(msgspec.Struct, frozen=True):
    """A blow that was survived: seconds from its end until results of what happened after it were final."""

    blow: Blow
    resumed: float


class TortureReport(msgspec.Struct):
    """How it went.

    ``finals``
        final results delivered; ``wrong`` says what is wrong with them, nothing if all is right.
    ``late``
        events of honest sources that the ledgers list, so that the oracle did without them.
    ``rejected``
        events that were rejected, by reason: what the liars sent.
    ``memory``
        by node, the largest resident size seen, bytes.
    """

    seed: int
    struck: list[Struck]
    events: int
    finals: int
    late: int
    rejected: dict[str, int]
    drops: dict[str, int]
    memory: dict[str, int]
    wrong: list[str]
    seconds: float


class _Reader(threading.Thread):
    """Takes final results at the far end."""

    def __init__(self, subscriber: Subscriber) -> None:
        super().__init__(name="torture reader", daemon=True)
        self.finals: list[Event] = []
        self.watermark = NEVER
        self.error: Exception | None = None
        self._subscriber = subscriber

    def run(self) -> None:
        try:
            for change in self._subscriber:
                if isinstance(change, Watermark):
                    self.watermark = change.ts
                elif isinstance(change, Insert):
                    self.finals.append(change.event)
        except NetworkError as error:
            self.error = error


class Torture:
    """One run: ``mesh`` with its sources and its reader."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.seed = seed
        self.mesh = TorturedMesh(folder)
        self.memory: Counter[str] = Counter()
        self._folder = folder

    def run(self, blows: list[Blow], show: Callable[[Struck], None]) -> TortureReport:
        """Strike all blows, each once the nodes have got over the last. Raises RunError if they do not."""
        start = time.monotonic()
        mesh = self.mesh
        for name in mesh.nodes:
            mesh.start(name)
        types = EventTypes(RESULTS)
        address = mesh.links["subscriber to core"].address
        with Subscriber(address, RESULTS, event_types=types, consistency="final", patience=_END) as subscriber:
            self._await_ready(subscriber)
            reader = _Reader(subscriber)
            reader.start()
            publishers = mesh.links["publishers to edge"].address
            together = threading.Barrier(SOURCES)
            sources = [Source(f"gauge {number}", publishers, self.seed, together) for number in range(SOURCES)]
            for source in sources:
                source.start()
            struck = []
            for blow in blows:
                strike(mesh, blow)
                struck.append(Struck(blow, self._resumed(reader, sources, blow)))
                show(struck[-1])
            for source in sources:
                source.end()
            for thread in (*sources, reader):
                thread.join(_END)
            self._check_alive(reader, sources)
            statistics = subscriber.statistics()
        codes = {name: node.end() for name, node in mesh.nodes.items()}
        wrong = [f"node {name} ended with exit code {code}" for name, code in codes.items() if code != 0]
        wrong += [f"{count} x {what}" for what, count in statistics.violations.items()]
        wrong += [f"the subscriber dropped {count} x {what}" for what, count in statistics.drops.items()]
        return self._report(struck, sources, reader, wrong, time.monotonic() - start)

    def _await_ready(self, subscriber: Subscriber) -> None:
        deadline = time.monotonic() + _READY
        while True:
            try:
                subscriber.wait_ready(1.0)
                return
            except NetworkError:
                self._check_alive(None, [])
                if time.monotonic() > deadline:
                    raise RunError(f"the nodes are not ready after {_READY:.0f} s") from None

    def _resumed(self, reader: _Reader, sources: list[Source], blow: Blow) -> float:
        """Wait until what happened after this moment is final; the seconds that takes."""
        start, mark = time.monotonic(), time.time_ns()
        while reader.watermark < mark:
            self._check_alive(reader, sources)
            for name, node in self.mesh.nodes.items():
                self.memory[name] = max(self.memory[name], node.memory)
            if time.monotonic() - start > _RESUME:
                behind = (mark - reader.watermark) / SECOND
                raise RunError(
                    f"no progress {_RESUME:.0f} s after {blow}: {behind:.1f} s behind; seed {self.seed}; {self._last_outputs()}"
                )
            time.sleep(0.02)
        return round(time.monotonic() - start, 2)

    def _check_alive(self, reader: _Reader | None, sources: list[Source]) -> None:
        """Raises RunError if a node, a source or the reader has ended before its time."""
        for name, node in self.mesh.nodes.items():
            if not node.is_alive:
                raise RunError(f"node {name} has died; seed {self.seed}; its last words:\n{node.last_output()}")
        threads: list[Source | _Reader] = [*sources, *([reader] if reader is not None else [])]
        for thread in threads:
            if thread.error is not None:
                raise RunError(f"{thread.name} has stopped: {thread.error}; seed {self.seed}; {self._last_outputs()}")

    def _last_outputs(self) -> str:
        return "\n".join(f"node {name}:\n{node.last_output()}" for name, node in self.mesh.nodes.items())

    def _report(
        self, struck: list[Struck], sources: list[Source], reader: _Reader, wrong: list[str], seconds: float
    ) -> TortureReport:
        listed = [entry for node in self.mesh.nodes.values() for entry in read_ledger(node.folder / "state")]
        honest = {source.name for source in sources}
        raw = [event for source in sources for event in source.published]
        reports = [report for node in self.mesh.nodes.values() if (report := read_report(node.folder / "report.json"))]
        return TortureReport(
            seed=self.seed,
            struck=struck,
            events=len(raw),
            finals=len(reader.finals),
            late=sum(entry.source in honest for entry in listed),
            rejected=dict(Counter(entry.reason for entry in listed if entry.source not in honest)),
            drops=dict(_drops(reports)),
            memory=dict(self.memory),
            wrong=wrong + compared(reader.finals, raw, listed),
            seconds=round(seconds, 1),
        )


def compared(finals: list[Event], raw: list[Event], listed: list[LedgerEntry]) -> list[str]:
    """What is wrong with the finals: compared with the oracle, which skips what the ledgers report."""
    late: dict[str, set[tuple[str, int]]] = {}
    for entry in listed:
        late.setdefault(entry.detector, set()).add((entry.source, entry.id))
    nowhere = late.pop("", set())
    kept = [event for event in raw if IDENTITY(event) not in nowhere]
    expected = [event for events in oracle(kept, application(), late).values() for event in events]
    expected = sorted((event for event in expected if isinstance(event, RESULTS)), key=ORDER)
    if finals == expected:
        return []
    wrong = []
    got, due = Counter(map(_name, finals)), Counter(map(_name, expected))
    for what, events in (("missing", due - got), ("too many or changed", got - due)):
        if events:
            wrong.append(f"{events.total()} finals {what}, the first {min(events)}")
    return wrong or ["the finals are not in order"]


def _name(event: Event) -> str:
    return f"{event.ts} {type_name(event.__class__)} {event!r}"


def _drops(reports: list[NodeReport]) -> Counter[str]:
    drops: Counter[str] = Counter()
    for report in reports:
        drops.update(report.broker.drops)
    return drops


def torture(faults: int, seed: int, longest: float, show: Callable[[Struck], None]) -> TortureReport:
    """Torture two nodes with ``faults`` blows drawn from ``seed``. Raises RunError if they do not survive one."""
    with tempfile.TemporaryDirectory(prefix="slackline-torture-") as folder:
        run = Torture(Path(folder), seed)
        try:
            return run.run(drawn(faults, seed, longest), show)
        finally:
            run.mesh.close()
