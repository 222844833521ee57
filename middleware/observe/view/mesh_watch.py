"""Watches a mesh for the page: a subscriber of results, one of samples, and an inquiry to every node twice a second.

None of them can hold a node up: a slow one is disconnected (``on_slow="disconnect"``) and comes again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

import structlog

from middleware.broker.watermarks.waiting import NodeStatus
from middleware.link.codec import BlockHead, Drops, EventCodec
from middleware.model.errors import NetworkError, SlacklineError
from middleware.model.event import Event, EventTypes
from middleware.observe.view.board import Board
from middleware.observe.view.scene import Film, Scene
from middleware.runtime.clients.inquiry import Inquiry
from middleware.runtime.clients.subscriber import Subscriber
from middleware.runtime.transport.keys import Keys

ASK_EVERY = 0.5
_ANSWER = 2.0
"""A node that does not answer for this many seconds is shown as down."""

_WAIT = 0.1
_AGAIN = 1.0
_SAMPLE_EVERY = 0.04
"""Seconds between two decoded blocks of a type, where samples are enough."""

_log = structlog.get_logger()


class MeshWatch:
    """Keeps a board (and a film) up to date, in threads of its own, until it is closed.

    ``addresses``
        those of the nodes. Results are read from the last node that has them: they reach it from the whole mesh.
    ``names``
        the nodes' names in the allow-list, one per address; required with ``keys``, unless the list has only one.
    ``lock``
        hold it to read the board or the film.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        board: Board,
        types: EventTypes,
        *,
        scene: Scene | None = None,
        keys: Keys | None = None,
        names: Sequence[str] = (),
    ) -> None:
        self.board = board
        self.film = Film(scene) if scene is not None else None
        self.lock = threading.Lock()
        self._keys, self._types = keys, types
        if names and len(names) != len(addresses):
            raise SlacklineError(f"{len(names)} names of nodes are given for {len(addresses)} addresses: give one for each")
        self._names: Sequence[str | None] = names or [None] * len(addresses)
        if keys is not None:
            for name in self._names:
                keys.key_of(name)  # raises an error here, and not in a thread
        self._over = threading.Event()
        tasks: list[Callable[[], None]] = [
            lambda address=address, node=node: self._ask(address, node)  # type: ignore[misc]
            for address, node in zip(addresses, self._names, strict=True)
        ]
        if board.counts:
            tasks.append(lambda: self._again(addresses[-1], list(board.counts), self._results))
        if scene is not None:
            samples = sorted(scene.samples)
            tasks.append(lambda: self._again(addresses[-1], samples, self._samples))
        self._threads = [threading.Thread(target=task, name="view", daemon=True) for task in tasks]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def await_end(self, timeout: float) -> None:
        """Wait until all results are final to the end, or for ``timeout`` seconds."""
        deadline = time.monotonic() + timeout
        while not self.board.has_ended and time.monotonic() < deadline:
            self._over.wait(_WAIT)

    def close(self) -> None:
        """End, and disconnect from the nodes. Takes no longer than a node's answer."""
        self._over.set()
        for thread in self._threads:
            thread.join(_ANSWER + _AGAIN)

    def expose(self) -> None:
        """Take the next frame of the scene, if there is one."""
        with self.lock:
            self._call_view(Film.expose)

    def _call_view(self, what: Callable[[Film], None]) -> None:
        """Call the scenario's view. If it raises, the page says so, and the view is not called again."""
        if self.film is None or self.film.is_torn:
            return
        try:
            what(self.film)
        except Exception as error:  # user code
            self.film.is_torn = True
            self.board.note(f"the scenario's own view has failed, and stands still: {type(error).__name__}: {error}")
            _log.warning("the scenario's own view has failed", raised=type(error).__name__, exc_info=True)

    def _ask(self, address: str, node: str | None) -> None:
        """Ask one node for its status, again and again."""
        while not self._over.is_set():
            try:
                with suppress(NetworkError), Inquiry(address, keys=self._keys, node=node) as inquiry:
                    self._ask_by(inquiry, address)
            except Exception as error:  # such as an answer of another version: shown, since no one awaits this thread
                with self.lock:
                    self.board.note(f"the answer of {address} cannot be shown: {type(error).__name__}: {error}")
                _log.warning("a node's answer cannot be shown", address=address, raised=type(error).__name__, exc_info=True)
            self._over.wait(ASK_EVERY)

    def _ask_by(self, inquiry: Inquiry, address: str) -> None:
        silent = 0
        while not self._over.is_set() and silent < 3:  # a link may hang where a new one would not
            status: NodeStatus | None = None
            with suppress(NetworkError):
                status = inquiry.ask(_ANSWER)
            silent = 0 if status is not None else silent + 1
            with self.lock:
                self.board.take_status(address, status, time.time_ns())
            self._over.wait(ASK_EVERY)

    def _again(self, address: str, patterns: Collection[str], read: Callable[[Subscriber], None]) -> None:
        """Subscribe, and again whenever the node has disconnected it or is gone."""
        while not self._over.is_set():
            try:
                with Subscriber(
                    address,
                    list(patterns),
                    event_types=self._types,
                    on_slow="disconnect",
                    keys=self._keys,
                    node=self._names[-1],
                ) as subscriber:
                    subscriber.logs_waiting = False
                    read(subscriber)
            except NetworkError as error:
                _log.info("the page subscribes again", address=address, why=str(error))
                with self.lock:
                    self.board.interrupted()
            except SlacklineError as error:  # a person has to fix this
                with self.lock:
                    self.board.note(str(error))
            self._over.wait(_AGAIN)

    def _results(self, subscriber: Subscriber) -> None:
        gaps = 0
        while not self._over.is_set():
            batch = subscriber.receive_batch(_WAIT)
            with self.lock:
                if subscriber.gaps > gaps:
                    gaps = subscriber.gaps
                    self.board.interrupted()
                if not (batch.deltas or batch.watermarks):
                    continue
                news = self.board.take(batch, time.time_ns())
                if self.film is not None:
                    self._call_view(lambda film, events=news: film.scene.found(events))  # type: ignore[misc]

    def _samples(self, subscriber: Subscriber) -> None:
        """Decode some blocks a second of each type; the others are dropped undecoded."""
        codec, read_at = EventCodec(self._types), dict[str, float]()
        while not self._over.is_set():
            latest: dict[str, tuple[BlockHead, bytes]] = {}
            for head, block in subscriber.receive_encoded(_WAIT):
                latest[head.type] = (head, block)
            now = time.monotonic()
            due = {name: each for name, each in latest.items() if now - read_at.get(name, 0.0) >= _SAMPLE_EVERY}
            read_at |= dict.fromkeys(due, now)
            events = [event for head, block in due.values() for event in _events(codec, head, block)]
            with self.lock:
                self._call_view(lambda film, seen=events: film.scene.sampled(seen))  # type: ignore[misc]


def _events(codec: EventCodec, head: BlockHead, block: bytes) -> list[Event]:
    delta = codec.decode(head, block, Drops())
    return [*delta.inserts, *(new for _, new in delta.revises)]
