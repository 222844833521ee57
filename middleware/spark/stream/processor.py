"""What executors do in a stream: raw events are encoded and hashed to shards; a shard takes those of a micro-batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from middleware.model.event import NEVER
from middleware.spark.schemas import schema_of
from middleware.spark.stream.shard import Row, Shard, StreamPlan
from middleware.spark.travel import unpacked

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

HASHED = "shard int, type int, body binary, watermark bigint"


class HashRaw:
    """Encodes the events of one raw type, and hashes them to shards; a row with a ``watermark`` goes to all of them."""

    def __init__(self, plan: bytes, type_number: int) -> None:
        self._plan, self._type = plan, type_number

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        plan: StreamPlan = unpacked(self._plan)
        schema, encode = schema_of(plan.plan.types[self._type]), msgspec.msgpack.Encoder().encode
        for batch in batches:
            marks: list[int] = []
            if "watermark" in batch.schema.names:
                column = batch.column("watermark")
                marks = column.drop_null().to_pylist()
                batch = batch.filter(column.is_null())
            events = schema.events(dict(zip(batch.schema.names, batch.columns, strict=True)))
            whole = [(shard, max(marks)) for shard in range(plan.shards)] if marks else []
            columns = [
                pa.array([*map(plan.shard_of, events), *(shard for shard, _ in whole)], pa.int32()),
                pa.array([self._type] * len(events) + [-1] * len(whole), pa.int32()),
                pa.array([*map(encode, events), *([b""] * len(whole))], pa.binary()),
                pa.array([NEVER] * len(events) + [mark for _, mark in whole], pa.int64()),
            ]
            yield pa.RecordBatch.from_arrays(columns, ["shard", "type", "body", "watermark"])


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
        decoders = [msgspec.msgpack.Decoder(event_type).decode for event_type in plan.plan.types]
        shard = Shard(plan, int(key[0]))
        if self._base.exists():
            buckets = {bucket[0]: bytes(blob[0]) for bucket, blob in self._lanes.iterator()}
            shard.restore(bytes(self._base.get()[0]), buckets)
        events, watermark = [], NEVER
        for frame in rows:
            watermark = max(watermark, int(frame["watermark"].max()))
            pairs = zip(frame["type"].tolist(), frame["body"].tolist(), strict=True)
            events += [decoders[number](bytes(body)) for number, body in pairs if number >= 0]
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
