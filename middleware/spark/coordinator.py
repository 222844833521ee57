"""The coordinator of a feed: a thread in the driver that starts all partitions at one moment and keeps them in step."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Thread

import msgspec
import zmq

from middleware.errors import TraceError
from middleware.event import NEVER
from middleware.spark.lockstep import Lockstep

START_LEAD = 200_000_000
"""How long (ns) after the last partition joined the feed starts, so that all know the moment before it comes."""

SIGN_OF_LIFE = 1_000
SILENCE = 30_000
"""Milliseconds after which the coordinator says something anyway, and after which a partition gives it up for dead."""


class Joined(msgspec.Struct, tag=True, array_like=True):
    """A partition is ready; ``following`` is the arrival of its first event."""

    partition: int
    following: int


class Sent(msgspec.Struct, tag=True, array_like=True):
    """What a partition has sent so far: see ``Lockstep.report``."""

    partition: int
    following: int
    last: int
    events: int


class Failed(msgspec.Struct, tag=True, array_like=True):
    """A partition cannot go on."""

    partition: int
    reason: str


class Go(msgspec.Struct, tag=True, array_like=True):
    """The start moment (Unix ns; 0: not yet known), and up to which arrival events may be sent."""

    start: int
    limit: int


class Over(msgspec.Struct, tag=True, array_like=True):
    """The feed is over for all."""

    reason: str


_encode = msgspec.msgpack.Encoder().encode
_decode_question = msgspec.msgpack.Decoder(Joined | Sent | Failed).decode
_decode_answer = msgspec.msgpack.Decoder(Go | Over).decode


class Coordinator:
    """Serves the partitions of one feed while its context is open.

    ``on_start`` is told the start moment (Unix ns) before any partition is; ``on_progress`` how many events were sent and
    up to which arrival all were. Both are called in the coordinator's thread.
    """

    def __init__(
        self, partitions: int, skew: int, on_start: Callable[[int], None], on_progress: Callable[[int, int], None]
    ) -> None:
        self.lockstep = Lockstep(partitions, skew)
        self.attempts = 1
        """How often the partitions began: more than once if Spark lost one and tried again."""
        self.failure: BaseException | None = None
        """What a callback raised."""
        self.reason = ""
        """Why the feed was over before its end, if a partition or a callback failed."""
        self._start = 0
        self._on_start = on_start
        self._on_progress = on_progress
        self._peers: dict[int, bytes] = {}
        self._told: dict[bytes, int] = {}
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        port = self._socket.bind_to_random_port("tcp://127.0.0.1")
        self.address = f"tcp://127.0.0.1:{port}"
        self._stop = self._context.socket(zmq.PAIR)
        self._stop.bind("inproc://stop")
        self._thread = Thread(target=self._serve, name="feed-coordinator", daemon=True)

    def __enter__(self) -> Coordinator:
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._stop.send(b"the feed was stopped" if error is not None else b"the feed is over")
        self._thread.join()
        self._stop.close(0)
        self._context.term()

    def _serve(self) -> None:
        stop = self._context.socket(zmq.PAIR)
        stop.connect("inproc://stop")
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(stop, zmq.POLLIN)
        stopped = False
        while not stopped:
            ready = dict(poller.poll(SIGN_OF_LIFE))
            stopped = stop in ready
            try:
                self._take_all()
            except Exception as error:  # a callback failed: the partitions stop, and the driver raises it
                self.failure = error
                self.reason = self.reason or str(error)
            over = self.reason or (stop.recv().decode() if stopped else "")
            self._answer(over, everyone=not ready)
        stop.close(0)
        self._socket.close(1_000)

    def _take_all(self) -> None:
        """Take every message that is there before answering any."""
        while self._socket.poll(0):
            peer, data = self._socket.recv_multipart()
            try:
                message = _decode_question(data)
            except msgspec.MsgspecError:
                continue  # not from one of ours
            self._take(peer, message)
        if self.lockstep.joined and not self._start:
            start = time.time_ns() + START_LEAD
            self._on_start(start)
            self._start = start
        if self._start:
            self._on_progress(self.lockstep.events, self.lockstep.slowest)

    def _take(self, peer: bytes, message: Joined | Sent | Failed) -> None:
        match message:
            case Joined(partition, following):
                if partition in self._peers:  # Spark lost a partition and started all of them anew
                    self.attempts += 1
                    self.lockstep.restart()
                    self._peers.clear()
                    self._told.clear()
                self._peers[partition] = peer
                self._told[peer] = NEVER
                self.lockstep.report(partition, following)
            case Sent(partition, following, last, events) if self._peers.get(partition) == peer:
                self.lockstep.report(partition, following, last, events)
            case Failed(partition, why):
                self.reason = self.reason or f"partition {partition} failed: {why}"

    def _answer(self, over: str, everyone: bool) -> None:
        """Tell the partitions the limit if it moved, or the reason why all is over."""
        limit = self.lockstep.limit if self._start else NEVER
        data = _encode(Over(over) if over else Go(self._start, limit))
        for peer, told in self._told.items():
            if everyone or over or limit > told:
                self._socket.send_multipart([peer, data])
                self._told[peer] = limit


class Place:
    """A partition's place among the others: asks the coordinator how far it may go. Used as a context manager."""

    def __init__(self, address: str, partition: int) -> None:
        self.waited = 0.0
        """Seconds spent waiting for other partitions."""
        self._partition = partition
        self._go = Go(0, NEVER)
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.connect(address)

    def __enter__(self) -> Place:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is not None:
            self._socket.send(_encode(Failed(self._partition, str(error) or type(error).__name__)))
        self._socket.close(1_000)
        self._context.term()

    def join(self, following: int) -> int:
        """Say that this partition is ready; wait for all others; return the start moment (Unix ns)."""
        self._socket.send(_encode(Joined(self._partition, following)))
        while not self._go.start:
            self._receive(SILENCE)
        return self._go.start

    def report(self, following: int, last: int, events: int) -> None:
        """Say what was sent: see ``Lockstep.report``. Does not wait."""
        self._socket.send(_encode(Sent(self._partition, following, last, events)))

    def limit(self, arrival: int) -> int:
        """How far this partition may go; waits until that is at least ``arrival``."""
        while self._socket.poll(0):
            self._receive(0)
        if self._go.limit < arrival:
            began = time.monotonic()
            while self._go.limit < arrival:
                self._receive(SILENCE)
            self.waited += time.monotonic() - began
        return self._go.limit

    def _receive(self, timeout: int) -> None:
        if not self._socket.poll(timeout):
            raise TraceError(f"partition {self._partition} heard nothing from the driver for {timeout / 1000:g} s: is it dead?")
        answer = _decode_answer(self._socket.recv())
        if isinstance(answer, Over):
            raise TraceError(answer.reason)
        self._go = answer
