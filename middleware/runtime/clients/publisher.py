"""Publisher: how a program outside a node sends raw events."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
import structlog

from middleware.broker.ingress.receipts import REPEATS
from middleware.delivery.publication import Frame, Publication
from middleware.link.codec import Answer, BlockHead, Question, Run, Sample, Tally, decode_payload, encode
from middleware.link.frames import Parts
from middleware.link.link import LinkStatistics
from middleware.model.errors import NetworkError
from middleware.model.event import Event, EventType
from middleware.model.time import SECOND
from middleware.runtime.clients.connection import PATIENCE, Connection
from middleware.runtime.transport.keys import Keys

_WAIT = 0.05
_ASK_EVERY = SECOND
"""How often a publisher that publishes asks what became of it, unless it flushes."""

_log = structlog.get_logger()


class PublisherStatistics(msgspec.Struct):
    """Counts since the start; ``waited`` is seconds spent waiting for credit. ``drops``: frames of the node, by reason.

    ``turned``: events that the node has turned away, by reason, as far as it has said so.
    """

    events: int
    waited: float
    drops: dict[str, int]
    link: LinkStatistics
    turned: dict[str, int] = {}


class Receipt(msgspec.Struct):
    """What became of what was published (or revised, or retracted) since the last receipt, as the node that took it tells.

    ``taken``
        the node has them: with a log, on its disk. A detector may list one as late all the same: ``slackline late``.
    ``repeats``
        were taken before; nothing is lost with them.
    ``turned``
        were not taken, by reason, with some ``samples``.
    ``unknown``
        the node has lost the link (it was started again, or was cut off for long) after it had taken these in, or turned
        them away, and before it could say which; or it is of a version that does not say.
    """

    taken: int = 0
    repeats: int = 0
    turned: dict[str, int] = {}
    samples: list[Sample] = []
    unknown: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether the node has all of it."""
        return not self.turned and not self.unknown


class _Account:
    """What is known of what became of all that was sent: in former lives of the link, and in this one."""

    def __init__(self) -> None:
        self._former, self._now = Tally(0, 0), Tally(0, 0)
        self._sent = 0
        self._told = Tally(0, 0)
        """As it was at the last receipt."""

    def tell(self, tally: Tally) -> list[str]:
        """Take what the node tells; returns the reasons that are new."""
        known, self._now = self.total(), tally
        return sorted(tally.turned.keys() - known.turned.keys() - REPEATS)

    def restarted(self) -> None:
        """The node begins anew: what it said before stands."""
        self._former, self._now = self.total(), Tally(0, 0)

    def total(self) -> Tally:
        """All lives together."""
        former, now = self._former, self._now
        turned = dict(Counter(former.turned) + Counter(now.turned))
        return Tally(0, former.taken + now.taken, turned, former.samples + now.samples)

    def receipt(self, sent: int) -> Receipt:
        """What has become of what was sent since the last one; ``sent``: in all."""
        total, before, was_sent = self.total(), self._told, self._sent
        self._told, self._sent = total, sent
        turned = Counter(total.turned) - Counter(before.turned)
        repeats = sum(turned.pop(reason, 0) for reason in REPEATS)
        taken = total.taken - before.taken
        samples = [sample for sample in total.samples if sample.reason in turned]
        unknown = max(0, sent - was_sent - taken - repeats - turned.total())
        return Receipt(taken, repeats, dict(turned.most_common()), samples, unknown)


class Publisher(Connection):
    """Sends raw events to the node at ``address``. Attaches whenever the node is there; waits while the node has no room.

    Events come with their identity: ``source`` and ``id``, unique together. Each is taken once, however often it is sent.
    Whoever promises a watermark (``advance``) lets results become final sooner than the clock alone would.

    ``types``
        event types (or their names) that it will send: until it promises a watermark for them, no one counts on any.
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
        self._account = _Account()
        self._asked = self._answered = 0
        self._asked_at = time.monotonic_ns()
        self._is_flushing = False
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

    def publish_blocks(self, blocks: Sequence[tuple[BlockHead, bytes]]) -> None:
        """Send what is encoded already, of several types, in one frame: so the node takes it in at once, and no type moves the
        clock ahead of another. Heads name ``newest``.
        """
        self._send(self._publication.given(blocks))

    def advance(self, types: EventType | str | Iterable[EventType | str], watermark: int) -> None:
        """Promise that this publisher sends nothing more of these types with ts <= ``watermark`` (END: nothing at all)."""
        with self._lock:
            said = self._publication.promise(types, watermark)
            self._await_room()
            self._link.send(said)
            self._flush_out()

    def flush(self, timeout: float | None = None) -> Receipt:
        """Wait until the node has dealt with everything; returns what became of it since the last time.

        What counts as taken or turned away stays so, if the node has a log also when it is started again. Raises NetworkError
        after ``timeout`` seconds (default: patience).
        """
        deadline = None if timeout is None else time.monotonic_ns() + round(timeout * SECOND)
        with self._lock:
            self._is_flushing = True
            try:
                self._settle(deadline, timeout)
            finally:
                self._is_flushing = False
            return self._account.receipt(self._events)

    def _settle(self, deadline: int | None, timeout: float | None) -> None:
        if self._events:
            self._ask()
        while not self._link.idle or self._answered < self._asked:
            self._check_alive()
            self._link.ask(time.monotonic_ns())
            if deadline is not None and time.monotonic_ns() > deadline:
                left = self._link.outstanding
                raise NetworkError(f"node at {self.address} has not taken {left} frames within {timeout} s")
            self._pump(_WAIT)

    def statistics(self) -> PublisherStatistics:
        """A record of the counts so far."""
        link = self.link_statistics()
        return PublisherStatistics(self._events, self._waited / SECOND, dict(self._drops), link, self._account.total().turned)

    def _send(self, frame: Frame) -> None:
        with self._lock:
            self._await_room()
            self._link.send(self._publication.said(frame))
            self._events += frame.events
            if time.monotonic_ns() - self._asked_at > _ASK_EVERY and self._asked == self._answered:
                self._ask()
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
        """A node that starts anew must be told the promises anew, and asked again, behind all that is sent again."""
        self._link.greeting = self._publication.greeting
        if (said := self._publication.restarted()) is not None:
            self._link.send(said)
        self._account.restarted()
        if self._answered < self._asked:
            self._ask()

    def _ask(self) -> None:
        self._asked += 1
        self._asked_at = time.monotonic_ns()
        self._link.send([encode(Question(self._asked))])

    def _take(self, parts: Parts) -> None:
        super()._take(parts)
        payload = decode_payload(parts)
        if type(payload) is Answer:  # of a node that does not know what is asked
            self._answered = max(self._answered, payload.number)
        elif type(payload) is Tally:
            self._answered = max(self._answered, payload.number)
            reasons = self._account.tell(payload)
            if reasons and not self._is_flushing:  # who flushes is told
                _log.warning("the node turns events away", address=self.address, why=reasons)
