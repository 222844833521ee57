"""Who may say what: types that detectors derive come from nodes alone, wherever and whenever a publisher comes."""

from __future__ import annotations

from middleware.broker.ingress.checks import RejectedEvent
from middleware.broker.ingress.receipts import REJECTIONS
from middleware.link.codec import BlockHead, Changes, encode
from middleware.model.change import Batch, Delta
from middleware.model.event import END, Event, EventTypes
from middleware.model.time import SECOND
from middleware.testing.simulation.network import SimulatedNode, SimulatedPublisher, SimulatedSubscriber, Simulation


class Ping(Event):
    text: str = ""


class Pong(Event):
    text: str = ""


TYPES = EventTypes([Ping, Pong])


class WatchedNode(SimulatedNode):
    """A simulated node that keeps what its broker rejected: ``rejected``, in order."""

    def __init__(self, simulation: Simulation, name: str, peers: str = "", reads: str = "", derives: str = "") -> None:
        process = self.pongs if derives else None
        types = [reads] if reads else []
        self.rejected: list[RejectedEvent] = []
        super().__init__(simulation, name, peers, TYPES, reads=types, derives=[derives] if derives else [], process=process)
        settle = self.broker.settle

        def watched(now: int):  # type: ignore[no-untyped-def]
            effects = settle(now)
            self.rejected += effects.rejected
            return effects

        self.broker.settle = watched  # type: ignore[method-assign]

    @staticmethod
    def pongs(batch: Batch) -> list[Batch]:
        pings = batch.deltas.get("Ping", Delta()).inserts
        made: list[Event] = [Pong("true", ts=e.ts, id=e.id, source="pong", level=1) for e in pings]
        return [Batch({"Pong": Delta(made)}, {"Pong": batch.watermarks["Ping"]} if "Ping" in batch.watermarks else {})]


def ping(number: int) -> Ping:
    return Ping(ts=100 + number, id=number, source="p")


def forged(number: int, text: str = "forged") -> Pong:
    return Pong(text, ts=100 + number, id=number, source="pong")


def finals_of(simulation: Simulation, node: str) -> SimulatedSubscriber:
    reader = SimulatedSubscriber(simulation, "reader", node, ["Pong"], TYPES)
    assert simulation.run_until(lambda: reader.ready, 10 * SECOND)
    return reader


def test_a_publisher_of_a_derived_type_is_notified_and_holds_nothing_back() -> None:
    simulation = Simulation(0)
    node = WatchedNode(simulation, "a", reads="Ping", derives="Pong")
    reader = finals_of(simulation, "a")
    honest, other = (SimulatedPublisher(simulation, name, "a", types) for name, types in (("p", [Ping]), ("q", [Pong])))
    other.publish([forged(1)])
    other.revise(forged(1), forged(1, "revised"))
    other.retract(forged(2))
    honest.publish([ping(1), ping(2)])
    honest.advance(Ping, END)
    simulation.run(SECOND)
    assert [event.text for event in reader.events if isinstance(event, Pong)] == ["true", "true"]
    assert reader.watermarks == {"Pong": END}, "the type ends though q, which offers it, is still there"
    assert [(each.reason, each.change, each.id) for each in node.rejected] == [
        ("derived", "insert", 1),
        ("derived", "revise", 1),
        ("derived", "retract", 2),
    ]
    assert all("detectors derive Pong" in each.details for each in node.rejected)
    assert node.broker.drops == {REJECTIONS["derived"]: 3}
    (account,) = [peer.account for peer in node.broker.attachments.peers.values() if peer.name == "q"]
    assert account.answer(1).rejected == {REJECTIONS["derived"]: 3}
    assert account.answer(1).samples[0].details == "detectors derive Pong: publish what they read instead"


def test_what_a_publisher_promises_of_a_derived_type_is_ignored_at_a_node_that_only_forwards() -> None:
    simulation = Simulation(0)
    forwarding = WatchedNode(simulation, "a", "ab")
    WatchedNode(simulation, "b", "ab", reads="Ping", derives="Pong")
    reader = finals_of(simulation, "b")
    honest, other = (SimulatedPublisher(simulation, name, "a", types) for name, types in (("p", [Ping]), ("q", [Pong])))
    other.advance(Pong, 10**9)
    other.publish([forged(1)])
    honest.publish([ping(1)])
    honest.advance(Ping, END)
    simulation.run(SECOND)
    assert [event.text for event in reader.events if isinstance(event, Pong)] == ["true"]
    assert reader.watermarks == {"Pong": END}
    assert [each.reason for each in forwarding.rejected] == ["derived"]


def test_a_type_that_becomes_derived_later_is_taken_from_publishers_no_more() -> None:
    simulation = Simulation(0)
    first = WatchedNode(simulation, "a")
    other = SimulatedPublisher(simulation, "q", "a", [Pong])
    other.publish([forged(1)])
    other.advance(Pong, 50)
    simulation.run(SECOND)
    assert not first.rejected, "as yet, it is a type like any other"
    WatchedNode(simulation, "b", "ab", reads="Ping", derives="Pong")
    reader = finals_of(simulation, "a")
    honest = SimulatedPublisher(simulation, "p", "a", [Ping])
    other.publish([forged(2)])
    honest.publish([ping(1), ping(2)])
    honest.advance(Ping, END)
    simulation.run(3 * SECOND)
    assert [each.id for each in first.rejected] == [2]
    assert [event.text for event in reader.events if isinstance(event, Pong)] == ["true", "true"]
    assert reader.watermarks == {"Pong": END}
    assert "Pong" not in first.broker.tracker.raw_here()


def test_raw_events_of_a_derived_type_from_a_node_are_skipped_and_counted() -> None:
    simulation = Simulation(0)
    node = WatchedNode(simulation, "b", "ab", reads="Ping", derives="Pong")
    forwarding = SimulatedNode(simulation, "a", "ab", TYPES)
    reader = finals_of(simulation, "b")
    simulation.run(SECOND)
    (peer,) = [peer for peer in forwarding.broker.attachments.peers.values() if peer.name == "b"]
    block = encode([forged(1)])
    peer.link.send([encode(Changes(None, None, [BlockHead("Pong", 1, raw=True)])), block])
    simulation.run(SECOND)
    assert reader.events == []
    assert node.broker.drops == {"raw events of a derived type": 1}


def test_a_rejected_block_that_cannot_be_read_is_counted() -> None:
    simulation = Simulation(0)
    node = WatchedNode(simulation, "a", derives="Pong")
    other = SimulatedPublisher(simulation, "q", "a")
    simulation.run(SECOND)
    records = encode([[1, 2], ["x", 1, 1, "s", 1], ["x", 1, 1, "", 0]])
    for block in (b"\xc1" * 4, records):
        other.link.send([encode(Changes(None, None, [BlockHead("Pong", 3)])), block])
    simulation.run(SECOND)
    assert node.rejected == []
    assert node.broker.drops == {"malformed block": 3, "malformed event": 3}
