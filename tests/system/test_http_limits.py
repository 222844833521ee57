"""What visitors may do to an HTTP server of ours: send too little, too much, or not read; or be led here by another site."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from slackline_benchmarks.servers import free_port
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from test_network import hits, poll_until
from websockets.sync.client import connect

from middleware.connect.cloudevents import CloudEventsSource
from middleware.connect.messages.source import SourceSpec
from middleware.connect.websocket import WebSocketSink
from middleware.observe.exposition import Exposition
from middleware.observe.view.server import Page
from middleware.runtime.transport import http_server
from middleware.runtime.transport.http_server import HttpServer
from middleware.runtime.transport.listening import Visitors, listening

pytestmark = pytest.mark.system

PATIENCE = 30.0
EVENT = json.dumps({"specversion": "1.0", "id": "1", "source": "/press", "type": "press.hit", "data": {}}).encode()


def head(port: int, *headers: str, host: str = "", line: str = "GET / HTTP/1.1") -> bytes:
    return "\r\n".join([line, f"Host: {host or f'127.0.0.1:{port}'}", *headers, "", ""]).encode()


def post(port: int, length: int, *headers: str, host: str = "") -> bytes:
    kind = "Content-Type: application/cloudevents+json"
    return head(port, kind, f"Content-Length: {length}", *headers, host=host, line="POST / HTTP/1.1")


def dial(port: int, data: bytes) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), PATIENCE)
    connection.sendall(data)
    return connection


def status(connection: socket.socket) -> int:
    """The status of the next answer; 0 if the connection ends without one."""
    with connection:
        try:
            answer = connection.recv(4096)
        except ConnectionResetError:
            return 0
    return int(answer.split(b" ", 2)[1]) if answer else 0


@contextmanager
def serving(**limits: float) -> Iterator[tuple[int, HttpServer]]:
    """A server that answers with the length of what it got."""

    async def application(scope: dict, receive: Callable, send: Callable) -> None:
        request = Request(scope, receive)
        body: Response = PlainTextResponse(str(len(await request.body())))
        await body(scope, receive, send)

    listener = listening("127.0.0.1", 0, 128)
    server = HttpServer(application, listener, Visitors(listener), "test", **limits)  # type: ignore[arg-type]
    port = listener.getsockname()[1]
    server.start()
    with closing(server):
        yield port, server


@contextmanager
def cloud_events(folder: Path) -> Iterator[int]:
    port = free_port()
    with closing(CloudEventsSource(SourceSpec(f"http://127.0.0.1:{port}/", "press", ["press.hit"], folder), timeout=0.0)):
        yield port


@contextmanager
def metrics(folder: Path) -> Iterator[int]:
    with Exposition("127.0.0.1:*") as exposition:
        yield int(exposition.address.rpartition(":")[2])


@contextmanager
def page(folder: Path) -> Iterator[int]:
    with closing(Page("127.0.0.1:0")) as served:
        served.start()
        yield int(served.url.strip("/").rpartition(":")[2])


@contextmanager
def websocket(folder: Path) -> Iterator[int]:
    port = free_port()
    with closing(WebSocketSink(f"ws://127.0.0.1:{port}")):
        yield port


UPGRADE = (
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
)


@pytest.mark.parametrize(
    ("server", "line", "headers", "body", "admitted"),
    [
        (
            cloud_events,
            "POST / HTTP/1.1",
            ("Content-Type: application/cloudevents+json", f"Content-Length: {len(EVENT)}"),
            EVENT,
            503,
        ),
        (metrics, "GET /metrics HTTP/1.1", (), b"", 200),
        (metrics, "GET /healthz HTTP/1.1", (), b"", 200),
        (page, "GET / HTTP/1.1", (), b"", 200),
        (page, "GET /live HTTP/1.1", UPGRADE, b"", 101),
        (websocket, "GET / HTTP/1.1", UPGRADE, b"", 101),
    ],
)
def test_no_site_can_point_its_name_here_nor_have_its_pages_ask(
    server: Callable, line: str, headers: tuple[str, ...], body: bytes, admitted: int, tmp_path: Path
) -> None:
    with server(tmp_path) as port:

        def asked(*more: str, host: str = "") -> int:
            return status(dial(port, head(port, *headers, *more, host=host, line=line) + body))

        assert asked() == admitted
        assert asked(host=f"localhost:{port}") == admitted
        assert asked(f"Origin: http://127.0.0.1:{port}") == admitted
        assert asked(host=f"rebound.example:{port}") == 403
        assert asked(host="127.0.0.1:1") == 403
        assert asked(f"Origin: http://rebound.example:{port}", host=f"rebound.example:{port}") == 403
        assert asked("Origin: https://elsewhere.example") == 403
        assert asked("Origin: null") == 403
        assert asked("Origin: http://[") == 403


def test_a_request_that_does_not_come_to_its_end_is_cut_off() -> None:
    with serving(request_time=0.2) as (port, _):
        for unfinished in (b"", b"GET / HTTP/1.1\r\nHost:"):
            assert status(dial(port, unfinished)) == 0
        assert status(dial(port, post(port, 100) + b"some")) == 408
        with dial(port, post(port, 4) + b"some") as kept:  # one that was answered may stay, but not begin and stop
            answer = b""
            while not answer.endswith(b"\r\n\r\n4"):
                answer += kept.recv(4096)
            assert answer.startswith(b"HTTP/1.1 200")
            kept.sendall(b"GET / HTTP")
            assert kept.recv(4096) == b""
        assert status(dial(port, post(port, 4) + b"some")) == 200


def test_an_answer_that_is_not_read_is_cut_off() -> None:
    over = threading.Event()

    async def endless(scope: dict, receive: Callable, send: Callable) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            while True:
                await send({"type": "http.response.body", "body": b"x" * 2**16, "more_body": True})
                if (await asyncio.wait_for(receive(), 0.001))["type"] == "http.disconnect":
                    return
        except TimeoutError:
            await endless_rest(receive, send)
        finally:
            over.set()

    async def endless_rest(receive: Callable, send: Callable) -> None:
        gone = asyncio.ensure_future(receive())
        while not gone.done():
            await send({"type": "http.response.body", "body": b"x" * 2**16, "more_body": True})
            await asyncio.sleep(0)

    listener = listening("127.0.0.1", 0, 128)
    server = HttpServer(endless, listener, Visitors(listener), "test", request_time=0.2)  # type: ignore[arg-type]
    server.start()
    with closing(server), dial(listener.getsockname()[1], head(listener.getsockname()[1])):
        assert over.wait(PATIENCE)


def test_bodies_are_bounded_each_and_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "MOST_BUFFERED", 2_500)
    with serving(most_body=1_000) as (port, _), ExitStack() as stack:
        assert status(dial(port, post(port, 1_000) + b"x" * 1_000)) == 200
        assert status(dial(port, post(port, 200_000) + b"x" * 200_000)) == 413
        chunked = head(port, "Transfer-Encoding: chunked", line="POST / HTTP/1.1")
        assert status(dial(port, chunked + b"3e9\r\n" + b"x" * 1_001 + b"\r\n0\r\n\r\n")) == 413
        held = [stack.enter_context(dial(port, post(port, 1_000) + b"x" * 900)) for _ in range(2)]
        poll_until(lambda: status(dial(port, post(port, 900) + b"x" * 900)) == 503, "both are held")
        assert status(dial(port, post(port, 100) + b"x" * 100)) == 200
        for each in held:
            each.sendall(b"x" * 100)
            assert status(each) == 200
        assert status(dial(port, post(port, 900) + b"x" * 900)) == 200


def test_who_waits_with_an_unfinished_request_keeps_nobody_out() -> None:
    with serving(most_open=8) as (port, _), ExitStack() as stack:
        idle = [stack.enter_context(dial(port, post(port, 9) if number % 2 else b"GET")) for number in range(30)]
        assert status(dial(port, post(port, 4) + b"some")) == 200
        assert [status(each) for each in idle[:20]] == [0] * 20


def test_a_websocket_output_has_a_limit_of_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("middleware.connect.websocket.MOST_READERS", 4)
    port = free_port()
    with closing(WebSocketSink(f"ws://127.0.0.1:{port}")) as sink, ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(dial(port, b"GET / HTTP/1.1\r\n"))
        readers = [stack.enter_context(connect(f"ws://127.0.0.1:{port}")) for _ in range(4)]
        assert status(dial(port, head(port, *UPGRADE))) == 0, "those that are connected stay"
        sink.take(hits(1, 1))
        assert [json.loads(reader.recv(PATIENCE))["id"] for reader in readers] == [1] * 4


def test_a_websocket_output_ends_though_its_readers_are_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers that neither read nor answer the end are waited for once and together; one that is alive gets the end."""
    port, grace = free_port(), []
    wait = asyncio.wait

    async def noted(tasks: list, *, timeout: float | None = None, **options: object) -> tuple:
        grace.append(timeout)
        return await wait(tasks, timeout=timeout and 0.2, **options)  # type: ignore[call-overload]

    sink = WebSocketSink(f"ws://127.0.0.1:{port}")
    with ExitStack() as stack, connect(f"ws://127.0.0.1:{port}", close_timeout=PATIENCE) as alive:
        dead = [stack.enter_context(dial(port, head(port, *UPGRADE))) for _ in range(60)]
        for each in dead:
            assert each.recv(4096).startswith(b"HTTP/1.1 101")
        sink.take(hits(1, 20, text="x" * 50_000))
        for _ in range(20):
            alive.recv(PATIENCE)
        monkeypatch.setattr("middleware.connect.websocket.asyncio.wait", noted)
        ended = threading.Thread(target=sink.close)
        ended.start()
        ended.join(PATIENCE)
        assert not ended.is_alive()
        assert [each for each in grace if each is not None] == [http_server.GRACE]
        assert not sink._readers
