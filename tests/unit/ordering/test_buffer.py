import random

import pytest

from middleware.model.event import ORDER, Event
from middleware.native import merge, split
from middleware.ordering.buffer import arranged, count_until, position_of, remove, sort
from tests.oracles import buffers


class Mark(Event):
    value: int = 0


def events(*pairs):
    return [Mark(ts=ts, id=number, source="s") for ts, number in pairs]


def test_split_takes_the_strictly_increasing_run():
    batch = events((3, 0), (5, 1), (5, 2), (4, 3), (9, 4))
    ahead, behind = split(batch, 2)
    assert ahead == [batch[0], batch[1], batch[4]] and behind == [batch[2], batch[3]]
    assert split(batch, 9) == ([], batch)


def test_arranged_breaks_ties_by_the_total_order_and_drops_repeats():
    late, twice, first = events((5, 2), (5, 1), (1, 7))
    assert arranged([late, twice, first, twice, late]) == ([first, twice, late], 2)
    assert arranged([]) == ([], 0)


def test_the_first_arrival_of_a_repeat_is_kept():
    one, two = Mark(value=1, ts=5, id=1, source="s"), Mark(value=2, ts=5, id=1, source="s")
    assert arranged([one, two, *events((5, 0))])[0][1] is one
    buffer = [one]
    assert merge(buffer, [two]) == ([], 1) and buffer == [one]


@pytest.mark.parametrize("merge", [merge, buffers.merge], ids=["core", "oracle"])
def test_few_events_behind_a_repeat_go_into_a_long_buffer(merge):
    buffer = events(*((ts, 0) for ts in range(0, 200, 2)))
    batch = events((10, 0), (11, 0), (20, 0), (20, 1))
    expected = sorted([*buffer, batch[1], batch[3]], key=ORDER)
    assert merge(buffer, batch) == ([batch[1], batch[3]], 2)
    assert buffer == expected


@pytest.mark.parametrize("times", [3, 40, 10**6])
def test_sort_is_the_total_order_and_keeps_what_came_first_first(times):
    rng = random.Random(times)
    came = [Mark(value=place, ts=rng.randrange(times), id=rng.randrange(9), source=rng.choice("ab")) for place in range(60)]
    ordered = came.copy()
    alone = sort(ordered)
    assert list(map(id, ordered)) == list(map(id, sorted(came, key=ORDER)))
    assert alone is (len({event.ts for event in came}) == len(came))


@pytest.mark.parametrize("seed", range(100))
def test_remove_against_one_by_one(seed):
    rng = random.Random(seed)
    everything = arranged(events(*((rng.randrange(20), number) for number in range(rng.choice([1, 5, 60])))))[0]
    buffer = [event for event in everything if rng.random() < 0.7]
    unwanted = rng.choices(everything, k=rng.choice([1, 2, 40]))
    expected, there, missing = list(buffer), [], []
    for event in unwanted:
        if event in expected:
            expected.remove(event)
            there.append(event)
        else:
            missing.append(event)
    assert remove(buffer, unwanted) == (arranged(there)[0], missing)
    assert buffer == expected


@pytest.mark.parametrize("merge", [merge, buffers.merge], ids=["core", "oracle"])
@pytest.mark.parametrize("seed", range(200))
def test_merge_against_plain_sorting(seed, merge):
    rng = random.Random(seed)
    buffer: list[Event] = []
    known: dict = {}
    for _ in range(8):
        drawn = [Mark(ts=rng.randrange(60), id=rng.randrange(3), source=rng.choice("ab")) for _ in range(rng.randrange(20))]
        batch, repeats = arranged(drawn)
        assert len(batch) + repeats == len(drawn)
        came, duplicates = merge(buffer, batch)
        assert came == [event for event in batch if ORDER(event) not in known]
        assert duplicates == len(batch) - len(came)
        known |= {ORDER(event): event for event in came}
        assert buffer == [known[key] for key in sorted(known)]
        for event in buffer:
            assert position_of(buffer, event) == buffer.index(event)
        until = rng.randrange(-1, 61)
        assert count_until(buffer, until) == sum(event.ts <= until for event in buffer)
    assert position_of(buffer, Mark(ts=99, id=1, source="s")) is None
