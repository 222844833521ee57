"""Time never stalls silently, and nobody moves it alone: publishers that fall silent, hide, or lie about the time."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.broker.ingress.checks import RejectedEvent
from middleware.broker.ingress.sources import UNDECIDED, SourcePolicy
from middleware.delivery.barrier import Barrier
from middleware.delivery.publication import Publication
from middleware.link.codec import Changes, encode
from middleware.link.encoding import encode_delta
from middleware.link.frames import Data, Parts, decode_frame
from middleware.model.change import Delta
from middleware.model.detector import Detector
from middleware.model.event import END, NEVER, Event, EventTypes
from middleware.model.time import MILLISECOND, SECOND
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.policies import Policies
from middleware.testing.simulation.network import SimulatedNode, SimulatedPublisher, SimulatedSubscriber, Simulation

IDLE = SourcePolicy().idle
AHEAD = SourcePolicy().ahead


class Ping(Event):
    text: str = ""


class Pong(Event):
    text: str = ""


class Other(Event):
    """A type that no detector reads."""


class Echo(Detector):
    subscribes, publishes = (Ping,), (Pong,)

    def on_event(self, event: Event) -> Event:
        return Pong(event.source, ts=event.ts)


TYPES = EventTypes([Ping, Pong, Other])


def ping(ts: int, source: str = "p", number: int | None = None) -> Event:
    return Ping(ts=ts, id=ts if number is None else number, source=source)


class Node(SimulatedNode):
    """A node with a detector; keeps what was rejected."""

    def __init__(self, simulation: Simulation, name: str = "a", peers: Iterable[str] = (), here: bool = True) -> None:
        self.hierarchy = Hierarchy([Echo()], None if here else [], Policies())
        self.rejected: list[RejectedEvent] = []
        reads, derives = self.hierarchy.subscriptions, self.hierarchy.publications
        super().__init__(simulation, name, list(peers), TYPES, reads=reads, derives=derives, process=self.hierarchy.process)
        settle = self.broker.settle

        def settled(now: int):  # type: ignore[no-untyped-def]
            effects = settle(now)
            self.rejected += effects.rejected
            return effects

        self.broker.settle = settled  # type: ignore[method-assign]

    @property
    def final(self) -> int:
        return self.hierarchy.units[0].final


def test_a_silent_source_that_has_promised_holds_the_others_back_for_idle_and_no_longer() -> None:
    simulation = Simulation(1)
    node = Node(simulation)
    silent, lively = (SimulatedPublisher(simulation, name, "a", [Ping]) for name in ("silent", "lively"))
    silent.publish([ping(1 * SECOND, "silent")])
    silent.advance(Ping, 1 * SECOND)
    simulation.run(2 * SECOND)

    def speak() -> None:
        if lively.idle:
            ts = simulation.now
            lively.publish([ping(ts, "lively")])
            lively.advance(Ping, ts)

    simulation.run(IDLE - 3 * SECOND, speak)
    assert node.final == 1 * SECOND
    simulation.run(4 * SECOND, speak)
    assert simulation.now - node.final < SECOND, "the silent one left the watermark"
    silent.publish([ping(5 * SECOND, "silent"), ping(simulation.now + SECOND, "silent")])
    silent.advance(Ping, simulation.now + SECOND)
    until = simulation.now + SECOND
    simulation.run(3 * SECOND, speak)
    assert [(rejected.reason, rejected.ts, rejected.source) for rejected in node.rejected] == [("late", 5 * SECOND, "silent")]
    assert node.hierarchy.units[0].received == node.broker.statistics().events_in - 1
    assert node.final == until, "and holds again"


def test_when_all_fall_silent_what_they_sent_becomes_final_and_resuming_does_no_harm() -> None:
    simulation = Simulation(2)
    node = Node(simulation)
    subscriber = SimulatedSubscriber(simulation, "s", "a", ["Pong"], TYPES)
    publisher = SimulatedPublisher(simulation, "p", "a", [Ping])
    publisher.publish([ping(100 * SECOND)])
    simulation.run(IDLE - SECOND)
    assert subscriber.watermarks["Pong"] == 99 * SECOND, "the allowed lateness behind the clock"
    simulation.run(2 * SECOND)
    assert subscriber.watermarks["Pong"] == 100 * SECOND
    publisher.publish([ping(100 * SECOND, number=7), ping(101 * SECOND)])
    simulation.run(SECOND)
    assert [rejected.id for rejected in node.rejected] == [7]
    assert subscriber.watermarks["Pong"] == 100 * SECOND, "by the allowed lateness again, and never back"
    publisher.publish([ping(105 * SECOND), ping(104 * SECOND)])
    simulation.run(SECOND)
    assert subscriber.watermarks["Pong"] == 103 * SECOND, "twice the delay that was just seen"
    assert [event.ts for event in subscriber.events] == [100 * SECOND, 101 * SECOND, 104 * SECOND]


def test_what_a_silent_source_has_ended_stays_ended_even_if_it_never_sent_any() -> None:
    simulation = Simulation(2)
    node = Node(simulation)
    empty, publisher = (SimulatedPublisher(simulation, name, "a", [kind]) for name, kind in (("empty", Other), ("p", Ping)))
    empty.publish([Other(ts=1 * SECOND, id=1, source="empty")])
    empty.advance(Ping, END)
    publisher.publish([ping(100 * SECOND)])
    simulation.run(IDLE + 2 * SECOND)
    assert node.final == 100 * SECOND, "all are silent"
    publisher.advance(Ping, END)
    simulation.run(SECOND)
    assert node.final == END


def test_it_becomes_final_when_they_have_left_without_an_end_too() -> None:
    simulation = Simulation(2)
    node = Node(simulation)
    publisher = SimulatedPublisher(simulation, "p", "a", [Ping])
    publisher.publish([ping(100 * SECOND)])
    simulation.run(SECOND)
    publisher.link.bye("has nothing more to say")
    simulation.run(IDLE + SECOND)
    assert node.final == 100 * SECOND
    again = SimulatedPublisher(simulation, "q", "a", [Ping])
    again.publish([ping(200 * SECOND, "q")])
    simulation.run(SECOND)
    assert node.final == 199 * SECOND


class Pang(Event):
    text: str = ""


class Either(Echo):
    subscribes = (Ping, Pang)


def test_what_has_gone_quiet_and_what_never_came_holds_back_nothing_for_ever() -> None:
    simulation = Simulation(2)
    hierarchy = Hierarchy([Either()], None, Policies())
    reads, derives = hierarchy.subscriptions, hierarchy.publications
    types = EventTypes([Ping, Pong, Pang])
    SimulatedNode(simulation, "a", [], types, reads=reads, derives=derives, process=hierarchy.process)
    first = SimulatedPublisher(simulation, "p", "a", [Ping])
    first.publish([ping(100 * SECOND)])
    simulation.run(SECOND)
    first.link.bye("has nothing more to say")
    simulation.run(IDLE + SECOND)
    (unit,) = hierarchy.units
    assert unit.final == 100 * SECOND, "though nobody has promised that no Pang will come"
    second = SimulatedPublisher(simulation, "q", "a", [Pang])
    for ts in range(200, 215):
        second.publish([Pang(ts=ts * SECOND, id=ts, source="q")])
        simulation.run(SECOND)
    assert unit.final == 213 * SECOND, "though Pings are quiet still"
    second.advance(Pang, END)
    simulation.run(IDLE + SECOND)
    assert unit.final == 214 * SECOND
    third = SimulatedPublisher(simulation, "r", "a", [Ping])
    third.advance(Ping, END)
    simulation.run(SECOND)
    assert unit.final == END


def test_it_becomes_final_on_other_nodes_too_and_resuming_does_no_harm() -> None:
    simulation = Simulation(2)
    a, b = Node(simulation, "a", ["b"], here=False), Node(simulation, "b", ["a"])
    simulation.run(SECOND)
    publisher = SimulatedPublisher(simulation, "p", "a", [Ping])
    publisher.publish([ping(100 * SECOND)])
    simulation.run(SECOND)
    publisher.link.bye("has nothing more to say")
    simulation.run(IDLE - 2 * SECOND)
    assert b.final == 99 * SECOND, "the allowed lateness behind the clock"
    simulation.run(4 * SECOND)
    assert b.final == 100 * SECOND
    here = SimulatedPublisher(simulation, "q", "b", [Ping])
    here.advance(Ping, 150 * SECOND)
    simulation.run(SECOND)
    assert b.final == 150 * SECOND, "whoever has left holds nobody back"
    again = SimulatedPublisher(simulation, "r", "a", [Ping])
    again.publish([ping(100 * SECOND, "r", 1), ping(200 * SECOND, "r", 2)])
    simulation.run(SECOND)
    assert [rejected.id for rejected in a.rejected] == [1]
    assert b.final == 199 * SECOND, "by the allowed lateness again"
    again.advance(Ping, END)
    here.advance(Ping, END)
    simulation.run(SECOND)
    assert b.final == END


def test_who_may_not_speak_is_not_idle() -> None:
    """Held back by a slow subscriber, a publisher says nothing for as long as that takes; it keeps its place."""
    simulation = Simulation(3)
    Node(simulation)
    slow = SimulatedSubscriber(simulation, "s", "a", ["Ping"], TYPES)
    held, other = (SimulatedPublisher(simulation, name, "a", [Ping]) for name in ("held", "other"))
    simulation.run(SECOND)
    slow.reading = False
    for number in range(200):
        held.publish([Ping("x" * 50_000, ts=1_000 + number, id=number, source="held")])
        held.advance(Ping, 1_000 + number)
    other.publish([ping(5_000, "other")])
    other.advance(Ping, 5_000)
    simulation.run(3 * IDLE)
    assert held.waiting
    slow.reading = True
    assert simulation.run_until(lambda: held.idle, 60 * SECOND)
    simulation.run(SECOND)
    assert sum(event.source == "held" for event in slow.events) == 200
    assert slow.watermarks["Ping"] == 1_199


def test_a_peer_without_messages_is_not_idle() -> None:
    """A channel lets acknowledgements through, and no events, for half a minute: what was sent then is no less in time."""

    class Cut(SimulatedPublisher):
        def step(self, now: int) -> list[tuple[Hashable, Parts]]:
            sends = super().step(now)
            cut = 2 * SECOND < now < 2 * SECOND + 3 * IDLE
            return [send for send in sends if not cut or type(decode_frame(send[1][0])) is not Data]

    simulation = Simulation(3)
    node = Node(simulation)
    cut, other = (of(simulation, name, "a", [Ping]) for of, name in ((Cut, "cut"), (SimulatedPublisher, "other")))
    simulation.run(SECOND)
    for publisher in (cut, other):
        publisher.publish([ping(1_000, publisher.name)])
        publisher.advance(Ping, 1_000)
    simulation.run(2 * SECOND)
    for publisher in (cut, other):
        publisher.publish([ping(number, publisher.name) for number in range(2_000, 2_100)])
        publisher.advance(Ping, 2_100)
    simulation.run(2 * IDLE)
    assert node.final == 1_000
    assert simulation.run_until(lambda: cut.idle, 3 * IDLE)
    simulation.run(SECOND)
    assert not node.rejected
    assert node.hierarchy.units[0].received == 202
    assert node.final == 2_100


def test_an_event_that_no_other_source_bears_out_waits_until_others_get_there() -> None:
    simulation = Simulation(4)
    node = Node(simulation)
    honest, liar = (SimulatedPublisher(simulation, name, "a", [Ping]) for name in ("honest", "liar"))
    honest.publish([ping(10 * SECOND, "honest")])
    simulation.run(SECOND)
    liar.publish([ping(10 * SECOND + 2 * AHEAD, "liar"), ping(11 * SECOND, "liar", 1)])
    simulation.run(SECOND)
    unit = node.hierarchy.units[0]
    assert unit.clock.clk == node.hierarchy.clock == 11 * SECOND and unit.received == 2
    assert node.broker.waiting([]).withheld == {"liar": (1, 10 * SECOND + 2 * AHEAD)}
    liar.publish([ping(10 * SECOND + 2 * AHEAD, "liar")])  # what waits may come again
    liar.link.bye("leaves")
    honest.publish([ping(12 * SECOND, "honest"), ping(10 * SECOND + 2 * AHEAD, "honest", 1)])
    simulation.run(SECOND)
    assert node.rejected == [] and unit.received == 5 and not unit.late, "it waited for its publisher, too, that has left"


def test_a_publisher_that_is_alone_is_believed_and_so_are_all_where_promises_decide() -> None:
    simulation = Simulation(5)
    node = Node(simulation)
    alone = SimulatedPublisher(simulation, "p", "a", [Ping])
    alone.publish([ping(1)])
    simulation.run(SECOND)
    alone.publish([ping(3 * AHEAD)])
    alone.advance(Ping, 1)
    simulation.run(SECOND)
    other = SimulatedPublisher(simulation, "q", "a", [Ping])
    other.advance(Ping, 1)
    simulation.run(100 * MILLISECOND)
    other.publish([ping(5 * AHEAD, "q"), ping(7, "q")])
    simulation.run(SECOND)
    assert node.rejected == []
    assert node.final == 1
    alone.advance(Ping, END)
    other.advance(Ping, END)
    simulation.run(SECOND)
    assert node.final == END
    assert not node.hierarchy.units[0].late


def test_nothing_comes_from_beyond_the_wall_clock() -> None:
    simulation = Simulation(6)
    node = Node(simulation)
    wall = 1_800_000_000 * SECOND
    node.broker.wall_is(wall, simulation.now)
    alone = SimulatedPublisher(simulation, "p", "a", [Ping])
    alone.publish([ping(wall, number=1), ping(wall + 2 * AHEAD, number=2)])
    simulation.run(SECOND)
    assert [(rejected.reason, rejected.id) for rejected in node.rejected] == [("ahead", 2)]
    assert node.hierarchy.clock == wall


def at_wall(simulation: Simulation, clocks: dict[str, int], nodes: Iterable[Node]) -> list[SimulatedPublisher]:
    """Publishers whose clocks show that time, which attach to the first node."""
    first = next(iter(nodes))
    publishers = [SimulatedPublisher(simulation, name, first.name, [Ping]) for name in clocks]
    for publisher in publishers:
        publisher.link.wall = clocks[publisher.name] - simulation.now
    simulation.run(SECOND)
    return publishers


WALL = 1_800_000_000 * SECOND


def test_a_node_whose_own_clock_is_hours_behind_that_of_all_others_takes_what_they_send_and_says_so() -> None:
    simulation = Simulation(11)
    node = Node(simulation)
    node.broker.wall_is(WALL - 3 * AHEAD, simulation.now)
    one, other = at_wall(simulation, {"one": WALL, "other": WALL + SECOND}, [node])
    one.publish([ping(WALL, "one")])
    other.publish([ping(WALL + 2 * SECOND, "other"), ping(WALL + 2 * AHEAD, "other")])
    simulation.run(SECOND)
    assert [(rejected.reason, rejected.ts) for rejected in node.rejected] == [("ahead", WALL + 2 * AHEAD)], (
        "and still bounds them"
    )
    assert node.hierarchy.units[0].received == 2
    assert 0 <= 3 * AHEAD - node.broker.sources.behind < SECOND, "by the least of theirs, as long as that took to arrive"
    assert node.broker.waiting([]).behind == node.broker.sources.behind
    node.broker.wall_is(WALL, simulation.now)
    assert node.broker.sources.behind == 0, "it has been set"


def test_a_single_publisher_is_not_believed_against_the_node() -> None:
    simulation = Simulation(12)
    node = Node(simulation)
    node.broker.wall_is(WALL, simulation.now)
    (alone,) = at_wall(simulation, {"alone": WALL + 3 * AHEAD}, [node])
    alone.publish([ping(WALL + 3 * AHEAD, "alone")])
    simulation.run(SECOND)
    assert not node.rejected and alone.waiting, "another may come and tell who is right"
    simulation.run(UNDECIDED)
    assert [rejected.reason for rejected in node.rejected] == ["ahead"] and node.broker.sources.behind == 0


def test_a_node_that_begins_with_a_wrong_clock_waits_until_two_have_announced_theirs() -> None:
    simulation = Simulation(14)
    node = Node(simulation)
    node.broker.wall_is(WALL - 3 * AHEAD, simulation.now)
    (first,) = at_wall(simulation, {"first": WALL}, [node])
    first.publish([ping(WALL, "first")])
    simulation.run(SECOND)
    (second,) = at_wall(simulation, {"second": WALL}, [node])
    simulation.run(SECOND)
    assert not node.rejected and node.hierarchy.units[0].received == 1
    second.link.bye("has sent all")
    simulation.run(SECOND)
    first.publish([ping(WALL + SECOND, "first", 2)])
    simulation.run(SECOND)
    assert not node.rejected and node.hierarchy.units[0].received == 2, "it is as right as before"


def test_publishers_that_are_wrong_together_are_not_believed_where_another_node_has_the_same_time() -> None:
    simulation = Simulation(13)
    here, there = Node(simulation, "a", "ab"), Node(simulation, "b", "ab", here=False)
    for node in (here, there):
        node.broker.wall_is(WALL, simulation.now)
    one, other = at_wall(simulation, {"one": WALL + 3 * AHEAD, "other": WALL + 3 * AHEAD}, [here, there])
    one.publish([ping(WALL + 3 * AHEAD, "one")])
    other.publish([ping(WALL + 3 * AHEAD, "other")])
    simulation.run(SECOND)
    assert [rejected.reason for rejected in here.rejected] == ["ahead", "ahead"] and here.broker.sources.behind == 0


def test_a_node_that_is_behind_another_node_and_a_publisher_goes_by_theirs() -> None:
    simulation = Simulation(14)
    here, there = Node(simulation, "a", "ab"), Node(simulation, "b", "ab", here=False)
    here.broker.wall_is(WALL - 3 * AHEAD, simulation.now)
    there.broker.wall_is(WALL, simulation.now)
    (one,) = at_wall(simulation, {"one": WALL}, [here, there])
    one.publish([ping(WALL, "one")])
    simulation.run(SECOND)
    assert not here.rejected and 0 <= 3 * AHEAD - here.broker.sources.behind < SECOND and there.broker.sources.behind == 0


def test_a_block_that_denies_its_times_does_not_get_them_past_anyone() -> None:
    simulation = Simulation(7)
    node = Node(simulation)
    liar = SimulatedPublisher(simulation, "liar", "a", [Ping])
    [(head, block)] = encode_delta("Ping", Delta([ping(5), ping(10**18)]), raw=True, runs=[("p", 5, 6)])
    head.newest = 6
    simulation.run(SECOND)
    liar.link.send([encode(Changes(6, None, [head])), block])
    simulation.run(SECOND)
    assert node.broker.drops == {"later than its block says": 1}
    assert node.hierarchy.units[0].clock.clk == 5


class Unknown(Event):
    """A type that the node does not have."""


FAR = 3_000 * SECOND


def send_unknown(publisher: SimulatedPublisher) -> None:
    publisher.publish([Unknown(ts=FAR, id=1, source="q")])


def send_malformed(publisher: SimulatedPublisher) -> None:
    publisher.waiting.append(Publication().encoded("Ping", [encode(["x", FAR, 1, "q", 1])], 1, FAR))


def send_a_clash(publisher: SimulatedPublisher) -> None:
    publisher.publish([Ping("other", ts=FAR, id=SECOND, source="p")])


def send_a_revision_of_nothing(publisher: SimulatedPublisher) -> None:
    publisher.revise(ping(SECOND, number=77), ping(FAR, number=77))


@pytest.mark.parametrize("bad", [send_unknown, send_malformed, send_a_clash, send_a_revision_of_nothing])
def test_what_is_rejected_moves_no_clock(bad: Callable[[SimulatedPublisher], None]) -> None:
    simulation = Simulation(8)
    node = Node(simulation)
    good, other = (SimulatedPublisher(simulation, name, "a", [Ping], shares=True) for name in ("good", "other"))
    good.publish([ping(SECOND)])
    simulation.run(SECOND)
    bad(other)
    simulation.run(SECOND)
    good.publish([ping(2 * SECOND), ping(3 * SECOND)])
    simulation.run(SECOND)
    assert node.broker.tracker.clock == node.hierarchy.units[0].clock.clk == 3 * SECOND
    assert not [rejected for rejected in node.rejected if rejected.reason != "clash"] and not node.hierarchy.units[0].late


def test_a_revision_that_is_taken_moves_the_clock() -> None:
    simulation = Simulation(9)
    node = Node(simulation)
    publisher = SimulatedPublisher(simulation, "p", "a", [Ping])
    publisher.publish([ping(SECOND)])
    publisher.revise(ping(SECOND), ping(5 * SECOND, number=SECOND))
    simulation.run(SECOND)
    assert node.broker.tracker.clock == 5 * SECOND


def test_a_time_that_was_too_far_ahead_is_not_believed_later_either() -> None:
    simulation = Simulation(10)
    node = Node(simulation)
    node.broker.wall_is(WALL, simulation.now)
    (publisher,) = at_wall(simulation, {"p": WALL}, [node])
    publisher.publish([ping(WALL, number=1)])
    publisher.publish([ping(WALL + AHEAD + 20 * SECOND, number=2)])
    simulation.run(30 * SECOND)  # it lies within the limit now
    for number in range(3, 8):
        publisher.publish([ping(WALL + simulation.now, number=number)])
        simulation.run(SECOND)
    assert [rejected.reason for rejected in node.rejected] == ["ahead"] and not node.hierarchy.units[0].late
    assert node.broker.tracker.clock is not None and node.broker.tracker.clock < WALL + 40 * SECOND


def test_what_hides_behind_a_cut_is_not_ended_by_those_in_sight() -> None:
    simulation = Simulation(8)
    here, there = Node(simulation, "a", "ab"), Node(simulation, "b", "ab", here=False)
    seen, hidden = SimulatedPublisher(simulation, "seen", "a", [Ping]), SimulatedPublisher(simulation, "hidden", "b", [Ping])
    simulation.run(SECOND)
    seen.publish([ping(10 * SECOND, "seen")])
    simulation.run(SECOND)
    simulation.partition("a", "b")
    simulation.run(15 * SECOND)
    assert here.closed and there.closed
    seen.advance(Ping, END)
    simulation.run(SECOND)
    assert here.final < END, "b had a publisher when it was last seen"
    simulation.heal()
    assert simulation.run_until(lambda: all(peer.up for peer in there.broker.statistics().peers), 30 * SECOND)
    simulation.run(SECOND)
    hidden.publish([ping(20 * SECOND, "hidden")])
    hidden.advance(Ping, END)
    assert simulation.run_until(lambda: here.final == END, 30 * SECOND)
    assert here.hierarchy.units[0].received == 2
    assert not here.hierarchy.units[0].late


def test_after_a_cut_that_outlasts_the_silence_readers_get_the_gap() -> None:
    """Without a log, what was published meanwhile is gone: the other node counts it, and its subscribers hear of it."""
    simulation = Simulation(10)
    here, _ = Node(simulation, "a", "ab", here=False), Node(simulation, "b", "ab", here=False)
    reader = SimulatedSubscriber(simulation, "reader", "a", ["Ping"], TYPES)
    deaf = SimulatedSubscriber(simulation, "deaf", "a", ["Pong"], TYPES)
    publisher = SimulatedPublisher(simulation, "p", "b", [Ping])
    assert simulation.run_until(lambda: reader.ready, 30 * SECOND)
    publisher.publish([ping(1)])
    simulation.run(SECOND)
    simulation.partition("a", "b")
    simulation.run(5 * SECOND)
    publisher.publish([ping(2)])
    simulation.heal()
    simulation.run(3 * SECOND)
    assert [event.ts for event in reader.events] == [1, 2], "a short cut loses nothing"
    assert (reader.gaps, deaf.gaps) == (0, 0)
    simulation.partition("a", "b")
    simulation.run(15 * SECOND)
    publisher.publish([ping(3)])
    simulation.run(SECOND)
    simulation.heal()
    simulation.run(3 * SECOND)
    publisher.publish([ping(4)])
    simulation.run(3 * SECOND)
    assert [event.ts for event in reader.events] == [1, 2, 4]
    assert (reader.gaps, deaf.gaps) == (1, 0)
    assert here.broker.drops["gap in what a node sends"] == 1


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 30_000), st.lists(st.integers(-40_000, 5_000), max_size=4), st.booleans()),
        max_size=12,
    )
)
def test_whatever_sources_do_no_promise_is_broken_and_every_event_is_taken_or_listed(
    steps: list[tuple[int, int, list[int], bool]],
) -> None:
    """Three publishers speak, promise, lie and fall silent at random."""
    simulation = Simulation(9)
    node = Node(simulation)
    subscriber = SimulatedSubscriber(simulation, "s", "a", ["Pong", "Ping"], TYPES)
    publishers = [SimulatedPublisher(simulation, f"p{number}", "a", [Ping]) for number in range(3)]
    simulation.run(SECOND)
    sent = 0
    promised = NEVER
    for who, pause, offsets, promises in steps:
        simulation.run(pause * MILLISECOND)
        events = []
        for offset in offsets:
            sent += 1
            events.append(ping(simulation.now + offset * MILLISECOND + 10**12, f"p{who}", sent))
        if events:
            publishers[who].publish(events)
        if promises:
            publishers[who].advance(Ping, simulation.now + 10**12)
        watermark = subscriber.watermarks.get("Ping", NEVER)
        assert promised <= watermark or watermark == NEVER
        promised = max(promised, watermark)
    simulation.run(3 * IDLE)
    unit = node.hierarchy.units[0]
    listed = len(node.rejected) + len(unit.late)
    assert unit.received + len(node.rejected) == sent
    newest = max((event.ts for event in subscriber.events if isinstance(event, Ping)), default=NEVER)
    assert unit.final >= newest, "it is final, a while after the last word"
    assert sum(isinstance(event, Pong) for event in subscriber.events) == sent - listed
    assert Barrier(["Pong"]).violations == {}


def test_a_revision_moves_the_clock_of_a_node_without_types_too() -> None:
    simulation = Simulation(11)
    node = SimulatedNode(simulation, "a")
    publisher = SimulatedPublisher(simulation, "p", "a", [Ping])
    publisher.publish([ping(SECOND)])
    publisher.revise(ping(SECOND), ping(5 * SECOND, number=SECOND))
    simulation.run(SECOND)
    assert node.broker.tracker.clock == 5 * SECOND
