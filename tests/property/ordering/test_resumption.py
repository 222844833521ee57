"""Ended streams resume: over all stretches together, results are those of the oracle over all events, each published once."""

import random

import pytest
from msgspec.structs import replace

from detectors.simulated import an_application
from middleware.durability.state_encoding import decode_state, encode_state
from middleware.model.change import Batch, Delta
from middleware.model.event import END, NEVER, ORDER, TS, EventTypes, type_name
from middleware.ordering.hierarchy import Hierarchy
from middleware.testing.oracle import derived
from middleware.testing.simulation.applications import Probe, Reading, a_stream
from middleware.testing.simulation.plans.unit_policies import a_policy
from middleware.testing.simulation.promise_watch import Watch


def in_batches(rng, events):
    """Batches as they arrive, of 1 to 20 events."""
    while events:
        size = rng.randint(1, 20)
        batch, events = events[:size], events[size:]
        deltas = {}
        for event in batch:
            deltas.setdefault(type_name(event.__class__), Delta()).inserts.append(event)
        yield Batch(deltas, {}, max(map(TS, batch)))


def again(hierarchy, detectors, policies):
    """It continues in another process."""
    types = EventTypes([kind for detector in detectors.values() for kind in (*detector.subscribes, *detector.publishes)])
    state = decode_state(encode_state((hierarchy.state(), list(iter(lambda: hierarchy.parts(8), {}))), types), types)
    fresh = Hierarchy(detectors, policies=policies)
    fresh.restore(*state)
    return fresh


@pytest.mark.parametrize("first", range(0, 200, 25))
def test_results_of_all_stretches_are_those_of_the_oracle(first):
    stretches = 0
    for seed in range(first, first + 25):
        rng = random.Random(seed)
        detectors = an_application(rng)
        policies = {name: a_policy(rng, each) for name, each in detectors.items()}
        hierarchy = Hierarchy(detectors, policies=policies)
        watch, published, floor = Watch("hierarchy"), [], None
        for name in "pqr"[: rng.randint(2, 3)]:
            base = 0 if floor is None else floor + hierarchy.backdate + 1 + rng.choice([0, 3, 200])
            events = [replace(event, ts=event.ts + base) for event in a_stream(rng, [Reading, Probe], name)]
            published += events
            batches = [*in_batches(rng, events), Batch({}, dict.fromkeys(hierarchy.subscriptions, END))]
            if rng.random() < 0.5:  # the last events come together with the end
                batches[-1].deltas, batches[-1].clock = batches[-2].deltas, batches[-2].clock
                del batches[-2]
            batches[0].floor = floor
            for batch in batches:
                if batch.floor is not None:
                    watch.resume()
                    stretches += 1
                for out in hierarchy.process(batch):
                    watch.take(out.deltas, out.watermarks)
                    floor = max(floor if floor is not None else NEVER, out.reached)
                if rng.random() < 0.1:
                    hierarchy = again(hierarchy, detectors, policies)
            assert all(unit.final == END for unit in hierarchy.units), f"seed {seed}: it has not ended"
            newest = max(map(TS, [*published, *watch.now.values()]))
            assert floor >= newest, f"seed {seed}: {floor} was final, and {newest} came"
        if hierarchy.halted:  # an operator that raised: what came before stands, and the oracle raises, too
            continue
        late = {unit.name: {(each.event.source, each.event.id) for each in unit.late} for unit in hierarchy.units}
        expected = derived(
            detectors, lambda name, late=late, published=published: [e for e in published if (e.source, e.id) not in late[name]]
        )
        finals = sorted([event for events in expected.values() for event in events], key=ORDER)
        assert sorted(watch.now.values(), key=ORDER) == finals, f"seed {seed}"
    assert stretches >= 25


def test_a_unit_that_has_not_ended_is_left_alone():
    rng = random.Random(1)
    hierarchy = Hierarchy(an_application(rng))
    finals = hierarchy.finals()
    assert hierarchy.process(Batch({}, {}, None, floor=17)) == []
    assert hierarchy.finals() == finals
