"""Results of operators are made by the core, from all that it and arrays of numpy may say of a column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.operator_columns import ResultColumns
from middleware.model.errors import EventError
from middleware.model.event import Event


class Found(Event):
    count: int
    share: float
    is_on: bool
    name: str
    least: int | None
    mean: float | None
    was_on: bool | None
    note: str | None


OWN = ("count", "share", "is_on", "name", "least", "mean", "was_on", "note")
INTEGERS, FLOATS, TEXTS = st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text("aé\U0001f600", max_size=3)
founds = st.builds(
    Found,
    INTEGERS,
    FLOATS,
    st.booleans(),
    TEXTS,
    st.none() | INTEGERS,
    st.none() | FLOATS,
    st.none() | st.booleans(),
    st.none() | TEXTS,
    ts=st.integers(0, 99),
    id=INTEGERS,
    source=st.just("Q"),
    level=st.just(2),
)


def column(values: list[Any], kind: str, as_list: bool) -> tuple[Any, bytes | None]:
    """As operators give it."""
    if as_list or kind in "bs":
        return values, None
    if values and all(value is None for value in values):
        return None, None
    there = None if None not in values else bytes(value is not None for value in values)
    dtype = {"i": np.int64, "f": np.float64}[kind]
    return np.array([value or 0 for value in values], dtype).tobytes(), there


@settings(deadline=None)
@given(st.lists(founds, min_size=1, max_size=20), st.sets(st.sampled_from(OWN)))
def test_results_are_what_their_columns_say(events: list[Found], listed: set[str]) -> None:
    given_columns = [
        column([getattr(event, name) for event in events], kind, name in listed)
        for name, kind in zip(OWN, "ifbsifbs", strict=True)
    ]
    times, ids = (np.array([getattr(event, name) for event in events], np.int64) for name in ("ts", "id"))
    results = ResultColumns(Found, "Q", 2).made(given_columns, times, ids.tobytes())
    assert results.core_block is not None, "made by the core"
    assert results.events() == events
    assert results.batch.to_pylist() == [{name: getattr(event, name) for name in event.__struct_fields__} for event in events]


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (0, ([2**63], None)),
        (0, (["1"], None)),
        (1, ([b""], None)),
        (3, ([1], None)),
    ],
)
def test_a_column_that_is_not_its_fields_is_refused(place: int, wrong: Any) -> None:
    event = Found(1, 0.5, True, "a", None, None, None, None, ts=1, id=1, source="Q", level=2)
    columns = [column([getattr(event, name)], kind, False) for name, kind in zip(OWN, "ifbsifbs", strict=True)]
    columns[place] = wrong
    results = ResultColumns(Found, "Q", 2).made(columns, np.array([1]), np.array([1]))
    with pytest.raises((EventError, OverflowError, TypeError, ValueError)):
        results.events()


def test_whole_numbers_may_stand_for_floats() -> None:
    class Share(Event):
        share: float

    results = ResultColumns(Share, "Q", 1).made([(np.array([1, 2**53]), None)], [5, 6], np.array([1, 2]))
    assert [event.share for event in results.events()] == [1.0, float(2**53)] and results.core_block is not None
