"""A broker with detectors among fuzzed peers: it never raises, it counts, and good events pass, each once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest
from msgspec.structs import replace
from slackline_torture.fuzz import Fuzzer

from middleware.broker.broker import Broker
from middleware.broker.peers.greeting import MOST_PEERS
from middleware.broker.peers.rights import Rights
from middleware.link.codec import MOST_TYPES, BlockHead, Changes, EventCodec, Interest, decode_payload, encode
from middleware.link.columnar import pack_columns
from middleware.link.encoding import encode_delta
from middleware.link.frames import VERSION, Hello, Parts, decode_frame, encode_frame, payload_size
from middleware.link.link import WINDOW, Link
from middleware.model.block.block import Block
from middleware.model.change import Delta
from middleware.model.detector import Detector
from middleware.model.event import Event, EventTypes
from middleware.model.time import MILLISECOND
from middleware.ordering.hierarchy import Hierarchy

FRAMES = 100_000
SEEDS = 20


class Ping(Event):
    text: str = ""


class Pong(Event):
    text: str = ""


class Echo(Detector):
    subscribes, publishes, key = (Ping,), (Pong,), "text"

    def on_event(self, event: Event) -> Event:
        return Pong(event.text, ts=event.ts)  # type: ignore[attr-defined]


TYPES = EventTypes([Ping, Pong])
GOOD = "the good source"


def blocks() -> list[tuple[BlockHead, bytes]]:
    """Blocks of every kind, that were good before the fuzzer had them."""
    made = []
    for first in range(0, 1_000, 10):
        pings = [Ping("ab", ts=1_000 + n, id=n, source="fuzz") for n in range(first, first + 6)]
        made += encode_delta("Ping", Delta(pings[:3]), raw=True, runs=[("fuzz", first, first + 2)])
        made += encode_delta("Ping", Delta(pings[3:4], [(pings[4], pings[4])], [pings[5]]))
        made += encode_delta("Ping", Delta(pings[:2], early=[5, 7]))
        made += encode_delta("Pong", Delta([Pong("x", ts=5, id=-77 - first, source="Echo", level=1)]))
        made += encode_delta("Quux", Delta([Pong("x", ts=5, id=first, source="d")]))
        columns = Block.from_events(Ping, pings[:3])
        made.append((BlockHead("Ping", 3, raw=True, columns=True), pack_columns(columns.batch)))
    return made


class Client:
    """A good client, by its link, on a channel of its own."""

    def __init__(self, name: str, role: str, interest: Interest) -> None:
        self.link = Link(name, role, 1, 0, dials=True, durable=True)  # type: ignore[arg-type]
        self.link.greeting = [encode(interest)]
        self.channel = name.encode()
        self.got: list[Event] = []
        self._codec, self._drops = EventCodec(TYPES), Counter[str]()

    def say(self, broker: Broker, now: int) -> None:
        self.link.tick(now)
        self.link.settle(now)
        for parts in self.link.outbox:
            broker.receive(self.channel, parts, now)
        self.link.outbox.clear()

    def hear(self, parts: Parts, now: int) -> None:
        payload = self.link.receive(decode_frame(parts[0]), parts[1:], now)
        if payload is not None:
            self.link.consume(payload_size(payload))
            changes = decode_payload(payload)
            if isinstance(changes, Changes):
                for head, block in zip(changes.blocks, payload[1:], strict=True):
                    self.got += [e for e in self._codec.decode(head, block, self._drops).inserts if e.source == GOOD]


class Siege:
    """A broker with a detector, a good publisher and a good subscriber."""

    def __init__(self) -> None:
        self.now = 0
        self.hierarchy = Hierarchy([Echo()])
        reads, derives = self.hierarchy.subscriptions, self.hierarchy.publications
        self.broker = Broker("a", 10**6, 0, types=TYPES, subscriptions=reads, publications=derives)
        self.publisher = Client("good publisher", "publisher", Interest(1, raw=["Ping"]))
        self.subscriber = Client("good subscriber", "subscriber", Interest(1, ["Ping"]))
        self.sent: list[Event] = []

    def step(self, hostile: Iterable[tuple[bytes, Parts]] = ()) -> None:
        self.now += 20 * MILLISECOND
        for client in (self.publisher, self.subscriber):
            client.say(self.broker, self.now)
        for channel, parts in hostile:
            self.broker.receive(channel, parts, self.now)
        batch = self.broker.take(self.now)
        for result in self.hierarchy.process(batch) if batch is not None else ():
            self.broker.publish(result, self.now)
        for channel, parts in self.broker.settle(self.now).sends:
            for client in (self.publisher, self.subscriber):
                if client.channel == channel:
                    client.hear(parts, self.now)

    def publish(self, count: int) -> None:
        first = len(self.sent)
        events: list[Event] = [Ping("good", ts=2_000 + n, id=n, source=GOOD) for n in range(first, first + count)]
        self.sent += events
        for head, block in encode_delta("Ping", Delta(events), raw=True):
            self.publisher.link.send([encode(Changes(events[-1].ts, None, [head])), block])


@pytest.mark.parametrize("seed", range(SEEDS))
def test_fuzzed_frames_neither_crash_a_broker_nor_cost_a_good_event(seed: int) -> None:
    siege = Siege()
    for _ in range(20):
        siege.step()
    hostile = Fuzzer(seed, blocks()).messages(FRAMES // SEEDS)
    messages = [(b"channel %d" % (number // 1_000), parts) for number, parts in enumerate(hostile)]
    for first in range(0, len(messages), 25):
        siege.publish(3)
        siege.step(messages[first : first + 25])
    for _ in range(20):
        siege.step()
    assert siege.subscriber.got == siege.sent
    assert siege.publisher.link.idle
    statistics = siege.broker.statistics()
    assert statistics.drops.keys() >= {"malformed frame", "malformed payload", "malformed block", "malformed event"}
    assert all(reason.isprintable() and len(reason) < 60 for reason in (*statistics.drops, *statistics.left))
    assert len(statistics.peers) < 100
    for unit in siege.hierarchy.units:
        unit.check()


def hello(name: str, role: str = "publisher", epoch: int = 1) -> list[bytes]:
    return [encode_frame(Hello(VERSION, name, role, epoch, 0, 0, 2**20))]  # type: ignore[arg-type]


def refusals(broker: Broker) -> list[str]:
    return [str(decode_frame(parts[0])) for _, parts in broker.settle(0).sends if "Refusal" in str(decode_frame(parts[0]))]


def test_who_ignores_its_credit_is_shut_out() -> None:
    broker = Broker("a", 10, 0, types=TYPES)
    greedy = Link("greedy", "publisher", 1, 0, dials=True)
    greedy.say_hello(0)
    broker.receive(b"greedy", greedy.outbox.pop(), 0)
    (_, answer), *_ = broker.settle(0).sends
    granted = decode_frame(answer[0])
    assert isinstance(granted, Hello)
    greedy.receive(replace(granted, limit=2**40), [], 0)  # it reads what was never sent
    for _ in range(100):
        greedy.send([encode(Changes(None, None, [BlockHead("Ping", 1)])), b"x" * (WINDOW // 4)])
    for parts in greedy.outbox:
        broker.receive(b"greedy", parts, 0)
    assert any("it ignores its credit" in refusal for refusal in refusals(broker))
    assert broker.statistics().left == {"publisher: it ignores its credit": 1}
    assert broker.statistics().drops["malformed block"] == 4, "what came within the credit was looked at, and no more"


def test_one_peer_too_many_is_rejected_and_counted() -> None:
    broker = Broker("a", 10, 0, types=TYPES)
    for number in range(MOST_PEERS + 3):
        broker.receive(b"%d" % number, hello(f"p{number}"), 0)
    assert broker.statistics().drops == {"one peer too many": 3}
    assert sum("all it takes" in refusal for refusal in refusals(broker)) == 3


@pytest.mark.parametrize("name", ["", "x" * 257, "line\nbreak", "\x1b[2J", "\u202eevil"])
def test_names_that_would_garble_a_log_are_refused(name: str) -> None:
    broker = Broker("a", 10, 0, types=TYPES)
    broker.receive(b"1", hello(name), 0)
    assert broker.statistics().peers == []
    assert set(broker.statistics().drops) <= {"malformed frame", "name that cannot be printed"} and broker.drops.total() == 1


def attached(broker: Broker, role: str, interest: Interest) -> Client:
    client = Client(role, role, interest)
    for now in range(0, 400 * MILLISECOND, 50 * MILLISECOND):
        client.say(broker, now)
        for _, parts in broker.settle(now).sends:
            client.hear(parts, now)
    return client


def test_types_that_nobody_registered_take_no_memory() -> None:
    broker = Broker("a", 10, 0, types=TYPES)
    flood = [f"type {number}" for number in range(5_000)]
    client = attached(broker, "publisher", Interest(1, raw=flood))
    client.link.send([encode(Changes(None, dict.fromkeys(flood, 5), []))])
    client.link.send([encode(Changes(None, None, [BlockHead(name, 1) for name in flood])), *[b"\x90"] * 5_000])
    client.say(broker, 500 * MILLISECOND)
    assert broker.waiting([]).streams == {}
    assert broker.drops == {"unknown type": 5_000}


def test_a_broker_without_types_of_its_own_takes_so_many_and_no_more() -> None:
    broker = Broker("a", 10, 0)
    for batch in range(3):
        client = Client(f"p{batch}", "publisher", Interest(1, raw=[f"type {batch} {n}" for n in range(MOST_TYPES - 10)]))
        for now in (0, 100 * MILLISECOND, 200 * MILLISECOND):
            client.say(broker, now)
            for channel, parts in broker.settle(now).sends:
                if channel == client.channel:
                    client.hear(parts, now)
    assert MOST_TYPES - 10 <= len(broker.waiting([]).streams) <= MOST_TYPES


def test_a_publisher_cannot_hold_back_what_detectors_derive() -> None:
    broker = Broker("a", 10, 0, types=TYPES, subscriptions=["Ping"], publications=["Pong"])
    before = broker.waiting([]).streams["Pong"]
    client = attached(broker, "publisher", Interest(1, raw=["Ping"]))
    client.link.send([encode(Changes(None, {"Pong": 5, "Ping": 7}, []))])
    client.say(broker, 500 * MILLISECOND)
    streams = broker.waiting([]).streams
    assert (streams["Pong"], streams["Ping"].promised) == (before, 7)


def test_a_name_is_not_released_to_another_key() -> None:
    rights = {b"1": Rights("alice"), b"2": Rights("mallory"), b"3": Rights("alice")}
    broker = Broker("a", 10, 0, types=TYPES, rights=lambda channel: rights[channel])  # type: ignore[index]
    broker.receive(b"1", hello("meter"), 0)
    broker.receive(b"2", hello("meter", epoch=2), 0)
    assert broker.drops == {"name that belongs to another key": 1} and not broker.statistics().left
    assert any("belongs to a publisher with another key" in refusal for refusal in refusals(broker))
    broker.receive(b"3", hello("meter", epoch=2), 0)  # its owner has restarted
    assert broker.statistics().left == {"publisher: restarted": 1}
