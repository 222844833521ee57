"""An event that comes again is a repeat; another one with its source and id is a clash: rejected, listed, and reported."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from middleware.broker.inbox import Inbox
from middleware.broker.ingress.checks import UNCOMPARED, Ingress
from middleware.link.codec import BlockHead, Changes, EventCodec, Question, Tally, decode_payload, encode
from middleware.link.encoding import encode_delta
from middleware.link.frames import Parts
from middleware.model.change import Delta
from middleware.model.event import Event, EventTypes
from middleware.model.time import SECOND
from middleware.testing.simulation.network import SimulatedNode, SimulatedPublisher, Simulation


class Reading(Event):
    value: float


class Other(Event):
    value: float


TYPES = EventTypes([Reading, Other])


def reading(number: int, value: float = 0.5, source: str = "s") -> Reading:
    return Reading(value, ts=100 + number, id=number, source=source)


def ingress_of(types: EventTypes) -> Ingress:
    return Ingress(types, EventCodec(types), Counter())


def admitted(ingress: Ingress, events: list[Event], decode: bool, name: str = "Reading", names_runs: bool = True) -> int:
    ((head, block),) = encode_delta(name, Delta(events), raw=True)
    head.runs = [(event.source, event.id, event.id) for event in events] if names_runs else None
    return sum(part.count for part, _, _ in ingress.admit(head, block, decode))


@pytest.mark.parametrize("types", [TYPES, EventTypes()], ids=["types known", "no types"])
@pytest.mark.parametrize("decode", [True, False])
@pytest.mark.parametrize("names_runs", [True, False])
def test_a_clash_is_distinguished_from_a_repeat_on_every_way_in(types: EventTypes, decode: bool, names_runs: bool) -> None:
    ingress = ingress_of(types)
    assert admitted(ingress, [reading(1), reading(2)], decode, names_runs=names_runs) == 2
    assert admitted(ingress, [reading(2), reading(1, 9.5), reading(3)], decode, names_runs=names_runs) == 1
    assert ingress.drops == {"duplicate": 1} and ingress.uncompared == 0
    (clash,) = ingress.rejected
    assert (clash.reason, clash.id, clash.source, clash.bound) == ("clash", 1, "s", 101)
    assert clash.record == encode(reading(1, 9.5)) and clash.first == ("Reading", encode(reading(1)))
    assert "0.5" in clash.details


def test_two_of_one_identity_in_one_block_clash() -> None:
    ingress = ingress_of(TYPES)
    assert admitted(ingress, [reading(1), reading(1, 2.5), reading(1)], True, names_runs=False) == 1
    assert [(each.reason, each.record) for each in ingress.rejected] == [("clash", encode(reading(1, 2.5)))]
    assert ingress.drops == {"duplicate": 1}


def test_the_form_on_the_wire_and_the_cut_of_blocks_make_no_clash_and_another_type_does() -> None:
    ingress = ingress_of(TYPES)
    whole = encode([[2, 101, 1, "s", 0], [3, 102, 2, "s", 0]])  # 2 for 2.0
    head = BlockHead("Reading", 2, runs=[("s", 1, 2)], oldest=101, newest=102)
    assert len(ingress.admit(head, whole, decode=False)) == 1
    assert admitted(ingress, [reading(2, 3.0)], False) == admitted(ingress, [reading(1, 2.0)], False) == 0
    assert not ingress.rejected and ingress.drops == {"duplicate": 2}
    assert admitted(ingress, [Other(2.0, ts=101, id=1, source="s")], False, "Other") == 0
    assert [(each.reason, each.type, each.first and each.first[0]) for each in ingress.rejected] == [
        ("clash", "Other", "Reading")
    ]


def test_a_repeat_of_what_is_not_known_any_more_counts_as_one_and_has_its_own_reason() -> None:
    ingress = ingress_of(TYPES)
    ingress.seen.add("s", 1)
    assert admitted(ingress, [reading(1)], True) == 0
    assert ingress.drops == {"duplicate": 1} and ingress.uncompared == 1
    assert [sample.reason for sample in ingress.samples] == [UNCOMPARED]


def test_what_comes_by_another_node_clashes_too() -> None:
    ingress = ingress_of(TYPES)
    inbox = Inbox(frozenset({"Reading"}), EventCodec(TYPES), Counter(), ingress)
    from middleware.broker.watermarks.combining import CombinedWatermarks

    admitted(ingress, [reading(1)], True)
    ((head, block),) = encode_delta("Reading", Delta([reading(1, 7.5), reading(2)]), raw=True)
    inbox.put(("node", "b"), head, block, None)
    batch = inbox.take(CombinedWatermarks(), None, ())
    assert batch is not None and batch.deltas["Reading"].inserts == [reading(2)]
    assert [each.reason for each in ingress.rejected] == ["clash"]
    assert admitted(ingress, [reading(2, 1.5)], True) == 0
    assert len(ingress.rejected) == 2, "what came by the other node is known here, too"


class Asking(SimulatedPublisher):
    """A publisher that keeps its tally."""

    tally: Tally | None = None

    def _take(self, parts: Parts) -> None:
        payload = decode_payload(parts)
        if isinstance(payload, Tally):
            self.tally = payload

    def ask(self, number: int) -> None:
        self.link.send([encode(Question(number))])


def test_a_publisher_that_asks_learns_what_became_of_its_events() -> None:
    simulation = Simulation(1)
    node = SimulatedNode(simulation, "a", types=EventTypes([Reading]))
    publisher, other = Asking(simulation, "p", "a", [Reading]), Asking(simulation, "q", "a", [Reading])
    assert simulation.run_until(lambda: publisher.link.up and other.link.up, 10 * SECOND)
    publisher.publish([reading(n) for n in range(10)])
    publisher.publish([reading(n, 1.5) for n in range(4)] + [reading(4), replace(reading(99), source="")])
    publisher.publish([Other(1.0, ts=1, id=50, source="s")])
    other.publish([reading(1, source="q")])
    assert simulation.run_until(lambda: publisher.idle and other.idle, 10 * SECOND)
    publisher.ask(7)
    other.ask(1)
    assert simulation.run_until(lambda: publisher.tally is not None and other.tally is not None, 10 * SECOND)
    tally = publisher.tally
    assert tally is not None and (tally.number, tally.taken) == (7, 10)
    assert tally.rejected == {"clash": 4, "duplicate": 1, "no source": 1, "unknown type": 1}
    assert Counter(sample.reason for sample in tally.samples) == {"clash": 3, "no source": 1, "unknown type": 1}
    assert other.tally == Tally(1, 1)
    assert node.broker.drops == {"clash": 4, "duplicate": 1, "no source": 1, "unknown type": 1}


def test_the_last_of_many_questions_is_answered() -> None:
    simulation = Simulation(1)
    node = SimulatedNode(simulation, "a", types=TYPES)
    publisher = Asking(simulation, "p", "a", [Reading])
    assert simulation.run_until(lambda: publisher.link.up, 10 * SECOND)
    for number in range(500):
        publisher.ask(number)
    simulation.run(5 * SECOND)
    (peer,) = node.broker.statistics().peers
    assert peer.link.queued_bytes < 1_000
    assert publisher.tally is not None and publisher.tally.number == 499


def test_a_node_of_before_gives_an_error_for_changes_only() -> None:
    """A payload that a peer does not know costs that payload: what follows on the link is taken."""
    simulation = Simulation(1)
    node = SimulatedNode(simulation, "a", types=TYPES)
    publisher = Asking(simulation, "p", "a", [Reading])
    assert simulation.run_until(lambda: publisher.link.up, 10 * SECOND)
    publisher.link.send([encode([99, 1])])
    publisher.link.send([encode(Changes(None, {"Reading": 5}, []))])
    publisher.publish([reading(1)])
    assert simulation.run_until(lambda: publisher.idle, 10 * SECOND)
    assert node.broker.drops == {"malformed payload": 1}
    assert node.broker.statistics().events_in == 1
