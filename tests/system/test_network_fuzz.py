"""Fuzzed frames over real sockets into a real node: it stays up, stays small, and good events pass, each once."""

from __future__ import annotations

import os
import pickle
import random
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
import structlog
import zmq
from slackline_torture.fuzz import Fuzzer
from test_network import DEADLINE, TYPES, Hit, NodeProcess, collect, hits, node_thread, poll_until
from test_network_security import allowed, drops, pair

from middleware.link.codec import BlockHead, Changes, Interest, encode
from middleware.link.columnar import pack_columns
from middleware.link.encoding import encode_delta
from middleware.link.frames import VERSION, Data, Hello
from middleware.model.block.block import Block
from middleware.model.change import Delta
from middleware.model.errors import NetworkError
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.transport.keys import Keys

pytestmark = pytest.mark.system

FRAMES = 100_000
CHANNELS = 20
LEAK = 64 * 2**20
"""Bytes by which a node may have grown after all of it: caches and arenas, but not what 100,000 frames hold (100 MB)."""


def blocks() -> list[tuple[BlockHead, bytes]]:
    made = []
    for first in range(0, 1_000, 10):
        made += encode_delta("Hit", Delta(hits(first, 3, "fuzz")), raw=True, runs=[("fuzz", first, first + 2)])
        made += encode_delta("Hit", Delta(hits(first + 3, 2, "fuzz"), [tuple(hits(first, 1, "fuzz") * 2)]))  # type: ignore[list-item]
        columns = Block.from_events(Hit, hits(first + 5, 3, "fuzz"))
        made.append((BlockHead("Hit", 3, raw=True, columns=True), pack_columns(columns.batch)))
    return made


def bombard(address: str, seed: int, count: int) -> None:
    """Send ``count`` fuzzed messages on a connection of their own, without listening."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as evil:
        evil.setsockopt(zmq.SNDTIMEO, round(DEADLINE * 1_000))
        evil.linger = round(DEADLINE * 1_000)
        evil.connect(address)
        for parts in Fuzzer(seed, blocks()).messages(count):
            evil.send_multipart(parts or [b""])


def test_a_hundred_thousand_fuzzed_frames_cost_no_crash_no_leak_and_no_good_event() -> None:
    with NodeProcess("a", "tcp://127.0.0.1:*", echoes=True) as node, Subscriber(node.address, Hit) as subscriber:
        subscriber.wait_ready(DEADLINE)
        process = psutil.Process(node.process.pid)
        with Publisher(node.address, types=[Hit]) as publisher:
            sent = 0
            for channel in range(CHANNELS):
                bombard(node.address, channel, FRAMES // CHANNELS)
                publisher.publish(hits(sent, 50, "good"))
                sent += 50
                if channel == 1:
                    publisher.flush(DEADLINE)
                    before = process.memory_info().rss
            publisher.flush(DEADLINE)
            got = []
            while len(got) < sent:
                got += [event for event in collect(subscriber, 1) if event.source == "good"]
        assert got == hits(0, sent, "good")
        assert node.process.is_alive()
        assert process.memory_info().rss - before < LEAK
        assert process.num_fds() < 200
        process.send_signal(signal.SIGTERM)
        assert node.pipe.poll(DEADLINE)
        counted = node.pipe.recv().drops
        assert sum(counted.values()) > FRAMES / 3, "they were looked at"
        assert counted.keys() >= {"malformed frame", "malformed payload", "malformed block", "malformed event"}


def test_bytes_that_break_off_within_the_handshake_leave_nothing_open() -> None:
    """The greeting of ZeroMQ, then anything, then nothing: thousands of times."""
    greeting = b"\xff" + b"\0" * 8 + b"\x7f\x03\x00NULL" + b"\0" * 48
    rng = random.Random(5)
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node, Subscriber(node.address, Hit) as subscriber:
        subscriber.wait_ready(DEADLINE)
        host, port = node.address.removeprefix("tcp://").split(":")
        process = psutil.Process()
        before = process.num_fds()
        for _ in range(1_000):
            with socket.create_connection((host, int(port))) as raw:
                raw.sendall(greeting[: rng.randrange(70)] + rng.randbytes(rng.randrange(100)))
        with Publisher(node.address) as publisher:
            publisher.publish(hits(0, 10))
            assert collect(subscriber, 10) == hits(0, 10)
        poll_until(lambda: process.num_fds() < before + 10, "all of it is closed again")


def test_without_a_listed_key_nobody_subscribes_reads_or_fills_the_memory() -> None:
    server, friend, stranger = pair("a"), pair("friend"), pair("stranger")
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES, keys=Keys(server, allowed(friend))) as node:
        outside = Keys(stranger, allowed(server))
        process = psutil.Process()
        with (
            Subscriber(node.address, "*", event_types=TYPES, keys=outside, patience=1.0) as nosy,
            Publisher(node.address, keys=Keys(friend, allowed(server))) as publisher,
            zmq.Context() as context,
        ):
            publisher.publish(hits(0, 100))
            publisher.flush(DEADLINE)
            with pytest.raises(NetworkError, match="its allow-list does not have this key"):
                nosy.receive(DEADLINE)
            before = process.memory_info().rss
            for number in range(100):
                with context.socket(zmq.DEALER) as flood:
                    flood.linger = 0
                    flood.setsockopt(zmq.SNDHWM, 4)
                    if number % 2:
                        outside.secure_client(flood, None)
                    flood.connect(node.address)
                    with suppress(zmq.Again):
                        for _ in range(4):
                            flood.send(b"x" * 2**20, zmq.NOBLOCK)
            publisher.publish(hits(100, 100))
            publisher.flush(DEADLINE)
            statistics = node.statistics()
            assert statistics.drops == {} and statistics.events_in == 200, "nothing of it came as far as the broker"
            assert {peer.role for peer in statistics.peers} == {"publisher"}
            assert nosy.link_statistics().frames_in == 0
            assert process.memory_info().rss - before < LEAK


@contextmanager
def bare_socket(keys: Keys, address: str) -> Iterator[zmq.Socket[bytes]]:
    with zmq.Context() as context, context.socket(zmq.DEALER) as bare:
        bare.linger = 0
        keys.secure_client(bare, None)
        bare.connect(address)
        yield bare


class Bomb:
    """What a pickle can do: run code where it is loaded."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.file),)


def test_no_payload_is_ever_run_as_code(tmp_path: Path) -> None:
    bomb = pickle.dumps(Bomb(tmp_path / "boom"))
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node, zmq.Context() as context:  # noqa: SIM117
        with context.socket(zmq.DEALER) as evil:
            evil.linger = 0
            evil.connect(node.address)
            evil.send_multipart([encode(Hello(VERSION, "evil", "publisher", 1, 0, 0, 2**20))])
            evil.send_multipart([bomb])
            evil.send_multipart([encode(Data(1, 1, 0, 0, bomb)), bomb])
            evil.send_multipart([encode(Data(1, 2, 0, 0, encode(Changes(None, None, [BlockHead("Hit", 1)])))), bomb])
            poll_until(lambda: "malformed block" in drops(node), "all of it has been looked at")
            assert drops(node) == {"malformed frame": 1, "malformed payload": 1, "malformed block": 1}
    assert not (tmp_path / "boom").exists()


def test_keys_and_payloads_never_reach_the_logs(capfd: pytest.CaptureFixture[str]) -> None:
    secret = "PAYLOAD-THAT-NOBODY-ELSE-SHOULD-READ"
    server, friend, stranger = pair("a"), pair("friend"), pair("stranger")
    structlog.reset_defaults()  # everything is printed, debugging too
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES, keys=Keys(server, allowed(friend))) as node:
        mine = Keys(friend, allowed(server))
        with (
            Subscriber(node.address, Hit, keys=mine) as subscriber,
            Publisher(node.address, keys=mine) as publisher,
            Publisher(node.address, keys=Keys(stranger, allowed(server)), patience=0.5) as outsider,
        ):
            subscriber.wait_ready(DEADLINE)
            with pytest.raises(NetworkError) as refused:
                outsider.publish(hits(0, 1, text=secret))
            publisher.publish(hits(0, 5, text=secret))
            publisher.publish_encoded("Hit", [encode([secret] * 3), encode([0.5, secret, secret, 1, secret, 0])], 2, 1)
            assert len(collect(subscriber, 5)) == 5
            poll_until(lambda: drops(node).get("malformed event") == 2, "the broken ones were looked at")
        with bare_socket(mine, node.address) as evil:
            evil.send_multipart([encode(Hello(VERSION, "evil", "subscriber", 1, 0, 0, 2**20))])
            evil.send_multipart([encode(Data(1, 1, 0, 0, secret.encode()))])
            evil.send_multipart([encode(Data(1, 2, 0, 0, encode(Interest(1, [f"{secret}*x"]))))])
            poll_until(lambda: "malformed subscription" in drops(node), "the rest, too")
        reasons = [*drops(node), *node.statistics().left]
    captured = capfd.readouterr()
    logs = captured.out + captured.err + str(refused.value) + "".join(reasons)
    assert "node runs" in logs, "logs are looked at"
    for word in (secret, server.secret, friend.secret, stranger.secret, server.public, friend.public, stranger.public):
        assert word not in logs
