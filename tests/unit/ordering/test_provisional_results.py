"""Results that a unit may still withdraw: what is final is let go, however large the steps in which it came."""

from __future__ import annotations

import random
import weakref

import pytest

from middleware.model.block.block import Block
from middleware.model.change import Delta
from middleware.model.event import NEVER, Event
from middleware.ordering.lanes.provisional_results import ProvisionalResults


class Total(Event):
    value: float


class Watched(Block):
    """Columns of which one can tell whether they are still held."""


@pytest.mark.parametrize("size", [16, 256, 4_096, 16_384])
def test_final_results_are_let_go(size):
    results, held, most = ProvisionalResults(), list[weakref.ref[Watched]](), 0
    for start in range(0, 40 * max(size, 4_096), size):
        totals = [Total(float(at), ts=at, id=at, source="totals") for at in range(start, start + size)]
        columns = Watched(Total, Block.from_events(Total, totals).batch)
        results.note(Delta(columns), start - 2 * size)
        held = [each for each in [*held, weakref.ref(columns)] if each() is not None]
        most = max(most, len(held) * size)
    assert results.above(start - 1) == totals
    assert most <= 65_536 + 8 * size, "results that were final long ago are still held"


def test_final_corrections_are_let_go():
    results, steps, size = ProvisionalResults(), 40, 13_000
    watched = [
        Watched(Total, Block.from_events(Total, [Total(0.0, ts=at, id=at, source="totals")]).batch) for at in range(steps)
    ]
    held = [weakref.ref(each) for each in watched]
    for at in range(steps):
        old = [Total(0.0, ts=at, id=number, source="totals") for number in range(size)]
        new = [Total(1.0, ts=at, id=number, source="totals") for number in range(size)]
        results.note(Delta(watched[at], list(zip(old, new, strict=True))), at - 1)
        watched[at] = None
    assert sum(each() is not None for each in held) <= 65_536 // size + 2
    assert len(results.above(steps - 2)) == size


def test_one_result_far_ahead_holds_up_no_others():
    results, held = ProvisionalResults(), list[weakref.ref[Watched]]()
    results.note(Delta([Total(0.0, ts=2**60, id=-1, source="totals")]), 0)
    for at in range(200):
        columns = Watched(Total, Block.from_events(Total, [Total(0.0, ts=at, id=at, source="totals")] * 1_000).batch)
        results.note(Delta(columns), at - 1)
        held = [each for each in [*held, weakref.ref(columns)] if each() is not None]
    assert len(held) <= 70
    assert {event.id for event in results.above(198)} == {-1, 199}


@pytest.mark.parametrize("seed", range(20))
def test_what_stands_is_what_was_not_withdrawn(seed):
    """Against a naive twin, with corrections, results far ahead, and a ``final`` that moves now and then."""
    rng, results, naive, final = random.Random(seed), ProvisionalResults(), dict[int, Event](), 0
    for step in range(300):
        for number in [number for number, event in naive.items() if event.ts <= final]:
            del naive[number]
        changed = rng.sample(list(naive.values()), min(len(naive), rng.choice([0, 0, 1, 3])))
        gone, olds = changed[::2], changed[1::2]
        revises = [(old, Total(old.value + 1, ts=old.ts + rng.choice([0, 2]), id=old.id, source="totals")) for old in olds]
        times = sorted(final + 1 + rng.choice([0, 3, 40, 10_000]) for _ in range(rng.choice([0, 1, 5])))
        new = [Total(0.0, ts=ts, id=step * 10 + n, source="totals") for n, ts in enumerate(times)]
        in_columns = new and rng.random() < 0.5
        columns = Block.from_events(Total, new) if in_columns else None
        results.note(Delta(columns if in_columns else new, revises, gone), final)
        for event in gone:
            del naive[event.id]
        naive |= {event.id: event for event in (*new, *(changed for _, changed in revises))}
        assert sorted(map(repr, results.above(final))) == sorted(map(repr, naive.values()))
        assert results.latest(final) == max((event.ts for event in naive.values()), default=NEVER)
        if rng.random() < 0.2:
            results = ProvisionalResults(list(results.state(final)))
        final += rng.choice([0, 0, 1, 5])
