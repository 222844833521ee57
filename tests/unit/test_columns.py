"""Events as columns: what is taken and what is refused, and that columns and events are the same."""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from slackline import Event

from middleware.link.codec import Drops, EventCodec
from middleware.link.encoding import encode_delta
from middleware.model.block.block import Block
from middleware.model.change import Delta, combined, some_inserts
from middleware.model.errors import EventError
from middleware.model.event import MAX_TS, EventTypes, type_name


class Reading(Event):
    station: int
    celsius: float
    remark: str | None
    counts: list[int]


class Plain(Event):
    station: int
    celsius: float | None
    is_on: bool
    raw: bytes


class Bounded(Event):
    share: Annotated[float, msgspec.Meta(ge=0, le=1)]
    pair: tuple[int, ...]


def readings(count: int = 5) -> list[Event]:
    remarks = ("", None, "é", "low")
    return [Reading(n, n / 3, remarks[n % 4], [n] * (n % 3), ts=10 * n, id=n, source="ab"[n % 2]) for n in range(count)]


PLAINS: list[Event] = [Plain(n, None if n % 2 else 0.5, n > 1, bytes([n]), ts=n, id=n, source="p") for n in range(4)]


@pytest.mark.parametrize(
    "events", [readings(), PLAINS, [Bounded(0.5, (1, 2), ts=1)], [Plain(1, 2.0, True, b"", ts=1, level=3)]]
)
def test_columns_and_back_are_the_same_events(events: list[Event]) -> None:
    event_type = type(events[0])
    batch = Block.from_events(event_type, events).batch
    again = Block.of(event_type, batch)
    assert again.events() == events == list(again)
    assert [type(each) for each in again] == [event_type] * len(events)
    shuffled = pa.Table.from_batches([batch.slice(0, 1), batch.slice(1)]).select(sorted(batch.schema.names))
    assert Block.of(event_type, shuffled).events() == events
    coded = batch.set_column(batch.schema.get_field_index("source"), "source", batch["source"].dictionary_encode())
    assert Block.of(event_type, coded).events() == events


def test_parts_of_columns_are_parts_of_the_events_whether_these_are_made_or_not() -> None:
    events = readings(6)
    for made in (False, True):
        columns = Block.of(Reading, Block.from_events(Reading, events).batch)
        columns = columns if made else Block(Reading, columns.batch)
        odd = columns.filter([bool(n % 2) for n in range(6)])
        assert odd.events() == events[1::2]
        assert columns.slice(2, 4).events() == events[2:4]
        assert columns.slice(2, 99).ids.tolist() == [2, 3, 4, 5]
        assert columns.take(np.array([5, 0])).events() == [events[5], events[0]]
        assert odd.joined([columns.slice(0, 1), columns.slice(0, 0)]).events() == [*events[1::2], events[0]]
        assert columns.times.tolist() == [event.ts for event in events]


def test_joined_columns_may_differ_in_how_they_are_written() -> None:
    raw, derived = PLAINS[0], Plain(7, 1.0, True, b"", ts=9, id=1, source="d", level=2)
    one = Block.from_events(Plain, [raw]).batch
    coded = one.set_column(one.schema.get_field_index("source"), "source", one["source"].dictionary_encode())
    both = Block.of(Plain, coded).joined([Block.from_events(Plain, [derived])])
    assert both.events() == [raw, derived]


def narrow(name: str, column: Any) -> pa.RecordBatch:
    batch = Block.from_events(Plain, PLAINS).batch
    return batch.set_column(batch.schema.get_field_index(name), name, column)


def test_columns_may_be_narrower_or_times() -> None:
    assert Block.of(Plain, narrow("station", pa.array(range(4), pa.uint8()))).events() == PLAINS
    assert Block.of(Plain, narrow("ts", pa.array(range(4), pa.timestamp("ns", "UTC")))).events() == PLAINS
    floats = Block.of(Plain, narrow("celsius", pa.array([1, None, 3, 4], pa.int16()))).events()
    assert [event.celsius for event in floats] == [1.0, None, 3.0, 4.0]  # type: ignore[attr-defined]
    nothing = Block.of(Plain, narrow("celsius", pa.nulls(4))).events()
    assert [event.celsius for event in nothing] == [None] * 4  # type: ignore[attr-defined]
    mine = Block.of(Plain, narrow("station", pa.array(range(4))).drop_columns("source"), source="p")
    assert mine.events() == PLAINS


@pytest.mark.parametrize(
    ("name", "column", "message"),
    [
        ("station", pa.array(["1", "2", "3", "4"]), "Plain.station is of string"),
        ("station", pa.array([1, 2, None, 4]), "Plain.station is null in row 2"),
        ("station", pa.array([1.0, 2.0, 3.0, 4.0]), "Plain.station is of double"),
        ("station", pa.array([2**63, 1, 2, 3], pa.uint64()), "Plain.station: Integer value 9223372036854775808"),
        ("celsius", pa.array([2**53 + 1, 1, 2, 3]), "Plain.celsius: Integer value 9007199254740993"),
        ("is_on", pa.array([0, 1, 0, 1]), "Plain.is_on is of int64"),
        ("ts", pa.array([0, 1, MAX_TS, 3]), f"Plain.ts: {MAX_TS} in row 2 is no time"),
        ("ts", pa.array([0, None, 1, 3]), "Plain.ts is null in row 1"),
        ("ts", pa.array([2**40] * 4, pa.timestamp("s")), "Plain.ts: "),
        ("id", pa.array([0.5] * 4), "Plain.id is of double"),
        ("source", pa.array([1, 2, 3, 4]), "Plain.source is of int64"),
        ("source", pa.DictionaryArray.from_arrays([0, 0, 1, 0], pa.array(["a", None])), "Plain.source is null in row 2"),
        ("source", pa.DictionaryArray.from_arrays([0, 0, 5, 0], pa.array(["a"]), safe=False), "the table is damaged"),
        (
            "source",
            pa.Array.from_buffers(
                pa.string(), 4, [None, pa.py_buffer(np.array([0, 2_000_000_000, 2, 3, 4], "i4")), pa.py_buffer(b"abcd")]
            ),
            "the table is damaged",
        ),
        (
            "source",
            pa.Array.from_buffers(
                pa.string(), 4, [None, pa.py_buffer(np.array([0, 1, 2, 3, 4], "i4")), pa.py_buffer(b"\xff" * 4)]
            ),
            "the table is damaged",
        ),
    ],
)
def test_a_bad_column_is_refused_by_name(name: str, column: Any, message: str) -> None:
    with pytest.raises(EventError, match=message):
        Block.of(Plain, narrow(name, column))


def test_missing_and_stray_columns_are_refused() -> None:
    batch = Block.from_events(Plain, PLAINS).batch
    with pytest.raises(EventError, match="the table lacks celsius, source; it has station"):
        Block.of(Plain, batch.drop_columns(["celsius", "source"]))
    with pytest.raises(EventError, match="columns that no field has: other"):
        Block.of(Plain, batch.append_column("other", pa.nulls(4)))
    with pytest.raises(EventError, match="columns that no field has: two of one name"):
        Block.of(Plain, pa.record_batch([*batch.columns, batch["ts"]], names=[*batch.schema.names, "ts"]))


def test_what_a_field_says_besides_its_column_is_checked() -> None:
    good = Block.from_events(Bounded, [Bounded(0.5, (1,), ts=1)]).batch
    with pytest.raises(EventError, match=r"a row does not fit Bounded.*<= 1.0"):
        Block.of(Bounded, good.set_column(0, "share", pa.array([1.5])))
    with pytest.raises(EventError, match=r"a row does not fit Bounded.*got `null`"):
        Block.of(Bounded, good.set_column(1, "pair", pa.array([[None]], pa.list_(pa.int64()))))


def test_columns_that_were_read_in_the_core_can_be_pickled() -> None:
    columns = Block.from_events(Plain, PLAINS)
    assert len(columns.in_core) == len(columns)
    assert pickle.loads(pickle.dumps(columns)) == columns == PLAINS


def test_no_rows_are_columns_too() -> None:
    empty = Block.from_events(Plain, PLAINS).batch.slice(0, 0)
    assert Block.of(Plain, empty).events() == []
    assert Block.of(Plain, pa.Table.from_batches([], empty.schema)).events() == []
    for kind in (pa.null(), pa.string(), pa.dictionary(pa.int8(), pa.string())):  # as frames, and files of a header, have them
        untyped = pa.table({name: pa.array([], kind) for name in empty.schema.names})
        assert Block.of(Plain, untyped).batch.schema.types == empty.schema.types
    assert not Delta(Block(Plain, empty))


def test_a_delta_of_columns_is_one_of_events() -> None:
    events = PLAINS
    columns = Block.from_events(Plain, events)
    delta = Delta(columns, early=[4, 3, 2, 1])
    assert (len(delta), bool(delta)) == (4, True)
    assert delta == Delta(events, early=[4, 3, 2, 1]) == pickle.loads(pickle.dumps(Delta(events, early=[4, 3, 2, 1])))
    parts = delta.by_type()
    assert parts == {"Plain": delta} and parts["Plain"].columns is columns
    chosen = some_inserts(delta, [True, False, False, True])
    assert chosen == Delta([events[0], events[3]], early=[4, 1]) and chosen.columns is not None
    both = combined([delta, chosen])
    assert both == combined([Delta(events, early=[4, 3, 2, 1]), Delta([events[0], events[3]], early=[4, 1])])
    assert both.columns is not None


class Count(Event):
    number: int
    share: float


def test_few_rows_among_columns_become_columns_if_they_say_just_the_same() -> None:
    counts = [Count(number, 0.5, ts=number, id=number, source="a") for number in range(4)]
    columns = Delta(Block.from_events(Count, counts), arrival_order=np.array([1, 2, 3, 4]))
    row = Delta(counts[:1], arrival_order=[7])
    for both in ([columns, row], [row, columns], [Delta(), columns, row, Delta(retracts=counts[2:3])]):
        mixed = combined(both)
        assert mixed.columns is not None
        assert mixed.inserts == [event for delta in both for event in delta.inserts]
        assert mixed.arrival_order == ([7, 1, 2, 3, 4] if both[0] is row else [1, 2, 3, 4, 7])
    wrong = [Count(value, 0.5, ts=1, id=9, source="a") for value in (2**70, None, 1.5, "1", True)]  # type: ignore[arg-type]
    for rows in ([*counts, counts[0]], [Event(ts=1, id=1, source="a")], *([each] for each in wrong)):
        mixed = combined([Delta(rows), columns])
        assert (list(map(repr, mixed.inserts)), mixed.columns) == ([*map(repr, rows), *map(repr, counts)], None)


@pytest.mark.parametrize("form", ["table", "block"])
def test_a_number_that_comes_again_at_once_is_one_object(form: str) -> None:
    class Ending(Event):
        station: int
        end: int

    given = [Ending(10_000 + n, 5_000 + n // 4, ts=3_000 + n // 2, id=-n, source="s") for n in range(400)]
    columns = Block(Ending, Block.from_events(Ending, given).batch)
    if form == "block":
        ((head, block),) = encode_delta(type_name(Ending), Delta(columns))
        columns = EventCodec(EventTypes([Ending]), in_columns=True).decode(head, block, Drops()).columns  # type: ignore[assignment]
        assert columns.core_block is not None
    for run in columns.runs(150):
        assert run == given[: len(run)]
        assert all((one.end is other.end) == (one.end == other.end) for one, other in pairwise(run))
        assert len({id(each.station) for each in run}) == len(run)
        del given[: len(run)]
    assert not given
