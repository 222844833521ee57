"""Results that a unit may still withdraw: what is final is let go, however large the steps in which it came."""

from __future__ import annotations

import weakref

import pytest

from middleware.model.change import Delta
from middleware.model.columns import EventColumns
from middleware.model.event import Event
from middleware.ordering.operation import Standing


class Total(Event):
    value: float


class Watched(EventColumns):
    """Columns of which one can tell whether they are still held."""


@pytest.mark.parametrize("size", [16, 256, 4_096, 16_384])
def test_final_results_are_let_go(size):
    standing, held, most = Standing(), list[weakref.ref[Watched]](), 0
    for start in range(0, 40 * max(size, 4_096), size):
        totals = [Total(float(at), ts=at, id=at, source="totals") for at in range(start, start + size)]
        columns = Watched(Total, EventColumns.from_events(Total, totals).batch)
        standing.note(Delta(columns=columns), start - 2 * size)
        held = [each for each in [*held, weakref.ref(columns)] if each() is not None]
        most = max(most, len(held) * size)
    assert standing.above(start - 1) == totals
    assert most <= 65_536 + 8 * size, "results that were final long ago are still held"


def test_final_corrections_are_let_go():
    standing, steps, size = Standing(), 40, 13_000
    watched = [
        Watched(Total, EventColumns.from_events(Total, [Total(0.0, ts=at, id=at, source="totals")]).batch)
        for at in range(steps)
    ]
    held = [weakref.ref(each) for each in watched]
    for at in range(steps):
        old = [Total(0.0, ts=at, id=number, source="totals") for number in range(size)]
        new = [Total(1.0, ts=at, id=number, source="totals") for number in range(size)]
        standing.note(Delta(None, list(zip(old, new, strict=True)), columns=watched[at]), at - 1)
        watched[at] = None
    assert sum(each() is not None for each in held) <= 65_536 // size + 2
    assert len(standing.above(steps - 2)) == size
