"""``slackline query`` and ``slackline sql`` over files, what they say of them, and results as files of all kinds."""

from __future__ import annotations

import csv
import json
import sqlite3
import subprocess
import sys
import uuid
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from slackline import Event, SlacklineError
from typer.testing import CliRunner

from middleware.cli.main import application
from middleware.cli.queries.inputs import FileInput
from middleware.cli.result_files import FinalsFile, write_results
from middleware.model.errors import TraceError
from middleware.model.event import EventTypes
from middleware.recordings.files.mapped import mapped_recording
from middleware.recordings.schemas.types import event_type
from middleware.recordings.traces import read_trace
from middleware.spark.prepare.prepare import prepare

CSV = """time,station,temp (C),note
2023-11-14T22:13:20Z,7,10.5,dry
2023-11-14T22:13:21Z,8,15,"wet, cold"
2023-11-14T22:13:22Z,7,20,dry
2023-11-14T22:13:23Z,8,not known,dry
2023-11-14T22:13:24Z,8,30,dry
2023-11-14T22:13:25Z,8,31,
2023-11-14T22:13:26Z,8,31,dry
2023-11-14T22:13:27Z,8,31,dry
2023-11-14T22:13:28Z,8,31,dry
2023-11-14T22:13:29Z,8,31,dry
"""
RISES = (
    "EVENT SEQ(readings a, readings b) WHERE [station] AND b.temp_C > a.temp_C + 5 WITHIN 3 seconds "
    "RETURN Rise(b.temp_C AS top)"
)


@pytest.fixture
def readings(tmp_path: Path) -> Path:
    file = tmp_path / "readings.csv"
    file.write_text(CSV + "".join(f"2023-11-14T22:13:{second}Z,9,0,dry\n" for second in range(30, 36)))
    return file


def slackline(*arguments: object) -> str:
    printed = CliRunner().invoke(application(), list(map(str, arguments)))
    assert printed.exit_code == 0, printed.output
    return " ".join(printed.output.split())


def rows(file: Path) -> list[dict[str, object]]:
    if file.suffix == ".csv":
        return list(csv.DictReader(file.open(newline="")))
    if file.suffix == ".jsonl":
        return list(map(json.loads, file.read_text().splitlines()))
    if file.suffix == ".sqlite":
        return [json.loads(record) for (record,) in sqlite3.connect(file).execute("SELECT record FROM finals ORDER BY ts")]
    if file.suffix == ".duckdb":
        with duckdb.connect(str(file), read_only=True) as database:
            return in_nanoseconds(database.execute('SELECT * FROM "Rise" ORDER BY ts').to_arrow_table())
    return in_nanoseconds(pq.read_table(file) if file.suffix == ".parquet" else pa.ipc.open_file(str(file)).read_all())


def in_nanoseconds(table: pa.Table) -> list[dict[str, object]]:
    at = table.column_names.index("ts")
    return table.set_column(at, "ts", table["ts"].cast(pa.int64())).to_pylist()


@pytest.mark.parametrize("kind", ["csv", "jsonl", "sqlite", "duckdb", "parquet", "arrow"])
def test_a_query_of_a_csv_file_and_its_results(tmp_path: Path, readings: Path, kind: str) -> None:
    out = tmp_path / f"rises.{kind}"
    for _ in range(2):  # a file that is there is replaced
        printed = slackline("query", RISES, readings, "--results", out)
    assert "readings (station int, temp_C float, note str): time from time (iso), source readings" in printed
    assert f"skipped 1 broken line {readings}:5: temp_C (column temp (C))" in printed
    found = [(float(str(row["top"])), int(str(row["ts"]))) for row in rows(out)]
    assert found == [(20.0, 1_700_000_002 * 10**9), (30.0, 1_700_000_004 * 10**9)]


def test_results_can_be_queried_in_turn(tmp_path: Path, readings: Path) -> None:
    slackline("query", RISES, readings, "--results", tmp_path / "rises.parquet")
    printed = slackline("query", "EVENT rises r WHERE r.top > 25", tmp_path / "rises.parquet")
    assert "1 final" in printed


def test_sql_over_files(tmp_path: Path, readings: Path) -> None:
    (tmp_path / "doors.jsonl").write_text('{"time": 1700000004.5, "open": true}\n')
    query = "SELECT temp_C FROM readings WHERE temp_C > 15 AND station = 8"
    printed = slackline("sql", "--from", readings, "-e", query, "--final", "--results", tmp_path / "hot.parquet")
    assert "skipped 1 broken line" in printed
    assert [row["temp_C"] for row in rows(tmp_path / "hot.parquet")] == [30.0, *[31.0] * 5]
    both = "SELECT open FROM doors WHERE open"
    printed = slackline("sql", "--from", readings, "--from", tmp_path / "doors.jsonl", "-e", both)
    assert "doors (open bool): time from time (s)" in printed
    assert "1 final" in printed


def test_a_mapping_and_classes_for_files(tmp_path: Path, readings: Path) -> None:
    mapping = tmp_path / "map.toml"
    mapping.write_text(
        'type = "plant.Reading"\nts = { column = "time" }\nsource = { column = "station" }\n'
        '[fields]\ncelsius = { column = "temp (C)", type = "float" }\n'
    )
    printed = slackline("query", "EVENT plant.Reading r WHERE r.celsius > 30", readings, "--mapping", mapping)
    assert "5 final" in printed


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["query", "EVENT readings r", "FILE", "nowhere.csv"], "there is no such file"),
        (["query", "EVENT reading r", "FILE"], "did you mean"),
        (["query", "EVENT readings r", "bookstore", "--follow"], "--follow is for files"),
        (["query", "EVENT readings r", "FILE", "--follow", "--results", "x.parquet"], "is written whole, at the end"),
        (["query", "EVENT readings r", "FILE", "--results", "/nowhere/x.csv"], "there is no folder"),
        (
            ["query", "EVENT readings r", "FILE", "--results", "x.xlsx"],
            "give a file that ends in .jsonl, .csv",
        ),
        (["sql", "--from", "FILE", "--results", "x.json"], "not written as .json: give a file that ends in .jsonl, .csv"),
        (["sql", "--follow", "-e", "SELECT 1"], "name them with --from"),
    ],
)
def test_what_cannot_be_is_reported(readings: Path, arguments: list[str], complaint: str) -> None:
    printed = CliRunner().invoke(application(), [str(readings) if each == "FILE" else each for each in arguments])
    assert printed.exit_code == 2, printed.output
    assert complaint in " ".join(printed.output.split())


def test_a_file_that_grows_is_followed(readings: Path) -> None:
    files = FileInput([readings])
    coming = files.follow()
    first = next(coming)
    assert [event.id for event in first] == list(range(len(first)))
    assert [event.note for event in first[:2]] == ["dry", "wet, cold"]  # type: ignore[attr-defined]
    with readings.open("a") as more:
        more.write("2023-11-14T22:14:00Z,7,1.5,dry\n2023-11-14T22:14:01Z,7,2")
        more.flush()
        (event,) = next(some for some in coming if some)  # the last line is not whole yet
        assert (event.id, event.temp_C) == (len(first), 1.5)  # type: ignore[attr-defined]
        more.write(".5,dry\nbroken\n")
        more.flush()
        (event,) = next(some for some in coming if some)
        assert event.temp_C == 2.5  # type: ignore[attr-defined]
    other = readings.with_name("other.csv")
    other.write_text("time,station,temp (C),note\n2023-11-14T22:15:00Z,7,9,new\n")
    other.replace(readings)  # as a log is rotated
    (event,) = next(some for some in coming if some)
    assert (event.note, event.id) == ("new", len(first) + 2)  # type: ignore[attr-defined]
    assert [note.partition(": ")[0] for note in files.notes()[1:]] == [f"  {readings}:5", f"  {readings}:20"]


@pytest.mark.parametrize("lateness", ["1s", "0s"])
def test_a_query_of_a_file_that_grows_ends_after_its_count(tmp_path: Path, readings: Path, lateness: str) -> None:
    """Without any lateness, too: what comes in order is final as soon as something later comes."""
    out = tmp_path / "rises.jsonl"
    printed = slackline("query", RISES, readings, "--follow", "--count", 2, "--lateness", lateness, "--results", out)
    assert "2 final" in printed
    assert len(rows(out)) == 2
    slackline("query", RISES, readings, "--follow", "--count", 2, "--lateness", lateness, "--results", out)
    assert len(rows(out)) == 2  # what the file has is not written again


class Small(Event):
    a: int


class Other(Event):
    namespace = "x"
    b: str


def test_results_of_several_types_and_of_none(tmp_path: Path) -> None:
    events = [Small(1, ts=1, id=1, source="s"), Other("é,\n", ts=2, id=2, source="s")]
    write_results(events, str(tmp_path / "all.parquet"))
    found = rows(tmp_path / "all.parquet")
    assert [(row["type"], row["a"], row["b"]) for row in found] == [("Small", 1, None), ("x.Other", None, "é,\n")]
    write_results(events, str(tmp_path / "all.csv"))
    assert [row["b"] for row in rows(tmp_path / "all.csv")] == ["", "é,\n"]
    write_results(events, str(tmp_path / "all.duckdb"))
    with duckdb.connect(str(tmp_path / "all.duckdb")) as database:
        assert database.execute('SELECT b FROM "x.Other"').fetchall() == [("é,\n",)]
    for kind in ("csv", "parquet", "arrow", "sqlite", "duckdb", "jsonl"):
        write_results([], str(tmp_path / f"none.{kind}"))
        assert (tmp_path / f"none.{kind}").exists()


def test_results_that_cannot_be_written_are_reported(tmp_path: Path) -> None:
    with pytest.raises(SlacklineError, match="folder"):
        write_results([], str(tmp_path / "nowhere" / "a.duckdb"))
    with pytest.raises(SlacklineError, match="written whole"):
        FinalsFile(str(tmp_path / "a.csv"), is_endless=True)
    number = event_type("Number", {"a": int})(1, ts=1, id=1, source="s")
    text = event_type("Text", {"a": str})("x", ts=2, id=2, source="s")
    huge = event_type("Huge", {"a": int})(2**70, ts=2, id=2, source="s")
    for events in ([number, text], [huge]):  # what fits no column is text
        write_results(events, str(tmp_path / "a.parquet"))
        assert pq.read_table(tmp_path / "a.parquet")["a"].to_pylist() == [str(event.a) for event in events]  # type: ignore[attr-defined]


def test_following_waits_for_more(readings: Path) -> None:
    assert [len(some) for some in islice(FileInput([readings]).follow(), 3)][1:] == [0, 0]


GAPS = "ts,station,celsius,name\n1000,1,20.5,a\n2000,1,,b\n3000,2,18.0,\n4000,,21.5,c\n5000,2,25.0,d\n"
MAPPING = """
type = "gaps"
ts = { column = "ts", unit = "ns" }
source = { value = "gaps" }
[fields]
station = { column = "station", type = "int", optional = true }
celsius = { column = "celsius", type = "float", optional = true }
name = { column = "name", type = "str" }
"""
MEANS = (
    "SELECT station, AVG(celsius) AS mean, COUNT(celsius) AS n, COUNT(*) AS k FROM gaps "
    "GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), station"
)


class NoGaps(Event):
    station: int | None
    celsius: float
    name: str


def check_misfit(folder: Path) -> None:
    """A class that takes no None says so, by the name of the field."""
    types = EventTypes([type("gaps", (NoGaps,), {})])
    with pytest.raises(TraceError, match="an event of gaps does not fit its class: celsius: Expected `float`, got `null`"):
        list(read_trace(folder, types))


@pytest.mark.parametrize("way", ["guessed", "mapped", "parquet", "trace"])
def test_empty_cells_are_nulls(tmp_path: Path, way: str) -> None:
    file, mapping, folder = tmp_path / "gaps.csv", tmp_path / "gaps.toml", tmp_path / "trace"
    file.write_text(GAPS)
    mapping.write_text(MAPPING)
    asked: list[object] = ["--mapping", mapping] if way == "mapped" else []
    if way == "parquet":
        file = tmp_path / "gaps.parquet"
        pq.write_table(pa.csv.read_csv(tmp_path / "gaps.csv"), file)
    if way == "trace":
        prepare(mapped_recording([file], mapping), folder, in_process=True)
    else:
        printed = slackline("sql", "--from", file, "-e", MEANS, "--final", "--results", tmp_path / "means.jsonl", *asked)
        assert "(station int or none, celsius float or none, name str)" in printed
        means = [tuple(row[name] for name in ("station", "mean", "n", "k")) for row in rows(tmp_path / "means.jsonl")]
        assert sorted(means, key=str) == [(1, 20.5, 1, 2), (2, 21.5, 2, 2), (None, 21.5, 1, 1)]
    where = [folder if way == "trace" else file, *asked, "--results", tmp_path / "out.jsonl"]
    slackline("query", "EVENT gaps a RETURN Seen(a.station AS s, a.celsius AS c, a.name AS n)", *where)
    assert [(row["s"], row["c"], row["n"]) for row in rows(tmp_path / "out.jsonl")] == [
        (1, 20.5, "a"), (1, None, "b"), (2, 18.0, ""), (None, 21.5, "c"), (2, 25.0, "d")
    ]  # fmt: skip
    warmer = "EVENT SEQ(gaps a, gaps b) WHERE [station] AND b.celsius > a.celsius WITHIN 9 s RETURN Up(b.celsius AS c)"
    slackline("query", warmer, *where)
    if way == "trace":
        check_misfit(folder)
    assert [row["c"] for row in rows(tmp_path / "out.jsonl")] == [25.0]  # nothing is warmer than NULL, or of its station


def test_a_query_of_a_file_does_without_pandas(readings: Path) -> None:
    """To load it takes as long as all else of a small query."""
    look = "import atexit, sys, middleware.cli.main as cli; atexit.register(lambda: print('pandas' in sys.modules)); cli.main()"
    command = [sys.executable, "-c", look, "query", RISES, str(readings)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Rise" in done.stdout
    assert done.stdout.splitlines()[-1] == "False"


def test_types_that_share_a_source_are_distinguished(tmp_path: Path) -> None:
    for name, half in (("alpha", ""), ("beta", ".5")):
        rows = "".join(f"2023-11-14T22:13:0{second}{half}Z,m1,{second}\n" for second in range(5))
        (tmp_path / f"{name}.csv").write_text("time,source,v\n" + rows)
    files = tmp_path / "alpha.csv", tmp_path / "beta.csv"
    assert "5 final" in slackline("query", "EVENT SEQ(alpha a, beta b) WITHIN 600 ms", *files)
    following = FileInput(list(files)).follow()
    assert len({(event.source, event.id) for some in islice(following, 2) for event in some}) == 10


@pytest.mark.parametrize("broken", ["[" * 5_000, '{"v": ' + "[" * 3_000 + "]" * 3_000 + "}"])
def test_a_line_nested_too_deeply_is_broken_and_no_other(tmp_path: Path, broken: str) -> None:
    lines = [f'{{"ts": {n * 10**9}, "v": {n}}}' for n in range(1_700_000_000, 1_700_000_005)]
    (tmp_path / "deep.jsonl").write_text("\n".join([*lines[:2], broken, *lines[2:]]))
    printed = slackline("query", "EVENT SEQ(deep a, deep b) WITHIN 1 s", tmp_path / "deep.jsonl")
    assert "4 final" in printed and "skipped 1 broken line" in printed


def test_numbers_within_lists_stay_numbers(tmp_path: Path) -> None:
    (tmp_path / "places.jsonl").write_text('{"ts": 1700000000000000000, "at": [1.50, {"x": 2.5e3}, true], "x": 1.50}\n')
    (event,) = FileInput([tmp_path / "places.jsonl"]).events()
    assert (event.at, event.x) == ('[1.50,{"x":2.5e3},true]', 1.5)  # type: ignore[attr-defined]


def test_a_column_that_nothing_can_be_made_of_is_named(tmp_path: Path) -> None:
    ids = pa.array([uuid.uuid4().bytes for _ in range(2)], pa.uuid())
    times = [1_700_000_000_000_000_000, 1_700_000_001_000_000_000]
    pq.write_table(pa.table({"ts": times, "id": ids, "source": ["a", "b"], "v": [1.0, 2.0]}), tmp_path / "odd.parquet")
    with pytest.raises(TraceError, match=r"column id is of .*, of which no int64 can be made"):
        FileInput([tmp_path / "odd.parquet"]).events()


@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
def test_results_of_another_run_are_added_to_and_none_twice(tmp_path: Path, kind: str) -> None:
    number = event_type("Number", {"a": int})
    events = [number(n, ts=ts, id=n, source="s") for n, ts in enumerate((50, 60, 10, 20, 60))]
    for some in (events[:2], events[2:4], events):
        stored = FinalsFile(str(tmp_path / f"all.{kind}"), is_endless=True)
        for event in some:
            stored.add(event)
        stored.close()
    assert sorted(row["a"] for row in rows(tmp_path / f"all.{kind}")) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("kind", ["jsonl", "sqlite"])
def test_results_of_a_run_over_other_events_are_not_taken_for_those_that_are_there(tmp_path: Path, kind: str) -> None:
    number, file = event_type("Number", {"a": int}), str(tmp_path / f"all.{kind}")
    for first, warnings in ((0, 0), (0, 0), (7, 1)):
        stored = FinalsFile(file, is_endless=True)
        stored.add(number(first, ts=1, id=1, source="s"))
        assert len(notes := stored.close()) == warnings
    tags = event_type("Tags", {"a": set[str]})
    for names in (["x", "y", "z"], ["z", "y", "x"]):
        stored = FinalsFile(str(tmp_path / f"tags.{kind}"), is_endless=True)
        stored.add(tags(set(names), ts=1, id=1, source="s"))
        assert stored.close() == []
    assert "1 result not stored" in notes[0] and "(s, 1)" in notes[0]
    assert [row["a"] for row in rows(tmp_path / f"all.{kind}")] == [0]


def test_a_file_of_other_lines_is_no_file_of_results(tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    file.write_text('{"a": 1}\n')
    with pytest.raises(SlacklineError, match=r"all\.jsonl"):
        FinalsFile(str(file), is_endless=True)
    assert file.read_text() == '{"a": 1}\n'


@pytest.mark.parametrize("name", ["out.csv", "out.DB", "out.SQLITE", "out.jsonl"])
def test_a_run_that_breaks_off_leaves_the_file_as_it_was(readings: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    out.write_text("kept")
    stored = FinalsFile(str(out), is_endless=False)
    stored.add(event_type("Number", {"a": int})(1, ts=1, id=1, source="s"))
    assert stored.close() == [f"{out} is left as it was: the run did not come to its end"] and out.read_text() == "kept"
    printed = CliRunner().invoke(application(), ["query", RISES, str(readings), "--results", str(out)])
    assert printed.exit_code == 0 and out.read_bytes() != b"kept"
    assert [path.name for path in tmp_path.iterdir() if name in path.name] == [name]


def test_results_do_not_go_where_events_come_from(readings: Path) -> None:
    before = readings.read_bytes()
    source = f"CREATE STREAM R (at Long NOT NULL) SOURCE FILE ('{readings}', ','); SELECT * FROM R"
    commands = (
        ["query", RISES, str(readings)],
        ["sql", "--from", str(readings), "-e", "SELECT * FROM readings"],
        ["sql", "-e", source],
    )
    for command in commands:
        for option in ("--results", "--json"):
            printed = CliRunner().invoke(application(), [*command, option, str(readings)])
            assert printed.exit_code == 2 and "is read: give another file" in printed.stderr
    assert readings.read_bytes() == before


def test_lines_of_an_earlier_call_are_replaced(readings: Path, tmp_path: Path) -> None:
    out, many = tmp_path / "out.jsonl", ["-e", "SELECT * FROM readings; SELECT * FROM readings"]
    counts = []
    for _ in range(2):
        CliRunner().invoke(application(), ["sql", "--from", str(readings), *many, "--json", str(out)])
        counts.append(len(out.read_text().splitlines()))
    assert counts[0] == counts[1] > 0


def test_rows_of_files_that_are_followed_together_have_the_same_ids_however_they_grow(tmp_path: Path) -> None:
    mapping = tmp_path / "m.toml"
    mapping.write_text(
        "\n".join(
            f'[[events]]\ntype = "{name}"\nfiles = ["{name}.csv"]\nts = {{column = "ts", unit = "ns"}}\n'
            'source = {value = "one"}\nfields = {x = {column = "x", type = "int"}}'
            for name in "ab"
        )
    )
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for file in files:
        file.write_text("ts,x\n")
    growing = FileInput(files, mapping).follow()
    came: list[Any] = []
    for n in range(6):
        with files[n % 2].open("a") as out:
            out.write(f"{n + 1},{n}\n")
        came += next(growing)
    whole: list[Any] = next(FileInput(files, mapping).follow())
    assert len({(event.source, event.id) for event in came}) == 6
    assert {event.x: event.id for event in came} == {event.x: event.id for event in whole}


def test_a_full_disk_is_reported_in_a_line(readings: Path) -> None:
    printed = CliRunner().invoke(application(), ["query", RISES, str(readings), "--json", "/dev/full"])
    assert (printed.exit_code, printed.exception.__class__) == (1, SystemExit)
    assert "could not be: No space left on device" in printed.stderr
