"""Nodes and clients in real processes, over real sockets: the happy ways, and those with a kill in them."""

from __future__ import annotations

import contextlib
import multiprocessing as mp
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection as Pipe
from typing import Any

import pytest

from middleware.link.codec import encode
from middleware.model.change import Batch, Delta, Insert, Retract, Revise, Watermark
from middleware.model.errors import EventError, NetworkError
from middleware.model.event import END, ORDER, Event, EventTypes
from middleware.model.time import SECOND
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.node import Node

pytestmark = pytest.mark.system

DEADLINE = 30.0


class Hit(Event):
    peak: float
    text: str = ""


class Echo(Event):
    peak: float


class Other(Event):
    text: str = ""


TYPES = EventTypes([Hit, Echo, Other])


class Echoes:
    """Stands for a node's detectors: one Echo for each Hit."""

    subscriptions = frozenset({"Hit"})
    publications = frozenset({"Echo"})

    @property
    def derivations(self) -> dict[str, frozenset[str]]:
        return {"Hit": self.publications}

    def process(self, batch: Batch) -> list[Batch]:
        hits = batch.deltas.get("Hit", Delta())
        echoes = Delta([Echo(e.peak, ts=e.ts, id=e.id, source="echoes", level=1) for e in hits.inserts])
        watermarks = {"Echo": batch.watermarks["Hit"]} if "Hit" in batch.watermarks else {}
        return [Batch({"Echo": echoes} if echoes else {}, watermarks, batch.clock)]

    def adapt(self, busy: float, subscribed: object, behind: float, work: float) -> None:
        assert 0 <= busy <= 1 and 0 <= behind <= 1


def hits(first: int, count: int, source: str = "ball", text: str = "") -> list[Event]:
    return [Hit(0.5, text, ts=1_000 + number, id=number, source=source) for number in range(first, first + count)]


def poll_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, f"not within {DEADLINE} s: {what}"
        time.sleep(0.01)


def collect(subscriber: Subscriber, count: int) -> list[Event]:
    """The events of the next ``count`` insertions."""
    events: list[Event] = []
    deadline = time.monotonic() + DEADLINE
    while len(events) < count:
        assert time.monotonic() < deadline, f"{len(events)} of {count} events within {DEADLINE} s"
        events += [change.event for change in subscriber.receive(0.1) if isinstance(change, Insert)]
    return events


@contextmanager
def node_thread(*args: Any, **options: Any) -> Iterator[Node]:
    """A node of this process, whose statistics can be looked at. At its end it waits a second only for those who are dead."""
    with Node(*args, **options) as node:
        try:
            yield node
        finally:
            node.stop(SECOND)


@pytest.fixture
def soon_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes of this process expire peers that are silent for four seconds, eight heartbeats, instead of ten."""
    monkeypatch.setattr("middleware.link.link.SILENCE", 4 * SECOND)


def run_node(pipe: Pipe, name: str, bind: str, peers: dict[str, str], echoes: bool) -> None:
    node = Node(name, bind, peers, Echoes() if echoes else None, TYPES)
    pipe.send(node.address)
    node.run()
    pipe.send(node.statistics())


class NodeProcess:
    """A node in a process of its own."""

    def __init__(self, name: str, bind: str, peers: dict[str, str] | None = None, echoes: bool = False) -> None:
        context = mp.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=run_node, args=(theirs, name, bind, peers or {}, echoes), daemon=True)
        self.process.start()
        self.address: str = self.pipe.recv()

    def kill(self) -> None:
        self.process.kill()
        self.process.join()

    def __enter__(self) -> NodeProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()


def run_subscriber(pipe: Pipe, address: str, type_name: str, on_slow: str) -> None:
    with Subscriber(address, type_name, event_types=TYPES, on_slow=on_slow) as subscriber:  # type: ignore[arg-type]
        subscriber.wait_ready()
        pipe.send("ready")
        total = 0
        while True:
            for change in subscriber.receive():
                total += isinstance(change, Insert)
            pipe.send(total)


@contextmanager
def subscriber_process(address: str, type_name: str, on_slow: str = "block") -> Iterator[tuple[Any, Pipe]]:
    context = mp.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=run_subscriber, args=(theirs, address, type_name, on_slow), daemon=True)
    process.start()
    try:
        assert ours.recv() == "ready"
        yield process, ours
    finally:
        process.kill()
        process.join()


def left(node: Node) -> dict[str, int]:
    return node.statistics().left


def test_encoded_batches_in_a_hurry_go_together_and_each_is_taken_as_if_alone(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Publisher, "pause", 10**10)
    with NodeProcess("a", f"ipc://{tmp_path}/a") as node, Subscriber(node.address, Hit) as subscriber:
        subscriber.wait_ready(DEADLINE)
        with Publisher(node.address, types=[Hit]) as publisher:
            for first in range(0, 20_000, 100):
                batch = encode(hits(first, 100))
                publisher.publish_encoded("Hit", batch, 100, 20_000 + 10**6, [("ball", first, first + 99)])
                if first % 1_000 == 0:
                    publisher.publish_encoded("Hit", b"nonsense", 3, 1)
                    publisher.publish_encoded("Hit", encode([[1, 2]] * 3), 3, 1)
            publisher.publish(hits(20_000, 10))
            publisher.publish_encoded("Hit", encode(hits(20_010, 10)), 10, 10**6)
            assert publisher.statistics().events == 20_020 + 2 * 3 * 20
            receipt = publisher.flush(DEADLINE)
            assert (receipt.taken, receipt.unknown) == (20_020, 0) and sum(receipt.rejected.values()) == 2 * 3 * 20
            assert publisher.statistics().link.frames_out < 150
            publisher.advance(Hit, END)
        assert [change.event for change in subscriber if isinstance(change, Insert)] == hits(0, 20_020)


def test_publish_node_subscriber(tmp_path: Any) -> None:
    with NodeProcess("a", f"ipc://{tmp_path}/a") as node, Subscriber(node.address, Hit) as subscriber:
        subscriber.wait_ready(DEADLINE)
        with Publisher(node.address, types=[Hit]) as publisher:
            publisher.publish(hits(0, 5_000))
            publisher.publish(hits(2_500, 100))  # known already
            publisher.publish_encoded("Hit", [encode(event) for event in hits(5_000, 3)], 3, 6_003)
            publisher.flush(DEADLINE)
            changed = Hit(9.0, ts=1_000, id=0, source="ball")
            publisher.revise(hits(0, 1)[0], changed)
            publisher.retract(hits(1, 1)[0])
            publisher.advance(Hit, END)
        changes = list(subscriber)
    assert [c.event for c in changes if isinstance(c, Insert)][:5_003] == hits(0, 5_003)
    assert [c for c in changes if not isinstance(c, Insert)] == [
        Revise(changed, hits(0, 1)[0]),
        Retract(hits(1, 1)[0]),
        Watermark(END),
    ]


def test_two_nodes_final_results_in_total_order_once(tmp_path: Any) -> None:
    addresses = {name: f"ipc://{tmp_path}/{name}" for name in "ab"}
    with (
        Publisher(addresses["a"], types=[Hit]) as publisher,
        Subscriber(addresses["a"], [Hit, Echo], consistency="final") as subscriber,
    ):
        events = hits(0, 3_000)
        shuffled = events[::2][::-1] + events[1::2]

        def send() -> None:
            subscriber.wait_ready(DEADLINE)
            publisher.publish(shuffled)
            publisher.advance(Hit, END)

        sender = threading.Thread(target=send)
        sender.start()  # before there is a node at all
        with NodeProcess("a", addresses["a"], addresses), NodeProcess("b", addresses["b"], addresses, echoes=True):
            got = [change.event for change in subscriber if isinstance(change, Insert)]
            sender.join()
    echoes = [Echo(e.peak, ts=e.ts, id=e.id, source="echoes", level=1) for e in events]
    assert got == sorted(events + echoes, key=ORDER)
    assert not subscriber.statistics().violations


@pytest.mark.usefixtures("soon_dead")
def test_a_killed_subscriber_leaves_the_others_running_and_is_counted() -> None:
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node, Subscriber(node.address, Hit) as survivor:
        survivor.wait_ready(DEADLINE)
        with subscriber_process(node.address, "Hit") as (process, pipe), Publisher(node.address, types=[Hit]) as publisher:
            publisher.publish(hits(0, 1_000))
            assert pipe.poll(DEADLINE), "it reads"
            os.kill(process.pid, signal.SIGKILL)
            publisher.publish(hits(1_000, 1_000))
            assert collect(survivor, 2_000) == hits(0, 2_000)
            poll_until(lambda: left(node).get("subscriber: dead") == 1, "the node counts the dead subscriber")
            publisher.publish(hits(2_000, 10))
            assert collect(survivor, 10) == hits(2_000, 10)


@pytest.mark.usefixtures("soon_dead")
def test_a_killed_node_leaves_the_others_running_and_joins_again(tmp_path: Any) -> None:
    addresses = {name: f"ipc://{tmp_path}/{name}" for name in "ab"}
    with (
        node_thread("a", addresses["a"], addresses, types=TYPES) as node,
        NodeProcess("b", addresses["b"], addresses, echoes=True) as other,
        Subscriber(node.address, [Hit, Echo]) as subscriber,
        Publisher(node.address, types=[Hit]) as publisher,
    ):
        subscriber.wait_ready(DEADLINE)
        publisher.publish(hits(0, 100))
        assert {type(event) for event in collect(subscriber, 200)} == {Hit, Echo}
        other.kill()
        publisher.publish(hits(100, 100))
        assert collect(subscriber, 100) == hits(100, 100)
        poll_until(lambda: left(node).get("node: dead") == 1, "the node counts the dead one")
        with NodeProcess("b", addresses["b"], addresses, echoes=True):
            poll_until(lambda: any(p.role == "node" and p.up for p in node.statistics().peers), "b is back")
            with Subscriber(node.address, Echo) as late:
                late.wait_ready(DEADLINE)
                publisher.publish(hits(200, 10))
                assert [event.id for event in collect(late, 10)] == list(range(200, 210))


def test_a_stopped_subscriber_blocks_only_the_sources_of_what_it_reads() -> None:
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node, Subscriber(node.address, Other) as quick:
        quick.wait_ready(DEADLINE)
        with (
            subscriber_process(node.address, "Hit") as (process, pipe),
            Publisher(node.address, types=[Hit]) as blocked,
            Publisher(node.address, types=[Other]) as free,
        ):
            os.kill(process.pid, signal.SIGSTOP)
            batches = 200
            sender = threading.Thread(
                target=lambda: [blocked.publish(hits(n * 10, 10, text="x" * 2_000)) for n in range(batches)]
            )
            sender.start()
            poll_until(lambda: any(peer.slow for peer in node.statistics().peers), "the subscriber is found slow")
            others = [Other(ts=1 + n, id=n, source="other") for n in range(1_000)]
            free.publish(others)
            assert collect(quick, 1_000) == others
            assert sender.is_alive()
            os.kill(process.pid, signal.SIGCONT)
            total = 0
            while total < batches * 10:
                assert pipe.poll(DEADLINE)
                total = pipe.recv()
            sender.join()
            assert total == batches * 10
            assert not left(node)


def test_a_stopped_subscriber_that_chose_disconnect_is_dropped_and_counted() -> None:
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node, Subscriber(node.address, Hit) as quick:
        quick.wait_ready(DEADLINE)
        with subscriber_process(node.address, "Hit", "disconnect") as (process, _), Publisher(node.address) as publisher:
            os.kill(process.pid, signal.SIGSTOP)
            sent = [event for n in range(200) for event in hits(n * 10, 10, text="x" * 2_000)]
            sender = threading.Thread(target=publisher.publish, args=(sent,))
            sender.start()
            assert collect(quick, len(sent)) == sent
            sender.join()
            assert left(node) == {"subscriber: too slow": 1}
            assert node.statistics().drops["frames to a subscriber that left"] > 0


def test_a_node_that_is_stopped_drains_first(tmp_path: Any) -> None:
    with NodeProcess("a", f"ipc://{tmp_path}/a", echoes=True) as node, Subscriber(node.address, Echo) as subscriber:
        subscriber.wait_ready(DEADLINE)
        publisher = Publisher(node.address, types=[Hit])
        publisher.publish(hits(0, 20_000))
        publisher.flush(DEADLINE)
        os.kill(node.process.pid or 0, signal.SIGTERM)
        got = [change.event.id for change in subscriber if isinstance(change, Insert)]  # ends with the goodbye
        assert got == list(range(20_000))
        assert node.pipe.recv().events_in == 20_000
        node.process.join(DEADLINE)
        assert node.process.exitcode == 0
        with pytest.raises(NetworkError, match="shuts down"):
            publisher.publish(hits(20_000, 1))
        publisher.close()


def test_a_node_that_never_existed_is_a_clear_error() -> None:
    complaint = r"tcp://127\.0\.0\.1:9 does not answer .* is it running"
    with Subscriber("tcp://127.0.0.1:9", Hit, patience=0.3) as subscriber, pytest.raises(NetworkError, match=complaint):
        subscriber.receive()
    with Publisher("tcp://127.0.0.1:9", patience=0.3) as publisher, pytest.raises(NetworkError, match="does not answer"):
        publisher.publish(hits(0, 1))


def test_two_publishers_of_one_name_the_newer_one_wins() -> None:
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node, Publisher(node.address, name="twin") as older:
        older.publish(hits(0, 1))
        older.flush(DEADLINE)
        with Publisher(node.address, name="twin") as newer:
            newer.publish(hits(1, 1))
            newer.flush(DEADLINE)
            with pytest.raises(NetworkError, match="a newer publisher named 'twin'"):  # noqa: PT012
                older.publish(hits(2, 1))
                older.flush(DEADLINE)
        assert left(node)["publisher: restarted"] == 1


def test_a_time_out_of_range_is_reported_to_its_publisher_and_costs_nothing_else() -> None:
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node, Subscriber(node.address, Hit) as subscriber:
        subscriber.wait_ready(DEADLINE)
        with Publisher(node.address, types=[Hit]) as publisher:
            for ts in (2**62, -(2**62)):
                with pytest.raises(EventError, match="nothing was sent"):
                    publisher.publish([*hits(0, 3), Hit(0.5, ts=ts, id=9, source="ball")])
            publisher.publish(hits(0, 3))
            assert collect(subscriber, 3) == hits(0, 3)
            assert node.statistics().drops == {}


def test_version_6_of_the_internet_protocol() -> None:
    with contextlib.closing(socket.socket(socket.AF_INET6)) as held:
        try:
            held.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6 loopback")
    with (
        node_thread("a", "tcp://[::1]:*", types=TYPES) as node,
        Subscriber(node.address, Hit) as subscriber,
        Publisher(node.address) as publisher,
    ):
        assert node.address.startswith("tcp://[::1]:")
        subscriber.wait_ready(DEADLINE)
        publisher.publish(hits(0, 10))
        assert collect(subscriber, 10) == hits(0, 10)
