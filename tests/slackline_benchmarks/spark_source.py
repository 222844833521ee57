"""``spark.source``: rows per second that Spark reads from the log of a node, beside the same events read from Parquet.

A part of ``slackline bench spark``: both are written to Spark's ``noop`` sink, so every column of every row is made.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from slackline_benchmarks.feed import broker

from middleware.cli.checks.bench import Entry
from middleware.model.errors import SlacklineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEMA = (
    "op string, sensor bigint, x double, y double, z double, vx double, vy double, vz double, ax double, ay double, az double, "
    "ts bigint, id bigint, source string, level bigint"
)

_NODE = """
import sys
from pathlib import Path
from middleware.runtime.node import Node
from middleware.runtime.storage.store import Store
node = Node("bench", "tcp://127.0.0.1:*", store=Store(Path(sys.argv[1]), "bench"))
print(node.address, flush=True)
node.run()
"""


def spark_source(spark: SparkSession, seconds: float = 3.0, rounds: int = 3) -> Entry:
    """Feed a made-up recording (34,000 events a second, 10 fields) into a node with a log; read it both ways."""
    from middleware.recordings.readers import open_recording
    from middleware.recordings.traces import type_folder
    from middleware.spark.feed.feed import feed
    from middleware.spark.prepare.prepare import prepare
    from middleware.spark.source import register

    register(spark)
    logged: list[float] = []
    stored: list[float] = []
    with tempfile.TemporaryDirectory(prefix="slackline-bench-") as folder, broker(_NODE, str(Path(folder, "state"))) as address:
        trace = Path(folder, "trace")
        made = prepare(open_recording([], generate="slackline_benchmarks.feed:positions", seconds=seconds), trace, spark=spark)
        feed(trace, address, speed=None, spark=spark)
        reader = spark.read.format("slackline").schema(_SCHEMA).options(type="bench.Position", consistency="early")
        from_log = reader.load(address)
        if (rows := from_log.count()) != made.events:
            raise SlacklineError(f"the log has {rows} rows of {made.events}")
        from_parquet = spark.read.parquet(str(type_folder(trace, "bench.Position")))
        for _ in range(rounds + 1):
            logged.append(made.events / _timed(from_log.write.format("noop").mode("overwrite").save))
            stored.append(made.events / _timed(from_parquet.write.format("noop").mode("overwrite").save))
    value, baseline = median(logged[1:]), median(stored[1:])  # the first is for warming up
    return Entry(name="spark.source", value=value, unit="rows/s", baseline=baseline, ratio=value / baseline)


def _timed(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began
