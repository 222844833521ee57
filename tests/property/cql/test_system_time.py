"""System time as an axis of its own: windows by duration and by count go by arrival, those ON an attribute by what it says."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.cql import compile_cql
from middleware.model.event import ORDER
from middleware.model.time import SECOND
from middleware.testing.operators import history, in_order, play
from tests.property.cql.by_definition import Extent, Spec, naive_windows

STREAM = "CREATE STREAM Tick (at Long, value Int NOT NULL, arrived Long) TIMESTAMP at SYSTEM TIME arrived;"
DRAWN = st.lists(st.tuples(st.integers(0, 12), st.integers(-3, 9), st.none() | st.integers(0, 25)), max_size=15)
SECONDS = [("SIZE 4 seconds EVERY 2 seconds", Spec(Extent("ts", 4 * SECOND), Extent("ts", 2 * SECOND)))]
WINDOWS = [*SECONDS, ("SIZE 3", Spec(Extent("count", 3), Extent("count", 3)))]
MIXED = ("SIZE 4 ON at EVERY 3 seconds", Spec(Extent("clock", 4, 1), Extent("ts", 3 * SECOND), clock=lambda e: e.at))


def ticks(make, drawn, first=0):
    return [
        make(at, value, None if arrived is None else arrived * SECOND, ts=at * SECOND, id=number, source="s")
        for number, (at, value, arrived) in enumerate(drawn, first)
    ]


def as_arrived(event):
    """A tuple whose time is that of its arrival, unless it says nothing of it, or that it came before it happened."""
    arrived = event.arrived if event.arrived is not None else event.ts
    return event.__class__(event.at, event.value, event.arrived, ts=max(arrived, event.ts), id=event.id, source=event.source)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([*WINDOWS, MIXED]), DRAWN, DRAWN, st.integers(0, 2**32), st.sets(st.integers(0, 12), max_size=3))
def test_windows_go_by_arrival(window, drawn, others, seed, restarts):
    text, spec = window
    script = compile_cql(f"{STREAM} SELECT count(*) AS n, sum(value) AS total FROM Tick [{text}] INTO Sum")
    events = ticks(script.types["Tick"], drawn)
    arrival, windows = script.operators
    moments = history(events, Random(seed), ticks(script.types["Tick"], others, 1000))
    arrived = play(arrival, moments, restarts)
    assert arrived == play(arrival, in_order(events))
    assert [(e.ts, e.value) for e in arrived] == [(e.ts, e.value) for e in sorted(arrived, key=ORDER)]
    found = play(windows, history(arrived, Random(seed)), restarts)
    made = {(e.ts, e.value, e.at, e.arrived) for e in map(as_arrived, events)}
    assert {(e.ts, e.value, e.at, e.arrived) for e in arrived} == made
    expected = [(w.ts, len(w.events), sum(e.value for e in w.events)) for w in naive_windows(arrived, spec)]
    assert sorted((e.ts, e.n, e.total) for e in found) == sorted(expected)


def test_windows_on_application_time_go_by_what_it_says():
    script = compile_cql(f"{STREAM} SELECT count(*) AS n FROM Tick [SIZE 4 ON at] INTO Sum")
    assert [operator.name for operator in script.operators] == ["Sum"]
    events = ticks(script.types["Tick"], [(1, 0, 20), (2, 0, 9), (5, 0, 6)])
    assert [(e.ts // SECOND, e.n) for e in play(script.operators[0], in_order(events))] == [(3, 2), (7, 1)]


def test_a_derived_stream_arrived_when_its_source_did():
    script = compile_cql(
        f"{STREAM} SELECT value, arrived FROM Tick INTO Few; SELECT count(*) AS n FROM Few [SIZE 5 seconds] INTO Sum"
    )
    results = ticks(script.types["Tick"], [(1, 0, 20), (2, 0, 9), (5, 0, 6)])
    for operator in script.operators:
        results = play(operator, in_order(results))
    assert [(e.ts // SECOND, e.n) for e in results] == [(10, 2), (20, 1)]
