"""Archives, and a stream, on a standalone cluster: what engine and oracle find, event by event, also if parts are killed."""

from __future__ import annotations

import json
import math
import os
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from datetime import time as dtime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import pyarrow as pa
import pyspark
import pytest

from middleware.model.detector import Detector
from middleware.model.errors import EventError, TraceError
from middleware.model.event import END, ORDER, Event, type_name
from middleware.recordings.traces import read_trace
from middleware.runtime.engine import run
from middleware.runtime.scenario import Scenario, load_scenario
from middleware.spark.archive import archive, stored_frames, trace_frames
from middleware.spark.archive.archive_plan import ArchivePlan
from middleware.spark.archive.files import EventFiles
from middleware.spark.archive.packing import parts_of
from middleware.spark.prepare.prepared import prepared_trace
from middleware.spark.schemas import schema_of
from middleware.spark.session import check_reachable, environment, spark_session
from middleware.spark.spark_hash import hash_of
from middleware.spark.stream import stream, typed
from middleware.spark.stream.parcels import ParcelBatch
from middleware.spark.stream.shard import SCHEMA, Shard
from middleware.spark.stream.stages import StreamPlan
from middleware.testing.oracle import oracle
from tests.system.spark_cluster import DEADLINE, SMALL, Cluster, settings, spark_cluster
from tests.system.test_spark_stream import (
    FILES,
    ROWS,
    SHARDS,
    Peak,
    Peaks,
    Reading,
    Streaks,
    Tallies,
    commits,
    expected,
    finals,
    prepared,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.system, pytest.mark.spark]


class Said(Event):
    words: str


@dataclass(frozen=True)
class Part:
    count: int


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def spark(cluster: Cluster) -> Iterator[SparkSession]:
    with environment(settings()), spark_session(master=cluster.master) as session:
        session.conf.set("spark.sql.shuffle.partitions", "2")
        session.conf.set("spark.sql.adaptive.enabled", "false")
        yield session


def raw_events(plan: Scenario, trace: Path) -> list[Event]:
    return [event for some in read_trace(trace, plan.types) for event in some]


def in_order(results: dict[str, list[Event]]) -> list[Event]:
    return sorted(chain.from_iterable(results.values()), key=ORDER)


def test_an_archive_equals_engine_and_oracle(spark: SparkSession, tmp_path: Path) -> None:
    plan = load_scenario("bookstore").lasting(400.0, None)
    trace = prepared_trace(plan, tmp_path)
    found = archive(trace_frames(spark, trace, [event_type for _, event_type in plan.types.items()]), plan.detectors)
    events = raw_events(plan, trace)
    expected = in_order(oracle(events, plan.detectors))
    assert len(expected) > 20
    assert found.collect() == expected
    live = run(events, plan.detectors)
    assert in_order(live.finals) == in_order(oracle(events, plan.detectors, live.late_identities()))
    theft = "shop.Theft"
    table = found[theft].toArrow()
    columns = {column: table.column(column).combine_chunks() for column in table.column_names}
    back = sorted(schema_of(plan.types[theft]).events(columns), key=ORDER)
    assert back == [event for event in expected if type(event) is plan.types[theft]]
    assert found.failures.count() == 0


@pytest.fixture
def tiny_batches(spark: SparkSession) -> Iterator[None]:
    """Tasks get 40 rows at a time."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = str(spark.conf.get(name))
    spark.conf.set(name, "40")
    yield
    spark.conf.set(name, before)


@pytest.mark.usefixtures("tiny_batches")
@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_files_of_all_formats_and_a_key_of_many_batches(spark: SparkSession, tmp_path: Path, form: str) -> None:
    events: list[Event] = [Reading(at % 7 and 1, at / 7, ts=at * 5 % 999, id=at, source="s") for at in range(300)]
    names = schema_of(Reading).arrow.names[:-1]
    rows = [tuple(getattr(event, name) for name in names) for event in events]
    frame = spark.createDataFrame(rows, schema_of(Reading).ddl.rpartition(",")[0])
    folder = f"file://{tmp_path}/type={type_name(Reading)}"
    frame.select(*reversed(names)).write.format(form).option("header", True).save(folder)
    frames = stored_frames(spark, f"file://{tmp_path}", [Reading], form)
    assert isinstance(frames[type_name(Reading)], EventFiles) == (form == "parquet")
    found = archive(frames, [Peaks()])
    assert found.collect() == in_order(oracle(events, [Peaks()]))
    assert found.clashes.count() == 0


@pytest.mark.parametrize("row", ["1,2.5,10,1,s,9", "1,2.5,10,1", "1,much,10,1,s"])
@pytest.mark.parametrize("other", ["", ",unread"])
def test_a_row_of_csv_that_does_not_fit_is_an_error(spark: SparkSession, tmp_path: Path, row: str, other: str) -> None:
    (folder := tmp_path / f"type={type_name(Reading)}").mkdir()
    (folder / "rows.csv").write_text(
        f"{','.join(schema_of(Reading).arrow.names[:-1])}{other}\n1,1.5,5,0,s{other}\n{row}{other}\n"
    )
    with pytest.raises(Exception, match=r"MALFORMED|Reading.value is a double, and this is none: much"):
        archive(stored_frames(spark, f"file://{tmp_path}", [Reading], "csv"), [Peaks()]).collect()


def test_a_value_of_csv_that_does_not_fit_is_an_error_also_where_casts_give_null(spark: SparkSession, tmp_path: Path) -> None:
    (folder := tmp_path / f"type={type_name(Reading)}").mkdir()
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", "false")
    for value in ("much", "12d", "0x1p3"):  # Java takes the others
        (folder / "rows.csv").write_text(f"sensor,value,ts,id,source\n1,{value},10,1,s\n")
        with pytest.raises(Exception, match=f"this is none: {value}"):
            stored_frames(session, f"file://{tmp_path}", [Reading], "csv")[type_name(Reading)].collect()
    (folder / "rows.csv").write_text("sensor,value,ts,id,source\n1,-1.5E+3,10,1,s\n1, .5,11,2,s\n1,NaN,12,3,s\n")
    rows = stored_frames(session, f"file://{tmp_path}", [Reading], "csv")[type_name(Reading)].collect()
    assert [repr(row.value) for row in rows] == ["-1500.0", "0.5", "nan"]


def test_texts_of_csv_have_quotes_as_others_write_them(spark: SparkSession, tmp_path: Path) -> None:
    (folder := tmp_path / f"type={type_name(Said)}").mkdir()
    (folder / "rows.csv").write_text(
        'words,ts,id,source\n"say ""hi"", now",1,1,s\nC:\\,2,2,s\n"C:\\",3,3,s\n"",4,4,s\n,5,5,s\n'
    )
    rows = stored_frames(spark, f"file://{tmp_path}", [Said], "csv")[type_name(Said)].collect()
    assert [row.words for row in rows] == ['say "hi", now', "C:\\", "C:\\", "", None]
    (folder / "rows.csv").write_text('words,ts,id,source\n"say \\"hi\\"",1,1,s\n')
    with pytest.raises(Exception, match=r"MALFORMED|FAILED_READ_FILE"):
        stored_frames(spark, f"file://{tmp_path}", [Said], "csv")[type_name(Said)].collect()


def test_files_that_spark_would_read_in_part_or_by_the_header_of_others_are_errors(spark: SparkSession, tmp_path: Path) -> None:
    (folder := tmp_path / f"type={type_name(Said)}").mkdir()

    def rows(form: str, **files: str) -> list[Any]:
        for path in folder.iterdir():
            path.unlink()
        for name, text in files.items():
            (folder / f"{name}.{form}").write_text(text)
        found = stored_frames(spark, f"file://{tmp_path}", [Said], form)[type_name(Said)]
        return sorted(tuple(row[name] for name in ("words", "ts", "id", "source")) for row in found.collect())

    one, other = ('{"words": "} {", "id": 1, "source": "s", "n": NaN, "ts": ' + f"{ts}}}" for ts in (1, 2))
    assert rows("json", a=f"{one}\n\n[{other}]\n") == [("} {", 1, 1, "s"), ("} {", 2, 1, "s")]
    for line in (one + other, f"{one} {other}", one + "x"):
        with pytest.raises(TraceError, match="this line is no JSON: Extra data"):
            rows("json", a=f"{one}\n{line}\n")
    for value in ("5", "true", '{"k": 1}'):
        with pytest.raises(TraceError, match=r"Said\.words is a text, and there is none in this line"):
            rows("json", a=one.replace('"} {"', value))
    head = "words,ts,id,source\na,1,1,s\n"
    assert rows("csv", a=head, b=head) == [("a", 1, 1, "s")] * 2
    pipe, mixed = '5" pipe', 'b\n"c"\r\n'
    assert rows("csv", a=head + '"b\n""c""\r\n",2,2,s\n', b=head + pipe + ",3,3,s\n") == sorted(
        [("a", 1, 1, "s"), ("a", 1, 1, "s"), (mixed, 2, 2, "s"), (pipe, 3, 3, "s")]
    )
    with pytest.raises(TraceError, match=r"a\.csv has a quote that is not closed: write one in a text twice"):
        rows("csv", a='ts,id,source,words\n1,1,s,"a\n2,2,s,b\n', b="ts,id,source,words\n")
    (folder / "a.csv").write_bytes((head + "é,2,2,s\n").encode("latin-1"))
    with pytest.raises(TraceError, match=r"type=\S*Said/a\.csv is not UTF-8: write it as UTF-8"):
        stored_frames(spark, f"file://{tmp_path}", [Said], "csv")
    with pytest.raises(Exception, match="header does not conform to the schema"):
        rows("csv", a=head, b="source,ts,id,words\ns,1,1,a\n")


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_a_folder_is_read_as_it_is_called_and_what_may_be_missing_may_miss_everywhere(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    where = tmp_path / "in[1]"
    (tmp_path / "in1").mkdir()  # which the name is a pattern for
    row = "true truth, 1L whole, 1.5D real, cast(NULL as string) text, cast(NULL as double) maybe, 1L ts, 1L id, 's' source"
    frame = spark.sql(f"SELECT {row}").coalesce(1)
    for rows in (frame, frame.limit(0)):  # of JSON, that is an object with less in it, and an empty file
        folder = f"file://{where}/type={type_name(Measured)}"
        rows.write.format(form).mode("overwrite").option("header", True).save(folder)
        found = archive(stored_frames(spark, str(where), [Measured], form), [Copies()])
        assert [event.ts for event in found.collect()] == [1, 1][: 2 * rows.count()]


def test_names_that_differ_in_upper_case_alone_are_refused_unless_spark_tells_them_apart(spark: SparkSession) -> None:
    class Caps(Event):
        ID: str

    class Relay(Detector):
        subscribes, publishes = (Said,), (Caps,)

        def on_event(self, event: Said) -> Caps:
            return Caps(event.words, ts=event.ts)

    class Ends(Relay):
        subscribes, publishes = (Caps,), (Said,)

    given = spark.createDataFrame([("a", 1, 1, "s")], schema_of(Said).ddl.rpartition(",")[0])
    for own, detectors in ((given, [Relay()]), (given.withColumnRenamed("words", "ID"), [Ends()])):
        with pytest.raises(EventError, match="Caps has id and ID, which are one name for Spark"):
            archive(own, detectors)
    session = spark.newSession()
    session.conf.set("spark.sql.caseSensitive", "true")
    same = session.createDataFrame([("a", 1, 1, "s")], given.schema)
    assert archive(same, [Relay()])["Caps"].collect()[0].ID == "a"


def test_the_stamp_columns_of_a_frame_are_no_fields_and_apply_to_all_rows(spark: SparkSession) -> None:
    from pyspark.sql import functions as sql

    rows = "sensor bigint, value double, ts bigint, id bigint, source string, arrival bigint"
    given = spark.createDataFrame([(1, 1.0, 10, 1, "s", None), (1, 2.0, 10, 1, "s", 3)], rows)
    with pytest.raises(Exception, match="Reading has a row without arrival"):
        archive(given, [Peaks()]).collect()
    for missing in ("id", "source"):  # where several types say when, it would be of none of them
        bare = given.fillna(5).withColumn(missing, sql.lit(None).cast(dict(given.dtypes)[missing]))
        with pytest.raises(Exception, match=f"Reading has a row without {missing}"):
            archive(bare, [Peaks()]).collect()
    for name in ("arrival", "watermark"):
        for kind, hint in {"timestamp": rf"; write unix_micros\({name}\) \* 1000", "double": "$"}.items():
            times = given.withColumn(name, given.ts.cast(kind))
            with pytest.raises(EventError, match=f"Reading: {name} is {kind}, but what says when is ns as bigint{hint}"):
                archive(times, [Peaks()])

    class Flight(Event):
        arrival: int

    class Flights(Detector):
        subscribes, publishes = (Flight,), ()

        def on_event(self, event: Flight) -> None:
            """It finds nothing."""

    given = spark.createDataFrame([(1, 10, 1, "s")], "arrival bigint, ts bigint, id bigint, source string")
    with pytest.raises(EventError, match="Flight has a field arrival, by which a DataFrame says when"):
        archive(given, [Flights()])


def test_each_part_has_a_partition(spark: SparkSession) -> None:
    parts = parts_of(37)
    rows = spark.createDataFrame([(number,) for number in parts], "number int").selectExpr("hash(number) AS at")
    assert [row.at for row in rows.collect()] == list(map(hash_of, parts)) == list(range(37))


def test_different_events_with_one_identity_are_reported(spark: SparkSession) -> None:
    rows = [(1, 1.0, 10, 1, "s"), (1, 2.0, 20, 1, "s"), (1, 3.0, 30, 2, "s"), (1, 3.0, 30, 2, "s"), (1, 4.0, 40, 3, "s")]
    given = spark.createDataFrame(rows, "sensor bigint, value double, ts bigint, id bigint, source string")
    found = archive(given, [Peaks()]).clashes.collect()
    assert [(row.source, row.id, row.types, sorted(row.times)) for row in found] == [("s", 1, [type_name(Reading)], [10, 20])]
    again = given.union(spark.createDataFrame([(1, 5.0, 40, 3, "s")], given.schema))
    with pytest.raises(Exception, match="two different events have source 's', id 3 and ts 40"):
        archive(again, [Peaks()]).collect()


class Clock(Event):
    at: Annotated[datetime, msgspec.Meta(tz=True)]
    since: dtime
    of: Part


class Hour(Event):
    hour: int
    count: int


class Hours(Detector):
    subscribes, publishes = (Clock,), (Hour,)

    def on_event(self, event: Clock) -> Hour:
        return Hour(event.at.hour, event.of.count, ts=event.ts)


def test_times_are_what_they_are_in_any_zone_and_exact_repeats_count_once(spark: SparkSession) -> None:
    noon = datetime(2024, 1, 1, 12, tzinfo=UTC)
    events = [Clock(noon, dtime(1, 2), Part(n), ts=n, id=n, source="s") for n in (1, 2, 2)]
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        frame = spark.createDataFrame(pa.Table.from_batches([schema_of(Clock).batch(events)]))
        found = archive({Clock: frame}, [Hours()]).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert [(event.hour, event.count) for event in found] == [(12, 1), (12, 2)]


def test_of_different_events_that_arrive_at_one_moment_the_same_one_counts_however_they_are_read(spark: SparkSession) -> None:
    rows = [(5, 1, float(value), 10, 1, "s") for value in range(8)]
    schema = "arrival bigint, sensor bigint, value double, ts bigint, id bigint, source string"
    orders = (rows[at:] + rows[:at] for at in range(0, 8, 2))
    counted = [archive(spark.createDataFrame(order, schema), [Peaks()]).raw_events() for order in orders]
    assert all(events == counted[0] for events in counted)


def test_the_command_runs_under_spark_submit(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("from middleware.cli.main import main\n\nmain()\n")
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    given = ["archive", "bookstore", "--seconds", "100", "--check", "--json", "report.json", "--out", "of [shop]"]
    done = subprocess.run(
        [str(submit), "--master", "local[2]", *SMALL, "job.py", *given],
        cwd=tmp_path,
        env=os.environ | settings(),
        capture_output=True,
        text=True,
        timeout=5 * DEADLINE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    printed = json.loads((tmp_path / "report.json").read_text())  # spark-submit sends both outputs of a job to standard output
    assert printed["oracle_equal"] is True and sum(printed["results"].values()) > 5
    assert printed["out"] == "of [shop]" and [*(tmp_path / printed["out"]).glob("*/*.parquet")]
    assert not [*tmp_path.glob(".*")], "no part of it is left under another name"


class Held(Peaks):
    """Stands still at one reading, until a file lets it continue."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = folder

    def on_event(self, reading: Reading) -> Peak | None:
        folder, deadline = Path(self.folder), time.monotonic() + DEADLINE
        while reading.id == ROWS + 1 and not Path(folder, "go").exists() and time.monotonic() < deadline:
            Path(folder, "stands").touch()
            time.sleep(0.01)
        return super().on_event(reading)


def test_executors_are_killed_while_a_stream_runs(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    events = prepared(tmp_path)
    schema = schema_of(Reading).ddl + ", watermark bigint"
    readings = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(f"file://{tmp_path}/in")
    detectors = {"Peaks": Held(str(tmp_path)), "Streaks": Streaks(), "Tallies": Tallies()}
    rows = stream(readings, detectors, shards=SHARDS, lateness="1h", out="finals")
    writer = rows.writeStream.format("parquet").option("path", f"file://{tmp_path}/out").outputMode("append")
    query = writer.option("checkpointLocation", f"file://{tmp_path}/checkpoint").trigger(availableNow=True).start()
    try:
        deadline = time.monotonic() + DEADLINE
        while not (tmp_path / "stands").exists():
            assert query.isActive and time.monotonic() < deadline, query.exception()
            time.sleep(0.01)
        cluster.kill_executors()
        assert 0 < len(commits(tmp_path)) < FILES + 1
        (tmp_path / "go").touch()
        assert query.awaitTermination(int(DEADLINE))
    finally:
        query.stop()
    assert finals(tmp_path) == expected(events)


def test_a_worker_is_killed_while_an_archive_runs(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    plan = load_scenario("bookstore").lasting(200.0, None)
    trace = prepared_trace(plan, tmp_path)
    found = archive(trace_frames(spark, trace, [event_type for _, event_type in plan.types.items()]), plan.detectors)
    stages = spark.sparkContext.statusTracker()
    with ThreadPoolExecutor(1) as pool:
        collected = pool.submit(found.collect)
        deadline = time.monotonic() + DEADLINE
        while not (active := stages.getActiveStageIds()):
            assert not collected.done() and time.monotonic() < deadline
            time.sleep(0.01)
        first = min(active)
        while max(stages.getActiveStageIds(), default=0) < first + 4:  # some stages are done, and kept on both workers
            assert not collected.done() and time.monotonic() < deadline
            time.sleep(0.01)
        cluster.kill_worker()
        assert not collected.done()
        results = collected.result(DEADLINE)
    expected = in_order(oracle(raw_events(plan, trace), plan.detectors))
    assert len(expected) > 10
    assert results == expected


def test_a_master_that_nobody_is_at_is_named() -> None:
    with pytest.raises(TraceError, match=r"no Spark answers at spark://127\.0\.0\.9:9"):
        check_reachable("spark://127.0.0.9:9")


class Measured(Event):
    whole: int
    real: float
    text: str | None
    maybe: float | None
    truth: bool


class Copied(Measured):
    pass


class Listed(Event):
    many: list[float | None]


class Copies(Detector):
    """Publishes what it reads, and its numbers once more in a list, which is no plain column."""

    subscribes, publishes = (Measured,), (Copied, Listed)

    def on_event(self, event: Measured) -> list[Event]:
        own = Copied(event.whole, event.real, event.text, event.maybe, event.truth, ts=event.ts)
        return [own, Listed([event.real, event.maybe], ts=event.ts)]


def test_rows_of_a_stream_are_typed_exactly(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    reals = [0.1 + 0.2, -0.0, 5e-324, 1.7976931348623157e308, math.nan, math.inf, -math.inf, 1e22, 123456789.123456789]
    wholes, texts = [2**63 - 1, -(2**63), 0], [None, "", "null", 'é\u0000"\\\n{', "NaN", "1"]
    events: list[Event] = [
        Measured(whole, real, text, maybe, number % 2 == 0, ts=number, id=number, source="s")
        for number, (whole, real, text, maybe) in enumerate(
            zip(wholes * 6, reals * 2, texts * 3, [None, *reals] * 2, strict=False), 1
        )
    ]
    assert len(events) == 18
    came = Shard(StreamPlan.of(ArchivePlan.of([Copies()]), 1, 0, finals=True), 0).take(ParcelBatch(events, watermark=END))
    rows = spark.createDataFrame([row for row in came if row.op == "final"], SCHEMA)
    for event_type in (Copied, Listed):
        own = msgspec.msgpack.Decoder(event_type)
        decoded = [own.decode(row.body) for row in came if row.type == type_name(event_type)]
        found = typed(rows, event_type)
        capsys.readouterr()
        found.explain()
        assert ("MapInArrow" in capsys.readouterr().out) == (event_type is Listed)
        batch = schema_of(event_type).batch(decoded)
        assert len(decoded) == 18
        assert repr(found.orderBy("ts").toArrow().to_pylist()) == repr(batch.to_pylist())


def test_a_number_that_no_column_holds_is_reported(spark: SparkSession) -> None:
    came = Shard(StreamPlan.of(ArchivePlan.of([Copies()]), 1, 0, finals=True), 0).take(
        ParcelBatch([Measured(2**63, 1.0, "", None, True, ts=1, id=1, source="s")], watermark=END)
    )
    rows = spark.createDataFrame(came, SCHEMA)
    with pytest.raises(Exception, match="MALFORMED_RECORD_IN_PARSING"):
        typed(rows, Copied).collect()
