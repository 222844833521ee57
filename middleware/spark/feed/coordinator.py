"""The coordinator of a feed: a thread in the driver that takes the encoded frames of partitions, and puts them in order."""

from __future__ import annotations

import time
from collections.abc import Iterator
from queue import SimpleQueue
from socket import gethostname
from threading import Thread

import msgspec
import zmq

from middleware.link.codec import BlockHead
from middleware.model.errors import TraceError
from middleware.recordings.feed.sequencer import Sequencer
from middleware.recordings.feed.trace_rows import FeedFrame
from middleware.runtime.transport.ending import end_context
from middleware.spark.feed.meeting import LOOPBACK, Meeting, opened

AHEAD = 4 * 2**20
"""Bytes that a partition may be ahead of publishing: two or three row groups, so that no partition waits for another one."""

_FRAME_COSTS = 1_024
"""Bytes of a frame besides its events."""

SIGN_OF_LIFE = 1_000
SILENCE = 30_000
"""Milliseconds after which the coordinator sends a sign of life, and after which a partition takes it for dead."""

_PARTING = 1_000
"""Milliseconds in which the last words, why the feed is over, must leave."""


class PartitionReady(msgspec.Struct, tag=True, array_like=True):
    """A partition is ready."""

    partition: int


class SliceFrame(msgspec.Struct, tag=True, array_like=True):
    """A frame of a slice: the heads of its blocks, which follow, and its last arrival. ``ends``: no more follow."""

    slice: int
    position: int
    last: int
    heads: list[BlockHead]
    ends: bool = False


class PartitionFailure(msgspec.Struct, tag=True, array_like=True):
    """A partition cannot continue."""

    partition: int
    reason: str


class SendCredit(msgspec.Struct, tag=True, array_like=True):
    """The slice to begin with (-1: not yet), and the number of bytes that may be sent in all."""

    first: int
    limit: int


class FeedEnd(msgspec.Struct, tag=True, array_like=True):
    """The feed is over for all."""

    reason: str


_encode = msgspec.msgpack.Encoder().encode
_decode_question = msgspec.msgpack.Decoder(PartitionReady | SliceFrame | PartitionFailure).decode
_decode_answer = msgspec.msgpack.Decoder(SendCredit | FeedEnd).decode

_PartitionFrame = tuple[bytes, FeedFrame]
"""A frame, and the partition it came from."""


class Coordinator:
    """Serves the partitions of one feed while its context is open; ``frames`` gives their encoded frames, in order.

    ``address``
        HOST or HOST:PORT under which executors reach this process.
    """

    def __init__(self, partitions: int, slices: int, address: str = LOOPBACK) -> None:
        self.attempts = 1
        """How often the partitions started: more than once if Spark lost one and tried again."""
        self.reason = ""
        """Why the feed ended early, if a partition failed."""
        self._partitions = partitions
        self._sequencer: Sequencer[_PartitionFrame] = Sequencer(slices)
        self._ready: SimpleQueue[_PartitionFrame | None] = SimpleQueue()
        self._peers: dict[int, bytes] = {}
        self._limits: dict[bytes, int] = {}
        self._announced: dict[bytes, int] = {}
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.ROUTER)
        try:
            self.address, self._gatekeeper = opened(self._context, self._socket, address)
        except TraceError:
            self._context.destroy(0)
            raise
        self._taken = self._context.socket(zmq.PAIR)
        self._taken.bind("inproc://taken")
        self._thread = Thread(target=self._serve, name="feed-coordinator", daemon=True)

    def __enter__(self) -> Coordinator:
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._taken.send(b"the feed was stopped" if error is not None else b"the feed is over")
        self._thread.join()
        self._taken.close(0)
        end_context(self._context, 2 * _PARTING / 1_000)

    def frames(self) -> Iterator[FeedFrame]:
        """All frames in arrival order, as they come; fewer if the feed ends early. To be read by one thread."""
        while (given := self._ready.get()) is not None:
            peer, frame = given
            yield frame
            self._taken.send_multipart([peer, _encode(frame.size + _FRAME_COSTS)])

    def is_over(self) -> None:
        """Let ``frames`` end: no more frames come from the partitions. May be called from any thread."""
        self._ready.put(None)

    def _serve(self) -> None:
        taken = self._context.socket(zmq.PAIR)
        taken.connect("inproc://taken")
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(taken, zmq.POLLIN)
        over = ""
        while not over:
            is_quiet = not poller.poll(SIGN_OF_LIFE)
            while self._socket.poll(0):
                self._take(*self._socket.recv_multipart())
            while taken.poll(0) and not over:
                peer, *size = taken.recv_multipart()
                if not size:
                    over = peer.decode()
                elif peer in self._limits:
                    self._limits[peer] += msgspec.msgpack.decode(size[0], type=int)
            self._answer(self.reason or over, everyone=is_quiet)
        taken.close(0)
        if self._gatekeeper is not None:
            self._gatekeeper.stop()
        self._socket.close(_PARTING)

    def _take(self, peer: bytes, data: bytes, *blocks: bytes) -> None:
        try:
            message = _decode_question(data)
        except msgspec.MsgspecError:
            return  # not from one of our partitions
        match message:
            case PartitionReady(partition):
                self._joined(partition, peer)
            case SliceFrame(number, position, last, heads, ends) if peer in self._limits and not self.reason:
                given = None
                if heads:
                    events = sum(head.count for head in heads)
                    given = peer, FeedFrame(list(zip(heads, blocks, strict=True)), events, last)
                self._sequencer.put(number, position, given, ends)
                for each in self._sequencer.ready():
                    self._ready.put(each)
                if self._sequencer.is_over:
                    self.is_over()
            case PartitionFailure(partition, why):
                self.reason = self.reason or f"partition {partition} failed: {why}"
                self.is_over()

    def _joined(self, partition: int, peer: bytes) -> None:
        if partition in self._peers:  # Spark lost a partition and restarted all of them
            self.attempts += 1
            self._sequencer.restart()
            self._peers.clear()
            self._limits.clear()
            self._announced.clear()
        self._peers[partition] = peer
        self._limits[peer], self._announced[peer] = AHEAD, -1

    def _answer(self, over: str, everyone: bool) -> None:
        """Tell the partitions how much they may send, if that is much more than before, or why the feed is over."""
        has_begun = len(self._peers) == self._partitions
        first = self._sequencer.current if has_begun else -1
        for peer, limit in self._limits.items():
            if everyone or over or (has_begun and limit >= self._announced[peer] + AHEAD // 8):
                self._socket.send_multipart([peer, _encode(FeedEnd(over) if over else SendCredit(first, limit))])
                self._announced[peer] = limit if has_begun else -1


class PartitionConnection:
    """A partition's connection to the coordinator: sends it the encoded frames. Used as a context manager."""

    def __init__(self, address: Meeting, partition: int) -> None:
        self.waited = 0.0
        """Seconds spent waiting for permission to send more."""
        self._partition = partition
        self._go = SendCredit(-1, 0)
        self._sent = 0
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._address = address.address
        address.connect(self._socket)

    def __enter__(self) -> PartitionConnection:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is not None:
            self._socket.send(_encode(PartitionFailure(self._partition, str(error) or type(error).__name__)))
        linger = SILENCE if error is None else _PARTING
        self._socket.close(linger)
        end_context(self._context, (linger + _PARTING) / 1_000)

    def join(self) -> int:
        """Report this partition as ready; wait for all others; return the slice with which the feed begins."""
        self._socket.send(_encode(PartitionReady(self._partition)))
        while self._go.first < 0:
            self._receive(SILENCE)
        return self._go.first

    def send(self, piece: SliceFrame, blocks: list[bytes]) -> None:
        """Send the next frame of a slice; waits while too much of this partition is not published yet."""
        began = time.monotonic()
        while self._socket.poll(0) or self._sent >= self._go.limit:
            self._receive(SILENCE)
        self.waited += time.monotonic() - began
        if blocks:
            self._sent += sum(map(len, blocks)) + _FRAME_COSTS
        self._socket.send_multipart([_encode(piece), *blocks])

    def _receive(self, timeout: int) -> None:
        if not self._socket.poll(timeout):
            raise TraceError(
                f"partition {self._partition}, on {gethostname()}, received nothing from the driver at {self._address} for "
                f"{timeout / 1000:g} s: is it dead? If executors reach it by another address, give that one (--advertise HOST)"
            )
        answer = _decode_answer(self._socket.recv())
        if isinstance(answer, FeedEnd):
            raise TraceError(answer.reason)
        self._go = answer
