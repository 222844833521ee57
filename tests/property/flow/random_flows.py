"""Flows and their input, drawn at random."""

from typing import NamedTuple

from hypothesis import strategies as st

from detectors.flow import Flow
from middleware.model.event import Event


class Number(Event):
    value: int


class Other(Event):
    value: int


class Out(Event):
    place: int
    value: int
    cause: tuple[int | str, ...] = ()


class Memory(NamedTuple):
    """State that a hand-made cycle feeds back."""

    key: int
    value: int


def doubled(value: int) -> list[int]:
    return [value, value + 1] if value % 3 else []


def rising(value: int):
    yield from range(value % 4)


def brittle(value: int) -> int:
    return value // (value % 5 - 1) + 7


MAPS = (doubled, rising, brittle)


def running(state, value: int) -> tuple[int, list[int]]:
    state = ((state or 0) * 7 + value) % 50
    return state, [state] if state % 2 else []


def counting(state, value: int) -> tuple[int, list[int]]:
    return min((state or 0) + 1, 3), [value + (state or 0), value]


def failing(state, value: int) -> tuple[int, list[int]]:
    return (state or 0) + 1, [(state or 0) * 10 // (value % 3)]


FOLDS = (running, counting, failing)


def of_event(event) -> list[int]:
    return [event.value]


def weighted(group) -> list[int]:
    return [sum(place * value for place, value in enumerate(group, 1))]


def beside(pair) -> list[int]:
    value, other = pair
    return [value * 3 + (-1 if other is None else other)]


def by(modulus):
    def key(value):
        return value.key if isinstance(value, Memory) else value % modulus

    return key


def remembered(group):
    """The combine map of a cycle with a window of 2 or more: the states in the group, and what they lead to."""
    if isinstance(group[-1], Memory):
        return []
    known = sum(each.value if isinstance(each, Memory) else each for each in group[:-1])
    return [Memory(group[-1] % 2, (known + group[-1]) % 20), known]


def memories(value) -> list[Memory]:
    return [value] if isinstance(value, Memory) else []


def no_memories(value) -> list[int]:
    return [] if isinstance(value, Memory) else [value]


STEP = st.tuples(
    st.sampled_from(["map", "filter", "group", "stateful", "union", "cycle", "alongside"]),
    st.integers(0, 5),
    st.integers(0, 5),
    st.integers(1, 3),
)


@st.composite
def flows(draw):
    """A sound flow of up to six operations over two sources, and its recipe (for people to read)."""
    steps = draw(st.lists(STEP, min_size=1, max_size=5))
    flow = Flow("drawn")
    streams = [flow.source(Number).map(of_event, gives=int)]
    if draw(st.booleans()):
        streams.append(flow.source(Other).map(of_event, gives=int))
    for kind, one, other, size in steps:
        stream = streams[one % len(streams)]
        streams.append(_extended(flow, kind, stream, streams[other % len(streams)], other, size))
    for place, stream in enumerate(streams):
        if not stream._node.outputs or draw(st.booleans()):
            stream.sink(Out, lambda value, place=place: (place, value))
    return flow


def _extended(flow, kind, stream, other, choice, size):
    if kind == "map":
        return stream.map(MAPS[choice % 3], gives=int)
    if kind == "filter":
        return stream.filter(lambda value: value % 3 != size)
    if kind == "group":
        return stream.group(by(size), window=1 + choice % 3).map(weighted, gives=int)
    if kind == "stateful":
        return stream.stateful(FOLDS[choice % 3], key=by(size), gives=int)
    if kind == "union":
        return stream.union(other)
    if kind == "alongside":
        return stream.alongside(other, key=by(5), shards=size).map(beside, gives=int)
    cycle = flow.cycle(gives=Memory)
    combined = stream.union(cycle).group(by(2), window=2 + choice % 2).map(remembered)
    cycle.close(combined.map(memories, gives=Memory))
    return combined.map(no_memories, gives=int)


def events(kind, source, count=12):
    """Events of a kind, each identity once, times from a small range so that many are equal."""
    return st.lists(st.tuples(st.integers(1, 30), st.integers(0, 30)), max_size=count).map(
        lambda rows: [kind(value, ts=ts, id=number, source=source) for number, (ts, value) in enumerate(rows)]
    )


INPUT = st.tuples(events(Number, "a"), events(Number, "b"), events(Other, "a2")).map(
    lambda parts: [e for p in parts for e in p]
)
