"""Benchmarks of HTTP, both ways: batches of a hundred CloudEvents, over connections that stay; and of WebSocket, out."""

from __future__ import annotations

import asyncio
import http.client
import http.server
import multiprocessing as mp
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from slackline_benchmarks.connectors import Fields, fed, messages, row, taken
from slackline_benchmarks.servers import free_port, until
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from websockets.asyncio.server import Server, ServerConnection, broadcast, serve
from websockets.sync.client import connect

from middleware.connect.messages.source import Source, SourceSpec
from middleware.model.event import Event
from middleware.runtime.json_records import as_record
from middleware.runtime.sinks.sink import open_sink

_EVENTS, _A_POST, _SENDERS = 20_000, 100, 16
_JSON = {"Content-Type": "application/cloudevents-batch+json"}


def bench_http(rounds: int, folder: Path) -> list[dict[str, Any]]:
    """In: beside the same server framework that decodes the events and answers. Out: beside the library's client."""
    from middleware.connect.cloudevents import CloudEventsSource

    def ours_in(number: int) -> float:
        address = f"http://127.0.0.1:{free_port()}/in"

        def make() -> Source:
            return CloudEventsSource(SourceSpec(address, f"in{number}", ["places"], folder / f"in{number}"))

        with _beside(_post, address):
            return fed(make, "places", folder, _EVENTS)

    def alone_in(_: int) -> float:
        return _served(msgspec.json.Decoder(list[_Event]).decode)

    with _beside(_receive) as receiver:
        port = int(receiver.recv())

        def ours_out(_: int) -> float:
            with closing(open_sink(f"http://127.0.0.1:{port}/", cloudevents=True)) as sink:
                return taken(sink.take, _EVENTS)

        def alone_out(_: int) -> float:
            with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:

                def take(events: list[Event]) -> None:
                    body = msgspec.json.encode([_cloud_event(event) for event in events])
                    connection.request("POST", "/", body, _JSON)
                    connection.getresponse().read()

                return taken(take, _EVENTS)

        out = row("connect.http.out", rounds, _EVENTS, ours_out, alone_out)
    return [row("connect.http.in", rounds, _EVENTS, ours_in, alone_in), out]


def bench_websocket(rounds: int, folder: Path) -> list[dict[str, Any]]:
    """Out, until one reader has all: beside the same server library, which sends a message for each event."""

    def read_by_one(port: int, take: Callable[[list[Event]], None]) -> float:
        with _beside(_listen, f"ws://127.0.0.1:{port}") as reader:
            reader.recv()  # it is there
            start = time.perf_counter()
            taken(take, _EVENTS)
            reader.recv()  # it has all
            return time.perf_counter() - start

    def ours(_: int) -> float:
        port = free_port()
        with closing(open_sink(f"ws://127.0.0.1:{port}")) as sink:
            return read_by_one(port, sink.take)

    def alone(_: int) -> float:
        port, readers = free_port(), list[ServerConnection]()

        async def read(reader: ServerConnection) -> None:
            readers.append(reader)
            await reader.wait_closed()

        async def send(events: list[Event]) -> None:
            for event in events:
                broadcast(readers, msgspec.json.encode(as_record(event)).decode())

        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        server = asyncio.run_coroutine_threadsafe(_begun(read, port), loop).result()
        spent = read_by_one(port, lambda events: asyncio.run_coroutine_threadsafe(send(events), loop).result())
        loop.call_soon_threadsafe(server.close)
        asyncio.run_coroutine_threadsafe(server.wait_closed(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        return spent

    return [row("connect.websocket.out", rounds, _EVENTS, ours, alone)]


async def _begun(read: Callable[[ServerConnection], Awaitable[None]], port: int) -> Server:
    return await serve(read, "127.0.0.1", port, compression=None)


def _listen(pipe: Connection, url: str) -> None:
    """Connects, says so, and says when it has as many messages as there are events."""
    with connect(url, compression=None) as connection:
        pipe.send("connected")
        for _ in range(_EVENTS):
            connection.recv()
        pipe.send("all")


class _Event(msgspec.Struct):
    """What a program without Slackline would decode."""

    specversion: str
    id: str
    source: str
    type: str
    data: Fields


def _cloud_event(event: Event) -> dict[str, Any]:
    """What a program without Slackline would send."""
    when = datetime.fromtimestamp(event.ts / 1e9, UTC)
    head = {"specversion": "1.0", "id": str(event.id), "source": event.source, "type": "Place", "time": when}
    return head | {"data": as_record(event)}


def _served(decode: Callable[[bytes], list[_Event]]) -> float:
    """Seconds from the first request until all events have come."""
    times: list[float] = []
    left = _EVENTS

    async def post(request: Request) -> Response:
        nonlocal left
        times[:] = times or [time.perf_counter()]
        left -= len(decode(await request.body()))
        return Response(status_code=204)

    port = free_port()
    application = Starlette(routes=[Route("/in", post, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(application, port=port, log_level="warning", access_log=False, lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    with _beside(_post, f"http://127.0.0.1:{port}/in"):
        until(lambda: left <= 0, "all events")
        spent = time.perf_counter() - times[0]
    server.should_exit = True
    thread.join()
    return spent


@contextmanager
def _beside(work: Callable[..., None], *arguments: str) -> Iterator[Connection]:
    """A process of its own that does this, as it would be."""
    context = mp.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=[theirs, *arguments], daemon=True)
    process.start()
    try:
        yield ours
    finally:
        process.terminate()
        process.join()


def _post(pipe: Connection, address: str) -> None:
    """Posts all events, over some connections at once; what is not taken is posted again."""
    host, _, path = address.removeprefix("http://").partition("/")
    head = {"specversion": "1.0", "source": "/bench", "type": "places"}
    events = [{**head, "id": str(number), "data": msgspec.Raw(body)} for number, body in enumerate(messages(_EVENTS))]
    bodies = [msgspec.json.encode(events[at : at + _A_POST]) for at in range(0, _EVENTS, _A_POST)]

    def send(mine: list[bytes]) -> None:
        connection = http.client.HTTPConnection(host)
        for body in mine:
            while not answered(connection, body):
                time.sleep(0.05)

    def answered(connection: http.client.HTTPConnection, body: bytes) -> bool:
        try:
            connection.request("POST", f"/{path}", body, _JSON)
            answer = connection.getresponse()
            answer.read()
            return answer.status == 204
        except (OSError, http.client.HTTPException):
            connection.close()
            return False

    pipe.send("ready")
    threads = [threading.Thread(target=send, args=[bodies[first::_SENDERS]]) for first in range(_SENDERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _receive(pipe: Connection) -> None:
    """Takes whatever is posted."""

    class Taker(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Taker)
    pipe.send(server.server_address[1])
    server.serve_forever()
