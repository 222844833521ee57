"""The sink that is an HTTP endpoint: at least once, under a key that is the same for the same events."""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec
import xxhash

from middleware.errors import SinkError
from middleware.event import Event
from middleware.pubsub.codec import Mark
from middleware.runtime.records import as_record


class HttpSink:
    """POSTs JSON arrays of events; tries again while the endpoint is away, gives no sound answer, or answers 429 or 5xx.

    The header ``Idempotency-Key`` is made of the identities in the batch: the same events come under the same key. Each
    event carries (source, id), by which a receiver, or the topic of a broker behind it, recognises what it has. An endpoint
    that has moved (3xx) is an error: a redirection may turn a POST into a GET, and then nobody has the events.
    """

    mark: Mark | None = None

    def __init__(self, url: str, *, timeout: float = 10.0, patience: float = 60.0) -> None:
        if not _is_http(url):
            raise SinkError(f"{url!r} is no HTTP address: give one such as http://127.0.0.1:8080/results")
        self._url, self._timeout, self._patience = url, timeout, patience
        self._opener = urllib.request.build_opener(_NoRedirection)

    def take(self, events: Sequence[Event]) -> None:
        """See middleware.runtime.sinks.Sink."""
        identities = msgspec.msgpack.encode([(event.source, event.id) for event in events])
        request = urllib.request.Request(
            self._url,
            msgspec.json.encode([as_record(event) for event in events]),
            {"Content-Type": "application/json", "Idempotency-Key": xxhash.xxh3_128_hexdigest(identities)},
        )
        deadline, pause = time.monotonic() + self._patience, 0.05
        while (why := self._post(request)) is not None:
            if time.monotonic() + pause > deadline:
                raise SinkError(f"{self._url} has not taken {len(events)} events within {self._patience:.0f} s: {why}")
            time.sleep(pause)
            pause = min(2 * pause, 5.0)

    def _post(self, request: urllib.request.Request) -> str | None:
        """None if the endpoint took it, or why it may later. Raises SinkError if it never will."""
        try:
            with self._opener.open(request, timeout=self._timeout):
                return None
        except urllib.error.HTTPError as error:
            error.close()
            if 300 <= error.code < 400:
                there = error.headers.get("Location")
                moved = f"give the address that it names: {there}" if there else "give the address where events are taken"
                raise SinkError(
                    f"{self._url} answers {error.code} {error.reason}, and has not taken the events; {moved}"
                ) from None
            if error.code != 429 and error.code < 500:
                raise SinkError(f"{self._url} refuses the events: {error.code} {error.reason}") from None
            return f"{error.code} {error.reason}"
        except http.client.HTTPException as error:  # such as a proxy's, or a TLS port's: it may be another's the next time
            return f"its answer is no HTTP: {str(error).strip() or type(error).__name__}"
        except OSError as error:
            return str(error)

    def close(self) -> None:
        """See middleware.runtime.sinks.Sink."""


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follow none; the answer is an error then."""


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port  # raises ValueError if it is no number
    except ValueError:
        return False
    sound = url.isascii() and url.isprintable() and " " not in url
    return sound and parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0
