"""Faults that a review has found, each with the shortest conversation that shows it: real brokers and links, no network."""

from __future__ import annotations

import copyreg
import threading
from collections.abc import Hashable
from typing import Any

import pytest

from middleware.change import Delta
from middleware.clock import MILLISECOND, SECOND
from middleware.durability.frozen import decode_state, encode_state
from middleware.durability.recovery import recover
from middleware.event import NEVER, Event, EventTypes
from middleware.pubsub import journal as journals
from middleware.pubsub.broker import Broker
from middleware.pubsub.codec import BlockHead, Changes, Gap, Interest, Resumed, decode_payload, encode, encode_delta
from middleware.pubsub.journal import BREAK, Journal, Record
from middleware.pubsub.lasting import LastingBroker
from middleware.pubsub.link import Link
from middleware.pubsub.peer import Peer
from middleware.pubsub.wire import Role, decode_frame


class Ping(Event, frozen=True):
    value: int = 0


TYPES = EventTypes([Ping])
STEP = 20 * MILLISECOND


class Client:
    """A peer at the other end of a link. ``got``: what it was told."""

    def __init__(self, talk: Talk, role: Role, name: str, greeting: Interest | None, epoch: int = 1) -> None:
        self.channel = f"to {name}"
        self.link = Link(name, role, epoch, talk.now, dials=True)
        self.got: list[Any] = []
        if greeting is not None:
            self.say(greeting)
        talk.clients.append(self)

    def say(self, payload: Any, *blocks: bytes) -> None:
        self.link.send([encode(payload), *blocks])

    def publish(self, *events: Ping, clock: int | None = None, progress: dict[str, int] | None = None) -> None:
        ((head, block),) = encode_delta("Ping", Delta(list(events)), raw=True)
        self.say(Changes(clock, progress, [head]), block)

    def progress(self) -> list[Any]:
        return [told.progress for told in self.got if type(told) is Changes]

    def take(self, sends: list[tuple[Hashable, list[bytes]]], now: int) -> None:
        for channel, parts in sends:
            if channel == self.channel:
                payload = self.link.receive(decode_frame(parts[0]), parts[1:], now)
                if payload is not None:
                    self.got.append(decode_payload(payload))
                    self.link.consume()


class Talk:
    """A broker and its clients, step by step. ``records``: what its log would hold."""

    def __init__(self, broker: Broker, now: int = 0) -> None:
        self.broker, self.now = broker, now
        self.clients: list[Client] = []
        self.records: list[Record] = []

    def go(self, steps: int, step: int = STEP) -> None:
        broker = self.broker
        for _ in range(steps):
            self.now += step
            for client in self.clients:
                client.link.tick(self.now)
                client.link.settle(self.now)
                for parts in client.link.outbox:
                    broker.receive(client.channel, parts, self.now)
                client.link.outbox.clear()
            broker.take(self.now)
            effects = broker.settle(self.now)
            record = broker.journal.close({}) if broker.journal is not None else None
            self.records += [record] if record is not None else []
            for client in self.clients:
                client.take(effects.sends, self.now)


def lasting(peers: tuple[str, ...] = (), records: list[Record] | None = None) -> LastingBroker:
    journal = Journal(77, lambda position, size: iter(records or ()))
    return LastingBroker("b", 1, 0, types=TYPES, journal=journal, peers=peers)


def test_what_was_promised_for_a_silent_publisher_is_promised_after_a_crash():
    talk = Talk(lasting())
    publisher = Client(talk, "publisher", "p", Interest(1, raw=["Ping"]))
    reader = Client(talk, "subscriber", "s", Interest(1, ["Ping"]))
    talk.go(6)
    publisher.publish(Ping(ts=100, id=1, source="p"), clock=100, progress={"Ping": 5})
    talk.go(60, 250 * MILLISECOND)
    assert {"Ping": 100} in reader.progress()
    again = Talk(lasting(), talk.now)
    recover(again.broker, None, TYPES, None, talk.records)
    returned = Client(again, "publisher", "p", Interest(1, raw=["Ping"]), epoch=2)
    again.go(6)
    returned.publish(Ping(ts=50, id=2, source="p"), clock=100)
    again.go(6)
    assert again.broker.drops["late for what was promised"] == 1


def test_a_named_subscriber_keeps_its_place_when_the_step_in_which_it_came_is_taken_again():
    talk = Talk(lasting())
    publisher = Client(talk, "publisher", "p", Interest(1, raw=["Ping"]))
    talk.go(6)
    reader = Client(talk, "subscriber", "s", None)
    talk.go(4)
    reader.say(Interest(1, ["Ping"], resumes=True))
    talk.clients.reverse()  # it is heard first, and the event right behind it in one step
    publisher.publish(Ping(ts=5, id=1, source="p"), clock=5)
    talk.go(3)
    again = Talk(lasting(records=talk.records), talk.now)
    recover(again.broker, None, TYPES, None, talk.records)
    back = Client(again, "subscriber", "s", Interest(1, ["Ping"], resumes=True), epoch=2)
    again.go(10)
    assert type(back.got[0]) is Resumed
    assert [head.inserts for told in back.got if type(told) is Changes for head in told.blocks] == [1]


def test_who_has_what_came_before_a_break_and_not_the_break_is_told_of_it():
    talk = Talk(lasting(peers=("z",)))
    node = Client(talk, "node", "z", Interest(1, raw=["Ping"], keeps=True))
    reader = Client(talk, "subscriber", "s", Interest(1, ["Ping"]))
    talk.go(12)
    ((head, block),) = encode_delta("Ping", Delta([Ping(ts=5, id=1, source="p")]), raw=True)
    node.say(Changes(None, None, [head], 5, 1), block)
    node.say(Gap(6, 0))
    talk.go(4)
    before = next(told for told in reader.got if type(told) is Changes and told.blocks)
    assert type(reader.got[reader.got.index(before) + 1]) is Gap
    back = Client(talk, "subscriber", "s", Interest(1, ["Ping"], line=77, position=before.position), epoch=2)
    talk.go(10)
    assert any(type(told) is Gap for told in back.got)


def test_that_nothing_is_promised_any_more_is_told_with_a_new_interest_too():
    peer = Peer("node", "z", Link("a", "node", 1, 0, dials=False), "z")
    told: list[Any] = []
    peer.link.send = lambda parts: told.append(decode_payload(parts).progress) or 1  # type: ignore[method-assign, func-returns-value]
    peer.post({"Ping": 5}, 1, NEVER, 0)
    peer.forget_progress()  # its Interest is new, and in the same step another publisher has opened the type
    peer.post({}, 2, NEVER, 0)
    assert told == [{"Ping": 5}, {}]


@pytest.mark.parametrize("role", ["node", "publisher"])
def test_the_name_of_a_break_is_no_type(role):
    talk = Talk(LastingBroker("b", 1, 0, journal=Journal(77, lambda position, size: ()), peers=("z",)))
    Client(talk, "node", "z", Interest(1, keeps=True))
    talk.go(6)
    peer = talk.clients[0] if role == "node" else Client(talk, "publisher", "p", Interest(1))
    peer.say(Changes(None, None, [BlockHead(BREAK, 1)]), b"\x90")
    talk.go(6)
    assert talk.broker.drops["a reserved type"] == 1
    assert talk.broker.journal.position == 0


@pytest.mark.parametrize("step", [1900 * MILLISECOND, 2500 * MILLISECOND])
def test_a_node_of_long_steps_gives_up_who_is_dead(step):
    talk = Talk(Broker("b", 1, 0, types=TYPES))
    dead = Client(talk, "publisher", "p", Interest(1, raw=["Ping"]))
    lively = Client(talk, "publisher", "q", Interest(1, raw=["Ping"]))
    talk.go(10)
    dead.say(Changes(5, {"Ping": 5}, []))
    talk.go(4)
    talk.clients.remove(dead)
    for number in range(100, 100 + 15 * SECOND // step):
        lively.say(Changes(number, {"Ping": number}, []))
        talk.go(1, step)
    assert [peer.name for peer in talk.broker.statistics().peers] == ["q"]


def test_a_name_that_comes_with_a_later_interest_counts_too(monkeypatch):
    monkeypatch.setattr(journals, "MOST_NAMES", 3)
    talk = Talk(lasting())
    readers = [Client(talk, "subscriber", f"s{number}", Interest(1, ["Ping"])) for number in range(6)]
    talk.go(6)
    for reader in readers:
        reader.say(Interest(2, ["Ping"], resumes=True))
    talk.go(6)
    assert sum(reader.named for reader in talk.broker.journal.readers.values()) == 3


class Handle:
    """Cannot be pickled but by its reducer."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


def test_reducers_that_are_registered_late_are_used_in_checkpoints():
    copyreg.pickle(Handle, lambda handle: (Handle, ()))
    try:
        assert type(decode_state(encode_state({"handle": Handle()}, TYPES), TYPES)["handle"]) is Handle
    finally:
        del copyreg.dispatch_table[Handle]
