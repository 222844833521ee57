"""The count of events sent: each event once per reader, sent at once, from the log, or to a node that has just attached."""

from __future__ import annotations

from middleware.broker.broker import Broker
from middleware.broker.log.log_records import Record
from middleware.broker.peers.peers import Peer
from middleware.link.codec import BlockHead, Interest
from middleware.link.link import Link
from tests.unit.broker.test_restarts_and_gaps import TYPES, Client, Ping, Talk, durable


def pings(first: int, count: int) -> list[Ping]:
    return [Ping(ts=number, id=number, source="p") for number in range(first, first + count)]


def test_an_event_counts_once_for_each_reader() -> None:
    talk = Talk(Broker("b", 1, 0, types=TYPES))
    publisher = Client(talk, "publisher", "p", Interest(1, raw=["Ping"]))
    for name in "rs":
        Client(talk, "subscriber", name, Interest(1, ["Ping"]))
    Client(talk, "subscriber", "t", Interest(1, ["Pong"]))
    talk.go(10)
    assert talk.broker.statistics().events_out == 0
    publisher.publish(*pings(1, 3))
    talk.go(10)
    assert talk.broker.statistics().events_out == 6


def test_events_served_from_the_log_count_too() -> None:
    records: list[Record] = []
    talk = Talk(durable(records=records))
    publisher = Client(talk, "publisher", "p", Interest(1, raw=["Ping"]))
    talk.go(10)
    publisher.publish(*pings(1, 4))
    talk.go(10)
    records += talk.records
    assert talk.broker.statistics().events_out == 0
    reader = Client(talk, "subscriber", "s", Interest(1, ["Ping"], line=77, offset=0))
    talk.go(10)
    assert sum(head.inserts for changes, _ in reader.blocks for head in changes.blocks) == 4
    assert talk.broker.statistics().events_out == 4


def test_events_that_waited_for_a_node_count_if_it_reads_them() -> None:
    broker = Broker("b", 1, 0, types=TYPES)
    node = Peer("node", "z", Link("b", "node", 1, 0, dials=False), "z")
    node.patterns = frozenset({"Ping"})
    broker._outbound.give(node, [(BlockHead("Ping", 3), b""), (BlockHead("Pong", 2), b"")])
    assert broker.statistics().events_out == 3
