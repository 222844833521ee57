"""Publisher: how a program outside a node sends raw events."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import msgspec

from middleware.clock import SECOND
from middleware.errors import NetworkError
from middleware.event import Event, EventType
from middleware.pubsub.link import LinkStatistics
from middleware.pubsub.publication import Frame, Publication
from middleware.pubsub.seen import Run
from middleware.runtime.connection import PATIENCE, Connection
from middleware.runtime.keys import Keys

_WAIT = 0.05


class PublisherStatistics(msgspec.Struct):
    """Counts since the start; ``waited`` is seconds spent waiting for credit. ``drops``: frames of the node, by reason."""

    events: int
    waited: float
    drops: dict[str, int]
    link: LinkStatistics


class Publisher(Connection):
    """Sends raw events to the node at ``address``. Attaches whenever the node is there; waits while the node has no room.

    Events come with their identity: ``source`` and ``id``, unique together. Each is taken once, however often it is sent.
    Whoever promises progress (``advance``) lets results become final sooner than the clock alone would.

    ``types``
        event types (or their names) that it will send: until it promises progress for them, no one counts on any.
    ``patience``
        seconds after which a node that does not answer is an error.
    """

    def __init__(
        self,
        address: str,
        *,
        name: str | None = None,
        types: Iterable[EventType | str] = (),
        keys: Keys | None = None,
        node: str | None = None,
        patience: float = PATIENCE,
    ) -> None:
        self._publication = Publication(types)
        self._events = 0
        self._waited = 0
        super().__init__("publisher", address, self._publication.greeting, name=name, keys=keys, node=node, patience=patience)

    def publish(self, events: Sequence[Event]) -> None:
        """Send new events, in this order. Waits while there is no credit. Raises NetworkError, EventError."""
        for frame in self._publication.frames(events):
            self._send(frame)

    def retract(self, event: Event) -> None:
        """Withdraw an event that was published."""
        self._send(self._publication.retraction(event))

    def revise(self, old: Event, new: Event) -> None:
        """Give an event that was published new content: same type, source and id."""
        self._send(self._publication.revision(old, new))

    def publish_encoded(
        self, type_name: str, records: list[bytes] | bytes, count: int, clock: int, runs: list[Run] | None = None
    ) -> None:
        """Send events that are encoded already: each a msgpack array of its fields, ``records`` an array of them.

        ``clock``: the largest ts among them. ``runs``: their identities as (source, first id, last id), if they are at
        hand; brokers then need not read the events to know that none comes twice.
        """
        self._send(self._publication.encoded(type_name, records, count, clock, runs))

    def advance(self, types: EventType | str | Iterable[EventType | str], progress: int) -> None:
        """Promise that this publisher sends nothing more of these types with ts <= ``progress`` (END: nothing at all)."""
        with self._lock:
            said = self._publication.promise(types, progress)
            self._await_room()
            self._link.send(said)
            self._flush_out()

    def flush(self, timeout: float | None = None) -> None:
        """Wait until the node has taken everything. Raises NetworkError after ``timeout`` seconds (default: patience)."""
        deadline = None if timeout is None else time.monotonic_ns() + round(timeout * SECOND)
        with self._lock:
            while not self._link.idle:
                self._check_alive()
                self._link.ask(time.monotonic_ns())
                if deadline is not None and time.monotonic_ns() > deadline:
                    left = self._link.outstanding
                    raise NetworkError(f"node at {self.address} has not taken {left} frames within {timeout} s")
                self._pump(_WAIT)

    def statistics(self) -> PublisherStatistics:
        """A record of the counts so far."""
        return PublisherStatistics(self._events, self._waited / SECOND, dict(self._drops), self.link_statistics())

    def _send(self, frame: Frame) -> None:
        with self._lock:
            self._await_room()
            self._link.send(self._publication.said(frame))
            self._events += frame.events
            self._flush_out()

    def _await_room(self) -> None:
        if not self._link.has_room:
            start = time.monotonic_ns()
            self._pump(0)
            while not self._link.has_room:
                self._check_alive()
                self._pump(_WAIT)
            self._waited += time.monotonic_ns() - start
        elif self._link.closed is not None:
            self._check_alive()

    def _link_restarted(self) -> None:
        if (said := self._publication.restarted()) is not None:
            self._link.send(said)
