"""Publisher: how a program outside a node sends raw events."""

from __future__ import annotations

import atexit
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import structlog

from middleware.broker.ingress.checks import UNCOMPARED
from middleware.broker.ingress.receipts import REPEATS
from middleware.delivery.publication import Frame, Publication, to_arrow
from middleware.link.codec import Answer, BlockHead, Question, Run, Sample, Tally, decode_payload, encode
from middleware.link.frames import Parts
from middleware.link.gathering import EVENTS_A_FRAME
from middleware.link.link import LinkStatistics
from middleware.model.block.block import one_batch
from middleware.model.block.mixed_block import MixedBlock
from middleware.model.errors import EventError, NetworkError
from middleware.model.event import Event, EventType, type_name
from middleware.model.quantities import Duration, seconds_of
from middleware.model.time import MILLISECOND, SECOND
from middleware.model.words import shown
from middleware.runtime.clients.connection import PATIENCE, Connection
from middleware.runtime.transport.keys import Keys

_WAIT = 0.05
MIN_ROWS_FOR_COLUMNS = 1_024
"""A table that has to be converted costs less as events, sent together with others, if it has fewer rows than this."""

_HURRY = MILLISECOND
"""Bundled events leave after this time (ns), unless a call sends them before."""

_MUCH = 64 * 1024
"""A publisher that has sent more bytes than this within ``pause`` bundles encoded events with those that follow."""

_ASK_EVERY = SECOND
"""How often an active publisher asks for a receipt of its events, unless it flushes."""

_open: set[Publisher] = set()
"""The open publishers of this process, closed at its end: so a program that forgets to close one loses nothing."""

_log = structlog.get_logger()


class PublisherStatistics(msgspec.Struct):
    """Counts since the start; ``waited``: seconds spent waiting for credit. ``drops``: frames from the node, by reason.

    ``rejected``: events that the node has rejected, by reason, as of its last receipt.
    """

    events: int
    waited: float
    drops: dict[str, int]
    link: LinkStatistics
    rejected: dict[str, int] = {}


class Receipt(msgspec.Struct):
    """The outcome of the events published, revised or retracted since the last receipt, as the node reports it.

    ``taken``
        the node has them: on its disk, if it has a log. A detector may still list one as late: see ``slackline late``.
    ``repeats``
        the node had taken them before; nothing is lost.
    ``rejected``
        events rejected, by reason, with some ``samples``.
    ``unknown``
        events that the node had acknowledged before it lost the link (it was restarted, or cut off for long) and could
        report which of them it took.
    """

    taken: int = 0
    repeats: int = 0
    rejected: dict[str, int] = {}
    samples: list[Sample] = []
    unknown: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether the node has all of them."""
        return not self.rejected and not self.unknown


class _Account:
    """The outcome of all events sent, as far as it is known: in former lives of the link, and in this one."""

    def __init__(self) -> None:
        self._former, self._now = Tally(0, 0), Tally(0, 0)
        self._sent = 0
        self._reported = Tally(0, 0)
        """The total at the last receipt."""

    def update(self, tally: Tally) -> list[str]:
        """Take the node's tally; returns the reasons that are new, but for repeats: they do no harm."""
        known, self._now = self.total(), tally
        return sorted(tally.rejected.keys() - known.rejected.keys() - REPEATS - {UNCOMPARED})

    def restarted(self) -> None:
        """The node starts to count anew: its earlier counts remain valid."""
        self._former, self._now = self.total(), Tally(0, 0)

    def total(self) -> Tally:
        """The sum over all lives."""
        former, now = self._former, self._now
        rejected = dict(Counter(former.rejected) + Counter(now.rejected))
        return Tally(0, former.taken + now.taken, rejected, former.samples + now.samples)

    def receipt(self, sent: int) -> Receipt:
        """The outcome of all events since the last receipt; ``sent``: the number sent in all."""
        total, before, was_sent = self.total(), self._reported, self._sent
        self._reported, self._sent = total, sent
        rejected = Counter(total.rejected) - Counter(before.rejected)
        repeats = sum(rejected.pop(reason, 0) for reason in REPEATS)
        taken = total.taken - before.taken
        samples = [sample for sample in total.samples if sample.reason in rejected]
        unknown = max(0, sent - was_sent - taken - repeats - rejected.total())
        return Receipt(taken, repeats, dict(rejected.most_common()), samples, unknown)


class Publisher(Connection):
    """Sends raw events to the node at ``address``. Attaches whenever the node is up; waits while the node has no room.

    Events carry their identity: ``source`` and ``id``, unique together. Each is taken once, however often it is sent.
    A publisher that promises watermarks (``advance``) lets results become final sooner than the clock alone would.

    ``types``
        event types (or their names) that it will send: until it promises a watermark for them, no reader relies on one.
    ``shares``
        it sends events of sources that other publishers send, too. Otherwise a source belongs to the publisher that sent it
        first, as long as that is attached. With keys it belongs to the key, and this has no effect.
    ``patience``
        after this long without an answer from the node, an error is raised: seconds, or a duration such as ``"5s"``.
    ``pause``
        events published within this many ns of the last send are bundled with those that follow.
    """

    pause = _HURRY

    def __init__(
        self,
        address: str,
        *,
        name: str | None = None,
        types: Iterable[EventType | str] = (),
        keys: Keys | None = None,
        node: str | None = None,
        patience: float | Duration = PATIENCE,
        shares: bool = False,
    ) -> None:
        self._publication = Publication(types)
        self._events = 0
        self._waited = 0
        self._account = _Account()
        self._numbering = threading.Lock()
        self._asked = self._answered = 0
        self._asked_at = time.monotonic_ns()
        self._sent_at = 0
        self._much_from = self._sent = 0
        self._is_flushing = False
        super().__init__("publisher", address, self._publication.greeting, name=name, keys=keys, node=node, patience=patience)
        self._link.shares = shares
        self._own_source = f"{self.name}@{time.time_ns()}"
        _open.add(self)

    def publish(self, events: Sequence[Event]) -> None:
        """Send new events, in this order. Waits while there is no credit. Raises NetworkError, EventError.

        They leave at once, or with others, at most 1 ms after the last that left: so small batches cost little.
        """
        if not isinstance(events, Sequence):
            raise EventError(f"publish takes a list of events, not {shown(events)}")
        for start in range(0, len(events), EVENTS_A_FRAME):
            self._publish(list(events[start : start + EVENTS_A_FRAME]), start)

    def _publish(self, events: list[Event], first: int) -> None:
        """Publish events that fit into one frame. ``first``: the number of events of the same call before them."""
        with self._lock:
            if not self._is_bundled(partial(self._publication.held.add, events)):
                for frame in self._publication.frames(events, first):
                    self._send(frame)

    def _is_bundled(self, add: Callable[[], bool]) -> bool:
        """Bundle new events with others, by ``add``; returns False if they do not even fit into an empty bundle."""
        if self._publication.bundle.events:
            self._send_bundled()
        self._await_room()  # before anything is bundled: a caller that gets an error publishes the events again
        if not add():
            self._send_bundled()
            self._await_room()
            if not add():
                return False
        self._send_or_bundle(self._publication.held.is_full or time.monotonic_ns() - self._sent_at >= self.pause)
        return True

    def publish_table(self, table: Any, type: EventType, source: str | None = None) -> None:  # noqa: A002
        """Send new events of one type, a row each, in this order. Waits while there is no credit. Up to 8,192 rows go like the
        events of ``publish``, at once or with others. No event is made, unless fewer than 1,024 rows have to be converted:
        narrower numbers, timestamps, texts by number.

        ``table``
            an Arrow table or record batch, or a frame that speaks Arrow (polars, pandas): a column for each field of the
            type, ``ts`` (ns, or a timestamp), and ``id`` and ``source``, which name each event.
        ``source``
            whose events they are, if there is no such column; a name that no other publisher has, if there is no ``id`` either.
            Without columns ``id`` and ``source``, rows are numbered from 0 on, by source, as long as this publisher lives.

        It needs the extra ``tables``. Raises EventError, before anything is sent, that names the column and the row for what
        cannot be an event; NetworkError: then publish the same rows again, and what the node had of them counts once.
        """
        self._publish_tables({type: table}, source or self._own_source, by_arrival=False)

    def publish_tables(self, tables: Mapping[EventType, Any], source: str | None = None) -> None:
        """Send tables of several types, in the order of a column ``arrival`` (int64) that each has and that never decreases: so
        that no type is late against another. Otherwise like ``publish_table``.
        """
        self._publish_tables(tables, source or self._own_source, by_arrival=True)

    def _publish_tables(self, tables: Mapping[EventType, Any], source: str, by_arrival: bool) -> None:
        publication = self._publication
        for kind in tables:
            if not (isinstance(kind, type) and issubclass(kind, Event)):
                raise EventError(f"a table is of events of a class, a subclass of slackline.Event, not of {shown(kind)}")
        if not isinstance(source, str):
            raise EventError(f"the source of a table's events is a text, not {shown(source)}")
        given = {kind: to_arrow(table) for kind, table in tables.items()}
        rows = sum(map(len, given.values()))
        if 0 < rows <= EVENTS_A_FRAME:
            given = {kind: one_batch(table, type_name(kind)) for kind, table in given.items()}
            with self._numbering, self._lock:
                if self._is_bundled(partial(publication.hold, given, source, by_arrival)):
                    return
        with self._numbering:  # a lock of its own, as large tables take long, and heartbeats must not wait
            first = publication.number(source)
            if by_arrival:
                columns, arrival_order = publication.tables(given, source)
            else:
                columns, arrival_order = [publication.columns(table, kind, source) for kind, table in given.items()], None
            reached = publication.number(source)
        try:
            if 0 < rows < MIN_ROWS_FOR_COLUMNS:
                self.publish(MixedBlock(columns, arrival_order).events() if arrival_order is not None else columns[0].events())
                return
            for frame in publication.slices(columns, arrival_order):
                self._send(frame)
        except (NetworkError, EventError):  # some rows may have been taken: given again, they are the same events
            with self._numbering:
                publication.number_back(source, reached, first)
            raise

    def retract(self, event: Event) -> None:
        """Withdraw an event that was published."""
        self._send(self._publication.retraction(event))

    def revise(self, old: Event, new: Event) -> None:
        """Replace the content of a published event: same type, source and id."""
        self._send(self._publication.revision(old, new))

    def publish_encoded(
        self, type_name: str, records: list[bytes] | bytes, count: int, clock: int, runs: list[Run] | None = None
    ) -> None:
        """Send encoded events: each is a msgpack array of its fields, and ``records`` an array of them.

        ``clock``: the largest ts among them. ``runs``: their identities as (source, first id, last id), if known; then
        brokers need not decode the events to find duplicates. While much is sent, they leave with others, at most 1 ms later.
        """
        publication = self._publication
        frame, bundle = publication.encoded(type_name, records, count, clock, runs), publication.bundle
        with self._lock:
            is_alone = not publication.waiting and not self._is_much()  # then it leaves at once, whatever its head says
            if is_alone or not (weight := bundle.weight(frame)):
                self._send(frame)
                return
            if self._link.closed is not None or self._closing.is_set():
                self._check_alive()
            if len(publication.held) or not bundle.takes(frame, weight):
                self._send_bundled()
            bundle.add(frame, weight)
            self._send_or_bundle(bundle.is_full or not self._is_much())

    def publish_blocks(self, blocks: Sequence[tuple[BlockHead, bytes]]) -> None:
        """Send encoded events of several types in one frame: so the node takes them in at once, and no type moves the clock
        ahead of another. Heads name ``newest``.
        """
        self._send(self._publication.given(blocks))

    def advance(self, types: EventType | str | Iterable[EventType | str], watermark: int) -> None:
        """Promise that this publisher sends nothing more of these types with ts <= ``watermark`` (END: nothing at all)."""
        with self._lock:
            self._send_bundled()
            promise = self._publication.promise(types, watermark)
            self._await_room()
            self._link.send(promise)
            self._flush_out()

    def _inherited(self) -> None:
        super()._inherited()
        self._numbering = threading.Lock()
        _open.discard(self)  # the parent closes it

    def flush(self, timeout: float | Duration | None = None) -> Receipt:
        """Wait until the node has dealt with everything sent; returns the receipt since the last call.

        An event reported as taken or rejected stays so; if the node has a log, also after a restart. Raises NetworkError
        after ``timeout`` (seconds, or such as "5s"; default: patience).
        """
        timeout = seconds_of(timeout, "timeout")
        deadline = None if timeout is None else time.monotonic_ns() + round(timeout * SECOND)
        if not self._lock.acquire(timeout=-1 if timeout is None else max(0.0, timeout)):
            raise NetworkError(
                f"node at {self.address} keeps another thread of this publisher waiting, for more than {timeout} s"
            )
        try:
            if self._is_inherited:
                self._check_alive()
            self._is_flushing = True
            self._post_bundled()
            self._settle(deadline, timeout)
            return self._account.receipt(self._events)
        finally:
            self._is_flushing = False
            self._lock.release()

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
        events, rejected = self._events + self._publication.waiting, self._account.total().rejected
        return PublisherStatistics(events, self._waited / SECOND, dict(self._drops), self.link_statistics(), rejected)

    def _send(self, frame: Frame) -> None:
        with self._lock:
            self._send_bundled()
            self._await_room()
            self._post(frame if self._link.takes_columns else frame.in_rows())

    def _send_or_bundle(self, now: bool) -> None:
        """Send the bundled events now, or soon, together with those that follow until then."""
        if now:
            self._send_bundled()
        else:
            self._due = self._due or time.monotonic_ns() + _HURRY
            self._hurry.set()

    def _send_bundled(self) -> None:
        """Send the bundled events, once there is room."""
        if self._publication.waiting:
            self._await_room()
            self._post_bundled()

    def _post_bundled(self) -> None:
        self._due = 0
        if self._publication.waiting:
            self._post(self._publication.gathered(self._link.takes_columns))

    def _post(self, frame: Frame) -> None:
        self._link.send(self._publication.payload_of(frame))
        self._events += frame.events
        self._sent += frame.size
        self._sent_at = time.monotonic_ns()
        if self._sent_at - self._asked_at > _ASK_EVERY and self._asked == self._answered:
            self._ask()
        self._flush_out()

    def _is_much(self) -> bool:
        """Whether more than ``_MUCH`` was sent in this ``pause``, or in the last: then events are bundled with the next."""
        now = time.monotonic_ns()
        passed = now - self._much_from
        if passed >= self.pause:
            self._much_from, self._sent = now, _MUCH if self._sent >= _MUCH and passed < 2 * self.pause else 0
        return self._sent >= _MUCH

    def _tend(self) -> None:
        """Send the bundled events; without room, the upkeep tries again at its next turn."""
        if self._link.has_room:
            self._post_bundled()
        self._hurry.clear()

    def _end(self) -> None:
        _open.discard(self)
        self._post_bundled()

    def _ended(self) -> None:
        if left := self._link.outstanding:
            hint = "flush before you close, which waits, and raises an error if it cannot be"
            where = {"address": self.address, "name": self.name}
            _log.error("closed before the node had taken all events", **where, frames=left, hint=hint)

    def _await_room(self) -> None:
        if self._closing.is_set():
            self._check_alive()
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
        """Send a restarted node the watermarks again, and the question, behind all that is sent again."""
        self._link.greeting = self._publication.greeting
        if (promises := self._publication.restarted()) is not None:
            self._link.send(promises)
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
        if type(payload) is Answer:  # from a node that does not know the question
            self._answered = max(self._answered, payload.number)
        elif type(payload) is Tally:
            self._answered = max(self._answered, payload.number)
            reasons = self._account.update(payload)
            if reasons and not self._is_flushing:  # a caller of flush gets a receipt
                _log.warning("the node rejects events", address=self.address, why=reasons)


@atexit.register
def _close_all() -> None:
    for publisher in list(_open):
        with suppress(NetworkError):  # one whose node is gone keeps no other from being closed
            publisher.close()
