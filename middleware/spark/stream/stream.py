"""``stream``: detectors over streaming DataFrames; their changes, or their final results, come out as rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Literal

from middleware.model.detector import Detector
from middleware.model.event import EventType, type_name
from middleware.model.quantities import Duration, duration_of
from middleware.spark.archive.archive_frames import by_type, check_names
from middleware.spark.archive.archive_plan import ArchivePlan
from middleware.spark.archive.decoding import TypedBodies
from middleware.spark.by_value import dump_by_value, make_portable
from middleware.spark.schemas import STAMP, ddl, schema_of
from middleware.spark.stream.parcels import PARCEL
from middleware.spark.stream.shard import SCHEMA
from middleware.spark.stream.stages import StreamPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""The state store that ``transformWithState`` needs."""

_CHANGES = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
"""Whether a micro-batch writes what has changed, and not all files of RocksDB: it takes a tenth less."""

_READ_BY_SPARK = ("bigint", "double", "string", "boolean")
"""Types of columns whose values Spark reads from JSON just as they are."""


def stream(
    frames: DataFrame | Mapping[str, DataFrame] | Mapping[EventType, DataFrame],
    detectors: Iterable[Detector] | Mapping[str, Detector],
    *,
    shards: int = 1,
    lateness: Duration = "1s",
    out: Literal["changes", "finals"] = "changes",
) -> DataFrame:
    """Run ``detectors`` over streams of raw events inside Structured Streaming; returns rows of ``shard.SCHEMA``.

    ``frames``
        streaming DataFrames as ``archive`` takes them. Rows with a value in a column ``watermark`` (bigint, ns), if there is
        one, are promises for all frames, whichever they come in: no event of any type at or below it will come, in any
        shard; ``event.END`` ends the stream. Without any, a result is final ``lateness`` behind the newest event of the
        stream; what comes later than that is in rows ``late``.
    ``shards``
        into how many parts events are hashed by a detector's key. Detectors whose keys have a field in common share them;
        those without, and those without a key (one shard), get theirs in a stage of their own above those that they read:
        see ``explain``. 1: all detectors in one shard. It cannot change over a checkpoint.
    ``out``
        "changes": insert, revise, retract as they come, and watermarks; "finals": each final result once. Both: what came too
        late, and what detectors failed at.

    For one shard, rows come in the order of the changes, which is what ``op`` means anything in; identities are the live ones.
    Checkpointed by Spark: into a sink that is exactly once (Parquet, Delta) each row comes once. In a micro-batch, each shard
    reads its whole state, and writes its base and the buckets of lanes that have changed. Each stage is a stateful operator,
    with a shuffle before it: all of them see a micro-batch through.

    Raises EventError if frames do not fit, DetectorError if no detector has a key to make ``shards`` by.
    """
    plan = ArchivePlan.of(detectors)
    whole = StreamPlan.of(plan, shards, duration_of(lateness, "lateness"), out == "finals")
    code = dump_by_value(whole)
    from middleware.spark.stream.processor import HashRaw, StageProcessor

    given = frames if isinstance(frames, Mapping) else {type_name(plan.raw[0]): frames} if len(plan.raw) == 1 else frames
    checked = by_type(plan, given)
    parts = []
    for event_type, frame in checked.items():
        hashed = HashRaw(code, plan.types.index(event_type))
        parts.append(frame.drop("arrival").mapInArrow(make_portable(hashed), PARCEL))
    rows = reduce(lambda one, other: one.unionByName(other), parts)
    session = rows.sparkSession
    session.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    if session.conf.get(_CHANGES, None) is None:
        session.conf.set(_CHANGES, "true")
    for stage in range(1, whole.stages + 1):
        made = SCHEMA if stage == whole.stages else PARCEL
        rows = rows.groupBy("shard").transformWithStateInPandas(StageProcessor(code, stage), made, "append", "none")
    return rows


def explain(detectors: Iterable[Detector] | Mapping[str, Detector], shards: int) -> list[str]:
    """The stages that ``stream`` runs, in lines: which detectors are together, by which field, in how many shards.

    Raises DetectorError if detectors cannot be run in as many.
    """
    return list(StreamPlan.of(ArchivePlan.of(detectors), shards, 0, True).explain())


def typed(rows: DataFrame, event_type: EventType) -> DataFrame:
    """The rows of one type, as events in columns of their own: of changes or finals that came out of ``stream``.

    Numbers, texts and truth values Spark reads by itself; for types with other fields it needs another look by Python.
    """
    from pyspark.sql import functions as sql

    schema = schema_of(event_type)
    check_names(schema, rows.sparkSession)
    found = rows.where(f"type = '{type_name(event_type)}' and op in ('insert', 'revise', 'final')")
    own = schema.columns[: -len(STAMP)]
    if own and all(column.kind.ddl in _READ_BY_SPARK and not (column.kind.out or column.kind.back) for column in own):
        fields = sql.from_json("fields", ddl(own), {"mode": "FAILFAST"})
        return found.select(fields.alias("own"), *STAMP).select("own.*", *STAMP)
    return found.select("body").mapInArrow(make_portable(TypedBodies(dump_by_value(event_type))), schema.ddl)
