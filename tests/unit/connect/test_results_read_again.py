"""What is written as results can be read as events again, and nothing that is read is written over."""

from __future__ import annotations

import enum
import json
from pathlib import Path

import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from slackline import Detector, Event, SlacklineError, run
from typer.testing import CliRunner

from middleware.cli.main import application
from middleware.cli.result_files import check_not_read, write_results
from middleware.model.errors import SinkError, TraceError
from middleware.recordings.files.guess import guessed
from middleware.recordings.readers import open_recording
from middleware.spark.prepare.prepare import prepare

START = 1_700_000_000_000_000_000


class Reading(Event):
    v: int


class Hot(Event):
    station: int
    celsius: float


class Cold(Event):
    station: int
    celsius: float


class Found(Event):
    n: float


class Level(enum.Enum):
    HIGH = "high"


class Rich(Event):
    level_: Level
    tags: dict[str, int]
    raw: bytes


class Sorting(Detector):
    subscribes, publishes = (Reading,), (Hot, Cold)

    def on_event(self, event):
        return (Hot if event.v > 20 else Cold)(1, float(event.v), ts=event.ts)


class Counting(Detector):
    subscribes, publishes = (Hot,), (Found,)

    def on_event(self, event):
        return Found(event.celsius, ts=event.ts)


def finals() -> list[Event]:
    readings = [Reading(v, ts=START + at, id=at, source="s") for at, v in enumerate([30, 10, 25, 5])]
    return list(run(readings, [Sorting()]).finals["Sorting"])


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet", "arrow"])
def test_rows_of_other_types_are_no_events_of_one(kind: str, tmp_path: Path) -> None:
    file = tmp_path / f"both.{kind}"
    write_results(finals(), str(file))
    assert [found.n for found in run(file, [Counting()]).finals["Counting"]] == [30.0, 25.0]  # type: ignore[attr-defined]
    with pytest.raises(TraceError, match="several types"):
        guessed(file)
    write_results([each for each in finals() if isinstance(each, Cold)], str(file))
    with pytest.raises(TraceError, match=r"holds .*Cold, and no .*Hot"):
        run(file, [Counting()])


def test_a_table_of_several_types_is_read_by_type_and_mcap_by_topic(tmp_path: Path) -> None:
    write_results(finals(), str(tmp_path / "both.parquet"))
    table = pq.read_table(tmp_path / "both.parquet")
    assert len(run(table, [Counting()]).finals["Counting"]) == 2
    write_results([each for each in finals() if isinstance(each, Cold)], str(tmp_path / "cold.mcap"))
    with pytest.raises(TraceError, match="has no topic"):
        run(tmp_path / "cold.mcap", [Counting()])


def test_changes_are_no_events(tmp_path: Path) -> None:
    rows = [
        {"change": change, "type": "Hot", "station": 1, "celsius": celsius, "ts": START, "id": 1, "source": "q", "level": 1}
        for change, celsius in (("insert", 7.0), ("retract", 7.0))
    ]
    file = tmp_path / "changes.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(TraceError, match="cannot be read from changes"):
        run(file, [Counting()])


def test_a_mapping_names_the_rows_that_are_its_events(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("time,kind,v\n1700000000,a,1\n1700000001,b,2\n1700000002,a,+3\n")
    mapping = {
        "type": "Reading",
        "ts": {"column": "time", "unit": "s"},
        "source": {"value": "log"},
        "only": {"kind": "a"},
        "fields": {"v": {"column": "v", "type": "int"}},
    }
    found = run(tmp_path / "log.csv", [Sorting()], mapping=mapping).finals["Sorting"]
    assert [each.celsius for each in found] == [1.0, 3.0]  # type: ignore[attr-defined]


def test_any_result_has_its_cells(tmp_path: Path) -> None:
    event = Rich(Level.HIGH, {}, b"x", ts=1, id=1, source="s")
    for kind in ("csv", "parquet", "arrow"):
        write_results([event], str(tmp_path / f"rich.{kind}"))
    assert (tmp_path / "rich.csv").read_text().splitlines()[1].split(",")[1:4] == ["high", "{}", "eA=="]
    (row,) = pq.read_table(tmp_path / "rich.parquet").to_pylist()
    assert (row["level_"], row["tags"]) == ("high", "{}")


def test_a_number_but_0_and_1_is_no_truth_value() -> None:
    class Door(Event):
        ok: bool

    class Doors(Detector):
        subscribes, publishes = (Door,), (Found,)

        def on_event(self, event):
            return Found(float(event.ok), ts=event.ts)

    times = [1_700_000_000, 1_700_000_001]
    assert [x.n for x in run(polars.DataFrame({"time": times, "ok": [0.0, 1.0]}), [Doors()]).finals["Doors"]] == [0.0, 1.0]  # type: ignore[attr-defined]
    for odd in (float("nan"), 2.5):
        with pytest.raises(TraceError, match="row 1"):
            run(polars.DataFrame({"time": times, "ok": [0.0, odd]}), [Doors()])


def test_an_optional_expression_over_nothing_is_none(tmp_path: Path) -> None:
    class Warm(Event):
        celsius: float | None

    class Warmth(Detector):
        subscribes, publishes = (Warm,), (Found,)

        def on_event(self, event):
            return Found(-1.0 if event.celsius is None else event.celsius, ts=event.ts)

    (tmp_path / "w.csv").write_text("time,f\n1700000000,1.5\n1700000001,\n")
    mapping = {
        "type": "Warm",
        "ts": {"column": "time", "unit": "s"},
        "source": {"value": "w"},
        "fields": {"celsius": {"expression": "f + 1", "type": "float", "optional": True}},
    }
    assert [x.n for x in run(tmp_path / "w.csv", [Warmth()], mapping=mapping).finals["Warmth"]] == [2.5, -1.0]  # type: ignore[attr-defined]


def test_doubtful_units_are_reported_and_odd_ones_have_their_reason(tmp_path: Path) -> None:
    mapping = {
        "type": "Reading",
        "ts": {"column": "time", "unit": "ms"},
        "source": {"value": "s"},
        "fields": {"v": {"column": "v", "type": "int"}},
    }
    with pytest.warns(UserWarning, match='unit = "s" meant'):
        run(pa.table({"time": [1_700_000_000], "v": [1]}), [Sorting()], mapping=mapping)
    (tmp_path / "odd.csv").write_text("time,v\n-5,1\n")
    with pytest.raises(TraceError, match="holds -5, which does not show its unit"):
        run(tmp_path / "odd.csv", [Sorting()])
    (tmp_path / "wide.csv").write_text("time,v\n1700000000,1,\n")
    with pytest.raises(TraceError, match="columns"):
        run(tmp_path / "wide.csv", [Sorting()])


def test_a_frame_whose_index_was_reset_and_a_type_without_results() -> None:
    import pandas as pd

    frame = pd.DataFrame({"time": pd.to_datetime([3, 1, 2], unit="s", utc=True) + pd.Timedelta("20000D"), "v": [3, 1, 2]})
    frame = frame.sort_values("v").reset_index()
    result = run(frame[frame.v > 1], [Sorting()])
    assert result.table("Hot").schema.names == ["station", "celsius", "ts", "id", "source"]
    assert (result.table("Hot").num_rows, str(result.table(Hot).schema.field("celsius").type)) == (0, "double")


def test_what_is_read_is_not_written_over(tmp_path: Path) -> None:
    recording = tmp_path / "weather.csv"
    recording.write_text("time,v\n1700000000,1\n")
    with pytest.raises(SinkError, match="is read"):
        check_not_read([str(recording)], [recording])
    with pytest.raises(SinkError, match="written already"):
        check_not_read(["x.jsonl", "./x.jsonl"], [])
    (tmp_path / "m.toml").write_text("")
    query = "EVENT weather w"
    for command in (
        ["schema", str(recording), "--out", str(recording)],
        ["query", query, str(recording), "--json", str(tmp_path / "m.toml"), "--mapping", str(tmp_path / "m.toml")],
    ):
        result = CliRunner().invoke(application(), command)
        assert result.exit_code != 0
    assert recording.read_text() == "time,v\n1700000000,1\n" and (tmp_path / "m.toml").read_text() == ""
    text = ['type = "R"', 'ts = { column = "time", unit = "s" }', 'source = { value = "s" }', "[fields]"]
    (tmp_path / "r.toml").write_text("\n".join([*text, 'v = { column = "v", type = "int" }']))
    (tmp_path / "trace.json").write_text("{}")
    opened = open_recording([recording], mapping=tmp_path / "r.toml")
    with pytest.raises(SlacklineError, match="would be replaced"):
        prepare(opened, tmp_path, force=True, in_process=True)
