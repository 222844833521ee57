"""Subscriber: how a program outside a node receives events, early or final."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Iterator
from typing import Literal

import msgspec
import structlog
from msgspec.structs import replace

from middleware.change import Advance, Batch, Change, Delta, Insert
from middleware.clock import SECOND
from middleware.errors import NetworkError
from middleware.event import END, NEVER, Event, EventType, EventTypes, type_name
from middleware.pubsub.barrier import Barrier
from middleware.pubsub.codec import (
    BlockHead,
    Changes,
    EventCodec,
    Gap,
    Interest,
    Mark,
    OnSlow,
    Passed,
    Payload,
    Ready,
    Resumed,
    encode,
)
from middleware.pubsub.cursor import Cursor
from middleware.pubsub.journal import Place
from middleware.pubsub.link import LinkStatistics
from middleware.pubsub.merge import merged
from middleware.pubsub.routing import check_pattern
from middleware.pubsub.wire import Parts, payload_size
from middleware.runtime.connection import PATIENCE, Connection
from middleware.runtime.keys import Keys

Consistency = Literal["early", "final"]
_WAIT = 0.05
_log = structlog.get_logger()


class SubscriberStatistics(msgspec.Struct):
    """Counts since the start. ``drops``: events and frames that could not be taken. ``restarts``: lives of the node lost."""

    events: int
    drops: dict[str, int]
    violations: dict[str, int]
    held_back: int
    restarts: int
    link: LinkStatistics


class Subscriber(Connection):
    """Receives what the node at ``address``, and any node meshed with it, has of the types wanted.

    ``types``
        event types, their names, or patterns (``soccer.*``, ``*``).
    ``event_types``
        the types that bytes are decoded against; may be left out if ``types`` are all classes.
    ``consistency``
        ``early``: every change at once, in the order in which it was made. ``final``: each final event once, in total
        order, held back until nothing can change it.
    ``on_slow``
        what is to happen if this program does not keep up: ``block`` the sources of what it reads, or ``disconnect`` it.
    ``resume``
        a name that lasts: a node with a log keeps its place while this program is away, so that the next one of that name
        goes on behind what was taken: what ``receive`` gave counts as taken when it is called again, or at ``commit``.
    ``after``
        order key of the last final that is known to be taken, where a sink with that name has written it down; counts more
        than what the node knows. To a sink that has less than was committed (an old copy, say) the rest is sent again, as
        far as the node still has it in its log; if not, the sink has a gap, and is told so.
    """

    def __init__(
        self,
        address: str,
        types: Collection[EventType | str] | EventType | str,
        *,
        event_types: EventTypes | None = None,
        consistency: Consistency = "early",
        on_slow: OnSlow = "block",
        name: str | None = None,
        resume: str | None = None,
        after: Mark | None = None,
        keys: Keys | None = None,
        node: str | None = None,
        patience: float = PATIENCE,
    ) -> None:
        if after is not None and resume is None:
            raise ValueError(
                "after= tells where a sink has got to, so it needs resume=, under which the node keeps what follows"
            )
        each = [types] if isinstance(types, str | type) else list(types)
        patterns = [check_pattern(one) if isinstance(one, str) else type_name(one) for one in each]
        known = event_types if event_types is not None else EventTypes(one for one in each if not isinstance(one, str))
        self.consistency = consistency
        self._codec = EventCodec(known)
        self._barrier = Barrier(patterns) if consistency == "final" else None
        self._promised: dict[str, int] = {name: NEVER for name in patterns if not name.endswith("*")}
        self._inbox: deque[tuple[Changes | Gap, Parts]] = deque()
        self._told = NEVER
        self._is_ready = False
        self._events = 0
        self._cursor, self._after = Cursor(after), after
        self._committed: tuple[int, Mark | None] = (0, None)
        self._resumes = resume is not None
        self._place: Place = (0, 0)
        self._taken: Place = (0, 0)
        self._interest = Interest(1, patterns, on_slow, resumes=self._resumes, after=after)
        super().__init__("subscriber", address, self._interest, name=resume or name, keys=keys, node=node, patience=patience)

    def wait_ready(self, timeout: float | None = None) -> None:
        """Wait until all nodes know this subscription, so that nothing published from now on is missed."""
        deadline = None if timeout is None else time.monotonic_ns() + round(timeout * SECOND)
        with self._lock:
            while not self._is_ready:
                self._check_alive()
                if deadline is not None and time.monotonic_ns() > deadline:
                    raise NetworkError(f"the nodes meshed with {self.address} do not all know this subscription yet")
                self._pump(_WAIT)

    def receive(self, timeout: float | None = None) -> list[Change]:
        """The next changes: all that have arrived, or, if none have, what comes first within ``timeout`` seconds.

        Empty only if nothing came in time. Raises NetworkError if the node has left or never answers.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        self.commit()
        while True:
            payloads = self._next(None if deadline is None else max(0.0, deadline - time.monotonic()))
            changes = self._changes(payloads)
            if changes or (deadline is not None and not payloads):
                return changes

    def _changes(self, payloads: list[tuple[Changes, Parts]]) -> list[Change]:
        if self._barrier is None:
            changes: list[Change] = [change for _, delta in self._deltas(payloads) for change in delta.changes()]
            promises = Batch(progress=_latest_progress(payloads))
        else:
            promises = self._decoded(payloads)
            changes = [Insert(event) for event in self._finals(self._barrier, promises, payloads)]
        if self._advance(promises):
            changes.append(Advance(self._told))
        return changes

    def receive_batch(self, timeout: float | None = None) -> Batch:
        """As ``receive``, but the net effect of what has arrived, in columns by type.

        With ``final``: insertions only, those of each type in total order.
        """
        self.commit()
        payloads = self._next(timeout)
        batch = self._decoded(payloads)
        self._advance(batch)
        if self._barrier is None:
            return batch
        final = self._finals(self._barrier, batch, payloads)
        deltas: dict[str, Delta] = {}
        for event in final:
            deltas.setdefault(type_name(event.__class__), Delta()).inserts.append(event)
        return Batch(deltas, dict.fromkeys(self._promised, self._barrier.progress))

    def _finals(self, barrier: Barrier, batch: Batch, payloads: list[tuple[Changes, Parts]]) -> list[Event]:
        """What the barrier lets go and was not delivered before."""
        finals = barrier.take(batch)
        place = next(((changes.line, changes.position) for changes, _ in reversed(payloads) if changes.line), None)
        if place is not None and self._resumes:
            self._cursor.moved(place, batch.deltas.values(), finals, barrier)
        return self._cursor.fresh(finals) if self._resumes or self._after is not None else finals

    def commit(self) -> None:
        """Tell the node that all that was received has been taken: under this name, nothing of it will be sent again."""
        if not self._resumes or not self._taken[0]:
            return
        final = self._barrier is not None
        position, mark = (self._cursor.position, self._cursor.mark) if final else (self._taken[1], None)
        if (position, mark) != self._committed:
            self._committed = (position, mark)
            with self._lock:
                self._link.send([encode(Passed(self._taken[0], position, mark))])
                self._flush_out()

    def receive_encoded(self, timeout: float | None = None) -> list[tuple[BlockHead, bytes]]:
        """As ``receive``, as blocks of bytes that were not looked into: for programs that hand them on."""
        blocks: list[tuple[BlockHead, bytes]] = []
        for changes, parts in self._next(timeout):
            blocks += zip(changes.blocks, parts[1:], strict=True)
        return blocks

    def __iter__(self) -> Iterator[Change]:
        """Changes one by one, until all subscribed streams have ended or the node leaves for good."""
        while True:
            try:
                changes = self.receive()
            except NetworkError:
                if self._link.closed is not None and not self._link.refused and not self._closed.is_set():
                    return
                raise
            yield from changes
            if self._told == END:
                return

    def statistics(self) -> SubscriberStatistics:
        """A record of the counts so far."""
        barrier = self._barrier
        return SubscriberStatistics(
            self._events,
            dict(self._drops),
            dict(barrier.violations) if barrier is not None else {},
            len(barrier) if barrier is not None else 0,
            self._link.restarts,
            self.link_statistics(),
        )

    def _next(self, timeout: float | None) -> list[tuple[Changes, Parts]]:
        deadline = None if timeout is None else time.monotonic_ns() + round(timeout * SECOND)
        with self._lock:
            if not self._inbox:
                self._pump(0)
            while not (payloads := self._up_to_gap()):
                self._check_alive()
                left = _WAIT if deadline is None else min(_WAIT, (deadline - time.monotonic_ns()) / SECOND)
                if left <= 0:
                    return []
                self._pump(left)
            self._link.consume(sum(payload_size(parts) for _, parts in payloads))
            self._link.settle(time.monotonic_ns())
            self._flush_out()
            return payloads

    def _up_to_gap(self) -> list[tuple[Changes, Parts]]:
        """What has arrived, but nothing behind a gap together with what came before it."""
        payloads: list[tuple[Changes, Parts]] = []
        while self._inbox:
            payload, parts = self._inbox[0]
            if type(payload) is Gap:
                if payloads:
                    break
                self._interrupted()
                self._link.consume(payload_size(parts))
            else:
                assert type(payload) is Changes
                payloads.append((payload, parts))
                self._taken = (payload.line, payload.position) if payload.line else self._taken
            self._inbox.popleft()
        return payloads

    def _deltas(self, payloads: list[tuple[Changes, Parts]]) -> list[tuple[str, Delta]]:
        """The changes of each block, in the order in which they were sent, by type name."""
        deltas: list[tuple[str, Delta]] = []
        for changes, parts in payloads:
            for head, block in zip(changes.blocks, parts[1:], strict=True):
                delta = self._codec.decode(head, block, self._drops)
                self._events += len(delta)
                self._promised.setdefault(head.type, NEVER)
                deltas.append((head.type, delta))
        return deltas

    def _decoded(self, payloads: list[tuple[Changes, Parts]]) -> Batch:
        """The net changes by type."""
        by_type: dict[str, list[Delta]] = {}
        for name, delta in self._deltas(payloads):
            by_type.setdefault(name, []).append(delta)
        return Batch({name: net for name, same in by_type.items() if (net := merged(same))}, _latest_progress(payloads))

    def _advance(self, batch: Batch) -> bool:
        """Whether the least progress of the subscribed types has grown."""
        for name, until in batch.progress.items():
            self._promised[name] = max(until, self._promised.get(name, NEVER))
        least = min(self._promised.values(), default=NEVER)
        grown, self._told = least > self._told, max(least, self._told)
        return grown

    def _take(self, payload: Payload, parts: Parts) -> None:
        if type(payload) is Changes:
            self._inbox.append((payload, parts))
            if payload.line:  # where to go on, should the node lose sight of this program
                self._place = (payload.line, payload.position)
                self._link.greeting = [encode(replace(self._interest, line=payload.line, position=payload.position))]
            return
        if type(payload) is Gap:
            self._inbox.append((payload, parts))  # it holds for what came before it, and is heeded in its turn
            return
        self._link.consume(payload_size(parts))
        if type(payload) is Ready:
            self._is_ready = True
        elif type(payload) is Resumed:
            self._resumed(payload.mark)

    def _resumed(self, mark: Mark | None) -> None:
        """The node tells up to where finals were committed under this name."""
        if self._after is None:
            self._cursor.mark = mark if self._cursor.mark is None else self._cursor.mark
        elif mark is not None and self._cursor.mark == self._after < mark:
            _log.error("this sink has less than was committed under its name", name=self.name, has=self._after, committed=mark)
            self._inbox.append((Gap(0, 0), []))

    def _link_restarted(self) -> None:
        """The node started anew, or had given this program up: if it keeps a log, it goes on where this program is."""
        self._is_ready = False
        if not self._place[0]:
            self._inbox.append((Gap(0, 0), []))

    def _interrupted(self) -> None:
        """Changes are missing. What is held back may have been withdrawn by one of them, so it can never be called final."""
        self._drops["interruption"] += 1
        given_up = self._barrier.forget() if self._barrier is not None else 0
        self._cursor.forget()
        _log.warning("subscription interrupted: changes are missing", address=self.address, name=self.name, given_up=given_up)


def _latest_progress(payloads: list[tuple[Changes, Parts]]) -> dict[str, int]:
    """Each sender's promises are whole, so the last ones told stand for all."""
    return next((changes.progress for changes, _ in reversed(payloads) if changes.progress is not None), {})
