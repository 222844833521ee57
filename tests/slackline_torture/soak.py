"""Soak: more is offered than the nodes can take, for a long time. Memory must stay flat, and nothing may be dropped."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import msgspec
from slackline_torture.application import Digest, Reading
from slackline_torture.processes import TorturedMesh

from middleware.model.change import Insert, Watermark
from middleware.model.errors import NetworkError, RunError
from middleware.model.event import END, NEVER, Event, EventTypes
from middleware.model.time import SECOND
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.report import read_report

BATCH = 512
DISORDER = 20_000_000
"""By how much (ns) events of a batch are out of order."""

GROWTH = 1.10
"""Flat: the median of the last third lies at most this much above that of the first third after warming up, ..."""

SLACK = 16 * 2**20
"""... plus so many bytes: the arenas of the allocators."""

_PATIENCE = 120.0
_READY = 60.0


class Sample(msgspec.Struct, frozen=True):
    """One second: what was offered and taken so far (events), and the resident size by node (bytes)."""

    seconds: float
    offered: int
    taken: int
    memory: dict[str, int]


class SoakReport(msgspec.Struct):
    """How it went.

    ``sustainable``
        events a second that the nodes took when they were given all they could take.
    ``waited``
        the part of the time in which the source was held back.
    ``behind``
        seconds by which the final results lagged at the end of the load.
    ``alpha``
        by detector, alpha at the end: speculation is what gives way first, so it should be 1.
    """

    factor: float
    sustainable: float
    samples: list[Sample]
    events: int
    finals: int
    expected: int
    waited: float
    behind: float
    alpha: dict[str, float]
    drops: dict[str, int]
    wrong: list[str]


class _Flood(threading.Thread):
    """One source that offers ``rate`` events a second (None: as many as are taken), out of order within DISORDER."""

    def __init__(self, address: str) -> None:
        super().__init__(name="flood", daemon=True)
        self.rate: float | None = None
        self.offered = self.taken = 0
        self.waited = 0.0
        self.error: Exception | None = None
        self._address = address
        self._ending = threading.Event()

    def run(self) -> None:
        try:
            with Publisher(self._address, name="flood", types=[Reading], patience=_PATIENCE) as publisher:
                start, owed = time.monotonic(), 0.0
                while not self._ending.is_set():
                    now = time.monotonic()
                    if self.rate is not None:
                        owed = min(owed + (now - start) * self.rate, 4 * BATCH)
                        start = now
                        if owed < BATCH:
                            self._ending.wait((BATCH - owed) / self.rate)
                            continue
                        owed -= BATCH
                    self.offered += BATCH
                    publisher.publish(self._batch(self.taken))
                    self.taken += BATCH
                    publisher.advance(Reading, time.time_ns() - 2 * DISORDER)
                    self.waited = publisher.statistics().waited
                publisher.advance(Reading, END)
                publisher.flush(_PATIENCE)
        except NetworkError as error:
            self.error = error

    def end(self) -> None:
        """Offer no more, and end the stream."""
        self._ending.set()

    def _batch(self, first: int) -> list[Event]:
        now = time.time_ns()

        def reading(n: int) -> Event:
            return Reading(n % 7, n * 7_919 % 101, ts=now - n * 104_729 % DISORDER, id=n, source="flood")

        return [reading(n) for n in range(first, first + BATCH)]


class _Reader(threading.Thread):
    def __init__(self, subscriber: Subscriber) -> None:
        super().__init__(name="soak reader", daemon=True)
        self.finals = 0
        self.watermark = NEVER
        self.error: Exception | None = None
        self._subscriber = subscriber

    def run(self) -> None:
        try:
            for change in self._subscriber:
                if isinstance(change, Watermark):
                    self.watermark = change.ts
                elif isinstance(change, Insert):
                    self.finals += 1
        except NetworkError as error:
            self.error = error


def soak(seconds: float, factor: float, warm_up: float, show: Callable[[Sample], None]) -> SoakReport:
    """Find out for ``warm_up`` seconds what two nodes can take, then offer ``factor`` times that for ``seconds``.

    ``show`` gets a sample each second. Raises RunError if a node dies or does not come to an end.
    """
    with tempfile.TemporaryDirectory(prefix="slackline-soak-") as folder:
        mesh = TorturedMesh(Path(folder))
        try:
            for name in mesh.nodes:
                mesh.start(name)
            address = mesh.nodes["core"].address
            types = EventTypes([Digest])
            with Subscriber(address, [Digest], event_types=types, consistency="final", patience=_PATIENCE) as subscriber:
                return _soaked(mesh, subscriber, seconds, factor, warm_up, show)
        finally:
            mesh.close()


def _soaked(
    mesh: TorturedMesh, subscriber: Subscriber, seconds: float, factor: float, warm_up: float, show: Callable[[Sample], None]
) -> SoakReport:
    try:
        subscriber.wait_ready(_READY)
    except NetworkError as error:
        raise RunError(f"the nodes are not ready: {error}") from None
    reader, flood = _Reader(subscriber), _Flood(mesh.nodes["edge"].address)
    reader.start()
    flood.start()
    _watch(mesh, flood, reader, warm_up, show)
    half = flood.taken
    _watch(mesh, flood, reader, warm_up, show)
    sustainable = max((flood.taken - half) / warm_up, 1.0)
    waited = flood.waited
    flood.rate = factor * sustainable
    samples = _watch(mesh, flood, reader, seconds, show)
    waited = (flood.waited - waited) / seconds
    behind = (time.time_ns() - reader.watermark) / SECOND
    flood.end()
    for thread in (flood, reader):
        thread.join(_PATIENCE)
    if flood.error or reader.error or flood.is_alive() or reader.is_alive():
        raise RunError(f"it did not come to an end: {flood.error or reader.error or 'still busy'}")
    codes = {name: node.end() for name, node in mesh.nodes.items()}
    wrong = [f"node {name} ended with exit code {code}" for name, code in codes.items() if code != 0]
    wrong += [f"{count} x {what}" for what, count in subscriber.statistics().violations.items()] + not_flat(samples)
    return _report(mesh, flood, reader, factor, sustainable, samples, waited, behind, wrong)


def _watch(mesh: TorturedMesh, flood: _Flood, reader: _Reader, seconds: float, show: Callable[[Sample], None]) -> list[Sample]:
    """Look at everything once a second."""
    samples: list[Sample] = []
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        time.sleep(min(1.0, seconds))
        for name, node in mesh.nodes.items():
            if not node.is_alive:
                raise RunError(f"node {name} has died; its last words:\n{node.last_output()}")
        if flood.error or reader.error:
            raise RunError(f"stopped: {flood.error or reader.error}")
        memory = {name: node.memory for name, node in mesh.nodes.items()}
        samples.append(Sample(round(time.monotonic() - start, 1), flood.offered, flood.taken, memory))
        show(samples[-1])
    return samples


def not_flat(samples: list[Sample]) -> list[str]:
    """By node, what is wrong with its memory: nothing if it is flat."""
    third = max(1, len(samples) // 3)
    wrong = []
    for name in samples[0].memory if samples else ():
        first, last = (median(sample.memory[name] for sample in part) for part in (samples[:third], samples[-third:]))
        if last > first * GROWTH + SLACK:
            wrong.append(f"the memory of node {name} grew from {first / 2**20:.0f} MB to {last / 2**20:.0f} MB")
    return wrong


def _report(
    mesh: TorturedMesh,
    flood: _Flood,
    reader: _Reader,
    factor: float,
    sustainable: float,
    samples: list[Sample],
    waited: float,
    behind: float,
    wrong: list[str],
) -> SoakReport:
    reports = {name: read_report(node.folder / "report.json") for name, node in mesh.nodes.items()}
    alpha: dict[str, float] = {}
    drops: dict[str, int] = {}
    digests = taken = 0
    for report in reports.values():
        for unit in report.units if report is not None else ():
            alpha[unit.detector] = unit.alpha
            digests += (unit.inserted - unit.retracted) if unit.detector == "Digests" else 0
            taken += (unit.received - unit.late) if unit.detector == "Rises" else 0
        drops |= report.broker.drops if report is not None else {}
    if taken != flood.taken:
        wrong.append(f"{flood.taken:,} events were published, {taken:,} came to the detectors")
    if digests != reader.finals:
        wrong.append(f"{digests:,} results were made, {reader.finals:,} were delivered")
    wrong += [f"{count:,} x {what}" for what, count in drops.items() if not what.startswith("frames to a")]
    return SoakReport(
        factor=factor,
        sustainable=round(sustainable),
        samples=samples,
        events=flood.taken,
        finals=reader.finals,
        expected=digests,
        waited=round(waited, 3),
        behind=round(behind, 3),
        alpha=alpha,
        drops=drops,
        wrong=wrong,
    )
