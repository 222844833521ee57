"""Windows over Arrow and Parquet give what the operator gives for the same events."""

from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from detectors.window import COUNT, GEOMEAN, MEAN, SUM, Hopping, Session, Tumbling, Windows
from middleware import Delta, Event, native
from middleware.model.errors import WindowError
from middleware.model.event import END

pytestmark = pytest.mark.skipif(not native.AVAILABLE, reason="the native core is not built")


class Reading(Event):
    sensor: int
    place: str
    value: float
    count: int


VALUES = {"n": COUNT, "mean": (MEAN, "value"), "sum": (SUM, "count")}


def readings(number: int, lateness: int) -> list[Reading]:
    random = Random(number)
    events = [Reading(random.randrange(3), random.choice("ab"), random.random(), n, ts=5 * n, id=n) for n in range(number)]
    return sorted(events, key=lambda event: event.ts + random.randrange(lateness))


def table_of(events: list[Reading]) -> pa.Table:
    fields = ("ts", "sensor", "place", "value", "count")
    return pa.table({field: [getattr(event, field) for event in events] for field in fields})


@pytest.mark.parametrize("key", [(), "sensor", "place", ("sensor", "place")], ids=str)
@pytest.mark.parametrize("emit", ["close", "final"])
def test_parquet_gives_what_events_give(key, emit, tmp_path):
    from detectors.window.tables import TableWindows

    events = readings(500, 60)
    plan = Windows(Reading, Hopping((40, 100), 20), VALUES, key=key, emit=emit)
    pq.write_table(table_of(events), tmp_path / "readings.parquet")
    windows = TableWindows(plan, lateness=60)
    tables = list(windows.run(pq.ParquetFile(tmp_path / "readings.parquet").iter_batches(37)))
    expected = plan.start("w", 1).apply(Delta(events), END, END).inserts
    fields = plan.result.__struct_fields__[:-3]
    found = [tuple(row[field] for field in fields) for table in tables for row in table.to_pylist()]
    assert sorted(found, key=repr) == sorted([tuple(getattr(each, field) for field in fields) for each in expected], key=repr)
    assert windows.late == 0 and sum(len(table) > 0 for table in tables) > 5


def test_late_rows_are_counted():
    from detectors.window.tables import TableWindows

    windows = TableWindows(Windows(Reading, Tumbling(10), VALUES), lateness=5)
    (batch,) = table_of([Reading(1, "a", 1.0, 1, ts=100)]).to_batches()
    assert len(windows.push(batch)) == 0
    (batch,) = table_of([Reading(1, "a", 1.0, 1, ts=ts) for ts in (95, 96, 101)]).to_batches()
    windows.push(batch)
    assert windows.late == 1
    assert windows.finish()["n"].to_pylist() == [2, 1]


def test_what_needs_events_is_refused():
    from detectors.window.tables import TableWindows

    for plan in (Windows(Reading, Session(5), VALUES), Windows(Reading, Tumbling(5), {"v": (GEOMEAN, "value")})):
        with pytest.raises(WindowError, match="hopping and tumbling"):
            TableWindows(plan, lateness=5)


def test_tables_have_the_same_columns_whatever_is_in_them_and_keys_as_they_were():
    from detectors.window.tables import TableWindows

    class Keyed(Event):
        flag: bool
        name: str
        number: float
        value: int

    columns = {"flag": [True, False, True, True], "name": ["x", "y", "x", None], "number": [1.0, 2.5, -0.0, 0.0]}
    table = pa.table({"ts": [1, 2, 3, 12], **columns, "value": [2**62, 1, 2**62, 5]})
    for key, values in columns.items():
        windows = TableWindows(Windows(Keyed, Tumbling(10), {"n": COUNT}, key=key), lateness=5)
        found = pa.concat_tables(windows.run(table.to_batches(1)))  # the first have no rows
        assert found.schema.field(key).type == table.schema.field(key).type
        shown = {repr(value) for value in found.column(key).to_pylist()}
        assert shown == {repr(0.0 if value == 0 and key == "number" else value) for value in values}
    windows = TableWindows(Windows(Keyed, Tumbling(10), {"sum": (SUM, "value")}), lateness=5)
    assert [row["sum"] for row in pa.concat_tables(windows.run(table.to_batches(2))).to_pylist()] == [5]
    assert windows.overflows == 1
