"""CloudEvents over HTTP as a source: a POST is answered once its events are stored."""

from __future__ import annotations

import asyncio
import base64
import binascii
import queue
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec
import xxhash
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from middleware.connect.addresses import host_and_port
from middleware.connect.messages.numbering import Numbering
from middleware.connect.messages.reading import moment
from middleware.connect.messages.source import Messages, SourceSpec
from middleware.model.errors import SourceError, UnreachableError
from middleware.model.words import redacted
from middleware.runtime.sinks.http import Seconds
from middleware.runtime.transport.http_server import HttpServer
from middleware.runtime.transport.listening import LOOPBACK, Visitors, listening

_BATCH, _SINGLE = "application/cloudevents-batch+json", "application/cloudevents+json"
_MOST_WAITING = 1_000


_Text = Annotated[str, msgspec.Meta(min_length=1)]


class _CloudEvent(msgspec.Struct, gc=False):
    """The attributes that count here; others, and extensions, may be there."""

    specversion: Literal["1.0"]
    id: _Text
    source: _Text
    type: _Text
    time: str | None = None
    data: msgspec.Raw = msgspec.Raw(b"null")
    data_base64: str | None = None


_BATCHES = msgspec.json.Decoder(list[_CloudEvent]).decode


class _Posted(NamedTuple):
    """The events of a request by columns, and what its sender waits for: None once they are stored, else why not."""

    topics: list[str]
    bodies: list[bytes]
    keys: list[tuple[bytes, bool]]
    times: list[int | None]
    answer: asyncio.Future[str | None]


class CloudEventsSource:
    """Listens at http://HOST:PORT/PATH. Takes single CloudEvents 1.0 (binary and structured) and batches, with JSON data.

    204: all events are stored; one whose data are no event is listed in the late ledger, with the reason. 400: the request is
    no CloudEvent. 503: it may not have been stored in time; send it again. A repeat is known by the event's source and id.

    ``token``
        what senders must give (Authorization: Bearer TOKEN); needed beyond this machine.
    ``most_bytes``
        of a request. ``timeout``: seconds for an answer.
    """

    def __init__(self, spec: SourceSpec, *, token: str | None = None, most_bytes: int = 2**20, timeout: Seconds = 30.0) -> None:
        address = spec.address
        host, port = host_and_port(address, 80, "127.0.0.1")
        if host not in LOOPBACK and not token:
            raise SourceError(f"{redacted(address)} can be reached from other machines: give a token, or listen at 127.0.0.1")
        self._timeout = timeout
        self._waiting: queue.Queue[_Posted] = queue.Queue(_MOST_WAITING)
        self._taken: list[_Posted] = []
        try:
            listener = listening(host, port, 128)
        except OSError as error:
            raise UnreachableError(f"{redacted(address)} cannot be listened at: {error.strerror}") from None
        self._numbering = Numbering(spec.folder / "numbers.sqlite")
        self._source = f"http:{spec.name}:{self._numbering.line}"
        application = Starlette(routes=[Route(unquote(urlsplit(address).path) or "/", self._post, methods=["POST"])])
        self._server = HttpServer(application, listener, Visitors(listener, token), f"http {spec.name}", most_body=most_bytes)
        self._server.start()

    async def _post(self, request: Request) -> Response:
        body = await request.body()
        answer: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        try:
            posted = _read(request, body, answer)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            return PlainTextResponse(f"this is no CloudEvent: {error}", 400)
        try:
            self._waiting.put_nowait(posted)
            async with asyncio.timeout(self._timeout):
                refused = await answer
        except (queue.Full, TimeoutError):
            refused = "it is not stored yet"
        if refused is not None:
            return PlainTextResponse(f"{refused}: send it again", 503, {"Retry-After": "1"})
        return Response(status_code=204)

    def receive(self, timeout: float) -> Messages:
        """See Source."""
        if not self._server.is_alive:
            raise UnreachableError("the HTTP server has ended")
        came: list[_Posted] = []
        with suppress(queue.Empty):
            came.append(self._waiting.get(timeout=timeout) if timeout else self._waiting.get_nowait())
            while True:
                came.append(self._waiting.get_nowait())
        self._taken += came
        self._answer([posted for posted in came if not posted.keys], None)
        numbered = self._numbering.numbers([key for posted in came for key in posted.keys], time.time_ns())
        times = [own_time for posted in came for own_time in posted.times]
        return Messages(
            [topic for posted in came for topic in posted.topics],
            [body for posted in came for body in posted.bodies],
            [self._source] * len(times),
            [number for number, _ in numbered],
            [at if own_time is None else own_time for own_time, (_, at) in zip(times, numbered, strict=True)],
            [posted for posted in came for _ in posted.keys],
        )

    def acknowledge(self, messages: Messages) -> None:
        """See Source."""
        self._answer(list({id(posted): posted for posted in messages.handles}.values()), None)

    def _answer(self, posted: Sequence[_Posted], refused: str | None) -> None:
        done = {id(each) for each in posted}
        self._taken = [each for each in self._taken if id(each) not in done]

        def settle() -> None:
            for each in posted:
                if not each.answer.done():
                    each.answer.set_result(refused)

        if posted and self._server.loop is not None:
            with suppress(RuntimeError):  # the loop has ended, and all who waited have
                self._server.loop.call_soon_threadsafe(settle)

    def close(self) -> None:
        """See Source."""
        with suppress(queue.Empty):
            while True:
                self._taken.append(self._waiting.get_nowait())
        self._answer(self._taken, "it may not be stored")
        self._server.close()
        self._numbering.close()


def _read(request: Request, body: bytes, answer: asyncio.Future[str | None]) -> _Posted:
    """The events of a request. Raises ValueError, MsgspecError."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == _BATCH:
        events = _BATCHES(body)
    elif kind == _SINGLE:
        events = [msgspec.json.decode(body, type=_CloudEvent)]
    else:
        given: dict[str, Any] = {key[3:]: unquote(value) for key, value in request.headers.items() if key.startswith("ce-")}
        event = msgspec.convert({key: given[key] for key in given if key not in ("data", "data_base64")}, _CloudEvent)
        event.data = msgspec.Raw(body)
        events = [event]
    try:
        bodies = [bytes(e.data) if e.data_base64 is None else base64.b64decode(e.data_base64, validate=True) for e in events]
    except binascii.Error:
        raise ValueError("its data_base64 is none") from None
    return _Posted(
        [event.type for event in events],
        bodies,
        [(xxhash.xxh3_128_digest(msgspec.json.encode((event.source, event.id))), True) for event in events],
        [None if event.time is None else moment(event.time) for event in events],
        answer,
    )
