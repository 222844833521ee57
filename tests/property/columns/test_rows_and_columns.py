"""Rows and columns mean the same: every operator and detector gives the same changes for both, however they are mixed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.model.change import Batch, Delta, grouped
from middleware.model.event import END, IDENTITY, Event, type_name
from middleware.ordering.arrival import in_order
from middleware.ordering.hierarchy import Hierarchy
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import FixedSlack, Lateness, MaxSlack, QuantileSlack
from middleware.testing.simulation.applications import Probe, Reading

from .applications import APPLICATIONS, arrivals, as_columns

Form = Callable[[Delta], Delta]


@pytest.fixture(autouse=True, scope="module")
def few_events_stay_columns() -> Iterator[None]:
    """Several types at once, however few, as columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("middleware.ordering.hierarchy.in_order", lambda parts, few: in_order(parts))
        yield


def as_rows(delta: Delta) -> Delta:
    return delta


def either(rng: Random) -> Form:
    """One or the other, drawn for each delta."""

    def form(delta: Delta) -> Delta:
        return rng.choice([as_rows, as_columns])(delta)

    return form


def batches(rng: Random, events: list[Event]) -> Iterator[Batch]:
    """The events in batches; in between, some that came are revised or withdrawn, and at the end everything ends."""
    came: list[Event] = []
    while events:
        size = rng.choice([1, 2, 5, 20])
        now, events = events[:size], events[size:]
        deltas = grouped(now)
        for event in rng.sample(came, min(len(came), rng.choice([0, 0, 1, 2]))):
            delta = deltas.setdefault(type_name(type(event)), Delta())
            came.remove(event)
            if rng.random() < 0.5:
                delta.retracts.append(event)
            else:
                changed = type(event)(event.sensor, rng.randint(0, 9), ts=event.ts, id=event.id, source=event.source)  # type: ignore[attr-defined]
                delta.revises.append((event, changed))
                came.append(changed)
        came += now
        yield Batch(deltas, {}, max((event.ts for event in came), default=None))
    yield Batch({}, dict.fromkeys(map(type_name, (Reading, Probe)), END))


def printed(batch: Batch) -> Any:
    """What a batch says, whatever its order."""
    changes = {}
    for name, delta in batch.deltas.items():
        early = delta.k_plus or [0] * len(delta)
        inserts = {IDENTITY(event): (event, ahead) for event, ahead in zip(delta.inserts, early, strict=False)}
        revises = {IDENTITY(new): (old, new) for old, new in delta.revises}
        changes[name] = (inserts, revises, {IDENTITY(event): event for event in delta.retracts})
    return repr(
        ([(name, *map(ordered, changes[name])) for name in sorted(changes)], batch.watermarks, batch.clock, batch.stopped)
    )


def ordered(changes: dict[Any, Any]) -> list[Any]:
    return sorted(changes.items(), key=lambda item: item[0])


def history(make: Callable[[], Hierarchy], steps: list[Batch], form: Form, crash: int | None = None) -> list[Any]:
    """What a hierarchy says to each batch, and all that it knows at the end; with a crash and a recovery at one of them."""
    hierarchy, outputs = make(), list[Any]()
    for number, batch in enumerate(steps):
        shaped = Batch({name: form(delta) for name, delta in batch.deltas.items()}, batch.watermarks, batch.clock)
        outputs.append([printed(each) for each in hierarchy.process(shaped)])
        for unit in hierarchy.units:
            unit.check()
        first = {unit.name: unit.first_waiting for unit in hierarchy.units}
        outputs.append((first, [(each.k, each.clk, each.final, each.waiting) for each in hierarchy.statistics()]))
        if number == crash:
            state = deepcopy(hierarchy.state())
            parts = []
            while part := hierarchy.parts(1_000):
                parts.append(deepcopy(part))
            hierarchy = make()
            hierarchy.restore(state, parts)
    counts = [(each.received, each.emitted, each.late, each.duplicates, each.unknown) for each in hierarchy.statistics()]
    listed = [(unit.name, sorted(map(repr, (late.event for late in unit.late)))) for unit in hierarchy.units]
    failed = [(unit.name, sorted(repr(each.cause) for each in unit.quarantine)) for unit in hierarchy.units]
    return [*outputs, counts, listed, failed, sorted(hierarchy.halted)]


policies = st.builds(
    Policies,
    alpha=st.sampled_from([0.0, 0.0, 0.4, 1.0]),
    lateness=st.builds(Lateness, st.just(1.0), st.sampled_from([0, 4, 1_000])),
    slack=st.sampled_from([None, MaxSlack, QuantileSlack, partial(FixedSlack, 6)]),
)


@pytest.mark.parametrize("kind", APPLICATIONS)
@given(st.integers(0, 2**32), policies, st.booleans())
@settings(max_examples=25, deadline=None)
def test_rows_columns_and_both_mixed_give_the_same_changes(kind: str, seed: int, policy: Policies, crashes: bool) -> None:
    rng = Random(seed)
    detectors = APPLICATIONS[kind](rng)
    steps = list(batches(rng, arrivals(rng, rng.choice([10, 40, 80]))))
    crash = rng.randrange(len(steps)) if crashes else None

    def make() -> Hierarchy:
        return Hierarchy(detectors, policies=policy)

    rows = history(make, steps, as_rows, crash)
    assert history(make, steps, as_columns, crash) == rows
    assert history(make, steps, either(Random(seed)), crash) == rows
