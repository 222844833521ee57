"""Reads the log of a node from an offset that the reader keeps itself, as an engine with checkpoints of its own does."""

from __future__ import annotations

import time
from typing import NamedTuple, TypeVar

from middleware.link.codec import Commit, Gap, Interest, SinkPosition, decode_payload, encode
from middleware.link.frames import Parts
from middleware.model.change import Change, Delta
from middleware.model.errors import EventError, NetworkError
from middleware.model.event import EventType, EventTypes, type_name
from middleware.model.schema import fields_of
from middleware.model.time import SECOND
from middleware.model.words import counted
from middleware.runtime.clients.connection import PATIENCE, Connection
from middleware.runtime.clients.inquiry import Inquiry
from middleware.runtime.clients.subscriber import Consistency, Subscriber
from middleware.runtime.transport.keys import Keys

T = TypeVar("T")
_WAIT = 0.05
_NOBODYS = 2**62
"""A line that no log has (they are smaller), so a node answers who names it with its own."""


class Extent(NamedTuple):
    """The state of a reader in a node's log: its line; the offset after which the log begins; the one that the reader has."""

    line: int
    oldest: int
    offset: int


class LogReader(Subscriber):
    """A subscriber that begins at an offset of the node's log, and commits only by ``commit_at``.

    ``start``
        line and offset to begin at. If the log has another line, or begins later, ``gaps`` counts a gap.
    ``after``
        with finals: the last one that is known to be taken.
    ``resume``
        a durable name: the node keeps all subscribed events under it, from the last commit on. Without a name, the log has
        events of derived types only if others subscribed to them.
    """

    _in_columns = True

    def __init__(
        self,
        address: str,
        event_type: EventType,
        start: tuple[int, int],
        *,
        consistency: Consistency,
        name: str | None = None,
        resume: str | None = None,
        after: SinkPosition | None = None,
        keys: Keys | None = None,
        node: str | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self._event_type = event_type
        super().__init__(
            address,
            [event_type],
            event_types=EventTypes([event_type]),
            consistency=consistency,
            on_slow="disconnect",
            name=name,
            resume=resume,
            after=after,
            start=start,
            keys=keys,
            node=node,
            patience=patience,
        )

    @property
    def reached(self) -> tuple[int, int, SinkPosition | None]:
        """Line and offset from which all that ``changes`` has not given yet can be read; of finals, also the last one given."""
        return self._subscription.reached()

    @property
    def seen(self) -> int:
        """The offset of the log up to which everything has arrived; 0 if nothing has."""
        return self._subscription.taken[1]

    @property
    def behind_gap(self) -> int:
        """The offset of the log behind the last gap that was met; 0 if none was."""
        return self._subscription.behind_gap

    @property
    def watermark(self) -> int:
        """The watermark of what was read."""
        return self._subscription.watermark

    def changes(self, timeout: float) -> list[Change]:
        """The changes that arrive together next; none within ``timeout`` seconds, or if all that came was word of an offset."""
        return self._readable(self._subscription.changes(self._next(timeout)))

    def deltas(self, timeout: float) -> list[Delta]:
        """Like ``changes``, without watermarks, and in columns where they came so: see ``Subscription.deltas``."""
        return self._readable(self._subscription.deltas(self._next(timeout)))

    def skip(self, timeout: float) -> None:
        """Pass what arrives next, undecoded."""
        self._next(timeout)

    def _readable(self, found: T) -> T:
        """Return ``found``. Raises EventError if some of the log's events are none of the class: they would be omitted."""
        drops = {why: count for why, count in self._subscription.drops.items() if why != "interruption"}
        if not drops:
            return found
        kind = self._event_type
        fields = ", ".join(f"{name}: {getattr(hint, '__name__', hint)}" for name, hint in fields_of(kind).items())
        raise EventError(
            f"the log of the node at {self.address} holds events that are no {type_name(kind)} ({fields}): {counted(drops)}; "
            "take the class with which they were published"
        )

    def commit(self) -> None:
        """Do nothing: changes may have to be read again."""

    def commit_at(self, line: int, offset: int, position: SinkPosition | None) -> None:
        """Confirm to the node that everything up to this offset is safe, so its log need not keep it under this name."""
        with self._lock:
            self._link.send([encode(Commit(line, offset, position))])
            self._flush_out()


class _Where(Connection):
    """Asks a node for the line of its log, and for the offset at which a reader of this name resumes."""

    logs_waiting = False

    def __init__(self, address: str, interest: Interest, name: str | None, keys: Keys | None, node: str | None) -> None:
        self.gap: Gap | None = None
        greeting = [encode(interest)]
        super().__init__("subscriber", address, greeting, name=name, keys=keys, node=node, patience=PATIENCE)

    def ask(self) -> Gap:
        deadline = time.monotonic_ns() + round(PATIENCE * SECOND)
        with self._lock:
            while self.gap is None:
                self._check_alive()
                if time.monotonic_ns() > deadline:
                    raise NetworkError(f"node at {self.address} does not announce where its log is")
                self._pump(_WAIT)
            return self.gap

    def _take(self, parts: Parts) -> None:
        super()._take(parts)
        payload = decode_payload(parts)
        if type(payload) is Gap and self.gap is None:
            self.gap = payload


def extent(
    address: str,
    event_type: EventType,
    *,
    resume: str | None = None,
    name: str | None = None,
    keys: Keys | None = None,
    node: str | None = None,
) -> Extent:
    """The state of the log of the node at ``address``. Raises NetworkError, also if the node keeps no log.

    ``resume``
        a durable name: from now on the node keeps this type under it; the offset is that of what was committed last.
    ``name``
        the name of a reader that will come: a node believes only who has been there in its present life.
    """
    with Inquiry(address, keys=keys, node=node) as inquiry:
        log = inquiry.ask().vitals.log
    if log is None:
        raise NetworkError(f'node at {address} keeps no log to read from: start it with durability = "disk"')
    interest = Interest(1, [type_name(event_type)], "disconnect", line=_NOBODYS, resumes=resume is not None)
    with _Where(address, interest, resume or name, keys, node) as where:
        gap = where.ask()
    return Extent(gap.line, log.oldest, gap.offset)
