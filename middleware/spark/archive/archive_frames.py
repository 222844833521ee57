"""Raw events as an archive takes them: DataFrames with the columns of their types, each event once, routed to detectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from middleware.model.errors import EventError
from middleware.model.event import EventType, type_name
from middleware.model.words import listed
from middleware.spark.archive.archive_plan import ArchivePlan
from middleware.spark.archive.files import EventFiles
from middleware.spark.archive.packing import PACKED, PackRaw, parts_by_columns
from middleware.spark.by_value import make_portable
from middleware.spark.schemas import EventSchema, check_kind, schema_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    RawFrames = DataFrame | EventFiles | Mapping[str, DataFrame | EventFiles] | Mapping[EventType, DataFrame | EventFiles]
    """Raw events: of a single type, or by type, or by its name."""


_WHEN = ("arrival", "watermark")
"""Columns besides those of the type: when an event arrived; in a stream, what is promised."""


def by_type(plan: ArchivePlan, frames: RawFrames) -> dict[EventType, DataFrame]:
    """The frames by raw type, checked, with just the columns of the type, and ``arrival`` where there is one.

    Raises EventError if a type that detectors read is missing, if one is given that none reads, or if columns do not fit.
    """
    given = _by_name(plan, frames)
    raw = {type_name(event_type): event_type for event_type in plan.raw}
    if missing := [name for name in raw if name not in given]:
        raise EventError(f"no DataFrame for {', '.join(missing)}, which detectors read; there are {listed(given) or 'none'}")
    if stray := [name for name in given if name not in raw]:
        raise EventError(f"a DataFrame of {stray[0]}, which is no raw type that detectors read: they read {listed(raw)}")
    return {raw[name]: _checked(schema_of(raw[name]), _frame(frame)) for name, frame in given.items()}


def files_by_type(plan: ArchivePlan, frames: RawFrames) -> dict[EventType, EventFiles]:
    """Those of them that tasks read by themselves."""
    given = {name: each for name, each in _by_name(plan, frames).items() if isinstance(each, EventFiles)}
    return {event_type: given[type_name(event_type)] for event_type in plan.raw if type_name(event_type) in given}


def _by_name(plan: ArchivePlan, frames: RawFrames) -> dict[str, DataFrame | EventFiles]:
    if isinstance(frames, Mapping):
        return {key if isinstance(key, str) else type_name(key): frame for key, frame in frames.items()}
    if len(plan.raw) != 1:
        raise EventError(f"these detectors read {', '.join(map(type_name, plan.raw))}: give a dict of DataFrames by type")
    return {type_name(plan.raw[0]): frames}


def _frame(given: DataFrame | EventFiles) -> DataFrame:
    return given.frame if isinstance(given, EventFiles) else given


def _checked(schema: EventSchema, frame: DataFrame) -> DataFrame:
    """The frame with the columns of its type, ``level`` only if it has one, and what says when: ``arrival``, ``watermark``."""
    from pyspark.sql import functions as sql

    check_names(schema, frame.sparkSession)
    if taken := [column.name for column in schema.columns if column.name in _WHEN]:
        raise EventError(
            f"{schema.name} has a field {taken[0]}, by which a DataFrame says when: in Spark, give it another name"
        )
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema.fields if field.name in _WHEN}
    for name, kind in kinds.items():  # as numbers, times are whole seconds
        check_kind(kind, name, "bigint", f"the DataFrame of {schema.name}", "what says when is ns as")
    when = {name: sql.col(name).cast("bigint") for name in kinds}

    def given(column: Column, name: str, kind: str, or_none: str = "") -> Column:
        missing = sql.raise_error(sql.lit(f"{schema.name} has a row without {name}: every event must have one{or_none}"))
        return sql.coalesce(column, missing.cast(kind))

    if "arrival" in when:  # or a row without one would be the first of all
        when["arrival"] = given(when["arrival"], "arrival", "bigint", ", or none")
    also = [column.alias(name) for name, column in when.items()]
    found = schema.check(frame, f"the DataFrame of {schema.name}", also)
    if "arrival" in when:  # the first of each identity is looked for: what has none would be of no type, and gone
        for name, kind in (("id", "bigint"), ("source", "string")):
            found = found.withColumn(name, given(sql.col(name), name, kind))
    return found


def check_names(schema: EventSchema, session: SparkSession) -> None:
    """Raise EventError if Spark takes two columns of a type for one: for it, names differ in more than upper and lower case."""
    if session.conf.get("spark.sql.caseSensitive") == "true":
        return
    known: dict[str, str] = {}
    for column in schema.columns:
        if (other := known.setdefault(column.name.lower(), column.name)) != column.name:
            raise EventError(
                f"{schema.name} has {column.name} and {other}, which are one name for Spark: name one of them otherwise, or "
                "set spark.sql.caseSensitive to true"
            )


def first_arrivals(frames: dict[EventType, DataFrame]) -> dict[EventType, DataFrame]:
    """Each (source, id) once, of whatever type: the first to arrive counts, where frames say when (``arrival``).

    A shuffle by identity. Where frames do not say when, all that comes twice must be equal, and costs nothing: see ``Decoder``.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    timed = [event_type for event_type, frame in frames.items() if "arrival" in frame.columns]
    if not timed:
        return frames
    frames, identity = dict(frames), ("source", "id")
    if len(timed) > 1:
        each = [frames[t].select(*identity, "arrival", sql.lit(at).alias("_type")) for at, t in enumerate(timed)]
        whole = each[0]
        for other in each[1:]:
            whole = whole.union(other)
        firsts = whole.groupBy(*identity).agg(sql.min(sql.struct("arrival", "_type")).alias("_first"))
        for at, t in enumerate(timed):
            own = firsts.where(sql.col("_first._type") == at).select(*identity)
            frames[t] = frames[t].join(own, [*identity], "left_semi")
    for t in timed:  # of two that arrived at one moment, always the same one counts, however the rows are read
        order = Window.partitionBy(*identity).orderBy("arrival", "ts", _content(t))
        ranked = frames[t].withColumn("_rank", sql.row_number().over(order))
        frames[t] = ranked.where("_rank = 1").drop("_rank")
    return frames


def clashes(frames: Mapping[EventType, DataFrame]) -> DataFrame:
    """The identities under which different events were given: source, id, and the types and times (``ts``) that came.

    Contents are compared by a hash of 64 bits. A shuffle by identity, of 40 bytes an event.
    """
    from pyspark.sql import functions as sql

    each = [
        frame.select("source", "id", "ts", sql.lit(type_name(event_type)).alias("type"), _content(event_type).alias("_content"))
        for event_type, frame in frames.items()
    ]
    whole = each[0]
    for other in each[1:]:
        whole = whole.union(other)
    found = whole.groupBy("source", "id").agg(
        sql.collect_set("type").alias("types"),
        sql.collect_set("ts").alias("times"),
        sql.min("_content").alias("_least"),
        sql.max("_content").alias("_most"),
    )
    return found.where("_least <> _most").select("source", "id", "types", "times")


def _content(event_type: EventType) -> Column:
    """A hash of all that makes an event of this type, but for where it comes from."""
    from pyspark.sql import functions as sql

    columns = [column for column in schema_of(event_type).columns if column.name not in ("id", "source", "level")]
    plain = [sql.col(f"`{column.name}`") for column in columns if "map<" not in column.kind.ddl]
    maps = [sql.to_json(sql.struct(f"`{column.name}`")) for column in columns if "map<" in column.kind.ddl]  # maps have no hash
    present = [sql.col(f"`{column.name}`").isNotNull() for column in columns if column.nullable]  # nor have nulls
    return sql.xxhash64(sql.lit(type_name(event_type)), *plain, *maps, *present)


def routed(
    plan: ArchivePlan,
    code: bytes,
    event_type: EventType,
    rows: DataFrame | EventFiles,
    readers: Sequence[int],
    parts: Sequence[int],
) -> tuple[list[DataFrame], list[DataFrame]]:
    """The events of a raw type in blocks for these readers of one level: those of which none can fail, and others.

    Keys that columns hold are computed by column; others are asked for event by event, and may raise.
    """
    schema, number = schema_of(event_type), plan.types.index(event_type)
    if not isinstance(rows, EventFiles):
        rows = rows.drop("arrival", "watermark")
    by_column = [reader for reader in readers if parts_by_columns(plan, schema, reader)]
    others = [reader for reader in readers if reader not in by_column]
    sure, unsure = (
        [rows.mapInArrow(make_portable(PackRaw(code, number, some, parts)), PACKED)] if some else []
        for some in (by_column, others)
    )
    return sure, unsure
