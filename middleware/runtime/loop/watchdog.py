"""A watchdog for steps: logs a step that hangs while it hangs, and one that took long when it is over.

It looks at the node's thread from a thread of its own, a few times a second; that costs two assignments per step. While a C
function holds the interpreter (a sort, say), it cannot look: such a step is logged when it ends.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

import msgspec
import structlog

from middleware.model.event import Event, type_name
from middleware.model.quantities import exact_time, format_duration
from middleware.model.time import SECOND
from middleware.ordering.unit import Unit

LONG = SECOND
"""Steps that take longer than this are logged (ns)."""

HANGS = 10 * SECOND
"""After this time (ns), a step that has not ended is logged; then again whenever its time has doubled."""

_LOOK_EVERY = 0.25

_log = structlog.get_logger()


class Sight(msgspec.Struct, frozen=True):
    """The work of a thread: the detector, the event (type, source:id and time; no payload), and the line of code."""

    detector: str = "unknown"
    of: str = "unknown"
    at: str = "unknown"


class Watchdog:
    """Watches the steps of one thread. That thread calls ``begin`` and ``end``; any other may call ``look``."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._thread = 0
        self._since = 0
        self._logged, self._log_at = 0, HANGS
        self._seen: tuple[int, Sight] | None = None
        self._closed = threading.Event()

    def begin(self, now: int) -> None:
        """Note that a step begins."""
        self._thread = threading.get_ident()
        self._since = now

    def end(self, now: int) -> None:
        """Note that the step is over; log it if it took long."""
        since, self._since = self._since, 0
        if now - since < LONG:
            return
        seen = self._seen
        sight = seen[1] if seen is not None and seen[0] == since else Sight()
        took = format_duration((now - since) // 1_000_000 * 1_000_000)
        _log.warning("a step took long", node=self._node, took=took, **msgspec.structs.asdict(sight))

    def look(self, now: int) -> None:
        """See whether a step takes long, and where; log it if it hangs."""
        since = self._since
        if not since or now - since < LONG or (frame := sys._current_frames().get(self._thread)) is None:
            return
        if self._seen is None or self._seen[0] != since or now - since >= self._log_at:
            sight = seen_in(frame)
            if self._since != since:  # the step has ended meanwhile
                return
            self._seen = (since, sight)
        if self._logged != since:
            self._logged, self._log_at = since, HANGS
        if now - since >= self._log_at:
            self._log_at *= 2
            took = format_duration((now - since) // SECOND * SECOND)
            what = msgspec.structs.asdict(self._seen[1])
            _log.error("a step has not ended; nothing runs before it does", node=self._node, so_far=took, **what)

    def start(self) -> None:
        """Look from a thread of its own until ``close``."""
        threading.Thread(target=self._run, name="watchdog", daemon=True).start()

    def close(self) -> None:
        """Stop looking."""
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(_LOOK_EVERY):
            self.look(time.monotonic_ns())


def seen_in(frame: FrameType) -> Sight:
    """The work as seen in the frames of a thread, from the innermost out. O(depth)."""
    detector = event = ""
    for each in _outwards(frame):
        values = each.f_locals
        if not event:
            found = next((value for value in values.values() if isinstance(value, Event)), None)
            event = (
                f"{type_name(found.__class__)} {found.source}:{found.id} ts={exact_time(found.ts)}" if found is not None else ""
            )
        if isinstance(values.get("self"), Unit):
            detector = values["self"].name
            break
    return Sight(detector or "unknown", event or "unknown", f"{frame.f_code.co_filename}:{frame.f_lineno}")


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
