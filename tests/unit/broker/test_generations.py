"""Ended streams resume: promises, readers and nodes when a new generation begins, and no END of a former one is believed."""

from __future__ import annotations

from itertools import product

import pytest

from middleware.broker.log.null_log import NullLog
from middleware.broker.watermarks.combining import CombinedWatermarks
from middleware.broker.watermarks.reopening import Reopening
from middleware.broker.watermarks.tracker import LOCAL, WatermarkTracker
from middleware.broker.watermarks.waiting import explain
from middleware.delivery.barrier import Barrier
from middleware.delivery.subscription import Subscription
from middleware.link.codec import Changes, EventCodec, Interest, encode
from middleware.link.encoding import encode_delta
from middleware.link.link import Link
from middleware.model.change import Batch, Delta
from middleware.model.event import END, NEVER, Event, EventTypes
from middleware.model.time import MILLISECOND, SECOND
from middleware.testing.simulation.network import Faults, SimulatedNode, SimulatedPublisher, SimulatedSubscriber, Simulation


class Ping(Event):
    value: int = 0


class Pong(Event):
    value: int = 0


class Peng(Event):
    value: int = 0


TYPES = EventTypes([Ping, Pong, Peng])


def ping(ts: int, number: int | None = None) -> Ping:
    return Ping(ts=ts, id=ts if number is None else number, source="p")


# -- promises ---------------------------------------------------------------------------------------------------------


def test_an_end_goes_back_to_the_promise_before_it_until_it_is_sent_again() -> None:
    promises = CombinedWatermarks()
    promises.offer("node", ["Ping"], ["Pong"])
    promises.promise("node", {"Ping": 7, "Pong": 5})
    promises.promise("node", {"Ping": END, "Pong": END})
    assert promises.values == {"Ping": END, "Pong": END} and promises.ends == {"Ping", "Pong"}
    promises.distrust_ends(True)
    promises.begin_generation(lambda origin: True)
    assert promises.values == {"Ping": 7, "Pong": 5}, "neither final nor open"
    assert promises.reopening == {"Ping", "Pong"} and promises.floor("Ping") == END, "nothing may come in yet"
    promises.promise("node", {"Ping": END, "Pong": 5})
    assert promises.values == {"Ping": 7, "Pong": 5}, "not believed as long as others may have begun"
    promises.resume({"Ping": 20, "Pong": 15})
    promises.reopening.clear()
    promises.distrust_ends(False)
    assert promises.values == {"Ping": END, "Pong": 15}
    assert promises.floor("Pong") == 15, "and nothing as old comes any more"


def test_an_end_by_promises_of_those_who_left_is_in_doubt_too() -> None:
    promises = CombinedWatermarks()
    promises.promise("p", {"Ping": END})
    promises.leave("p")
    promises.distrust_ends(True)
    promises.begin_generation(lambda origin: True)
    assert promises.values == {"Ping": NEVER}
    promises.offer("q", ["Ping"])
    promises.distrust_ends(False)
    assert promises.open == {"Ping"}, "it was begun elsewhere, and nobody was believed meanwhile"


def test_promises_outlive_the_process() -> None:
    promises, again = CombinedWatermarks(), CombinedWatermarks()
    promises.promise("p", {"Ping": END})
    again.restore(promises.state())
    assert again.lasts_ended("Ping") and again.values == {"Ping": END}


def test_a_node_in_a_former_generation_ends_nothing() -> None:
    tracker, key = WatermarkTracker(["Peng"], backdate=3), ("node", "b")
    tracker.read(["*"])
    tracker.offered(key, Interest(1, raw=["Ping"], derived=["Pong"]))
    tracker.noted(key, Changes(40, {"Ping": END, "Pong": END}, []))
    tracker.promised_here({"Peng": 30})
    tracker.promised_here({"Peng": END})
    assert set(tracker.for_subscribers.values.values()) == {END}
    tracker.begin_generation(1)
    assert tracker.generations.reached == 40
    tracker.noted(key, Changes(None, {"Ping": END, "Pong": END}, []))  # was under way
    assert END not in tracker.for_subscribers.values.values() and tracker.for_nodes.values == {"Peng": 30}
    tracker.promised_here({"Peng": END})
    assert tracker.for_nodes.values == {"Peng": 30}, "the detectors do not know of the generation yet"
    tracker.offered(key, Interest(2, raw=["Ping"], derived=["Pong"], generation=1, reached=50, backdate=3))
    assert tracker.generations.ends_in_doubt, "it has not announced what has ended"
    tracker.noted(key, Changes(None, {"Ping": END, "Pong": 35}, []))
    assert not tracker.generations.ends_in_doubt and tracker.generations.common() == 50
    tracker.resume(50)
    tracker.settle_generation()
    assert tracker.for_subscribers.values == {"Ping": END, "Pong": 35, "Peng": 30}, (
        "who derives them promises, from where they resume"
    )
    assert tracker.for_subscribers.floor("Pong") == 35 and LOCAL in tracker.for_nodes.everyone()


def test_what_was_final_at_an_end_stays_known_as_final_after_the_stream_resumes() -> None:
    """Else a reader that took all of it would seem to have read a log that this node has lost (world 20261298332)."""
    tracker, key = WatermarkTracker(["Pong"]), ("publisher", "p")
    assert tracker.final_of(["*"]) == NEVER
    tracker.read(["*"])
    tracker.offered(key, Interest(1, raw=["Ping"]))
    tracker.noted(key, Changes(30, {"Ping": 26}, []))
    tracker.promised_here({"Pong": 20})
    assert (tracker.final_of(["*"]), tracker.final_of(["Pong"])) == (26, 20)
    tracker.noted(key, Changes(None, {"Ping": END}, []))
    tracker.promised_here({"Pong": END})
    assert tracker.final_of(["Pong"]) == END
    tracker.begin_generation(1)
    assert tracker.final_of(["Pong"]) == END, "until all nodes have announced how far their streams had come"
    tracker.resume(32)  # another node had an event of that time
    tracker.settle_generation()
    assert tracker.for_subscribers.floor("Pong") == 20
    assert tracker.final_of(["Pong"]) == 32


def test_a_type_has_not_ended_while_a_log_holds_events_of_it_that_came_after_an_end() -> None:
    """World 20261581758: a replay leaves a generation unsettled; what came in it seemed to have come before the last end."""
    tracker, key, local = WatermarkTracker(()), ("node", "b"), ("publisher", "p")
    tracker.offered(local, Interest(1, raw=["Ping"]))
    tracker.noted(local, Changes(None, {"Ping": END}, []))
    tracker.offered(key, Interest(1, raw=["Ping"], keeps=True))
    tracker.begin_generation(1, ["Ping"], 19)
    assert tracker.for_subscribers.has_ended("Ping")
    tracker.offered(key, Interest(1, logged=["Ping"], keeps=True, generation=1))  # another life of b
    tracker.noted(key, Changes(None, {}, []))
    tracker.settle_generation()
    assert tracker.for_subscribers.values.get("Ping") != END, "b has events of it to send"
    tracker.offered(key, Interest(2, keeps=True, generation=1))
    tracker.noted(key, Changes(None, {"Ping": END}, []))
    assert tracker.for_subscribers.values == {"Ping": END}


def an_end(tracker: WatermarkTracker, *names: str) -> None:
    """A publisher here has sent these, and is gone."""
    key = ("publisher", "p")
    tracker.offered(key, Interest(1, raw=list(names)))
    tracker.noted(key, Changes(20, dict.fromkeys(names, END), []))
    tracker.left(key)


def test_what_is_offered_while_a_generation_is_under_way_waits_for_the_next() -> None:
    tracker, node = WatermarkTracker((), backdate=2), ("node", "b")
    tracker.offered(node, Interest(1, keeps=True))
    an_end(tracker, "Ping", "Pong")
    reopening = Reopening(tracker, NullLog())
    tracker.offered(("publisher", "r"), Interest(1, raw=["Ping"]))
    reopening.offered(["Ping"], ("publisher", "r"))
    assert reopening.look([], False)
    assert reopening.ended(("publisher", "q"), ["Pong"]) == ["Pong"]
    tracker.offered(("publisher", "q"), Interest(1, raw=["Pong"]))
    reopening.offered(["Pong"], ("publisher", "q"))
    assert not reopening.look([], False)
    assert tracker.generations.number == 1, "nobody knows yet from where all resume in this one"
    tracker.offered(node, Interest(2, keeps=True, generation=1, reached=25))
    tracker.noted(node, Changes(None, {}, []))
    assert reopening.look([], False)
    assert (tracker.generations.number, tracker.generations.before, tracker.generations.floor) == (2, 25, None)
    assert reopening.due() == 25
    assert tracker.for_subscribers.floor("Pong") == END, "of what was offered nothing may come in"
    tracker.offered(node, Interest(3, keeps=True, generation=2, reached=31, before=25))
    tracker.noted(node, Changes(None, {}, []))
    reopening.look([], False)
    assert tracker.generations.floor == 31 and tracker.for_subscribers.floor("Pong") == 33


def test_a_type_that_continues_elsewhere_needs_no_generation_of_its_own() -> None:
    tracker, node = WatermarkTracker((), backdate=2), ("node", "b")
    tracker.offered(node, Interest(1, raw=["Ping"], keeps=True))
    tracker.noted(node, Changes(20, {"Ping": END}, []))
    an_end(tracker, "Ping", "Pong")
    reopening = Reopening(tracker, NullLog())
    for key, name in ((("publisher", "r"), "Pong"), (("publisher", "q"), "Ping")):
        assert reopening.ended(key, [name]) == [name]
        tracker.offered(key, Interest(1, raw=[name]))
        reopening.offered([name], key)
        reopening.look([], False)
    assert tracker.generations.number == 1 and tracker.for_subscribers.floor("Ping") == END
    tracker.offered(node, Interest(2, raw=["Ping"], keeps=True, generation=1, reached=25))
    tracker.noted(node, Changes(None, {"Ping": 24}, []))  # a publisher there sends it again
    reopening.look([], False)
    assert tracker.generations.number == 1 and not tracker.for_subscribers.reopening
    assert tracker.for_subscribers.floor("Ping") == 27, "who comes now says what is newer than all that was final"


def test_a_node_that_missed_the_outcome_of_a_generation_learns_it_with_the_next() -> None:
    tracker, node = WatermarkTracker((), backdate=2), ("node", "b")
    tracker.offered(node, Interest(1))
    an_end(tracker, "Ping")
    reopening, late = Reopening(tracker, NullLog()), Interest(2, generation=2, reached=40, before=25)
    tracker.offered(node, late)
    reopening.received(node, late)
    assert (tracker.generations.number, tracker.generations.floor) == (2, None)
    assert reopening.due() == 25, "detectors resume from where all others did"


# -- readers ----------------------------------------------------------------------------------------------------------


def test_a_barrier_goes_back_from_the_end_only_for_a_new_generation() -> None:
    barrier = Barrier(["Ping"])
    assert barrier.take(Batch({"Ping": Delta([ping(3), ping(9)])}, {"Ping": END})) == [ping(3), ping(9)]
    barrier.take(Batch({}, {"Ping": 4}))
    assert barrier.watermark == END, "an old promise is no generation"
    assert barrier.take(Batch({"Ping": Delta([ping(9, 90), ping(12)])}, {"Ping": 10}, floor=NEVER)) == []
    assert barrier.watermark == 10 and barrier.violations == {"event at or below the watermark promised": 1}
    assert barrier.take(Batch({}, {"Ping": END})) == [ping(12)]


def test_a_subscription_continues_with_the_generation_of_its_node() -> None:
    for final in (False, True):
        reader = Subscription(["Ping"], EventCodec(TYPES), final=final)

        def read(reader: Subscription, ts: int, until: int, generation: int) -> list[str]:
            head, block = encode_delta("Ping", Delta([ping(ts)]))[0]
            reader.receive([encode(Changes(None, {"Ping": until}, [head], generation=generation)), block])
            return [str(change) for change in reader.changes(reader.take()[0])]

        assert len(read(reader, 5, END, 0)) == 2 and reader.watermark == END
        assert len(read(reader, 8, 6, 1)) == 2 - final and reader.watermark == 6
        assert len(read(reader, 9, END, 1)) == 2 + final and reader.watermark == END
        assert not reader.barrier or not reader.barrier.violations


def test_a_link_that_is_shut_takes_nothing_and_gets_all_of_it_later() -> None:
    sender, receiver = Link("p", "publisher", 1, 0, dials=True), Link("n", "node", 1, 0, dials=False)

    def exchange(now: int) -> list[bytes]:
        from middleware.link.frames import decode_frame

        taken = []
        for one, other in ((sender, receiver), (receiver, sender)) * 3:
            one.tick(now)
            one.settle(now)
            for parts in one.outbox:
                payload = other.receive(decode_frame(parts[0]), parts[1:], now)
                taken += payload or []
            one.outbox.clear()
        receiver.consume()
        return taken

    exchange(1)
    receiver.shuts(True, 2)
    sender.send([b"one"])
    for second in range(1, 60):
        assert exchange(second * SECOND) == [], "and the sender does not give it up"
    sender.send([b"two"])
    receiver.shuts(False, 60 * SECOND)
    assert exchange(60 * SECOND) + exchange(61 * SECOND) == [b"one", b"two"]
    assert sender.closed is None and receiver.closed is None


# -- nodes ------------------------------------------------------------------------------------------------------------


class Derives:
    """Stands for detectors: one result for each event, and watermark as it comes; END goes with all that is known."""

    def __init__(self, reads: str, gives: type[Event]) -> None:
        self.reads, self.gives, self.final, self.newest = reads, gives, NEVER, NEVER
        self.ends = 0

    def __call__(self, batch: Batch) -> list[Batch]:
        if batch.floor is not None and self.final == END:
            self.final = batch.floor
        events = [
            self.gives(ts=e.ts, id=e.id, source=self.reads, level=e.level + 1)
            for e in batch.deltas.get(self.reads, Delta()).inserts
        ]
        assert all(event.ts > self.final for event in events), f"{self.gives} late: {self.final}, {events}"
        self.newest = max([self.newest, *(event.ts for event in events)])
        self.final = max(self.final, batch.watermarks.get(self.reads, NEVER))
        self.ends += self.final == END
        name = self.gives.__name__
        reached = self.newest if self.final == END else NEVER
        return [Batch({name: Delta(events)} if events else {}, {name: self.final}, batch.clock, reached=reached)]


def test_in_a_chain_of_nodes_with_slow_links_nothing_ends_that_rests_on_a_live_stream() -> None:
    """a has the publishers, b makes Pong of Ping, c makes Peng of Pong, and a reads Peng at the end."""
    for seed in range(12):
        simulation = Simulation(seed, Faults(delay_least=MILLISECOND, delay_most=150 * MILLISECOND))
        names, last = ["a", "b", "c"], Derives("Pong", Peng)
        SimulatedNode(simulation, "a", names, TYPES)
        SimulatedNode(simulation, "b", names, TYPES, reads=["Ping"], derives=["Pong"], process=Derives("Ping", Pong))
        SimulatedNode(simulation, "c", names, TYPES, reads=["Pong"], derives=["Peng"], process=last)
        sink = SimulatedSubscriber(simulation, "s", "a", ["Ping", "Pong", "Peng"], TYPES, final=True)
        simulation.run(2 * SECOND)
        for number in range(3):
            publisher = SimulatedPublisher(simulation, f"p{number}", "abc"[(seed + number) % 3])
            publisher.publish([ping(ts) for ts in range(number * 10 + 1, number * 10 + 11)])
            publisher.advance(Ping, END)
            done = simulation.run_until(lambda sink=sink, last=last: len(sink.events) == (number + 1) * 30, 60 * SECOND)  # noqa: B023
            assert done, f"seed {seed}: {len(sink.events)} of {(number + 1) * 30} finals"
            assert simulation.run_until(lambda sink=sink: sink.subscription.watermark == END, 60 * SECOND)
            publisher.link.bye("has sent all")
            simulation.run(SECOND)
        assert sink.subscription.barrier is not None
        assert not sink.subscription.barrier.violations
        assert [event.ts for event in sink.events] == [ts for ts in range(1, 31) for _ in range(3)]


def test_an_end_counts_for_the_publisher_that_sent_it() -> None:
    simulation = Simulation(1)
    node = SimulatedNode(simulation, "a", [], TYPES)
    one, other = (SimulatedPublisher(simulation, name, "a", [Ping], shares=True) for name in ("one", "other"))
    simulation.run(SECOND)
    one.publish([ping(1)])
    one.advance(Ping, END)
    simulation.run(SECOND)
    one.publish([ping(5)])
    other.publish([ping(10)])
    simulation.run(SECOND)
    assert node.broker.drops == {"late for what was promised": 1}, "it had promised that nothing more would come of it"
    other.advance(Ping, END)
    simulation.run(SECOND)
    assert node.broker.waiting([]).streams["Ping"].promised == END
    third = SimulatedPublisher(simulation, "third", "a", [Ping])
    third.publish([ping(10, 100), ping(11)])
    simulation.run(SECOND)
    assert node.broker.drops == {"late for what was promised": 2}, "what was final stays so"
    assert node.broker.waiting([]).streams["Ping"].promised is None, "it is open again"


@pytest.mark.parametrize(("nodes", "second", "is_dead"), [*product(["a", "ab"], "a", [True, False]), ("ab", "b", True)])
def test_a_peer_that_died_before_an_end_came_delays_it_only_until_it_expires(nodes: str, second: str, is_dead: bool) -> None:
    """Killed and started again within SILENCE, a publisher has another name, and its first life is still attached."""
    simulation = Simulation(1)
    here = {name: SimulatedNode(simulation, name, nodes, TYPES) for name in nodes}
    sinks = [SimulatedSubscriber(simulation, f"s{name}", name, ["Ping"], TYPES, final=True) for name in nodes]
    simulation.run(2 * SECOND)
    SimulatedPublisher(simulation, "first life", "a", [Ping]).publish([ping(1), ping(2)])
    simulation.run(SECOND)
    if is_dead:
        simulation.crash("first life")
        simulation.run(2 * SECOND)
    again = SimulatedPublisher(simulation, "second life", second, [Ping], shares=not is_dead)
    again.publish([ping(1), ping(2), ping(3)])
    again.advance(Ping, END)
    simulation.run(SECOND)
    again.link.bye("has sent all")
    simulation.run(SECOND)
    assert [sink.subscription.watermark == END for sink in sinks] == [False for _ in nodes], "the first may still send"
    if not is_dead:
        simulation.crash("first life")
    simulation.run(15 * SECOND)
    assert [sink.subscription.watermark == END for sink in sinks] == [is_dead for _ in nodes]
    assert [[event.ts for event in sink.events] for sink in sinks] == [[1, 2, 3] for _ in nodes]
    explanation = explain([node.broker.waiting([]) for node in here.values()], "Ping")
    assert any("not all with an end" in line for line in explanation) != is_dead, explanation


def test_a_publisher_waits_for_nodes_that_will_be_back_and_why_is_reported() -> None:
    simulation = Simulation(1)
    here, there = (SimulatedNode(simulation, name, ["a", "b"], TYPES, reads=["Ping"]) for name in "ab")
    there.broker._offering.interest.keeps = True
    first = SimulatedPublisher(simulation, "first", "a", [Ping])
    simulation.run(SECOND)
    here.broker.tracker.durable.add(("node", "b"))  # as if it had a log
    first.publish([ping(1)])
    first.advance(Ping, END)
    simulation.run(SECOND)
    simulation.partition("a", "b")
    simulation.run(15 * SECOND)
    second = SimulatedPublisher(simulation, "second", "a")
    second.publish([ping(2)])
    simulation.run(5 * SECOND)
    assert here.broker.gathering == ["b"] and not second.idle, "what is final at b is not known"
    simulation.heal("a", "b")
    assert simulation.run_until(lambda: second.idle, 60 * SECOND)
    assert here.broker.gathering == [] and not here.broker.drops["late for what was promised"]


def test_a_node_knows_after_a_restart_what_others_read_that_are_away() -> None:
    tracker, again = WatermarkTracker(()), WatermarkTracker(())
    tracker.offered(("node", "b"), Interest(1, ["Ping", "Po*"], keeps=True))
    again.restore(tracker.state())
    assert again.durable == {("node", "b")}
    assert again.reads(("node", "b")) == {"Ping", "Po*"}
