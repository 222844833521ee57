"""``archive``: a whole hierarchy of detectors over DataFrames of raw events; its results are DataFrames by type.

One stage a level: rows are shuffled by detector and key, sorted by the total order, and run in order. Nothing is early there,
so nothing is taken back; identities are those of the live run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import TYPE_CHECKING

from middleware.model.detector import Detector
from middleware.model.errors import EventError
from middleware.model.event import ORDER as TOTAL_ORDER
from middleware.model.event import Event, EventType, type_name
from middleware.model.words import listed
from middleware.ordering.policies import Policies
from middleware.spark.archive.archive_frames import by_type, check_names, clashes, files_by_type, first_arrivals, routed
from middleware.spark.archive.archive_plan import ArchivePlan
from middleware.spark.archive.archive_tasks import RunLanes
from middleware.spark.archive.decoding import FailureRows, TypedResults, events_of
from middleware.spark.archive.packing import FAILURE, PACKED, RESULT, parts_of
from middleware.spark.by_value import dump_by_value, make_portable
from middleware.spark.schemas import schema_of
from middleware.spark.spark_blocks import opened

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from middleware.spark.archive.archive_frames import RawFrames

ORDER = ("ts", "level", "source", "id")
"""The columns by which events are in total order."""

_WRITERS = 8
"""How many types are written at a time: what a job costs beside its tasks takes one core of the driver, and little of it."""

_ONE_TASK_ROWS = 100_000
"""Results that one task sorts; more are partitioned by time, for which Spark reads them twice."""


class Archive(Mapping[str, "DataFrame"]):
    """The results of an archive: a DataFrame for each derived type, by its name, in no particular order.

    They are computed when Spark is asked for them (with adaptive execution, earlier), and kept until nobody refers to them.

    ``failures``
        the events that were skipped because a detector, or its key, raised at them: detector, type, ts, id, source, why.
    ``clashes``
        the identities under which different raw events were given: source, id, types, times. With a column ``arrival`` the
        first of them counts; without it, those with equal keys and times end the job, and the others all count.
    """

    def __init__(
        self, plan: ArchivePlan, given: dict[EventType, DataFrame], levels: list[DataFrame], refused: list[DataFrame]
    ) -> None:
        self._given = given
        self.plan = plan
        self._levels = levels
        self._packed = dump_by_value(plan)
        self._refused = refused

    def __getitem__(self, name: str) -> DataFrame:
        for event_type in self.plan.published:
            if type_name(event_type) == name:
                return self._of(event_type)
        raise EventError(f"no detector publishes {name!r}; they publish {listed(map(type_name, self.plan.published))}")

    def __iter__(self) -> Iterator[str]:
        return map(type_name, self.plan.published)

    def __len__(self) -> int:
        return len(self.plan.published)

    def _of(self, event_type: EventType) -> DataFrame:
        number = self.plan.types.index(event_type)
        rows = [
            self._levels[level - 1].where(f"detector = {RESULT} and type = {number}")
            for level in self.plan.published[event_type]
        ]
        return _union(rows).mapInArrow(make_portable(TypedResults(dump_by_value(event_type))), schema_of(event_type).ddl)

    def collect(self) -> list[Event]:
        """All results, of all types, in total order, in this process: for archives that fit into its memory. One job."""
        rows = _union([frame.where(f"detector = {RESULT}").select("type", "block") for frame in self._levels]).toArrow()
        found: list[Event] = []
        for number, block in zip(rows.column("type").to_pylist(), rows.column("block").to_pylist(), strict=True):
            found += events_of(self.plan.types[number], opened(block))
        return sorted(found, key=TOTAL_ORDER)

    def counts(self) -> dict[str, int]:
        """The number of results of each type. One job."""
        rows = _union([frame.where(f"detector = {RESULT}").select("type", "rows") for frame in self._levels])
        found = {row["type"]: row["sum(rows)"] for row in rows.groupBy("type").sum("rows").collect()}
        return {type_name(t): found.get(self.plan.types.index(t), 0) for t in self.plan.published}

    def write(self, folder: str) -> dict[str, int]:
        """Write each type as Parquet in total order, to ``folder/type=NAME``: a path or an address that Spark can write.

        Returns the number of results of each type. One job that makes them all, then jobs for each type, several at a time.
        """
        counts = self.counts()  # types that are written beside each other would each make what all rest on
        pool = ThreadPoolExecutor(_WRITERS, thread_name_prefix="spark-write")
        try:
            for done in [pool.submit(self._write, each, folder, counts[type_name(each)]) for each in self.plan.published]:
                done.result()
        finally:
            pool.shutdown(cancel_futures=True)
        return counts

    def _write(self, event_type: EventType, folder: str, rows: int) -> None:
        frame = self._of(event_type)
        ordered = frame.coalesce(1).sortWithinPartitions(*ORDER) if rows <= _ONE_TASK_ROWS else frame.orderBy(*ORDER)
        ordered.write.parquet(f"{folder}/type={type_name(event_type)}")

    @property
    def failures(self) -> DataFrame:
        """The events that were skipped. Empty, if detectors are sound."""
        rows = _union([frame.where(f"detector = {FAILURE}") for frame in (*self._refused, *self._levels)])
        failed = rows.mapInArrow(make_portable(FailureRows(self._packed)), FailureRows.FAILED)
        return failed.dropDuplicates(["detector", "source", "id"])  # keys are asked for before repeats are skipped

    @property
    def clashes(self) -> DataFrame:
        """See above. Looking for them is a shuffle of all raw events by identity."""
        return clashes(self._given)

    def raw_events(self) -> list[Event]:
        """The raw events, in no particular order, in this process; without ``arrival``, repeats are among them."""
        found: list[Event] = []
        for event_type, frame in first_arrivals(self._given).items():
            for batch in frame.toArrow().to_batches():
                found += schema_of(event_type).events(dict(zip(batch.schema.names, batch.columns, strict=True)))
        return found

    def explain(self, rows: Mapping[str, int] | None = None) -> list[str]:
        """The stages with their detectors, in lines; ``rows``: numbers of raw events by type, for what it costs."""
        return self.plan.explain(rows)


def archive(
    frames: RawFrames,
    detectors: Iterable[Detector] | Mapping[str, Detector],
    *,
    policies: Policies | Mapping[str, Policies] | None = None,
) -> Archive:
    """Run ``detectors`` over raw events in Spark, wherever the frames live; returns their results as DataFrames by type.

    ``frames``
        the raw events of each type that detectors read (a single frame will do for a single type): the fields of the type,
        ``ts`` (bigint, ns), ``id`` (bigint), ``source`` (string). With a column ``arrival``, the first arrival of a (source,
        id) counts, as it does live; without it, events that come twice must be equal (see ``Archive.clashes``). Or what
        ``trace_frames`` and ``stored_frames`` give: then tasks read files by themselves where they can.
    ``policies``
        as nodes have them; only ``failing`` matters here.

    The results are those of nodes and of the oracle over the same events, identities included. Detectors with a key run in as
    many tasks as Spark has for them, one lane at a time in each, in the memory of one lane; a detector without a key runs in
    one. Each stage shuffles and sorts its input, spilling to disk. Raises EventError if frames do not fit, DetectorError if
    detectors do not.
    """
    plan = ArchivePlan.of(detectors, _stopping(policies, detectors))
    checked, files = by_type(plan, frames), files_by_type(plan, frames)
    for event_type in plan.published:
        check_names(schema_of(event_type), next(iter(checked.values())).sparkSession)
    given = first_arrivals(checked)
    code, parts = dump_by_value(plan), _parts(given)
    levels: list[DataFrame] = []
    refused: list[DataFrame] = []
    for level, stage in enumerate(plan.stages, 1):
        blocks: list[DataFrame] = []
        for event_type, frame in given.items():
            if readers := [number for number in plan.readers[event_type] if number in stage]:
                sure, unsure = routed(plan, code, event_type, files.get(event_type, frame), readers, parts)
                blocks += sure + unsure
                refused += unsure
        blocks += [frame for below, frame in enumerate(levels, 1) if plan.feeds(below, level)]
        mine = _union(blocks).where(f"detector between {stage[0]} and {stage[-1]}")
        ordered = mine.repartition("part")
        if len(stage) > 1:
            ordered = ordered.sortWithinPartitions("detector")
        levels.append(_kept(ordered.mapInArrow(make_portable(RunLanes(code, parts)), PACKED)))
    return Archive(plan, checked, levels, refused)


def _parts(given: dict[EventType, DataFrame]) -> list[int]:
    """The parts into which the lanes of a stage go: as many as Spark has partitions, of which it may join small ones."""
    session = next(iter(given.values())).sparkSession
    return parts_of(int(session.conf.get("spark.sql.shuffle.partitions")))  # type: ignore[arg-type]


def _kept(frame: DataFrame) -> DataFrame:
    """The frame with its rows kept and its plan forgotten: plans that hold those below twice would grow as 2 to the level.

    In the folder ``spark.checkpoint.dir`` names, if there is one; else on the disks of two executors, so that one may be lost.
    """
    from pyspark import StorageLevel

    if frame.sparkSession.conf.get("spark.checkpoint.dir", None):
        return frame.checkpoint(eager=False)
    return frame.localCheckpoint(eager=False, storageLevel=StorageLevel.DISK_ONLY_2)


def _union(frames: list[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


def _stopping(
    policies: Policies | Mapping[str, Policies] | None, detectors: Iterable[Detector] | Mapping[str, Detector]
) -> list[str]:
    """The names of the detectors that stop where they raise."""
    from middleware.model.identity import named

    each = policies if isinstance(policies, Mapping) else {"": policies or Policies()}
    return [name for name in named(detectors) if each.get(name, each.get("", Policies())).failing == "stop"]
