"""What one peer does to harm a node costs the node, and everyone else, a bounded amount. Each attack is bounded itself."""

from __future__ import annotations

import psutil
import pytest
import zmq
from test_network import DEADLINE, TYPES, Hit, collect, hits, node_thread, poll_until

from middleware.pubsub.codec import Interest, encode
from middleware.pubsub.wire import VERSION, Data, Hello, decode_frame
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.zeromq import Transport

pytestmark = pytest.mark.system

MIB = 2**20


def resident() -> int:
    return int(psutil.Process().memory_info().rss)


def hello(epoch: int = 0) -> bytes:
    return encode(Hello(VERSION, "evil", "subscriber", 1, epoch, 0, 2**40))


def test_hello_again_and_again_from_one_that_reads_nothing() -> None:
    with (
        node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node,
        Subscriber(node.address, Hit) as honest,
        Publisher(node.address) as publisher,
        zmq.Context() as context,
        context.socket(zmq.DEALER) as evil,
    ):
        honest.wait_ready(DEADLINE)
        evil.setsockopt(zmq.RCVHWM, 1)
        evil.setsockopt(zmq.RCVBUF, 4_096)
        evil.linger = 0
        evil.connect(node.address)
        evil.send(hello())
        epoch = decode_frame(evil.recv_multipart()[0]).epoch  # type: ignore[union-attr]
        evil.send(hello(epoch))
        evil.send(encode(Data(1, 1, 0, 2**40, encode(Interest(1, ["Hit"])))))
        poll_until(lambda: "evil" in {peer.name for peer in node.statistics().peers}, "it is attached")
        for at in range(0, 2_000, 20):  # less than is sent unacknowledged: it is let have all of it
            publisher.publish(hits(at, 20, text="x" * 500))
            publisher.flush(DEADLINE)
        assert len(collect(honest, 2_000)) == 2_000
        before = resident()
        for _ in range(500):
            evil.send(hello(epoch))
        publisher.publish(hits(2_000, 10))
        assert collect(honest, 10) == hits(2_000, 10)
        resent = [peer.link.resent for peer in node.statistics().peers if peer.name == "evil"]
    assert resident() - before < 50 * MIB
    assert sum(resent) <= 7 * 101, "frames sent again"


def test_what_waits_for_one_connection_is_bounded() -> None:
    transport = Transport()
    try:
        address = transport.bind("tcp://127.0.0.1:*")
        with zmq.Context() as context, context.socket(zmq.DEALER) as evil:
            evil.setsockopt(zmq.RCVHWM, 1)
            evil.setsockopt(zmq.RCVBUF, 4_096)
            evil.linger = 0
            evil.connect(address)
            evil.send(b"hello")
            (socket,) = transport.poll(DEADLINE)
            ((channel, _),) = transport.messages(socket)
            taken = [transport.send(channel, [bytes(4_096)]) for _ in range(30_000)]
    finally:
        transport.close()
    assert taken[0]
    assert not taken[-1], "what nobody reads is put into the pipe without end"
