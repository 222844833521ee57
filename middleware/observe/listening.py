"""Where this process serves HTTP: addresses as HOST:PORT, the sockets bound to them, and who can reach those."""

from __future__ import annotations

import ipaddress
import socket
from contextlib import suppress


def host_and_port(address: str) -> tuple[str, int]:
    """The parts of HOST:PORT; 0 for port ``*``, which is any free one. Raises ValueError if it is none."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if not host or not (port == "*" or (port.isdecimal() and int(port) < 65_536)):
        raise ValueError(f"{address!r} is not HOST:PORT")
    return host, 0 if port == "*" else int(port)


def listening(host: str, port: int, backlog: int) -> socket.socket:
    """A socket that listens there. Raises OSError."""
    family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen(backlog)
    except BaseException:
        listener.close()
        raise
    return listener


def spoken(host: str, port: int) -> str:
    """HOST:PORT, as in a URL."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(listener: socket.socket) -> bool:
    """Whether only this machine can reach it."""
    with suppress(ValueError):  # of an unknown address family
        return ipaddress.ip_address(str(listener.getsockname()[0])).is_loopback
    return False
