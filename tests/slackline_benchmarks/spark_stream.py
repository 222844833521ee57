"""``spark.stream``: a keyed detector inside Structured Streaming, beside applyInPandasWithState as one writes it by hand.

Both read the same files, one a micro-batch, and keep their results in memory; the counts must be equal. By hand, events must
come in order across micro-batches, as they do here: it sorts within each, and has no identities. ``spark.stream.state``: the
bytes of a shard's state that a micro-batch writes, beside the whole state as one blob.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from slackline_benchmarks.spark_events import KEYS, Alarms, Value

from middleware.cli.bench import Entry
from middleware.model.event import END

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

FILES = 4
SHARDS = 2
STORE = "spark.sql.streaming.stateStore.providerClass"


def spark_stream(spark: SparkSession, table: pa.Table, folder: Path, rounds: int) -> list[Entry]:
    """Measure both; ``table`` holds the events, in any order. The first round warms up."""
    ours: list[float] = []
    hand: list[float] = []
    _write(table, folder)
    for number in range(rounds + 1):
        counts = [_run(spark, _by_hand, folder, f"hand{number}", hand, table.num_rows)]
        counts.append(_run(spark, _ours, folder, f"ours{number}", ours, table.num_rows))
        assert counts[0] == counts[1] > 0, counts
    ratio = median(one / other for one, other in zip(ours[1:], hand[1:], strict=True))
    speed = Entry(name="spark.stream", value=median(ours[1:]), unit="events/s", baseline=median(hand[1:]), ratio=ratio)
    return [speed, state_written()]


def _write(table: pa.Table, folder: Path) -> None:
    """The events in order of time, in equal files; the last one ends with the end of the stream."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = table.sort_by("ts").append_column("watermark", pa.nulls(table.num_rows, pa.int64()))
    end = pa.table({name: [END if name == "watermark" else None] for name in table.column_names}, schema=table.schema)
    size = -(-table.num_rows // FILES)
    for number in range(FILES):
        part = table.slice(number * size, size)
        pq.write_table(pa.concat_tables([part, end]) if number == FILES - 1 else part, folder / f"{number}.parquet")


def _run(spark: SparkSession, made: Any, folder: Path, name: str, rates: list[float], events: int) -> int:
    """One query over all files; returns the number of its results."""
    schema = "sensor bigint, value double, ts bigint, id bigint, source string, watermark bigint"
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
    rows: DataFrame = made(spark, frame)
    writer = rows.writeStream.format("memory").queryName(name).outputMode("append").trigger(availableNow=True)
    began = time.perf_counter()
    writer.start().awaitTermination()
    rates.append(events / (time.perf_counter() - began))
    return spark.table(name).count()


def _ours(spark: SparkSession, frame: DataFrame) -> DataFrame:
    from slackline_benchmarks.spark_events import Alarm

    from middleware.spark.stream import stream, typed

    return typed(stream(frame, [Alarms()], shards=SHARDS, lateness="1s", out="finals"), Alarm)


def _by_hand(spark: SparkSession, frame: DataFrame) -> DataFrame:
    from pyspark.sql.streaming.state import GroupStateTimeout

    spark.conf.unset(STORE)
    found, kept = "sensor bigint, above double, ts bigint", "mean double"
    rows = frame.where("watermark is null").groupBy("sensor")
    return rows.applyInPandasWithState(alarms_by_hand, found, kept, "append", GroupStateTimeout.NoTimeout)


def alarms_by_hand(key: tuple[int], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """The same for one sensor, as one writes it."""
    import pandas as pd

    (mean,) = state.get if state.exists else (50.0,)
    frame = pd.concat(frames).sort_values(["ts", "source", "id"])
    found = []
    for value, ts in zip(frame["value"], frame["ts"], strict=True):
        above = value - mean
        mean += 0.1 * above
        if above > 30:
            found.append((key[0], above, ts))
    state.update((mean,))
    yield pd.DataFrame(found, columns=["sensor", "above", "ts"])


def state_written(keys: int = 10 * KEYS, touched: int = 100) -> Entry:
    """Bytes that a shard of ``keys`` keys writes when a micro-batch touches ``touched`` of them; without Spark."""
    from middleware.spark.archive.plan import Plan
    from middleware.spark.stream.shard import Shard, StreamPlan

    plan = StreamPlan(Plan.of([Alarms()]), "sensor", SHARDS, 0, finals=True)
    rng = random.Random(1)
    shard = Shard(plan, 0)
    shard.take([Value(key, 50.0, ts=key, id=key, source="a") for key in range(keys)])
    base, buckets = shard.state()
    written: list[int] = []
    whole = 0
    for batch in range(1, 6):
        shard = Shard(plan, 0)
        shard.restore(base, buckets)
        start = batch * 10 * keys
        some = enumerate(rng.sample(range(keys), touched))
        shard.take([Value(key, 50.0, ts=start + at, id=start + at, source="a") for at, key in some])
        base, changed = shard.state()
        buckets = {bucket: data for bucket, data in (buckets | changed).items() if data}
        whole = len(base) + sum(map(len, buckets.values()))
        written.append(len(base) + sum(map(len, changed.values())))
    value = float(median(written[1:]))  # what is read for the first time is written once more
    return Entry(name="spark.stream.state", value=value, unit="bytes", baseline=float(whole), ratio=whole / value)
