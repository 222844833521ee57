"""HTTP servers of this process, set up in one way: limits of time, connections and bytes, and the rule about visitors.

A visitor that connects and sends nothing, sends its request byte by byte, never ends its body, or does not read its answer
costs a bounded amount of memory for a bounded time, and keeps nobody else out.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

import uvicorn
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from middleware.runtime.transport.listening import Rejection, Visitors

MOST_OPEN = 256
"""The most open connections of a server. Beyond it, the one that has waited longest with an unfinished request is cut off."""

REQUEST_TIME = 10.0
"""Seconds for the head of a request, for its body, and for a visitor to read on in its answer."""

MOST_BODY = 2**20
"""The most bytes in the body of a request."""

MOST_BUFFERED = 32 * 2**20
"""The most bytes in the bodies of all requests that are not answered yet."""

GRACE = 1
"""Seconds for answers under way when a server ends."""

_HEAD = 16 * 1024


class Connections:
    """The open connections of a server, at most so many."""

    def __init__(self, most: int = MOST_OPEN) -> None:
        self._most = most
        self._open: dict[asyncio.Transport, Callable[[], bool]] = {}  # the oldest first

    def admit(self, transport: asyncio.Transport, is_unfinished: Callable[[], bool]) -> bool:
        """Count a new connection. At the limit, cut off the oldest unfinished one, or else this one: then False. O(open)."""
        for gone in [each for each in self._open if each.is_closing()]:
            del self._open[gone]
        if len(self._open) >= self._most:
            cut = next((each for each, waits in self._open.items() if waits()), transport)
            self._open.pop(cut, None)
            cut.abort()
            if cut is transport:
                return False
        self._open[transport] = is_unfinished
        return True

    def abort(self) -> None:
        """Cut off all connections, with what they were still to be sent."""
        for each in self._open:
            each.abort()
        self._open.clear()


class HttpServer:
    """Serves an application at a bound socket, from a thread of its own, once it is started.

    ``cookie``
        the name of a cookie that may hold the visitor's token.
    ``has_websockets``
        whether the application has any.
    ``most_body``, ``most_open``, ``request_time``
        see MOST_BODY, MOST_OPEN, REQUEST_TIME.
    """

    def __init__(
        self,
        application: ASGIApp,
        listener: socket.socket,
        visitors: Visitors,
        name: str,
        *,
        cookie: str = "",
        has_websockets: bool = False,
        most_body: int = MOST_BODY,
        most_open: int = MOST_OPEN,
        request_time: float = REQUEST_TIME,
    ) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self._listener, self._connections = listener, Connections(most_open)
        config = uvicorn.Config(
            _Door(application, visitors, cookie, most_body, request_time),
            http=_protocol(self._connections, request_time),
            ws="websockets-sansio" if has_websockets else "none",
            ws_max_size=4096,
            ws_max_queue=4,
            h11_max_incomplete_event_size=_HEAD,
            log_level="error",  # a line for each piece of junk from outside would fill the log
            access_log=False,
            proxy_headers=False,
            timeout_graceful_shutdown=GRACE,
            lifespan="off",
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)

    @property
    def is_alive(self) -> bool:
        """Whether it serves."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start to serve. Visitors that come earlier are served a moment later."""
        self._thread.start()

    def close(self) -> None:
        """End, within little more than the grace, whatever visitors do."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(GRACE + 5)
        self._listener.close()

    def _serve(self) -> None:
        async def serve() -> None:
            self.loop = asyncio.get_running_loop()
            await self._server.serve([self._listener])
            self._connections.abort()

        with suppress(SystemExit):
            asyncio.run(serve())


def _protocol(connections: Connections, request_time: float) -> type[H11Protocol]:
    """uvicorn's protocol, with the limits that it lacks: of connections, and of time for heads and for answers."""

    class Limited(H11Protocol):
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if connections.admit(transport, self._is_unfinished):
                self._start_timer()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            super().data_received(data)
            if self.cycle is not before or self.transport.get_protocol() is not self:
                self._stop_timer()  # the head is complete; for the body, see _Door
            elif self._timer is None and (self.cycle is None or self.cycle.response_complete):
                self._start_timer()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._stop_timer()
            self._start_timer()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._stop_timer()

        def _is_unfinished(self) -> bool:
            """Whether it waits for the rest of a request. A WebSocket does not, nor does a request that is being served."""
            is_served = self.cycle is not None and not self.cycle.more_body and not self.cycle.response_complete
            return not is_served and self.transport.get_protocol() is self

        def _start_timer(self) -> None:
            self._timer = self.loop.call_later(request_time, self.transport.abort)

        def _stop_timer(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    return Limited


class _Door:
    """Gives an application whole requests, of visitors that are admitted."""

    def __init__(self, inner: ASGIApp, visitors: Visitors, cookie: str, most_body: int, request_time: float) -> None:
        self._inner, self._visitors, self._cookie = inner, visitors, cookie
        self._most_body, self._time, self._buffered = most_body, request_time, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return
        visitor = HTTPConnection(scope)
        headers = visitor.headers
        given = _token_of(visitor, self._cookie)
        rejection = self._visitors.rejection(headers.get("host", ""), headers.get("origin"), given)
        if scope["type"] == "websocket":
            if rejection is None:
                await self._inner(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": 1008, "reason": rejection.why[:120]})
            return
        body = bytearray()
        try:
            rejection = await self._read(body, receive, rejection)
            if rejection is None:
                await self._inner(scope, _given(bytes(body), receive), send)
            elif rejection.status:
                more = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}.get(rejection.status, {})
                answer = PlainTextResponse(f"{rejection.why}\n", rejection.status, {"Connection": "close", **more})
                await answer(scope, receive, send)
        finally:
            self._buffered -= len(body)

    async def _read(self, body: bytearray, receive: Receive, rejection: Rejection | None) -> Rejection | None:
        """Read a body; return why it is rejected, if it is. A rejected body is read, too, but not kept: a connection that is
        closed with unread bytes is reset, and its visitor would not see the answer.
        """
        try:
            async with asyncio.timeout(self._time):
                more = True
                while more:
                    message = await receive()
                    if message["type"] != "http.request":
                        return Rejection(0, "the visitor has left")
                    part, more = message.get("body", b""), message.get("more_body", False)
                    if rejection is None and len(body) + len(part) > self._most_body:
                        rejection = Rejection(413, f"at most {self._most_body:,} bytes at once: send less in each request")
                    elif rejection is None and self._buffered + len(part) > MOST_BUFFERED:
                        rejection = Rejection(503, "too many bytes wait for their answer: send it again")
                    if rejection is None:
                        body += part
                        self._buffered += len(part)
                    else:
                        self._buffered -= len(body)
                        body.clear()
        except TimeoutError:
            return Rejection(408, f"the rest of the request has not come within {self._time:g} s")
        return rejection


def _given(body: bytes, receive: Receive) -> Receive:
    """What gives a body that was read already, and then what follows it."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def give() -> Message:
        return messages.pop() if messages else await receive()

    return give


def _token_of(visitor: HTTPConnection, cookie: str) -> str:
    """The token that a visitor gives: ``?token=``, ``Authorization: Bearer``, or a cookie of this name."""
    bearer = visitor.headers.get("authorization", "").removeprefix("Bearer ")
    return visitor.query_params.get("token") or bearer or (visitor.cookies.get(cookie, "") if cookie else "")
