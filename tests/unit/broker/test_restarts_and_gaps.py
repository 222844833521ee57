"""Faults that a review has found, each with the shortest conversation that shows it: real brokers and links, no network."""

from __future__ import annotations

import copyreg
import threading
from collections.abc import Hashable
from typing import Any

import pytest

from middleware.broker.broker import Broker
from middleware.broker.log.log import MOST_NAMES, Log
from middleware.broker.log.log_records import BREAK, Record, decode_record, encode_record
from middleware.broker.outbound import serve
from middleware.broker.peers.peers import Peer
from middleware.durability.durable_core import DurableCore
from middleware.durability.recovery import recover
from middleware.durability.state_encoding import decode_state, encode_state
from middleware.link.codec import BlockHead, Changes, Cover, Gap, Interest, LastCommit, Ready, decode_payload, encode
from middleware.link.encoding import encode_delta
from middleware.link.frames import Role, decode_frame
from middleware.link.link import Link
from middleware.model.change import Batch, Delta
from middleware.model.event import END, NEVER, Event, EventTypes
from middleware.model.time import MILLISECOND, SECOND


class Ping(Event):
    value: int = 0


TYPES = EventTypes([Ping])
STEP = 20 * MILLISECOND


class Client:
    """A peer at the other end of a link. ``got``: the payloads it was sent."""

    answers = True
    """Whether it answers an Interest at once, if it is a node."""

    def __init__(self, talk: Talk, role: Role, name: str, greeting: Interest | None, epoch: int = 1) -> None:
        self.channel = f"to {name}"
        self.link = Link(name, role, epoch, talk.now, dials=True)
        self.got: list[Any] = []
        self.blocks: list[tuple[Changes, list[bytes]]] = []
        if greeting is not None:
            self.say(greeting)
        talk.clients.append(self)

    def say(self, payload: Any, *blocks: bytes) -> None:
        self.link.send([encode(payload), *blocks])

    def publish(self, *events: Ping, clock: int | None = None, watermarks: dict[str, int] | None = None) -> None:
        ((head, block),) = encode_delta("Ping", Delta(list(events)), raw=True)
        self.say(Changes(clock, watermarks, [head]), block)

    def logged(self) -> list[list[str]]:
        return [payload.logged for payload in self.got if type(payload) is Interest]

    def watermarks(self) -> list[Any]:
        return [payload.watermarks for payload in self.got if type(payload) is Changes]

    def take(self, sends: list[tuple[Hashable, list[bytes]]], now: int) -> None:
        for channel, parts in sends:
            if channel == self.channel:
                payload = self.link.receive(decode_frame(parts[0]), parts[1:], now)
                if payload is not None:
                    self.got.append(decode_payload(payload))
                    if type(self.got[-1]) is Interest and self.link.role == "node" and self.answers:
                        self.say(Ready(self.got[-1].number))
                        self.say(Cover(self.got[-1].number, {}))
                    if type(self.got[-1]) is Changes:
                        self.blocks.append((self.got[-1], payload[1:]))
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
            record = broker.log.close({}) if broker.log.keeps else None
            self.records += [record] if record is not None else []
            for client in self.clients:
                client.take(effects.sends, self.now)


def durable(peers: tuple[str, ...] = (), records: list[Record] | None = None) -> Broker:
    log = Log(77, lambda offset, size: iter(records or ()))
    return Broker("b", 1, 0, types=TYPES, log=log, peers=peers)


def test_what_was_promised_for_a_silent_publisher_is_promised_after_a_crash():
    talk = Talk(durable())
    publisher = Client(talk, "publisher", "p", Interest(1, raw=["Ping"]))
    reader = Client(talk, "subscriber", "s", Interest(1, ["Ping"]))
    talk.go(6)
    publisher.publish(Ping(ts=100, id=1, source="p"), clock=100, watermarks={"Ping": 5})
    talk.go(60, 250 * MILLISECOND)
    assert {"Ping": 100} in reader.watermarks()
    again = Talk(durable(), talk.now)
    recover(again.broker, None, TYPES, None, talk.records)
    returned = Client(again, "publisher", "p", Interest(1, raw=["Ping"]), epoch=2)
    again.go(6)
    returned.publish(Ping(ts=50, id=2, source="p"), clock=100)
    again.go(6)
    assert again.broker.drops["late for what was promised"] == 1


def test_a_named_subscriber_keeps_its_place_when_the_step_in_which_it_came_is_taken_again():
    talk = Talk(durable())
    publisher = Client(talk, "publisher", "p", Interest(1, raw=["Ping"]))
    talk.go(6)
    reader = Client(talk, "subscriber", "s", None)
    talk.go(4)
    reader.say(Interest(1, ["Ping"], resumes=True))
    talk.clients.reverse()  # its message is taken first, and the event right behind it in one step
    publisher.publish(Ping(ts=5, id=1, source="p"), clock=5)
    talk.go(3)
    again = Talk(durable(records=talk.records), talk.now)
    recover(again.broker, None, TYPES, None, talk.records)
    back = Client(again, "subscriber", "s", Interest(1, ["Ping"], resumes=True), epoch=2)
    again.go(10)
    assert type(back.got[0]) is LastCommit
    assert [head.inserts for payload in back.got if type(payload) is Changes for head in payload.blocks] == [1]


def test_a_reader_from_before_a_break_gets_the_break():
    talk = Talk(durable(peers=("z",)))
    node = Client(talk, "node", "z", Interest(1, raw=["Ping"], keeps=True))
    reader = Client(talk, "subscriber", "s", Interest(1, ["Ping"]))
    talk.go(12)
    ((head, block),) = encode_delta("Ping", Delta([Ping(ts=5, id=1, source="p")]), raw=True)
    node.say(Changes(None, None, [head], 5, 1), block)
    node.say(Gap(6, 0))
    talk.go(4)
    before = next(payload for payload in reader.got if type(payload) is Changes and payload.blocks)
    assert type(reader.got[reader.got.index(before) + 1]) is Gap
    back = Client(talk, "subscriber", "s", Interest(1, ["Ping"], line=77, offset=before.offset), epoch=2)
    talk.go(10)
    assert any(type(payload) is Gap for payload in back.got)


def block_of(number: int) -> tuple[BlockHead, bytes]:
    ((head, block),) = encode_delta("Ping", Delta([Ping(ts=number, id=number, source="p")]), raw=True)
    return head, block


@pytest.mark.parametrize("keeps", [True, False])
def test_a_reader_that_comes_gets_nothing_that_was_sent_before_its_type_was_wanted_again(keeps: bool) -> None:
    talk = Talk(durable(peers=("z",)) if keeps else Broker("b", 1, 0, types=TYPES, peers=("z",)))
    node = Client(talk, "node", "z", Interest(1, raw=["Ping"], keeps=True))
    first = Client(talk, "subscriber", "s", Interest(1, ["Ping"]))
    talk.go(12)
    node.answers = False
    first.link.bye("done")
    talk.go(6)
    second = Client(talk, "subscriber", "t", Interest(1, ["Ping"]))
    talk.go(6)
    interests = [each for each in node.got if type(each) is Interest]
    assert [each.subscriptions for each in interests[-2:]] == [[], ["Ping"]]
    for number, answered in enumerate([None, interests[-2].number, interests[-1].number], 1):
        if answered is not None:
            node.say(Ready(answered))
        head, block = block_of(number)
        node.say(Changes(None, None, [head], 5 * keeps, number * keeps), block)
        talk.go(4)
        assert [head.inserts for head, _ in read_by(second)] == [1] * (number == 3)
        is_ready = any(type(each) is Ready for each in second.got)
        assert is_ready == (number == 3), "it gets Ready once all that comes is whole"
    assert [block for _, block in read_by(second)] == [block_of(3)[1]]


def read_by(client: Client) -> list[tuple[BlockHead, bytes]]:
    return [pair for changes, blocks in client.blocks for pair in zip(changes.blocks, blocks, strict=True)]


def test_a_type_that_was_wanted_all_the_time_is_taken_whatever_else_is_wanted() -> None:
    talk = Talk(durable(peers=("z",)))
    node = Client(talk, "node", "z", Interest(1, raw=["Ping"], keeps=True))
    reader = Client(talk, "subscriber", "s", Interest(1, ["Ping"]))
    talk.go(12)
    node.answers = False
    for name in "tuv":
        Client(talk, "subscriber", name, Interest(1, [f"Other{name}"]))
        talk.go(4)
    head, block = block_of(1)
    node.say(Changes(None, None, [head], 5, 1), block)
    talk.go(4)
    assert read_by(reader) == [(head, block)]


def test_a_node_answers_an_interest_behind_what_it_sent_by_the_one_before() -> None:
    talk = Talk(Broker("b", 1, 0, types=TYPES, peers=("z",)))
    node = Client(talk, "node", "z", Interest(1, ["Ping"], raw=["Ping"]))
    publisher = Client(talk, "publisher", "p", Interest(1, raw=["Ping"]))
    talk.go(12)
    talk.clients = [publisher, node]  # in one step the event comes first
    publisher.publish(Ping(ts=5, id=1, source="p"))
    node.say(Interest(2))
    talk.go(6)
    news = [each for each in node.got if type(each) is Ready or (type(each) is Changes and each.blocks)]
    assert [type(each) for each in news] == [Ready, Changes, Ready]
    assert [each.number for each in news if type(each) is Ready] == [1, 2]


@pytest.mark.parametrize("comes_from", ["detectors", "node"])
def test_a_reader_of_an_old_log_gets_a_gap_where_changes_had_no_subscriber(comes_from: str) -> None:
    broker = Broker("b", 1, 0, types=TYPES, log=Log(77, lambda offset, size: ()), peers=("z",), publications=["Pong"])
    talk = Talk(broker)
    node = Client(talk, "node", "z", Interest(1, raw=["Ping"], keeps=True))
    kind = "Pong" if comes_from == "detectors" else "Ping"

    def happens(number: int) -> None:
        if comes_from == "detectors":
            broker.publish(Batch({"Pong": Delta([Ping(ts=number, id=number, source="p")])}), talk.now)
        else:
            head, block = block_of(number)
            node.say(Changes(None, None, [head], 5, number), block)
        talk.go(4)

    talk.go(12)
    first = Client(talk, "subscriber", "s", Interest(1, [kind]))
    talk.go(6)
    happens(1)
    first.link.bye("done")
    talk.go(6)
    happens(2)
    second = Client(talk, "subscriber", "t", Interest(1, [kind]))
    talk.go(6)
    happens(3)
    assert len(read_by(second)) == 1
    again = Client(talk, "subscriber", "s", Interest(1, [kind], line=77), epoch=2)
    talk.go(10)
    news = [each for each in again.got if type(each) is Gap or (type(each) is Changes and each.blocks)]
    assert [type(each) for each in news] == [Gap, Changes, Gap, Changes], "it was forgotten; then each block, and the break"
    assert len(read_by(again)) == 2, "what came while nobody subscribed to it is in no log"
    restored = Log(77, lambda offset, size: ())
    for record in talk.records:
        restored.passed(record)
    assert restored.state() == broker.log.state() | {"readers": restored.state()["readers"]}


def test_a_node_learns_what_the_log_still_has_for_it_though_its_publisher_has_left():
    records: list[Record] = []
    talk = Talk(durable(peers=("z",), records=records))
    node = Client(talk, "node", "z", Interest(1, ["Ping"], keeps=True))
    publisher = Client(talk, "publisher", "p", Interest(1, raw=["Ping"]))
    talk.go(12)
    talk.clients.remove(node)  # it is cut off; meanwhile the publisher says all that it has to say, and leaves
    publisher.publish(Ping(ts=5, id=1, source="p"), clock=5, watermarks={"Ping": END})
    talk.go(6)
    publisher.link.bye("done")
    talk.go(12, SECOND)
    records += talk.records
    back = Client(talk, "node", "z", None, epoch=2)
    talk.go(4)
    assert back.logged() == [["Ping"]], "before it has announced what it has, too"
    back.say(Interest(1, ["Ping"], keeps=True, line=77))
    talk.go(10)
    changes = next(at for at, payload in enumerate(back.got) if type(payload) is Changes and payload.blocks)
    offers = [(at, payload.logged) for at, payload in enumerate(back.got) if type(payload) is Interest]
    assert all(logged == ["Ping"] for at, logged in offers if at < changes)
    assert back.logged()[-1] == [], "it has all of it"


def test_that_nothing_is_promised_any_more_is_announced_with_a_new_interest_too():
    peer = Peer("node", "z", Link("a", "node", 1, 0, dials=False), "z")
    sent: list[Any] = []
    peer.link.send = lambda parts: sent.append(decode_payload(parts).watermarks) or 1  # type: ignore[method-assign, func-returns-value]
    peer.post({"Ping": 5}, 1, NEVER, 0)
    peer.forget_watermarks()  # its Interest is new, and in the same step another publisher has opened the type
    peer.post({}, 2, NEVER, 0)
    assert sent == [{"Ping": 5}, {}]


@pytest.mark.parametrize("role", ["node", "publisher"])
def test_the_name_of_a_break_is_no_type(role):
    talk = Talk(Broker("b", 1, 0, log=Log(77, lambda offset, size: ()), peers=("z",)))
    Client(talk, "node", "z", Interest(1, keeps=True))
    talk.go(6)
    peer = talk.clients[0] if role == "node" else Client(talk, "publisher", "p", Interest(1))
    peer.say(Changes(None, None, [BlockHead(BREAK, 1)]), b"\x90")
    talk.go(6)
    assert talk.broker.drops["a reserved type"] == 1
    assert talk.broker.log.offset == 0


@pytest.mark.parametrize("step", [1900 * MILLISECOND, 2500 * MILLISECOND])
def test_a_node_of_long_steps_drops_a_dead_peer(step):
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


def test_a_name_that_comes_with_a_later_interest_counts_too():
    talk = Talk(durable())
    for number in range(MOST_NAMES - 3):
        talk.broker.log.subscribed(("subscriber", f"before{number}"), Interest(1, ["Ping"], resumes=True))
    readers = [Client(talk, "subscriber", f"s{number}", Interest(1, ["Ping"])) for number in range(6)]
    talk.go(6)
    for reader in readers:
        reader.say(Interest(2, ["Ping"], resumes=True))
    talk.go(6)
    assert sum(reader.named for reader in talk.broker.log.readers.values()) == MOST_NAMES


def test_names_are_counted_by_key_and_can_be_released_by_their_owner_alone():
    log = Log(1, lambda offset, size: [])
    wants = Interest(1, ["Ping"], resumes=True)
    for number in range(MOST_NAMES):
        log.subscribed(("subscriber", f"evil-{number}"), wants, "evil")
    log.subscribed(("subscriber", "sink"), wants, "alice")
    assert "--release NAME" in str(log.objection(("subscriber", "evil-more"), wants, "evil"))
    assert log.objection(("subscriber", "another"), wants, "alice") is None, "a key has names of its own"
    log.released(["sink", "evil-*"], "bob", ())
    assert len(log.readers) == MOST_NAMES + 1, "names of others"
    log.released(["evil-1*"], "evil", {("subscriber", "evil-10")})
    left = sum(not str(number).startswith("1") for number in range(MOST_NAMES)) + 2
    assert len(log.readers) == left, "all that begin so, but for one that is attached"
    assert log.objection(("subscriber", "evil-more"), wants, "evil") is None
    record = log.close({})
    assert record is not None
    again = Log(1, lambda offset, size: [])
    again.passed(record)
    assert again.readers.keys() == log.readers.keys()
    assert "Ping" in log.subscriptions()
    log.released(["*"], "evil", ())
    log.released(["*"], "alice", ())
    assert not log.readers and not log.subscriptions()


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


def test_the_wall_clock_may_be_set_right_while_a_node_runs():
    hour = 3_600 * SECOND
    talk = Talk(Broker("b", 1, 0, types=TYPES))
    talk.broker.wall_is(10 * hour, talk.now)
    publisher = Client(talk, "publisher", "p", Interest(1, raw=["Ping"]))
    talk.go(6)
    publisher.publish(Ping(ts=20 * hour, id=1, source="p"))
    talk.go(2)
    assert talk.broker.drops["too far ahead"] == 1
    talk.broker.wall_is(20 * hour, talk.now)
    publisher.publish(Ping(ts=20 * hour, id=1, source="p"))
    talk.go(2)
    assert talk.broker.drops["too far ahead"] == 1


def test_a_node_that_was_taken_out_of_the_configuration_is_waited_for_no_longer():
    talk = Talk(durable(peers=("z",)))
    node = Client(talk, "node", "z", Interest(1, derived=["Ping"], keeps=True))
    talk.go(12)
    node.say(Changes(None, {"Ping": 5}, []))
    talk.go(4)
    stays, goes = durable(peers=("z",)), durable()
    for broker in (stays, goes):
        recover(broker, None, TYPES, None, talk.records)
    assert [closed.reason for closed in goes.settle(talk.now).closed] == ["is not in the configuration any more"]
    assert goes.waiting([]).streams["Ping"].origins == []
    assert [origin.name for origin in stays.waiting([]).streams["Ping"].origins] == ["z"]


def test_a_reader_is_notified_when_the_log_is_cut_off_under_it():
    kept: list[Record] = []
    talk = Talk(durable(records=kept))
    talk.records = kept
    publisher = Client(talk, "publisher", "p", Interest(1, raw=["Ping"]))
    talk.go(6)
    for number in range(1, 9):
        publisher.publish(Ping(ts=number, id=number, source="p"), clock=number)
        talk.go(1)
        talk.broker.log.kept(talk.broker.log.number)
    peer = Peer("subscriber", "s", Link("b", "node", 9, 0, dials=False), "s")
    peer.patterns, peer.behind = frozenset({"Ping"}), 2
    sent: list[Any] = []
    peer.link.send = lambda parts: sent.append(decode_payload(parts)) or 1  # type: ignore[method-assign, func-returns-value]
    talk.broker.log.oldest = 5  # retention, at its limit, before it was served
    kept[:] = [record for record in kept if record.first >= 5]
    serve(peer, talk.broker.log, talk.now)
    peer.post(None, -1, NEVER, talk.now)
    assert [type(each) for each in sent][:1] == [Gap] and sent[0].offset == 5
    assert sum(head.inserts for each in sent if type(each) is Changes for head in each.blocks) == 3


def test_the_place_of_a_subscription_belongs_to_the_key_that_took_it():
    log = Log(77, lambda offset, size: [])
    key = ("subscriber", "billing")
    log.subscribed(key, Interest(1, ["Ping"], resumes=True), "alice")
    assert log.objection(key, Interest(1, ["Ping"], resumes=True), "alice") is None
    assert "belongs to another key" in str(log.objection(key, Interest(1, ["Ping"], resumes=True), "bob"))
    assert "take another name" in str(log.objection(key, Interest(1, ["Ping"]), "alice"))
    again = Log(77, lambda offset, size: [])
    again.restore(log.state())
    assert "belongs to another key" in str(again.objection(key, Interest(1, ["Ping"], resumes=True), "bob"))
    record = log.close({})
    assert record is not None
    replayed = Log(77, lambda offset, size: [])
    replayed.passed(decode_record(encode_record(record)))
    assert "belongs to another key" in str(replayed.objection(key, Interest(1, ["Ping"], resumes=True), "bob"))


def test_while_the_disk_stalls_repeated_frames_are_buffered_once():
    broker = durable()
    core, now = DurableCore(broker, None, TYPES), 0
    broker.log.subscribed(("subscriber", "s"), Interest(1, ["Ping"]))  # to be stored, which it never is
    publisher = Link("p", "publisher", 1, 0, dials=True, durable=True)
    publisher.greeting = [encode(Interest(1, raw=["Ping"]))]
    for _ in range(2_000):  # it says Hello again and again, and nothing of what it is answered leaves
        now += STEP
        publisher.tick(now)
        for parts in publisher.outbox:
            broker.receive("p", parts, now)
        publisher.outbox.clear()
        assert not core.settle(now)[0].sends
    assert len(core.stored(core.log.number).sends) < 100
