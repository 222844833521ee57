"""Faults that simulated worlds have found, each as small as it can be said."""

from __future__ import annotations

from middleware.clock import SECOND
from middleware.event import END, NEVER, EventTypes
from middleware.pubsub.books import Books
from middleware.pubsub.codec import Changes, Drops, EventCodec, Interest
from middleware.pubsub.gate import Gate
from middleware.pubsub.inbox import Inbox
from middleware.pubsub.link import Link
from middleware.pubsub.progress import Promises
from middleware.pubsub.seen import SeenIds
from middleware.pubsub.wire import VERSION, Hello, Refusal
from middleware.testing.simulation import SimulatedNode, SimulatedSubscriber, Simulation


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
