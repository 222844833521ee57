"""What is done to the nodes: each fault lasts a moment, and leaves the world as it found it."""

from __future__ import annotations

import contextlib
import random
import signal
import socket
import struct
import time
from collections.abc import Callable

import msgspec
import zmq
from slackline_torture.application import Digest, Noise
from slackline_torture.fuzz import Fuzzer
from slackline_torture.processes import TorturedMesh

from middleware.link.codec import BlockHead, encode
from middleware.link.encoding import encode_delta
from middleware.model.change import Delta
from middleware.model.errors import NetworkError
from middleware.model.event import END, Event, type_name
from middleware.model.time import SECOND
from middleware.runtime.clients import Publisher

_JUNK = 1_000


class Blow(msgspec.Struct, frozen=True):
    """One fault to be: its name, on what, for how long (s), with a seed of its own."""

    name: str
    target: str
    seconds: float
    seed: int


def _killed(mesh: TorturedMesh, blow: Blow) -> None:
    """kill -9, and a new start on what is on disk."""
    mesh.nodes[blow.target].kill()
    time.sleep(blow.seconds)
    mesh.start(blow.target)


def _stopped(mesh: TorturedMesh, blow: Blow) -> None:
    """SIGSTOP, and SIGCONT."""
    node = mesh.nodes[blow.target]
    node.signal(signal.SIGSTOP)
    try:
        time.sleep(blow.seconds)
    finally:
        node.signal(signal.SIGCONT)


def _cut(mesh: TorturedMesh, blow: Blow) -> None:
    """All connections of a link break, and none can be made."""
    link = mesh.links[blow.target]
    link.cut()
    time.sleep(blow.seconds)
    link.heal()


def _flapping(mesh: TorturedMesh, blow: Blow) -> None:
    """A link breaks again and again."""
    link = mesh.links[blow.target]
    for _ in range(5):
        link.cut()
        link.heal()
        time.sleep(blow.seconds / 5)


def _stalled(mesh: TorturedMesh, blow: Blow) -> None:
    """A link passes nothing, but breaks not."""
    link = mesh.links[blow.target]
    link.stall()
    time.sleep(blow.seconds)
    link.heal()


def _slowed(mesh: TorturedMesh, blow: Blow) -> None:
    """A link passes 20 KB a second."""
    link = mesh.links[blow.target]
    link.slow(20_000)
    time.sleep(blow.seconds)
    link.heal()


def _descriptors(mesh: TorturedMesh, blow: Blow) -> None:
    """A node has no file descriptor left while many connect to it, and its own links break."""
    node = mesh.nodes[blow.target]
    host, _, port = node.address.removeprefix("tcp://").rpartition(":")
    with node.without_descriptors(), contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(socket.create_connection((host, int(port)), timeout=5.0))
        mesh.links["edge to core"].cut()
        mesh.links["edge to core"].heal()
        time.sleep(blow.seconds)


def _disk_full(mesh: TorturedMesh, blow: Blow) -> None:
    """A node cannot write, while it has late events to list and words to log."""
    with mesh.nodes["edge"].without_disk(), mesh.nodes[blow.target].without_disk():
        _lying(mesh, blow)
        time.sleep(blow.seconds)


def _lying(mesh: TorturedMesh, blow: Blow) -> None:
    """A publisher that lies: about the time, about what it promised, about who it is, about what its blocks hold."""
    draw = random.Random(blow.seed)
    source, first = f"liar {blow.seed}", draw.randrange(2**40)
    far = time.time_ns() + 10_000 * SECOND

    def lie(ts: int, number: int) -> Event:
        return Noise("lie", ts=ts, id=first + number, source=source)

    address = mesh.links["publishers to edge"].address
    with contextlib.suppress(NetworkError), Publisher(address, name=source, patience=10.0) as publisher:
        publisher.publish([lie(far, 1), lie(time.time_ns(), 2)])
        publisher.publish_encoded(type_name(Noise), [encode(lie(far, 3))], 1, 5, [(source, first + 3, first + 3)])
        publisher.publish_encoded(type_name(Noise), [encode(lie(6, 4))], 9, 7, [(source, first + 4, first + 12)])
        publisher.publish_encoded(type_name(Noise), encode(["nonsense", {}, 7]), 3, 7)
        publisher.publish_encoded(type_name(Noise), [encode(lie(2**62, 6))], 1, 7)
        publisher.publish_encoded(type_name(Digest), [encode(Digest(7, ts=8, id=first, source=source, level=3))], 1, 8)
        publisher.publish_encoded("torture.Unknown", [encode([1, 2, 3])], 1, 9)
        publisher.advance(Noise, END)
        publisher.publish([lie(time.time_ns(), 5)])
        publisher.retract(lie(far, 1))
        publisher.advance(Digest, 1)  # not its to hold back
        publisher.flush(10.0)


def _junk(mesh: TorturedMesh, blow: Blow) -> None:
    """Fuzzed frames, and bytes that are not even ZeroMQ, at a node's port."""
    node = mesh.nodes[blow.target]
    with zmq.Context() as context, context.socket(zmq.DEALER) as evil:
        evil.linger = 2_000
        evil.setsockopt(zmq.SNDTIMEO, 2_000)
        evil.connect(node.address)
        with contextlib.suppress(zmq.Again):
            for parts in Fuzzer(blow.seed, _noise(blow.seed)).messages(_JUNK):
                evil.send_multipart(parts or [b""])
    host, _, port = node.address.removeprefix("tcp://").rpartition(":")
    for junk in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, struct.pack("!Q", 2**63) * 20):
        with socket.create_connection((host, int(port)), timeout=5.0) as raw, contextlib.suppress(OSError):
            raw.sendall(junk)
    time.sleep(blow.seconds / 4)


def _noise(seed: int) -> list[tuple[BlockHead, bytes]]:
    source = f"fuzz {seed}"
    blocks: list[tuple[BlockHead, bytes]] = []
    for first in range(0, 300, 3):
        events: list[Event] = [Noise("x", ts=1_000 + n, id=n, source=source) for n in range(first, first + 3)]
        blocks += encode_delta(type_name(Noise), Delta(events), raw=True, runs=[(source, first, first + 2)])
        blocks += encode_delta(type_name(Noise), Delta(events[:1], [(events[1], events[1])], [events[2]]))
    return blocks


NODES = ("edge", "core")
LINKS = ("edge to core", "core to edge", "publishers to edge", "subscriber to core")

FAULTS: dict[str, tuple[Callable[[TorturedMesh, Blow], None], tuple[str, ...]]] = {
    "killed": (_killed, NODES),
    "stopped": (_stopped, NODES),
    "cut": (_cut, LINKS),
    "flapping": (_flapping, LINKS),
    "stalled": (_stalled, LINKS),
    "slowed": (_slowed, LINKS),
    "out of descriptors": (_descriptors, NODES),
    "disk full": (_disk_full, NODES),
    "lied to": (_lying, ("edge",)),
    "junk": (_junk, NODES),
}
"""By name: what is done, and to what it can be done."""


def drawn(count: int, seed: int, longest: float) -> list[Blow]:
    """``count`` blows, each fault about equally often, drawn from a seed; none lasts longer than ``longest`` seconds."""
    draw = random.Random(seed)
    names: list[str] = []
    while len(names) < count:
        names += draw.sample(list(FAULTS), len(FAULTS))
    return [
        Blow(name, draw.choice(FAULTS[name][1]), round(draw.uniform(0.2, longest), 2), draw.randrange(2**31))
        for name in names[:count]
    ]


def strike(mesh: TorturedMesh, blow: Blow) -> None:
    """Do it, for as long as it takes."""
    FAULTS[blow.name][0](mesh, blow)
