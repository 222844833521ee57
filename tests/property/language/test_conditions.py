"""Conditions in the core, over columns and row by row, give what Python gives: the same answers, or none."""

from __future__ import annotations

import math
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detectors.cql.catalog import CatalogStream, schema_of
from detectors.cql.planning.scopes import RangeVariable, StreamScope
from detectors.cql.query_operators.tuple_columns import places
from detectors.language import parse_expression
from detectors.language.code import CodeFrame
from detectors.language.compiler import condition
from detectors.language.query_errors import TextSpan
from detectors.language.written import ExpressionWriter, NotPlainError, tuples_named
from middleware import native
from middleware.model.block.block import Block
from middleware.model.block.recipe import recipe
from middleware.model.event import Event
from tests.property.language.expressions import Drawn, T, rows

BLOCK = 2048
"""How many rows the core computes at once."""


class Found(Event):
    """The result of a row that passes."""


class AllWays:
    """A condition, event by event in Python and in the core, and over columns."""

    def __init__(self, text: str) -> None:
        frame = CodeFrame()
        scope = StreamScope([RangeVariable(CatalogStream("T", schema_of(T, TextSpan(0, 0)), T), None)], "no aggregates")
        code = condition(parse_expression(text), scope, frame)
        self.holds = frame.function("e", code.holds)
        self.in_core: native.ColumnCondition | None = None
        writer = ExpressionWriter(tuples_named("e"))
        with suppress(NotPlainError):
            test = writer.written(code.holds)
            self.in_core = native.ColumnCondition(test, places(T, writer.fields[0]))
            self.by_row = native.Projection.of(recipe(Found), test, [], writer.fields, "Found", 1)

    def row(self, event: T) -> bool | None:
        """None: the core does not decide."""
        if self.in_core is None:
            return None
        assert self.by_row is not None
        found = self.by_row.of_tuples([event], {event.source: 0})
        return None if found is None else bool(found)

    def flags(self, columns: Block) -> list[bool] | None:
        found = None if self.in_core is None else self.in_core.of(columns.in_core)
        return None if found is None else np.frombuffer(found, np.bool_).tolist()


def agrees(text: str, events: list[T]) -> bool:
    """Whether the core decides both ways; it must not decide otherwise."""
    tested, whole = AllWays(text), Block.from_events(T, events)
    expected = [bool(tested.holds(event)) for event in events]
    shifted = Block(T, pa.concat_batches([whole.batch] * 2).slice(len(events) - 1, len(events)))
    found = tested.flags(whole)
    assert found in (None, expected), text
    assert tested.flags(shifted) in (None, expected[-1:] + expected[:-1]), text
    by_row = [tested.row(event) for event in events]
    assert all(one in (None, other) for one, other in zip(by_row, expected, strict=True)), text
    return found is not None and None not in by_row


def row(number: int, x: int = 0, y: int | None = 0, w: float = 0.0, v: float | None = 0.0, name: str | None = "a") -> T:
    return T(x, y, w, v, name, None if number % 3 == 0 else number % 3 == 1, ts=number + 1, id=number, source="s")


@given(st.integers(0, 2**64), st.integers(0, 4))
@settings(max_examples=300, deadline=None)
def test_drawn_conditions_on_hard_values(seed: int, depth: int) -> None:
    random = Random(seed)
    agrees(str(Drawn(random).of("Boolean", depth)), rows(random, random.randrange(1, 20)))


@pytest.mark.parametrize(
    "text",
    [
        "x > 2", "y <= x", "w < 1.5 AND v > w", "x = 3 OR y = 3 OR v = 3", "name = 'a'", "name <> 'b' OR name IS NULL",
        "NOT flag", "flag", "flag = (x > 2)", "y IS NOT NULL AND y * 2 - x < 7", "w / x > 0.5", "-x < -w",
        "v BETWEEN 0 AND 2", "CASE WHEN w > 1 THEN x ELSE y END > 1", "x > w", "ts - x > 3", "x + y IS NULL",
        "x / 2 > y", "x % 3 = y % 2", "w % 2 < 1", "x IN (1, 3)", "y NOT IN (1, x)", "name IN ('a', NULL)", "w IN (v, 1)",
        "(flag AND y > 1) IS NULL", "(flag OR y > 1) = (x > 0)", "NOT (v = 0.5 OR name = 'b')",
    ],
)  # fmt: skip
def test_the_core_decides_on_plain_values(text: str) -> None:
    events = [
        row(at, at % 7 - 3, None if at % 5 == 0 else at % 4, at % 9 / 4, None if at % 4 == 0 else at / 2.0, "ab"[at % 2])
        for at in range(2 * BLOCK + 3)
    ]
    assert agrees(text, events)


@pytest.mark.parametrize("text", ["x > w", "w >= x", "x = w", "y <> w", "v < y"])
def test_whole_numbers_beyond_the_floats_are_compared_without_loss(text: str) -> None:
    beyond = 2**53 + 1
    numbers = [(beyond, 2.0**53), (-beyond, -(2.0**53)), (2**63 - 1, 2.0**63), (-(2**63), -(2.0**63)), (2**53, 2.0**53)]
    agrees(text, [row(at, x, x, w, w) for at, (x, w) in enumerate(numbers)])


@pytest.mark.parametrize(
    "text", ["x + y > 0", "x - y < 0", "x * y > 1", "x * x + y * y > 2", "-x > 0", "x + 1 > x", "x / y > 0", "x % y < 1"]
)
@pytest.mark.parametrize("number", [2**62, -(2**62), 2**63 - 1, -(2**63), 3_037_000_500])
def test_arithmetic_beyond_64_bits_is_none_of_the_cores(text: str, number: int) -> None:
    agrees(text, [row(0, number, number), row(1, number, -1), row(2, 1, number), row(3, number, None)])


@pytest.mark.parametrize(
    "text",
    [
        "w = w",
        "w <> w",
        "w < v",
        "NOT w < v",
        "v >= 0 OR NOT v >= 0",
        "w / v > 0",
        "v = -0.0",
        "w % v > 0",
        "w IN (v, 0)",
        "w NOT IN (v, w)",
    ],
)
def test_nan_infinities_and_zeros_with_a_sign(text: str) -> None:
    hard = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, None]
    agrees(text, [row(at, w=w, v=v) for at, (w, v) in enumerate((w, v) for w in hard if w is not None for v in hard)])


TYPED = ["x = y", "x <> y", "x < 3", "y IS NULL", "x + y > 1", "-x < w", "x / 2 = y", "w / x > 1", "w % v < 1", "name = 'a'"]
TYPED += ["flag", "NOT flag", "flag = (x > 1)", "x IN (1, y)", "name IN ('a', 'b')", "x BETWEEN y AND w", "flag OR x IN (1)"]


@given(
    st.sampled_from(TYPED), st.lists(st.sampled_from([None, True, 1, 2**70, -(2**70), 1.0, math.nan, "a", b"a"]), min_size=6)
)
@settings(max_examples=500, deadline=None)
def test_rows_with_values_that_their_types_forbid(text: str, values: list[Any]) -> None:
    """What raises in Python is none of the core's."""
    tested, event = AllWays(text), T(*values[:6], ts=1, id=0, source="s")
    try:
        expected: bool | None = bool(tested.holds(event))
    except TypeError:
        expected = None
    assert tested.row(event) in (None, expected)


def test_no_events() -> None:
    assert AllWays("x > 2").flags(Block(T, Block.from_events(T, [row(0)]).batch.slice(1))) == []
