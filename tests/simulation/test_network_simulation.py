"""Brokers and links on a network that loses, repeats, delays, reorders and splits: each event once, in order."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from middleware.broker.backpressure import QUEUE_HIGH
from middleware.link.link import MOST_WINDOW, WINDOW
from middleware.model.change import Batch, Delta
from middleware.model.event import END, NEVER, Event, EventTypes
from middleware.model.time import MILLISECOND, SECOND
from middleware.testing.simulation.network import Faults, SimulatedNode, SimulatedPublisher, SimulatedSubscriber, Simulation


class Ping(Event):
    text: str = ""


class Pong(Event):
    text: str = ""


TYPES = EventTypes([Ping, Pong])
NODES = ["a", "b", "c"]


def pings(source: str, first: int, count: int, text: str = "") -> list[Event]:
    return [Ping(text, ts=1_000 + number, id=number, source=source) for number in range(first, first + count)]


def ids_by_source(events: list[Event]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for event in events:
        found[event.source].append(event.id)
    return dict(found)


def mesh(simulation: Simulation, names: list[str]) -> dict[str, SimulatedNode]:
    return {name: SimulatedNode(simulation, name, names, TYPES) for name in names}


faults = st.builds(
    Faults,
    drop=st.sampled_from([0.0, 0.05, 0.2]),
    duplicate=st.sampled_from([0.0, 0.2]),
    delay_least=st.just(MILLISECOND),
    delay_most=st.sampled_from([MILLISECOND, 60 * MILLISECOND]),
)


@settings(max_examples=40, deadline=None)
@example(1575, Faults(drop=0.2), ("b", "c", "a", "b"), [("ac", 100)])  # one payload is lost nine times, for half a minute
@given(
    seed=st.integers(0, 2**32),
    trouble=faults,
    where=st.tuples(*[st.sampled_from(NODES)] * 4),
    splits=st.lists(st.tuples(st.sampled_from(["ab", "bc", "ac"]), st.integers(100, 3_000)), max_size=2),
)
def test_everything_published_reaches_every_subscriber_once_and_in_order(
    seed: int, trouble: Faults, where: tuple[str, ...], splits: list[tuple[str, int]]
) -> None:
    simulation = Simulation(seed, trouble)
    nodes = mesh(simulation, NODES)
    publishers = [SimulatedPublisher(simulation, f"p{i}", where[i], [Ping]) for i in range(2)]
    subscribers = [
        SimulatedSubscriber(simulation, f"s{i}", where[2 + i], [pattern], TYPES) for i, pattern in enumerate(["Ping", "*"])
    ]
    assert simulation.run_until(lambda: all(s.ready for s in subscribers), 120 * SECOND)
    for publisher in publishers:
        for first in range(0, 200, 20):
            publisher.publish(pings(publisher.name, first, 20))
        publisher.publish(pings(publisher.name, 100, 30))  # a repeat, which must not show
    for pair, milliseconds in splits:
        simulation.partition(*pair)
        simulation.run(milliseconds * MILLISECOND)
        simulation.heal()
    expected = {publisher.name: list(range(200)) for publisher in publishers}
    done = simulation.run_until(
        lambda: all(p.idle for p in publishers) and all(len(s.events) >= 400 for s in subscribers), 300 * SECOND
    )
    simulation.run(2 * SECOND)
    for subscriber in subscribers:
        assert ids_by_source(subscriber.events) == expected
        assert not subscriber.drops
    assert done
    assert sum(node.broker.drops["duplicate"] for node in nodes.values()) == 60
    assert not any(node.closed for node in nodes.values())
    for publisher in publishers:
        publisher.link.check()


@pytest.mark.parametrize("seed", range(3))
def test_the_same_seed_gives_the_same_history(seed: int) -> None:
    def history() -> list[tuple[int, int]]:
        simulation = Simulation(seed, Faults(0.1, 0.1, MILLISECOND, 50 * MILLISECOND))
        mesh(simulation, NODES)
        publisher = SimulatedPublisher(simulation, "p", "a", [Ping])
        subscriber = SimulatedSubscriber(simulation, "s", "c", ["Ping"], TYPES)
        simulation.run_until(lambda: subscriber.ready, 60 * SECOND)
        for first in range(0, 100, 10):
            publisher.publish(pings("p", first, 10))
        seen: list[tuple[int, int]] = []
        simulation.run(30 * SECOND, lambda: seen.append((simulation.now, len(subscriber.events))))
        return seen

    first = history()
    assert first[-1][1] == 100
    assert history() == first


def test_a_slow_subscriber_bounds_memory_and_slows_only_what_it_reads() -> None:
    simulation = Simulation(1)
    nodes = mesh(simulation, NODES)
    slow = SimulatedSubscriber(simulation, "slow", "b", ["Ping"], TYPES)
    quick = SimulatedSubscriber(simulation, "quick", "b", ["Pong"], TYPES)
    ping = SimulatedPublisher(simulation, "ping", "a", [Ping])
    pong = SimulatedPublisher(simulation, "pong", "a", [Pong])
    assert simulation.run_until(lambda: slow.ready and quick.ready, 10 * SECOND)
    slow.reading = False
    for first in range(0, 6_000, 10):
        ping.publish(pings("ping", first, 10, "x" * 2_000))  # 12 MB in all
        pong.publish([Pong("y" * 2_000, ts=1 + n, id=n, source="pong") for n in range(first, first + 10)])
    most = 0

    def watch() -> None:
        nonlocal most
        most = max(most, *(peer.link.queued_bytes for node in nodes.values() for peer in node.broker.statistics().peers))

    assert simulation.run_until(lambda: len(quick.events) == 6_000, 60 * SECOND, watch)
    simulation.run(5 * SECOND, watch)
    assert slow.events == []
    assert ping.waiting, "the source of what the slow one reads must wait"
    assert most <= QUEUE_HIGH + 2 * MOST_WINDOW
    slow.reading = True
    assert simulation.run_until(lambda: len(slow.events) == 6_000, 60 * SECOND)
    assert [event.id for event in slow.events] == list(range(6_000))


def test_a_slow_subscriber_that_chose_so_gets_the_reason_and_is_dropped() -> None:
    simulation = Simulation(1)
    node = SimulatedNode(simulation, "a", types=TYPES)
    slow = SimulatedSubscriber(simulation, "slow", "a", ["Ping"], TYPES, on_slow="disconnect")
    quick = SimulatedSubscriber(simulation, "quick", "a", ["Ping"], TYPES)
    publisher = SimulatedPublisher(simulation, "p", "a", [Ping])
    assert simulation.run_until(lambda: slow.ready and quick.ready, 10 * SECOND)
    slow.reading = False
    for first in range(0, 2_000, 10):
        publisher.publish(pings("p", first, 10, "x" * 2_000))
    assert simulation.run_until(lambda: len(quick.events) == 2_000, 60 * SECOND)
    simulation.run(SECOND)
    assert slow.link.refused
    assert slow.link.closed is not None
    assert "too slow" in slow.link.closed
    assert [closed.name for closed in node.closed] == ["slow"]
    assert node.broker.drops["frames to a subscriber that left"] > 0


def test_a_dead_subscriber_holds_its_sources_up_only_until_it_is_found_dead() -> None:
    simulation = Simulation(1)
    node = SimulatedNode(simulation, "a", types=TYPES)
    stopped = SimulatedSubscriber(simulation, "stopped", "a", ["Ping"], TYPES)
    alive = SimulatedSubscriber(simulation, "alive", "a", ["Ping"], TYPES)
    publisher = SimulatedPublisher(simulation, "p", "a", [Ping])
    assert simulation.run_until(lambda: stopped.ready and alive.ready, 10 * SECOND)
    simulation.crash("stopped")
    for first in range(0, 2_000, 10):
        publisher.publish(pings("p", first, 10, "x" * 2_000))
    simulation.run(5 * SECOND)
    assert publisher.waiting
    assert simulation.run_until(lambda: len(alive.events) == 2_000, 60 * SECOND)
    assert [event.id for event in alive.events] == list(range(2_000))
    assert [closed.name for closed in node.closed] == ["stopped"]
    assert node.broker.drops["frames to a subscriber that left"] == node.closed[0].lost > 0


def test_pressure_runs_through_detectors_to_the_sources_of_what_they_read() -> None:
    simulation = Simulation(1)

    def echo(batch: Batch) -> list[Batch]:
        delta = batch.deltas.get("Ping", Delta())
        return [Batch({"Pong": Delta([Pong(e.text, ts=e.ts, id=e.id, source="echo", level=1) for e in delta.inserts])})]

    nodes = {name: SimulatedNode(simulation, name, "abc", TYPES) for name in "ac"}
    nodes["b"] = SimulatedNode(simulation, "b", "abc", TYPES, reads=["Ping"], derives={"Pong": ["Ping"]}, process=echo)
    slow = SimulatedSubscriber(simulation, "slow", "c", ["Pong"], TYPES)
    publisher = SimulatedPublisher(simulation, "p", "a", [Ping])
    assert simulation.run_until(lambda: slow.ready, 10 * SECOND)
    slow.reading = False
    for first in range(0, 4_000, 10):
        publisher.publish(pings("p", first, 10, "x" * 2_000))  # 8 MB: at c they become too many, two nodes away
    most = 0

    def watch() -> None:
        nonlocal most
        most = max(most, *(peer.link.queued_bytes for node in nodes.values() for peer in node.broker.statistics().peers))

    simulation.run(8 * SECOND, watch)
    waiting = len(publisher.waiting)
    assert waiting > 100
    simulation.run(8 * SECOND, watch)
    assert len(publisher.waiting) == waiting
    assert most <= QUEUE_HIGH + 5 * WINDOW  # one for each tick that the word needs from c to the credit at a
    slow.reading = True
    assert simulation.run_until(lambda: len(slow.events) == 4_000, 60 * SECOND)
    assert [event.id for event in slow.events] == list(range(4_000))


def test_the_events_of_a_publisher_that_restarts_and_sends_all_again_count_once() -> None:
    simulation = Simulation(7, Faults(0.1, 0.1, MILLISECOND, 40 * MILLISECOND))
    nodes = mesh(simulation, NODES)
    subscriber = SimulatedSubscriber(simulation, "s", "b", ["Ping"], TYPES)
    assert simulation.run_until(lambda: subscriber.ready, 30 * SECOND)
    publisher = SimulatedPublisher(simulation, "p", "a", [Ping])
    for first in range(0, 300, 10):
        publisher.publish(pings("p", first, 10))
    assert simulation.run_until(lambda: len(subscriber.events) > 100, 60 * SECOND)
    again = SimulatedPublisher(simulation, "p", "a", [Ping])
    for first in range(0, 400, 10):
        again.publish(pings("p", first, 10))
    assert simulation.run_until(lambda: again.idle and len(subscriber.events) >= 400, 60 * SECOND)
    simulation.run(SECOND)
    assert [event.id for event in subscriber.events] == list(range(400))
    assert [(closed.role, closed.reason) for closed in nodes["a"].closed] == [("publisher", "restarted")]


def test_a_node_that_crashes_and_comes_back_is_joined_again_and_the_others_continue() -> None:
    simulation = Simulation(3, Faults(0.05, 0.05, MILLISECOND, 20 * MILLISECOND))
    nodes = mesh(simulation, NODES)
    at_b = SimulatedSubscriber(simulation, "sb", "b", ["Ping"], TYPES)
    at_c = SimulatedSubscriber(simulation, "sc", "c", ["Ping"], TYPES)
    publisher = SimulatedPublisher(simulation, "p", "a", [Ping])
    assert simulation.run_until(lambda: at_b.ready and at_c.ready, 30 * SECOND)
    publisher.publish(pings("p", 0, 50))
    assert simulation.run_until(lambda: len(at_b.events) == len(at_c.events) == 50, 30 * SECOND)
    simulation.crash("c")
    publisher.publish(pings("p", 50, 50))
    assert simulation.run_until(lambda: len(at_b.events) == 100, 30 * SECOND)
    simulation.run(15 * SECOND)
    assert [(closed.role, closed.name) for closed in nodes["a"].closed] == [("node", "c")]
    SimulatedNode(simulation, "c", NODES, TYPES)
    assert simulation.run_until(lambda: at_c.link.restarts > 0, 60 * SECOND)
    assert simulation.run_until(lambda: at_c.ready, 10 * SECOND)
    assert at_c.gaps == 1
    publisher.publish(pings("p", 100, 50))
    assert simulation.run_until(lambda: len(at_b.events) == 150 and at_c.events[-1].id == 149, 60 * SECOND)
    assert [event.id for event in at_b.events] == list(range(150))


def test_a_publisher_outlives_its_node_and_loses_nothing_it_was_not_promised() -> None:
    simulation = Simulation(5)
    SimulatedNode(simulation, "a", types=TYPES)
    publisher = SimulatedPublisher(simulation, "p", "a", [Ping])
    assert simulation.run_until(lambda: publisher.link.has_room, 10 * SECOND)
    simulation.crash("a")
    publisher.publish(pings("p", 0, 10))
    simulation.run(5 * SECOND)
    assert not publisher.idle
    SimulatedNode(simulation, "a", types=TYPES)
    subscriber = SimulatedSubscriber(simulation, "s", "a", ["Ping"], TYPES)
    assert simulation.run_until(lambda: publisher.idle and subscriber.ready, 30 * SECOND)
    publisher.publish(pings("p", 10, 10))
    assert simulation.run_until(lambda: bool(subscriber.events) and subscriber.events[-1].id == 19, 10 * SECOND)
    assert [event.id for event in subscriber.events] == list(range(20))


@pytest.mark.parametrize("order", [["a", "b"], ["b", "a"]])
def test_nodes_and_clients_start_in_any_order_and_nothing_is_lost(order: list[str]) -> None:
    simulation = Simulation(2)
    publisher = SimulatedPublisher(simulation, "p", "a", [Ping])
    publisher.publish(pings("p", 0, 10))
    derive = {"b": True}
    nodes: dict[str, SimulatedNode] = {}

    def echo(batch: Batch) -> list[Batch]:
        delta = batch.deltas.get("Ping", Delta())
        out = [Pong(ts=e.ts, id=e.id, source="echo", level=1) for e in delta.inserts]
        watermarks = {"Pong": batch.watermarks["Ping"]} if "Ping" in batch.watermarks else {}
        return [Batch({"Pong": Delta(out)}, watermarks, batch.clock)]

    subscriber = SimulatedSubscriber(simulation, "s", "a", ["Pong"], TYPES)
    for name in order:
        simulation.run(SECOND)
        assert publisher.waiting, "no credit before all nodes have met"
        role = {"reads": ["Ping"], "derives": ["Pong"], "process": echo} if derive.get(name) else {}
        nodes[name] = SimulatedNode(simulation, name, ["a", "b"], TYPES, **role)  # type: ignore[arg-type]
    publisher.advance(Ping, END)
    assert simulation.run_until(lambda: publisher.idle and subscriber.watermarks.get("Pong") == END, 20 * SECOND)
    read = [event.id for batch in nodes["b"].batches for event in batch.deltas.get("Ping", Delta()).inserts]
    assert read == list(range(10))


def test_watermark_of_what_a_missing_node_may_derive_is_held_at_never() -> None:
    simulation = Simulation(2)
    reader = SimulatedNode(simulation, "a", ["b"], TYPES, reads=["Ping", "Pong"])
    simulation.run(SECOND)
    assert reader.batches[-1].watermarks == {"Ping": NEVER, "Pong": NEVER}
    SimulatedNode(simulation, "b", ["a"], TYPES, derives=["Pong"])
    simulation.run(SECOND)
    assert reader.batches[-1].watermarks == {"Pong": NEVER}


def test_results_from_before_a_peer_attached_still_reach_it() -> None:
    """The node that is fed has met everyone; the one that derives has not met the one that reads."""

    def echo(batch: Batch) -> list[Batch]:
        delta = batch.deltas.get("Ping", Delta())
        out = [Pong(ts=e.ts, id=e.id, source="echo", level=1) for e in delta.inserts]
        watermarks = {"Pong": batch.watermarks["Ping"]} if "Ping" in batch.watermarks else {}
        return [Batch({"Pong": Delta(out)}, watermarks, batch.clock)]

    simulation = Simulation(3)
    simulation.partition("a", "c")
    names = ["a", "b", "c"]
    SimulatedNode(simulation, "a", names, TYPES, reads=["Ping"], derives=["Pong"], process=echo)
    SimulatedNode(simulation, "b", names, TYPES)
    reader = SimulatedNode(simulation, "c", names, TYPES, reads=["Pong"])
    publisher = SimulatedPublisher(simulation, "p", "b", [Ping])
    publisher.publish([Ping(ts=number + 1, id=number, source="p") for number in range(10)])
    publisher.advance(Ping, END)
    assert simulation.run_until(lambda: publisher.idle, 5 * SECOND), "the fed node must not wait for others to meet"
    simulation.run(SECOND)
    assert not any(batch.deltas for batch in reader.batches)
    simulation.heal()
    assert simulation.run_until(lambda: bool(reader.batches) and reader.batches[-1].watermarks.get("Pong") == END, 10 * SECOND)
    assert sum(len(batch.deltas["Pong"].inserts) for batch in reader.batches if batch.deltas) == 10
