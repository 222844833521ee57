"""Ids of events whose recording gives none, against the definition."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from middleware.model.errors import TraceError
from middleware.recordings.files.recording import NumberingByTime

ROWS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-3, 3)), min_size=1, max_size=30)


@given(rows=ROWS, data=st.data())
def test_ids_count_the_events_of_a_source_in_order_of_time_then_of_the_recording(rows, data) -> None:
    order = data.draw(st.permutations(range(len(rows))))
    shuffled = [(position, *rows[position]) for position in order]
    table = pa.table(
        {
            "_position": pa.array([position for position, _, _ in shuffled], pa.int64()),
            "source": [source for _, source, _ in shuffled],
            "ts": pa.array([ts for _, _, ts in shuffled], pa.int64()),
        }
    )
    ids = NumberingByTime().tables({"x.A": table})["x.A"]["id"].to_pylist()
    for (position, source, ts), number in zip(shuffled, ids, strict=True):
        assert number == sum(own == source and (at, place) < (ts, position) for place, own, at in shuffled)


def table_of(rows: list[tuple[str, int]]) -> pa.Table:
    sources, times = zip(*rows, strict=True)
    return pa.table({"_position": list(range(len(rows))), "source": list(sources), "ts": pa.array(times, pa.int64())})


@given(st.dictionaries(st.sampled_from("XYZ"), ROWS, min_size=1))
def test_no_two_events_of_a_source_have_one_id_whatever_their_types(rows) -> None:
    tables = {name: table_of(own) for name, own in rows.items()}
    numbered = NumberingByTime().tables(tables)
    assert list(numbered) == list(tables)
    ids: dict[str, list[int]] = {}
    for name in sorted(numbered):
        for source, number in zip(*(numbered[name][column].to_pylist() for column in ("source", "id")), strict=True):
            ids.setdefault(source, []).append(number)
    assert all(sorted(own) == list(range(len(own))) for own in ids.values())
    assert all(table.drop_columns("id").equals(tables[name]) for name, table in numbered.items())


def test_types_that_have_ids_keep_them() -> None:
    bare, own = table_of([("a", 1), ("a", 2)]), table_of([("a", 1)]).append_column("id", [[7]])
    numbered = NumberingByTime().tables({"Own": own, "Bare": bare})
    assert (numbered["Own"]["id"].to_pylist(), numbered["Bare"]["id"].to_pylist()) == ([7], [8, 9])


def test_ids_that_have_no_number_behind_them_are_reported() -> None:
    bare, own = table_of([("a", 1), ("a", 2)]), table_of([("a", 1)]).append_column("id", [[2**63 - 2]])
    with pytest.raises(TraceError, match="no ids are left behind those that events of 'a' have"):
        NumberingByTime().tables({"Own": own, "Bare": bare})
