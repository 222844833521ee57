"""What comes in one step, in its order of arrival: columns of several types are the same events as rows of them."""

from random import Random

import numpy as np
import pytest

from middleware.model.block.block import Block
from middleware.model.block.mixed_block import MixedBlock
from middleware.model.change import Delta, combined
from middleware.ordering.arrival import in_order
from middleware.testing.simulation.applications import Probe, Reading


def arrived(rng: Random) -> list[Delta]:
    """Changes of two types: what came from outside has places, results of units here have none."""
    parts = []
    for kind, source in ((Reading, "a"), (Probe, "b"), (Reading, "c")):
        count = rng.choice([0, 1, 5])
        times = [rng.randrange(20) for _ in range(count)]
        events = [kind(1, 2, ts=ts, id=number, source=source, level=rng.choice([0, 0, 1])) for number, ts in enumerate(times)]
        places = rng.choice([None, sorted(rng.sample(range(100), count))])
        parts.append(Delta(events, [], [kind(0, 0, ts=1, id=-1, source=source)], rng.choice([None, times]), places))
    return parts


@pytest.mark.parametrize("seed", range(50))
def test_columns_come_in_the_same_order_as_rows(seed):
    rows, same = arrived(Random(seed)), arrived(Random(seed))
    given = list(map(as_columns, same))
    expected, found = in_order(rows), in_order(given, min_rows_for_columns=0)
    assert (found.retracts, found.k_plus, len(found)) == (expected.retracts, expected.k_plus, len(expected))
    assert found.inserts == expected.inserts


def test_interleaved_columns_are_a_sequence_of_events():
    readings = [Reading(1, number, ts=number, id=number, source="a") for number in range(3)]
    probes = [Probe(1, number, ts=number, id=number, source="b", level=1) for number in range(2)]
    both = MixedBlock([_of(readings), _of(probes)], [[0, 2, 3], np.array([1, 4])])
    events = [readings[0], probes[0], readings[1], readings[2], probes[1]]
    assert list(both) == events and both[1:3] == events[1:3] and len(both) == 5
    assert both.times.tolist() == [0, 0, 1, 2, 1] and both.levels is not None and both.levels.tolist() == [0, 1, 0, 0, 1]
    assert both.sources() == ["a", "b"] and both.last_source() == "b"
    assert both.of_types([Probe]).tolist() == [False, True, False, False, True]
    some = both.filter(np.array([True, False, True, False, True]))
    assert list(some) == [readings[0], readings[1], probes[1]] and list(map(len, some.pieces)) == [2, 1]
    assert MixedBlock([_of(readings)], [None]).levels is None


def test_few_events_are_objects():
    given = [Delta(_of([kind(1, 1, ts=1, id=1, source="a")])) for kind in (Reading, Probe)]
    assert in_order(given, min_rows_for_columns=3).given is None
    assert in_order(given, min_rows_for_columns=2).given is not None


@pytest.mark.parametrize("seed", range(50))
def test_columns_and_rows_of_a_type_come_in_the_order_of_rows(seed):
    rng, rows = Random(seed), arrived(Random(seed))
    same = [as_columns(each) if rng.random() < 0.6 else each for each in arrived(Random(seed))]
    assert (
        in_order([combined(rows[::2]), rows[1]], min_rows_for_columns=9).inserts
        == in_order([combined(same[::2]), same[1]], min_rows_for_columns=9).inserts
    )


def as_columns(delta: Delta) -> Delta:
    places = None if delta.arrival_order is None else np.array(delta.arrival_order, np.int64)
    return Delta(_columns(delta), delta.revises, delta.retracts, delta.k_plus, places)


def _columns(delta):
    return _of(delta.inserts) if delta.inserts else Block.from_events(Reading, [])


def _of(events):
    return Block(type(events[0]), Block.from_events(type(events[0]), events).batch)
