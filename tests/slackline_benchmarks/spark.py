"""``slackline bench spark``: an archive beside what a Spark user would write by hand, and beside the engine on one core;
streams (``spark_stream``) and their state (``spark_state``); and the log of a node beside Parquet (``spark_source``).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from slackline_benchmarks.spark_events import KEYS, Alarms, Value

from middleware.cli.checks.bench import Entry
from middleware.model.event import type_name
from middleware.ordering.policies import Policies

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

EVENTS = 2_000_000
CORES = 2


def by_hand(frame: pd.DataFrame) -> pd.DataFrame:
    """The same for one sensor, as one writes it for applyInPandas."""
    import pandas as pd

    mean, found = 50.0, []
    frame = frame.sort_values(["ts", "source", "id"])
    for sensor, value, ts in zip(frame["sensor"], frame["value"], frame["ts"], strict=True):
        above = value - mean
        mean += 0.1 * above
        if above > 30:
            found.append((sensor, above, ts))
    return pd.DataFrame(found, columns=["sensor", "above", "ts"])


def bench_spark(rounds: int, events: int = EVENTS) -> list[Entry]:
    """``spark.archive``: events/s over Parquet files, against applyInPandas over the same; ``spark.archive.frame``: the same
    with any DataFrame, which Spark reads; ``spark.archive.core``: events/s a core, against the engine in this process. All
    sides count their results, and the counts must be equal. Then ``spark.stream``, ``spark.stream.state`` and
    ``spark.source``.
    """
    from slackline_benchmarks.spark_source import spark_source
    from slackline_benchmarks.spark_state import state_written
    from slackline_benchmarks.spark_stream import spark_stream

    from middleware.spark.archive import archive, stored_frames
    from middleware.spark.session import spark_session

    files: list[float] = []
    framed: list[float] = []
    hand: list[float] = []
    with tempfile.TemporaryDirectory(prefix="slackline-bench-") as folder, spark_session(CORES, "2g") as spark:
        table = _events(events)
        frame = _written(spark, Path(folder), table)
        stored = stored_frames(spark, folder, [Value])
        for _ in range(rounds + 1):  # the first warms up
            counts: list[int] = []
            hand.append(_rate(events, lambda: counts.append(_by_hand(frame).count())))  # noqa: B023
            framed.append(_rate(events, lambda: counts.append(archive(frame, [Alarms()])["Alarm"].count())))  # noqa: B023
            files.append(_rate(events, lambda: counts.append(archive(stored, [Alarms()])["Alarm"].count())))  # noqa: B023
            assert counts[0] == counts[1] == counts[2] > 0, counts
        alone = _engine(frame, min(events, 200_000))
        stream = spark_stream(spark, table, rounds)
        source = spark_source(spark, rounds=rounds)
    core = median(files[1:]) / CORES
    return [
        _beside("spark.archive", files, hand),
        _beside("spark.archive.frame", framed, hand),
        Entry(name="spark.archive.core", value=core, unit="events/s", baseline=alone, ratio=core / alone),
        stream,
        state_written(),
        source,
    ]


def _beside(name: str, ours: list[float], hand: list[float]) -> Entry:
    """Rates after the first, beside those by hand."""
    ratio = median(one / other for one, other in zip(ours[1:], hand[1:], strict=True))
    return Entry(name=name, value=median(ours[1:]), unit="events/s", baseline=median(hand[1:]), ratio=ratio)


def _events(events: int) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    rng = np.random.default_rng(1)
    ids = np.arange(events)
    columns: dict[str, Any] = {
        "sensor": rng.integers(0, KEYS, events),
        "value": rng.normal(50, 15, events),
        "ts": ids * 1_000 + rng.integers(0, 100_000, events),
        "id": ids,
        "source": pa.DictionaryArray.from_arrays(pa.array(ids % 4, pa.int32()), ["a", "b", "c", "d"]).cast(pa.string()),
    }
    return pa.table(columns)


def _written(spark: SparkSession, folder: Path, table: pa.Table) -> DataFrame:
    import pyarrow.parquet as pq

    (folder / f"type={type_name(Value)}").mkdir()
    file = folder / f"type={type_name(Value)}" / "values.parquet"
    pq.write_table(table, file, row_group_size=100_000)
    return spark.read.parquet(str(file))


def _by_hand(frame: DataFrame) -> DataFrame:
    return frame.groupBy("sensor").applyInPandas(by_hand, "sensor bigint, above double, ts bigint")


def _rate(events: int, work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return events / (time.perf_counter() - began)


def _engine(frame: DataFrame, events: int) -> float:
    """Events/s of the engine in this process, in order, without speculation."""
    from middleware.runtime.engine import run
    from middleware.spark.schemas import schema_of

    table = frame.limit(events).toArrow().combine_chunks()
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    came = schema_of(Value).events(columns)
    return _rate(len(came), lambda: run(came, [Alarms()], policies=Policies(alpha=1.0)))
