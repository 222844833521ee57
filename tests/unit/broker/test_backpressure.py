"""Backpressure goes from a slow reader to the sources of what it reads, and nowhere else."""

from __future__ import annotations

from middleware.broker.backpressure import CHARGE, QUEUE_HIGH, QUEUE_LOW, Pressure
from middleware.broker.ingress.sources import SourcePolicy
from middleware.broker.peers.peers import Peer
from middleware.link.frames import Role
from middleware.link.link import Link
from middleware.model.event import Event, EventTypes
from middleware.model.time import SECOND
from middleware.testing.simulation.network import TICK, SimulatedNode, SimulatedPublisher, SimulatedSubscriber, Simulation

COUNT = 400


class Ping(Event):
    text: str = ""


class Pong(Event):
    text: str = ""


TYPES = EventTypes([Ping, Pong])

HOLD = 20 * SECOND

RESTS = {"Reading": ("Low",), "Pair": ("Summary",)}
"""Two detectors of one node: one makes Low of Reading, the other Summary of Pair."""


def pausing(*paused: str) -> Peer:
    """Another node, which says that it has no room for these types."""
    peer = Peer("node", "other", Link("this", "node", 1, 0, dials=False), "other")
    peer.paused = frozenset(paused)
    return peer


def test_what_a_paused_type_is_made_of_is_paused_too() -> None:
    pressure = Pressure(60 * SECOND)
    assert pressure.update([pausing("Low")], RESTS, too_soon=False)
    assert pressure.paused == {"Reading"}


def test_what_other_detectors_of_the_node_read_is_not() -> None:
    """Node a makes Pair of Low, node b Low of Reading and Summary of Pair: they must not hold each other for ever."""
    one, other = Pressure(60 * SECOND), Pressure(60 * SECOND)
    one.update([pausing("Pair")], {"Low": ("Pair",)}, too_soon=False)
    other.update([pausing(*one.paused)], RESTS, too_soon=False)
    assert "Pair" not in other.paused


def test_it_ends_when_there_is_room_again() -> None:
    pressure = Pressure(60 * SECOND)
    pressure.update([pausing("Low")], RESTS, too_soon=False)
    assert pressure.update([pausing()], RESTS, too_soon=False)
    assert pressure.paused == frozenset()


def attached(role: Role) -> Peer:
    """A peer that reads from no log; the tests set how much waits for it."""
    return Peer(role, "p", Link("this", role, 1, 0, dials=False), "p")


def test_a_reader_is_slow_beyond_the_high_mark_until_the_low_mark() -> None:
    pressure, reader, slow = Pressure(HOLD), attached("subscriber"), []
    for queued in (QUEUE_HIGH, QUEUE_HIGH + 1, QUEUE_HIGH, QUEUE_LOW + 1, QUEUE_LOW):
        reader.link.queued_bytes = queued
        pressure.update([reader], {}, too_soon=False)
        slow.append(reader.slow)
    assert slow == [False, True, True, True, False]


def test_a_reader_that_holds_nobody_up_may_leave_the_high_mark_unread() -> None:
    pressure, reader = Pressure(HOLD), attached("subscriber")
    reader.on_slow = "disconnect"
    reader.link.queued_bytes = QUEUE_HIGH
    pressure.update([reader], {}, too_soon=False)
    assert reader.link.closed is None
    reader.link.queued_bytes += 1
    pressure.update([reader], {}, too_soon=False)
    assert reader.link.closed is not None and "left unread" in reader.link.closed


def test_a_charged_publisher_gets_credit_again_when_its_time_is_up() -> None:
    pressure, publisher = Pressure(HOLD), attached("publisher")
    pressure.charge(publisher, 10, now=SECOND)
    until = SECOND + 10 * CHARGE
    pressure.update([publisher], {}, too_soon=False, now=until - 1)
    assert publisher.link.credit_paused
    pressure.update([publisher], {}, too_soon=False, now=until)
    assert not publisher.link.credit_paused


class Tried:
    """A node with sources of Ping and Pong, a reader of both, and one of Ping that asked to be waited for and has stopped."""

    def __init__(self) -> None:
        self.simulation = Simulation(1)
        self.node = SimulatedNode(self.simulation, "a", types=TYPES, sources=SourcePolicy(hold=HOLD))
        self.stuck = SimulatedSubscriber(self.simulation, "stuck", "a", ["Ping"], TYPES)
        self.quick = SimulatedSubscriber(self.simulation, "quick", "a", ["Ping", "Pong"], TYPES)
        self.ping = SimulatedPublisher(self.simulation, "ping", "a", [Ping])
        self.pong = SimulatedPublisher(self.simulation, "pong", "a", [Pong])
        assert self.simulation.run_until(lambda: self.stuck.ready and self.quick.ready, 10 * SECOND)
        self.stuck.reading = False
        for number in range(COUNT):
            self.ping.publish([Ping("x" * 20_000, ts=1 + number, id=number, source="ping")])
            self.pong.publish([Pong("x" * 20_000, ts=1 + number, id=number, source="pong")])

    def taken(self, kind: type[Event]) -> int:
        return sum(type(event) is kind for event in self.quick.events)


def test_a_reader_that_stands_still_holds_up_its_own_types_and_those_for_a_while() -> None:
    tried = Tried()
    tried.simulation.run(HOLD // 2)
    assert tried.taken(Pong) == COUNT, "of types that it does not read, everything comes"
    assert tried.taken(Ping) < COUNT and tried.ping.waiting
    (reason,) = tried.node.broker.waiting([]).slow
    assert "subscriber stuck (took nothing for" in reason and "sources continue without it)" in reason
    assert tried.simulation.run_until(lambda: tried.taken(Ping) == COUNT, HOLD)
    assert tried.stuck.link.closed is not None and "sources have waited 20s for it" in tried.stuck.link.closed
    assert tried.node.broker.waiting([]).paused == []


def test_a_reader_that_is_slow_but_reads_is_waited_for() -> None:
    tried = Tried()

    def read_a_little() -> None:
        tried.stuck.reading = tried.simulation.now % (HOLD // 2) < TICK

    tried.simulation.run(5 * HOLD, read_a_little)
    assert tried.stuck.link.closed is None
    tried.stuck.reading = True
    assert tried.simulation.run_until(lambda: len(tried.stuck.events) == COUNT, 60 * SECOND)
