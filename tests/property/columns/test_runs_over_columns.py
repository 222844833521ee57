"""A run over columns finds what one over the same events finds."""

from __future__ import annotations

from random import Random

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slackline import run

from middleware.model.block.block import Block
from middleware.model.event import Event
from middleware.ordering.policies import Policies
from middleware.ordering.slack.kslack import Lateness
from middleware.runtime import engine
from middleware.runtime.engine import Run
from middleware.runtime.local.arrivals import ArrivedColumns
from middleware.testing.simulation.applications import Reading

from .applications import APPLICATIONS, Doubled, Doubling, arrivals


def columns_of(events: list[Event]) -> ArrivedColumns:
    kinds = list(dict.fromkeys(map(type, events)))
    own = [[place for place, event in enumerate(events) if type(event) is kind] for kind in kinds]
    columns = [Block.from_events(kind, [events[at] for at in places]) for kind, places in zip(kinds, own, strict=True)]
    order = np.argsort(np.concatenate(own)) if len(kinds) > 1 else None
    return ArrivedColumns([Block(each.event_type, each.batch) for each in columns], order)


def found(result: Run) -> object:
    finals = {name: [repr(event) for event in events] for name, events in result.finals.items()}
    late = {name: sorted(repr(each.event) for each in entries) for name, entries in result.late.items()}
    return finals, late, result.events, result.duplicates, result.published, result.corrected, result.halted.keys()


@pytest.mark.parametrize("kind", APPLICATIONS)
@given(st.integers(0, 2**32), st.sampled_from([1, 3, 16, 256]), st.sampled_from([0.0, 1.0]), st.sampled_from([5, 1_000]))
@settings(max_examples=10, deadline=None)
def test_columns_give_the_finals_of_events(kind: str, seed: int, batch: int, alpha: float, floor: int) -> None:
    rng = Random(seed)
    detectors, events = APPLICATIONS[kind](rng), arrivals(rng, 60)
    policies = Policies(alpha=alpha, lateness=Lateness(1.0, floor))
    rows = engine.run(events, detectors, policies=policies, batch=batch, failing="skip")
    columns = engine.run(columns_of(events), detectors, policies=policies, batch=batch, failing="skip")
    assert found(columns) == found(rows)


def table(count: int = 1_000) -> pa.Table:
    chance = np.random.default_rng(3)
    return pa.table({"ts": chance.permutation(count), "sensor": chance.integers(0, 9, count), "value": np.arange(count)})


@pytest.mark.parametrize("of", [lambda t: t, pa.Table.to_pandas, pl.from_arrow, lambda t: t.to_batches()[0]])
def test_frames_in_and_a_table_out(of: object) -> None:
    result = run(of(table()), [Doubling()])  # type: ignore[operator]
    assert isinstance(result.finals["Doubling"], Block)
    doubled = result.table("Doubled")
    assert doubled.column_names == ["sensor", "value", "ts", "id", "source"]
    assert doubled["ts"].to_pylist() == list(range(1_000))
    expected = dict(zip(table()["ts"].to_pylist(), table()["value"].to_pylist(), strict=True))
    assert doubled["value"].to_pylist() == [2 * expected[ts] for ts in range(1_000)]
    assert result.table(Doubled) == doubled == result.table("Doubling")
    assert "1,000 finals (Doubling 1,000)" in repr(result)
    assert result.why(result.finals["Doubling"][5]).event.ts == 5


def test_equal_ids_are_repeats_in_columns_as_in_rows() -> None:
    rows = table(4).append_column("id", pa.array([1, 2, 2, 1])).append_column("source", pa.array(["a", "a", "a", "b"]))
    columns = Block.of(Reading, rows)
    assert not ArrivedColumns([columns]).is_numbered()
    assert ArrivedColumns([columns.take([0, 1, 3])]).is_numbered()
    assert not ArrivedColumns([columns.take([0]), columns.take([0])]).is_numbered()
