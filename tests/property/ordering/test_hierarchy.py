"""Several levels in one process: finals of every detector equal the oracle's, whatever arrives how."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.ordering.lanes.retraction import Retraction
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import Lateness
from middleware.runtime.engine import run
from middleware.testing.oracle import first_arrivals, oracle
from tests.property.strategies import policies

from .streams import Brittle, Fold, KeyedFold, KeyedWindows, Mode, Top, Upper, Windows, arrivals

hierarchies = {
    "two levels": lambda: [Fold(), Upper()],
    "three levels": lambda: [KeyedFold(), Upper(), Top()],
    "failures below": lambda: [Brittle(), Upper(), Top()],
    "known by time": lambda: [Windows(), KeyedWindows(), Upper(), Top()],
    "types that turn": lambda: [Mode(), Top()],
}


@pytest.mark.parametrize("hierarchy", hierarchies)
@settings(max_examples=100, deadline=None)
@given(arrived=arrivals(), size=st.integers(1, 20), policy=policies(), seed=st.integers(0, 999))
def test_finals_of_every_level_equal_the_oracle(hierarchy, arrived, size, policy, seed):
    detectors = hierarchies[hierarchy]()
    rng = random.Random(seed)
    each = {
        type(d).__name__: rng.choice([policy, Policies(alpha=0.0), Policies(retraction=Retraction.FULL)]) for d in detectors
    }
    result = run(arrived, detectors, policies=each, batch=size, failing="skip")
    assert result.finals == oracle(first_arrivals(arrived), hierarchies[hierarchy](), result.late_identities())
    assert result.events + result.duplicates == len(arrived)


@given(arrived=arrivals(), policy=policies())
@settings(max_examples=50, deadline=None)
def test_the_same_input_gives_the_same_changes(arrived, policy):
    seen = []
    for _ in range(2):
        changes = []
        run(arrived, [Fold(), Upper(), Top()], policies=policy, batch=5, watch=changes.append)
        seen.append(repr(changes))
    assert seen[0] == seen[1]


@given(arrived=arrivals())
@settings(max_examples=50, deadline=None)
def test_with_a_wide_lateness_nothing_is_late(arrived):
    result = run(arrived, [Fold(), Upper()], policies=Policies(alpha=0.0, lateness=Lateness(2, 10_000)), batch=4)
    assert not any(result.late.values())
    assert result.finals == oracle(arrived, [Fold(), Upper()])
