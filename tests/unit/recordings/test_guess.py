"""What the columns of a file without a mapping are taken for."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from slackline import Detector, Event, run
from typer.testing import CliRunner

from middleware.cli.main import application
from middleware.cli.queries.inputs import FileInput
from middleware.model.errors import TraceError
from middleware.recordings.files.guess import guessed, kinds_of, mapping_of


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", "-2", " 3 "], "int"),
        (["1234567890123456788", "1234567890123456789"], "int"),  # as floats they would be one
        (["9223372036854775807", "-9223372036854775808"], "int"),
        (["9223372036854775808", "1"], "str"),
        (["1" * 5_000], "str"),
        (["007", "7"], "str"),
        (["0", "10"], "int"),
        (["0.5", "00.5", "1e3"], "float"),
        (["1", "2.5"], "float"),
        (["1"] * 19 + ["n/a"], "int"),
        (["true", "False"], "bool"),
        (["", "x"], "str"),
    ],
)
def test_numbers_are_what_stays_different_as_numbers(texts: list[str], kind: str) -> None:
    assert kinds_of(pa.table({"x": texts})) == {"x": kind}


def test_what_an_expression_computes_with_is_a_number_however_it_is_written() -> None:
    table = pa.table({"hour": ["08", "09"], "far": ["9223372036854775808", "1"]})
    assert kinds_of(table, as_numbers=True) == {"hour": "int", "far": "float"}


def test_whole_decimals_are_whole_numbers() -> None:
    table = pa.table(
        {"id": pa.array([Decimal(2**60), Decimal(2**60 + 1)], pa.decimal128(20, 0)), "x": pa.array([Decimal("1.5")] * 2)}
    )
    assert kinds_of(table) == {"id": "int", "x": "float"}
    large = pa.table({"id": pa.array([Decimal(10**20)], pa.decimal128(38, 0)), "n": pa.array([2**64 - 1], pa.uint64())})
    assert kinds_of(large) == {"id": "str", "n": "str"} and kinds_of(large, as_numbers=True) == {"id": "float", "n": "float"}


def test_times_with_leading_zeros_are_times(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"time": ["0001700000000", "0001700000001"], "code": ["007", "7"]}), file)
    mapping = guessed(file)
    assert mapping.ts.unit == "s" and mapping.fields["code"].type == "str"


def test_files_are_known_by_their_paths_whatever_their_names(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("t[1].csv", "one/t.csv", "two/t.csv")]
    for number, file in enumerate(files):
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"ts,x\n170000000{number}000000000,{number}\n")
    assert [event.x for event in FileInput(files[:1]).events()] == [0]  # type: ignore[attr-defined]
    assert [event.x for event in FileInput(files[1:]).events()] == [1, 2]  # type: ignore[attr-defined]


def test_a_mapping_that_was_written_for_a_file_can_be_read(tmp_path: Path) -> None:
    file, mapping = tmp_path / "r.csv", tmp_path / "m.toml"
    file.write_text("ts,température,x\n1700000001000000000,1,2\n")
    assert CliRunner().invoke(application(), ["schema", str(file), "--out", str(mapping)]).exit_code == 0
    assert 'x = { column = "x", type = "int" }' in mapping.read_text()
    (event,) = FileInput([file], mapping).events()
    assert (event.température, event.x) == (1, 2)  # type: ignore[attr-defined]


def test_a_head_that_is_one_cell_names_the_delimiter(tmp_path: Path) -> None:
    file = tmp_path / "semi.csv"
    file.write_text("time;tag;x\n2024-05-13T08:00:00,250;1;5\n")
    with pytest.raises(TraceError, match="its head is one cell, time;tag;x: if ';' parts the cells"):
        guessed(file)


def test_times_that_are_all_zero_are_those_of_events() -> None:
    table = pa.table({"ts": [0, 0], "x": [1.0, 2.0]})
    assert mapping_of(table, "Reading", "the table").ts.unit == "ns"


NOON = pa.array([1_700_000_000 * 10**9], pa.timestamp("ns"))


@pytest.mark.parametrize(
    ("columns", "chosen"),
    [
        (("received", "ts"), "ts"),
        (("received", "Time"), "Time"),
        (("received", "event_time"), "event_time"),
        (("created",), "created"),
        (("date",), "date"),
    ],
)
def test_a_name_or_being_the_only_one_makes_a_column_of_dates_the_event_time(columns: tuple[str, ...], chosen: str) -> None:
    assert mapping_of(pa.table(dict.fromkeys(columns, NOON)), "Order", "the table").ts.column == chosen


@pytest.mark.parametrize("columns", [("created", "received"), ("date", "due"), ("due", "date"), ("due", "shipped", "t")])
def test_of_several_columns_of_dates_none_is_guessed(columns: tuple[str, ...]) -> None:
    table = pa.table(dict.fromkeys(columns, NOON))
    with pytest.raises(TraceError, match=r"the table: .* hold times, and none is named ts or time: rename") as found:
        mapping_of(table, "Order", "the table")
    assert all(name in str(found.value) for name in columns)


def test_a_frame_with_several_columns_of_dates_is_asked_about(tmp_path: Path) -> None:
    class Order(Event):
        item: str

    class Orders(Detector):
        subscribes, publishes = (Order,), ()

        def on_event(self, event: Order) -> None:
            return None

    table = pa.table({"item": ["cup"], "created": NOON, "received": NOON})
    pq.write_table(table, tmp_path / "orders.parquet")
    for source in (table, table.to_pandas(), pl.from_arrow(table), tmp_path / "orders.parquet"):
        with pytest.raises(TraceError, match="created, received hold times"):
            run(source, [Orders()])
    assert run(table.rename_columns(["item", "ts", "received"]), [Orders()]).events == 1
