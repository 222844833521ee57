"""What one peer does to harm a node costs the node, and everyone else, a bounded amount. Each attack is bounded itself."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest
import zmq
from test_network import DEADLINE, TYPES, Hit, collect, hits, node_thread, poll_until

from middleware.link.codec import BlockHead, Interest, encode
from middleware.link.frames import VERSION, Data, Hello, decode_frame
from middleware.model.errors import KeyFileError, NetworkError
from middleware.model.event import Event
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.transport.gatekeeper import MOST_NEW, Arrivals
from middleware.runtime.transport.keys import AllowedKey, KeyPair, Keys, load_allowed, new_keys
from middleware.runtime.transport.zeromq import Transport

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


BUSY = """
import time
from middleware.runtime.transport.zeromq import Transport

transport = Transport()
print(transport.bind("tcp://127.0.0.1:*"), flush=True)
assert transport.poll(60)
print("some have come", flush=True)
time.sleep(2.5)  # busy with something else, for longer than the pause between heartbeats
read = 0
while ready := transport.poll(1):
    read += sum(1 for socket in ready for _ in transport.messages(socket))
print(read)
"""


def test_who_sends_more_than_fits_and_hangs_up_does_not_end_a_node_that_is_busy() -> None:
    count = 5_000
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, text=True) as busy, zmq.Context() as context:
        assert busy.stdout is not None
        with context.socket(zmq.DEALER) as evil:
            evil.linger, evil.sndtimeo = 0, 500
            evil.connect(busy.stdout.readline().strip())
            with suppress(zmq.Again):  # until nothing more fits
                for _ in range(count):
                    evil.send(b"x" * 10_000)
            assert busy.stdout.readline() == "some have come\n"
        read, _ = busy.communicate(timeout=DEADLINE)
    assert busy.returncode == 0
    assert 0 < int(read) <= count


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


def stranger(address: str) -> socket.socket:
    """A connection that greets as ZeroMQ with CURVE does, announces a frame of 16 MiB, and begins to send it."""
    host, port = address.removeprefix("tcp://").split(":")
    found = socket.create_connection((host, int(port)), timeout=DEADLINE)
    greeting = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x01" + b"CURVE".ljust(20, b"\0") + b"\0" + bytes(31)
    with suppress(OSError):
        found.sendall(greeting + b"\x06" + struct.pack("!Q", 16 * MIB))
    return found


def test_frames_before_the_handshake_cost_little(tmp_path: Path) -> None:
    keys = Keys(KeyPair("a", *_curve()), [])
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES, keys=keys) as node, ExitStack() as stack:
        before = resident()
        for _ in range(40):
            connection = stack.enter_context(stranger(node.address))
            with suppress(OSError):  # it has hung up
                connection.sendall(bytes(4 * MIB))
        assert resident() - before < 40 * MIB


def test_one_address_opens_so_many_connections_and_no_more() -> None:
    keys = Keys(KeyPair("a", *_curve()), [])
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES, keys=keys) as node, ExitStack() as stack:
        opened = [stack.enter_context(stranger(node.address)) for _ in range(MOST_NEW + 20)]

        def is_closed(connection: socket.socket) -> bool:
            connection.setblocking(False)
            try:
                while data := connection.recv(4_096):
                    del data
            except BlockingIOError:
                return False
            except OSError:
                return True
            return True

        poll_until(lambda: all(map(is_closed, opened[MOST_NEW:])), "those that are too many are closed")


def test_arrivals_are_counted_by_address_and_forgotten_when_they_leave() -> None:
    arrivals = Arrivals(most_new=3, most_open=5, period=1.0)
    assert [arrivals.is_welcome(fd, "one", 0.0) for fd in range(4)] == [True, True, True, False]
    assert arrivals.is_welcome(9, "two", 0.0)
    assert [arrivals.is_welcome(fd, "one", 2.0) for fd in (4, 5)] == [True, False], "five are open"
    for fd in range(6):
        arrivals.left(fd)
        arrivals.left(fd)
    assert arrivals.is_welcome(0, "one", 2.0)


def _curve() -> tuple[str, str]:
    public, secret = zmq.curve_keypair()
    return public.decode(), secret.decode()


def test_a_revoked_key_is_out_at_once(tmp_path: Path) -> None:
    own, friend, other = (new_keys(name, tmp_path / f"{name}.key") for name in ("a", "friend", "other"))
    listed = tmp_path / "allowed"
    listed.write_text(f"{friend.public} friend\n{other.public} other\n")
    keys = Keys.load(tmp_path / "a.key", listed)
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES, keys=keys) as node:
        client = [AllowedKey(own.public, "a")]
        with (
            Publisher(node.address, keys=Keys(friend, client)) as publisher,
            Publisher(node.address, keys=Keys(other, client)) as revoked,
            Subscriber(node.address, Hit, keys=Keys(friend, client)) as subscriber,
        ):
            subscriber.wait_ready(DEADLINE)
            revoked.publish(hits(0, 10, "other"))
            assert len(collect(subscriber, 10)) == 10
            for number, text in enumerate(("", f"{friend.public} friend\n{other.public[:-1]} other\n"), 1):
                _replace(listed, text)
                node.read_allow_list_again()  # what cannot be read, or lists nobody, changes nothing
                revoked.publish(hits(10 * number, 10, "other"))
                assert len(collect(subscriber, 10)) == 10
            _replace(listed, f"{friend.public} friend\n")
            node.read_allow_list_again()
            poll_until(lambda: revoked.name not in {peer.name for peer in node.statistics().peers}, "it is turned out")
            with pytest.raises(NetworkError, match="not on the allow-list any more"):
                _publish_stored(revoked, hits(30, 1, "other"))
            publisher.publish(hits(0, 10, "friend"))
            assert collect(subscriber, 10) == hits(0, 10, "friend")


def _replace(path: Path, text: str) -> None:
    """As who changes a file that others read should: the node reads it when it comes to it, never half written."""
    (new := path.with_suffix(".new")).write_text(text)
    new.replace(path)


def _publish_stored(publisher: Publisher, events: list[Event]) -> None:
    publisher.publish(events)
    publisher.flush(DEADLINE)


@pytest.mark.parametrize("mode", [0o666, 0o664, 0o646])
def test_an_allow_list_that_others_can_change_is_refused(tmp_path: Path, mode: int) -> None:
    listed = tmp_path / "allowed"
    listed.write_text("")
    listed.chmod(mode)
    with pytest.raises(KeyFileError, match="chmod go-w"):
        load_allowed(listed)


def test_ids_taken_in_advance_are_free_for_their_owner_and_both_are_notified() -> None:
    with (
        node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node,
        Subscriber(node.address, Hit) as reader,
        Publisher(node.address, name="honest") as honest,
        Publisher(node.address, name="evil") as evil,
    ):
        reader.wait_ready(DEADLINE)
        honest.publish(hits(0, 10))
        assert honest.flush(DEADLINE).taken == 10
        evil.publish(hits(10, 50, text="forged"))
        evil.retract(hits(3, 1)[0])
        receipt = evil.flush(DEADLINE)
        assert (receipt.taken, receipt.rejected) == (0, {"source that belongs to another": 51})
        assert receipt.samples[0].details == "source 'ball' belongs to publisher honest"
        honest.publish(hits(10, 50))
        assert honest.flush(DEADLINE).taken == 50
        assert collect(reader, 60) == hits(0, 60)
        assert node.statistics().attempts == {"ball": 51}


def test_a_block_whose_head_lies_goes_through_a_forwarding_node_as_what_it_holds() -> None:
    with (
        node_thread("b", "tcp://127.0.0.1:*") as forwarding,
        Subscriber(forwarding.address, Hit) as reader,
        Publisher(forwarding.address) as evil,
    ):
        reader.wait_ready(DEADLINE)
        evil.publish(hits(1, 3))
        for claimed in (7, 8):
            head = BlockHead("Hit", 1, runs=[("ball", claimed, claimed)], oldest=1_001, newest=1_001)
            evil.publish_blocks([(head, encode(hits(1, 1, text="forged")))])
        evil.publish(hits(7, 2))
        receipt = evil.flush(DEADLINE)
        assert (receipt.taken, receipt.rejected) == (5, {"clash": 2})
        assert collect(reader, 5) == [*hits(1, 3), *hits(7, 2)]
