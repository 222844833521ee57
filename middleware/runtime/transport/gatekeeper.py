"""The gatekeeper of a port: lets only listed keys in, and bounds what strangers can cost before they show one.

ZeroMQ asks it (ZAP) whether a key may attach. It also watches accepted connections, and closes excess ones from one address:
libzmq itself has no such bound, and each connection may hold a frame until its time for the handshake is over.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import Counter, deque
from contextlib import suppress
from typing import Any

import structlog
import zmq
from zmq.auth.thread import ThreadAuthenticator
from zmq.utils.monitor import parse_monitor_message

from middleware.runtime.transport.keys import DOMAIN, Keys

HANDSHAKE = 5.0
"""Seconds within which a connection must show a listed key; else ZeroMQ closes it."""

MOST_NEW = 200
"""Connections that one address may open within the time for a handshake; more are closed, and may be tried again."""

MOST_OPEN = 2_000
"""Connections that one address may have open at a time."""

_LOG_EVERY = 30.0
"""Seconds between two log lines about rejected connections."""

_WATCHED = zmq.Event.ACCEPTED | zmq.Event.DISCONNECTED | zmq.Event.MONITOR_STOPPED | zmq.Event.HANDSHAKE_FAILED_PROTOCOL
_log = structlog.get_logger()


class Gatekeeper:
    """See the module. Works in two threads of its own, one of them pyzmq's, until it is stopped.

    ``most_open``: the connections that one address may have open at a time.
    """

    def __init__(self, context: zmq.Context[Any], keys: Keys, port: zmq.Socket[bytes], most_open: int = MOST_OPEN) -> None:
        self._keys = keys
        self._arrivals = Arrivals(MOST_NEW, most_open, HANDSHAKE)
        self._rejected: Counter[str] = Counter()
        self._logged_at = -_LOG_EVERY
        self._authenticator = ThreadAuthenticator(context)
        self._authenticator.start()
        self._authenticator.configure_curve_callback(DOMAIN, credentials_provider=self)
        self._port = port
        self._events = port.get_monitor_socket(int(_WATCHED))
        self._watcher = threading.Thread(target=self._watch, name="slackline gatekeeper", daemon=True)
        self._watcher.start()

    def callback(self, domain: str, key: bytes) -> bool:
        """Called by the authenticator: whether the key (Z85) is listed."""
        if self._keys.entry(key.decode()) is not None:
            return True
        self._rejected["their key is not on the allow-list"] += 1
        return False

    def _watch(self) -> None:
        """Read ZeroMQ's events about the port, until its monitor ends."""
        with self._events as events:
            while True:
                if events.poll(round(_LOG_EVERY * 1_000)):
                    event = parse_monitor_message(events.recv_multipart())
                    if event["event"] == zmq.Event.MONITOR_STOPPED:
                        return
                    self._happened(event["event"], event["value"])
                self._log_rejections()

    def _happened(self, event: int, value: int) -> None:
        if event == zmq.Event.ACCEPTED:
            address = _address_of(value)
            if address is not None and not self._arrivals.is_welcome(value, address, time.monotonic()):
                self._rejected["too many connections from one address"] += 1
                _hang_up(value)
        elif event == zmq.Event.DISCONNECTED:
            self._arrivals.left(value)
        elif event == zmq.Event.HANDSHAKE_FAILED_PROTOCOL:
            self._rejected["they do not speak the protocol, or without keys"] += 1

    def _log_rejections(self) -> None:
        """Log the reasons of rejections since the last time: the first at once, then at bounded intervals."""
        if self._rejected and time.monotonic() - self._logged_at >= _LOG_EVERY:
            self._logged_at = time.monotonic()
            rejected, self._rejected = self._rejected, Counter()
            _log.warning(
                "connections rejected", **{reason.replace(" ", "_"): count for reason, count in rejected.most_common(5)}
            )

    def stop(self) -> None:
        """Stop the threads; to be called before the port is closed."""
        self._port.disable_monitor()
        self._watcher.join()
        self._authenticator.stop()


class Arrivals:
    """The connections by address. Each is known by its file descriptor, which may be reused once it is closed."""

    def __init__(self, most_new: int, most_open: int, period: float) -> None:
        self._most_new, self._most_open, self._period = most_new, most_open, period
        self._open: dict[int, str] = {}
        self._count: Counter[str] = Counter()
        self._new: dict[str, deque[float]] = {}

    def is_welcome(self, descriptor: int, address: str, now: float) -> bool:
        """Note an accepted connection; returns whether it may stay."""
        self.left(descriptor)
        self._open[descriptor] = address
        self._count[address] += 1
        times = self._new.setdefault(address, deque(maxlen=self._most_new + 1))
        times.append(now)
        while times[0] <= now - self._period:
            times.popleft()
        return len(times) <= self._most_new and self._count[address] <= self._most_open

    def left(self, descriptor: int) -> None:
        """Note that a connection has been closed, by either side."""
        address = self._open.pop(descriptor, None)
        if address is not None:
            self._count[address] -= 1
            if not self._count[address]:
                del self._count[address], self._new[address]


def _address_of(descriptor: int) -> str | None:
    """The host behind a connection; None if it has closed, or is a local one by a path."""
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
        peer = connection.getpeername()
        return str(peer[0]) if isinstance(peer, tuple) else None
    return None


def _hang_up(descriptor: int) -> None:
    """Shut down a connection that ZeroMQ holds, so that ZeroMQ sees it break."""
    with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
        connection.shutdown(socket.SHUT_RDWR)
