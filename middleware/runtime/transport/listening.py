"""Where this process serves HTTP: addresses as HOST:PORT, the sockets bound to them, and which visitors a server admits."""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""The names of this machine that only it can reach."""


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


class Rejection(NamedTuple):
    """The HTTP status that a visitor is given, and the reason in words."""

    status: int
    why: str


class Visitors:
    """Who may use an HTTP server of ours: one rule for all of them.

    A web page in a browser on this machine reaches loopback too. It can point its own host name here (DNS rebinding), so a
    server on loopback without a token answers to the names of loopback only. A browser names the page's site in ``Origin``,
    so pages of other sites are rejected everywhere.

    ``token``
        the secret that a visitor must know; None: no secret.
    ``origins``
        sites whose pages may connect as well. ``local_pages``: whether pages served by other ports of this machine may, too.
    """

    def __init__(
        self, listener: socket.socket, token: str | None = None, origins: Iterable[str] = (), local_pages: bool = False
    ) -> None:
        self._token, self._origins, self._local_pages = token, frozenset(origins), local_pages
        port = listener.getsockname()[1]
        names = [spoken(name, port) for name in LOOPBACK]
        if port == 80:  # browsers leave it out
            names += [name.removesuffix(":80") for name in names]
        self._hosts = frozenset(names) if token is None and is_loopback(listener) else None

    def rejection(self, host: str, origin: str | None, given: str = "") -> Rejection | None:
        """Why a visitor is rejected, by its headers ``Host`` and ``Origin`` and the token it gave; None: it is admitted."""
        if self._hosts is not None and host.lower() not in self._hosts:
            return Rejection(403, f"this is served as {', '.join(sorted(self._hosts))} only")
        if origin is not None and not self._is_ours(origin, host):
            return Rejection(403, "this is not for other sites")
        if self._token is not None and not hmac.compare_digest(given.encode(), self._token.encode()):
            return Rejection(401, "the token is missing or wrong: use the address, or the header, with the token")
        return None

    def _is_ours(self, origin: str, host: str) -> bool:
        try:
            site = urlsplit(origin)
            return origin in self._origins or site.netloc == host or (self._local_pages and site.hostname in LOOPBACK)
        except ValueError:  # a bracket that does not close
            return False
