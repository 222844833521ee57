"""Events to columns and back, for every field type that the wire knows; and what is refused by name."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import uuid
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import pyarrow as pa
import pytest

from middleware.model.errors import EventError
from middleware.model.event import Event
from middleware.spark.schemas import schema_of


class Hue(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Rank(enum.IntEnum):
    FIRST = 1


class Point(msgspec.Struct, frozen=True):
    x: int
    y: float | None = None


class Pair(NamedTuple):
    left: int
    right: str


class Everything(Event):
    whole: int
    real: float
    text: str
    truth: bool
    raw: bytes
    day: dt.date
    time: dt.time
    length: dt.timedelta
    unique: uuid.UUID
    exact: decimal.Decimal
    zoned: Annotated[dt.datetime, msgspec.Meta(tz=True)]
    local: Annotated[dt.datetime, msgspec.Meta(tz=False)]
    either: dt.datetime
    hue: Hue
    rank: Rank
    word: Literal["a", "b"]
    many: list[int]
    fixed: tuple[int, str]
    some: frozenset[int]
    counts: dict[str, int]
    point: Point
    pair: Pair
    points: dict[str, list[Point]]
    anything: Any
    mixed: int | str
    maybe: float | None


def an_event(**instead: Any) -> Everything:
    noon = dt.datetime(2026, 1, 2, 12, 0, 0, 5)
    fields: dict[str, Any] = {
        "whole": -5, "real": 2.5, "text": "é", "truth": True, "raw": b"\x00", "day": noon.date(), "time": noon.time(),
        "length": dt.timedelta(seconds=1.5), "unique": uuid.UUID(int=7), "exact": decimal.Decimal("1.10"),
        "zoned": noon.replace(tzinfo=dt.UTC), "local": noon, "either": noon, "hue": Hue.BLUE, "rank": Rank.FIRST, "word": "b",
        "many": [1, 2], "fixed": (3, "z"), "some": frozenset([4]), "counts": {"k": 5}, "point": Point(1), "pair": Pair(2, "w"),
        "points": {"p": [Point(1, 2.0)]}, "anything": {"a": [1, 2.5, None]}, "mixed": "seven", "maybe": None,
    }  # fmt: skip
    return Everything(**(fields | instead), ts=5, id=6, source="s", level=2)


def back(batch: pa.RecordBatch) -> list[Event]:
    return schema_of(Everything).events(dict(zip(batch.schema.names, batch.columns, strict=True)))


def test_every_field_type_comes_back_as_it_was() -> None:
    events = [
        an_event(),
        an_event(maybe=1.5, mixed=7, anything=[True], many=[], point=Point(2, 0.5), either=dt.datetime.now(dt.UTC)),
    ]
    assert back(schema_of(Everything).batch(events)) == events
    assert back(schema_of(Everything).batch([])) == []


def test_spark_gets_types_that_it_has() -> None:
    ddl = schema_of(Everything).ddl
    assert "`zoned` timestamp, `local` timestamp_ntz, `either` string, `hue` string, `rank` bigint" in ddl
    assert "`points` map<string,array<struct<`x`: bigint,`y`: double>>>, `anything` string, `mixed` string" in ddl
    assert ddl.endswith("`maybe` double, `ts` bigint, `id` bigint, `source` string, `level` bigint")


def test_values_that_no_column_can_hold_are_refused_by_name() -> None:
    with pytest.raises(EventError, match=r"Everything\.whole has no place in a column of bigint"):
        schema_of(Everything).batch([an_event(whole=2**63)])
    with pytest.raises(EventError, match=r"Everything\.anything has no place"):
        schema_of(Everything).batch([an_event(anything=b"x")])


def test_a_null_is_refused_where_an_event_has_none() -> None:
    batch = schema_of(Everything).batch([an_event()])
    columns = dict(zip(batch.schema.names, batch.columns, strict=True)) | {"id": pa.nulls(1, pa.int64())}
    with pytest.raises(EventError, match="Everything has a row without id"):
        schema_of(Everything).events(columns)


def test_a_type_that_the_wire_does_not_know_has_no_schema() -> None:
    class Odd(Event):
        where: pa.Table

    with pytest.raises(EventError, match=r"Odd\.where has no schema: .*Table"):
        schema_of(Odd)


def test_moments_with_an_offset_are_in_utc_as_in_nodes() -> None:
    class Call(Event):
        at: dt.datetime
        others: list[dt.datetime]

    text = "2024-05-01T09:30:00+02:00"
    columns = {"at": [text], "others": [[text]], "ts": [1], "id": [1], "source": ["s"]}
    (call,) = schema_of(Call).events({name: pa.array(values) for name, values in columns.items()})
    assert (call.at.hour, call.at.tzinfo, call.others[0].hour) == (7, dt.UTC, 7)  # type: ignore[attr-defined]
