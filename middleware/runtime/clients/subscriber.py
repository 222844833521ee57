"""Subscriber: how a program outside a node receives events, early or final."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Generic, Literal, TypeVar, cast, get_args

import msgspec
import structlog

from middleware.broker.log.log_records import LogOffset
from middleware.broker.routing import check_pattern
from middleware.delivery.subscription import Arrived, Subscription, net_effect
from middleware.delivery.tables import empty_table
from middleware.link.codec import OTHER_FIELDS, BlockHead, EventCodec, OnSlow, SinkPosition
from middleware.link.frames import Parts
from middleware.link.link import LinkStatistics
from middleware.model.change import Batch, Change, EventT_co
from middleware.model.errors import NetworkError
from middleware.model.event import END, Event, EventTypes, type_name
from middleware.model.quantities import Duration, seconds_of
from middleware.model.time import SECOND
from middleware.runtime.clients.connection import PATIENCE, Connection
from middleware.runtime.transport.keys import Keys

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
Consistency = Literal["early", "final"]
_WAIT = 0.05
_HINTS = {
    "unknown type": "give their classes as event_types",
    OTHER_FIELDS: "their class has others here, of other kinds or in another order, than where they were made: update one",
}
_log = structlog.get_logger()


class SubscriberStatistics(msgspec.Struct):
    """Counts since the start. ``drops``: events and frames that could not be taken. ``restarts``: of the link's other end."""

    events: int
    drops: dict[str, int]
    violations: dict[str, int]
    held_back: int
    restarts: int
    link: LinkStatistics


class Subscriber(Connection, Generic[EventT_co]):
    """Receives the events of the subscribed types from the node at ``address`` and all nodes meshed with it.

    Threads that share one get each change once, between them: one of them reads at a time.

    ``types``
        event types, their names, or patterns (``soccer.*``, ``*``). Type checkers know that the events of ``Subscriber(address,
        Pass)`` are of the class Pass; of names and patterns they know no more than Event.
    ``event_types``
        the types against which bytes are decoded; may be omitted if all ``types`` are classes.
    ``consistency``
        ``early``: every change at once, in the order in which changes are made. ``final``: each final event once, in total
        order, held back until nothing can change it.
    ``on_slow``
        what happens if this program does not keep up: ``block`` puts backpressure on the sources of what it reads;
        ``disconnect`` holds nobody up: a node with a log serves it from there, any other drops the subscription.
    ``resume``
        a durable name: a node with a log keeps its offset while this program is away, so that the next subscriber of that name
        resumes after what was taken. The changes that ``receive`` gave count as taken when it is called again, or at
        ``commit``.
    ``after``
        order key of the last final known to be taken, if a sink with that name has stored it; it takes precedence over
        the node's offset. If a sink has less than was committed (an old copy, say), the node sends the rest again, as
        far as its log still has it; if not, the sink gets a gap.
    ``start``
        line and offset in the node's log at which to begin, for who stores them: see ``LogReader``.
    """

    _in_columns = False
    """Whether blocks of rows are read into columns as well (see ``EventCodec``)."""

    def __init__(
        self,
        address: str,
        types: Collection[type[EventT_co] | str] | type[EventT_co] | str,
        *,
        event_types: EventTypes | None = None,
        consistency: Consistency = "early",
        on_slow: OnSlow = "block",
        name: str | None = None,
        resume: str | None = None,
        after: SinkPosition | None = None,
        start: LogOffset | None = None,
        keys: Keys | None = None,
        node: str | None = None,
        patience: float | Duration = PATIENCE,
    ) -> None:
        if after is not None and resume is None:
            raise ValueError("after= is the position of a sink, so it needs resume=, under which the node keeps what follows")
        for what, given, known_ones in ("consistency", consistency, Consistency), ("on_slow", on_slow, OnSlow):
            if given not in get_args(known_ones):
                raise ValueError(f"{what} is {' or '.join(get_args(known_ones))}, not {given!r}")
        each = [types] if isinstance(types, str | type) else list(types)
        patterns = [check_pattern(one) if isinstance(one, str) else type_name(one) for one in each]
        known = event_types if event_types is not None else EventTypes(one for one in each if not isinstance(one, str))
        self.consistency = consistency
        self._after = after
        self._logged_drops: set[str] = set()
        self._has_committed = False
        self._reading = threading.RLock()  # not the link's: upkeep runs meanwhile
        self.rest: deque[Change[EventT_co]] = deque()
        """Changes that an iteration has read and not returned yet. The next call returns them."""
        self._subscription = Subscription(
            patterns,
            EventCodec(known, self._in_columns),
            final=consistency == "final",
            on_slow=on_slow,
            resumes=resume is not None,
            after=after,
            start=start,
            joins=True,
        )
        greeting = self._subscription.greeting
        super().__init__(
            "subscriber",
            address,
            greeting,
            name=resume if resume is not None else name,
            keys=keys,
            node=node,
            patience=patience,
        )

    @property
    def has_read(self) -> bool:
        """Whether any event has been read. Never waits, nor does ``gaps``."""
        return self._subscription.events > 0

    @property
    def has_ended(self) -> bool:
        """Whether all of its types have ended, by what has been given so far; a new publisher may resume them."""
        return self._subscription.watermark == END and not self.rest

    @property
    def node_has_left(self) -> bool:
        """Whether the node has said goodbye for good."""
        return self._link.closed is not None and not self._link.refused and not self._closed.is_set()

    @property
    def gaps(self) -> int:
        """The number of gaps (missing changes) before what has been read."""
        return self._subscription.drops["interruption"]

    def wait_ready(self, timeout: float | Duration | None = None) -> None:
        """Wait until all nodes know this subscription, so that nothing published from now on is missed."""
        timeout = seconds_of(timeout, "timeout")
        deadline = None if timeout is None else time.monotonic() + timeout
        if self._closing.is_set():
            self._check_alive()
        while not self._subscription.ready:
            if self._lock.acquire(timeout=_WAIT):  # else another thread is doing the same
                try:
                    self._check_alive()
                    self._pump(_WAIT)
                finally:
                    self._lock.release()
            if deadline is not None and time.monotonic() > deadline and not self._subscription.ready:
                if not self.is_connected:
                    raise NetworkError(f"no node answers at {self.address} yet: is it running, and is the address right?")
                raise NetworkError(f"the nodes meshed with {self.address} do not all know this subscription yet")

    def receive(self, timeout: float | Duration | None = None) -> list[Change[EventT_co]]:
        """The next changes: all that have arrived, or, if there are none, the first to come within ``timeout``: seconds, or a
        duration such as "5s".

        Empty only if none came in time. Raises NetworkError if the node has left or never answers.
        """
        read = cast("Callable[[Arrived], list[Change[EventT_co]]]", self._subscription.changes)  # decoded as these types alone
        return self._read(timeout, read, bool, list)

    def receive_batch(self, timeout: float | Duration | None = None) -> Batch:
        """Like ``receive``, but gives the net effect of what has arrived, in columns by type.

        With ``final``: insertions only, those of each type in total order.
        """
        return self._read(timeout, self._subscription.batch, _always, net_effect)

    def receive_tables(self, timeout: float | Duration | None = None) -> dict[str, pa.Table]:
        """Like ``receive_batch``, but gives an Arrow table for each type, by name: what comes in columns is never made events.

        With ``final``: final events, in total order. ``early``: the net effect of what has arrived, with a column ``op`` in
        front: ``retract`` and ``revise`` (the event as it is now), then ``insert``. An event with a value that no column holds
        is skipped, and counted. Empty only if nothing came in time, or the streams have ended. It needs the extra ``tables``.
        Raises EventError, before it takes anything, if one of its types has no columns; of types that a pattern covers, such
        are skipped, and counted.
        """
        subscription = self._subscription
        subscription.check_columns()
        return self._read(
            timeout,
            subscription.tables,
            lambda tables: bool(tables) or self.has_ended,
            lambda rest: subscription.tables_of(net_effect(rest)),
        )

    def receive_table(self, timeout: float | Duration | None = None) -> pa.Table:
        """Receive one table of a single event type, without rows if none came in time."""
        name, event_type = self._subscription.only_type()
        found = self.receive_tables(timeout).get(name)
        return found if found is not None else empty_table(event_type, self.consistency == "early")

    def commit(self) -> None:
        """Confirm to the node that everything received has been taken: it is not sent again under this name.

        In the middle of an iteration it does nothing yet: changes that arrived together are committed together. A commit
        counts once the node has it: ``close`` waits for that, and logs an error if the node is away.
        """
        self._commit(None)

    def commit_upto(self, event: Event) -> None:
        """Commit where an iteration over finals stops at this event: those behind it come again."""
        self._commit(event)

    def _ended(self) -> None:
        if self._has_committed and self._link.outstanding:
            hint = "the node sends again what came after the commit before, once it is back"
            _log.error("closed before the node had taken the last commit", address=self.address, name=self.name, hint=hint)

    def _commit(self, upto: Event | None) -> None:
        if self._closing.is_set():
            self._check_alive()
        if self.rest and upto is None:
            return
        commit = self._subscription.commit(upto if self.rest else None)
        if commit is not None:
            with self._lock:
                self._link.send(commit)
                self._has_committed = True
                self._flush_out()

    def receive_encoded(self, timeout: float | Duration | None = None) -> list[tuple[BlockHead, bytes]]:
        """Like ``receive``, but gives undecoded blocks of bytes, for programs that pass them on, and do not iterate."""
        return self._read(timeout, _blocks, _always, lambda _: [])

    def __iter__(self) -> Iterator[Change[EventT_co]]:
        """Changes one by one, until all subscribed streams have ended or the node leaves for good.

        Whoever stops in between loses nothing: the next call gives what follows.
        """
        had_ended = self.has_ended
        while True:
            try:
                with self._reading:
                    if self.has_ended and not had_ended:  # another thread has had the end
                        return
                    if not self.rest:
                        self.rest.extend(self.receive())
            except NetworkError:
                if self.node_has_left:
                    return
                raise
            while (change := self._next_of_rest()) is not None:
                yield change
            if self.has_ended:
                return
            had_ended = False

    def _inherited(self) -> None:
        super()._inherited()
        self._reading = threading.RLock()

    def _next_of_rest(self) -> Change[EventT_co] | None:
        with self._reading:
            return self.rest.popleft() if self.rest else None

    def _read(
        self,
        timeout: float | Duration | None,
        read: Callable[[Arrived], T],
        is_enough: Callable[[T], bool],
        of_rest: Callable[[list[Change[EventT_co]]], T],
    ) -> T:
        """Return the result of ``read`` on the next arrivals, once they are enough or time is up; ``of_rest`` reads what an
        iteration has left.

        One call at a time: changes are read in order of arrival, and no call commits the changes that another one returned.
        """
        timeout = seconds_of(timeout, "timeout")
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self._reading.acquire(timeout=-1 if timeout is None else max(0.0, timeout)):
            return of_rest([])
        try:
            if self.rest:
                rest = list(self.rest)
                self.rest.clear()
                return of_rest(rest)
            self.commit()
            while True:
                arrived = self._next(None if deadline is None else max(0.0, deadline - time.monotonic()))
                found = read(arrived)
                self._log_drops()
                if is_enough(found) or (deadline is not None and not arrived):
                    return found
        finally:
            self._reading.release()

    def statistics(self) -> SubscriberStatistics:
        """A record of the counts so far."""
        subscription = self._subscription
        barrier = subscription.barrier
        return SubscriberStatistics(
            subscription.events,
            dict(self._drops + subscription.drops),
            dict(barrier.violations) if barrier is not None else {},
            len(barrier) if barrier is not None else 0,
            self._link.restarts,
            self.link_statistics(),
        )

    def _next(self, timeout: float | None) -> Arrived:
        deadline = None if timeout is None else time.monotonic_ns() + round(timeout * SECOND)
        while True:
            with self._lock:  # released now and then, for calls of other threads
                if self._closing.is_set():
                    self._check_alive()
                if arrived := self._arrived():
                    self._link.settle(time.monotonic_ns())
                    self._flush_out()
                    return arrived
                left = _WAIT if deadline is None else min(_WAIT, (deadline - time.monotonic_ns()) / SECOND)
                self._pump(max(left, 0))
                if not self._subscription.pending:
                    self._check_alive()
                    if left <= 0:
                        return []

    def _log_drops(self) -> None:
        """Log, once for each reason, that events were skipped because they could not be read. O(reasons)."""
        drops = self._subscription.drops
        for reason in drops.keys() - self._logged_drops - {"interruption"}:
            self._logged_drops.add(reason)
            hint = {"hint": _HINTS[reason]} if reason in _HINTS else {}
            _log.warning("events are skipped", address=self.address, name=self.name, why=reason, count=drops[reason], **hint)

    def _arrived(self) -> Arrived:
        arrived, size = self._subscription.take()
        if size:
            self._link.consume(size)
        for each in self._subscription.interruptions:
            if each.committed is not None:
                has, committed = self._after, each.committed
                _log.error("this sink has less than was committed under its name", name=self.name, has=has, committed=committed)
            if each.stopped:
                _log.error(
                    "a detector has stopped: nothing more comes of these types; its node's log says why",
                    address=self.address,
                    name=self.name,
                    types=each.stopped,
                )
                continue
            _log.warning(
                "subscription interrupted: changes are missing", address=self.address, name=self.name, dropped=each.dropped
            )
        self._subscription.interruptions.clear()
        return arrived

    def _take(self, parts: Parts) -> None:
        self._subscription.receive(parts)

    def _link_restarted(self) -> None:
        self._link.greeting = self._subscription.restarted()


def _always(_: object) -> bool:
    return True


def _blocks(arrived: Arrived) -> list[tuple[BlockHead, bytes]]:
    return [each for changes, parts in arrived for each in zip(changes.blocks, parts[1:], strict=True)]
