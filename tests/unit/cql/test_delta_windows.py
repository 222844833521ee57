"""[DELTA d ON x]: a tuple costs no more the longer its window stays open, wherever in it it comes."""

import random

import pytest

from detectors.cql import compile_cql
from middleware.model.change import Delta
from middleware.model.event import END


def measured(values, arrival, together=1):
    """The results over values that arrive in that order, so many at once, and how often one was measured."""
    script = compile_cql(
        "CREATE STREAM T (v Double NOT NULL); SELECT count(*) AS n, median(v) AS m FROM T [DELTA 5 ON v] INTO R"
    )
    operation, make, calls = script.operators[0].start("R", 1), script.types["T"], [0]
    measure = operation._made.measure

    def counted(event):
        calls[0] += 1
        return measure(event)

    operation._made.measure = counted
    found, latest = {}, 0
    for start in range(0, len(arrival), together):
        places = arrival[start : start + together]
        latest = max(latest, *places)
        delta = operation.apply(Delta([make(values[place], ts=place, id=place, source="z") for place in places]), latest, -1)
        found |= {event.id: event for event in [*delta.inserts, *(new for _, new in delta.revises)]}
        for event in delta.retracts:
            del found[event.id]
    operation.apply(Delta(), END, END)
    return sorted((event.ts, event.n, event.m) for event in found.values()), calls[0]


@pytest.mark.parametrize("shuffled", [0, 30])
def test_a_steady_value_costs_each_tuple_the_same(shuffled):
    count = 3000
    arrival = sorted(range(count), key=lambda place: place + random.Random(place).uniform(0, shuffled))
    results, calls = measured([float(place % 3) for place in range(count)], arrival)
    assert results == []
    assert calls < 6 * count


def test_windows_end_where_they_did():
    values = [float(place % 3 + 10 * (place // 500)) for place in range(3000)]
    results, calls = measured(values, range(3000))
    assert [(ts, n) for ts, n, _ in results] == [(ts, 500) for ts in range(500, 3000, 500)]
    assert calls < 8 * len(values)


@pytest.mark.parametrize("together", [1, 7])
def test_a_late_tuple_costs_no_more_than_the_windows_it_disturbs(together):
    count = 3000
    arrival = sorted(range(count), key=lambda place: (place % 30 == 7, place))
    values = [float(place % 3 + 10 * (place // 20)) for place in range(count)]
    results, calls = measured(values, arrival, together)
    assert [(ts, n) for ts, n, _ in results] == [(ts, 20) for ts in range(20, count, 20)]
    assert calls < 20 * count


def test_a_tuple_that_comes_late_ends_the_open_window_and_one_that_goes_opens_it_again():
    script = compile_cql("CREATE STREAM T (v Double NOT NULL); SELECT count(*) AS n FROM T [DELTA 5 ON v] INTO R")
    operation, make = script.operators[0].start("R", 1), script.types["T"]
    near = [make(float(place % 2), ts=place * 10, id=place, source="z") for place in range(8)]
    assert not operation.apply(Delta(near), 70, -1)
    far = make(9.0, ts=35, id=9, source="z")
    came = operation.apply(Delta([far]), 70, -1)
    assert sorted((event.ts, event.n) for event in came.inserts) == [(35, 4), (40, 1)]
    gone = operation.apply(Delta([], [], [far]), 70, -1)
    assert sorted(event.id for event in gone.retracts) == sorted(event.id for event in came.inserts)
    assert not gone.inserts and not gone.revises
    assert not operation.apply(Delta([make(5.0, ts=5, id=10, source="z")], [], [near[7]]), 70, -1)
    last = operation.apply(Delta([make(7.0, ts=80, id=11, source="z")]), 80, -1)
    assert [(event.ts, event.n) for event in last.inserts] == [(80, 8)]
