"""What executors do in a stream: raw events are hashed to shards, in blocks; a shard takes those of a micro-batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from middleware.model.event import NEVER, Event
from middleware.spark.blocks import batch_of, columns_of, opened, parted, sealed
from middleware.spark.schemas import schema_of
from middleware.spark.stream.shard import Row, Shard, StreamPlan
from middleware.spark.travel import unpacked

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

HASHED = "shard int, type int, block binary, watermark bigint"

_ROWS = 16_384
"""The most events in one cell."""


class HashRaw:
    """Hashes the events of one raw type to shards, in blocks; a row with a ``watermark`` goes to all of them."""

    def __init__(self, plan: bytes, type_number: int) -> None:
        self._plan, self._type = plan, type_number

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        plan: StreamPlan = unpacked(self._plan)
        schema = schema_of(plan.plan.types[self._type])
        hashed = pa.schema([("shard", pa.int32()), ("type", pa.int32()), ("block", pa.binary()), ("watermark", pa.int64())])
        for batch in batches:
            rows: list[tuple[int, int, bytes, int]] = []
            if "watermark" in batch.schema.names:
                column = batch.column("watermark")
                if column.null_count < len(column):
                    most = max(column.drop_null().to_pylist())
                    rows = [(shard, -1, b"", most) for shard in range(plan.shards)]
                batch = batch.filter(column.is_null()).drop_columns(["watermark"])
            for shard, own in parted(batch, plan.shards_of(schema, batch)):
                for start in range(0, len(own), _ROWS):
                    rows.append((shard, self._type, sealed(own.slice(start, _ROWS)), NEVER))
            yield batch_of(rows, hashed)


class ShardProcessor(StatefulProcessor):
    """A shard for each group of rows; its state is in Spark's store, which commits it with the micro-batch."""

    def __init__(self, plan: bytes) -> None:
        self._plan = plan

    def init(self, handle: Any) -> None:
        self._base = handle.getValueState("base", "blob binary")
        self._lanes = handle.getMapState("lanes", "bucket int", "blob binary")

    def handleInputRows(self, key: tuple[int], rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        import pandas as pd

        plan: StreamPlan = unpacked(self._plan)
        schemas = [schema_of(event_type) for event_type in plan.plan.types]
        shard = Shard(plan, int(key[0]))
        if self._base.exists():
            buckets = {bucket[0]: bytes(blob[0]) for bucket, blob in self._lanes.iterator()}
            shard.restore(bytes(self._base.get()[0]), buckets)
        events: list[Event] = []
        watermark = NEVER
        for frame in rows:
            watermark = max(watermark, int(frame["watermark"].max()))
            for number, block in zip(frame["type"].tolist(), frame["block"].tolist(), strict=True):
                if number >= 0:
                    events += schemas[number].events(columns_of(opened(bytes(block))))
        out = shard.take(events, watermark)
        base, changed = shard.state()
        self._base.update((base,))
        for bucket, data in changed.items():
            if data:
                self._lanes.updateValue((bucket,), (data,))
            else:
                self._lanes.removeKey((bucket,))
        yield pd.DataFrame(out, columns=list(Row._fields))

    def close(self) -> None:
        """Nothing is open."""
