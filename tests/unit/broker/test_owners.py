"""Whose a source is, and what a key may do: at one broker, and after a restart of it."""

from __future__ import annotations

import pytest

from middleware.broker.broker import Broker
from middleware.broker.ingress.checks import Ingress
from middleware.broker.ingress.owners import MOST_REPORTED, Owners
from middleware.broker.ingress.receipts import REJECTIONS
from middleware.broker.log.history import EVERY, History
from middleware.broker.log.log import Log
from middleware.broker.log.log_records import Record
from middleware.broker.peers.rights import Rights, Sender, sender_of
from middleware.durability import lives
from middleware.link.codec import BlockHead, Changes, Drops, EventCodec, Gap, Interest, Payload, decode_payload, encode
from middleware.link.columnar import pack_columns
from middleware.link.encoding import encode_delta
from middleware.link.frames import VERSION, Hello, decode_frame
from middleware.link.link import Link
from middleware.model.block.block import Block
from middleware.model.change import Delta
from middleware.model.event import Event, EventTypes
from middleware.model.time import MILLISECOND, SECOND

STEP = 20 * MILLISECOND


class Ping(Event):
    value: int = 0


class Pong(Event):
    value: int = 0


TYPES = EventTypes([Ping, Pong])


def ping(number: int, source: str = "p", value: int = 0) -> Ping:
    return Ping(value, ts=100 + number, id=number, source=source)


class Client:
    """A client at the other end of a link, which sends nothing while it is ``silent``."""

    def __init__(self, talk: Talk, name: str, key: str | None = None, role: str = "publisher", shares: bool = False) -> None:
        self.channel = f"to {name}"
        self.link = Link(name, role, talk.now + 1, talk.now, dials=True)  # type: ignore[arg-type]
        self.link.shares, self.silent = shares, False
        self.got: list[tuple[Payload, list[bytes]]] = []
        if key is not None:
            talk.keys[self.channel] = key
        talk.clients.append(self)

    def change(self, delta: Delta, name: str = "Ping") -> None:
        for head, block in encode_delta(name, delta, raw=True):
            self.link.send([encode(Changes(None, None, [head])), block])

    def take(self, parts: list[bytes], now: int) -> None:
        payload = self.link.receive(decode_frame(parts[0]), parts[1:], now)
        if payload is not None:
            self.got.append((decode_payload(payload), payload[1:]))
            self.link.consume()

    def publish(self, *events: Event) -> None:
        self.change(Delta(list(events)), type(events[0]).__name__)


class Talk:
    """A broker and its clients, step by step. ``rights``: by the name of the key. ``rejected``: what the broker rejected."""

    def __init__(self, rights: dict[str, Rights] | None = None, log: Log | None = None, types: EventTypes = TYPES) -> None:
        self.rights, self.keys = rights or {}, dict[object, str]()
        self.now, self.clients = 0, list[Client]()
        self.rejected: list[tuple[str, str, int, str]] = []
        self.admitted: list[Event] = []
        self.broker = Broker("a", 10, 0, types=types, subscriptions=["Ping"], log=log, rights=self._rights_of)
        self.broker.wall_is(10**6 * SECOND, 0)

    def _rights_of(self, channel: object) -> Rights | None:
        return self.rights.get(self.keys.get(channel, ""))

    def run(self, duration: int = SECOND // 5) -> None:
        until = self.now + duration
        while self.now < until:
            self.now += STEP
            for client in self.clients:
                if not client.silent:
                    client.link.tick(self.now)
                    client.link.settle(self.now)
                    for parts in client.link.outbox:
                        self.broker.receive(client.channel, parts, self.now)
                client.link.outbox.clear()
            if (batch := self.broker.take(self.now)) is not None:
                self.admitted += batch.deltas.get("Ping", Delta()).inserts
            effects = self.broker.settle(self.now)
            self.rejected += [(each.reason, each.change, each.id, each.details) for each in effects.rejected]
            for client in self.clients:
                for channel, parts in effects.sends:
                    if channel == client.channel and not client.silent:
                        client.take(parts, self.now)


def test_a_source_belongs_to_the_publisher_that_sent_it_first_while_that_one_is_live() -> None:
    talk = Talk()
    honest, other = Client(talk, "honest"), Client(talk, "other")
    honest.publish(ping(1))
    talk.run()
    other.publish(ping(2), ping(1, "own"))
    talk.run()
    assert talk.rejected == [("source", "insert", 2, "source 'p' belongs to publisher honest")]
    assert [(event.source, event.id) for event in talk.admitted] == [("p", 1), ("own", 1)]
    assert talk.broker.statistics().attempts == {"p": 1}
    accounts = {peer.name: peer.account.answer(1) for peer in talk.broker.attachments.peers.values()}
    assert accounts["other"].rejected == {REJECTIONS["source"]: 1}
    assert accounts["other"].samples[0].details == "source 'p' belongs to publisher honest"
    honest.publish(ping(2))
    talk.run()
    assert [event.id for event in talk.admitted] == [1, 1, 2], "what was refused to another has used up no identity"
    honest.silent = True  # killed: no heartbeat comes
    talk.run(2 * SECOND)
    again = Client(talk, "its next life")
    again.publish(ping(2), ping(3))
    talk.run(SECOND)  # until the others have sent something
    assert [event.id for event in talk.admitted] == [1, 1, 2, 3]


def test_events_of_others_are_neither_revised_nor_withdrawn() -> None:
    talk = Talk()
    honest, other = Client(talk, "honest"), Client(talk, "other")
    honest.publish(ping(1), ping(2))
    talk.run()
    other.change(Delta(revises=[(ping(1), ping(1, value=9))], retracts=[ping(2)]))
    other.change(Delta([ping(7, "q")], retracts=[ping(1)]))
    talk.run()
    assert [(change, number) for _, change, number, _ in talk.rejected] == [("revise", 1), ("retract", 2), ("retract", 1)]
    assert [event.id for event in talk.admitted] == [1, 2, 7]


def test_publishers_that_share_send_the_sources_of_each_other() -> None:
    talk = Talk()
    for number in range(3):
        Client(talk, f"task {number}", shares=True).publish(ping(number))
    talk.run()
    assert talk.rejected == [] and len(talk.admitted) == 3


def test_a_key_keeps_its_sources_while_it_is_away_and_whatever_its_publisher_is_called() -> None:
    talk = Talk({"a": Rights("a"), "b": Rights("b")})
    first = Client(talk, "first", "a")
    first.publish(ping(1))
    talk.run()
    first.link.bye("done")
    talk.run()
    Client(talk, "other", "b", shares=True).publish(ping(2))
    Client(talk, "second", "a").publish(ping(3))
    talk.run()
    assert [event.id for event in talk.admitted] == [1, 3]
    assert [details for *_, details in talk.rejected] == ["source 'p' belongs to key a"]


def test_a_reserved_source_is_its_keys_whoever_sent_it_before() -> None:
    talk = Talk({"a": Rights("a"), "b": Rights("b")})
    taken = Client(talk, "early", "b")
    taken.publish(ping(1))
    talk.run()
    talk.rights |= {"a": Rights("a", sources=frozenset({"p*"})), "b": Rights("b", others=frozenset({"p*"}))}
    talk.broker.read_rights_again()
    owner = Client(talk, "owner", "a")
    owner.publish(ping(2), ping(1, "q"))
    taken.publish(ping(3), ping(1, "r"))
    talk.run()
    assert sorted((event.source, event.id) for event in talk.admitted) == [("p", 1), ("p", 2), ("r", 1)]
    assert sorted(details for *_, details in talk.rejected) == [
        "key a may publish no sources but p*, so not 'q'",
        "source 'p' belongs to another key in the allow-list",
    ]


def test_a_key_publishes_and_promises_its_types_only() -> None:
    talk = Talk({"a": Rights("a", publish=frozenset({"Pong"}))})
    client = Client(talk, "client", "a")
    client.link.send([encode(Interest(1, raw=["Ping", "Pong"]))])
    client.link.send([encode(Changes(None, {"Ping": 50, "Pong": 60}, []))])
    client.publish(ping(1))
    client.publish(Pong(ts=100, id=1, source="p"))
    talk.run()
    assert [(reason, details) for reason, _, _, details in talk.rejected] == [("right", "key a may publish Pong, not Ping")]
    assert {name: stream.promised for name, stream in talk.broker.waiting([]).streams.items()} == {"Pong": 60}


def test_rights_that_are_read_again_apply_to_what_is_offered_and_read() -> None:
    talk = Talk({"a": Rights("a"), "b": Rights("b")})
    Client(talk, "client", "a").link.send([encode(Interest(1, raw=["Ping", "Pong"]))])
    reader = Client(talk, "reader", "b", "subscriber")
    reader.link.send([encode(Interest(1, ["Ping"]))])
    talk.run()
    assert set(talk.broker.waiting([]).streams) == {"Ping", "Pong"}
    talk.rights |= {"a": Rights("a", publish=frozenset({"Ping"})), "b": Rights("b", read=frozenset({"Pong"}))}
    talk.broker.read_rights_again()
    talk.run()
    assert talk.broker.tracker.raw_here() == {"Ping"}
    assert reader.link.closed is not None and "may not read Ping" in reader.link.closed


READ = [(["a.X"], True), (["a.*", "B"], True), (["a.b.*"], True), (["*"], False), (["B.C"], False)]


@pytest.mark.parametrize(("patterns", "may"), READ)
def test_a_key_reads_what_its_patterns_cover(patterns: list[str], may: bool) -> None:
    against = Rights("a", read=frozenset({"a.*", "B"})).objection_to_reading(patterns)
    assert (against is None) == may, against


def _ways(events: list[Ping]) -> list[list[tuple[object, bytes]]]:
    columns = Block.from_events(Ping, events)
    ((head, _),) = encode_delta("Ping", Delta(list(events)), raw=True)
    head.columns, head.form = True, None
    return [
        encode_delta("Ping", Delta(list(events)), raw=True),  # type: ignore[list-item]
        encode_delta("Ping", Delta(list(events)), raw=True, runs=[("p", 1, 2), ("q", 1, 1)]),  # type: ignore[list-item]
        [(head, pack_columns(columns.batch))],
    ]


@pytest.mark.parametrize("types", [TYPES, EventTypes()], ids=["known", "unknown"])
@pytest.mark.parametrize("decode", [True, False])
@pytest.mark.parametrize("way", range(3))
def test_what_others_own_is_skipped_in_every_form_of_a_block(types: EventTypes, decode: bool, way: int) -> None:
    ingress = Ingress(types, EventCodec(types), Drops())
    ingress.owners = Owners(lambda name: True)
    owner, other = Sender("publisher owner"), Sender("publisher other")
    ingress.admit(*encode_delta("Ping", Delta([ping(9, "q")]), raw=True)[0], decode, sender=owner)
    ((head, block),) = _ways([ping(1), ping(1, "q"), ping(2)])[way]
    admitted = ingress.admit(head, block, decode and bool(len(types)), sender=other)  # type: ignore[arg-type]
    assert sum(part.count for part, _, _ in admitted) == 2
    kept = [EventCodec(TYPES).decode(part, data, Drops()).inserts for part, data, _ in admitted]
    assert [(event.source, event.id) for events in kept for event in events] == [("p", 1), ("p", 2)]
    assert [(each.reason, each.source, each.id) for each in ingress.rejected] == [("source", "q", 1)]
    assert ("q", 1) not in ingress.seen


def test_a_row_that_is_no_event_is_not_asked_whose_it_is() -> None:
    ingress = Ingress(EventTypes(), EventCodec(EventTypes()), Drops())
    ingress.owners = Owners(lambda name: True)
    ingress.owners.objection("q", Sender("publisher owner"))
    (event,) = (ping(1, "q"),)
    block = encode([[], event, [1, "q", 0]])
    assert ingress.admit(BlockHead("Ping", 3), block, False, sender=Sender("publisher other")) == []
    assert [(each.reason, each.source) for each in ingress.rejected] == [("source", "q")]
    assert ingress.drops == {"malformed event": 2}


def test_sources_of_keys_outlive_the_node_and_those_of_publishers_do_not() -> None:
    log = Log(1, lambda offset, size: [])
    talk = Talk({"a": Rights("a"), "b": Rights("b")}, log)
    Client(talk, "first", "a").publish(ping(1, "before"))
    talk.run()
    checkpoint, begun = (lives.state_of(talk.broker), log.state()), log.close({})
    assert begun is not None
    talk.clients[0].publish(ping(1, "after"))
    talk.run()
    record = log.close({}, even_empty=True)
    assert record is not None
    log = Log(1, lambda offset, size: [begun])
    log.restore(checkpoint[1])
    log.number, log.offset = begun.number, record.first
    again = Talk({"a": Rights("a"), "b": Rights("b")}, log)
    lives.restore(again.broker, checkpoint[0])
    lives.replay(again.broker, record)
    lives.resume(again.broker)
    Client(again, "other", "b").publish(ping(2, "before"), ping(2, "after"))
    again.run()
    assert [why for *_, why in again.rejected] == [
        "source 'before' belongs to key a",
        "source 'after' belongs to key a",
    ]


def test_attempts_are_counted_for_so_many_sources_and_no_more() -> None:
    owners = Owners(lambda name: True)
    for number in range(MOST_REPORTED + 10):
        owners.rejected(f"s{number}")
    owners.rejected("s0")
    assert len(owners.attempts) == MOST_REPORTED and owners.attempts["s0"] == 2


def test_the_sender_is_the_key_or_the_publisher() -> None:
    assert sender_of("x", None, True) == Sender("publisher x", None, True)
    assert sender_of("x", Rights("k"), True) == Sender("key k", Rights("k"), False)


def test_hello_says_whether_a_publisher_shares() -> None:
    link = Link("x", "publisher", 1, 0, dials=True)
    link.shares = True
    link.tick(SECOND)
    hello = decode_frame(link.outbox[0][0])
    assert isinstance(hello, Hello) and hello.shares and hello.version == VERSION


def test_history_limits_how_far_back_a_key_reads() -> None:
    history = History()
    for minute in range(10):
        history.note(minute * EVERY, 10 * minute)
        history.note(minute * EVERY + EVERY // 2, 10 * minute + 5)
    assert [history.since(at, 99) for at in (-1, 0, EVERY, EVERY + 1, 9 * EVERY - 1, 9 * EVERY)] == [0, 10, 20, 20, 90, 99]
    assert History().since(0, 99) == 99, "nothing is known of what came when"


def test_a_reader_gets_no_more_of_the_log_than_its_key_may_read() -> None:
    records: list[Record] = []
    log = Log(1, lambda offset, size: [record for record in records if record.first + len(list(record.blocks())) > offset])
    talk = Talk({"new": Rights("new", history=5 * EVERY), "all": Rights("all")}, log)
    writer = Client(talk, "writer")
    got: dict[str, list[int]] = {}
    for number in range(1, 4):
        talk.broker.history.note(10**6 * SECOND + talk.now + number * 10 * EVERY, log.offset)
        writer.publish(ping(number))
        talk.run()
        records.append(log.close({}))  # type: ignore[arg-type]
    talk.broker.wall_is(10**6 * SECOND + talk.now + 32 * EVERY, talk.now)
    for name in ("new", "all"):
        reader = Client(talk, name, name, "subscriber")
        reader.link.send([encode(Interest(1, ["Ping"], line=1, offset=0))])
        talk.run(SECOND)
        read = [part for part in reader.got if type(part[0]) is Changes]
        got[name] = [head.count for changes, _ in read for head in changes.blocks]  # type: ignore[union-attr]
        (gap,) = [part[0] for part in reader.got if type(part[0]) is Gap]
        assert gap.offset == (2 if name == "new" else 0)
    assert got == {"new": [1], "all": [1, 1, 1]}
