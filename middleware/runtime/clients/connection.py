"""The base of Publisher and Subscriber: one durable link to one node, kept alive while the program does other things."""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from types import TracebackType
from typing import Self
from weakref import WeakSet

import structlog

from middleware.link.codec import Drops
from middleware.link.frames import Parts, Role, decode_frame, misnamed, payload_size
from middleware.link.link import Link, LinkStatistics
from middleware.model.errors import NetworkError, WireError
from middleware.model.quantities import Duration, duration_of
from middleware.model.time import MILLISECOND, SECOND
from middleware.runtime.clients.nudge import Nudge, is_done_by_others
from middleware.runtime.transport.keys import Keys
from middleware.runtime.transport.zeromq import Transport

PATIENCE = 30.0
"""Seconds that a client waits by default for a node that does not answer."""

_LOG_AFTER = 1_500 * MILLISECOND
"""A client without an answer from its node logs after this time (ns) that it is waiting."""

_UPKEEP_EVERY = 0.1
_LEAVE = 2.0
_CHANNEL = "node"
_log = structlog.get_logger()


def unique_name(role: Role) -> str:
    """A name that no other client has."""
    return f"{role}-{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


class Connection:
    """A client's link to a node. Safe to use from several threads.

    The calling thread does the work, under one lock; a daemon thread does it while there are no calls, so that the link stays
    alive and takes in as much as there is credit for.

    ``logs_waiting``
        whether it logs, once, that the node has not answered yet.
    """

    logs_waiting = True

    def __init__(
        self,
        role: Role,
        address: str,
        greeting: Parts,
        *,
        name: str | None,
        keys: Keys | None,
        node: str | None,
        patience: float | Duration,
    ) -> None:
        if name is not None and (wrong := misnamed(name)):
            raise ValueError(wrong)
        self.address = address
        self._patience = duration_of(patience, "patience", SECOND)
        self._lock = threading.RLock()
        self._closing, self._closed = threading.Event(), threading.Event()
        self._hurry = Nudge()
        self._due = 0
        """When this client has to do something that no call has done (ns, monotonic); 0: nothing is to be done."""
        self._drops = Drops()
        self._transport = Transport(keys)
        try:
            self._transport.dial(_CHANNEL, address, node)
        except Exception:
            self._transport.close()
            raise
        now = time.monotonic_ns()
        self._answered_at = now
        self._has_connected = False
        self.refusal: str | None = None
        """Why the node rejects this client, as far as the client can see."""
        self._is_rejected = False
        """Whether that is certain, so that asking again is no use."""
        self._link = Link(name or unique_name(role), role, time.time_ns(), now, dials=True, durable=True)
        self._link.greeting = greeting
        self._is_inherited = False
        _clients.add(self)
        self._upkeep = threading.Thread(target=self._keep, name=f"slackline {role}", daemon=True)
        self._upkeep.start()

    @property
    def name(self) -> str:
        """The name under which the node knows this client."""
        return self._link.name

    @property
    def is_connected(self) -> bool:
        """Whether the node answers, as far as this client knows. Never waits."""
        return self._link.up

    @property
    def is_refused(self) -> bool:
        """Whether no answer can ever come: one side has ended the link."""
        return self._link.closed is not None

    def link_statistics(self) -> LinkStatistics:
        """Counts of the link. Takes no lock: a thread that receives all the time would keep it from the others."""
        return self._link.statistics()

    def _inherited(self) -> None:
        """This is a forked child: the sockets and the upkeep are the parent's, and whoever held a lock is not here."""
        self._is_inherited, self._lock = True, threading.RLock()
        self._closing.set()
        self._closed.set()

    def _keep(self) -> None:
        pump_at = 0
        while not self._closed.is_set():
            # A busy caller sends bundled events itself: this thread would only take the lock and the interpreter from it.
            # Acknowledgements, heartbeats and lost frames need this thread all the same.
            if self._hurry.wait(_UPKEEP_EVERY) and is_done_by_others(lambda: self._due, pump_at, self._closed.wait):
                continue
            with self._lock:
                if not self._closed.is_set():
                    self._pump(0)
                    self._tend()
            pump_at = time.monotonic_ns() + round(_UPKEEP_EVERY * SECOND)

    def _tend(self) -> None:
        """Do what is to be done soon."""
        self._hurry.clear()

    def _end(self) -> None:
        """Send what is still to be sent."""

    def _pump(self, timeout: float) -> None:
        """Do all pending work; if there was none, wait for the node up to ``timeout`` seconds."""
        link, transport = self._link, self._transport
        self._flush_out()
        if not self._has_connected:  # nothing can come, and Hello has to leave as soon as it can
            self._has_connected, timeout = transport.connects(_CHANNEL, timeout), 0
        for sock in transport.poll(timeout):
            now = time.monotonic_ns()
            for _, parts in transport.messages(sock):
                self._receive(parts, now)
        now = time.monotonic_ns()
        restarts = link.restarts
        link.wall = time.time_ns() - now
        link.tick(now)
        link.settle(now)
        if link.up:
            self._answered_at = now
            self.refusal, self._is_rejected = None, False
        elif link.peer is None:
            self.refusal, self._is_rejected = transport.refusal(_CHANNEL) or (None, False)
            if self.logs_waiting and now - self._answered_at > _LOG_AFTER:
                self.logs_waiting = False
                silent = f"no node answers at {self.address} yet"
                _log.info(f"{self._rejection() or silent}: waiting for it")
        if restarts != link.restarts:
            self._link_restarted()
        self._flush_out()

    def _flush_out(self) -> None:
        outbox = self._link.outbox
        if outbox:
            for parts in outbox:
                if not self._transport.send(_CHANNEL, parts):
                    self._link.broken()
                    break
            outbox.clear()

    def _receive(self, parts: Parts, now: int) -> None:
        restarts = self._link.restarts
        try:
            payload = self._link.receive(decode_frame(parts[0]), parts[1:], now)
            if payload is not None:
                self._take(payload)
        except WireError as error:
            self._drops[str(error).partition(":")[0]] += 1
        if restarts != self._link.restarts:
            self._link_restarted()

    def _take(self, parts: Parts) -> None:
        """Take a payload from the node. Raises WireError."""
        self._link.consume(payload_size(parts))

    def _link_restarted(self) -> None:
        """The node has lost what it knew of this link."""

    def _check_alive(self) -> None:
        """Raise NetworkError if further waiting is useless."""
        if self._is_inherited:
            raise NetworkError(f"this client of {self.address} is that of the process that forked: make one in the child")
        if self._closing.is_set():
            raise NetworkError(f"this client of {self.address} has been closed")
        if self._link.closed is not None:
            raise NetworkError(f"node at {self.address}: {self._link.closed}")
        silent = time.monotonic_ns() - self._answered_at
        if silent > self._patience:
            what = "does not answer" if self._link.peer is None else "has sent nothing"
            raise NetworkError(
                self._rejection()
                or f"node at {self.address} {what} for {silent / SECOND:.0f} s: is it running, is the address right, "
                "and do its keys list this client?"
            )

    def _rejection(self) -> str | None:
        """The error text if the node rejects this client."""
        return f"the node at {self.address} rejects this client: {self.refusal}" if self.refusal is not None else None

    def close(self) -> None:
        """Say goodbye, once everything sent has arrived or two seconds have passed.

        Events that a publisher could not deliver by then are lost, and logged as an error: ``flush`` before, which waits.

        Calls in other threads that wait for the node raise NetworkError.
        """
        self._closing.set()
        with self._lock:
            if self._closed.is_set():
                return
            self._end()
            deadline = time.monotonic_ns() + round(_LEAVE * SECOND)
            self._link.bye("closed")
            while self._link.up and self._link.closed is None and time.monotonic_ns() < deadline:
                self._pump(20 * MILLISECOND / SECOND)
            self._flush_out()
            self._ended()
            self._closed.set()
            self._hurry.set()
            self._transport.close()
        if threading.current_thread() is not self._upkeep:
            self._upkeep.join()

    def _ended(self) -> None:
        """Nothing more will arrive: what the node has not taken by now is lost."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


_clients: WeakSet[Connection] = WeakSet()


def _inherit_all() -> None:
    for client in list(_clients):
        client._inherited()


os.register_at_fork(after_in_child=_inherit_all)
