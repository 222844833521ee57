"""Results that come as columns and are withdrawn or revised later net out to what the barrier releases of the same events."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.delivery.barrier import Barrier
from middleware.model.change import Batch, Delta
from middleware.model.event import END, Event
from middleware.runtime.local.final_results import FinalResults

from .applications import as_columns


class Result(Event):
    value: int


class Other(Event):
    value: int


def histories(rng: Random) -> list[Batch]:
    """Batches of changes to a few results of two detectors, which may also change their type."""
    present: dict[tuple[str, int], Event] = {}
    batches = []
    for _ in range(rng.randint(1, 12)):
        deltas = {"Result": Delta(), "Other": Delta()}
        for identity in rng.sample([(source, number) for source in "ab" for number in range(6)], 6):
            was = present.pop(identity, None)
            kind = rng.choice([Result, Result, Result, Other]) if identity[0] == "a" else Result
            now = kind(rng.randint(0, 3), ts=rng.randint(1, 20), id=identity[1], source=identity[0], level=1)
            if was is None:
                deltas[kind.__name__].inserts.append(now)
                present[identity] = now
            elif rng.random() < 0.5:
                deltas[type(was).__name__].retracts.append(was)
            elif type(was) is kind:
                deltas[kind.__name__].revises.append((was, now))
                present[identity] = now
            else:
                deltas[type(was).__name__].retracts.append(was)
                deltas[kind.__name__].inserts.append(now)
                present[identity] = now
        batches.append(Batch({name: delta for name, delta in deltas.items() if delta}))
    return [*batches, Batch({}, {"Result": END, "Other": END})]


@given(st.integers(0, 2**32))
@settings(deadline=None)
def test_columns_net_out_as_rows_do(seed: int) -> None:
    rng = Random(seed)
    batches = histories(rng)
    barrier, results = Barrier(["Other", "Result"]), FinalResults({"a": ["Result", "Other"], "b": ["Result"]})
    expected: list[Event] = []
    for batch in batches:
        expected += barrier.take(batch)
        mixed = {name: as_columns(delta) if rng.random() < 0.7 else delta for name, delta in batch.deltas.items()}
        results.take(Batch(mixed, batch.watermarks))
    for name in "ab":
        assert list(results.of(name)) == [event for event in expected if event.source == name]
    assert results.violations == 0 == sum(barrier.violations.values())


def test_changes_to_what_is_final_are_violations() -> None:
    early, late = (Result(1, ts=ts, id=ts, source="a", level=1) for ts in (5, 9))
    results = FinalResults({"a": ["Result"]})
    results.take(Batch({"Result": as_columns(Delta([early]))}, {"Result": 7}))
    results.take(Batch({"Result": as_columns(Delta([late]))}))
    assert results.violations == 0
    results.take(Batch({"Result": Delta(retracts=[early])}))
    assert results.violations == 1
    results.take(Batch({"Result": as_columns(Delta([Result(1, ts=6, id=6, source="a", level=1)]))}))
    assert results.violations == 2
