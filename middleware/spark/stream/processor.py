"""The tasks of executors in a stream: raw events are hashed to shards; these take, stage by stage, what a micro-batch has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from middleware.durability.state_encoding import uncollected
from middleware.model.event import NEVER
from middleware.spark.by_value import load_by_value
from middleware.spark.spark_blocks import batch_of
from middleware.spark.spark_hash import hash_of, number_with_hash
from middleware.spark.stream.parcels import Parcel, arrived, of_raw, of_results, of_rows, of_times, rows_in
from middleware.spark.stream.shard import OutputRow, Shard
from middleware.spark.stream.stages import StreamPlan

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


class HashRaw:
    """Hashes the events of one raw type to shards, in blocks; each task that has rows tells every shard what time it is."""

    def __init__(self, plan: bytes, type_number: int) -> None:
        self._plan, self._type = plan, type_number

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyarrow import compute

        plan: StreamPlan = load_by_value(self._plan)
        small, whole = pa.int32(), pa.int64()
        kinds = [small, small, small, small, pa.binary(), whole, whole]
        schema = pa.schema(zip(Parcel._fields, kinds, strict=True))
        watermark = clock = NEVER
        some = False
        for batch in batches:
            some = some or len(batch) > 0
            if "watermark" in batch.schema.names:
                column = batch.column("watermark")
                watermark = max(watermark, compute.max(column).as_py() if column.null_count < len(column) else NEVER)
                batch = batch.filter(column.is_null()).drop_columns(["watermark"])
            if batch.column("ts").null_count < len(batch):
                clock = max(clock, compute.max(batch.column("ts")).as_py())
            yield batch_of(_addressed(of_raw(plan, self._type, batch)), schema)
        if some:
            yield batch_of(_addressed(of_times(plan, watermark, clock)), schema)


class StageProcessor(StatefulProcessor):
    """A stage: a shard for each group of parcels, whose state is in Spark's store, which commits it with the micro-batch.

    Parcels for higher stages, and rows of the output, pass through; out of the highest stage come rows.
    """

    def __init__(self, plan: bytes, stage: int) -> None:
        self._plan, self._stage = plan, stage

    def init(self, handle: Any) -> None:
        from pyspark.sql.types import StructType

        blob = StructType().add("blob", "binary")  # Java would have to be asked what a text means
        self._base = handle.getValueState("base", blob)
        self._lanes = handle.getMapState("lanes", StructType().add("bucket", "long"), blob)  # "int" while shards had other keys

    def handleInputRows(self, key: tuple[int], rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        plan: StreamPlan = load_by_value(self._plan)
        number, is_last = hash_of(int(key[0])), self._stage == plan.stages
        if number < 0 and is_last:
            yield _frame(rows_in(_parcels(rows)), OutputRow)
        elif number < 0 or plan.group_of(number).stage > self._stage:
            yield from rows
        else:
            with uncollected():
                shard = self._taken_up(plan, number)
                out = shard.take(arrived(plan, _parcels(rows)))
                self._put_away(shard)
            if is_last:
                yield _frame(out, OutputRow)
            else:
                sent = of_results(plan, number, shard.published, shard.watermarks)
                yield _frame(_addressed([*sent, *of_rows(number, out)]), Parcel)

    def _taken_up(self, plan: StreamPlan, number: int) -> Shard:
        shard = Shard(plan, number)
        if (base := self._base.get()) is not None:
            buckets = {bucket[0]: bytes(blob[0]) for bucket, blob in self._lanes.iterator()}
            shard.restore(bytes(base[0]), buckets)
        return shard

    def _put_away(self, shard: Shard) -> None:
        base, changed = shard.state()
        self._base.update((base,))
        for bucket, data in changed.items():
            if data:
                self._lanes.updateValue((bucket,), (data,))
            else:
                self._lanes.removeKey((bucket,))

    def close(self) -> None:
        """Nothing is open."""


def _addressed(parcels: Iterable[Parcel]) -> list[Parcel]:
    """Parcels with the numbers of their shards by which Spark puts these into as many partitions as it can."""
    return [parcel._replace(shard=number_with_hash(parcel.shard)) for parcel in parcels]


def _parcels(rows: Iterable[pd.DataFrame]) -> Iterator[Parcel]:
    for frame in rows:
        for shard, origin, number, kind, block, *times in zip(*(frame[name].tolist() for name in Parcel._fields), strict=True):
            yield Parcel(shard, origin, number, kind, bytes(block), *times)


def _frame(rows: Iterable[Any], kind: type[OutputRow] | type[Parcel]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(list(rows), columns=list(kind._fields))
