"""Results as MCAP, read back by the library that defines the format."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import pytest
from mcap.reader import make_reader

from middleware.cli.result_files import write_results
from middleware.model.errors import SinkError
from middleware.model.event import Event
from middleware.runtime.json_records import as_record
from middleware.runtime.sinks.sink import open_sink

ROOT = Path(__file__).parents[3]


class Goal(Event):
    team: str


class Shot(Event):
    namespace = "soccer"

    player: int
    offset: float | None = None


def results(first: int, last: int) -> list[Event]:
    """A goal at every third nanosecond, shots at the others."""
    stamp = {"source": "referee", "level": 1}
    return [
        Goal("red", ts=at, id=at, **stamp) if at % 3 == 0 else Shot(at, 0.5, ts=at, id=at, **stamp) for at in range(first, last)
    ]


def read(file: Path) -> list[tuple[str, int, int, object]]:
    """Topic, log time, publish time and record of each message, in order of log time, and as the index has them."""
    with file.open("rb") as stream:
        reader = make_reader(stream)
        summary = reader.get_summary()
        found = [
            (channel.topic, message.log_time, message.publish_time, json.loads(message.data))
            for _, channel, message in reader.iter_messages()
        ]
    assert summary is not None and summary.statistics is not None
    assert summary.statistics.message_count == len(found)
    return found


def expected(events: Sequence[Event]) -> list[tuple[str, int, int, object]]:
    records = [json.loads(json.dumps(as_record(event))) for event in events]
    return [(record["type"], event.ts, event.ts, record) for event, record in zip(events, records, strict=True)]


def taken(file: Path, *batches: Sequence[Event]) -> None:
    sink = open_sink(str(file))
    for batch in batches:
        sink.take(batch)
    sink.close()


def test_each_final_is_a_message_on_the_channel_of_its_type(tmp_path: Path):
    taken(tmp_path / "out.mcap", results(1, 100), results(100, 5_000))
    assert read(tmp_path / "out.mcap") == expected(results(1, 5_000))


def test_the_schema_of_a_channel_tells_the_fields(tmp_path: Path):
    taken(tmp_path / "out.mcap", results(1, 5))
    reader = make_reader(BytesIO((tmp_path / "out.mcap").read_bytes()))
    schemas = {channel.topic: schema for schema, channel, _ in reader.iter_messages() if schema is not None}
    assert {schema.encoding for schema in schemas.values()} == {"jsonschema"} and schemas.keys() == {"Goal", "soccer.Shot"}
    assert json.loads(schemas["soccer.Shot"].data)["properties"]["player"] == {"type": "integer"}


def test_a_sink_that_was_killed_resumes_behind_its_position(tmp_path: Path):
    file = tmp_path / "out.mcap"
    code = f"""
import os, signal
from middleware.runtime.sinks.sink import open_sink
from tests.unit.connect.test_mcap import results

open_sink({str(file)!r}).take(results(1, 10))
os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not file.exists()
    sink = open_sink(str(file))
    assert sink.position == (9, 1, "referee", 9)
    sink.take(results(10, 12))
    sink.close()
    assert read(file) == expected(results(1, 12))


def test_a_file_that_was_closed_is_added_to(tmp_path: Path):
    file = tmp_path / "out.mcap"
    taken(file, results(1, 4))
    taken(file)
    taken(file, results(4, 5))
    assert read(file) == expected(results(1, 5))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.mcap", "out.mcap.jsonl"]


def test_a_file_that_somebody_else_made_is_left_alone(tmp_path: Path):
    file = tmp_path / "flight.mcap"
    file.write_bytes(b"theirs")
    with pytest.raises(SinkError, match=r"flight.mcap exists, but not flight.mcap.jsonl"):
        open_sink(str(file))
    assert file.read_bytes() == b"theirs" and list(tmp_path.iterdir()) == [file]


def test_two_sinks_do_not_write_one_file(tmp_path: Path):
    first = open_sink(str(tmp_path / "out.mcap"))
    with pytest.raises(SinkError, match="in use"):
        open_sink(str(tmp_path / "out.mcap"))
    first.close()


def test_times_before_0_and_options_are_refused(tmp_path: Path):
    sink = open_sink(str(tmp_path / "out.mcap"))
    with pytest.raises(SinkError, match=r"Goal at ts -1: MCAP has no times before 0"):
        sink.take([Goal("red", ts=-1, id=1, source="referee", level=1)])
    sink.take(results(1, 3))
    sink.close()
    assert read(tmp_path / "out.mcap") == expected(results(1, 3))
    with pytest.raises(SinkError, match="speed"):
        open_sink(str(tmp_path / "other.mcap"), speed=1)


def test_a_file_that_cannot_be_made_is_reported_and_where_the_results_are(tmp_path: Path):
    sink = open_sink(str(tmp_path / "out.mcap"))
    sink.take(results(1, 4))
    (tmp_path / "out.mcap").mkdir()
    with pytest.raises(SinkError, match=r"cannot be written: Is a directory; the results are in .*out.mcap.jsonl"):
        sink.close()
    (tmp_path / "out.mcap").rmdir()
    taken(tmp_path / "out.mcap")
    assert read(tmp_path / "out.mcap") == expected(results(1, 4))


def test_the_results_of_a_command_are_written_as_mcap(tmp_path: Path):
    write_results(results(1, 2_000), str(tmp_path / "out.mcap"))
    assert read(tmp_path / "out.mcap") == expected(results(1, 2_000))
    write_results([], str(tmp_path / "out.mcap"))
    assert read(tmp_path / "out.mcap") == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.mcap"]
