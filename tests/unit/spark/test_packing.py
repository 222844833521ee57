"""Columns packed into rows decode as the same values; runs of identities name just those that are there."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from middleware.spark.feed.packing import LONGEST_TEXT, Words, column_of, packed, part_of, words_of
from middleware.spark.feed.rows import identity_runs

INT64 = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-300, 300), st.integers(-(2**33), 2**33))
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)

COLUMNS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): INT64,
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.int8(): st.integers(-128, 127),
    pa.float64(): st.floats(allow_nan=False),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.bool_(): st.booleans(),
    pa.string(): TEXT,
    pa.dictionary(pa.int32(), pa.string()): TEXT,
    pa.list_(pa.int64()): st.lists(INT64, max_size=3),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    rows = draw(st.integers(1, 20))
    kinds = draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=18))
    nullable = draw(st.sampled_from([False, False, True]))
    columns = []
    for kind in kinds:
        values = st.one_of(st.none(), COLUMNS[kind]) if nullable else COLUMNS[kind]
        columns.append(pa.array(draw(st.lists(values, min_size=rows, max_size=rows)), kind))
    return pa.table(columns, [f"c{number}" for number in range(len(kinds))])


@given(tables(), st.data())
def test_packed_columns_decode_as_their_rows(table: pa.Table, data: st.DataObject) -> None:
    columns = [column_of(column.combine_chunks()) for column in table.columns]
    end = data.draw(st.integers(1, table.num_rows))
    start = data.draw(st.integers(0, end - 1))
    block = packed([part_of(column, start, end) for column in columns], end - start)
    assert msgspec.msgpack.decode(block) == [list(row.values()) for row in table.slice(start, end - start).to_pylist()]


@given(st.lists(TEXT, min_size=1, max_size=30))
def test_texts_of_any_length_are_kept(texts: list[str]) -> None:
    texts = [*texts, "\0", "ends in \0", "", "x" * (LONGEST_TEXT + 50)]
    words = words_of(pa.array(texts).dictionary_encode())
    assert isinstance(words, Words)
    assert msgspec.msgpack.decode(packed([words, np.zeros(len(texts), np.uint8)], len(texts))) == [[text, 0] for text in texts]


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(-20, 40)), min_size=1, max_size=60),
    st.sampled_from([0, 2**61]),
)
def test_runs_name_each_identity_once_or_not_at_all(identities: list[tuple[str, int]], far: int) -> None:
    identities = [(source, number + far * (source == "c")) for source, number in identities]
    words = words_of(pa.array([source for source, _ in identities]).dictionary_encode())
    runs = identity_runs(words.codes, np.array([number for _, number in identities]), words.names)
    if runs is None:
        assert far or len(set(identities)) < len(identities)
        return
    named = [(source, number) for source, first, last in runs for number in range(first, last + 1)]
    assert sorted(named) == sorted(identities)
    assert all(one[0] != other[0] or one[2] + 1 < other[1] for one, other in zip(sorted(runs), sorted(runs)[1:], strict=False))
