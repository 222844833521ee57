"""Arrays and texts as columns of Arrow are what Arrow itself makes of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from middleware.model.block.arrays import scalar, text_column, to_array, to_column


@given(st.lists(st.none() | st.text(st.characters(codec="utf-8"), max_size=5), max_size=40))
def test_texts(texts: list[str | None]) -> None:
    column = text_column(texts)
    column.validate(full=True)
    assert column.equals(pa.array(texts, pa.string()))


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5), max_size=4), st.integers(0, 3))
def test_columns_in_parts_are_one_array(parts: list[list[int]], start: int) -> None:
    column = pa.chunked_array([pa.array(part, pa.int64()) for part in parts], pa.int64())
    assert to_array(column.slice(start)).tolist() == column.slice(start).to_pylist()
    assert to_column(np.array(column.to_pylist(), np.int64)).equals(column.combine_chunks())


@pytest.mark.parametrize("value", ["", "é", 7, -(2**63), 0.1, True])
def test_scalars(value: str | float) -> None:
    assert scalar(value).equals(pa.scalar(value))
