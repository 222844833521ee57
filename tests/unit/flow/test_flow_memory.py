"""What is final is forgotten: memory grows with what may still change and with the number of keys, not with the stream."""

import pytest

from detectors.flow import Flow
from detectors.flow.operations.flow_operator import operators
from middleware.model.change import Delta
from middleware.model.event import Event


class Number(Event):
    value: int


class Out(Event):
    value: int


def summed(total, number: Number) -> tuple[int, list[tuple[int]]]:
    total = (total or 0) + number.value
    return total, [(total,)]


def folding():
    flow = Flow("folding")
    flow.source(Number).stateful(summed, key=lambda number: number.value % 10, name="kept").sink(Out)
    return flow


def grouping():
    flow = Flow("grouping")
    groups = flow.source(Number).group(lambda number: number.value % 10, window=3, name="kept")
    groups.sink(Out, lambda group: (sum(number.value for number in group),))
    return flow


@pytest.mark.parametrize(("flow", "fuse"), [(folding(), True), (folding(), False), (grouping(), True)])
def test_held(flow, fuse):
    made = operators(flow, 1, fuse)
    feed, keep = made[f"{flow.name}.Number"].start("feed", 1), made[f"{flow.name}.kept"].start("keep", 2)
    held = []
    for start in range(0, 40_000, 100):
        numbers = [Number(value, ts=value + 1, id=value, source="x") for value in range(start, start + 100)]
        keep.apply(feed.apply(Delta(numbers), start + 100, start), start + 100, start)
        held.append(keep.held)
    assert keep.keys == 10
    assert max(held[200:]) <= max(held[:200]) + 10, "it grows no more"
    assert max(held) < (2 if fuse else 4) * 4_096 + 2_000


def counted_to_ten(count, number: Number) -> tuple[int | None, list[tuple[int]]]:
    count = (count or 0) + 1
    return (None, [(number.value,)]) if count == 10 else (count, [])


def test_keys_whose_state_is_none_again_are_forgotten():
    flow = Flow("tens")
    flow.source(Number).stateful(counted_to_ten, key=lambda number: number.value // 10, name="kept").sink(Out)
    made = flow.operators()
    feed, keep = made["tens.Number"].start("feed", 1), made["tens.kept"].start("keep", 2)
    results = 0
    for start in range(0, 60_000, 500):
        numbers = [Number(value, ts=value + 1, id=value, source="x") for value in range(start, start + 500)]
        results += len(keep.apply(feed.apply(Delta(numbers), start + 500, start), start + 500, start))
    assert results == 6_000
    assert keep.keys < 6_000 // 4, "one for each of the latest items, and what no one has looked at since"


def test_keys_that_are_not_used_any_more_keep_their_last_state_only():
    flow = Flow("quiet")
    flow.source(Number).stateful(summed, key=lambda number: number.value // 1_000, name="kept").sink(Out)
    made = flow.operators()
    feed, keep = made["quiet.Number"].start("feed", 1), made["quiet.kept"].start("keep", 2)
    for start in range(0, 60_000, 500):
        numbers = [Number(value, ts=value + 1, id=value, source="x") for value in range(start, start + 500)]
        keep.apply(feed.apply(Delta(numbers), start + 500, start), start + 500, start)
    assert keep.keys == 60
    assert keep.held < 4_096 + 60 * 33 + 1_000
