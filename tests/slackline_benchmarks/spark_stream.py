"""``spark.stream``: a keyed detector inside Structured Streaming, beside applyInPandasWithState as one writes it by hand.

Both read the same files, one a micro-batch, and keep their results in memory; the counts must be equal. By hand, events must
come in order across micro-batches, as they do here: it sorts within each, and has no identities.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from slackline_benchmarks.spark_events import Alarm, Alarms

from middleware.cli.checks.bench import Entry
from middleware.model.event import END

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

FILES, ROWS = 10, 50_000
SHARDS = 2


def spark_stream(spark: SparkSession, table: pa.Table, rounds: int) -> Entry:
    """Events/s of the micro-batches after the first, in turn; ``table``: at least the events of all files, in any order."""
    ours: list[float] = []
    hand: list[float] = []
    with tempfile.TemporaryDirectory(prefix="slackline-bench-") as folder:
        _write(table.slice(0, FILES * ROWS), Path(folder))
        for number in range(rounds + 1):  # the first warms up
            counts = [_run(spark, _by_hand, folder, f"hand{number}", hand), _run(spark, _ours, folder, f"ours{number}", ours)]
            assert counts[0] == counts[1] > 0, counts
    ratio = median(one / other for one, other in zip(ours[1:], hand[1:], strict=True))
    note = "the start of the query and its first micro-batch do not count"
    return Entry(
        name="spark.stream", value=median(ours[1:]), unit="events/s", baseline=median(hand[1:]), ratio=ratio, note=note
    )


def _write(table: pa.Table, folder: Path) -> None:
    """The events in order of time, in equal files; the last one ends with the end of the stream."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = table.sort_by("ts").append_column("watermark", pa.nulls(len(table), pa.int64()))
    end = pa.table({name: [END if name == "watermark" else None] for name in table.column_names}, schema=table.schema)
    for number in range(FILES):
        part = table.slice(number * ROWS, ROWS)
        pq.write_table(pa.concat_tables([part, end]) if number == FILES - 1 else part, folder / f"{number}.parquet")


def _run(spark: SparkSession, made: Callable[[DataFrame], DataFrame], folder: str, name: str, rates: list[float]) -> int:
    """One query over all files; returns the number of its results."""
    schema = "sensor bigint, value double, ts bigint, id bigint, source string, watermark bigint"
    rows = made(spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(folder))
    writer = rows.writeStream.format("memory").queryName(name).outputMode("append").trigger(availableNow=True)
    query = writer.start()
    query.awaitTermination()
    batches = [progress for progress in query.recentProgress if progress["numInputRows"]][1:]
    assert len(batches) == FILES - 1
    rates.append(1000 * (FILES - 1) * ROWS / sum(progress["durationMs"]["triggerExecution"] for progress in batches))
    return spark.table(name).count()


def _ours(frame: DataFrame) -> DataFrame:
    from middleware.spark.stream import stream, typed

    return typed(stream(frame, [Alarms()], shards=SHARDS, lateness="10ms", out="finals"), Alarm)


def _by_hand(frame: DataFrame) -> DataFrame:
    from pyspark.sql.streaming.state import GroupStateTimeout

    found, kept = "sensor bigint, above double, ts bigint", "mean double"
    frame.sparkSession.conf.unset("spark.sql.streaming.stateStore.providerClass")  # ours sets RocksDB, which costs it more
    rows = frame.where("watermark is null").groupBy("sensor")
    return rows.applyInPandasWithState(alarms_by_hand, found, kept, "append", GroupStateTimeout.NoTimeout)


def alarms_by_hand(key: tuple[int], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """The same for one sensor, as one writes it who cares for speed."""
    import pandas as pd

    (mean,) = state.get if state.exists else (50.0,)
    parts = list(frames)
    frame = pd.concat(parts) if len(parts) > 1 else parts[0]
    columns = [frame[name].tolist() for name in ("ts", "source", "id", "value")]
    found = []
    for ts, _, _, value in sorted(zip(*columns, strict=True)):  # of 50 rows: sort_values takes several times as long
        above = value - mean
        mean += 0.1 * above
        if above > 30:
            found.append((key[0], above, ts))
    state.update((mean,))
    if found:
        yield pd.DataFrame(found, columns=["sensor", "above", "ts"])
