"""Single operators of flows keep what operations promise: stamps, identities, snapshots, no final result changed."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.flow import Flow
from detectors.flow.operations.flow_operator import operators
from middleware.testing.operators import history, in_order, play
from tests.property.flow.random_flows import FOLDS, Memory, Number, Out, by, events, memories, no_memories, remembered, weighted


def of_group(numbers):
    return weighted([number.value for number in numbers])


def grouped(window):
    flow = Flow("grouped")
    flow.source(Number).group(lambda number: number.value % 3, window=window).map(of_group).sink(Out, lambda value: (0, value))
    return flow


def folded(fold):
    flow = Flow("folded")
    stream = flow.source(Number).stateful(
        lambda state, number: fold(state, number.value), key=lambda number: number.value % 3, gives=int
    )
    stream.sink(Out, lambda value: (0, value))
    return flow


def cycled(window):
    flow = Flow("cycled")
    cycle = flow.cycle(gives=Memory)
    key = by(2)
    values = flow.source(Number).union(cycle)
    group = values.group(lambda value: value.key if isinstance(value, Memory) else key(value.value), window=window)
    combined = group.map(lambda group: remembered([each if isinstance(each, Memory) else each.value for each in group]))
    cycle.close(combined.map(memories, gives=Memory))
    combined.map(no_memories).sink(Out, lambda value: (0, value))
    return flow


FLOWS = [grouped(window) for window in (1, 2, 3)] + [folded(fold) for fold in FOLDS] + [cycled(2), cycled(3)]


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(FLOWS),
    events(Number, "a", 20),
    events(Number, "b", 20),
    st.integers(0, 2**32),
    st.integers(1, 6),
    st.booleans(),
    st.sets(st.integers(0, 20), max_size=3),
)
def test_any_history_comes_to_the_same(flow, staying, changing, seed, batch, fuse, restarts):
    generator = Random(seed)
    revised = [(old, Number(old.value + 1, ts=old.ts, id=old.id, source="b")) for old in changing[::2]]
    passing = changing[1::2]
    feeding, running = sorted(operators(flow, 1, fuse).values(), key=lambda each: each.stage.entry.kind == "group")
    moments = history(staying, generator, passing, revised, batch)
    plain = in_order([*staying, *(new for _, new in revised)])
    assert play(feeding, moments, restarts) == play(feeding, plain)
    edge = Relay(feeding, "Tested", moments)
    assert play(running, edge.moments, restarts) == play(running, Relay(feeding, "Tested", plain).moments)


class Relay:
    """What one operator publishes, as the moments of the next."""

    def __init__(self, operator, name, moments):
        operation = operator.start(name, 1)
        self.moments = []
        for moment in moments:
            out = operation.apply(moment.delta, moment.emitted, moment.final)
            out.retracts += [old for old, _ in out.revises]
            out.inserts.extend([new for _, new in out.revises])
            out.revises = []
            self.moments.append(moment._replace(delta=out))
