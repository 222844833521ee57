"""The keyed lanes in Rust and those in Python give the same changes for the same input, delta by delta."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.model.change import Delta
from middleware.model.detector import key_function
from middleware.model.event import END
from middleware.ordering.kslack import Lateness
from middleware.ordering.lane import Settings
from middleware.ordering.lanes import KeyedLanes
from middleware.ordering.retraction import Retraction
from middleware.ordering.unit import Policies, Unit

from .streams import KEYED, changes

core = pytest.importorskip("middleware.native._core", reason="the native core is not built")

policies = st.builds(
    Policies,
    alpha=st.sampled_from([0.0, 0.0, 0.4, 1.0]),
    lateness=st.sampled_from([Lateness(1, 0), Lateness(2, 20), Lateness(1, 1000)]),
    retraction=st.sampled_from(list(Retraction)),
    spacing=st.sampled_from([1, 2, 24, 128]),
    failing=st.sampled_from(["skip", "skip", "stop"]),
)


def unit_with(lanes, detector, policy):
    unit = Unit(detector.__name__, detector(), 2, policy)
    common = Settings(policy.retraction, policy.spacing, policy.failing == "stop")
    unit._lanes = lanes(unit.name, detector(), 2, common, key_function(detector()))
    return unit


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
    one._check()
    other._check()
    assert len(one._lanes) == len(other._lanes)


def in_step(detector, policy, seed, is_open):
    native, plain = unit_with(core.KeyedLanes, detector, policy), unit_with(KeyedLanes, detector, policy)
    for delta, promised in changes(seed):
        agree(native, plain, delta, None, END if is_open else promised, is_open)
    agree(native, plain, Delta(), None, END, False)
    assert native.ledger == plain.ledger
    assert quarantined(native) == quarantined(plain)
    counts, expected = native._lanes.counts, plain._lanes.counts
    for name in ("rollbacks", "duplicates", "unknown"):
        assert getattr(counts, name) == getattr(expected, name), name
    return native, plain


@pytest.mark.parametrize("detector", KEYED)
@settings(max_examples=120, deadline=None)
@given(seed=st.integers(0, 2**32), policy=policies, is_open=st.booleans())
def test_the_same_input_gives_the_same_deltas(detector, seed, policy, is_open):
    in_step(detector, policy, seed, is_open)


def test_the_drawn_input_goes_everywhere():
    """Else the test above would hold for two units that do nothing."""
    seen = dict.fromkeys(("rollbacks", "duplicates", "unknown", "failures", "stops", "snapshots"), 0)
    for seed in range(60):
        for detector in KEYED:
            native, _ = in_step(detector, Policies(alpha=0.0, lateness=Lateness(1, 1000), spacing=8), seed, False)
            for name in seen:
                seen[name] += getattr(native._lanes.counts, name)
    assert all(count > 20 for count in seen.values()), seen
