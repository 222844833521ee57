"""A process that feeds a trace to a node on time: one publisher, steadier on few cores than executors of Spark.

Its command line is ``python -m middleware.evaluation.feeder TRACE ADDRESS SPEED [TYPE ...]``; it prints ``FeedTimes`` as JSON.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import structlog

from middleware.model.errors import RunError
from middleware.model.event import END
from middleware.model.time import MILLISECOND
from middleware.recordings.feed.feed_pacing import FeedPace, window_of
from middleware.recordings.feed.trace_rows import TypeRows, frames
from middleware.recordings.traces import load_trace
from middleware.runtime.loop.interrupts import uninterrupted

_LEAD = 200 * MILLISECOND
_FLUSH = 600.0
"""Seconds within which the node must have taken everything, however far it has fallen behind."""


class FeedTimes(msgspec.Struct, frozen=True):
    """The events fed, and when: an event with arrival ``a`` was due at start + (a - first_arrival) / speed.

    ``start``, ``first_arrival``
        Unix time and arrival time of the first event, ns.
    ``behind``
        how far (ns) feeding fell behind its timetable at most, because the node had no room.
    """

    start: int
    first_arrival: int
    speed: float
    events: int
    seconds: float
    behind: int


def feed(trace: Path, address: str, speed: float, missing: Sequence[str] = ()) -> FeedTimes:
    """Publish a trace in arrival order, at ``speed`` times the pace of its arrivals; then say that it has ended.

    ``missing``: types that the node reads, and of which the trace has nothing: they end, too, so that none is waited for.
    """
    from middleware.runtime.clients import Publisher

    description = load_trace(trace)
    first, events = description.first_arrival, 0
    types = [*description.types, *missing]
    with Publisher(address, name="feeder", types=types) as publisher:
        start = time.time_ns() + _LEAD
        began = time.monotonic_ns() + _LEAD
        pace = FeedPace(start, first, speed)
        for frame in frames([TypeRows(trace, description, name) for name in description.types], window_of(speed)):
            pace.wait(frame.last)
            publisher.publish_blocks(frame.blocks)
            events += frame.events
        publisher.advance(types, END)
        publisher.flush(_FLUSH)
    return FeedTimes(start, first, speed, events, (time.monotonic_ns() - began) / 1e9, pace.behind)


class Feeder:
    """The process, seen from the one who starts it, by entering; it is left when it has ended, if need be by force.

    ``process``: None before it was entered.
    """

    def __init__(self, trace: Path, address: str, speed: float, missing: Sequence[str] = ()) -> None:
        self._command = [sys.executable, "-m", "middleware.evaluation.feeder", str(trace), address, repr(speed), *missing]
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Feeder:
        # A session of its own: Ctrl-C in the terminal reaches the one who started it, who ends it in order.
        pipe = subprocess.PIPE
        try:
            with uninterrupted():
                self.process = subprocess.Popen(
                    self._command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, start_new_session=True
                )
        except KeyboardInterrupt:
            self.__exit__()
            raise
        return self

    def result(self, timeout: float) -> FeedTimes:
        """Wait for the end. Raises RunError if the feed failed or takes longer than ``timeout`` seconds."""
        process = self.process
        assert process is not None, "enter it first"
        try:
            out, output = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise RunError(f"the feed has not ended after {timeout:.0f} s: the nodes are too slow, or stuck") from None
        if process.returncode:
            last = output.decode(errors="replace").strip().rpartition("\n")[2]
            raise RunError(f"the feed ended with exit code {process.returncode}: {last}")
        return msgspec.json.decode(out, type=FeedTimes)

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(file=sys.stderr))  # what it says goes to standard output
    sys.stdout.write(msgspec.json.encode(feed(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), sys.argv[4:])).decode())
