"""What makes a type has stopped: its readers hear of it, wherever they are, and those of other types do not."""

from __future__ import annotations

import random

import pytest

from middleware.model.change import Batch, Delta
from middleware.model.event import END, EventTypes
from middleware.model.operator import Operation
from middleware.model.time import SECOND
from middleware.ordering.hierarchy import Hierarchy
from middleware.testing.simulation import applications
from middleware.testing.simulation.applications import High, Low, Probe, Reading, Spans
from middleware.testing.simulation.disk import Disk
from middleware.testing.simulation.fragile import Fragile
from middleware.testing.simulation.network import SimulatedNode, SimulatedPublisher, SimulatedSubscriber, Simulation
from middleware.testing.simulation.nodes import DurableNode
from middleware.testing.simulation.promise_watch import Watch, WatchedSink

TYPES = EventTypes([Reading, Low, High])


@pytest.mark.parametrize("final", [False, True])
def test_readers_of_what_stopped_are_notified_at_this_node_and_at_the_next(final: bool) -> None:
    simulation = Simulation(3)
    low = SimulatedNode(simulation, "low", peers=["high"], types=TYPES, derives=["Low", "Other"])
    SimulatedNode(simulation, "high", peers=["low"], types=TYPES, reads=["Low"], derives={"High": ["Low"]})
    at_low = SimulatedSubscriber(simulation, "at_low", "low", ["Low"], TYPES, final=final)
    at_high = SimulatedSubscriber(simulation, "at_high", "high", ["High"], TYPES, final=final)
    apart = SimulatedSubscriber(simulation, "apart", "low", ["Other"], TYPES, final=final)
    simulation.run(SECOND)
    low.broker.publish(Batch({"Low": Delta([Low(0, 0, ts=1, id=1, source="L", level=1)])}, {"Low": 0}), simulation.now)
    simulation.run(SECOND)
    assert not any(reader.gaps for reader in (at_low, at_high, apart))
    low.broker.publish(Batch({}, {"Low": 5, "Other": 5}, None, ["Low"]), simulation.now)
    simulation.run(SECOND)
    assert (at_low.gaps, at_high.gaps, apart.gaps) == (1, 1, 0)


@pytest.mark.parametrize("raises", [[True, False], [False, True]])
def test_what_stopped_stays_so_after_a_crash_and_what_stops_in_replay_is_reported(raises: list[bool]) -> None:
    """What an operator is given early goes by alpha, which no log has: in replay it may raise where it did not, or not where it
    did."""
    simulation, disk, rng, watch = Simulation(1), Disk(1, random.Random(1)), random.Random(1), Watch("a")

    def a_life(does_raise: bool) -> DurableNode:
        def start(name: str, level: int) -> Operation:
            operation = Spans().start(name, level)
            if does_raise:
                operation.restore = operation.apply = None  # type: ignore[assignment, method-assign]
            return operation

        hierarchy = Hierarchy({"Spans": Fragile(Spans(), start)})
        return DurableNode(simulation, "a", ["a"], applications.TYPES, hierarchy, watch, rng, disk, checkpoint_every=10_000)

    a_life(raises[0])
    sink = WatchedSink(simulation, "sink", "a", ["Span"], applications.TYPES)
    publisher = SimulatedPublisher(simulation, "p", "a", [Probe, Low])
    simulation.run(SECOND)
    publisher.publish([Probe(0, 1, ts=ts, id=ts, source="p") for ts in range(8)])
    simulation.run(SECOND)
    assert bool(sink.gaps) == raises[0]
    simulation.crash("a")
    disk.crash()
    for does_raise in (raises[1], False):
        node = a_life(does_raise)
        simulation.run(2 * SECOND)
        assert list(node.hierarchy.halted) == ["Spans"]
        assert sink.gaps == 1
        simulation.crash("a")
        disk.crash()
    a_life(False)
    for kind in (Probe, Low):
        publisher.advance(kind, END)
    assert simulation.run_until(lambda: sink.subscription.watermark == END, 60 * SECOND), "something waits for it"
    assert not sink.finals
