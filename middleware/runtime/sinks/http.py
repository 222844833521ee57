"""The HTTP sink: posts events at least once, in bodies of bounded size, each within a bounded time."""

from __future__ import annotations

import http.client
import re
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
import xxhash

from middleware.link.codec import SinkPosition
from middleware.model.errors import SinkError, UnreachableError
from middleware.model.event import Event, type_name
from middleware.model.quantities import UNIX_TIMES, exact_time
from middleware.model.words import redacted
from middleware.runtime.json_records import Record, as_record

LARGEST_BODY = 256 * 1024
"""The most bytes in a body with more than one event; endpoints commonly take up to 1 MB."""

Seconds = Annotated[float, msgspec.Meta(gt=0, lt=threading.TIMEOUT_MAX)]
_TOO_LARGE = 413
_FOR_NOW = (408, 425, 429)
"""Refused because it came slowly, early or with too many others."""


class HttpSink:
    """POSTs JSON arrays of events; tries again while the endpoint is down, gives no valid answer, or answers 429, 5xx or alike.

    Events that become final together are cut into bodies of at most ``LARGEST_BODY`` bytes, in order; an event is never cut, so
    a larger one goes alone. An endpoint that finds a body too large (413) gets smaller ones from then on.

    The header ``Idempotency-Key`` is made of the identities in the body: a repeated POST has the same key. After a restart,
    bodies may be cut elsewhere: then the receiver, or the topic of a broker behind it, recognises a repeat by each event's
    (source, id). An endpoint that has moved (3xx) is an error: a redirection may turn a POST into a GET, and the events would
    be lost.

    ``cloudevents``
        whether bodies are batches of CloudEvents 1.0, each with the event as its data.
    ``timeout``
        seconds for each step of connecting, and for all that follows, up to the end of the answer's header.
    ``patience``
        after this many seconds, a body is not tried again.
    """

    position: SinkPosition | None = None

    def __init__(self, url: str, *, timeout: Seconds = 10.0, patience: Seconds = 60.0, cloudevents: bool = False) -> None:
        if "@" in re.split("[/?#]", url.partition("://")[2], maxsplit=1)[0]:  # a query may have one
            raise SinkError("an HTTP address cannot have a user and a password: they would stand in logs and messages")
        if not _is_http(url):
            raise SinkError(f"{redacted(url)!r} is no HTTP address: give one such as http://127.0.0.1:8080/results")
        self._url, self._timeout, self._patience = url, timeout, patience
        self._largest = LARGEST_BODY
        self._form = as_cloud_event if cloudevents else as_record
        self._content = "application/cloudevents-batch+json" if cloudevents else "application/json"

    def take(self, events: Sequence[Event]) -> None:
        """See middleware.runtime.sinks.sink.Sink."""
        records = [msgspec.json.encode(self._form(event)) for event in events]
        start = 0
        while start < len(events):
            end = self._end_of_body(records, start)
            body = b"[" + b",".join(records[start:end]) + b"]"
            if self._is_taken(events[start:end], body):
                start = end
            elif end - start > 1:
                self._largest = len(body) // 2
            else:
                which, size_text = events[start], f"{len(body):,} bytes"
                raise SinkError(
                    f"{redacted(self._url)} refuses the event {type_name(which.__class__)} ({which.source!r}, {which.id}) "
                    f"of {size_text} as too large ({_TOO_LARGE}): let the endpoint take bodies of that size"
                )

    def _end_of_body(self, records: list[bytes], start: int) -> int:
        """The index after the last record that fits into one body with the first; O(records in the body)."""
        size, end = len(records[start]) + 2, start + 1
        while end < len(records) and (size := size + len(records[end]) + 1) <= self._largest:
            end += 1
        return end

    def _is_taken(self, events: Sequence[Event], body: bytes) -> bool:
        """Whether the endpoint took a body; False if it is too large. Raises SinkError, UnreachableError if it is too late."""
        identities = msgspec.msgpack.encode([(event.source, event.id) for event in events])
        headers = {"Content-Type": self._content, "Idempotency-Key": xxhash.xxh3_128_hexdigest(identities)}
        request = urllib.request.Request(self._url, body, headers)
        deadline, pause = time.monotonic() + self._patience, 0.05
        while isinstance(answer := self._post(request), str):
            if time.monotonic() + pause > deadline:
                raise UnreachableError(
                    f"{redacted(self._url)} has not taken {len(events)} events within {self._patience:.0f} s: {answer}"
                )
            time.sleep(pause)
            pause = min(2 * pause, 5.0)
        return answer

    def _post(self, request: urllib.request.Request) -> bool | str:
        """True if the endpoint took it, False if it is too large, or why to try later. Raises SinkError if that is useless."""
        with _Watch(self._timeout) as watch:
            opener = urllib.request.build_opener(_NoRedirection, _Watched(watch))
            try:
                opener.open(request, timeout=self._timeout).close()
            except urllib.error.HTTPError as error:
                error.close()
                if not watch.is_over:
                    return self._answered(error)
            except http.client.HTTPException as error:  # such as an answer of a proxy, or of a TLS port: the next may be valid
                if not watch.is_over:
                    return f"its answer is no HTTP: {str(error).strip() or type(error).__name__}"
            except OSError as error:
                if not watch.is_over:
                    return str(error)
            # an answer that was cut off when its time was up may look complete
            return f"it has not answered within {self._timeout:g} s" if watch.is_over else True

    def _answered(self, error: urllib.error.HTTPError) -> bool | str:
        if 300 <= error.code < 400:
            there = error.headers.get("Location")
            moved = f"give the address that it names: {redacted(there)}" if there else "give the address where events are taken"
            raise SinkError(f"{redacted(self._url)} answers {error.code} {error.reason}, and has not taken the events; {moved}")
        if error.code == _TOO_LARGE:
            return False
        if error.code not in _FOR_NOW and error.code < 500:
            raise SinkError(f"{redacted(self._url)} refuses the events: {error.code} {error.reason}")
        return f"{error.code} {error.reason}"

    def close(self) -> None:
        """See middleware.runtime.sinks.sink.Sink."""


class _Watch:
    """Cuts a connection off when its time is up. A socket's own timeout bounds the wait for each byte, not for all of them."""

    def __init__(self, seconds: float) -> None:
        self.is_over = False
        self._socket: socket.socket | None = None
        self._timer = threading.Timer(seconds, self._cut_off)
        self._timer.daemon = True

    def begin(self, connected: socket.socket) -> None:
        """Start the time. It watches a duplicate: the original may be closed, and its descriptor number reused."""
        self._socket = socket.socket(fileno=socket.dup(connected.fileno()))
        self._timer.start()

    def _cut_off(self) -> None:
        self.is_over = True
        if self._socket is not None:
            with suppress(OSError):  # the other side was faster
                self._socket.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> _Watch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._socket is not None:
            self._timer.cancel()
            self._timer.join()
            self._socket.close()


class _Connection(http.client.HTTPConnection):
    def __init__(self, host: str, *, watch: _Watch, **options: Any) -> None:
        super().__init__(host, **options)
        self._watch = watch

    def connect(self) -> None:
        super().connect()
        self._watch.begin(self.sock)


class _TlsConnection(_Connection, http.client.HTTPSConnection):
    pass


class _Watched(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    def __init__(self, watch: _Watch) -> None:
        super().__init__()
        self._watch = watch

    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(partial(_Connection, watch=self._watch), request)

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(partial(_TlsConnection, watch=self._watch), request)


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Follow no redirection; the answer is an error then."""


def as_cloud_event(event: Event) -> Record:
    """An event as a CloudEvent: its identity as attributes, and its time, if that is a date of our time; all of it as data."""
    attributes = {"specversion": "1.0", "id": str(event.id), "source": event.source or "slackline"}
    when = {"time": exact_time(event.ts)} if event.ts in UNIX_TIMES else {}
    return {**attributes, "type": type_name(event.__class__), **when, "data": as_record(event)}


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port  # raises ValueError if it is not a number
    except ValueError:
        return False
    sound = url.isascii() and url.isprintable() and " " not in url
    return sound and parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0
