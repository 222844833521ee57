"""Sockets: a ROUTER to which others attach, and a DEALER for each dialled node. Nothing here knows the link protocol."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from socket import AF_INET6, getaddrinfo
from urllib.parse import urlsplit

import zmq

from middleware.broker.peers.rights import Rights
from middleware.model.errors import AddressError, NetworkError
from middleware.model.words import redacted
from middleware.runtime.transport.ending import end_context
from middleware.runtime.transport.framing import PIECE, Bytes, frames_of, parts_of
from middleware.runtime.transport.gatekeeper import HANDSHAKE, Gatekeeper
from middleware.runtime.transport.keys import AllowedKey, Keys
from middleware.runtime.transport.refusals import KeyRefusal, Refusals

_MOST_AT_ONCE = 1_000
_MOST_UNSENT = 16_384
"""Messages that may wait in the pipe of one connection: far beyond what credit allows, so it is full only if nobody reads.
A message that does not fit is lost, as if the channel had broken, and the link protocol sends it again."""

_DEAD_AFTER = 3
"""The seconds without an answer from the other machine after which a connection is dropped and dialled anew: well before
the link protocol drops the peer, so that a link that works again is found while the peer still counts as connected.

The kernel finds this out: what was sent must be acknowledged, and an idle connection is probed. ZeroMQ's own heartbeats would
end the process when one is due on a connection that broke while messages of it wait to be read (decision 089).
"""

_SILENCE = 10.0
"""The seconds without a message after which a dialled node is dialled anew: something in between may acknowledge all bytes
and forward none. It is what the link protocol grants as well."""

_DIAL_FOR, _DIAL_AGAIN_FIRST, _DIAL_AGAIN = 1_000, 50, 500
"""How long one connection attempt may take, and the shortest and the longest pause before the next one (ms)."""

_ENDING = 2.0
"""Seconds in which a transport must have ended: ten times what sent messages have to leave."""

_MOST_OWNERS = 10_000

# Plain integers: combining enum flags for every part of every message costs more than the rest of a send.
_NOBLOCK = int(zmq.NOBLOCK)
_MORE = int(zmq.NOBLOCK | zmq.SNDMORE)
_EVENTS, _POLLIN = int(zmq.EVENTS), int(zmq.POLLIN)


def is_private(address: str) -> bool:
    """Whether messages to an address stay on this machine."""
    parts = urlsplit(address)
    if parts.scheme in ("ipc", "inproc"):
        return True
    host = parts.hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_address(address: str, keys: Keys | None, *, binds: bool = False) -> None:
    """Raise AddressError for an invalid address, or one beyond this machine if there are no keys.

    ``binds``: whether it is to be bound; then its port may be left open (``*`` or 0).
    """
    if (why := _fault(address, binds)) is not None:
        raise AddressError(
            f"{redacted(address)!r} is no address: {redacted(why, address)}; give one such as tcp://127.0.0.1:5701 or ipc:///run/slackline/a"
        )
    if keys is None and not is_private(address):
        raise AddressError(
            f"{redacted(address)} can be reached from other machines, so it needs keys: create a pair on each side with "
            "'slackline keys new NAME', list the public keys in the allow-list, and name both files in the configuration"
        )


def _fault(address: str, binds: bool) -> str | None:
    """What is wrong with the form of an address, or None."""
    try:
        parts = urlsplit(address)
        if parts.scheme == "ipc":
            return None if parts.netloc or parts.path else "it has no path"
        if parts.scheme != "tcp":
            return "it begins with neither tcp:// nor ipc://"
        if not parts.hostname:
            return "it has no host"
    except ValueError as error:  # such as unclosed brackets
        return str(error)
    host, _, port = parts.netloc.rpartition(":")
    if parts.path or parts.query or parts.fragment or not host or port.endswith("]"):
        return "it does not end with a port"
    if binds and port in ("*", "0"):
        return None
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
        return f"{port!r} is no port"
    return None


class Transport:
    """The sockets of one process. A channel is the name of a dialled node, or the bytes by which the ROUTER knows a peer.

    One thread at a time may use it.
    """

    def __init__(self, keys: Keys | None = None, silence: float = _SILENCE) -> None:
        self._keys = keys
        self._silence = silence
        self._context = zmq.Context()
        self._poller = zmq.Poller()
        self._router: zmq.Socket[bytes] | None = None
        self._dealers: dict[str, zmq.Socket[bytes]] = {}
        self._names: dict[zmq.Socket[bytes], str] = {}
        self._refusals: dict[str, Refusals] = {}
        self._gatekeeper: Gatekeeper | None = None
        self._owners: dict[bytes, AllowedKey | None] = {}
        self._dialled: dict[str, tuple[str, str | None, str]] = {}
        """Address, node and its key ("" without keys), by channel."""
        self._received_at: dict[str, float] = {}
        """When the last message of a dialled node arrived, or when it was dialled, by channel."""

    def bind(self, address: str) -> str:
        """Let others attach at ``address``; returns the full address, in case it left the port open. Raises NetworkError."""
        check_address(address, self._keys, binds=True)
        with self._socket(zmq.ROUTER) as socket:
            socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
            if self._keys is not None:
                self._gatekeeper = Gatekeeper(self._context, self._keys, socket)
                self._keys.secure_server(socket)
            _speak_ip(socket, address)
            try:
                socket.bind(address)
            except zmq.ZMQError as error:
                if self._gatekeeper is not None:
                    self._gatekeeper.stop()
                    self._gatekeeper = None
                raise NetworkError(
                    f"cannot bind {redacted(address)}: {redacted(str(error))}; is another node running there?"
                ) from None
            self._router = socket
        return socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def dial(self, name: str, address: str, node: str | None = None) -> None:
        """Connect to a node; its channel is ``name``. ``node``: whose key it must have. Reconnects by itself after a break.

        Raises NetworkError, or KeyFileError if no key is listed for the node.
        """
        check_address(address, self._keys)
        with self._socket(zmq.DEALER) as socket:
            socket.setsockopt(zmq.IMMEDIATE, 1)
            socket.setsockopt(zmq.CONNECT_TIMEOUT, _DIAL_FOR)
            socket.setsockopt(zmq.RECONNECT_IVL, _DIAL_AGAIN_FIRST)
            socket.setsockopt(zmq.RECONNECT_IVL_MAX, _DIAL_AGAIN)
            if self._keys is not None:
                self._keys.secure_client(socket, node)
            self._dialled[name] = (address, node, self._keys.key_of(node) if self._keys is not None else "")
            _speak_ip(socket, address)
            refusals = Refusals(socket, self._keys is not None)
            try:
                socket.connect(address)
            except zmq.ZMQError as error:
                refusals.close()
                raise NetworkError(f"cannot connect to {redacted(address)}: {redacted(str(error))}") from None
            self._dealers[name] = socket
            self._refusals[name] = refusals
            self._names[socket] = name
            self._received_at[name] = time.monotonic()

    @contextmanager
    def _socket(self, kind: int) -> Iterator[zmq.Socket[bytes]]:
        """A socket that is polled from now on; it is closed at once if its address or its keys are invalid.

        Left open, it would make ``close`` hang for ever: a context waits for all of its sockets.
        """
        socket = self._context.socket(kind)
        try:
            socket.setsockopt(zmq.SNDHWM, _MOST_UNSENT)
            # A peer that takes no bytes for this long loses its connection, and what waits in it.
            socket.setsockopt(zmq.TCP_MAXRT, _DEAD_AFTER * 1_000)
            socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
            socket.setsockopt(zmq.TCP_KEEPALIVE_IDLE, _DEAD_AFTER)
            socket.setsockopt(zmq.TCP_KEEPALIVE_INTVL, 1)
            socket.setsockopt(zmq.TCP_KEEPALIVE_CNT, _DEAD_AFTER)
            socket.setsockopt(zmq.LINGER, 200)
            socket.setsockopt(zmq.MAXMSGSIZE, PIECE + 1_024)
            socket.setsockopt(zmq.HANDSHAKE_IVL, round(HANDSHAKE * 1_000))
            yield socket
        except BaseException:
            socket.close(linger=0)
            raise
        self._poller.register(socket, zmq.POLLIN)

    def wake_by(self, descriptor: int) -> None:
        """Let ``poll`` also end when this file descriptor is readable."""
        self._poller.register(descriptor, zmq.POLLIN)

    def connects(self, name: str, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds for the connection to a dialled node; returns whether it takes messages."""
        return (dealer := self._dealers.get(name)) is not None and bool(
            dealer.poll(max(0, round(timeout * 1_000)), zmq.POLLOUT)
        )

    def refusal(self, name: str) -> KeyRefusal | None:
        """Why a dialled node does not let this process in, as far as can be seen; None if it does, or is not there."""
        refusals = self._refusals.get(name)
        return refusals.last() if refusals is not None else None

    def poll(self, timeout: float) -> list[zmq.Socket[bytes]]:
        """Wait up to ``timeout`` seconds for messages; returns the sockets that have some."""
        found = [socket for socket, _ in self._poller.poll(max(0, round(timeout * 1_000))) if not isinstance(socket, int)]
        if self._dealers:
            now = time.monotonic()
            for socket in found:
                if socket is not self._router:
                    self._received_at[self._names[socket]] = now
            for name in [name for name in self._dealers if now - self._received_at[name] > self._silence]:
                self._dial_anew(name)
        return found

    def _dial_anew(self, name: str) -> None:
        address, node, _ = self._dialled[name]
        if self._keys is None or self._keys.listed(node) is not None:
            self._hang_up(name)
            self.dial(name, address, node)

    def messages(self, socket: zmq.Socket[bytes]) -> Iterator[tuple[Hashable, list[bytes]]]:
        """The messages that have arrived at a socket: (channel, parts), without waiting, and bounded in number."""
        receive, name = socket.recv, self._names.get(socket)
        is_checked = name is None and self._gatekeeper is not None
        try:
            for count in range(_MOST_AT_ONCE):
                if count == 1 and not int(socket.getsockopt(_EVENTS)) & _POLLIN:
                    return  # mostly there is one message: asking costs less than the exception
                frame = receive(_NOBLOCK, copy=False)  # the frame has a flag for the last one
                if is_checked:
                    self._note_owner(frame)
                frames: list[Bytes] = [frame.buffer]
                while frame.more:
                    frame = receive(_NOBLOCK, copy=False)
                    frames.append(frame.buffer)
                if name is not None:
                    yield name, parts_of(frames)
                    continue
                channel = bytes(frames[0])
                if not is_checked or self._owners.get(channel) is not None:
                    yield channel, parts_of(frames[1:])
        except zmq.Again:
            return

    def rights(self, channel: Hashable) -> Rights | None:
        """The rights of the peer behind a channel of the ROUTER, by the allow-list; None without keys."""
        entry = self._owners.get(channel) if isinstance(channel, bytes) else None
        return self._keys.rights(entry) if entry is not None and self._keys is not None else None

    def relist(self) -> list[Hashable]:
        """Read the allow-list again; returns the channels of peers whose key is not listed any more, or under another name:
        they are no longer served. Other rights apply at once: see ``rights``.

        Nodes whose key has changed are dialled anew. Raises KeyFileError; then all stays as it was.
        """
        if self._keys is None:
            return []
        self._keys.reload()
        entry = self._keys.entry
        gone: list[Hashable] = []
        for channel, owner in self._owners.items():
            listed = entry(owner.key) if owner is not None else None
            if owner is not None and (listed is None or listed.name != owner.name):
                gone.append(channel)
                listed = None
            self._owners[channel] = listed
        for name, (address, node, key) in list(self._dialled.items()):
            present = self._keys.listed(node)
            if present != key and name in self._dealers:
                self._hang_up(name)
                gone.append(name)
            if present is not None and name not in self._dealers:
                self.dial(name, address, node)
        return gone

    def _hang_up(self, name: str) -> None:
        socket = self._dealers.pop(name)
        del self._names[socket]
        self._poller.unregister(socket)
        self._refusals.pop(name).close()
        socket.close(linger=0)

    def _note_owner(self, frame: zmq.Frame) -> None:
        """Note the key of a channel: at a ROUTER with keys, the first part carries the key that ZeroMQ has checked."""
        channel = frame.bytes
        if channel not in self._owners and self._keys is not None:
            if len(self._owners) >= _MOST_OWNERS:
                self._owners.clear()  # most are of closed channels; the others are looked up again
            self._owners[channel] = self._keys.entry(str(frame.get("User-Id")))

    def send(self, channel: Hashable, parts: list[bytes]) -> bool:
        """Send a message without waiting. False if the channel is broken: then the message is lost."""
        frames = frames_of(parts)
        try:
            if isinstance(channel, bytes):
                assert self._router is not None
                send = self._router.send
                send(channel, _MORE)
            else:
                if (dealer := self._dealers.get(str(channel))) is None:
                    return False  # its key is not listed any more
                send = dealer.send
            for frame in frames[:-1]:
                send(frame, _MORE)
            send(frames[-1], _NOBLOCK)
        except zmq.ZMQError as error:
            if error.errno in (zmq.EAGAIN, zmq.EHOSTUNREACH):
                return False
            raise
        return True

    def close(self) -> None:
        """Close all sockets; sent messages have a moment to leave."""
        if self._gatekeeper is not None:
            self._gatekeeper.stop()
        for refusals in self._refusals.values():
            refusals.close()
        for socket in [*self._dealers.values(), *([self._router] if self._router is not None else [])]:
            socket.close()
        end_context(self._context, _ENDING)


def _speak_ip(socket: zmq.Socket[bytes], address: str) -> None:
    """Enable IPv6 on a socket if the address needs it: by default, ZeroMQ uses only IPv4."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    if parts.scheme == "tcp" and (":" in host or _has_only_version_6(host)):
        socket.setsockopt(zmq.IPV6, 1)


def _has_only_version_6(host: str) -> bool:
    if host == "*" or host.replace(".", "").isdigit():
        return False
    try:
        return {family for family, *_ in getaddrinfo(host, None)} == {AF_INET6}
    except OSError:
        return False  # the name is unknown as yet; ZeroMQ looks it up again
