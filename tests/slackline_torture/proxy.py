"""A TCP proxy in user space, between those who talk over real sockets: it can cut, stall and slow what passes."""

from __future__ import annotations

import contextlib
import socket
import threading

_CHUNK = 16 * 1024
_SLOW_SLICE = 0.05


class Proxy:
    """Forwards connections on a free port of the loopback to ``target`` (tcp://HOST:PORT), until ``close``.

    ``address``
        where to connect instead.
    ``connections``
        how many it has forwarded so far.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.removeprefix("tcp://").rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections = 0
        self._flowing = threading.Event()
        self._flowing.set()
        self._closed = threading.Event()
        self._is_cut = False
        self._rate: int | None = None
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    # -- what goes wrong ----------------------------------------------------------------------------------------------

    def cut(self) -> None:
        """Break all connections, and refuse new ones until ``heal``."""
        with self._lock:
            self._is_cut = True
            broken, self._sockets = self._sockets, set()
        for each in broken:
            _shut(each)

    def stall(self) -> None:
        """Keep all connections open and forward nothing until ``heal``: as a cable that is pulled, or a firewall that drops."""
        self._flowing.clear()

    def slow(self, rate: int) -> None:
        """Forward at most so many bytes a second in each direction of a connection, until ``heal``."""
        self._rate = rate

    def heal(self) -> None:
        """Forward everything again; what was stalled comes through, what was cut may connect anew."""
        self._rate = None
        with self._lock:
            self._is_cut = False
        self._flowing.set()

    def close(self) -> None:
        """End it, with all connections."""
        self._closed.set()
        self._flowing.set()
        _shut(self._listener)
        self.cut()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # -- forwarding ---------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                near, _ = self._listener.accept()
            except OSError:  # closed; or who came has gone before it was let in
                continue
            try:
                if self._is_cut:
                    raise OSError("cut")
                far = socket.create_connection(self._target, timeout=5.0)
                far.settimeout(None)
                for each in (near, far):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError:  # whoever came has gone again, or whom it wants is not there
                _shut(near)
                continue
            with self._lock:
                admitted = not self._is_cut
                self._sockets |= {near, far} if admitted else set()
            if not admitted:
                _shut(near)
                _shut(far)
                continue
            self.connections += 1
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(source, sink), name="proxy pump", daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while True:
                rate = self._rate
                data = source.recv(_CHUNK if rate is None else max(1, round(rate * _SLOW_SLICE)))
                if not data:
                    break
                self._flowing.wait()
                if rate is not None:
                    self._closed.wait(len(data) / rate)
                sink.sendall(data)
        except OSError:
            pass
        for each in (source, sink):
            _shut(each)
        with self._lock:
            self._sockets -= {source, sink}


def _shut(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
