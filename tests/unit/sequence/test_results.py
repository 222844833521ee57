"""Results of sequence queries: conditions that read no event, zeros that change their sign, values that cannot go out."""

import math
from itertools import permutations
from typing import Annotated, Any

import pytest
from msgspec import Meta

from detectors.sequence import SequenceQuery
from detectors.sequence.explain_sequence import explain
from detectors.sequence.sequence_operator import SequenceOperation
from detectors.sequence.whynot import why_not
from middleware.model.change import Delta
from middleware.model.event import END, Event
from middleware.model.operator import Origin
from middleware.runtime.engine import run
from tests.oracles.sequence_runs import plain_sequence

STRATEGIES = ("skip-till-any-match", "skip-till-next-match", "strict-contiguity")


class N(Event):
    key: int
    value: float = 0.0


class M(Event):
    key: int
    value: float = 0.0


class Small(Event):
    total: Annotated[int, Meta(le=10)]


cores = pytest.mark.parametrize("studied", [plain_sequence, None], ids=["oracle", "core"])


def started(text, studied, types=(N, M)):
    return SequenceOperation(SequenceQuery(text, types).plan, Origin("Tested", 1), studied)


@cores
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "pattern", ["N a, M b", "N+ a[], M b", "N a, !(N n), M b", "!(N n), M b", "M b, !(N n)", "M b", "N+ a[]"], ids=str
)
def test_a_condition_that_reads_no_event_holds_or_nothing_matches(pattern, strategy, studied):
    events = [N(1, ts=1, id=1, source="a"), M(1, ts=20, id=1, source="b"), M(1, ts=22, id=2, source="b")]
    found = {}
    for where in ("", "WHERE TRUE", "WHERE 1 = 1 AND 2 > 1", "WHERE 1 = 2", "WHERE FALSE", "WHERE NULL", "WHERE 1 / 0 > 2"):
        text = f"EVENT SEQ({pattern}) USING {strategy} {where} WITHIN 30 ns RETURN P(1 AS one)"
        operation = started(text, studied)
        found[where] = [repr(each) for each in operation.apply(Delta(list(events)), END, 0).inserts]
        assert not operation.failures
    assert found["WHERE TRUE"] == found["WHERE 1 = 1 AND 2 > 1"] == found[""]
    assert all(not results for where, results in found.items() if where not in ("", "WHERE TRUE", "WHERE 1 = 1 AND 2 > 1"))


def test_conditions_that_read_no_event_stand_beside_others():
    events = [N(1, ts=1, id=1, source="a"), N(2, ts=2, id=2, source="a"), M(1, ts=3, id=1, source="b")]
    for where, count in (("a.key = b.key", 1), ("1 = 1 AND a.key = b.key", 1), ("a.key = b.key AND NOT 1 = 1", 0)):
        query = SequenceQuery(f"EVENT SEQ(N a, M b) WHERE {where} WITHIN 9 ns RETURN P(a.key AS key)", (N, M))
        assert len(run(events, [query]).finals["P"]) == count
    assert "beware    nothing matches: NOT (1 = 1) does not hold, whatever comes" in explain(query.plan)
    assert why_not(query.plan, events, events[0]) == ["nothing matches: NOT (1 = 1) does not hold, whatever comes"]


@cores
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("pattern", ["N a", "N+ a[]"])
def test_a_zero_that_changes_its_sign_is_revised(pattern, strategy, studied):
    value = "a.value" if pattern == "N a" else "last(a[].value)"
    operation = started(f"EVENT SEQ({pattern}) USING {strategy} WITHIN 9 ns RETURN P({value} AS value)", studied, [N])
    old, new = (N(1, zero, ts=1, id=1, source="a") for zero in (0.0, -0.0))
    (published,) = operation.apply(Delta([old]), 5, -5).inserts
    ((before, after),) = operation.apply(Delta([new], [], [old]), 5, -5).revises
    assert before is not after and before == published and math.copysign(1, after.value) == -1
    same = N(1, -0.0, ts=1, id=1, source="a")
    assert operation.apply(Delta([same], [], [new]), 5, -5) == Delta()  # nobody could tell


@cores
def test_values_beyond_64_bits_are_null(studied):
    text = "EVENT SEQ(N a, M b) WITHIN 9 ns RETURN P(a.key * b.key AS product, a.key AS key)"
    operation = started(text, studied)
    big, small, last = N(2**62, ts=1, id=1, source="a"), N(3, ts=1, id=2, source="a"), M(4, ts=2, id=1, source="b")
    found = operation.apply(Delta([big, small, last]), 5, -5).inserts
    assert {each.key: each.product for each in found} == {2**62: None, 3: 12}
    assert not operation.failures
    out = operation.apply(Delta([M(1, ts=2, id=1, source="b")], [], [last]), 5, -5)
    assert {(old.product, new.product) for old, new in out.revises} == {(None, 2**62), (12, 3)}


@cores
def test_results_that_their_type_will_not_have_are_quarantined_alone(studied):
    text = "EVENT SEQ(N a, M b) WITHIN 9 ns RETURN Small(coalesce(a.key + b.key, 0) AS total)"
    for order in permutations([N(1, ts=1, id=1), N(9, ts=1, id=2), M(3, ts=2, id=3)]):
        operation = started(text, studied, (N, M, Small))
        found: list[Any] = []
        for event in order:
            found += operation.apply(Delta([event]), 5, -5).inserts
        assert [each.total for each in found] == [4]
        ((event, reason),) = operation.failures.values()
        assert event.total == 12 and "Small does not take what RETURN gives at 2 ns: Expected `int` <= 10" in reason
        big = next(each for each in order if each.key == 9)
        assert not operation.apply(Delta([], [], [big]), 5, -5) and not operation.failures
