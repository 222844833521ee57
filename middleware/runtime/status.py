"""What a node tells of itself: to whoever asks it (``Inquiry``), and to what is scraped. Made by the node's own thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import msgspec

from middleware.broker.effects import BrokerStatistics
from middleware.broker.watermarks.waiting import NodeStatus
from middleware.runtime.latencies import Histogram, Latency

FRESH = 1.0
"""Seconds for which a record serves all who ask, so that no number of them costs the node more than one a second."""


class LogStatus(msgspec.Struct, frozen=True):
    """The log and the checkpoints of a node.

    ``size``, ``oldest``, ``offset``
        bytes of records kept; the offset behind which they begin; that of the last block.
    ``commits``, ``committing``
        transactions of this life, and the seconds spent on them.
    ``recovering``
        seconds that recovery took at the start of this life.
    ``checkpoints``, ``checkpoint_at``
        how many were completed in this life, and when the last one was (Unix time, ns; None: none).
    ``checkpoint_seconds``, ``checkpoint_size``
        what the last one took of the node's time, and its bytes.
    ``readers``
        by named subscription, how many blocks of the log it has not passed yet.
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
        where it is reached, and the other nodes of its configuration: address by name.
    ``at``, ``started``
        when this was made, and when the node was: Unix time, ns.
    ``waiting``, ``cpu``
        seconds that its loop has waited for something to do, and seconds of processor time of the process.
    ``memory``
        resident size of the process, bytes.
    ``counts``
        of its broker.
    ``steps``
        durations of the steps of its detectors.
    ``latencies``
        by event type, of the results of its detectors.
    ``listed``, ``unlisted``
        entries of its late ledger, and those that it had to let go.
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


class Status(NodeStatus, frozen=True):
    """What the streams of a node wait for, what its units have done, and its vitals (None: of a node of an earlier version)."""

    vitals: Vitals | None = None


class Desk:
    """Where any thread asks a node for its status, and the node's own thread answers.

    ``is_asked`` is all that a step of the node looks at.
    """

    def __init__(self) -> None:
        self.is_asked = False
        self._status: Status | None = None
        self._made_at = float("-inf")
        self._is_closed = False
        self._changed = threading.Condition()

    def ask(self, patience: float) -> Status | None:
        """A status that is no older than FRESH; if none comes within ``patience`` seconds, the last one there is, if any."""
        asked = time.monotonic()
        with self._changed:
            if self._made_at < asked - FRESH and not self._is_closed:
                self.is_asked = True
                self._changed.wait_for(lambda: self._made_at >= asked or self._is_closed, patience)
            return self._status

    def answer(self, make: Callable[[], Status]) -> None:
        """Make a status for all who have asked. In the node's thread."""
        self.is_asked = False
        status, now = make(), time.monotonic()
        with self._changed:
            self._status, self._made_at = status, now
            self._changed.notify_all()

    def close(self) -> None:
        """Nothing new comes; nobody waits for it any more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
