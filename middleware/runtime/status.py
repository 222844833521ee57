"""The status of a node, for inquiries (``Inquiry``) and for scraped metrics. Made by the node's own thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import msgspec

from middleware.broker.effects import BrokerStatistics
from middleware.broker.watermarks.waiting import NodeStatus
from middleware.model.event import END, NEVER
from middleware.runtime.latencies import Histogram, Latency

FRESH = 1.0
"""Seconds for which a status serves all who ask, so that the node makes at most one per second."""


class LogStatus(msgspec.Struct, frozen=True):
    """The log and the checkpoints of a node.

    ``size``, ``oldest``, ``offset``
        bytes of the records kept; the offset after which they begin; the offset of the last block.
    ``commits``, ``committing``
        transactions in this life, and the seconds spent on them.
    ``recovering``
        seconds that the recovery at the start of this life took.
    ``checkpoints``, ``checkpoint_at``
        the number completed in this life, and the time of the last one (Unix time, ns; None if there is none).
    ``checkpoint_seconds``, ``checkpoint_size``
        the node's time spent on the last one, and its bytes.
    ``readers``
        by named subscription, the number of blocks of the log that it has not read yet.
    """

    size: int
    oldest: int
    offset: int
    commits: int
    committing: float
    recovering: float
    checkpoints: int
    checkpoint_at: int | None
    checkpoint_seconds: float
    checkpoint_size: int
    readers: dict[str, int]


class Vitals(msgspec.Struct, frozen=True, kw_only=True):
    """Counts and sizes of a node since its start.

    ``address``, ``nodes``
        its address, and the other nodes of its configuration: address by name.
    ``at``, ``started``
        when the node's thread made this record, and when the node started: Unix time, ns.
    ``waiting``, ``cpu``
        seconds that its loop has waited for work, and processor time of the process in seconds.
    ``memory``
        resident size of the process, bytes.
    ``counts``
        of its broker.
    ``steps``
        durations of the steps of its detectors.
    ``latencies``
        by event type, of the results of its detectors.
    ``listed``, ``unlisted``
        entries in its late ledger, and entries that it had to drop.
    """

    address: str
    nodes: dict[str, str]
    at: int
    started: int
    waiting: float
    cpu: float
    memory: int
    counts: BrokerStatistics
    steps: Histogram
    latencies: dict[str, Latency]
    listed: int
    unlisted: int
    log: LogStatus | None


class Status(NodeStatus, frozen=True, kw_only=True):
    """The causes for which a node's streams wait, the work of its units, and its vitals."""

    vitals: Vitals


def lag(watermark: int | None, clock: int | None) -> int | None:
    """How far a watermark is behind the clock, ns; 0 at the end. None where there is no watermark, or no clock yet."""
    if watermark is None or clock is None or watermark == NEVER:
        return None
    return 0 if watermark == END else max(0, clock - watermark)


class Desk:
    """Where any thread asks a node for its status, and the node's own thread answers.

    ``is_asked`` is all that a step of the node looks at; ``wake`` is called once it is set.
    """

    def __init__(self, wake: Callable[[], None] = lambda: None) -> None:
        self._wake = wake
        self.is_asked = False
        self._status: Status | None = None
        self._answered_at = float("-inf")
        self._is_closed = False
        self._changed = threading.Condition()

    def ask(self, patience: float) -> Status | None:
        """A status at most FRESH old; if none comes within ``patience`` seconds, the last one, or None if there is none."""
        asked = time.monotonic()
        with self._changed:
            if self._answered_at < asked - FRESH and not self._is_closed:
                self.is_asked = True
                self._wake()
                self._changed.wait_for(lambda: self._answered_at >= asked or self._is_closed, patience)
            return self._status

    def answer(self, make: Callable[[], Status]) -> None:
        """Make a status for all who have asked. To be called in the node's thread."""
        self.is_asked = False
        status, now = make(), time.monotonic()
        with self._changed:
            self._status, self._answered_at = status, now
            self._changed.notify_all()

    def close(self) -> None:
        """No more answers come: all who wait get the last status."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
