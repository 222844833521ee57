"""Units, clocks and lanes that were stored and restored continue exactly as if nothing had happened."""

from __future__ import annotations

import random
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.durability.checkpoint import PendingCheckpoint, StoredCheckpoint
from middleware.durability.state_encoding import decode_state, encode_state
from middleware.model.change import Batch, Delta
from middleware.model.event import END, Event, type_name
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.lanes.retraction import Retraction
from middleware.ordering.policies import Policies
from middleware.testing.simulation.applications import TYPES, Echo, Level, Pairs, Probe, Reading, Summaries, Totals, a_stream
from tests.property.strategies import FAILING, SLACK, policies

DETECTORS = [Level, Totals, Pairs, Summaries, Echo]

POLICIES = policies(
    slack=SLACK,
    retraction=st.sampled_from([Retraction.ON_DEMAND, Retraction.FULL]),
    spacing=st.sampled_from([None, 1, 3, 8]),
    failing=FAILING,
)


def batches(seed: int, size: int) -> list[Batch]:
    rng = random.Random(seed)
    events = a_stream(rng, [Reading], "r") + a_stream(rng, [Probe], "p")
    rng.shuffle(events) if seed % 5 == 0 else events.sort(key=lambda event: event.ts + rng.randrange(9))
    seen: set[tuple[str, int]] = set()
    fresh = [e for e in events if (e.source, e.id) not in seen and not seen.add((e.source, e.id))]  # type: ignore[func-returns-value]
    found = []
    for start in range(0, len(fresh), size):
        part = fresh[start : start + size]
        by_type: dict[str, list[Event]] = {}
        for event in part:
            by_type.setdefault(type_name(event.__class__), []).append(event)
        mark = max(event.ts for event in part)
        found.append(Batch({name: Delta(same) for name, same in by_type.items()}, {}, mark))
    return [*found, Batch({}, {"Reading": END, "Probe": END})]


def printed(results: list[Batch]) -> str:
    return repr([(sorted(batch.deltas.items()), batch.watermarks, batch.clock) for batch in results])


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000), size=st.sampled_from([1, 7, 40]), policy=POLICIES, cuts=st.sets(st.integers(0, 60), max_size=3)
)
def test_a_hierarchy_resumes_where_it_was(seed: int, size: int, policy: Policies, cuts: set[int]) -> None:
    whole, cut = made(policy), made(policy)
    for number, batch in enumerate(batches(seed, size)):
        if number in cuts:
            state = encode_state((cut.state(), list(iter(partial(cut.parts, 2), {}))), TYPES)
            cut = made(policy)
            cut.restore(*decode_state(state, TYPES))
        assert printed(cut.process(batch)) == printed(whole.process(batch)), f"batch {number}"
    same(cut, whole)


def same(cut: Hierarchy, whole: Hierarchy) -> None:
    for one, other in zip(cut.units, whole.units, strict=True):
        one.check()
        assert (one.late, one.final, one.clock.k) == (other.late, other.final, other.clock.k)
        assert [failed.cause for failed in one.quarantine] == [failed.cause for failed in other.quarantine]


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.sampled_from([1, 7, 40]), policy=POLICIES, cuts=st.integers(0, 2**32))
def test_a_checkpoint_made_between_steps_is_as_of_where_it_began(seed: int, size: int, policy: Policies, cuts: int) -> None:
    """Its pieces are written while the steps continue; a crash at any of them leaves the one before, or, at the last, this
    one."""
    whole, cut = made(policy), made(policy)
    came = batches(seed, size)
    outputs = [printed(whole.process(batch)) for batch in came]
    slices = random.Random(cuts)
    begun: tuple[int, PendingCheckpoint, list[bytes]] | None = None
    complete: tuple[int, list[bytes]] | None = None
    at = 0
    while at < len(came):
        if slices.random() < 0.3:  # perhaps before the last one is complete
            begun = (at, PendingCheckpoint(at, cut.state(), cut.parts, TYPES, {}), [])
            begun[2].append(begun[1].next(0).data)
        if slices.random() < min(0.1, 4 / len(came)):  # seldom enough to come to the end soon in batches of one
            cut = made(policy)
            at, begun = 0, None
            if complete is not None:
                at, pieces = complete
                stored = StoredCheckpoint(pieces, TYPES)
                cut.restore(stored.state(), stored.parts())
        assert printed(cut.process(came[at])) == outputs[at], f"batch {at}"
        at += 1
        if begun is not None and slices.random() < 0.7:
            piece = begun[1].next(slices.randint(1, 3))
            begun[2].append(piece.data)
            if piece.is_last:
                complete, begun = (begun[0], begun[2]), None
    same(cut, whole)


def made(policy: Policies) -> Hierarchy:
    return Hierarchy([detector() for detector in DETECTORS], policies=policy)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.sampled_from([1, 7, 40]), policy=POLICIES, other=POLICIES)
def test_a_replay_at_any_alpha_comes_to_the_same_finals(seed: int, size: int, policy: Policies, other: Policies) -> None:
    """What is late, and so what is final, follows from the finals that were logged: not from alpha, K or the mode."""
    live, again = made(policy), made(other)
    net: list[dict[tuple[str, int], Event]] = [{}, {}]
    for batch in batches(seed, size):
        outputs = [live.process(batch), again.process(batch, live.finals())]
        for held, results in zip(net, outputs, strict=True):
            for result in results:
                for delta in result.deltas.values():
                    for event in [*delta.retracts, *(old for old, _ in delta.revises)]:
                        del held[event.source, event.id]
                for delta in result.deltas.values():
                    for event in [*(new for _, new in delta.revises), *delta.inserts]:
                        held[event.source, event.id] = event
        assert live.finals() == again.finals()
        assert late(live) == late(again)
    if policy.failing == other.failing:
        assert net[0] == net[1]


def late(hierarchy: Hierarchy) -> list[list[tuple[str, int]]]:
    return [sorted((entry.event.source, entry.event.id) for entry in unit.late) for unit in hierarchy.units]
