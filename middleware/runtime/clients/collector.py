"""Collects the output of a run: every change of every result with its time of delivery, and the finals behind the barrier."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Collection

import msgspec

from middleware.delivery.barrier import Barrier
from middleware.model.change import Batch, Delta
from middleware.model.errors import NetworkError
from middleware.model.event import END, IDENTITY, Event, EventTypes, Identity, type_name
from middleware.runtime.clients.subscriber import Subscriber

_SHOWN = 12
_WAIT = 0.1


class Shown(msgspec.Struct):
    """A result as a person sees it: ``state`` is early, revised, withdrawn or final."""

    event: Event
    state: str = "early"


class Collector:
    """Subscribes to all derived types and receives them, in a thread of its own, to the end of the streams.

    ``finals``
        final events in total order, as a subscriber with consistency "final" gets them.
    ``delivered``
        by identity, when (Unix time, ns) the lasting content was delivered.
    ``changes``
        insertions, revisions and retractions by event type.
    ``shown``
        the last few results of the types in ``results``.
    """

    def __init__(self, address: str, derived: Collection[str], types: EventTypes, results: Collection[str]) -> None:
        self.finals: list[Event] = []
        self.delivered: dict[Identity, int] = {}
        self.changes: dict[str, Counter[str]] = {}
        self.shown: deque[Shown] = deque(maxlen=_SHOWN)
        self.failure: str | None = None
        self._results = frozenset(results)
        self._barrier = Barrier(derived)
        self._latest: dict[Identity, Shown] = {}
        self._stop = threading.Event()
        self._subscriber = Subscriber(address, list(derived), event_types=types, name="collector")
        self._subscriber.logs_waiting = False  # the starter of the nodes waits for them itself
        self._thread = threading.Thread(target=self._collect, name="collector", daemon=True)

    def start(self, timeout: float) -> None:
        """Wait until every node knows the subscription, then collect."""
        self._subscriber.wait_ready(timeout)
        self._thread.start()

    def join(self, timeout: float) -> bool:
        """Wait for the end of all streams; returns whether it came."""
        self._thread.join(timeout)
        return not self._thread.is_alive() and self.failure is None

    def close(self) -> None:
        """Stop collecting."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._subscriber.close()

    @property
    def violations(self) -> dict[str, int]:
        """Changes to final results: always empty, or Slackline has broken its promise."""
        return dict(self._barrier.violations)

    def _collect(self) -> None:
        try:
            while self._barrier.watermark < END and not self._stop.is_set():
                batch = self._subscriber.receive_batch(_WAIT)
                self._take(batch, time.time_ns())
        except NetworkError as error:
            self.failure = str(error)

    def _take(self, batch: Batch, now: int) -> None:
        for name, delta in batch.deltas.items():
            counts = self.changes.setdefault(name, Counter())
            counts["inserted"] += len(delta.inserts)
            counts["revised"] += len(delta.revises)
            counts["retracted"] += len(delta.retracts)
            delivered = self.delivered
            for event in delta.inserts:
                delivered[IDENTITY(event)] = now
            for _, event in delta.revises:
                delivered[IDENTITY(event)] = now
            if name in self._results:
                self._show(delta)
        for event in self._barrier.take(batch):
            self.finals.append(event)
            if type_name(event.__class__) in self._results and (shown := self._latest.pop(IDENTITY(event), None)):
                shown.state = "final"

    def _show(self, delta: Delta) -> None:
        for event in delta.retracts:
            if shown := self._latest.pop(IDENTITY(event), None):
                shown.state = "withdrawn"
        for old, new in delta.revises:
            if shown := self._latest.get(IDENTITY(old)):
                shown.event, shown.state = new, "revised"
        for event in delta.inserts:
            shown = self._latest[IDENTITY(event)] = Shown(event)
            self.shown.append(shown)
