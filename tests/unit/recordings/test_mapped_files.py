"""What a mapping can say: formats, several types, constants, names of files, expressions, dates and zones."""

from __future__ import annotations

import bz2
import json
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from middleware.model.errors import TraceError
from middleware.model.event import Event
from middleware.recordings.files.following import Follower
from middleware.recordings.files.formats import head
from middleware.recordings.files.guess import guessed
from middleware.recordings.files.mapped import mapped_recording
from middleware.recordings.files.mapping import mappings_of
from middleware.recordings.files.text import BLOCK_BYTES, MAX_LINE_BYTES
from tests.unit.recordings.test_readers import rows_of

ROWS = [{"t": 1_700_000_000_000 + n, "who": "ab"[n % 2], "value": n / 4, "on": n % 3 == 0} for n in range(5)]
ROWS_MAPPING = {
    "type": "Reading",
    "ts": {"column": "t", "unit": "ms"},
    "source": {"column": "who"},
    "fields": {"value": {"column": "value", "type": "float"}, "on": {"column": "on", "type": "bool"}},
}


def read(files: list[Path], mapping: dict) -> tuple[dict, list]:
    return rows_of(mapped_recording(files, mappings_of(mapping)))


def written(folder: Path, kind: str) -> Path:
    file = folder / f"rows.{kind}"
    table = pa.Table.from_pylist(ROWS)
    if kind == "parquet":
        pq.write_table(table, file)
    elif kind in ("arrow", "ipc"):
        make = pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream
        with make(str(file), table.schema) as writer:
            writer.write_table(table)
    elif kind.startswith("jsonl"):
        lines = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
        file.write_bytes(bz2.compress(lines) if kind.endswith("bz2") else lines)
    else:
        file.write_text(
            "t,who,value,on\n" + "".join(f"{r['t']},{r['who']},{r['value']},{str(r['on']).lower()}\n" for r in ROWS)
        )
    return file


@pytest.mark.parametrize("kind", ["csv", "jsonl", "jsonl.bz2", "parquet", "arrow", "ipc"])
def test_all_formats_give_the_same_events(tmp_path: Path, kind: str) -> None:
    found, bad = read([written(tmp_path, kind)], ROWS_MAPPING)
    assert bad == []
    assert [(row["ts"], row["source"], row["value"], row["on"]) for row in found["Reading"]] == [
        (row["t"] * 10**6, row["who"], row["value"], row["on"]) for row in ROWS
    ]


def test_broken_lines_of_json_are_named_and_cost_only_themselves(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    good = '{"t": %d, "who": "a", "value": 1.5, "on": false}\n'
    file.write_text(
        good % 1 + "[1]\n" + good % 2 + '{"t": 3, "who": "a", "value": 1\n' + '{"t": 4, "who": "a", "on": true}\n' + good % 5
    )
    found, bad = read([file], ROWS_MAPPING)
    assert [row["ts"] for row in found["Reading"]] == [10**6, 2 * 10**6, 5 * 10**6]
    assert [line for line, _ in bad] == [1, 3, 4]
    assert [reason.split(":")[0] for _, reason in bad] == ["no JSON object", "no JSON", "value is missing"]


@pytest.mark.parametrize("unit", ["s", "ps", "iso"])
def test_a_line_without_a_time_is_broken_alone(tmp_path: Path, unit: str) -> None:
    file = tmp_path / "rows.jsonl"
    time = '"2024-01-01"' if unit == "iso" else 1
    file.write_text(f'{{"t": {time}, "x": 1}}\n{{"x": 2}}\n{{"t": null, "x": 3}}\n{{"t": {time}, "x": 4}}\n')
    mapping = {
        "type": "Tag",
        "ts": {"column": "t", "unit": unit},
        "source": {"value": "tags"},
        "fields": {"x": {"column": "x", "type": "int"}},
    }
    found, bad = read([file], mapping)
    assert [row["x"] for row in found["Tag"]] == [1, 4]
    assert bad == [(1, "column t: is missing"), (2, "column t: is missing")]


def test_times_in_json_are_exact_and_values_may_stand_in_objects(tmp_path: Path) -> None:
    file = tmp_path / "tags.jsonl"
    file.write_text('{"time": 1700000000.123456789, "tag": {"id": "A7", "position": {"x": 1.5}}}\n')
    mapping = {
        "type": "Tag",
        "ts": {"column": "time", "unit": "s"},
        "source": {"column": "tag.id", "prefix": "uwb-"},
        "fields": {"x": {"column": "tag.position.x", "type": "float"}},
    }
    (row,) = read([file], mapping)[0]["Tag"]
    assert (row["ts"], row["source"], row["x"]) == (1_700_000_000_123_456_789, "uwb-A7", 1.5)


def test_several_files_become_several_types(tmp_path: Path) -> None:
    (tmp_path / "trades-ibm.csv").write_text("t,price\n1,10\n3,x\n2,11\n" + "3,12\n" * 20)
    (tmp_path / "trades-sap.csv").write_text("price,t\n99,1\n")
    (tmp_path / "news.jsonl").write_text('{"t": 2, "text": "up"}\n')
    trades = {
        "type": "Trade",
        "files": ["trades-*.csv"],
        "ts": {"column": "t", "unit": "s"},
        "source": {"file": "trades-(.*)[.]csv"},
        "fields": {
            "symbol": {"file": "trades-(.*)[.]csv", "type": "str"},
            "price": {"column": "price", "type": "float"},
            "cents": {"expression": "price * 100 + 1", "type": "int"},
            "venue": {"value": "XETRA", "type": "str"},
        },
    }
    news = {
        "type": "News",
        "files": ["news.jsonl"],
        "ts": {"column": "t", "unit": "s"},
        "source": {"value": "wire"},
        "fields": {"text": {"column": "text", "type": "str"}},
    }
    files = [tmp_path / name for name in ("trades-ibm.csv", "news.jsonl", "trades-sap.csv")]
    recording = mapped_recording(files, mappings_of({"events": [trades, news]}))
    found, bad = rows_of(recording)
    assert [
        (row["source"], row["ts"], row["symbol"], row["cents"], row["venue"]) for row in found["Trade"] if row["ts"] < 3 * 10**9
    ] == [
        ("ibm", 10**9, "ibm", 1001, "XETRA"),
        ("ibm", 2 * 10**9, "ibm", 1101, "XETRA"),
        ("sap", 10**9, "sap", 9901, "XETRA"),
    ]
    assert [row["text"] for row in found["News"]] == ["up"]
    assert [reason.split(":")[0] for _, reason in bad] == ["price (column price)"]
    positions = [row["_position"] for row in found["Trade"]]
    assert len(set(positions)) == len(positions)
    (tmp_path / "other.csv").write_text("t\n1\n")
    with pytest.raises(TraceError, match=r"other\.csv: no mapping is for it"):
        mapped_recording([*files, tmp_path / "other.csv"], mappings_of({"events": [trades, news]}))
    with pytest.raises(TraceError, match="there is no file for News"):
        mapped_recording(files[:1], mappings_of({"events": [trades, news]}))


@pytest.mark.parametrize(
    ("time", "text", "expected"),
    [
        ({"format": "%d.%m.%Y %H:%M:%S"}, "24.12.2023 18:30:00", "2023-12-24T18:30Z"),
        ({"format": "%d.%m.%Y %H:%M:%S", "zone": "Europe/Berlin"}, "24.12.2023 18:30:00", "2023-12-24T17:30Z"),
        ({"format": "%m/%d/%Y %I:%M:%S.%f %p"}, "07/04/2023 01:00:00.250 PM", "2023-07-04T13:00:00.250Z"),
        ({"format": "%H:%M:%S.%f %d/%m/%y", "zone": "Asia/Tokyo"}, "09:00:00.5 02/01/24", "2024-01-02T00:00:00.500Z"),
        ({"format": "%Y%m%dT%H%M%S%z"}, "20240101T000000+0200", "2023-12-31T22:00Z"),
        ({"zone": "Europe/Berlin"}, "2023-07-01 12:00:00", "2023-07-01T10:00Z"),
        ({"zone": "Europe/Berlin"}, "2023-07-01T12:00:00Z", "2023-07-01T12:00Z"),
    ],
)
def test_dates_in_usual_formats_and_zones(tmp_path: Path, time: dict, text: str, expected: str) -> None:
    file = tmp_path / "dates.csv"
    file.write_text(f"t\n{text}\n")
    found, bad = read([file], {"type": "A", "ts": {"column": "t", **time}, "source": {"value": "x"}, "fields": {}})
    assert bad == []
    assert [row["ts"] for row in found["A"]] == [round(datetime.fromisoformat(expected).timestamp() * 1_000) * 10**6]


@pytest.mark.parametrize("time", [{}, {"format": "%Y-%m-%d %H:%M:%S"}, {"format": "%Y-%m-%d %H:%M:%S.%f"}])
def test_a_time_that_is_two_moments_or_none_is_a_broken_line(tmp_path: Path, time: dict) -> None:
    end = ".0" if "%f" in time.get("format", "") else ""
    file = tmp_path / "dates.csv"
    file.write_text(f"t\n2023-10-29 02:30:00{end}\n2023-03-26 02:30:00{end}\n2023-10-29 04:00:00{end}\n")
    mapping = {"type": "A", "ts": {"column": "t", "zone": "Europe/Berlin", **time}, "source": {"value": "x"}, "fields": {}}
    found, bad = read([file], mapping)
    assert (len(found["A"]), [line for line, _ in bad]) == (1, [0, 1])


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"ts": {"column": "t", "zone": "Europe/Berln"}}, "there is no time zone 'Europe/Berln'"),
        ({"ts": {"column": "t", "unit": "s", "format": "%Y"}}, "not both"),
        ({"source": {}}, "source: give one of column, value and file"),
        ({"source": {"file": "no-group"}}, "one group"),
        ({"fields": {"x": {"type": "int"}}}, "fields.x: give one of"),
        ({"fields": {"x": {"type": "int", "value": "three"}}}, "'three' is no int"),
        ({"fields": {"x": {"type": "int", "value": True}}}, "True is no int"),
    ],
)
def test_a_mapping_that_makes_no_sense_is_reported(change: dict, complaint: str) -> None:
    with pytest.raises(TraceError, match=complaint):
        mappings_of({**ROWS_MAPPING, **change})


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [("price +", "unexpected the end"), ("prize * 2", "unknown attribute 'prize'; did you mean 'price'"), ("who * 2", "")],
)
def test_an_expression_that_makes_no_sense_is_reported_before_anything_is_read(
    tmp_path: Path, expression: str, complaint: str
) -> None:
    (tmp_path / "a.csv").write_text("t,who,price\n1,a,2\n")
    mapping = {**ROWS_MAPPING, "fields": {"x": {"expression": expression, "type": "float"}}}
    with pytest.raises(TraceError, match=rf"fields\.x: expression: .*{complaint}"):
        mapped_recording([tmp_path / "a.csv"], mappings_of(mapping))


NUMBERS = {
    "type": "A",
    "ts": {"column": "t", "unit": "ns"},
    "source": {"value": "s"},
    "fields": {"note": {"column": "note", "type": "str"}, "x": {"column": "x", "type": "int"}},
}


def test_broken_lines_among_the_first_are_named_and_cost_only_themselves(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"t,note,x\n1,a,1\n2,b\r,2\n3," + b"q" * 140_000 + b",3\n4,d,4\n")
    found, bad = read([file], NUMBERS)
    assert [row["x"] for row in found["A"]] == [1, 3, 4]
    assert [line for line, _ in bad] == [1]
    assert head(file)["x"].to_pylist() == ["1", "4"]


def test_a_file_whose_lines_end_in_carriage_returns_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"t,note,x\r1,a,1\r2,b,2\r")
    for reading in (lambda: read([file], NUMBERS), lambda: guessed(file)):
        with pytest.raises(TraceError, match=r"a\.csv: its first line cannot be read as CSV: it holds a carriage return"):
            reading()


@pytest.mark.parametrize("kind", ["parquet", "arrow", "ipc"])
def test_columns_are_known_without_rows_and_of_two_of_one_name_neither_is_taken(tmp_path: Path, kind: str) -> None:
    def stored(table: pa.Table) -> Path:
        file = tmp_path / f"a.{kind}"
        if kind == "parquet":
            pq.write_table(table, file)
        else:
            with (pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream)(str(file), table.schema) as writer:
                writer.write_table(table)
        return file

    empty = stored(pa.table({"t": pa.array([], pa.int64()), "note": pa.array([], pa.string()), "x": pa.array([], pa.int64())}))
    assert read([empty], NUMBERS) == ({}, [])
    double = stored(pa.table([[1, 2], ["a", "b"], [3, 4], [5, 6]], names=["t", "note", "x", "x"]))
    for reading in (lambda: read([double], NUMBERS), lambda: guessed(double)):
        with pytest.raises(TraceError, match="has two columns of the same name: t, note, x, x"):
            reading()


def test_a_byte_order_mark_costs_no_line_of_json(tmp_path: Path) -> None:
    class A(Event):
        note: str
        x: int

    file = tmp_path / "a.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + b"".join(b'{"t": %d, "note": "a", "x": %d}\n' % (at, at) for at in (1, 2)))
    found, bad = read([file], NUMBERS)
    assert (bad, [row["x"] for row in found["A"]]) == ([], [1, 2])
    (mapping,) = mappings_of(NUMBERS)
    with closing(Follower(file, mapping, A)) as follower:
        assert ([event.x for event in follower.take()], follower.bad) == ([1, 2], [])
    file.write_bytes(file.read_bytes().splitlines(keepends=True)[0])
    assert head(file).to_pylist() == [{"t": "1", "note": "a", "x": "1"}]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_text_in_utf_16_is_reported_with_what_to_do(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"a.{kind}"
    file.write_text("t,note,x\n1,a,1\n" if kind == "csv" else '{"t": 1, "note": "a", "x": 1}\n', encoding="utf-16")
    with pytest.raises(TraceError, match=r"is in UTF-16, not UTF-8: iconv"):
        read([file], NUMBERS)


class Row(Event):
    note: str
    x: int


HEADER = b"t,note,x\n"


@pytest.fixture
def growing(tmp_path: Path) -> Iterator[tuple[Path, Follower]]:
    """A CSV file with two rows, and who follows it, and has them."""
    file = tmp_path / "a.csv"
    file.write_bytes(HEADER + b"1,a,1\n2,a,2\n")
    (mapping,) = mappings_of(NUMBERS)
    with closing(Follower(file, mapping, Row)) as follower:
        assert taken(follower) == [1, 2]
        yield file, follower


def taken(follower: Follower) -> list[int]:
    return [event.x for event in follower.take()]  # type: ignore[attr-defined]


def grow(file: Path, text: bytes) -> None:
    with file.open("ab") as end:
        end.write(text)


def test_a_file_that_is_replaced_is_read_to_its_end_before_the_next(growing: tuple[Path, Follower]) -> None:
    """Logs are rotated: what came into the old one since the last look would be lost."""
    file, follower = growing
    grow(file, b"3,a,3\n4,a,4")
    file.rename(file.with_name("a.csv.1"))
    assert taken(follower) == [3]
    assert taken(follower) == [], "there is no file yet"
    file.write_bytes(b"t,no")
    assert taken(follower) == [4], "no more comes into the old one, so its last line is whole"
    assert taken(follower) == [], "its header is not whole yet"
    file.write_bytes(HEADER + b"5,a,5\n")
    assert (taken(follower), follower.bad) == ([5], [])


def test_a_file_that_is_cut_short_is_read_anew(growing: tuple[Path, Follower]) -> None:
    file, follower = growing
    file.write_bytes(HEADER)
    assert taken(follower) == []
    grow(file, b"3,a,3\n")
    assert (taken(follower), follower.bad) == ([3], [])


def test_a_file_with_other_columns_in_its_place_is_refused(growing: tuple[Path, Follower]) -> None:
    """Its values would come under the names of the others."""
    file, follower = growing
    file.write_bytes(b"t,x,note\n")
    with pytest.raises(TraceError, match=r"a.csv has other columns than the file that it replaces"):
        follower.take()


@pytest.mark.parametrize("at_once", [True, False])
def test_a_growing_file_may_have_long_lines_and_one_that_is_too_long_costs_only_itself(tmp_path: Path, at_once: bool) -> None:
    class A(Event):
        note: str
        x: int

    file, (mapping,) = tmp_path / "a.jsonl", mappings_of(NUMBERS)
    file.touch()
    follower, found = Follower(file, mapping, A), list[Event]()
    lengths = [1, 3 * BLOCK_BYTES, MAX_LINE_BYTES + BLOCK_BYTES // 2, 1, MAX_LINE_BYTES, 1]
    whole = b"".join(b'{"t": %d, "x": %d, "note": "%s"}\n' % (at, at, b"a" * count) for at, count in enumerate(lengths))
    step = len(whole) if at_once else 5 * BLOCK_BYTES
    for start in range(0, len(whole), step):
        with file.open("ab") as grown:
            grown.write(whole[start : start + step])
        found += follower.take()
    while more := follower.take() or follower.take():
        found += more
    assert [(event.x, len(event.note)) for event in found] == [(at, lengths[at]) for at in (0, 1, 3, 5)]
    assert [(each.line, each.reason) for each in follower.bad] == [
        (line, f"a line of more than {MAX_LINE_BYTES:,} bytes") for line in (3, 5)
    ]
