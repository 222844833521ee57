"""Random flows parted over nodes of a mesh in virtual time: whoever is faster, the sequential run comes out, once, in order."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.flow.operator import operators
from middleware.change import Batch, Delta
from middleware.clock import MILLISECOND
from middleware.event import END, type_name
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.kslack import FixedSlack
from middleware.ordering.unit import Policies
from middleware.pubsub.barrier import Barrier
from middleware.testing.flows import sequential
from middleware.testing.mesh import Mesh, Sink
from tests.property.flow.random_flows import INPUT, flows

OPTIMISTIC = Policies(alpha=0.0)
IN_ORDER = Policies(alpha=1.0, slack=lambda: FixedSlack(10**15))


@settings(max_examples=250, deadline=None)
@given(
    flows(),
    INPUT,
    st.integers(0, 2**32),
    st.integers(1, 4),
    st.integers(0, 30),
    st.sampled_from([0.0, 0.5, 1.0]),
)
def test_whoever_is_faster(flow, events, seed, workers, disorder, blocking):
    generator = Random(seed)
    made = operators(flow, workers)
    nodes = [f"node{number}" for number in range(workers + 1)]
    places = {name: generator.choice(nodes) for name in made}
    policies = {name: IN_ORDER if generator.random() < blocking else OPTIMISTIC for name in made}
    hierarchies = {node: Hierarchy(made, [name for name, at in places.items() if at == node], policies) for node in nodes}
    sink = Sink(["Out"])
    mesh = Mesh(hierarchies, "node0", {"sink": sink}, generator, cost=lambda come, go: (come + go) * MILLISECOND // 20)
    for at, batch in arrivals(events, generator, disorder):
        mesh.feed(at, batch)
    mesh.run()
    barrier, finals = Barrier(["Out"]), []
    for _, batch in sink.taken:
        finals += barrier.take(batch)
    assert barrier.progress == END, "a promise never came: something stalls"
    assert not barrier.violations
    ordered = sorted(finals, key=lambda event: (event.ts, event.cause))
    assert [event.ts for event in finals] == [event.ts for event in ordered]
    assert [(e.ts, e.place, e.value) for e in ordered] == [(r.ts, *r.fields) for r in sequential(flow.nodes, events)]


def arrivals(events, generator, disorder):
    """Events one by one, some milliseconds late at most, with true promises in between."""
    arrival = {id(event): (event.ts + generator.randint(0, disorder)) * MILLISECOND for event in events}
    rest = sorted(events, key=lambda event: arrival[id(event)])
    for place, event in enumerate(rest):
        later = [each.ts for each in rest[place + 1 :]]
        promised = min(later, default=END) - 1
        name = type_name(event.__class__)
        yield arrival[id(event)], Batch({name: Delta([event])}, {}, event.ts)
        if generator.random() < 0.4:
            yield arrival[id(event)], Batch({}, {"Number": promised, "Other": promised})
    yield 100 * MILLISECOND, Batch({}, {"Number": END, "Other": END})
