"""What strangers send to a node's port, and what keys keep out."""

from __future__ import annotations

import socket
import struct
import threading
from pathlib import Path
from typing import Any

import pytest
import zmq
from test_network import DEADLINE, TYPES, Hit, collect, hits, node_thread, poll_until

from middleware.link.codec import MAX_FRAME, BlockHead, Changes, Interest, encode
from middleware.link.frames import VERSION, Data, Hello
from middleware.model.errors import KeyFileError, NetworkError
from middleware.model.event import Event, EventTypes
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.node import Node
from middleware.runtime.transport.framing import frames_of
from middleware.runtime.transport.keys import AllowedKey, KeyPair, Keys, load_allowed, load_keys, new_keys

pytestmark = pytest.mark.system


class Stranger(Event):
    what: str


def drops(node: Node) -> dict[str, int]:
    return node.statistics().drops


def test_malformed_frames_are_counted_and_good_events_survive() -> None:
    bad_record = encode([1.0, "x", float("nan"), 5, "evil", 0])  # ts is no integer
    far_record = encode([1.0, "x", 2**62, 6, "evil", 0])  # ts out of range
    derived = encode([1.0, "x", 1, 7, "evil", 3])  # level of a derived event
    good = encode(hits(0, 1, "evil")[0])
    blocks = [
        (BlockHead("Hit", 4), b"\x94" + bad_record + far_record + derived + good),
        (BlockHead("Stranger", 1), encode([Stranger("?", ts=1, id=1, source="evil")])),
        (BlockHead("Hit", 1), b"\xc1\xff"),
    ]
    payloads = [
        [b"\xff\xfe nonsense"],
        [encode(Interest(1, ["a*b"]))],
        [encode(Changes(None, None, [BlockHead("Hit", 1)]))],  # names a block that does not follow
        [encode([0, 1, {"Hit": 2**63}, []])],  # progress out of range
        [encode(Changes(None, None, [head for head, _ in blocks])), *(data for _, data in blocks)],
        [encode(Changes(None, None, [BlockHead("Hit", 1)])), b"\0" * (MAX_FRAME + 1)],  # the last, as it takes all credit
    ]
    with (
        node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node,
        Subscriber(node.address, Hit) as subscriber,
        zmq.Context() as context,
        context.socket(zmq.DEALER) as evil,
    ):
        subscriber.wait_ready(DEADLINE)
        evil.linger = 0
        evil.connect(node.address)
        evil.send_multipart([b""])
        evil.send_multipart([b"\x00" * 100, b"more"])
        evil.send_multipart([encode(Data(1, 1, 0, 0, b"x"))])  # of a link that was never opened
        evil.send_multipart([encode(Hello(VERSION + 1, "evil", "publisher", 1, 0, 0, 0))])
        evil.send_multipart([encode(Hello(VERSION, "evil", "publisher", 2, 0, 0, 2**60))])
        evil.send_multipart([encode(Data(1, 1, 0, 0, b"of an old epoch"))])
        for number, payload in enumerate(payloads, 1):
            evil.send_multipart(frames_of([encode(Data(2, number, 0, 0, payload[0])), *payload[1:]]))
        evil.send_multipart([encode(Hello(VERSION, "evil", "publisher", 1, 0, 0, 0))])
        assert collect(subscriber, 1) == hits(0, 1, "evil")
        poll_until(lambda: "Hello of an old epoch" in drops(node), "all frames have been looked at")
        assert drops(node) == {
            "malformed frame": 2,
            "frame of an unknown link": 1,
            "other protocol version": 1,
            "malformed payload": 3,
            "malformed subscription": 1,
            "oversized frame": 1,
            "malformed event": 2,
            "level of a derived event": 1,
            "unknown type": 1,
            "malformed block": 1,
            "Hello of an old epoch": 1,
        }
        assert [p.link.old_epoch for p in node.statistics().peers if p.name == "evil"] == [1]


def test_bytes_that_are_not_even_zeromq_do_no_harm() -> None:
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node:
        host, port = node.address.removeprefix("tcp://").split(":")
        for junk in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, struct.pack("!Q", 2**63) * 20):
            with socket.create_connection((host, int(port))) as raw:
                raw.sendall(junk)
        with Subscriber(node.address, Hit) as subscriber, Publisher(node.address) as publisher:
            subscriber.wait_ready(DEADLINE)
            publisher.publish(hits(0, 10))
            assert collect(subscriber, 10) == hits(0, 10)


@pytest.mark.parametrize("address", ["tcp://0.0.0.0:5999", "tcp://*:5999", "tcp://192.0.2.1:5999", "tcp://example.org:5999"])
def test_plaintext_beyond_loopback_is_refused(address: str) -> None:
    with pytest.raises(NetworkError, match="slackline keys new"):
        Node("a", address)
    with pytest.raises(NetworkError, match="slackline keys new"):
        Publisher(address)


@pytest.mark.parametrize("address", ["", "localhost:5", "udp://127.0.0.1:5", "tcp://"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(NetworkError, match="is no address"):
        Node("a", address)


def pair(name: str) -> KeyPair:
    public, secret = zmq.curve_keypair()
    return KeyPair(name, public.decode(), secret.decode())


def allowed(*pairs: KeyPair) -> list[AllowedKey]:
    return [AllowedKey(each.public, each.name) for each in pairs]


def test_only_listed_keys_get_in() -> None:
    server, friend, stranger = pair("a"), pair("friend"), pair("stranger")
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES, keys=Keys(server, allowed(friend))) as node:
        friendly = Keys(friend, allowed(server))
        with (
            Subscriber(node.address, Hit, keys=friendly) as subscriber,
            Publisher(node.address, keys=friendly, node="a") as publisher,
            Publisher(node.address, keys=Keys(stranger, allowed(server)), patience=1.0) as shut_out,
            Publisher(node.address, patience=1.0) as plain,
            Publisher(node.address, keys=Keys(friend, allowed(stranger)), patience=1.0) as deceived,
        ):
            subscriber.wait_ready(DEADLINE)
            for kept_out, why in (
                (shut_out, "its allow-list does not have this key"),
                (plain, "it has keys, and none were given here"),
                (deceived, "its key is not the one that is listed here"),
            ):
                with pytest.raises(NetworkError, match=f"the node at {node.address} rejects this client: {why}"):
                    kept_out.publish(hits(0, 1, "stranger"))
            publisher.publish(hits(0, 10))
            assert collect(subscriber, 10) == hits(0, 10)
            assert {peer.role for peer in node.statistics().peers} == {"publisher", "subscriber"}


def free_address() -> str:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{held.getsockname()[1]}"


def test_keys_for_a_node_that_has_none_are_reported_and_it_is_read_once_it_has_them() -> None:
    server, friend = pair("a"), pair("friend")
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node:
        address = node.address
        with (
            Publisher(address, keys=Keys(friend, allowed(server)), patience=1.0) as publisher,
            pytest.raises(NetworkError, match=r"rejects this client: (it has no keys|its key is not the one .* if it has one)"),
        ):
            publisher.publish(hits(0, 1))
    publisher = Publisher(address, keys=Keys(friend, allowed(server)), patience=DEADLINE)
    with publisher, node_thread("a", address, types=TYPES, keys=Keys(server, allowed(friend))):
        publisher.publish(hits(0, 1))
        assert publisher.flush(DEADLINE).taken == 1
        assert publisher.refusal is None


def test_two_nodes_with_keys_mesh() -> None:
    a, b, address = pair("a"), pair("b"), free_address()
    with (
        node_thread("a", "tcp://127.0.0.1:*", {"b": address}, types=TYPES, keys=Keys(a, allowed(a, b))) as first,
        node_thread("b", address, {"a": first.address}, types=TYPES, keys=Keys(b, allowed(a, b))) as second,
        Subscriber(second.address, Hit, keys=Keys(a, allowed(b))) as subscriber,
        Publisher(first.address, keys=Keys(b, allowed(a))) as publisher,
    ):
        subscriber.wait_ready(DEADLINE)
        publisher.publish(hits(0, 10))
        assert collect(subscriber, 10) == hits(0, 10)


def test_who_is_admitted_cannot_pose_as_another_node() -> None:
    a, b, client, address = pair("a"), pair("b"), pair("client"), free_address()
    with node_thread("a", "tcp://127.0.0.1:*", {"b": address}, types=TYPES, keys=Keys(a, allowed(b, client))) as node:
        imposter = Node("b", "tcp://127.0.0.1:*", {"a": node.address}, types=TYPES, keys=Keys(client, allowed(a)))
        thread = threading.Thread(target=imposter.run)
        thread.start()
        poll_until(lambda: "node with the key of another" in drops(node), "the imposter is refused")
        imposter.stop()
        thread.join()
        stranger = Node("client", "tcp://127.0.0.1:*", {"a": node.address}, types=TYPES, keys=Keys(client, allowed(a)))
        thread = threading.Thread(target=stranger.run)
        thread.start()
        poll_until(lambda: "node that is not configured" in drops(node), "nor is its key that of a node")
        stranger.stop()
        thread.join()
        assert not any(peer.up for peer in node.statistics().peers)
        with node_thread("b", address, {"a": node.address}, types=TYPES, keys=Keys(b, allowed(a))):
            poll_until(lambda: any(peer.up for peer in node.statistics().peers), "the real one is not")


def test_key_files_are_private_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "a.key"
    made = new_keys("a", path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_keys(path) == made
    assert made.secret not in repr(made)
    with pytest.raises(KeyFileError, match="exists"):
        new_keys("a", path)
    path.chmod(0o644)
    with pytest.raises(KeyFileError, match="chmod 600"):
        load_keys(path)
    path.chmod(0o600)
    path.write_text(path.read_text().replace(made.public, pair("b").public))
    with pytest.raises(KeyFileError, match="do not belong together"):
        load_keys(path)
    with pytest.raises(KeyFileError, match="slackline keys new"):
        load_keys(tmp_path / "none.key")


def test_the_allow_list_names_the_line_that_is_wrong(tmp_path: Path) -> None:
    one, two = pair("one"), pair("two")
    path = tmp_path / "allowed"
    path.write_text(f"# who may attach\n\n{one.public} one deploy\n{two.public} two\n")
    keys = Keys(one, load_allowed(path))
    assert keys.entry(one.public) == AllowedKey(one.public, "one", frozenset({"deploy"}))
    assert keys.key_of("two") == two.public
    with pytest.raises(KeyFileError, match="no key of node 'three'"):
        keys.key_of("three")
    for wrong in ("short one", one.public, "x" * 39 + "\\ one"):
        path.write_text(f"{two.public} two\n{wrong}\n")
        with pytest.raises(KeyFileError, match="allowed:2: expected"):
            load_allowed(path)


@pytest.mark.parametrize(
    ("rest", "marks"),
    [("", set()), ("deploy # since May", {"deploy"}), ("# must never deploy code", set()), ("#deploy", set()), ("#", set())],
)
def test_a_comment_behind_an_entry_gives_no_mark(tmp_path: Path, rest: str, marks: set[str]) -> None:
    path = tmp_path / "allowed"
    key = "a#a#a" * 8  # '#' is a digit of keys, though never the first
    path.write_text(f" {key}\tdesk {rest}\n# the end\n#\n#{key} gone\n")
    assert load_allowed(path) == [AllowedKey(key, "desk", frozenset(marks))]


def test_a_mark_that_means_nothing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "allowed"
    path.write_text(f"# who may attach\n{pair('one').public} one deploy depoly\n")
    with pytest.raises(KeyFileError, match="allowed:2: 'depoly' is no flag: deploy is all there is"):
        load_allowed(path)


def test_unknown_pipe_types_pass_through_a_broker_that_knows_none() -> None:
    def stranger(number: int) -> Any:
        return Stranger("?", ts=1, id=number, source="s")

    with node_thread("a", "tcp://127.0.0.1:*") as node, Subscriber(node.address, Stranger) as subscriber:
        subscriber.wait_ready(DEADLINE)
        with Publisher(node.address) as publisher:
            publisher.publish([stranger(1), stranger(2)])
            publisher.publish_encoded("Stranger", encode([stranger(2), stranger(3)]), 2, 1)
            assert collect(subscriber, 3) == [stranger(1), stranger(2), stranger(3)]
            publisher.flush(DEADLINE)
            assert drops(node) == {"duplicate": 1}


def test_a_subscriber_counts_types_it_does_not_know() -> None:
    with (
        node_thread("a", "tcp://127.0.0.1:*") as node,
        Subscriber(node.address, "*", event_types=EventTypes([Hit])) as subscriber,
        Publisher(node.address) as publisher,
    ):
        subscriber.wait_ready(DEADLINE)
        publisher.publish([Stranger("?", ts=1, id=1, source="s"), *hits(0, 1)])
        assert collect(subscriber, 1) == hits(0, 1)
        assert subscriber.statistics().drops == {"unknown type": 1}
