"""Archives and streams in Spark give detectors the values of a run, and list what no wire carries."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from slackline import END, Detector, Event, run

from middleware.model.event import ORDER
from middleware.model.values.carried import all_carried
from middleware.spark.archive import archive
from middleware.spark.archive.archive_plan import ArchivePlan
from middleware.spark.session import environment, spark_session
from middleware.spark.stream.parcels import ParcelBatch
from middleware.spark.stream.shard import Shard
from middleware.spark.stream.stages import StreamPlan
from tests.system.spark_cluster import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.system, pytest.mark.spark]

FIELDS = "number bigint, rows array<array<double>>, loose string, ts bigint, id bigint, source string"
LOOSE = [(1, 2), {"b", "a"}, date(2024, 1, 2), Decimal("0.10"), 2**64, "\ud800", object()]


class Held(msgspec.Struct, frozen=True):
    x: float
    of: Any


class Raw(Event):
    number: int
    rows: list[list[float]]
    loose: Any


class Derived(Event):
    held: Held
    loose: Any


class Text(Event):
    text: str


class Derives(Detector):
    subscribes, publishes = (Raw,), (Derived,)

    def on_event(self, event: Raw) -> Derived:
        return Derived(Held(1, event.loose), LOOSE[event.number], ts=event.ts)


class Tells(Detector):
    subscribes, publishes = (Raw, Derived), (Text,)

    def on_event(self, event: Event) -> Text:
        return Text(repr(msgspec.structs.astuple(event)[:-4]), ts=event.ts)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    with environment(settings()), spark_session(master="local[1]") as session:
        session.conf.set("spark.sql.shuffle.partitions", "1")
        yield session


def test_values_are_those_of_a_run(spark: SparkSession) -> None:
    detectors = {"Derives": Derives(), "Tells": Tells()}
    rows = [(at, [[1.0]], '{"a": [1, 1.0]}', at, at, "s") for at in range(len(LOOSE))]
    events = [Raw(at, [[1]], {"a": (1, 1.0)}, ts=at, id=at, source="s") for at in range(len(LOOSE))]
    expected = run(events, detectors, failing="skip")
    finals = sorted(chain.from_iterable(expected.finals.values()), key=ORDER)
    assert len(finals) == 15 and [failure.event.id for failure in expected.failures["Derives"]] == [4, 5, 6]

    found = archive({Raw: spark.createDataFrame(rows, FIELDS)}, detectors)
    assert found.collect() == finals
    assert sorted(row.id for row in found.failures.collect()) == [4, 5, 6]

    came = Shard(StreamPlan.of(ArchivePlan.of(detectors), 1, 0, finals=True), 0).take(
        ParcelBatch(all_carried(Raw, events), watermark=END)
    )
    kinds = {"Derived": Derived, "Text": Text}
    bodies = [msgspec.msgpack.decode(row.body, type=kinds[row.type]) for row in came if row.op == "final"]
    assert sorted(bodies, key=ORDER) == finals
