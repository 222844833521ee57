"""Events of a recording in order of arrival, with nothing left to the way of sorting."""

from __future__ import annotations

import random

import pyarrow as pa

from middleware.recordings.files.recording_reading import sorted_by_arrival


def test_events_that_clash_stay_in_the_order_of_the_recording_however_the_table_is_sorted() -> None:
    rows = [
        {"arrival": at // 20, "ts": at // 10, "id": at // 5, "source": "ab"[at // 4 % 2], "_position": at} for at in range(40)
    ]
    shuffled = random.Random(3).sample(rows, len(rows))
    ordered = sorted_by_arrival(pa.Table.from_pylist(shuffled), by_position=False).to_pylist()
    assert ordered == sorted(rows, key=lambda row: tuple(row[name] for name in ("arrival", "ts", "source", "id", "_position")))
    assert sorted_by_arrival(pa.Table.from_pylist(shuffled), by_position=True).to_pylist() == rows
