"""The page's server: static files, and changes over a WebSocket, at most ten times a second.

Nothing is queued for a page: when it is ready for more, it gets the present state. So a stalled page costs nothing.
Read-only: all that a page sends is dropped.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from middleware.broker.watermarks.waiting import explain
from middleware.model.errors import NetworkError, SlacklineError
from middleware.observe.view.board import sections
from middleware.observe.view.mesh_watch import MeshWatch
from middleware.runtime.transport.http_server import HttpServer
from middleware.runtime.transport.listening import LOOPBACK, Visitors, host_and_port, listening, spoken

FRAME_EVERY = 0.1
"""Seconds between two frames sent to a page."""

MOST_PAGES = 100
STATIC = Path(str(files("middleware.observe.view").joinpath("static")))
_POLICY = (
    "default-src 'self'; connect-src 'self'; img-src 'self' data:; style-src 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = {
    b"content-security-policy": _POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"no-store",
}
_COOKIE = "slackline-view"


class Page:
    """Serves the page at ``address`` (HOST:PORT; port 0 is any free one) from a thread of its own.

    ``token``
        the secret a visitor must know; required beyond this machine.
    ``url``
        the page's address, with the token.

    The page may be closed at any time; ``show`` gives it something else to watch.
    """

    def __init__(self, address: str, token: str | None = None) -> None:
        host, port = _parsed(address)
        if host not in LOOPBACK and not token:
            raise SlacklineError(f"{address} can be reached from other machines: give --token, or bind to 127.0.0.1")
        self._token = token
        self._watch: MeshWatch | None = None
        self._pages = 0
        self._round = 0  # the number of the watch, for pages that outlive one
        self._over = threading.Event()
        self._socket = _bound(host, port)
        self.url = f"http://{spoken(host, self._socket.getsockname()[1])}/" + (f"?token={token}" if token else "")
        application, visitors = _Guard(self._application()), Visitors(self._socket, token)
        self._server = HttpServer(application, self._socket, visitors, "page", cookie=_COOKIE, has_websockets=True)
        self._ticker = threading.Thread(target=self._tick, name="film", daemon=True)

    def start(self) -> None:
        """Start to serve. Visitors that come earlier are served a moment later."""
        self._server.start()
        self._ticker.start()

    def show(self, watch: MeshWatch | None) -> None:
        """Show this watch from now on; None: the last content stays as it is."""
        if watch is not None:
            self._watch = watch
            self._round += 1

    def close(self) -> None:
        """Say goodbye to all pages, and end."""
        self._over.set()
        self._server.close()

    def _tick(self) -> None:
        """Take ten frames of the scene a second, even without viewers: for the scrubber, too."""
        while not self._over.wait(FRAME_EVERY):
            watch = self._watch
            if watch is not None:
                watch.expose()

    def _application(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/", self._index),
                Route("/healthz", self._health),
                Route("/scene-script.js", self._script),
                Route("/film", self._film),
                Route("/waiting", self._waiting),
                WebSocketRoute("/live", self._live),
                Mount("/", StaticFiles(directory=STATIC)),
            ]
        )

    async def _index(self, request: Request) -> Response:
        response = FileResponse(STATIC / "index.html")
        if self._token is not None and "token" in request.query_params:
            response.set_cookie(_COOKIE, self._token, httponly=True, samesite="strict")
        return response

    async def _health(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def _script(self, request: Request) -> Response:
        film = self._watch.film if self._watch is not None else None
        return FileResponse(film.scene.script) if film is not None else PlainTextResponse("no scene", 404)

    async def _film(self, request: Request) -> Response:
        """All kept frames of the scene."""
        watch = self._watch
        if watch is None or watch.film is None:
            return PlainTextResponse("no scene", 404)
        with watch.lock:
            frames = watch.film.all()
        return Response(frames, media_type="application/json")

    async def _waiting(self, request: Request) -> Response:
        """Why a type is final only as far as it is."""
        watch, name = self._watch, request.query_params.get("type", "")
        statuses = watch.board.statuses if watch is not None else []
        known = {each for status in statuses for unit in status.units for each in unit.publishes}
        lines = explain(statuses, name) if name in known else ["no unit publishes that"]
        return Response(msgspec.json.encode(lines), media_type="application/json")

    async def _live(self, page: WebSocket) -> None:
        await page.accept()
        if self._pages >= MOST_PAGES:
            await page.close(1013, f"{MOST_PAGES} pages are open already")
            return
        self._pages += 1
        listener = asyncio.create_task(_until_gone(page))
        try:
            await self._send_news(page, listener)
        except (WebSocketDisconnect, RuntimeError):  # the page left in the middle of a frame
            pass
        finally:
            self._pages -= 1
            listener.cancel()

    async def _send_news(self, page: WebSocket, listener: asyncio.Task[None]) -> None:
        known: dict[str, int] = {}
        seen = 0
        while not listener.done() and not self._over.is_set():
            began = time.monotonic()
            if self._round != seen:
                known, seen = {}, self._round
                await page.send_bytes(msgspec.json.encode(self._hello()))
            if self._watch is not None and (news := _news(self._watch, known)):
                await page.send_bytes(msgspec.json.encode(news))
            await asyncio.wait([listener], timeout=max(0.0, FRAME_EVERY - (time.monotonic() - began)))

    def _hello(self) -> dict[str, Any]:
        film = self._watch.film if self._watch is not None else None
        return {"hello": {"scene": {"title": film.scene.title, "fixed": film.scene.fixed} if film is not None else None}}


def _news(watch: MeshWatch, known: dict[str, int]) -> dict[str, Any]:
    """The news for a page; ``known`` is updated."""
    with watch.lock:
        fresh = sections(watch.board, known)
        if watch.film is not None and watch.film.version > known.get("scene", 0) and watch.film.latest is not None:
            fresh["scene"] = (watch.film.version, watch.film.latest)
    known |= {name: version for name, (version, _) in fresh.items()}
    news = {name: content for name, (_, content) in fresh.items()}
    return news | {"now": time.time_ns() / 1e6} if news else {}


async def _until_gone(page: WebSocket) -> None:
    """Drop all that a page sends, until it is gone."""
    with suppress(WebSocketDisconnect, RuntimeError, KeyError):
        while (await page.receive())["type"] != "websocket.disconnect":
            pass


class _Guard:
    """Adds to every answer the headers that restrict browsers."""

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS.items()]
            await send(message)

        await self._inner(scope, receive, with_headers)


def _parsed(address: str) -> tuple[str, int]:
    try:
        return host_and_port(address)
    except ValueError:
        raise SlacklineError(f"{address!r} is no address for the page: write HOST:PORT, such as 127.0.0.1:8780") from None


def _bound(host: str, port: int) -> socket.socket:
    try:
        return listening(host, port, 128)
    except OSError as error:
        raise NetworkError(f"the page cannot be served at {host}:{port}: {error.strerror}; give another --bind") from None
