"""Lets Spark do a little of all that tests let it do, so that Java can keep what it has loaded: see ``share_classes.sh``.

Needs nothing of Slackline, whose core is still being compiled when this runs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession


def same(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, SparkSession.builder.getOrCreate() as spark:
        rows = spark.range(2_000).selectExpr("id", "id % 7 AS key", "cast(id AS string) AS text", "id * 0.5D AS x")
        rows.write.parquet(f"{folder}/parquet")
        rows.write.json(f"{folder}/json")
        rows.write.csv(f"{folder}/csv", header=True)
        read = spark.read.parquet(f"{folder}/parquet")
        mapped = read.repartitionByRange(2, "key").sortWithinPartitions("key", "id").mapInArrow(same, read.schema)
        assert mapped.groupBy("key").sum("x").orderBy("key").toArrow().num_rows == 7
        assert spark.read.schema(read.schema).json(f"{folder}/json").count() == 2_000
        assert spark.read.csv(f"{folder}/csv", header=True).selectExpr("max(x)").count() == 1
        stream = spark.readStream.schema(read.schema).parquet(f"{folder}/parquet")
        query = stream.writeStream.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
        assert query.start(f"{folder}/copy", format="parquet").awaitTermination(300)


if __name__ == "__main__":
    main()
