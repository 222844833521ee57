"""WebSocket as a sink: whoever connects gets what comes from then on."""

from __future__ import annotations

import asyncio
import hmac
import http
import threading
from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import parse_qs, urlsplit

import msgspec
from websockets.asyncio.server import Server, ServerConnection, broadcast, serve
from websockets.http11 import Request, Response

from middleware.connect.addresses import host_and_port
from middleware.link.codec import Mark
from middleware.model.change import Change, Watermark
from middleware.model.errors import SinkError, UnreachableError
from middleware.model.event import Event
from middleware.runtime.records import as_record

MOST_UNSENT = 4 * 2**20
"""Bytes that may wait for one reader; with more, the others wait for it, as much may come at once."""

PATIENCE = 1.0
"""Seconds that the others wait for a reader that does not keep up; then it is cut off."""

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_STARTS_WITHIN = 10.0
_AT_ONCE = MOST_UNSENT // 4
_LOOK = 0.002


class WebSocketSink:
    """Serves ws://HOST:PORT/: each final is a JSON object in a message of its own; a change has ``change`` in it, too.

    It is for looking on: nothing is kept for who is not there, and what comes while nobody is there goes nowhere. A program
    that must miss nothing is a subscriber, or has an output of another kind.

    ``token``
        what readers must give (``?token=...``, or Authorization: Bearer); needed beyond this machine.
    ``origins``
        web pages that may connect, such as https://plant.example; by default any at this machine's own names, and programs.
    """

    mark: Mark | None = None

    def __init__(self, address: str, name: str = "finals", *, token: str | None = None, origins: Sequence[str] = ()) -> None:
        self._host, self._port = host_and_port(address, 80, "127.0.0.1")
        if self._host not in _LOOPBACK and not token:
            raise SinkError(f"{address} can be reached from other machines: give a token, or serve at 127.0.0.1")
        self._token, self._origins = token, frozenset(origins)
        self._readers: set[ServerConnection] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"websocket {name}", daemon=True)
        self._thread.start()
        try:
            self._server: Server = asyncio.run_coroutine_threadsafe(self._begun(), self._loop).result(_STARTS_WITHIN)
        except OSError as error:
            self._end()
            raise UnreachableError(f"{address} cannot be served: {error.strerror}") from None

    async def _begun(self) -> Server:
        return await serve(self._read, self._host, self._port, process_request=self._admitted, compression=None)

    def _admitted(self, reader: ServerConnection, request: Request) -> Response | None:
        """None if the reader may connect, else what it is told."""
        origin = request.headers.get("Origin")
        if origin is not None and origin not in self._origins and urlsplit(origin).hostname not in _LOOPBACK:
            return reader.respond(http.HTTPStatus.FORBIDDEN, "this is not for other sites\n")
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        given = parse_qs(urlsplit(request.path).query).get("token", [bearer])[0]
        if self._token is not None and not hmac.compare_digest(given.encode(), self._token.encode()):
            return reader.respond(http.HTTPStatus.UNAUTHORIZED, "the token is missing or wrong\n")
        return None

    async def _read(self, reader: ServerConnection) -> None:
        self._readers.add(reader)
        try:
            await reader.wait_closed()
        finally:
            self._readers.discard(reader)

    def take(self, events: Sequence[Event]) -> None:
        """See Sink."""
        self._send([msgspec.json.encode(as_record(event)).decode() for event in events])

    def apply(self, changes: Sequence[Change]) -> None:
        """See ChangeSink."""
        there = [change for change in changes if not isinstance(change, Watermark)]
        kinds = [{"change": type(change).__name__.lower()} for change in there]
        self._send([msgspec.json.encode(as_record(c.event, kind)).decode() for c, kind in zip(there, kinds, strict=True)])

    def _send(self, texts: Sequence[str]) -> None:
        async def send() -> None:
            unsent = 0
            for text in texts:
                broadcast(self._readers, text)
                unsent += len(text)
                if unsent > _AT_ONCE:
                    await self._drained()
                    unsent = 0
            await self._drained()

        asyncio.run_coroutine_threadsafe(send(), self._loop).result()

    async def _drained(self) -> None:
        """Returns once little waits for any reader. Those that are too slow are cut off, and are no readers any more."""
        deadline = self._loop.time() + PATIENCE
        while slow := [each for each in self._readers if each.transport.get_write_buffer_size() > MOST_UNSENT]:
            if self._loop.time() > deadline:
                for reader in slow:
                    self._readers.discard(reader)
                    reader.transport.abort()
            await asyncio.sleep(_LOOK)

    def close(self) -> None:
        """See Sink."""

        async def close() -> None:
            self._server.close()
            await self._server.wait_closed()

        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(close(), self._loop).result(_STARTS_WITHIN)
        self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
