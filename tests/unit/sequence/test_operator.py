"""The sequence operator: keys of every kind, values that do not fit, failures, restarts, and what is kept."""

import math
import pickle
from random import Random
from typing import Any

import pytest

from detectors.sequence import SequenceQuery
from detectors.sequence.sequence_operator import SequenceOperation
from middleware.model.change import Delta
from middleware.model.errors import DetectorError
from middleware.model.event import END, Event
from middleware.model.operator import Origin
from tests.oracles.sequence_runs import plain_sequence
from tests.property.sequence.queries import TYPES, events, query


class A(Event):
    key: Any
    value: Any = 0


class B(Event):
    key: Any
    value: Any = 0


class N(Event):
    key: int
    value: float = 0


class M(Event):
    key: int
    value: float = 0


cores = pytest.mark.parametrize("studied", [plain_sequence, None], ids=["oracle", "core"])


def started(text, types, studied, level=1):
    return SequenceOperation(SequenceQuery(text, types).plan, Origin("Tested", level), studied)


def pairs(operation, *delta, emitted=END, final=0):
    out = operation.apply(Delta(list(delta)), emitted, final)
    assert not out.retracts and not out.revises
    return sorted((each.a, each.b) for each in out.inserts)


@cores
def test_keys_that_are_equal_are_one_key(studied):
    operation = started("EVENT SEQ(N a, M b) WHERE a.key = b.key WITHIN 9 ns RETURN P(a.id AS a, b.id AS b)", (N, M), studied)
    keys = [1, 1.0, True, 2**70, float(2**70), 2, -0.0, 0, math.nan, None, 2**63, -(2**63), float(-(2**63))]
    firsts = [N(key, ts=1, id=number, source="a") for number, key in enumerate(keys)]
    lasts = [M(key, ts=2, id=number, source="b") for number, key in enumerate(keys)]
    expected = [(i, j) for i, one in enumerate(keys) for j, other in enumerate(keys) if one is not None and one == other]
    assert pairs(operation, *lasts, *firsts) == expected
    assert operation.keys == 6


@cores
def test_numbers_that_do_not_fit_are_compared_as_they_are_and_calculated_to_null(studied):
    text = (
        "EVENT SEQ(N a, M b) WHERE a.value < b.value AND a.key + b.key > 10 AND a.key / b.key >= 1 WITHIN 9 ns "
        "RETURN P(a.id AS a, b.id AS b)"
    )
    operation = started(text, (N, M), studied)
    values = [0, 1, 1.5, 2**53, 2**53 + 1, float(2**53), 2**80, -(2**80), math.inf, math.nan]
    keys = [0, 3, 9, 2**62, 2**63, -(2**62), 2**64]
    rng = Random(1)
    firsts = [N(rng.choice(keys), rng.choice(values), ts=1, id=number, source="a") for number in range(40)]
    lasts = [M(rng.choice(keys), rng.choice(values), ts=2, id=number, source="b") for number in range(40)]

    def holds(a, b):
        fits = a.key + b.key < 2**63 and -(2**63) <= quotient(a.key, b.key) < 2**63 if b.key else False
        return a.value < b.value and fits and a.key + b.key > 10 and quotient(a.key, b.key) >= 1

    def quotient(one, other):
        return abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1)

    assert pairs(operation, *firsts, *lasts) == [(a.id, b.id) for a in firsts for b in lasts if holds(a, b)]


@cores
def test_an_event_without_a_possible_key_is_quarantined_and_can_be_withdrawn(studied):
    operation = started("EVENT SEQ(N a, M b) WHERE a.key = b.key WITHIN 9 ns RETURN P(a.id AS a, b.id AS b)", (N, M), studied)
    odd = N([1], ts=1, id=7, source="a")
    good = N(1, ts=1, id=8, source="a")
    assert pairs(operation, odd, good, M(1, ts=2, id=1, source="b")) == [(8, 1)]
    assert list(operation.failures) == [("a", 7)]
    restored = started("EVENT SEQ(N a, M b) WHERE a.key = b.key WITHIN 9 ns RETURN P(a.id AS a, b.id AS b)", (N, M), studied)
    restored.restore(pickle.loads(pickle.dumps(operation.snapshot())))
    assert list(restored.failures) == [("a", 7)]
    assert not operation.apply(Delta([], [], [odd]), END, 0)
    assert not operation.failures
    assert [event for event, _ in restored.failed(5)] == [odd]


@cores
def test_what_is_final_is_forgotten(studied):
    text = "EVENT SEQ(N a, !(M n), N b) WHERE [key] WITHIN 100 ns RETURN P(a.id AS a, b.id AS b)"
    operation = started(text, (N, M), studied)
    most = 0
    for number in range(20_000):
        kind = M if number % 3 == 0 else N
        operation.apply(Delta([kind(number % 50, ts=number, id=number)]), number, number - 40)
        most = max(most, operation.held)
    assert most < 2 * 8 * (100 + 40)
    operation.apply(Delta(), END, END)
    assert operation.held == operation.keys == 0


@pytest.mark.parametrize("seed", range(30))
def test_invariants_hold_in_both_cores(seed):
    rng = Random(seed)
    plan = SequenceQuery(query(seed, ("any",)).text, TYPES).plan
    both = [SequenceOperation(plan, Origin("Tested", 1), studied) for studied in (plain_sequence, None)]
    there: list[Event] = []
    for event in events(seed, most=40):
        gone = [there.pop(rng.randrange(len(there)))] if there and rng.random() < 0.3 else []
        there.append(event)
        plain, fast = (each.apply(Delta([event], [], gone), 20, -30) for each in both)
        key = [sorted(each.id for each in out) for out in (plain.inserts, plain.retracts)]
        assert key == [sorted(each.id for each in out) for out in (fast.inserts, fast.retracts)]
        for each in both:
            each._core.check()
        assert both[0].held == both[1].held


@cores
def test_negation_at_both_ends_rests_on_two_windows(studied):
    """A late negative rules a match out, is taken back, and the one before the match still counts: it was not forgotten."""
    text = "EVENT SEQ(!(M m), N a, !(B b)) WITHIN 10 ns RETURN P(a.id AS a)"
    operation = started(text, (N, M, B), studied)
    assert not operation.apply(Delta([M(1, ts=100, id=1), N(1, ts=105, id=2)]), 105, 98)
    assert not operation.apply(Delta(), 114, 113)  # final has left the negative's own window behind
    assert not operation.apply(Delta(), 120, 113)
    assert not operation.apply(Delta([B(1, ts=114, id=3)]), 121, 113)
    assert not operation.apply(Delta([], [], [B(1, ts=114, id=3)]), 121, 113)
    assert operation.held == 2


@cores
def test_a_match_that_is_revised_and_ruled_out_at_once_is_withdrawn_as_it_was(studied):
    text = "EVENT SEQ(N a, !(M m)) WITHIN 10 ns RETURN P(a.value AS value)"
    operation = started(text, (N, M), studied)
    old = N(1, 1.0, ts=5, id=1, source="a")
    (published,) = operation.apply(Delta([old]), 15, 0).inserts
    assert published.value == 1.0
    out = operation.apply(Delta([N(1, 2.0, ts=5, id=1, source="a"), M(1, ts=9, id=1, source="m")], [], [old]), 20, 0)
    assert (out.inserts, out.revises, out.retracts) == ([], [], [published])


@cores
def test_a_match_that_comes_back_otherwise_is_revised(studied):
    text = "EVENT SEQ(N a, N b) WHERE a.key < b.key WITHIN 10 ns RETURN P(a.value AS value)"
    operation = started(text, (N,), studied)
    old = N(1, 1.0, ts=5, id=1, source="a")
    (published,) = operation.apply(Delta([old, N(2, ts=7, id=2, source="a")]), 15, 0).inserts
    out = operation.apply(Delta([N(1, 2.0, ts=6, id=1, source="a")], [], [old]), 20, 0)
    ((before, after),) = out.revises
    assert (before, after.value, after.id) == (published, 2.0, published.id)
    assert not out.inserts and not out.retracts


@cores
def test_a_kleene_group_without_end_stops_the_operator_with_a_word_of_advice(studied):
    text = "EVENT SEQ(N+ a[], M b) WHERE a[i].key = a[i-1].key + 1 WITHIN 1 s RETURN P(count(a) AS n)"
    operation = started(text, (N, M), studied)
    chain = [N(number, ts=number, id=number, source="a") for number in range(2_500)]
    with pytest.raises(DetectorError, match="USING skip-till-next-match"):
        operation.apply(Delta([*chain, M(1, ts=2_500, id=1, source="b")]), 2_500, 0)
