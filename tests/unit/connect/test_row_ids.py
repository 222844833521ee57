"""Ids of events whose recording gives none, against the definition."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from middleware.connect.files.recording import InOrder

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
    ids = InOrder().table(table)["id"].to_pylist()
    for (position, source, ts), number in zip(shuffled, ids, strict=True):
        assert number == sum(own == source and (at, place) < (ts, position) for place, own, at in shuffled)
