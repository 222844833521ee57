"""Detectors on columns: whatever their batches, they are the detectors that take one event after the other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.model.change import Delta
from middleware.model.detector import Detector
from middleware.model.event import END, ORDER
from middleware.ordering.hierarchy import unit_for
from middleware.ordering.lanes.batch_lane import BatchLane
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import Lateness
from middleware.testing.oracle import first_arrivals, in_order
from tests.property.strategies import policies

from .streams import Alarm, Reading, Totals, TotalsOnColumns, arrivals, batches
from .test_unit import Consumer


@pytest.fixture(autouse=True, scope="module")
def near_snapshots():
    """Snapshots as close as the policies say: the few events drawn here would see none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BatchLane, "wider", 1)
        yield


_ALL_IN_TIME = st.just(Lateness(1, 1000))


@settings(max_examples=100, deadline=None)
@given(arrived=arrivals())
def test_one_event_at_a_time_is_a_batch_of_one(arrived):
    """The oracle gives large batches, ``on_event`` one event; the twin by event knows no batches."""
    expected = in_order("Totals", Totals(), 1, first_arrivals(arrived))
    assert sorted(in_order("Totals", TotalsOnColumns(), 1, first_arrivals(arrived)), key=ORDER) == sorted(expected, key=ORDER)


@settings(max_examples=100, deadline=None)
@given(data=st.data(), arrived=arrivals(), policy=policies(lateness=_ALL_IN_TIME))
def test_changes_net_to_the_results_of_the_twin_by_event(data, arrived, policy):
    """Any cuts, disorder, revisions, withdrawals, and a restart from a checkpoint in between."""
    unit, consumer, stands = unit_for("Totals", TotalsOnColumns(), 1, policy), Consumer(), {}
    crash = data.draw(st.integers(0, 8))
    for number, batch in enumerate(batches(data.draw, first_arrivals(arrived))):
        delta = Delta(batch)
        for old in (
            data.draw(st.lists(st.sampled_from(sorted(stands.values(), key=ORDER)), max_size=2, unique=True)) if stands else ()
        ):
            del stands[old.source, old.id]
            if data.draw(st.booleans()):
                delta.retracts.append(old)
            else:
                new = Reading(old.sensor, data.draw(st.integers(0, 9)), ts=old.ts, id=old.id, source=old.source)
                delta.revises += [(old, new)] if new != old else []
                stands[new.source, new.id] = new
        stands.update(((event.source, event.id), event) for event in batch)
        consumer.take(unit.push(delta))
        unit.check()
        if number == crash:
            state = unit.state()
            unit = unit_for("Totals", TotalsOnColumns(), 1, policy)
            unit.restore(state)
    consumer.take(unit.push(Delta(), promised=END, is_open=False))
    assert not unit.late
    assert consumer.finals() == sorted(in_order("Totals", Totals(), 1, stands.values()), key=ORDER)


class Unsure(Detector):
    """Raises where two events come together."""

    subscribes, publishes = (Reading,), (Alarm,)

    def on_batch(self, events):
        if len(events) > 1:
            raise RuntimeError("two")
        return {"sensor": events.array("sensor"), "total": np.zeros(1, int), "ts": events.times, "row": [0]}


def test_what_raises_only_in_batches_is_no_detector():
    unit = unit_for("Unsure", Unsure(), 1, Policies(alpha=0.0, lateness=Lateness(1, 1000)))
    readings = [Reading(0, 0, ts=ts, id=ts, source="a") for ts in range(3)]
    (delta,) = unit.push(Delta(readings[:1]))
    assert len(delta.inserts) == 1
    unit.push(Delta(readings[1:]))
    assert "hangs on where batches end" in str(unit.halted)
