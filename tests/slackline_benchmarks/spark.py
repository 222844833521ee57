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

from middleware.cli.bench import Entry
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
    """``spark.archive``: events/s, against applyInPandas over the same Parquet; ``spark.archive.core``: events/s a core,
    against the engine in this process. All sides count their results, and the counts must be equal. Then ``spark.stream``,
    ``spark.stream.state`` and ``spark.source``.
    """
    from slackline_benchmarks.spark_source import spark_source
    from slackline_benchmarks.spark_state import state_written
    from slackline_benchmarks.spark_stream import spark_stream

    from middleware.spark.archive import archive
    from middleware.spark.session import spark_session

    ours: list[float] = []
    hand: list[float] = []
    core: list[float] = []
    with tempfile.TemporaryDirectory(prefix="slackline-bench-") as folder, spark_session(CORES, "2g") as spark:
        table = _events(events)
        frame = _written(spark, Path(folder), table)
        for _ in range(rounds + 1):  # the first warms up
            counts: list[int] = []
            hand.append(_rate(events, lambda: counts.append(_by_hand(frame).count())))  # noqa: B023
            ours.append(_rate(events, lambda: counts.append(archive(frame, [Alarms()])["Alarm"].count())))  # noqa: B023
            assert counts[0] == counts[1] > 0, counts
        core.append(_engine(frame, min(events, 200_000)))
        stream = spark_stream(spark, table, rounds)
        source = spark_source(spark, rounds=rounds)
    ours, hand = ours[1:], hand[1:]
    ratios = [one / other for one, other in zip(ours, hand, strict=True)]
    alone = median(core)
    return [
        Entry(name="spark.archive", value=median(ours), unit="events/s", baseline=median(hand), ratio=median(ratios)),
        Entry(
            name="spark.archive.core",
            value=median(ours) / CORES,
            unit="events/s",
            baseline=alone,
            ratio=median(ours) / CORES / alone,
        ),
        stream,
        state_written(),
        source,
    ]


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

    pq.write_table(table, folder / "values.parquet", row_group_size=100_000)
    return spark.read.parquet(str(folder / "values.parquet"))


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
