"""The worked examples of Kuralenok et al. 2018."""

from itertools import permutations
from typing import NamedTuple

import pytest

from detectors.flow import Flow
from detectors.flow.operations.flow_operator import operators
from detectors.flow.operations.grouping import Bucket
from detectors.flow.operations.items import ABSENT
from middleware.delivery.barrier import Barrier
from middleware.model.change import Batch, Delta
from middleware.model.event import END, Event
from middleware.runtime.engine import run


class Number(Event):
    value: int


class Group(Event):
    numbers: tuple[int, ...]


class Matrix(Event):
    name: str


class Product(Event):
    name: str


def numbers(count):
    return [Number(value, ts=value, id=value, source="x") for value in range(1, count + 1)]


def grouping():
    """Section V.B: the hash is 1 for even numbers and 0 for others; the window is 3."""
    flow = Flow("grouping")
    groups = flow.source(Number).group(lambda number: int(number.value % 2 == 0), window=3)
    groups.sink(Group, lambda group: [[number.value for number in group]])
    return flow


SECTION_V_B = [(1,), (2,), (1, 3), (2, 4), (1, 3, 5), (2, 4, 6), (3, 5, 7), (4, 6, 8)]


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_grouping_in_order(parts):
    finals = run(numbers(8), grouping().operators(parts), batch=1).finals
    assert [
        e.numbers for e in sorted((e for es in finals.values() for e in es if isinstance(e, Group)), key=lambda e: e.ts)
    ] == SECTION_V_B


@pytest.mark.parametrize("order", [(8, 7, 6, 5, 4, 3, 2, 1), (2, 1, 4, 3, 6, 5, 8, 7), (5, 1, 7, 3, 8, 2, 6, 4)])
@pytest.mark.parametrize("batch", [1, 3, 8])
def test_grouping_out_of_order(order, batch):
    given = numbers(8)
    finals = run([given[place - 1] for place in order], grouping().operators(), batch=batch).finals["grouping.by_key"]
    assert [event.numbers for event in finals] == SECTION_V_B


def item(value, old=ABSENT):
    return ((value, 0, "x", value), old, str(value))


def shown(changes):
    return [
        ("|".join(old) if old is not ABSENT else None, "|".join(new) if new is not ABSENT else None) for _, old, new in changes
    ]


def test_algorithm_2_step_by_step():
    """What each insertion and each tombstone sends: (tombstone for, new group) by last item."""
    bucket = Bucket(2)
    assert shown(bucket.change([item(1)])) == [(None, "1")]
    assert shown(bucket.change([item(3)])) == [(None, "1|3")]
    assert shown(bucket.change([item(5)])) == [(None, "3|5")]
    assert shown(bucket.change([item(2)])) == [(None, "1|2"), ("1|3", "2|3")]
    tombstone = (item(3)[0], "3", ABSENT)
    assert shown(bucket.change([tombstone])) == [("2|3", None), ("3|5", "2|5")]
    assert shown(bucket.change([(item(1)[0], "1", ABSENT)])) == [("1", None), ("1|2", "2")]
    bucket.check()


def test_algorithm_2_in_one_batch_is_the_net_of_its_steps():
    bucket = Bucket(3)
    bucket.change([item(1), item(4)])
    assert shown(bucket.change([item(3), (item(4)[0], "4", ABSENT), item(5), item(2)])) == [
        (None, "1|2"),
        (None, "1|2|3"),
        ("1|4", None),
        (None, "2|3|5"),
    ]


class State(NamedTuple):
    name: str


def by_hand():
    """Figure 6, wired by hand."""
    flow = Flow("by_hand")
    cycle = flow.cycle(gives=State)
    names = flow.source(Matrix).map(lambda matrix: [matrix.name], gives=str)

    def combine(group):
        if isinstance(group[-1], State):
            return []
        return [State((group[0].name if len(group) == 2 and isinstance(group[0], State) else "") + group[-1])]

    states = names.union(cycle).group(lambda value: 3, window=2, name="matrices").map(combine, gives=State)
    cycle.close(states)
    states.sink(Product)
    return flow


def by_fold():
    def multiply(product, matrix) -> tuple[str, list[tuple[str]]]:
        product = (product or "") + matrix.name
        return product, [(product,)]

    flow = Flow("by_fold")
    flow.source(Matrix).stateful(multiply, key=lambda matrix: 3, name="matrices").sink(Product)
    return flow


@pytest.mark.parametrize("flow", [by_hand(), by_fold()], ids=["by hand", "by fold"])
@pytest.mark.parametrize("fuse", [True, False])
@pytest.mark.parametrize("order", list(permutations("ABC")))
@pytest.mark.parametrize("batch", [1, 2, 3])
def test_matrices(flow, fuse, order, batch):
    """Section V.C: A, then AB, then ABC, whatever the order of arrival."""
    arrived = [Matrix(name, ts="ABC".index(name) + 1, id=ord(name), source="x") for name in order]
    made = run(arrived, operators(flow, 1, fuse), batch=batch)
    assert [event.name for event in made.finals[f"{flow.name}.matrices"]] == ["A", "AB", "ABC"]


def test_in_order_there_are_no_tombstones():
    arrived = [Matrix(name, ts=place, id=place, source="x") for place, name in enumerate("ABC", 1)]
    assert run(arrived, by_hand().operators(), batch=1).corrected == 0


def test_a_late_matrix_breaks_what_it_must():
    """C, then A, then B: each arrival withdraws only what rested on the wrong product before it."""
    seen = []
    arrived = [Matrix(name, ts="ABC".index(name) + 1, id=ord(name), source="x") for name in "CAB"]

    def watch(batch):
        if "Product" in batch.deltas:
            delta = batch.deltas["Product"]
            seen.append(([event.name for event in delta.inserts], [(old.name, new.name) for old, new in delta.revises]))

    run(arrived, by_fold().operators(), batch=1, watch=watch)
    assert seen == [(["C"], []), (["A"], [("C", "AC")]), (["AB"], [("AC", "ABC")])]


def test_algorithm_3():
    """The barrier: items wait, tombstones take them away, punctuation lets go what is below it, in order."""
    barrier = Barrier(["Group"])
    one, two, three = (Group((n,), ts=n, id=n, source="g") for n in (1, 2, 3))

    def taken(inserts=(), retracts=(), until=None):
        promises = {} if until is None else {"Group": until}
        return [event.ts for event in barrier.take(Batch({"Group": Delta(list(inserts), [], list(retracts))}, promises))]

    assert taken([three, one]) == []
    assert taken([two], retracts=[three]) == []
    assert taken(until=1) == [1]
    assert taken([three], retracts=[two], until=2) == []
    assert taken(until=END) == [3]
    assert not barrier.violations
