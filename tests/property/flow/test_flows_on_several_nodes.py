"""Random flows split over nodes of a mesh in virtual time: whoever is faster, the sequential run comes out, once, in order."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.flow.operations.flow_operator import operators
from middleware.delivery.barrier import Barrier
from middleware.model.change import Batch, Delta
from middleware.model.event import END, type_name
from middleware.model.time import MILLISECOND
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import FixedSlack
from middleware.testing.flows import sequential
from middleware.testing.simulation.virtual_mesh import CollectingSink, VirtualMesh
from tests.property.flow.random_flows import INPUT, flows

OPTIMISTIC = Policies(alpha=0.0)
IN_ORDER = Policies(alpha=1.0, slack=lambda: FixedSlack(10**15))


@settings(max_examples=170, deadline=None)
@given(
    flows(),
    INPUT,
    INPUT,
    st.integers(0, 2**32),
    st.integers(1, 4),
    st.integers(0, 30),
    st.sampled_from([0.0, 0.5, 1.0]),
)
def test_whoever_is_faster(flow, events, changing, seed, workers, disorder, blocking):
    generator = Random(seed)
    made = operators(flow, workers)
    nodes = [f"node{number}" for number in range(workers + 1)]
    places = {name: generator.choice(nodes) for name in made}
    policies = {name: IN_ORDER if generator.random() < blocking else OPTIMISTIC for name in made}
    hierarchies = {node: Hierarchy(made, [name for name, at in places.items() if at == node], policies) for node in nodes}
    sink = CollectingSink(["Out"])
    mesh = VirtualMesh(hierarchies, "node0", {"sink": sink}, generator, cost=lambda come, go: (come + go) * MILLISECOND // 20)
    history, left = actions(events, changing, generator, disorder)
    for at, batch in arrivals(history, generator):
        mesh.feed(at, batch)
    mesh.run()
    barrier, finals = Barrier(["Out"]), []
    for _, batch in sink.taken:
        finals += barrier.take(batch)
    assert barrier.watermark == END, "a promise never came: something stalls"
    assert not barrier.violations
    ordered = sorted(finals, key=lambda event: (event.ts, event.cause))
    assert [event.ts for event in finals] == [event.ts for event in ordered]
    assert [(e.ts, e.place, e.value) for e in ordered] == [(r.ts, *r.fields) for r in sequential(flow.nodes, left)]


def actions(events, changing, generator, disorder):
    """What arrives, and when: events, some of which are withdrawn or revised later; and which are there in the end."""

    def soon(ts):
        return (ts + generator.randint(0, disorder)) * MILLISECOND

    found = [(soon(event.ts), Delta([event])) for event in events]
    left = list(events)
    for event in changing:
        old = event.__class__(event.value, ts=event.ts, id=event.id, source="c" + event.source)
        ts = max(1, old.ts + generator.randint(-3, 3))
        new = event.__class__(event.value + generator.randint(0, 1), ts=ts, id=event.id, source="c" + event.source)
        first = soon(old.ts)
        second = first + generator.randint(0, 20) * MILLISECOND
        found.append((first, Delta([old])))
        if generator.random() < 0.5:
            found.append((second, Delta([], [], [old])))
        elif new != old:
            found.append((second, Delta([], [(old, new)])))
            left.append(new)
        else:
            left.append(old)
    return sorted(found, key=lambda action: action[0]), left


def arrivals(found, generator):
    """One by one, with true promises in between."""
    for place, (at, delta) in enumerate(found):
        touched = [event for _, later in found[place + 1 :] for event in touches(later)]
        promised = min((event.ts for event in touched), default=END) - 1
        name = type_name(touches(delta)[0].__class__)
        clock = max(event.ts for _, done in found[: place + 1] for event in touches(done))
        yield at, Batch({name: delta}, {}, clock)
        if generator.random() < 0.4:
            yield at, Batch({}, {"Number": promised, "Other": promised})
    yield 200 * MILLISECOND, Batch({}, {"Number": END, "Other": END})


def touches(delta):
    return [*delta.inserts, *delta.retracts, *(event for pair in delta.revises for event in pair)]
