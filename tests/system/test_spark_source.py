"""``format("slackline")``: Spark reads the log of a node once and exactly, and publishes each row once."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from pyspark.errors import StreamingQueryException

from middleware.link.codec import encode
from middleware.model.errors import SlacklineError
from middleware.model.event import Event, EventTypes
from middleware.runtime.clients import Publisher, Subscriber
from middleware.runtime.clients.inquiry import Inquiry
from middleware.runtime.clients.log_reader import extent
from middleware.runtime.storage.store import Store
from middleware.spark.session import spark_session
from middleware.spark.source import register
from middleware.spark.source.batch import LogBatchReader, LogRange
from middleware.spark.source.source_options import parse
from tests.system.test_log_reader import DEADLINE, DISORDERED, TICKS, Rise, Tick, durable_node, published
from tests.system.test_network import node_thread

pytestmark = [pytest.mark.system, pytest.mark.spark]


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    with spark_session(2) as session:
        register(session, [Tick, Rise])
        yield session


def rises() -> list[tuple[int, int]]:
    price, found = 0, []
    for tick in TICKS:
        if tick.price > price:
            found.append((tick.ts, tick.price - price))
        price = tick.price
    return found


def stream(spark: Any, address: str, kind: str, folder: Path, **options: Any) -> int:
    """Run a query over what the node has now, into Parquet; returns its number of batches with rows."""
    reader = spark.readStream.format("slackline").options(type=kind, name=f"sql-{kind}", **options)
    query = (
        reader.load(address)
        .writeStream.option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "rows"), format="parquet")
    )
    assert query.awaitTermination(DEADLINE)
    return sum(progress["numInputRows"] > 0 for progress in query.recentProgress)


def test_a_batch_has_all_that_the_log_holds(spark: Any, tmp_path: Path) -> None:
    with durable_node(tmp_path) as node:
        published(node, DISORDERED)
        read = spark.read.format("slackline").option("consistency", "early")
        frame = read.option("type", "Tick").load(node.address)
        assert frame.columns == ["op", "price", "ts", "id", "source", "level"]
        assert [(row.op, row.id, row.price) for row in frame.collect()] == [("insert", e.id, e.price) for e in DISORDERED]
        schema = "op string, price bigint, ts bigint, id bigint, source string, level bigint"
        own = spark.read.format("slackline").options(type="Tick", consistency="early").schema(schema).load(node.address)
        assert own.groupBy("source").sum("price").collect()[0][1] == sum(tick.price for tick in TICKS)


def test_a_stream_resumes_where_its_checkpoint_ends_and_gives_each_final_once(spark: Any, tmp_path: Path) -> None:
    with durable_node(tmp_path / "node") as node:
        assert stream(spark, node.address, "Rise", tmp_path) == 0  # from now on, the node keeps what it wants
        published(node, DISORDERED[:500])
        assert stream(spark, node.address, "Rise", tmp_path, maxEventsPerTrigger=100) > 1
        assert 0 < spark.read.parquet(str(tmp_path / "rows")).count() < len(rises())
    with durable_node(tmp_path / "node") as node:  # another life of the node
        published(node, DISORDERED[500:], end=True)
        stream(spark, node.address, "Rise", tmp_path, maxEventsPerTrigger=70)
    rows = spark.read.parquet(str(tmp_path / "rows")).orderBy("ts").collect()
    assert [(row.ts, row.by) for row in rows] == rises()


def test_a_batch_that_failed_is_read_again_as_it_was(spark: Any, tmp_path: Path) -> None:
    seen: dict[int, list[list[tuple[int, int]]]] = {}
    fails = [2]  # batches

    def take(frame: Any, number: int) -> None:
        seen.setdefault(number, []).append([(row.ts, row.by) for row in frame.orderBy("ts").collect()])
        if number in fails:
            fails.clear()
            raise RuntimeError("the driver dies here")

    def run(address: str) -> Any:
        options = {"type": "Rise", "name": "again", "startingOffsets": "earliest", "maxEventsPerTrigger": "60"}
        reader = spark.readStream.format("slackline").options(**options)
        writer = reader.load(address).writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        return writer.foreachBatch(take).trigger(availableNow=True).start()

    with durable_node(tmp_path / "node") as node:
        extent(node.address, Rise, resume="again")
        published(node, DISORDERED, end=True)
        with pytest.raises(StreamingQueryException, match="the driver dies here"):
            run(node.address).awaitTermination(DEADLINE)
        assert run(node.address).awaitTermination(DEADLINE)
    assert len(seen[2]) == 2
    assert seen[2][0] == seen[2][1] != []
    assert [row for number in sorted(seen) for row in seen[number][-1]] == rises()


def test_a_stream_is_published_into_a_node(spark: Any, tmp_path: Path) -> None:
    with durable_node(tmp_path / "one") as one, durable_node(tmp_path / "two") as two:
        published(one, DISORDERED)
        options = {"type": "Tick", "name": "copy", "startingOffsets": "earliest", "consistency": "early"}
        ticks = spark.readStream.format("slackline").options(**options).load(one.address).drop("op")
        made = ticks.selectExpr("price * 2 as price", "ts + 1000000000000 as ts")  # later than all that was promised
        for frame, name, source in ((ticks, "given", {}), (made, "made", {"source": "doubled"})):
            writer = frame.writeStream.format("slackline").options(type="Tick", path=two.address, **source)
            query = writer.option("checkpointLocation", str(tmp_path / name)).trigger(availableNow=True).start()
            assert query.awaitTermination(DEADLINE)
        read = spark.read.format("slackline").options(type="Tick", consistency="early").load(two.address)
        found = {(row.source, row.id): row.price for row in read.collect()}
    assert {key: price for key, price in found.items() if key[0] == "exchange"} == {(e.source, e.id): e.price for e in TICKS}
    assert sorted(price for key, price in found.items() if key[0] != "exchange") == sorted(2 * e.price for e in TICKS)
    assert len(found) == 2 * len(TICKS)


def batch(address: str, **options: str) -> tuple[LogRange, list[dict[str, Any]]]:
    """The range that a batch reads, and its rows, in this process."""
    reader = LogBatchReader(parse({"path": address, "type": "Rise", **options}, {"Rise": Rise}))
    (part,) = reader.partitions()
    return part, [row for rows in reader.read(part) for row in rows.to_pylist()]


@pytest.mark.parametrize("consistency", ["early", "final"])
def test_a_batch_of_a_log_with_a_gap_begins_behind_it_and_warns(tmp_path: Path, consistency: str) -> None:
    with durable_node(tmp_path) as node:
        extent(node.address, Rise, resume="sql")
        published(node, TICKS[:400])
        with Inquiry(node.address) as inquiry:
            inquiry.release(["sql"])
            assert not inquiry.ask(DEADLINE).vitals.log.readers  # type: ignore[union-attr]
        published(node, TICKS[400:600])  # nobody reads what follows from these, so no log has it
        extent(node.address, Rise, resume="sql")
        published(node, TICKS[600:], end=True)
        with pytest.warns(UserWarning, match=r"lacks changes of Rise up to offset (\d+).*startingOffsets") as caught:
            _, rows = batch(node.address, consistency=consistency)
        expected = [(ts, by) for ts, by in rises() if ts > TICKS[599].ts]
        if consistency == "final":  # what was final before the gap is right
            expected = [rise for rise in rises() if rise[0] in {row["ts"] for row in rows}]
            assert expected[-1] == rises()[-1] and len(expected) >= sum(ts > TICKS[599].ts for ts, _ in rises())
        assert [(row["ts"], row["by"]) for row in rows] == expected
        (behind,) = re.findall(r"up to offset (\d+)", str(caught[0].message))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            part, rows = batch(node.address, consistency=consistency, startingOffsets=behind)
            assert str(part.start) == behind and rows[0]["ts"] > TICKS[599].ts and rows[-1]["ts"] == rises()[-1][0]
            part, rows = batch(node.address, consistency=consistency, startingOffsets="latest")
            assert part.start == part.end and rows == []


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"type": "Tick", "colour": "red"}, "no option 'colour'"),
        ({}, "needs the option 'type'"),
        ({"type": "Tock"}, "Tock is not known"),
        ({"type": "Tick", "consistency": "soon"}, "final or early"),
        ({"type": "Tick", "maxEventsPerTrigger": "0"}, "from 1"),
        ({"type": "Tick", "startingOffsets": "-1"}, "earliest, latest, or an offset"),
        ({"type": "Tick", "keys": "only.key"}, "go together"),
        ({"type": "no.module:Tick"}, "cannot import"),
    ],
)
def test_options_that_cannot_be_are_reported(options: dict[str, str], complaint: str) -> None:
    with pytest.raises(SlacklineError, match=complaint):
        parse({"path": "tcp://127.0.0.1:1", **options}, {"Tick": Tick})


def test_rows_are_published_once_with_made_identities_and_a_stream_into_a_node(spark: Any, tmp_path: Path) -> None:
    with durable_node(tmp_path / "node") as node:
        subscriber = Subscriber(node.address, [Tick], event_types=None)
        subscriber.wait_ready(DEADLINE)
        frame = spark.range(100).selectExpr("id as price", "1000000000 * (id + 1) as ts").coalesce(1)
        for _ in range(2):  # a job that is run again publishes nothing twice
            frame.write.format("slackline").mode("append").option("type", "Tick").option("source", "lab").save(node.address)
        found: list[Event] = []
        while len(found) < 100:
            found += [change.event for change in subscriber.receive(DEADLINE) if hasattr(change, "event")]
        assert [(event.source, event.id, event.ts) for event in found] == [("lab-0", n, (n + 1) * 10**9) for n in range(100)]
        assert subscriber.receive(0.5) == [] or not [c for c in subscriber.receive(0.1) if hasattr(c, "event")]
        subscriber.close()


@pytest.mark.parametrize("kind", ["double", "string", "boolean", "decimal(9,0)"])
def test_rows_of_another_kind_than_fields_are_refused_and_narrower_ones_taken(spark: Any, tmp_path: Path, kind: str) -> None:
    with durable_node(tmp_path) as node:
        frame = spark.range(3).selectExpr("cast(id as int) as price", "id + 1 as ts", "id", "'s' as source")
        options = {"type": "Tick", "path": node.address}
        with pytest.raises(Exception, match=f"price is {kind.replace('(', '.').replace(')', '.')}, but Tick.price is bigint"):
            frame.selectExpr(f"cast(price as {kind}) as price", "ts", "id", "source").write.format("slackline").mode(
                "append"
            ).options(**options).save()
        with pytest.raises(Exception, match="its level is 1, that of a derived event: leave it out"):
            frame.selectExpr("*", "1L as level").write.format("slackline").mode("append").options(**options).save()
        frame.selectExpr("*", "0L as level").write.format("slackline").mode("append").options(**options).save()
        read = spark.read.format("slackline").options(type="Tick", consistency="early").load(node.address)
        assert sorted((row.price, row.ts) for row in read.collect()) == [(0, 1), (1, 2), (2, 3)]


def test_a_log_with_an_event_that_nobody_can_read_is_an_error(spark: Any, tmp_path: Path) -> None:
    with node_thread("plain", "tcp://127.0.0.1:*", types=EventTypes([Tick]), store=Store(tmp_path, "plain")) as node:
        with Publisher(node.address) as publisher:
            publisher.publish(TICKS[:1])
            bad = TICKS[1]
            record = encode(["five", bad.ts, bad.id, bad.source, 0])
            publisher.publish_encoded("Tick", [record], 1, bad.ts, [(bad.source, bad.id, bad.id)])
            assert publisher.flush(DEADLINE).taken == 2, "who does not read them does not look at them"
        read = spark.read.format("slackline").options(type="Tick", consistency="early").load(node.address)
        complaint = r"holds events that are no Tick \(price: int\): 1 x malformed event"
        with pytest.raises(Exception, match=complaint):
            read.collect()
        with pytest.raises(StreamingQueryException, match=complaint):
            stream(spark, node.address, "Tick", tmp_path / "sql", consistency="early", startingOffsets="earliest")


def test_a_class_of_the_users_own_with_constraints_is_streamed(spark: Any, tmp_path: Path) -> None:
    fields = [("percent", Annotated[int, msgspec.Meta(ge=0, le=100)])]
    load = msgspec.defstruct("Load", fields, bases=(Event,), frozen=True, array_like=True, module="__main__")
    register(spark, [load])
    with node_thread("plain", "tcp://127.0.0.1:*", types=EventTypes([load]), store=Store(tmp_path, "plain")) as node:
        with Publisher(node.address) as publisher:
            publisher.publish([load(n, ts=n, id=n, source="s") for n in range(1, 11)])
            publisher.flush(DEADLINE)
        stream(spark, node.address, "Load", tmp_path / "sql", consistency="early", startingOffsets="earliest")
    register(spark, [Tick, Rise])
    assert sorted(row.percent for row in spark.read.parquet(str(tmp_path / "sql" / "rows")).collect()) == [*range(1, 11)]
