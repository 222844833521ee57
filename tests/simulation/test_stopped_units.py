"""What makes a type has stopped: its readers hear of it, wherever they are, and those of other types do not."""

from __future__ import annotations

import pytest

from middleware.change import Batch, Delta
from middleware.clock import SECOND
from middleware.event import EventTypes
from middleware.testing.simulation import SimulatedNode, SimulatedSubscriber, Simulation
from middleware.testing.worlds.applications import High, Low, Reading

TYPES = EventTypes([Reading, Low, High])


@pytest.mark.parametrize("final", [False, True])
def test_readers_of_what_stopped_are_told_at_this_node_and_at_the_next(final: bool) -> None:
    simulation = Simulation(3)
    low = SimulatedNode(simulation, "low", peers=["high"], types=TYPES, derives=["Low", "Other"])
    high = SimulatedNode(simulation, "high", peers=["low"], types=TYPES, reads=["Low"], derives=["High"])
    high.broker._derivations = {"Low": frozenset({"High"})}
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
