"""``run`` over tables and files: the events are those of the same recording, and input that does not fit is reported."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pyarrow.csv
import pytest
from slackline import Detector, Event, SlacklineError, run

from middleware.model.errors import TraceError
from middleware.model.event import EventTypes
from middleware.recordings.files.mapped import mapped_recording
from middleware.recordings.traces import read_trace
from middleware.spark.prepare.prepare import prepare


class Reading(Event):
    station: int
    celsius: float
    note: str


class Door(Event):
    open: bool


class Hot(Event):
    station: int
    celsius: float


class Heat(Detector):
    subscribes, publishes, key = (Reading,), (Hot,), "station"

    def on_event(self, event):
        return Hot(event.station, event.celsius, ts=event.ts) if event.celsius > 15 else None


class Drafts(Detector):
    """Readings while the door is open."""

    subscribes, publishes = (Reading, Door), (Hot,)

    def __init__(self) -> None:
        self.is_open = False

    def on_event(self, event):
        if isinstance(event, Door):
            self.is_open = event.open
            return None
        return Hot(event.station, event.celsius, ts=event.ts) if self.is_open else None


class Log(Event):
    level_: int | None
    celsius: float | None
    note: str | None = None


class Logged(Event):
    text: str


class Logs(Detector):
    subscribes, publishes = (Log,), (Logged,)

    def on_event(self, event):
        return Logged(f"{event.level_} {event.celsius} {event.note}", ts=event.ts)


FRAME = pd.DataFrame(
    {
        "time": pd.to_datetime(["2023-11-14T22:13:20.105", "2023-11-14T22:13:22.000", "2023-11-14T22:13:21.500"]),
        "station": [7, 8, 7],
        "Celsius": [10.0, 20.5, 30.0],
        "note": ["dry", "wet, cold", "dry"],
    }
)
FOUND = [(1_700_000_001_500_000_000, 7, 30.0), (1_700_000_002_000_000_000, 8, 20.5)]


def found(result) -> list[tuple]:
    return [(hot.ts, hot.station, hot.celsius) for hot in result.finals["Heat"]]


def forms(folder: Path) -> dict[str, object]:
    table = pa.Table.from_pandas(FRAME)
    csv, jsonl, parquet, arrow = (folder / f"rows.{kind}" for kind in ("csv", "jsonl", "parquet", "arrow"))
    FRAME.to_csv(csv, index=False)
    FRAME.assign(time=FRAME.time.astype(str)).to_json(jsonl, orient="records", lines=True)
    FRAME.to_parquet(parquet)
    FRAME.to_feather(arrow)
    categories = table.set_column(3, "note", table["note"].dictionary_encode())
    return {
        "pandas": FRAME,
        "index of times": FRAME.set_index(FRAME.time.rename(None)).drop(columns="time"),
        "zoned": FRAME.assign(time=FRAME.time.dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin")),
        "pyarrow": table,
        "dictionary": categories,
        "batch": table.combine_chunks().to_batches()[0],
        "csv": csv,
        "text path": str(csv),
        "jsonl": jsonl,
        "parquet": parquet,
        "arrow": arrow,
    }


def test_tables_and_files_of_all_kinds_give_the_same_finals(tmp_path: Path) -> None:
    for name, form in forms(tmp_path).items():
        assert found(run(form, [Heat()])) == FOUND, name


def test_other_libraries_are_read_through_arrow() -> None:
    class Foreign:
        def __arrow_c_stream__(self, requested_schema=None):
            return pa.Table.from_pandas(FRAME).__arrow_c_stream__(requested_schema)

    assert found(run(Foreign(), [Heat()])) == FOUND


def test_a_mapping_names_the_columns() -> None:
    mapping = {
        "type": "Reading",
        "ts": {"column": "t", "unit": "ms"},
        "source": {"column": "who", "prefix": "station-"},
        "fields": {
            "station": {"column": "who", "type": "int"},
            "celsius": {"expression": "(f - 32) * 5.0 / 9", "type": "float"},
            "note": {"value": "", "type": "str"},
        },
    }
    frame = pd.DataFrame({"t": [1_700_000_000_000.5, 1_700_000_000_001], "who": [7, 8], "f": [68.0, 50.0]})
    result = run(frame, [Heat()], mapping=mapping)
    assert found(result) == [(1_700_000_000_000_500_000, 7, 20.0)]


def test_several_types_come_as_a_dict(tmp_path: Path) -> None:
    doors = pd.DataFrame({"ts": [1_700_000_002_000_000_000 - 1], "open": [True]})
    result = run({Reading: FRAME, Door: doors}, [Drafts()])
    assert [hot.celsius for hot in result.finals["Drafts"]] == [20.5]
    doors.to_csv(tmp_path / "doors.csv")
    FRAME.to_parquet(tmp_path / "readings.parquet")
    files = run({Reading: tmp_path / "readings.parquet", Door: tmp_path / "doors.csv"}, [Drafts()])
    assert [hot.celsius for hot in files.finals["Drafts"]] == [20.5]


@pytest.mark.parametrize("arrives", [False, True])
def test_events_and_identities_are_those_of_a_trace(tmp_path: Path, arrives: bool) -> None:
    chance = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "t": 1_700_000_000_000 + chance.integers(0, 500, 400),
            "got": 1_700_000_001_000 + chance.integers(0, 900, 400),
            "who": chance.choice(["a", "b", "c"], 400),
            "station": chance.integers(0, 9, 400),
            "celsius": chance.normal(15, 5, 400),
            "note": "x",
        }
    )
    file = tmp_path / "readings.csv"
    frame.to_csv(file, index=False)
    fields = {name: f'{{ column = "{name}", type = "{kind}" }}' for name, kind in
              (("station", "int"), ("celsius", "float"), ("note", "str"))}  # fmt: skip
    (tmp_path / "map.toml").write_text(
        'type = "Reading"\nts = { column = "t", unit = "ms" }\nsource = { column = "who" }\n'
        + ('arrival = { column = "got", unit = "ms" }\n' if arrives else "")
        + "[fields]\n"
        + "".join(f"{name} = {what}\n" for name, what in fields.items())
    )
    prepare(mapped_recording([file], tmp_path / "map.toml"), tmp_path / "trace", in_process=True)
    traced = [event for some in read_trace(tmp_path / "trace", EventTypes([Reading])) for event in some]
    assert len({(event.source, event.id) for event in traced}) == 400
    expected = run(traced, [Heat()])
    for source in (file, frame):
        result = run(source, [Heat()], mapping=tmp_path / "map.toml")
        assert result.finals == expected.finals
        assert result.late == expected.late


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        (FRAME.drop(columns="note"), "has no column note"),
        (FRAME.drop(columns="time"), "no column looks like times"),
        (FRAME.assign(time=[1.0, 2.0, 3.0]), "does not show its unit"),
        (FRAME.assign(station=[7, None, 8]), "1 of 3 rows do not fit: row 1: station is missing"),
        (FRAME.assign(Celsius=[float("inf"), 1, 2]), "row 0: celsius is not a finite number"),
        (FRAME.assign(time=[*FRAME["time"][:2], pd.NaT]), "row 2: column time: is missing"),
        (FRAME.assign(time=FRAME["time"].dt.time), "holds time64.*, which is no time of a day in a year"),
        (FRAME.assign(time=[float("inf")] * 3), "does not show its unit"),
        (FRAME.assign(time=pd.period_range("2024-01", periods=3, freq="M")), "which is no time of a day in a year"),
        (FRAME.assign(note=[["a"], [], []]), "Unsupported cast from list"),
        (FRAME.assign(note=pd.Series([1, "a", 2], dtype=object)), "the table cannot be read: .*column note"),
        (FRAME.assign(time=[date(2024, 1, 1), pd.Timestamp(0), pd.NaT]), "column time has dates beside times"),
        (pd.concat([FRAME, FRAME], axis=1), "the table cannot be read: Duplicate column names"),
        ("nowhere.csv", "there is no recording at"),
        ({Reading: FRAME, Door: "x.csv"}, "there is no recording"),
    ],
)
def test_what_does_not_fit_is_reported(source, complaint: str) -> None:
    with pytest.raises(SlacklineError, match=complaint):
        run(source, [Heat()])


def test_an_empty_text_of_a_frame_is_a_text() -> None:
    texts = ["", None, "a"]
    frame = pd.DataFrame({"ts": [1, 2, 3], "level_": 1, "celsius": 1.0, "note": texts})
    assert [event.text for event in run(frame, [Logs()]).finals["Logs"]] == [f"1 1.0 {text}" for text in texts]


@pytest.mark.parametrize("made", [polars.DataFrame, pa.table, pd.DataFrame])
def test_nan_is_what_is_missing_where_something_may_be(made) -> None:
    """Frames of polars and Arrow tell NaN from null; infinity is neither, and a cell that cannot be read."""
    columns = {"ts": [1, 2], "level_": [math.nan, 4.0], "celsius": [1.0, math.nan], "note": ["a", "b"]}
    assert [event.text for event in run(made(columns), [Logs()]).finals["Logs"]] == ["None 1.0 a", "4 None b"]
    with pytest.warns(UserWarning, match="1 cell that cannot be read is None: row 1: celsius .*not a finite number"):
        found = run(made(columns | {"celsius": [1.0, math.inf]}), [Logs()])
    assert [event.text for event in found.finals["Logs"]] == ["None 1.0 a", "4 None b"] and found.lost_cells == 1
    with pytest.raises(TraceError, match="row 1: celsius is"):
        run(made(columns | {"station": [1, 1]}), [Heat()])


@pytest.mark.parametrize("kind", [polars.Categorical, polars.Enum(["dry", "wet"])])
def test_texts_of_polars_by_number(kind) -> None:
    frame = polars.DataFrame({"ts": [1, 2], "level_": 1, "celsius": 1.0, "note": ["dry", "wet"]})
    found = run(frame.with_columns(polars.col("note").cast(kind)), [Logs()]).finals["Logs"]
    assert [event.text for event in found] == ["1 1.0 dry", "1 1.0 wet"]


@pytest.mark.parametrize(("unit", "stray"), [(1, 0), (10**9, 0), (10**9, 30)])
def test_the_unit_of_times_is_seen_all_over_a_table(unit: int, stray: int) -> None:
    """The first of a simulation that counts ns from 0 could be dates in seconds; a stray 0 among dates tells nothing."""
    rows = 5_000
    times = np.arange(rows) * 10**6 if unit == 1 else 1_700_000_000 + np.arange(rows) // 7
    times[:stray] = 0
    frame = pd.DataFrame({"ts": times, "station": 7, "celsius": 20.0, "note": ""})
    assert sorted(event.ts for event in run(frame, [Heat()]).finals["Heat"]) == (np.sort(times) * unit).tolist()


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_what_may_be_dates_or_nanoseconds_is_not_guessed(unit: str) -> None:
    """A table with ts, id and source is as Slackline writes it, in ns; but these could be 1.5 s after 1970, or dates in s."""
    times = [int(1.5e9 * {"s": 1, "ms": 10**3, "us": 10**6}[unit]) + at for at in range(3)]
    frame = FRAME.drop(columns="time").assign(ts=times, id=range(3), source="a")
    with pytest.raises(SlacklineError, match=f'as Slackline writes it .* or dates in {unit}: write a mapping .*unit = "ns"'):
        run(frame, [Heat()])
    given = (("station", "station", "int"), ("celsius", "Celsius", "float"), ("note", "note", "str"))
    fields = {name: {"column": column, "type": kind} for name, column, kind in given}
    mapping = {"type": "Reading", "ts": {"column": "ts", "unit": "ns"}, "id": "id", "source": {"column": "source"}}
    found = run(frame, [Heat()], mapping={**mapping, "fields": fields}).finals["Heat"]
    assert [event.ts for event in found] == times[1:]


def test_an_empty_frame_has_no_events() -> None:
    assert run(FRAME[:0], [Heat()]).events == 0
    assert run(pd.DataFrame(), [Heat()]).finals == {"Heat": []}
    assert run({Reading: FRAME[:0]}, [Heat()]).finals == {"Heat": []}


def test_a_mapping_is_not_for_events_nor_for_another_type() -> None:
    with pytest.raises(SlacklineError, match="these are events already"):
        run([Reading(1, 2.0, "", ts=1)], [Heat()], mapping={})
    other = {"type": "Wind", "ts": {"column": "time"}, "source": {"value": "x"}, "fields": {}}
    with pytest.raises(SlacklineError, match="Wind, which no detector reads; they read Reading"):
        run(FRAME, [Heat()], mapping=other)
    with pytest.raises(SlacklineError, match="say what is what"):
        run(FRAME, [Drafts()])


def test_fields_that_may_be_none_are_where_a_cell_is_empty_or_null(tmp_path: Path) -> None:
    rows = {"ts": [1, 2, 3], "level_": [4, None, 6], "celsius": [None, 1.5, None], "note": ["a", "b", None]}
    table = pa.table(rows)
    (tmp_path / "log.csv").write_text("ts,level_,celsius,note\n1,4,,a\n2, ,1.5,b\n3,6,,\n")
    (tmp_path / "log.jsonl").write_text(
        '{"ts": 1, "level_": 4, "note": "a"}\n{"ts": 2, "level_": null, "celsius": 1.5, "note": "b"}\n{"ts": 3, "level_": 6}\n'
    )
    for source in (table, table.to_pandas(), tmp_path / "log.csv", tmp_path / "log.jsonl"):
        found = run(source, [Logs()]).finals["Logs"]
        assert [event.text for event in found] == ["4 None a", "None 1.5 b", "6 None None"]
    fields = {name: {"column": name, "type": kind} for name, kind in (("level_", "int"), ("celsius", "float"), ("note", "str"))}
    mapping = {"type": "Log", "ts": {"column": "ts", "unit": "ns"}, "source": {"value": "s"}, "fields": fields}
    with pytest.raises(TraceError, match="line 0 of the table: celsius is missing"):
        run(table, [Logs()], mapping=mapping)
    assert (
        len(
            run(table, [Logs()], mapping=mapping | {"fields": {k: v | {"optional": True} for k, v in fields.items()}}).finals[
                "Logs"
            ]
        )
        == 3
    )


def test_tables_of_more_rows_than_events_are_made_at_once() -> None:
    rows = 20_000
    readings = pd.DataFrame({"ts": range(0, 3 * rows, 3), "station": 7, "celsius": np.arange(rows) % 20 * 1.0, "note": ""})
    doors = pd.DataFrame({"ts": range(1, 3 * rows, 5), "open": np.arange(len(range(1, 3 * rows, 5))) % 2 == 0})
    found = run({Reading: readings, Door: doors}, [Drafts()], batch=1_000).finals["Drafts"]
    is_open = {int(ts): bool(opened) for ts, opened in zip(doors["ts"], doors["open"], strict=True)}
    last = [
        is_open.get(next((at for at in range(ts, max(-1, ts - 5), -1) if at in is_open), -1), False) for ts in readings["ts"]
    ]
    assert [event.ts for event in found] == [ts for ts, opened in zip(readings["ts"], last, strict=True) if opened]


def test_decimals_are_the_nearest_floats() -> None:
    numbers = [Decimal(number) / 1000 for number in range(15_001, 99_999, 7)]
    columns = {"ts": range(len(numbers)), "station": 1, "celsius": pa.array(numbers, pa.decimal128(20, 3)), "note": "x"}
    table = pa.table(columns | {name: [columns[name]] * len(numbers) for name in ("station", "note")})
    assert [event.celsius for event in run(table, [Heat()]).finals["Heat"]] == [float(number) for number in numbers]
