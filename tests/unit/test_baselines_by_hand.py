"""The benchmarks compare what is equal: the loops by hand find what the operators find, and what the sorted events hold."""

import random

import pytest
from msgspec.structs import astuple
from slackline_benchmarks import by_hand, cql, pipeline, sequence, window_by_key, workload
from slackline_benchmarks.workload import A, B, C, D, Reading

from middleware.model.change import Delta, composed
from middleware.model.time import MILLISECOND

FEW = 6_000


def contents(events):
    """What events say, whatever their identity; sums by hand are rounded as they come. Of changes, what is left."""
    events = list(events)
    if isinstance(events[0], Delta):
        events = composed(events).inserts
    return sorted(
        tuple(round(value, 6) if isinstance(value, float) else value for value in astuple(each)[:-3]) for each in events
    )


CASES = {
    "sequence": lambda: sequence.sequence_cases(workload.delayed(workload.tagged(FEW))),
    "window": lambda: window_by_key.keyed_cases(FEW),
    "cql": lambda: cql.cql_cases(FEW),
}


@pytest.mark.parametrize("cases", CASES.values(), ids=CASES)
def test_the_loops_find_what_the_operators_find(cases):
    for name, _, ours, loop in cases():
        assert contents(ours()) == contents(loop()) != [], name


def test_the_loop_of_alarms_finds_what_the_detector_finds():
    given = workload.batches(workload.delayed(workload.readings(30_000)), 256)
    ours = workload.final(pipeline.Alarms(), given)
    assert contents(ours) == contents(by_hand.alarms(given)) != []


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_the_loops_hold_back_what_comes_late(size):
    arrived = workload.delayed(workload.readings(2_000))
    ordered = [event for ready in by_hand.in_order(workload.batches(arrived, size)) for event in ready]
    assert ordered == sorted(arrived, key=lambda event: event.ts)


@pytest.mark.parametrize("seed", range(20))
def test_sequences_by_hand_are_all_there_are(seed):
    """Few tags and long waits: cleared, pruned and copied lists, against every combination."""
    rng = random.Random(seed)
    ordered = [
        rng.choice([A, B, C, D])(rng.randrange(2), ts=number * 300 * MILLISECOND, id=number, source="t") for number in range(60)
    ]
    arrived = workload.batches(workload.delayed(ordered, 0.3), 8)

    def found(is_right):
        return sorted(
            (c.tag, a.ts, c.ts)
            for c in ordered
            for a in ordered
            if type(a) is A and type(c) is C and a.tag == c.tag and c.ts - workload.WITHIN <= a.ts < c.ts
            for _ in range(is_right(sum(type(b) is B and b.tag == a.tag and a.ts < b.ts < c.ts for b in ordered)))
        )

    for loop, times in ((by_hand.negation, lambda between: between == 0), (by_hand.plain, lambda between: between)):
        assert sorted((each.tag, each.first, each.last) for each in loop(arrived)) == found(times)


@pytest.mark.parametrize("seed", range(5))
def test_windows_by_hand_are_those_of_the_definition(seed):
    """Sparse sensors, which leave the windows and come again."""
    rng = random.Random(seed)
    ordered = [
        Reading(rng.randrange(6), float(rng.randrange(9)), ts=number * 400 * MILLISECOND + 1, id=number, source="t")
        for number in range(150)
    ]
    expected = []
    for end in range(0, ordered[-1].ts + workload.SIZE + workload.EVERY, workload.EVERY):
        for sensor in range(6):
            values = [each.value for each in ordered if each.sensor == sensor and end - workload.SIZE < each.ts <= end]
            if values:
                mean, most = sum(values) / len(values), max(values)
                expected.append(workload.Average(sensor, end - workload.SIZE, end, mean, most, ts=end))
    found = by_hand.windows(workload.batches(workload.delayed(ordered, 0.3), 16))
    last = max(each.end for each in found)
    assert contents(found) == contents(each for each in expected if each.end <= last)
    assert last >= ordered[-1].ts
