"""Windows as operators, in any history, against brute force over the sorted input."""

import pickle
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slackline import Event

from detectors.window import (
    ARGMAX,
    CONCAT,
    COUNT,
    LAST,
    MAX,
    MEAN,
    MEDIAN,
    MIN,
    RANGE,
    SAMPLE_VARIANCE,
    STDDEV,
    SUM,
    Counted,
    Hopping,
    Landmark,
    Session,
    Sliding,
    Tumbling,
    Windows,
)
from detectors.window.stepped_windows import SteppedWindows
from detectors.window.windows_operation import WindowsOperation
from middleware.model.event import NEVER
from middleware.testing.operators import history, in_order, play
from tests.property.window.brute_force import brute_force


class Reading(Event):
    device: int
    value: float
    number: int


class Summary(Event):
    """Fields in an order of their own."""

    end: int
    device: int
    count: int
    total: float
    mean: float
    last: int
    best: tuple[float, int]
    all: tuple[int, ...]
    start: int


VALUES = {
    "count": COUNT,
    "total": (SUM, "value"),
    "mean": (MEAN, "value"),
    "last": (LAST, "number"),
    "best": (ARGMAX, lambda event: (event.value, event.number)),
    "all": (CONCAT, "number"),
}

DURATIONS = st.integers(1, 12)
HOPPING = st.builds(Hopping, DURATIONS, DURATIONS, st.integers(-3, 3))
SEVERAL = st.builds(Hopping, st.just((3, 7)), DURATIONS)
KINDS = {
    "hopping": HOPPING,
    "several hopping": SEVERAL,
    "tumbling": st.builds(Tumbling, DURATIONS),
    "sliding": st.builds(Sliding, DURATIONS),
    "several sliding": st.just(Sliding((2, 9))),
    "session": st.builds(Session, st.integers(1, 5)),
    "landmark": st.builds(Landmark, st.integers(-4, 9), st.integers(1, 6)),
    "landmarks": st.builds(
        lambda since, every, times: Landmark(since, every, every * times), st.integers(-4, 0), *[st.integers(1, 4)] * 2
    ),
    "counted": st.builds(Counted, st.integers(1, 4)),
    "counted, every": st.builds(Counted, st.integers(1, 4), st.integers(1, 4)),
}

FLOATS = st.sampled_from([0.1, 0.2, 0.3, 1e16, -1e16, 1.0, -0.0]) | st.floats(-1e9, 1e9)


@st.composite
def drawn_events(draw, first=0, most=25):
    rows = draw(st.lists(st.tuples(st.integers(0, 40), st.sampled_from("ab"), st.integers(0, 2), FLOATS), max_size=most))
    return [
        Reading(device, value, first + number, ts=ts, id=first + number, source=source)
        for number, (ts, source, device, value) in enumerate(rows)
    ]


def expected(kind, events):
    found = brute_force(kind, events, lambda event: event.device)
    lines = []
    for device, start, end, held in found:
        values = [event.value for event in held]
        best = max(held, key=lambda event: event.value)  # the first of the largest
        numbers = tuple(event.number for event in held)
        mean, total = MEAN.fold(values), SUM.fold(values)
        lines.append((end, device, len(held), total, mean, held[-1].number, (best.value, best.number), numbers, start))
    return sorted(lines, key=repr)


def lines_of(results):
    return sorted([(r.end, r.device, r.count, r.total, r.mean, r.last, r.best, r.all, r.start) for r in results], key=repr)


def windows(kind, emit):
    return Windows(Reading, kind, VALUES, key="device", result=Summary, emit=emit)


@pytest.mark.parametrize("emit", ["close", "change", "final"])
@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=80, deadline=None)
@given(data=st.data(), events=drawn_events(), passing=drawn_events(100, 5), seed=st.integers(0, 1000))
def test_any_history_gives_what_brute_force_gives(name, emit, data, events, passing, seed):
    kind = data.draw(KINDS[name])
    generator = Random(seed)
    revised = [(Reading(7 % 2, 0.5, e.number, ts=generator.randrange(41), id=e.id, source=e.source), e) for e in events[::3]]
    kept = [event for place, event in enumerate(events) if place % 3]
    moments = history(kept, generator, passing, revised, batch=data.draw(st.integers(1, 6)))
    restarts = data.draw(st.sets(st.integers(0, len(moments)), max_size=2))
    results = play(windows(kind, emit), moments, restarts)
    assert lines_of(results) == expected(kind, events)
    assert results == play(windows(kind, emit), in_order(events))
    assert all(result.ts == result.end for result in results)
    assert len({result.id for result in results}) == len(results)


class Figures(Event):
    device: int
    start: int
    end: int
    count: int
    total: float
    mean: float | None
    least: float | None
    most: int
    range: float | None
    sum: int
    spread: float | None
    sample: float | None
    middle: float | None


FIGURES = {
    "count": COUNT,
    "total": (SUM, "value"),
    "mean": (MEAN, "value"),
    "least": (MIN, "value"),
    "most": (MAX, "number"),
    "range": (RANGE, "value"),
    "sum": (SUM, "number"),
    "spread": (STDDEV, "value"),
    "sample": (SAMPLE_VARIANCE, "value"),
    "middle": (MEDIAN, "value"),
}


@pytest.mark.parametrize("emit", ["close", "change", "final"])
@pytest.mark.parametrize("name", ["hopping", "several hopping", "tumbling"])
@settings(max_examples=100, deadline=None)
@given(data=st.data(), events=drawn_events(), passing=drawn_events(100, 5), seed=st.integers(0, 1000))
def test_the_native_core_does_the_same_at_every_step(name, emit, data, events, passing, seed):
    plan = Windows(Reading, data.draw(KINDS[name]), FIGURES, key="device", result=Figures, emit=emit)
    moments = history(events, Random(seed), passing, batch=data.draw(st.integers(1, 6)))
    stepped, plain = SteppedWindows(plan, "Tested", 1), WindowsOperation(plan, "Tested", 1)
    restart = data.draw(st.integers(0, len(moments)))
    for number, moment in enumerate(moments):
        if number == restart:
            state = pickle.loads(pickle.dumps(stepped.snapshot()))
            stepped = SteppedWindows(plan, "Tested", 1)
            stepped.restore(state)
        one, other = (operation.apply(*moment) for operation in (stepped, plain))
        for column in ("inserts", "revises", "retracts"):
            assert sorted(getattr(one, column), key=repr) == sorted(getattr(other, column), key=repr)
    assert (stepped.held, stepped.keys) == (0, 0)  # all is final
    assert type(plan.start("Tested", 1)) is SteppedWindows
    kept = [event for event in events if event.id < 100]
    assert play(plan, history(kept, Random(seed), passing)) == play(plan, in_order(kept))


@pytest.mark.parametrize("emit", ["close", "change", "final"])
@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=25, deadline=None)
@given(data=st.data(), events=drawn_events(), passing=drawn_events(100, 5), seed=st.integers(0, 1000))
def test_what_is_held_is_counted_as_it_comes_and_goes(name, emit, data, events, passing, seed):
    operation = WindowsOperation(windows(data.draw(KINDS[name]), emit), "w", 1)
    moments = history(events, Random(seed), passing, batch=data.draw(st.integers(1, 6)))
    restart = data.draw(st.integers(0, len(moments)))
    for number, moment in enumerate(moments):
        operation.apply(*moment)
        contents, *_ = state = operation.snapshot()
        assert operation.held == sum(len(entries) for *_, entries in dict(contents).values())
        if number == restart:
            operation.restore(pickle.loads(pickle.dumps(state)))
            assert operation.held == sum(len(entries) for *_, entries in dict(contents).values())


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=40, deadline=None)
@given(data=st.data(), events=drawn_events())
def test_nothing_is_held_for_ever(name, data, events):
    """When the watermark has passed everything by far, only what the next windows need is held."""
    kind = data.draw(KINDS[name])
    operation = windows(kind, "close").start("w", 1)
    for moment in history(events, Random(1))[:-1]:
        operation.apply(moment.delta, moment.emitted, NEVER)
    operation.apply(type(history([], Random(1))[0].delta)(), 1000, 999)
    if isinstance(kind, Counted):
        assert operation.held <= 3 * (kind.size - 1)
    elif not isinstance(kind, Landmark) or kind.period:
        assert operation.held == operation.keys == 0
