"""``spark.stream.state``: the bytes of a shard's state that a micro-batch writes, beside the whole state as one blob."""

from __future__ import annotations

import random
from statistics import median

from slackline_benchmarks.spark_events import KEYS, Alarms, Value

from middleware.cli.checks.bench import Entry


def state_written(keys: int = 10 * KEYS, touched: int = 100) -> Entry:
    """Bytes that a shard of ``keys`` keys writes when a micro-batch touches ``touched`` of them; without Spark."""
    from middleware.spark.archive.archive_plan import ArchivePlan
    from middleware.spark.stream.parcels import ParcelBatch
    from middleware.spark.stream.shard import Shard
    from middleware.spark.stream.stages import StreamPlan

    plan = StreamPlan.of(ArchivePlan.of([Alarms()]), 1, 0, finals=True)
    rng = random.Random(1)
    shard = Shard(plan, 0)
    shard.take(ParcelBatch([Value(key, 50.0, ts=key, id=key, source="a") for key in range(keys)]))
    base, buckets = shard.state()
    written: list[int] = []
    whole = 0
    for batch in range(1, 6):
        shard = Shard(plan, 0)
        shard.restore(base, buckets)
        start = batch * 10 * keys
        some = enumerate(rng.sample(range(keys), touched))
        shard.take(ParcelBatch([Value(key, 50.0, ts=start + at, id=start + at, source="a") for at, key in some]))
        base, changed = shard.state()
        buckets = {bucket: data for bucket, data in (buckets | changed).items() if data}
        whole = len(base) + sum(map(len, buckets.values()))
        written.append(len(base) + sum(map(len, changed.values())))
    value = float(median(written[1:]))  # what is read for the first time is written once more
    return Entry(name="spark.stream.state", value=value, unit="bytes", baseline=float(whole), ratio=whole / value)
