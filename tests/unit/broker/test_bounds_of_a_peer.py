"""What one peer can make a broker keep, or hold back, is bounded. Its frames are written by hand, so it may do anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pytest

from middleware.broker.backpressure import CHARGE
from middleware.broker.broker import Broker
from middleware.broker.ingress.checks import LONG_SOURCE
from middleware.broker.peers.peers import ANSWER_EVERY, MOST_ASKED
from middleware.broker.watermarks.waiting import NodeStatus
from middleware.delivery.publication import Publication
from middleware.link.codec import BLOCK_TARGET, Changes, Interest, Payload, Question, encode
from middleware.link.encoding import encode_delta
from middleware.link.frames import VERSION, Ack, Data, Hello, Parts, Refusal, Role, decode_frame, encode_frame
from middleware.model.block.block import Block
from middleware.model.change import Delta
from middleware.model.errors import EventError
from middleware.model.event import LONGEST_SOURCE, Event, EventTypes
from middleware.model.time import MILLISECOND

MUCH = 2**40


class Ping(Event):
    text: str = ""


TYPES = EventTypes([Ping])


def ping(number: int, source: str = "p", text: str = "") -> Ping:
    return Ping(text, ts=1_000 + number, id=number, source=source)


class ByHand:
    """A peer of a broker that sends, and grants credit, on request. ``refused``: why it is let go."""

    def __init__(self, broker: Broker, role: Role, name: str, now: int, credit: int = MUCH) -> None:
        self._broker, self._channel, self._credit, self._sent = broker, name.encode(), credit, 0
        self.name, self.received = name, 0
        self.refused: str | None = None
        self._epoch = 7
        broker.receive(self._channel, [encode_frame(Hello(VERSION, name, role, 7, 0, 0, credit))], now)
        (hello,) = [frame for frame, _ in self._frames(broker, now) if type(frame) is Hello]
        broker.receive(self._channel, [encode_frame(Hello(VERSION, name, role, 7, hello.epoch, 0, credit))], now)

    def _frames(self, broker: Broker, now: int) -> list[tuple[object, Parts]]:
        return self.take(broker.settle(now).sends)

    def take(self, sends: list[tuple[object, Parts]]) -> list[tuple[object, Parts]]:
        """Those of the messages that are for it."""
        mine = [(decode_frame(parts[0]), parts[1:]) for channel, parts in sends if channel == self._channel]
        for frame, _ in mine:
            if type(frame) is Data:
                self.received = frame.seq
            elif type(frame) is Refusal:
                self.refused = frame.reason
        return mine

    def send(self, payload: Payload, now: int, blocks: Parts | None = None) -> None:
        self._sent += 1
        data = Data(self._epoch, self._sent, self.received, self._credit, encode(payload))
        self._broker.receive(self._channel, [encode_frame(data), *(blocks or [])], now)

    def publish(self, events: list[Ping], now: int) -> None:
        (found,) = encode_delta("Ping", Delta(list(events)), raw=True)
        self.send(Changes(None, None, [found[0]]), now, [found[1]])

    def acknowledge(self, now: int) -> None:
        self._broker.receive(self._channel, [encode_frame(Ack(self._epoch, self.received, self._credit, self._sent))], now)


def queued(broker: Broker, name: str) -> int:
    return sum(peer.link.queued_bytes + peer.link.unacked_bytes for peer in broker.statistics().peers if peer.name == name)


def answers(broker: Broker, now: int, size: int = 100_000) -> int:
    """A step of a node, in which it answers what it is asked with a status of about this size; returns whether it did."""
    if not broker.is_asked(now):
        return 0
    broker.answer(NodeStatus("x" * size, None, {}), now)
    return 1


@pytest.fixture
def broker() -> Broker:
    return Broker("a", 1, 0, types=TYPES)


def test_questions_without_credit_for_the_answers_cost_one_answer_and_then_the_link(broker: Broker) -> None:
    evil = ByHand(broker, "subscriber", "evil", 0, credit=0)
    evil.send(Interest(1), 0)
    answered, now = 0, 0
    for number in range(MOST_ASKED + 2):
        now += ANSWER_EVERY
        evil.send(Question(number), now)
        answered += answers(broker, now)
        evil.take(broker.settle(now).sends)
        assert queued(broker, "evil") < 200_000
    assert answered == 1
    assert evil.refused is not None and "read no answer" in evil.refused
    assert not broker.statistics().peers


def test_who_reads_its_answers_may_ask_for_ever_but_not_in_every_step(broker: Broker) -> None:
    reader = ByHand(broker, "subscriber", "reader", 0)
    reader.send(Interest(1), 0)
    answered = 0
    for number in range(3 * MOST_ASKED):
        now = number * MILLISECOND
        reader.send(Question(number), now)
        answered += answers(broker, now, 100)
        reader.take(broker.settle(now).sends)
    assert reader.refused is None
    assert answered == 3 * MOST_ASKED * MILLISECOND // ANSWER_EVERY


def test_interests_again_and_again_of_one_that_takes_nothing_queue_no_watermarks(broker: Broker) -> None:
    publisher = ByHand(broker, "publisher", "p", 0)
    publisher.send(Interest(1, raw=["Ping"]), 0)
    evil = ByHand(broker, "subscriber", "evil", 0, credit=0)
    for number in range(1, 50_000):
        now = number * MILLISECOND
        publisher.send(Changes(None, {"Ping": number}, []), now)
        evil.send(Interest(number, ["*"]), now)
        for peer in (publisher, evil):
            peer.take(broker.settle(now).sends)
    assert queued(broker, "evil") < BLOCK_TARGET + 1_000


def test_only_a_node_says_what_others_have_no_room_for(broker: Broker) -> None:
    honest = ByHand(broker, "publisher", "honest", 0)
    evil = ByHand(broker, "subscriber", "evil", 0)
    other = ByHand(broker, "publisher", "other", 0)
    for number, peer in enumerate((evil, other), 1):
        peer.send(Interest(number, ["*"], paused=["*"]), 0)
    honest.publish([ping(1)], 0)
    broker.settle(1)
    assert not any(origin.credit_paused for stream in broker.waiting([]).streams.values() for origin in stream.origins)
    node = ByHand(broker, "node", "b", 1)
    node.send(Interest(1, paused=["*"]), 1)
    broker.settle(2)
    assert [origin.credit_paused for origin in broker.waiting([]).streams["Ping"].origins if origin.name == "honest"] == [True]


LONG = "é" * (LONGEST_SOURCE // 2) + "x"
"""One byte too long, though it has fewer characters than there may be bytes."""


@pytest.mark.parametrize("types", [TYPES, None], ids=["typed", "untyped"])
@pytest.mark.parametrize("in_columns", [False, True])
@pytest.mark.parametrize("names_runs", [False, True])
def test_a_source_with_a_long_name_is_rejected_and_not_remembered(
    types: EventTypes | None, in_columns: bool, names_runs: bool
) -> None:
    broker = Broker("a", 1, 0, types=types)
    evil = ByHand(broker, "publisher", "evil", 0)
    events = [ping(1), ping(1, LONG), ping(2, LONG[1:]), ping(2)]
    for event in events:
        delta = Delta(Block.from_events(Ping, [event])) if in_columns else Delta([event])
        runs = [(event.source, event.id, event.id)] if names_runs else None
        (found,) = encode_delta("Ping", delta, raw=True, runs=runs, fewest=1)
        assert found[0].columns is in_columns
        evil.send(Changes(None, None, [found[0]]), 0, [found[1]])
        evil.take(broker.settle(0).sends)
    assert broker.statistics().drops == {LONG_SOURCE: 1}
    assert broker.ingress.seen.state().keys() == {"p", LONG[1:]}


def test_a_publisher_says_that_the_name_of_a_source_is_too_long() -> None:
    publication = Publication([Ping])
    table = pa.table({"text": ["", ""], "ts": [1, 2], "id": [1, 2], "source": ["p", LONG]})
    ways: list[Callable[[], object]] = [
        lambda: list(publication.frames([ping(1), ping(1, LONG)])),
        lambda: publication.columns(table, Ping, "other"),
        lambda: publication.columns(table.drop_columns(["id", "source"]), Ping, LONG),
        lambda: publication.encoded("Ping", b"\x90", 0, 1, [(LONG, 1, 1)]),
    ]
    for way in ways:
        with pytest.raises(EventError, match="longer than 256 bytes: give it a shorter name"):
            way()
    assert not publication.held.add([ping(1, 2 * LONG)]), "else it would leave without a check"
    assert publication.held.add([ping(1, LONG[1:])])
    assert list(publication.frames([ping(1, LONG[1:])]))


class Shares:
    """A node with a detector of Ping, which never promises anything. ``step``: as much as a node takes in one step."""

    STEP = 1_000

    def __init__(self) -> None:
        self.now = 0
        self.broker = Broker("a", 1, 0, types=TYPES, subscriptions=["Ping"])
        self.taken: Counter[str] = Counter()
        self.late: list[Event] = []

    def step(self, waiting: list[list[tuple[ByHand, list[Ping]]]], until: int) -> Counter[str]:
        """Take messages as ZeroMQ gives them: one of each connection in turn. Returns the events of each source in the batch;
        those up to ``until`` are late for the detector, as are those that are rejected."""
        self.now += MILLISECOND
        while waiting and self.broker.received < self.STEP:
            connection = waiting.pop(0)
            peer, events = connection.pop(0)
            peer.publish(events, self.now)
            if connection:
                waiting.append(connection)
        batch = self.broker.take(self.now)
        events = batch.deltas["Ping"].inserts if batch is not None and "Ping" in batch.deltas else []
        self.broker.found_late([event for event in events if event.ts <= until], self.now)
        self.broker.settle(self.now)
        return Counter(event.source for event in events)

    def charged(self) -> dict[str, int]:
        """The publishers that are held back for what they have sent, and for how long from now on."""
        self.broker.settle(self.now)
        origins = self.broker.waiting([]).streams["Ping"].origins
        return {origin.name: origin.charged for origin in origins if origin.charged}


def pings(source: str, first: int, count: int) -> list[Ping]:
    return [ping(number, source) for number in range(first, first + count)]


def test_what_is_rejected_fills_a_step_as_what_is_taken_does() -> None:
    shares = Shares()
    evil, honest = (ByHand(shares.broker, "publisher", name, 0) for name in ("evil", "honest"))
    repeats = [(evil, pings("evil", 0, 400)) for _ in range(20)]
    waiting = [repeats, [(honest, pings("honest", at, 10)) for at in range(0, 200, 10)]]
    steps = [shares.step(waiting, 0) for _ in range(7)]
    assert [step["honest"] for step in steps] == [20, *[30] * 6], "as many messages as of the other in each step"


@pytest.mark.parametrize("by_detector", [True, False], ids=["late for a detector", "rejected"])
def test_late_events_cost_the_credit_of_who_sent_them_and_of_no_one_else(by_detector: bool) -> None:
    shares = Shares()
    evil, honest = (ByHand(shares.broker, "publisher", name, 0) for name in ("evil", "honest"))
    old, until = pings("evil", 0, 500), 0
    if by_detector:
        until = 1_600
        honest_now = [Ping("", ts=until + number, id=number, source="honest") for number in range(10, 500)]
    else:
        old = [Ping("", ts=2**61 + number, id=number, source="evil") for number in range(500)]
        shares.broker.wall_is(0, 0)
        honest_now = pings("honest", 10, 490)
    shares.step([[(evil, old)], [(honest, honest_now)]], until)
    charged = shares.charged()
    assert charged.keys() == {"evil"}
    assert charged["evil"] == 500 * CHARGE
    shares.now += charged["evil"]
    assert shares.charged() == {}


def test_those_who_send_late_events_together_get_no_more_than_one_alone() -> None:
    shares = Shares()
    evils = [ByHand(shares.broker, "publisher", f"evil{number}", 0) for number in range(5)]
    shares.broker.wall_is(0, 0)
    for round_ in range(2):
        for number, evil in enumerate(evils):
            ahead = [Ping("", ts=2**61, id=at, source=f"{number}") for at in range(round_ * 100, round_ * 100 + 100)]
            shares.step([[(evil, ahead)]], 0)
    total = sum(shares.charged().values())
    assert total > 5 * 5 * 100 * CHARGE, "each pays for all five the second time"
