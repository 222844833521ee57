"""A stream of two stages: its driver is killed, its last commit is lost, and Parquet has each final of the oracle once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from middleware.model.detector import Detector
from middleware.model.event import END, ORDER, Event
from middleware.spark.schemas import schema_of
from middleware.testing.oracle import oracle

pytestmark = [pytest.mark.system, pytest.mark.spark]

DEADLINE = 240.0
SHARDS, FILES, ROWS = 2, 3, 300


class Reading(Event):
    sensor: int
    value: float


class Peak(Event):
    sensor: int
    value: float
    count: int


class Streak(Event):
    sensor: int
    length: int


class Tally(Event):
    sensor: int
    readings: int


class Peaks(Detector):
    """Higher than any before."""

    subscribes, publishes, key = (Reading,), (Peak,), "sensor"

    def __init__(self) -> None:
        self.most = -1.0
        self.count = 0

    def on_event(self, reading: Reading) -> Peak | None:
        self.count += 1
        if reading.value <= self.most:
            return None
        self.most = reading.value
        return Peak(reading.sensor, reading.value, self.count, ts=reading.ts)


class Streaks(Detector):
    """Every third peak."""

    subscribes, publishes, key = (Peak,), (Streak,), "sensor"

    def __init__(self) -> None:
        self.peaks = 0

    def on_event(self, peak: Peak) -> Streak | None:
        self.peaks += 1
        return Streak(peak.sensor, self.peaks, ts=peak.ts) if self.peaks % 3 == 0 else None


class Tallies(Detector):
    """At every streak of any sensor, how many readings there were: without a key, so in a stage above the others."""

    subscribes, publishes = (Reading, Streak), (Tally,)

    def __init__(self) -> None:
        self.readings = 0

    def on_event(self, event: Reading | Streak) -> Tally | None:
        if isinstance(event, Streak):
            return Tally(event.sensor, self.readings, ts=event.ts)
        self.readings += 1
        return None


DRIVER = """
import sys
from pathlib import Path
from typing import Any
from middleware.spark.schemas import schema_of
from middleware.spark.session import spark_session
from middleware.spark.stream import stream
from tests.system.test_spark_stream import SHARDS, Peaks, Reading, Streaks, Tallies, without_last_commit

folder = Path(sys.argv[1])
with spark_session(2) as spark:
    schema = schema_of(Reading).ddl + ", watermark bigint"
    readings = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    rows = stream(readings, [Peaks(), Streaks(), Tallies()], shards=SHARDS, lateness="1h", out="finals")
    writer = rows.writeStream.format("parquet").option("path", str(folder / "out")).outputMode("append")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    writer.start().awaitTermination()
    without_last_commit(folder)
    writer.start().awaitTermination()
"""


def prepared(folder: Path) -> list[Event]:
    """Readings in files, out of order across them; the last one ends the stream."""
    rng = random.Random(5)
    events: list[Event] = [
        Reading(rng.randrange(9), rng.random(), ts=rng.randrange(10**9), id=number, source="field")
        for number in range(FILES * ROWS)
    ]
    (folder / "in").mkdir()
    for part in range(FILES + 1):
        own = events[part * ROWS : (part + 1) * ROWS] or events[:7]  # the last file repeats some
        batch = schema_of(Reading).batch(own)
        columns = dict(zip(batch.schema.names, batch.columns, strict=True)) | {"watermark": pa.nulls(len(own), pa.int64())}
        table = pa.table(columns)
        if part == FILES:
            end = {name: [None] for name in table.column_names} | {"watermark": [END]}
            table = pa.concat_tables([table, pa.table(end, schema=table.schema)])
        file = folder / "in" / f"{part}.parquet"
        pq.write_table(table, file)
        os.utime(file, (1_700_000_000 + part, 1_700_000_000 + part))
    return events


def started(folder: Path) -> subprocess.Popen[str]:
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), *filter(None, sys.path)])}
    command = [sys.executable, "-c", DRIVER, str(folder)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def commits(folder: Path) -> list[Path]:
    """The log of micro-batches that were committed, from the first to the last."""
    return sorted((folder / "checkpoint" / "commits").glob("[0-9]*"), key=lambda file: int(file.name))


def without_last_commit(folder: Path) -> None:
    """As if the driver had died after it wrote the results of the last micro-batch, and before it committed them."""
    found = commits(folder)
    assert len(found) == FILES + 1
    found[-1].unlink()
    found[-1].with_name(f".{found[-1].name}.crc").unlink(missing_ok=True)


def committed(folder: Path) -> list[dict[str, Any]]:
    """The rows of all files that the sink has committed."""
    rows: list[dict[str, Any]] = []
    for epoch in sorted((folder / "out" / "_spark_metadata").glob("[0-9]*"), key=lambda file: int(file.name)):
        for line in epoch.read_text().splitlines()[1:]:
            rows += pq.read_table(json.loads(line)["path"].removeprefix("file://"), partitioning=None).to_pylist()
    return rows


def finals(folder: Path) -> list[Event]:
    """All that the sink holds, in total order."""
    rows = committed(folder)
    assert {row["op"] for row in rows} == {"final"}
    types = {"Peak": Peak, "Streak": Streak, "Tally": Tally}
    return sorted((msgspec.msgpack.decode(row["body"], type=types[str(row["type"])]) for row in rows), key=ORDER)


def expected(events: list[Event]) -> list[Event]:
    found = sorted(chain.from_iterable(oracle(events, [Peaks(), Streaks(), Tallies()]).values()), key=ORDER)
    assert len(found) > 20 and {type(event) for event in found} == {Peak, Streak, Tally}
    return found


def test_a_stream_whose_driver_is_killed_has_each_result_once(tmp_path: Path) -> None:
    events = prepared(tmp_path)
    process = started(tmp_path)
    deadline = time.monotonic() + DEADLINE
    while not [*(tmp_path / "checkpoint" / "state" / "0").glob("[0-9]/2.changelog")]:  # a shard's state after two micro-batches
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=DEADLINE)  # until its Java has ended, too, which holds the same pipe
    assert 0 < len(commits(tmp_path)) < FILES
    again = started(tmp_path)
    outputs = again.communicate(timeout=DEADLINE)
    assert again.returncode == 0, outputs
    assert len(commits(tmp_path)) == FILES + 1
    assert finals(tmp_path) == expected(events)
