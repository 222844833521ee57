"""WebSocket as a sink: whoever connects gets what comes from then on."""

from __future__ import annotations

import asyncio
import http
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from urllib.parse import parse_qs, urlsplit

import msgspec
from websockets.asyncio.server import Server, ServerConnection, broadcast, serve
from websockets.http11 import Request, Response
from websockets.protocol import State

from middleware.connect.addresses import host_and_port
from middleware.link.codec import SinkPosition
from middleware.model.change import Change, Watermark
from middleware.model.errors import SinkError, UnreachableError
from middleware.model.event import Event
from middleware.model.words import redacted
from middleware.runtime.json_records import as_record
from middleware.runtime.transport.http_server import GRACE, REQUEST_TIME, Connections
from middleware.runtime.transport.listening import LOOPBACK, Visitors, listening

MOST_UNSENT = 4 * 2**20
"""Bytes that may wait for one reader; with more, the others wait for it, as much may come at once."""

PATIENCE = 1.0
"""Seconds that the others wait for a reader that does not keep up; then it is cut off."""

MOST_READERS = 1_000
"""Readers that may be connected at once."""

_MOST_RECEIVED = 4096
"""Bytes in a message of a reader; all messages of readers are dropped."""

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

    position: SinkPosition | None = None

    def __init__(self, address: str, name: str = "finals", *, token: str | None = None, origins: Sequence[str] = ()) -> None:
        host, port = host_and_port(address, 80, "127.0.0.1")
        if host not in LOOPBACK and not token:
            raise SinkError(f"{redacted(address)} can be reached from other machines: give a token, or serve at 127.0.0.1")
        try:
            listener = listening(host, port, 128)
        except OSError as error:
            raise UnreachableError(f"{redacted(address)} cannot be served: {error.strerror}") from None
        self._visitors = Visitors(listener, token, origins, local_pages=True)
        self._connections = Connections(MOST_READERS)
        self._readers: set[ServerConnection] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"websocket {name}", daemon=True)
        self._thread.start()
        self._server: Server = asyncio.run_coroutine_threadsafe(self._begun(listener), self._loop).result(_STARTS_WITHIN)

    async def _begun(self, listener: socket.socket) -> Server:
        return await serve(
            self._read,
            sock=listener,
            process_request=self._rejected,
            create_connection=_counted(self._connections),
            compression=None,
            open_timeout=REQUEST_TIME,
            max_size=_MOST_RECEIVED,
            max_queue=1,
        )

    def _rejected(self, reader: ServerConnection, request: Request) -> Response | None:
        """The answer to a reader that may not connect; None if it may."""
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        given = parse_qs(urlsplit(request.path).query).get("token", [bearer])[0]
        rejection = self._visitors.rejection(request.headers.get("Host", ""), request.headers.get("Origin"), given)
        return None if rejection is None else reader.respond(http.HTTPStatus(rejection.status), f"{rejection.why}\n")

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
            closed = asyncio.ensure_future(self._server.wait_closed())
            await asyncio.wait([closed], timeout=GRACE)  # for readers that answer; the others would be waited for ten seconds
            self._connections.abort()
            await closed

        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(close(), self._loop).result(_STARTS_WITHIN)
        self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _counted(connections: Connections) -> type[ServerConnection]:
    """Connections of the library, at most as many as there may be."""

    class Counted(ServerConnection):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            connections.admit(self.transport, lambda: self.state is State.CONNECTING)

    return Counted
