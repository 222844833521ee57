"""What one peer makes a node keep, and how long it makes others wait, is bounded. Each attack is bounded itself."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import typer
import zmq
from test_network import DEADLINE, TYPES, Echo, Hit, collect, hits, node_thread, poll_until
from test_network_attacks import MIB, resident
from typer.testing import CliRunner

from middleware.broker.ingress.checks import LONG_SOURCE
from middleware.broker.ingress.receipts import REJECTIONS
from middleware.broker.ingress.sources import SourcePolicy
from middleware.broker.log.log import MOST_NAMES
from middleware.cli.meshes.names import names
from middleware.link.codec import Changes, Interest, Payload, Question, encode
from middleware.link.encoding import encode_delta
from middleware.link.frames import VERSION, Ack, Data, Hello, Refusal, Role, decode_frame, encode_frame
from middleware.model.change import Delta
from middleware.model.detector import Detector
from middleware.model.errors import NetworkError
from middleware.model.event import Event
from middleware.model.time import SECOND
from middleware.ordering.hierarchy import Hierarchy
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.node import Node
from middleware.runtime.storage.late_ledger import Ledger
from middleware.runtime.storage.store import Store
from middleware.runtime.transport.framing import frames_of

pytestmark = pytest.mark.system

app = typer.Typer()
app.command()(names)


class ByHand:
    """A client of a node whose every frame is written by hand. ``credit``: bytes that it lets the node send."""

    def __init__(self, socket: zmq.Socket[bytes], name: str, role: Role, credit: int = 2**40) -> None:
        self._socket, self._credit, self._sent, self._received = socket, credit, 0, 0
        self._acknowledged = 0
        self.refused: str | None = None
        for epoch in (0, self._hello(name, role, 0)):
            if epoch:
                self._hello(name, role, epoch)

    def _hello(self, name: str, role: Role, epoch: int) -> int:
        self._socket.send(encode_frame(Hello(VERSION, name, role, 1, epoch, 0, self._credit)))
        while type(frame := decode_frame(self._socket.recv_multipart()[0])) is not Hello:
            pass
        return frame.epoch

    def send(self, payload: Payload, *blocks: bytes) -> None:
        self._sent += 1
        frame = Data(1, self._sent, self._received, self._credit, encode(payload))
        self._socket.send_multipart(frames_of([encode_frame(frame), *blocks]))

    def settle(self) -> bool:
        """Wait until the node has taken all that was sent; returns whether it has, rather than refused this client."""
        while self.refused is None and self._acknowledged < self._sent:
            self.read()
        return self.refused is None

    def read(self) -> None:
        """Ask for an acknowledgement, and take the next frame."""
        self._socket.send(encode_frame(Ack(1, self._received, self._credit, self._sent, asks=True)))
        frame = decode_frame(self._socket.recv_multipart()[0])
        if type(frame) is Refusal:
            self.refused = frame.reason
        elif type(frame) is Data or type(frame) is Ack:
            self._acknowledged = max(self._acknowledged, frame.received)
            self._received = max(self._received, frame.seq if type(frame) is Data else 0)


@contextmanager
def by_hand(address: str, name: str, role: Role, credit: int = 2**40) -> Iterator[ByHand]:
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger, socket.rcvtimeo = 0, round(DEADLINE * 1_000)
        socket.connect(address)
        yield ByHand(socket, name, role, credit)


def is_held(node: Node, name: str) -> bool:
    status = node.status()
    return status is not None and any(
        origin.credit_paused for stream in status.streams.values() for origin in stream.origins if origin.name == name
    )


def test_questions_whose_answers_nobody_takes_cost_one_answer() -> None:
    kinds = [f"kind{number:04}.{'x' * 200}" for number in range(2_000)]  # so that an answer is large
    with node_thread("a", "tcp://127.0.0.1:*") as node, Publisher(node.address, name="p", types=kinds) as publisher:
        publisher.advance(kinds, 1)
        publisher.flush(DEADLINE)
        with by_hand(node.address, "evil", "subscriber", credit=0) as evil:
            evil.send(Interest(1))
            assert evil.settle()
            before = resident()
            for number in range(200):
                evil.send(Question(number))
                if not evil.settle():
                    break
            queued = [peer.link.queued_bytes for peer in node.statistics().peers if peer.name == "evil"]
            assert sum(queued) < MIB
            assert resident() - before < 32 * MIB


def test_a_client_cannot_say_that_there_is_no_room_for_anything() -> None:
    with (
        node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node,
        Subscriber(node.address, Hit) as honest,
        Publisher(node.address, name="p", types=[Hit]) as publisher,
        by_hand(node.address, "evil", "subscriber") as reads,
        by_hand(node.address, "evil too", "publisher") as publishes,
    ):
        honest.wait_ready(DEADLINE)
        publisher.publish(hits(0, 1))
        assert len(collect(honest, 1)) == 1
        for each in (reads, publishes):
            each.send(Interest(1, ["*"], paused=["*"]))
            assert each.settle()
        assert not is_held(node, "p")
        for at in range(1, 2_000, 100):  # several times the credit of a publisher
            publisher.publish(hits(at, 100, text="x" * 2_000))
            assert len(collect(honest, 100)) == 100


def test_a_node_that_keeps_all_the_names_it_takes_can_release_some(tmp_path: Path) -> None:
    store = Store(tmp_path / "state", "a")
    with node_thread("a", "tcp://127.0.0.1:*", types=TYPES, store=store) as node, zmq.Context() as context:
        for number in range(MOST_NAMES):
            with context.socket(zmq.DEALER) as socket:
                socket.linger, socket.rcvtimeo = 0, round(DEADLINE * 1_000)
                socket.connect(node.address)
                evil = ByHand(socket, f"evil-{number}", "subscriber")
                evil.send(Interest(1, ["Hit"], resumes=True))
                assert evil.settle()
        with pytest.raises(NetworkError, match="slackline names"), Subscriber(node.address, Hit, resume="sink") as refused:
            refused.wait_ready(DEADLINE)

        def is_released() -> bool:  # once the node knows that they have gone
            shown = CliRunner().invoke(app, [node.address, "--json", "-", "--release", "evil-*"])
            return "│ evil-1 " not in shown.output.partition("not released")[0]

        poll_until(is_released, "the names of those that have gone expire")
        with Subscriber(node.address, Hit, resume="sink") as subscriber:
            subscriber.wait_ready(DEADLINE)


def test_a_stalled_reader_is_reported_and_holds_up_its_own_types_only_for_a_while() -> None:
    sources = SourcePolicy(hold=3 * SECOND)
    with (
        node_thread("a", "tcp://127.0.0.1:*", types=TYPES, sources=sources) as node,
        Subscriber(node.address, Hit) as honest,
        Publisher(node.address, name="p", types=[Hit]) as publisher,
        by_hand(node.address, "evil", "subscriber", credit=0) as evil,
    ):
        honest.wait_ready(DEADLINE)
        evil.send(Interest(1, ["*"], "block"))
        assert evil.settle()
        seen: set[str] = set()

        def publish() -> None:
            for at in range(0, 4_000, 100):
                publisher.publish(hits(at, 100, text="x" * 2_000))

        def look() -> None:
            while evil.refused is None:
                seen.update(slow_at(node))
                evil.read()

        threads = [threading.Thread(target=target, daemon=True) for target in (publish, look)]
        for thread in threads:
            thread.start()
        assert len(collect(honest, 4_000)) == 4_000
        for thread in threads:
            thread.join(DEADLINE)
        assert any("subscriber evil (took nothing for" in reason for reason in seen)
        assert evil.refused is not None and "sources have waited 3s for it" in evil.refused


def slow_at(node: Node) -> list[str]:
    status = node.status()
    return status.slow if status is not None else []


def test_sources_of_a_mebibyte_are_not_remembered() -> None:
    with (
        node_thread("a", "tcp://127.0.0.1:*", types=TYPES) as node,
        by_hand(node.address, "evil", "publisher") as evil,
    ):
        tracemalloc.start()  # what a process has from the system says little: allocators keep what was freed
        for number in range(64):
            event = Hit(0.5, ts=1_000 + number, id=number, source=f"{number:04}" * (MIB // 4))
            ((head, block),) = encode_delta("Hit", Delta([event]), raw=True, runs=[(event.source, number, number)])
            evil.send(Changes(None, None, [head]), block)
            assert evil.settle()
        drops = node.statistics().drops
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert drops == {LONG_SOURCE: 64}
    assert kept < 16 * MIB, "the node keeps none of them"


class Echoing(Detector):
    subscribes, publishes = (Hit,), (Echo,)

    def on_event(self, event: Event) -> Event:
        return Echo(0.5, ts=event.ts)


def test_a_flood_of_late_events_costs_its_publisher_and_not_the_others(tmp_path: Path) -> None:
    """Both publish for as long as the honest one takes; what it promises makes all of the other's events late."""
    hierarchy, ledger = Hierarchy([Echoing()]), Ledger("a", tmp_path)
    honest_count, flood = 3_000, 0
    done = threading.Event()

    def attack(publisher: Publisher) -> None:
        nonlocal flood
        while not done.is_set():
            publisher.publish([Hit(0.5, ts=5, id=flood + number, source="evil") for number in range(1_000)])
            flood += 1_000

    with (
        node_thread("a", "tcp://127.0.0.1:*", None, hierarchy, TYPES, ledger=ledger) as node,
        Subscriber(node.address, Echo) as reader,
        Publisher(node.address, name="honest", types=[Hit]) as honest,
        Publisher(node.address, name="evil", types=[Hit], patience=4 * DEADLINE) as evil,
    ):
        reader.wait_ready(DEADLINE)
        honest.publish(hits(0, 10))
        honest.advance(Hit, 1_000)
        honest.flush(DEADLINE)
        thread = threading.Thread(target=attack, args=(evil,), daemon=True)
        thread.start()
        poll_until(lambda: charged(node, "evil") > 0, "the status says that it is held back")
        for at in range(10, honest_count, 10):
            honest.publish(hits(at, 10))
            assert honest.flush(DEADLINE).taken == 10
        assert charged(node, "honest") == 0
        assert len(collect(reader, honest_count)) == honest_count
        done.set()
        thread.join(4 * DEADLINE)
        listed = sum(node.statistics().drops.get(reason, 0) for reason in REJECTIONS.values())
    assert 0 < listed <= flood + 1_000


def charged(node: Node, name: str) -> int:
    status = node.status()
    origins = [origin for stream in status.streams.values() for origin in stream.origins] if status is not None else []
    return max((origin.charged for origin in origins if origin.name == name), default=0)
