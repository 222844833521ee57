"""Random flows, over random input, in random order of arrival, with repeats and withdrawals: always the sequential run."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.flow.operations.flow_operator import operators
from middleware.delivery.barrier import Barrier
from middleware.model.change import Batch, Delta
from middleware.model.event import END, IDENTITY, type_name
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.policies import Policies
from middleware.runtime.engine import run
from middleware.testing.flows import sequential
from middleware.testing.operators import history
from tests.property.flow.random_flows import INPUT, Out, flows


def in_order(finals):
    """Final events as the oracle has them, by the order of flows: time, then cause."""
    ordered = sorted((event for event in finals if isinstance(event, Out)), key=lambda event: (event.ts, event.cause))
    return [(event.ts, event.place, event.value) for event in ordered]


def expected(flow, events):
    return [(result.ts, *result.fields) for result in sequential(flow.nodes, events)]


@settings(max_examples=200, deadline=None)
@given(flows(), INPUT, st.randoms(use_true_random=False), st.integers(1, 3), st.booleans(), st.integers(1, 20))
def test_any_order_of_arrival(flow, events, generator, parts, fuse, batch):
    arrived = events + [event for event in events if generator.random() < 0.2]
    generator.shuffle(arrived)
    made = run(arrived, operators(flow, parts, fuse), batch=batch, failing="skip")
    assert not any(made.late.values())
    assert in_order(event for events in made.finals.values() for event in events) == expected(flow, events)


@settings(max_examples=200, deadline=None)
@given(flows(), INPUT, INPUT, INPUT, st.integers(0, 2**32), st.integers(1, 3), st.booleans(), st.integers(1, 8))
def test_withdrawals_and_revisions(flow, staying, passing, changing, seed, parts, fuse, batch):
    """Input that comes and goes, or changes, with promises in between: nothing final ever changes."""
    generator = Random(seed)
    passing = [renamed(event, "p") for event in passing]
    old = [renamed(event, "r") for event in changing]
    new = [
        event.__class__(event.value + generator.randint(0, 3), ts=event.ts, id=event.id, source=event.source) for event in old
    ]
    changed = [(was, now) for was, now in zip(old, new, strict=True) if was != now]
    same = [now for was, now in zip(old, new, strict=True) if was == now]
    moments = history(staying + same, generator, passing, changed, batch)
    hierarchy = Hierarchy(operators(flow, parts, fuse), policies=Policies(alpha=0.0))
    barrier = Barrier(sorted(hierarchy.publications))
    finals = []
    for moment in moments:
        watermarks = {name: moment.final for name in ("Number", "Other") if name in hierarchy.subscriptions}
        for made in hierarchy.process(Batch(by_type(moment.delta), watermarks, moment.emitted)):
            finals += barrier.take(made)
    for made in hierarchy.process(Batch({}, dict.fromkeys(("Number", "Other"), END))):
        finals += barrier.take(made)
    assert not barrier.violations
    assert not any(unit.late for unit in hierarchy.units)
    assert in_order(finals) == expected(flow, staying + new)


def renamed(event, prefix):
    return event.__class__(event.value, ts=event.ts, id=event.id, source=prefix + event.source)


def by_type(delta):
    """A moment as it comes to a node: by type, with revisions as such."""
    parts = {}
    gone = {IDENTITY(event): event for event in delta.retracts}
    for event in delta.inserts:
        part = parts.setdefault(type_name(event.__class__), Delta())
        old = gone.pop(IDENTITY(event), None)
        if old is None:
            part.inserts.append(event)
        else:
            part.revises.append((old, event))
    for event in gone.values():
        parts.setdefault(type_name(event.__class__), Delta()).retracts.append(event)
    return parts
