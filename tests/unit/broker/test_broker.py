"""What a broker forwards, to whom, what it promises, and what it lets in. On a network without faults."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from middleware.broker.broker import Broker
from middleware.broker.ingress.checks import Ingress
from middleware.broker.ingress.publisher_rows import Bounds, newest_in
from middleware.broker.peers.peers import SPREAD
from middleware.broker.startup_barrier import GATHER
from middleware.delivery.subscription import Subscription
from middleware.link.codec import MAX_FRAME, BlockHead, Changes, EventCodec, encode
from middleware.link.columnar import pack_columns
from middleware.link.encoding import encode_delta
from middleware.link.frames import Hello, Refusal, decode_frame, encode_frame
from middleware.link.link import LinkStatistics
from middleware.model.block.block import Block
from middleware.model.change import Batch, Delta
from middleware.model.errors import EventError
from middleware.model.event import END, NEVER, Event, EventTypes
from middleware.model.time import MILLISECOND, SECOND
from middleware.testing.simulation.network import SimulatedNode, SimulatedPublisher, SimulatedSubscriber, Simulation


class Ping(Event):
    text: str = ""


class Pong(Event):
    pass


TYPES = EventTypes([Ping, Pong])


def ping(number: int, source: str = "p", text: str = "", level: int = 0) -> Ping:
    return Ping(text, ts=100 + number, id=number, source=source, level=level)


def frames_to(node: SimulatedNode, name: str) -> LinkStatistics:
    return next(peer.link for peer in node.broker.statistics().peers if peer.name == name)


class Mesh:
    """Three nodes; b derives a Pong from each Ping."""

    def __init__(self) -> None:
        self.simulation = Simulation(0)
        self.a = SimulatedNode(self.simulation, "a", "abc", TYPES)
        self.b = SimulatedNode(self.simulation, "b", "abc", TYPES, reads=["Ping"], derives=["Pong"], process=self.pong)
        self.c = SimulatedNode(self.simulation, "c", "abc", TYPES)
        self.simulation.run(SECOND)

    @staticmethod
    def pong(batch: Batch) -> list[Batch]:
        pings = batch.deltas.get("Ping", Delta()).inserts
        pongs = [Pong(ts=e.ts, id=e.id, source="pong", level=1) for e in pings]
        return [Batch({"Pong": Delta(pongs)}, {"Pong": batch.watermarks["Ping"]} if "Ping" in batch.watermarks else {})]

    def subscriber(self, name: str, node: str, *patterns: str) -> SimulatedSubscriber:
        found = SimulatedSubscriber(self.simulation, name, node, patterns, TYPES)
        assert self.simulation.run_until(lambda: found.ready, 10 * SECOND)
        return found


def test_of_each_pair_of_nodes_one_link_results() -> None:
    mesh = Mesh()
    for node, others in ((mesh.a, "bc"), (mesh.b, "ac"), (mesh.c, "ab")):
        assert sorted((p.name, p.up) for p in node.broker.statistics().peers) == [(other, True) for other in others]


def test_events_go_to_a_peer_once_and_only_if_someone_there_wants_them() -> None:
    mesh = Mesh()
    subscribers = [mesh.subscriber(f"s{i}", "a", "Ping", "*") for i in range(3)]
    publisher = SimulatedPublisher(mesh.simulation, "p", "a")
    before_b, before_c = frames_to(mesh.a, "b").bytes_out, frames_to(mesh.a, "c").bytes_out
    events = [ping(n, text="x" * 1_000) for n in range(10)]
    publisher.publish(list(events))
    mesh.simulation.run(SECOND)
    for subscriber in subscribers:
        assert [e for e in subscriber.events if isinstance(e, Ping)] == events
        assert len([e for e in subscriber.events if isinstance(e, Pong)]) == 10
    assert 10_000 < frames_to(mesh.a, "b").bytes_out - before_b < 13_000
    assert frames_to(mesh.a, "c").bytes_out - before_c < 500


def test_watermark_is_the_least_over_all_origins_and_follows_the_events() -> None:
    mesh = Mesh()
    subscriber = mesh.subscriber("s", "c", "Ping", "Pong")
    one, other = (SimulatedPublisher(mesh.simulation, f"p{n}", n, [Ping]) for n in "ab")
    mesh.simulation.run(SECOND)
    assert subscriber.watermarks == {"Ping": NEVER, "Pong": NEVER}
    one.publish([ping(1, "one")])
    one.advance(Ping, 150)
    mesh.simulation.run(SECOND)
    assert "Ping" not in mesh.b.batches[-1].watermarks, "the other publisher has promised nothing yet: open"
    other.advance(Ping, 120)
    mesh.simulation.run(SECOND)
    assert mesh.b.batches[-1].watermarks == {"Ping": 120}
    assert subscriber.watermarks == {"Ping": 120, "Pong": 120}
    one.advance(Ping, END)
    other.link.bye("leaves")
    mesh.simulation.run(SECOND)
    assert mesh.b.batches[-1].watermarks == {"Ping": END}
    assert subscriber.watermarks == {"Ping": END, "Pong": END}
    SimulatedPublisher(mesh.simulation, "p3", "c", [Ping])
    mesh.simulation.run(SECOND)
    assert mesh.b.batches[-1].watermarks == {}, "open again"


def test_clock_marks_reach_nodes_that_read_nothing_of_it_and_not_too_often() -> None:
    simulation = Simulation(0)
    SimulatedNode(simulation, "a", "ab", TYPES)
    reader = SimulatedNode(simulation, "b", "ab", TYPES, reads=["Pong"])
    publisher = SimulatedPublisher(simulation, "p", "a")
    simulation.run(SECOND)
    frames = frames_to(reader, "a").frames_in
    numbers = iter(range(10_000))
    simulation.run(SECOND, lambda: publisher.publish([ping(next(numbers))]))
    assert reader.batches[-1].clock is not None
    assert reader.batches[-1].clock > 150
    assert not any(batch.deltas for batch in reader.batches)
    assert frames_to(reader, "a").frames_in - frames <= SECOND // SPREAD + 1


def test_an_event_too_large_for_a_frame_is_dropped_and_the_rest_is_sent() -> None:
    simulation = Simulation(0)
    node = SimulatedNode(simulation, "a", (), TYPES, derives=["Ping"])
    subscriber = SimulatedSubscriber(simulation, "s", "a", ["Ping"], TYPES)
    simulation.run(SECOND)
    node.broker.publish(Batch({"Ping": Delta([ping(1), ping(2, text="x" * MAX_FRAME), ping(3)])}), simulation.now)
    simulation.run(SECOND)
    assert subscriber.events == [ping(1), ping(3)]
    assert node.broker.drops == {"oversized event": 1}


def test_the_wait_for_a_node_that_never_comes_expires() -> None:
    simulation = Simulation(0)
    node = SimulatedNode(simulation, "a", "ab", TYPES, reads=["Ping"])
    publisher = SimulatedPublisher(simulation, "p", "a")
    publisher.publish([ping(1)])
    simulation.run(GATHER - SECOND)
    assert not any(batch.deltas for batch in node.batches)
    assert node.broker.statistics().gathering == ["b"]
    simulation.run(2 * SECOND)
    assert [batch.deltas["Ping"] for batch in node.batches if batch.deltas] == [Delta([ping(1)])]
    assert node.broker.statistics().gathering == []
    assert node.broker.drops == {"peers never seen": 1}


def test_one_batch_takes_all_that_has_arrived() -> None:
    simulation = Simulation(0)
    node = SimulatedNode(simulation, "a", (), TYPES, reads=["Ping"])
    publishers = [SimulatedPublisher(simulation, f"p{n}", "a") for n in range(3)]
    simulation.run(SECOND)
    for publisher in publishers:
        for number in range(4):
            publisher.publish([ping(number, publisher.name)])
    simulation.run(SECOND)
    [batch] = [batch for batch in node.batches if batch.deltas]
    assert len(batch.deltas["Ping"]) == 12
    assert batch.clock == 103


def test_a_closing_broker_sends_what_it_has_and_says_goodbye() -> None:
    mesh = Mesh()
    subscriber = mesh.subscriber("s", "b", "Pong")
    publisher = SimulatedPublisher(mesh.simulation, "p", "b")
    mesh.simulation.run(SECOND)
    publisher.publish([ping(1)])
    assert mesh.simulation.run_until(lambda: publisher.idle, SECOND)
    mesh.b.broker.close("maintenance", mesh.simulation.now)
    publisher.publish([ping(2)])
    assert mesh.simulation.run_until(lambda: mesh.b.broker.drained, 10 * SECOND)
    mesh.simulation.run(100 * MILLISECOND)
    assert [event.id for event in subscriber.events] == [1]
    assert subscriber.link.closed == "said goodbye: maintenance"
    assert publisher.waiting or not publisher.link.idle, "what came too late was not acknowledged"
    assert [(closed.name, closed.reason) for closed in mesh.a.closed] == [("b", "said goodbye: maintenance")]


def test_subscribers_may_not_publish() -> None:
    mesh = Mesh()
    subscriber = mesh.subscriber("s", "a", "Ping")
    [(head, block)] = encode_delta("Ping", Delta([ping(1)]))
    subscriber.link.send([encode(Changes(None, None, [head])), block])
    mesh.simulation.run(SECOND)
    assert subscriber.events == []
    assert mesh.a.broker.drops == {"changes from a subscriber": 1}


@pytest.fixture
def ingress() -> Ingress:
    return Ingress(TYPES, EventCodec(TYPES), Counter())


def block(events: list[Event], runs: list[tuple[str, int, int]] | None = None) -> tuple[BlockHead, bytes]:
    return BlockHead("Ping", len(events), runs=runs), encode(events)


def test_the_fields_of_a_block_that_names_new_identities_pass_unread(ingress: Ingress) -> None:
    head, _ = block([ping(1), ping(2)], [("p", 1, 2)])
    head.oldest, head.newest = 1, 200
    rows = encode([[{"what": ["ever"]}, 102, 2, "p", 0], [None, 101, 1, "p", 0]])
    [(admitted, data, delta)] = ingress.admit(head, rows, decode=False)
    assert (admitted.raw, admitted.runs, data, delta) == (True, None, rows, None)
    assert (admitted.oldest, admitted.newest) == (101, 102), "as they are, whatever the head says"


@pytest.mark.parametrize("types", [TYPES, EventTypes()], ids=["known", "unknown"])
@pytest.mark.parametrize("in_columns", [False, True])
@pytest.mark.parametrize(
    "runs", [[("p", 1, 2)], [("q", 1, 1), ("p", 7, 7)], [("p", 1, 1), ("p", 6, 6)], [("p", 1, 1), ("p", 7, 8)]]
)
def test_the_events_of_a_block_are_forwarded_and_not_what_its_head_announces(
    types: EventTypes, in_columns: bool, runs: list[tuple[str, int, int]]
) -> None:
    ingress = Ingress(types, EventCodec(types), Counter())
    events: list[Event] = [ping(1), ping(7)]
    head, data = block(events, runs)
    head.oldest, head.newest, head.columns = 101, 107, in_columns
    if in_columns:
        data = pack_columns(Block.from_events(Ping, events).batch)
    assert [part.count for part, _, _ in ingress.admit(head, data, decode=False)] == [2]
    assert [number for number in range(10) if ("p", number) in ingress.seen] == [1, 7]
    assert ("q", 1) not in ingress.seen
    assert ingress.admit(*block([ping(7)], [("p", 9, 9)]), decode=False) == [] and ingress.drops == {"duplicate": 1}


def test_the_times_in_a_head_move_no_clock_and_let_nothing_in() -> None:
    ingress = Ingress(EventTypes(), EventCodec(EventTypes()), Counter())
    for number, (oldest, newest) in enumerate(((-5, 150), (140, 150), (100, 10**9)), 1):
        head, data = block([ping(number)], [("p", number, number)])
        head.oldest, head.newest = oldest, newest
        ((admitted, kept, delta),) = ingress.admit(head, data, False, Bounds(50, 10**6 if newest < 10**6 else 10**10))
        assert newest_in(admitted, kept, delta, 10**10) == 100 + number
    head, data = block([ping(4)], [("p", 4, 4)])
    head.oldest, head.newest = 900, 910
    assert ingress.admit(head, data, False, Bounds(800)) == []
    assert [each.reason for each in ingress.rejected] == ["late"]


def test_changes_of_a_type_that_is_not_known_are_of_events_that_came() -> None:
    ingress = Ingress(EventTypes(), EventCodec(EventTypes()), Counter())
    ingress.admit(*block([ping(1), ping(2)]), decode=False)
    delta = Delta(
        [ping(2), ping(3)],
        [(ping(1), ping(1, text="new")), (ping(5), ping(5)), (ping(1), ping(2))],
        [ping(2), ping(9)],
    )
    (part,) = encode_delta("Ping", delta)
    [(head, data, _)] = ingress.admit(*part, decode=False)
    kept = EventCodec(TYPES).decode(head, data, Counter())
    assert kept == Delta([ping(3)], [(ping(1), ping(1, text="new"))], [ping(2)])
    assert (head.inserts, head.revises, head.retracts) == (1, 1, 1)
    assert ingress.drops == {"duplicate": 1, "change to an event never seen": 3}
    bounds = Bounds(ping(1).ts)  # the promise includes its own time
    (part,) = encode_delta("Ping", Delta(revises=[(ping(1, text="new"), ping(1, text="newer"))]))
    assert ingress.admit(*part, decode=False, bounds=bounds) == []
    assert [each.reason for each in ingress.rejected] == ["late"]
    assert ingress.admit(BlockHead("Ping", 1, plain=False), b"\xc1", decode=False) == []


@pytest.mark.parametrize("runs", [[("p", 1, 2)], [("p", 1, 3)], [("", 1, 2)], [("p", 1, 1), ("p", 1, 1)], None])
@pytest.mark.parametrize("decode", [True, False])
def test_repeats_are_taken_out_whatever_the_block_claims(
    ingress: Ingress, runs: list[tuple[str, int, int]] | None, decode: bool
) -> None:
    assert len(ingress.admit(*block([ping(2)]), decode=True)) == 1
    [(head, data, delta)] = ingress.admit(*block([ping(1), ping(2)], runs), decode)
    assert delta == Delta([ping(1)])
    assert (head.inserts, data) == (1, encode([ping(1)]))
    assert ingress.admit(*block([ping(1), ping(2)], runs), decode) == []
    assert ingress.drops == {"duplicate": 3}


def test_events_without_source_and_changes_to_the_unseen_are_dropped(ingress: Ingress) -> None:
    assert ingress.admit(*block([ping(1, source=""), ping(2, level=1)]), decode=True) == []
    assert len(ingress.admit(*block([ping(3), ping(5)]), decode=True)) == 1
    delta = Delta(revises=[(ping(3), ping(3, text="new")), (ping(4), ping(4)), (ping(3), ping(4))], retracts=[ping(5), ping(9)])
    [(head, _, kept)] = [admitted for part in encode_delta("Ping", delta) for admitted in ingress.admit(*part, decode=False)]
    assert kept == Delta(revises=[(ping(3), ping(3, text="new"))], retracts=[ping(5)])
    assert head.count == 2
    assert ingress.drops == {"no source": 1, "level of a derived event": 1, "change to an event never seen": 3}


def revised(ingress: Ingress, old: Ping, new: Ping, bounds: Bounds) -> list[tuple[Ping, Ping]]:
    parts = encode_delta("Ping", Delta(revises=[(old, new)]))
    return [pair for part in parts for _, _, kept in ingress.admit(*part, True, bounds) if kept for pair in kept.revises]


def test_a_change_that_rests_on_a_rejected_one_is_rejected_too(ingress: Ingress) -> None:
    def at(ts: int) -> Ping:
        return replace(ping(1), ts=ts)

    ingress.admit(*block([at(50)]), decode=True)
    promised, further = Bounds(90), Bounds(90, 500)
    assert revised(ingress, at(50), at(150), promised) == []
    again = Ingress(TYPES, EventCodec(TYPES), Counter())  # a later life, which only knows what was rejected
    again.restore_rejection(ingress.rejected[0])
    for each in (ingress, again):
        assert revised(each, at(150), at(160), promised) == []
        assert [(rejected.reason, rejected.change, rejected.ts) for rejected in each.rejected][-1] == ("late", "revise", 160)
    ingress.admit(*block([ping(2)]), decode=True)
    assert revised(ingress, ping(2, text=""), replace(ping(2), ts=900), further) == []
    assert ingress.rejected[-1].reason == "ahead"
    assert revised(ingress, replace(ping(2), ts=900), replace(ping(2), ts=120), further) == []
    assert revised(ingress, ping(2), replace(ping(2), ts=400), further) == [(ping(2), replace(ping(2), ts=400))], (
        "it still is that"
    )


def test_a_change_of_another_event_than_the_one_of_that_name_is_a_clash(ingress: Ingress) -> None:
    def change(delta: Delta, name: str = "Ping") -> list[str]:
        before = len(ingress.rejected)
        for part in encode_delta(name, delta):
            ingress.admit(*part, decode=True)
        return [rejected.reason for rejected in ingress.rejected[before:]]

    ingress.admit(*block([ping(number) for number in range(1, 6)], [("p", 1, 5)]), decode=False)
    assert change(Delta(retracts=[replace(ping(1), ts=7)])) == ["clash"]
    assert ingress.rejected[-1].details == "Ping ('', 101, 1, 'p', 0) came first"
    assert change(Delta(retracts=[Pong(ts=101, id=1, source="p")]), "Pong") == ["clash"]
    assert change(Delta(revises=[(ping(1, text="other"), ping(1, text="new"))])) == ["clash"]
    assert change(Delta(revises=[(ping(1), ping(1, text="new"))])) == []
    assert change(Delta(retracts=[ping(1)])) == ["clash"], "it is another one since"
    assert change(Delta(retracts=[ping(1, text="new"), ping(2)])) == [] == change(Delta(retracts=[ping(2)]))
    assert ingress.drops == {"change made before": 1}


def test_changes_of_what_is_no_longer_known_are_taken(ingress: Ingress) -> None:
    """Events are kept for a while; and no more bytes are read to find them than have come in."""
    text = "x" * 2**20
    for number in range(1, 15):
        ingress.admit(*block([ping(number, text=text)]), decode=True)
    for number in (14, 13, 12, 1):
        [(_, _, kept)] = ingress.admit(*encode_delta("Ping", Delta(retracts=[ping(number)]))[0], decode=True) or [(0, 0, None)]
        assert (kept is None) == (number == 14), number


def test_a_broker_without_types_looks_for_repeats_too() -> None:
    ingress = Ingress(EventTypes(), EventCodec(EventTypes()), Counter())
    [(head, data, _)] = ingress.admit(*block([ping(1), ping(1), ping(2, level=1), ping(3)]), decode=False)
    assert (head.inserts, data) == (2, encode([ping(1), ping(3)]))
    assert ingress.admit(BlockHead("Ping", 1), b"\xc1", decode=False) == []
    assert ingress.admit(*block([ping(3)]), decode=False) == []
    assert ingress.drops == {"duplicate": 2, "malformed event": 1, "malformed block": 1}


def test_more_patterns_than_a_node_can_name_still_reach_every_reader() -> None:
    mesh = Mesh()
    honest = mesh.subscriber("honest", "a", "Ping")
    for reader in range(3):
        mesh.subscriber(f"many-{reader}", "a", *(f"pack{reader}.Type{number}" for number in range(6_000)))
    mesh.subscriber("later", "a", "Pong")
    publisher = SimulatedPublisher(mesh.simulation, "p", "c", [Ping])
    publisher.publish([ping(number) for number in range(10)])
    assert mesh.simulation.run_until(lambda: len(honest.events) == 10, 10 * SECOND)
    assert not mesh.c.broker.statistics().drops


def test_a_subscription_that_cannot_be_read_is_refused_and_not_left_waiting() -> None:
    mesh = Mesh()
    client = SimulatedSubscriber(mesh.simulation, "odd", "a", ["Ping"], TYPES)
    client.link.greeting = [encode([1, 1, ["Ping"], "unknown word", [], [], []])]
    assert mesh.simulation.run_until(lambda: client.link.closed is not None, 10 * SECOND)
    assert "cannot take its subscription" in str(client.link.closed)


def test_a_subscriber_with_too_many_patterns_hears_of_it_where_it_is_made() -> None:
    with pytest.raises(EventError, match="prefixes"):
        Subscription([f"Type{number}" for number in range(10_001)], EventCodec(TYPES))


def test_a_node_that_is_refused_dials_ever_more_rarely() -> None:
    broker, dialled = Broker("b", 1, 0, peers=["a"]), 0
    for now in range(0, 60 * SECOND, 10 * MILLISECOND):
        for channel, parts in broker.settle(now).sends:
            assert type(decode_frame(parts[0])) is Hello
            dialled += 1
            broker.receive(channel, [encode_frame(Refusal("not you", True))], now)
    assert 6 < dialled < 16


class Tagged(Event):
    tags: dict[str, int]
    any: object = None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Tagged({"a": 1, "b": 2}, ts=1, id=1, source="s"), Tagged({"b": 2, "a": 1}, ts=1, id=1, source="s")),
        (Tagged({}, 0.0, ts=1, id=1, source="s"), Tagged({}, -0.0, ts=1, id=1, source="s")),
        (Tagged({}, 1, ts=1, id=1, source="s"), Tagged({}, 1.0, ts=1, id=1, source="s")),
        (Tagged({}, float("nan"), ts=1, id=1, source="s"), Tagged({}, float("nan"), ts=1, id=1, source="s")),
    ],
)
def test_equal_events_are_the_same_however_they_are_written(one: Tagged, other: Tagged) -> None:
    types = EventTypes([Tagged])
    ingress = Ingress(types, EventCodec(types), Counter())
    ingress.admit(*encode_delta("Tagged", Delta([one]), raw=True)[0], decode=True)
    [(_, _, kept)] = ingress.admit(*encode_delta("Tagged", Delta(retracts=[other]))[0], decode=True)
    assert kept == Delta(retracts=[other]) or repr(kept) == repr(Delta(retracts=[other]))
    assert not ingress.rejected


def test_what_a_log_holds_was_taken_and_is_taken_again(ingress: Ingress) -> None:
    ingress.admit(*block([ping(1)]), decode=True)
    [part] = encode_delta("Ping", Delta(retracts=[ping(1, text="other")]))
    assert ingress.admit(*part, decode=True, is_logged=True) and not ingress.rejected
