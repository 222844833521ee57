"""Faults that simulated worlds have found, each as small as it can be said."""

from __future__ import annotations

from middleware.clock import SECOND
from middleware.durability.core import Core
from middleware.durability.recovery import recover
from middleware.event import END, NEVER, EventTypes
from middleware.pubsub.books import Books
from middleware.pubsub.codec import BlockHead, Changes, Drops, EventCodec, Interest, decode_payload
from middleware.pubsub.gate import Gate
from middleware.pubsub.inbox import Inbox
from middleware.pubsub.ingress import Turned
from middleware.pubsub.journal import Journal, decode_record, encode_record
from middleware.pubsub.lasting import LastingBroker
from middleware.pubsub.link import Link
from middleware.pubsub.peer import Peer
from middleware.pubsub.progress import Promises
from middleware.pubsub.seen import SeenIds
from middleware.pubsub.wire import VERSION, Hello, Refusal
from middleware.testing.simulation import SimulatedNode, SimulatedSubscriber, Simulation
from middleware.testing.worlds.applications import Reading


def test_nothing_is_final_while_a_peer_is_missing_even_if_another_promises_the_type() -> None:
    promises = Promises()
    promises.offer("b", (), ["Low"])
    promises.promise("b", {"Low": END})
    inbox = Inbox(frozenset({"Low"}), EventCodec(EventTypes()), Drops(), SeenIds())
    held = inbox.take(promises, None, {"c"})
    assert held is not None and held.progress == {"Low": NEVER}
    free = inbox.take(promises, None, ())
    assert free is not None and free.progress == {"Low": END}


def test_a_late_refusal_of_a_former_life_does_no_harm() -> None:
    link = Link("p", "publisher", 5, 0, dials=True, lasting=True)
    link.hello_received(Hello(VERSION, "a", "node", 9, 5, 0, 1_000), 1)
    link.receive(Refusal("a newer publisher named 'p' is attached", True, 4), [], 2)
    assert link.up and link.closed is None
    link.receive(Refusal("go away", True, 5), [], 3)
    assert link.closed == "refused: go away"


def test_what_a_publisher_has_ended_stays_ended_when_it_attaches_anew_and_falls_silent() -> None:
    books = Books(())
    gate = Gate(EventTypes(), books.publishers, None, 0, None)
    key = ("publisher", "p")
    gate.attach(key, 0)
    books.offered(key, Interest(1, raw=["Ping"]))
    books.noted(key, gate.heard(key, Changes(7, {"Ping": END}, []), 1))
    assert books.here.values["Ping"] == END
    gate.sources.leave(key)
    gate.attach(key, 2)
    for seconds in (11, 12, 30):
        gate.stand_in(7 + seconds, [], seconds * SECOND)
        assert books.here.values["Ping"] == END
    books.noted(key, gate.heard(key, Changes(50, None, []), 31 * SECOND))
    assert books.here.values["Ping"] == END


def test_a_broker_that_was_away_does_not_take_its_own_absence_for_the_silence_of_others() -> None:
    simulation = Simulation(1)
    node = SimulatedNode(simulation, "a", types=EventTypes())
    SimulatedSubscriber(simulation, "s", "a", ["Low"], EventTypes())
    simulation.run(SECOND)
    away = simulation.now + 60 * SECOND  # its clock leaps, or it was stopped: nothing has come, and nothing could
    node.broker.settle(away)
    assert node.closed == []
    (peer,) = node.broker.statistics().peers
    assert peer.up
    for later in range(1, 16):  # from now on it would hear it
        node.closed += node.broker.settle(away + later * SECOND).closed
    assert [closed.name for closed in node.closed] == ["s"]


def test_a_type_that_was_offered_anew_is_promised_anew() -> None:
    peer = Peer("node", "b", Link("a", "node", 1, 0, dials=False), "b")
    told: list[Changes] = []
    peer.link.send = lambda parts: told.append(decode_payload(parts)) or 1  # type: ignore[method-assign, func-returns-value]
    peer.post({"Reading": END}, 1, NEVER, 0)
    peer.tell_interest(Interest(2), (0, 0))  # without Reading: whoever hears it forgets what was promised
    peer.tell_interest(Interest(3, raw=["Reading"]), (0, 0))
    assert peer.news_due(1, NEVER, SECOND)
    peer.post({"Reading": END}, 1, NEVER, SECOND)
    assert [changes.progress for changes in told if type(changes) is Changes] == [{"Reading": END}] * 2


def test_the_log_is_kept_whole_while_a_peer_was_never_heard_of() -> None:
    journal = Journal(1, lambda position, size: [])
    journal.told(("node", "b"), Interest(1, ["Reading"]))
    journal.made(BlockHead("Reading", 1), b"")
    journal.moved(("node", "b"), 1)
    assert journal.needed == 0, "node c may want it, too"
    journal.met()
    assert journal.needed == 1
    journal.oldest = 1
    assert journal.start_of(("node", "c"), Interest(1, ["Reading"])) == (1, True), "what it missed is a gap"


def lasting(journal: Journal) -> LastingBroker:
    return LastingBroker("b", 1, 0, types=EventTypes([Reading]), publications=(), journal=journal)


def test_what_a_publisher_offered_that_did_not_come_back_is_offered_no_more() -> None:
    journal = Journal(1, lambda position, size: [])
    broker = lasting(journal)
    broker._books.offered(("publisher", "p"), Interest(1, raw=["Reading"]))
    broker.resumed({})
    broker.settle(0)
    assert broker._interest.raw == ["Reading"], "it has ten seconds to come back"
    for second in range(1, 13):
        broker.settle(second * SECOND)
    assert broker._interest.raw == []
    assert broker._gate.sources.types == {"Reading"}, "of those that have left, too, the clock is promised when all is quiet"


def test_what_was_turned_away_is_listed_though_the_node_died_before_it_was() -> None:
    late = Turned("late", 9, "insert", "Reading", 3, 7, "p", b"")
    journal = Journal(1, lambda position, size: [])
    core = Core(lasting(journal), journal, None, EventTypes([Reading]))
    core.broker._ingress.turned.append(late)
    written = core.settle(1)
    assert written.turned == [], "it waits for the log"
    record = decode_record(encode_record(written.writes[0].record))
    for checkpoint in (None, core._checkpoint()):  # it is in the one, or in what is behind the other
        journal = Journal(1, lambda position, size: [])
        broker = lasting(journal)
        recovered, _ = recover(broker, None, EventTypes([Reading]), checkpoint, [] if checkpoint else [record])
        assert recovered.turned == [late]
        again = Core(broker, journal, None, EventTypes([Reading]), recovered.turned)
        assert again.settle(2).turned == [late] and again.settle(3).turned == []
