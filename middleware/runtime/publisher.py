"""Publisher: how a program outside a node sends raw events."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import structlog

from middleware.change import Delta
from middleware.clock import SECOND
from middleware.errors import EventError, NetworkError
from middleware.event import IDENTITY, MAX_TS, MIN_TS, TS, Event, EventType, type_name
from middleware.pubsub.codec import (
    LARGEST_BLOCK,
    Answer,
    BlockHead,
    Changes,
    Interest,
    Question,
    Sample,
    Tally,
    array_of,
    decode_payload,
    encode,
    encode_delta,
    name_of,
)
from middleware.pubsub.link import LinkStatistics
from middleware.pubsub.seen import Run, runs_of
from middleware.pubsub.tally import REPEATS
from middleware.pubsub.wire import Parts
from middleware.runtime.connection import PATIENCE, Connection
from middleware.runtime.keys import Keys

_WAIT = 0.05
_EVENTS_A_FRAME = 8_192
_log = structlog.get_logger()


_ASK_EVERY = SECOND
"""How often a publisher that publishes asks what became of it, unless it flushes."""


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
        names = [each if isinstance(each, str) else type_name(each) for each in types]
        self._progress: dict[str, int] = {}
        self._clock: int | None = None
        self._events = 0
        self._waited = 0
        self._account = _Account()
        self._asked = self._answered = 0
        self._asked_at = time.monotonic_ns()
        self._is_flushing = False
        greeting = [encode(Interest(1, raw=names))]
        super().__init__("publisher", address, greeting, name=name, keys=keys, node=node, patience=patience)

    def publish(self, events: Sequence[Event]) -> None:
        """Send new events, in this order. Waits while there is no credit. Raises NetworkError, EventError."""
        for start in range(0, len(events), _EVENTS_A_FRAME):
            self._publish(events[start : start + _EVENTS_A_FRAME])

    def _publish(self, events: Sequence[Event]) -> None:
        """Send events of all types in one frame: one type ahead of another would move the clock, and make that late."""
        by_type: dict[str, list[Event]] = {}
        for event in events:
            by_type.setdefault(name_of(event), []).append(event)
        blocks = _blocks({name: Delta(same) for name, same in by_type.items()})
        is_large = len(blocks) > len(by_type) or sum(len(block) for _, block in blocks) > LARGEST_BLOCK
        if is_large and len(events) > 1:
            middle = len(events) // 2
            self._publish(events[:middle])
            self._publish(events[middle:])
        elif events:
            self._send_blocks(blocks, max(map(TS, events)))

    def retract(self, event: Event) -> None:
        """Withdraw an event that was published."""
        self._send_blocks(_blocks({name_of(event): Delta(retracts=[event])}), None)

    def revise(self, old: Event, new: Event) -> None:
        """Give an event that was published new content: same type, source and id."""
        if IDENTITY(old) != IDENTITY(new) or old.__class__ is not new.__class__:
            raise EventError(f"a revision keeps type, source and id: {old!r} -> {new!r}")
        self._send_blocks(_blocks({name_of(new): Delta(revises=[(old, new)])}), new.ts)

    def publish_encoded(
        self, type_name: str, records: list[bytes] | bytes, count: int, clock: int, runs: list[Run] | None = None
    ) -> None:
        """Send events that are encoded already: each a msgpack array of its fields, ``records`` an array of them.

        ``clock``: the largest ts among them. ``runs``: their identities as (source, first id, last id), if they are at
        hand; brokers then need not read the events to know that none comes twice.
        """
        block = records if isinstance(records, bytes) else array_of(records)
        self._send_blocks([(BlockHead(type_name, count, raw=True, runs=runs, newest=clock), block)], clock)

    def publish_blocks(self, blocks: Sequence[tuple[BlockHead, bytes]]) -> None:
        """Send what is encoded already, of several types, in one frame: so the node takes it in at once, and no type moves the
        clock ahead of another. Heads name ``newest``.
        """
        self._send_blocks(list(blocks), max(head.newest for head, _ in blocks if head.newest is not None))

    def advance(self, types: EventType | str | Iterable[EventType | str], progress: int) -> None:
        """Promise that this publisher sends nothing more of these types with ts <= ``progress`` (END: nothing at all)."""
        each = [types] if isinstance(types, str | type) else types
        with self._lock:
            for kind in each:
                name = kind if isinstance(kind, str) else type_name(kind)
                self._progress[name] = max(progress, self._progress.get(name, progress))
            self._await_room()
            self._link.send([encode(Changes(None, self._progress, []))])
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

    def _send_blocks(self, blocks: list[tuple[BlockHead, bytes]], clock: int | None) -> None:
        for head, block in blocks:
            for ts in (head.oldest, head.newest, clock):
                if ts is not None and not MIN_TS < ts < MAX_TS:
                    raise EventError(f"{head.type} with ts={ts}: times lie between {MIN_TS} and {MAX_TS} ns; nothing was sent")
            if len(block) > LARGEST_BLOCK:
                raise EventError(
                    f"{head.count} events {head.type} take {len(block)} bytes, at most {LARGEST_BLOCK} go at once: "
                    "publish fewer, or smaller ones"
                )
        heads = [head for head, _ in blocks]
        with self._lock:
            self._await_room()
            if clock is not None and (self._clock is None or clock > self._clock):
                self._clock = clock
            self._link.send([encode(Changes(self._clock, None, heads)), *(block for _, block in blocks)])
            self._events += sum(head.count for head in heads)
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
        if self._progress or self._clock is not None:
            self._link.send([encode(Changes(self._clock, self._progress or None, []))])
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


def _blocks(deltas: Mapping[str, Delta]) -> list[tuple[BlockHead, bytes]]:
    """The blocks of changes by type, with the identities of what is new."""
    blocks = []
    for name, delta in deltas.items():
        inserts = delta.inserts
        runs = runs_of(list(map(IDENTITY, inserts)), len(inserts) // 4 + 1) if inserts else None
        blocks += encode_delta(name, delta, raw=True, runs=runs)
    return blocks
