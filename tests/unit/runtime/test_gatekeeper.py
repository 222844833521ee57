"""The gatekeeper of a port counts the connections of an address that are open, and no others."""

from __future__ import annotations

import socket
import struct
from contextlib import ExitStack

import zmq

from middleware.runtime.transport.gatekeeper import Gatekeeper
from middleware.runtime.transport.keys import KeyPair, Keys


class Port:
    """A port in place of ZeroMQ's: it tells of the connections that the test names, if it is asked to."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self._ours, self._theirs = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
        self._ours.bind("inproc://monitor")
        self._theirs.connect("inproc://monitor")
        self._watched = 0

    def get_monitor_socket(self, events: int) -> zmq.Socket[bytes]:
        self._watched = events
        return self._theirs

    def disable_monitor(self) -> None:
        self.tell(zmq.Event.MONITOR_STOPPED, 0)
        self._ours.close()

    def tell(self, event: zmq.Event, descriptor: int) -> None:
        if event & self._watched:
            self._ours.send_multipart([struct.pack("=HI", event, descriptor), b""])


class Door:
    """A port, its gatekeeper, and connections to it; each has a descriptor of its own."""

    def __init__(self, stack: ExitStack) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = stack.enter_context(zmq.Context())
        public, secret = (key.decode() for key in zmq.curve_keypair())
        self.port, self._stack = Port(context), stack
        self._gatekeeper = Gatekeeper(context, Keys(KeyPair("a", public, secret), []), self.port, most_open=3)  # type: ignore[arg-type]
        self._listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.clients: list[socket.socket] = []

    def accept(self) -> int:
        """The descriptor of a new connection."""
        client = self._stack.enter_context(socket.create_connection(self._listener.getsockname()))
        server, _ = self._listener.accept()
        self._stack.enter_context(server)
        client.setblocking(False)
        self.clients.append(client)
        self.port.tell(zmq.Event.ACCEPTED, server.fileno())
        return server.fileno()

    def end(self) -> list[bool]:
        """Whether each connection was let in, once the gatekeeper has seen all."""
        self._gatekeeper.stop()
        return [not _is_shut(client) for client in self.clients]


def _is_shut(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False


def test_connections_that_have_closed_count_no_more() -> None:
    with ExitStack() as stack:
        door = Door(stack)
        for _ in range(10):
            door.port.tell(zmq.Event.DISCONNECTED, door.accept())
        assert door.end() == [True] * 10


def test_so_many_are_open_at_a_time_and_no_more() -> None:
    with ExitStack() as stack:
        door = Door(stack)
        first = [door.accept() for _ in range(4)]
        door.port.tell(zmq.Event.DISCONNECTED, first[0])
        door.port.tell(zmq.Event.DISCONNECTED, first[3])  # the one that was closed
        door.accept()
        assert door.end() == [True, True, True, False, True]
