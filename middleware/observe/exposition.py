"""A node's metrics and health over HTTP: ``/metrics`` for Prometheus, ``/healthz`` and ``/readyz`` for orchestrators.

A thread of its own serves, with an event loop: requests are bounded in size, time and number, so neither junk nor a scraper
that does not read costs the node anything. Only the node's own thread reads its state: it makes a status when asked, at most
once a second.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from types import TracebackType
from typing import Protocol, Self

import structlog
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from middleware.model.errors import ScenarioError
from middleware.model.time import SECOND
from middleware.model.words import redacted
from middleware.observe.metrics import families
from middleware.runtime.status import Status
from middleware.runtime.transport.listening import Visitors, host_and_port, is_loopback, listening, spoken

STALLED_AFTER = 10.0
"""A node whose loop has been in one step for this many seconds is not healthy."""

MOST_OPEN = 32
"""The most open connections; beyond that, the oldest ones are closed."""

TIME = 5.0
"""Seconds for a whole exchange, from the first byte of the request to the last one of the answer."""

_HEAD = 8 * 1024
"""The most bytes in a request."""

_PATIENCE = 2.0
_TEXT = "text/plain; charset=utf-8"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"

_log = structlog.get_logger()

Answer = tuple[int, str, bytes]
"""Status, type and body."""


class ObservedNode(Protocol):
    """The part of a node that is used here; any thread may call it."""

    @property
    def is_stopping(self) -> bool:
        """Whether it is about to end."""
        ...

    @property
    def step_began_at(self) -> float:
        """When its loop last began a step, on the monotonic clock (s)."""
        ...

    def status(self, patience: float) -> Status | None:
        """The node's status."""
        ...


class Exposition(Collector):
    """Serves at ``address`` (HOST:PORT; port ``*``: a free one) until it is closed. Raises ScenarioError if that fails.

    Until ``watch`` is called with a node, the node counts as starting: alive, but not ready. ``still``: see STALLED_AFTER;
    ``patience``: seconds to wait for the node's answer; ``limit``: see TIME.
    """

    def __init__(self, address: str, still: float = STALLED_AFTER, patience: float = _PATIENCE, limit: float = TIME) -> None:
        self._still, self._patience, self._limit = still, patience, limit
        self._listener = _bound(address)
        self._visitors = Visitors(self._listener)
        self.address = spoken(*self._listener.getsockname()[:2])
        self._node: ObservedNode | None = None
        self._rendered: tuple[Status | None, bytes] = None, b""
        self._open: dict[asyncio.Task[None], None] = {}
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
        self._thread.start()
        _log.info("metrics are served", address=self.address)
        if not is_loopback(self._listener):
            _log.warning("whoever reaches this address can read this node's metrics", address=self.address)

    def watch(self, node: ObservedNode) -> None:
        """From now on, serve this node, which has recovered and is about to run."""
        self._node = node

    def close(self) -> None:
        """Stop serving."""
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # -- answers ------------------------------------------------------------------------------------------------------

    def collect(self) -> Iterator[Metric]:
        """The metrics of the status now being rendered."""
        status = self._rendered[0]
        return families(status) if status is not None else iter(())

    def _metrics(self) -> Answer:
        """The metrics, rendered anew only if there is a newer status."""
        status = self._node.status(self._patience) if self._node is not None else None
        if status is None or status is not self._rendered[0]:
            self._rendered = status, b""
            self._rendered = status, generate_latest(self._registry)
        return 200, _METRICS, self._rendered[1]

    def _health(self) -> Answer:
        """Whether the node's loop makes steps; a node that recovers has no loop yet, and is healthy."""
        if self._node is None:
            return _text(200, "starting")
        still = time.monotonic() - self._node.step_began_at
        return _text(200, "ok") if still < self._still else _text(503, f"its loop has been in one step for {still:.0f} s")

    def _readiness(self) -> Answer:
        """Whether the node takes events: it has recovered, knows all nodes of its configuration, and its loop answers."""
        node = self._node
        if node is None:
            return _text(503, "starting: it recovers from its log")
        status = node.status(self._patience)
        if node.is_stopping:
            return _text(503, "it ends")
        if status is None or time.time_ns() - status.vitals.at > self._still * SECOND:
            return _text(503, "its loop does not answer")
        if status.missing:
            return _text(503, f"it waits for nodes: {', '.join(status.missing)}")
        return _text(200, "ready")

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    async def _serve(self) -> None:
        self._rendering = asyncio.Lock()
        server = await asyncio.start_server(self._connected, sock=self._listener, limit=_HEAD)
        await self._over.wait()
        server.close()
        open_ones = asyncio.all_tasks() - {asyncio.current_task()}
        for task in open_ones:
            task.cancel()
        await asyncio.gather(*open_ones, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one exchange, however it ends; no part of it lasts beyond the limit."""
        task = asyncio.current_task()
        assert task is not None
        if len(self._open) >= MOST_OPEN:
            next(iter(self._open)).cancel()
        self._open[task] = None
        try:
            async with asyncio.timeout(self._limit):
                writer.write(await self._answered(await reader.readuntil(b"\r\n\r\n")))
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass
        finally:
            del self._open[task]
            writer.transport.abort()

    async def _answered(self, head: bytes) -> bytes:
        method, path, headers = _asked(head)
        answers: dict[str, Callable[[], Answer]] = {"/metrics": self._metrics, "/readyz": self._readiness}
        if not path:
            code, kind, body = _text(400, "this is no HTTP")
        elif rejection := self._visitors.rejection(headers.get("host", ""), headers.get("origin")):
            code, kind, body = _text(*rejection)
        elif path not in answers and path != "/healthz":
            code, kind, body = _text(404, f"there are /healthz, {', '.join(answers)}")
        elif method not in ("GET", "HEAD"):
            code, kind, body = _text(405, "GET it")
        elif path == "/healthz":
            code, kind, body = self._health()  # never waits
        else:
            async with self._rendering:  # one at a time: the answer is the same for all
                code, kind, body = await asyncio.to_thread(answers[path])
        allow = "Allow: GET, HEAD\r\n" if code == 405 else ""
        header = (
            f"HTTP/1.1 {code} {HTTPStatus(code).phrase}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{allow}"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        return header.encode() + (b"" if method == "HEAD" else body)


def _text(code: int, text: str) -> Answer:
    return code, _TEXT, f"{text}\n".encode()


def _asked(head: bytes) -> tuple[str, str, dict[str, str]]:
    """Method, path and headers of a request; an empty path if the request is invalid."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1.") or not words[1].startswith("/"):
        return "", "", {}
    named = (line.partition(":") for line in lines)
    return words[0], words[1].partition("?")[0], {name.strip().lower(): value.strip() for name, _, value in named}


def _bound(address: str) -> socket.socket:
    try:
        return listening(*host_and_port(address), 4 * MOST_OPEN)
    except ValueError:
        raise ScenarioError(
            f"metrics address {redacted(address)!r}: write HOST:PORT, such as 127.0.0.1:9464 (port *: any free one)"
        ) from None
    except OSError as error:
        raise ScenarioError(
            f"no metrics can be served at {address}: {error.strerror}; give another address (--metrics, or [metrics] address)"
        ) from None
