"""The lanes in Rust and those in Python, keyed and not, give the same changes for the same input, delta by delta."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.model.change import Delta
from middleware.model.event import END
from middleware.ordering.hierarchy import unit_for
from middleware.ordering.lanes import lanes
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import Lateness
from tests.oracles.keyed_lanes import KeyedLanes
from tests.property.strategies import FAILING, policies

from .streams import KEYED, UNKEYED, changes


def unit_with(is_native, detector, policy):
    with pytest.MonkeyPatch.context() as patch:
        if not is_native:
            patch.setattr(lanes, "keyed_lanes", KeyedLanes)
        return unit_for(detector.__name__, detector(), 2, policy)


def columns(deltas):
    return [
        (
            [(type(event), event) for event in delta.inserts],
            [(type(old), old, type(new), new) for old, new in delta.revises],
            [(type(event), event) for event in delta.retracts],
            delta.k_plus,
        )
        for delta in deltas
    ]


def quarantined(unit):
    return sorted((repr(p.cause), p.events, (p.failure or "").splitlines()[-1]) for p in unit.quarantine)


def agree(one, other, *push):
    assert columns(one.push(*push)) == columns(other.push(*push))
    one.check()
    other.check()
    assert one.statistics().keys == other.statistics().keys


def in_step(detector, policy, seed, is_open):
    fast, plain = unit_with(True, detector, policy), unit_with(False, detector, policy)
    for delta, promised in changes(seed):
        agree(fast, plain, delta, None, END if is_open else promised, is_open)
    agree(fast, plain, Delta(), None, END, False)
    assert fast.late == plain.late
    assert quarantined(fast) == quarantined(plain)
    counts, expected = fast.statistics(), plain.statistics()
    for name in ("rollbacks", "duplicates", "unknown"):
        assert getattr(counts, name) == getattr(expected, name), name
    return fast, plain


@pytest.mark.parametrize("detector", [*KEYED, *UNKEYED])
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), policy=policies(failing=FAILING), is_open=st.booleans())
def test_the_same_input_gives_the_same_deltas(detector, seed, policy, is_open):
    in_step(detector, policy, seed, is_open)


def test_the_drawn_input_goes_everywhere():
    """Else the test above would hold for two units that do nothing."""
    seen = dict.fromkeys(("rollbacks", "duplicates", "unknown", "failures", "early_stops", "snapshots"), 0)
    for seed in range(30):
        for detector in (*KEYED, *UNKEYED):
            fast, _ = in_step(detector, Policies(alpha=0.0, lateness=Lateness(1, 1000), spacing=8), seed, False)
            for name in seen:
                seen[name] += getattr(fast.statistics(), name)
    assert all(count > 20 for count in seen.values()), seen
