"""Events that a publisher holds, and the blocks that the core writes of them: what every reader reads from them."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from middleware import native
from middleware.link import gathering
from middleware.link.codec import EventCodec, arrival_order_of, encode
from middleware.link.columnar import unpack_columns
from middleware.link.gathering import Gathering
from middleware.model.block.block import Block
from middleware.model.block.rows import reader_of
from middleware.model.event import LONGEST_SOURCE, Event, EventTypes, type_name
from tests.oracles import intervals
from tests.property.columns.test_blocks import KINDS, Gaps, Whole


class Listed(Event):
    numbers: list[int]


RAW = st.one_of(*KINDS.values()).map(lambda event: replace(event, level=0))
BATCHES = st.lists(st.lists(RAW, max_size=6), max_size=6)
UNFIT: list[Event] = [
    Whole(2**63, 1.0, "", True, 0, ts=1, id=1, source="s"),
    Whole(1, 2**53 + 1, "", True, 0, ts=1, id=1, source="s"),
    Whole(1, 1.0, "\ud800", True, 0, ts=1, id=1, source="s"),
    Whole(True, 1.0, "", True, 0, ts=1, id=1, source="s"),
    Whole(1, 1.0, "", True, 2**62, ts=1, id=1, source="s"),
    Whole(None, 1.0, "", True, 0, ts=1, id=1, source="s"),  # type: ignore[arg-type]
    Gaps(number="1", ts=1, id=1, source="s"),  # type: ignore[arg-type]
    Gaps(ts=1, id=1, source="x" * (LONGEST_SOURCE + 1)),
    Gaps(ts=1, id=1, source="s", level=1),
    Gaps(ts=2**62, id=1, source="s"),
    Gaps(ts=1, id=2**63, source="s"),
    Listed([1], ts=1, id=1, source="s"),
]


@given(BATCHES, st.lists(st.sampled_from(UNFIT), max_size=2), st.booleans())
def test_what_is_held_is_read_as_it_was_published(batches: list[list[Event]], unfit: list[Event], in_columns: bool) -> None:
    held, events = Gathering(), [event for batch in batches for event in batch]
    for batch in batches:
        assert held.add(batch)
    for bad in unfit:
        assert not held.add([*events[:3], bad, *events[:3]])
    assert_leaves(held, events, in_columns)


def assert_leaves(held: Gathering, events: list[Event], in_columns: bool) -> None:
    """These are held, in this order, and any reader reads them."""
    assert len(held) == len(events)
    with patch.object(gathering, "FEWEST_IN_COLUMNS", 2):
        blocks = held.take(in_columns)
    assert not len(held) and not held.take(in_columns)
    came: list[tuple[int, Event]] = []
    for head, block in blocks:
        kind = Whole if head.type == type_name(Whole) else Gaps
        own = [event for event in events if event.__class__ is kind]
        drops = Counter[str]()
        read = EventCodec(EventTypes([kind])).decode(head, block, drops).inserts
        assert list(map(repr, read)) == list(map(repr, own)) and not drops
        assert (head.inserts, head.raw, head.plain, head.columns) == (len(own), True, True, in_columns and len(own) > 1)
        assert (head.oldest, head.newest) == (min(event.ts for event in own), max(event.ts for event in own))
        assert head.runs == intervals.runs_of(own, len(own) // 4 + 1)
        if head.columns:
            batch = unpack_columns(block, len(own))  # Arrow reads it, and finds it sound
            assert list(map(repr, Block.of(kind, batch).events())) == list(map(repr, own))
        else:
            assert block == encode(own)
        places = arrival_order_of(head, len(own)) if len(blocks) > 1 else range(len(own))
        assert places is not None
        came += zip(places, own, strict=True)
    assert [event for _, event in sorted(came, key=lambda pair: pair[0])] == events


def with_sources_spelled_out(batch: pa.RecordBatch) -> pa.RecordBatch:
    at = batch.schema.get_field_index("source")
    return batch.set_column(at, batch.schema.field(at).with_type(pa.string()), batch.column(at).cast(pa.string()))


def table_of(kind: type[Event], events: list[Event], arrivals: list[int], draw: st.DrawFn) -> pa.RecordBatch:
    """The events as a table, in one of the forms that tables have."""
    filler = events[:1] if draw(st.booleans()) else []
    batch = Block.from_events(kind, [*filler, *events, *filler]).batch
    if draw(st.booleans()):
        batch = with_sources_spelled_out(batch)
    batch = batch.slice(len(filler), len(events)).append_column("arrival", pa.array(arrivals, pa.int64()))
    return batch.select(draw(st.permutations(batch.schema.names)))


@st.composite
def tables(draw: st.DrawFn) -> tuple[dict[type[Event], pa.RecordBatch], list[Event]]:
    """Tables of types, and their events in the order of arrival; of those that arrive together, the first table's first."""
    events = draw(st.lists(RAW, min_size=1, max_size=8))
    arrivals = sorted(draw(st.lists(st.integers(-3, 3), min_size=len(events), max_size=len(events))))
    kinds = draw(st.permutations(list(dict.fromkeys(map(type, events)))))
    order = sorted(range(len(events)), key=lambda at: (arrivals[at], kinds.index(type(events[at]))))
    given = {}
    for kind in kinds:
        places = [at for at in range(len(events)) if type(events[at]) is kind]
        given[kind] = table_of(kind, [events[at] for at in places], [arrivals[at] for at in places], draw)
    return given, [events[at] for at in order]


@given(st.lists(st.one_of(tables(), st.lists(RAW, max_size=4)), max_size=5), st.booleans())
def test_rows_of_tables_are_held_like_events(given: list[object], in_columns: bool) -> None:
    held, events = Gathering(), list[Event]()
    for each in given:
        if isinstance(each, list):
            assert held.add(each)
            events += each
        else:
            assert isinstance(each, tuple)
            assert held.add_tables(each[0], "unused", 7, by_arrival=True) == 7
            events += each[1]
    assert_leaves(held, events, in_columns)


@given(tables(), st.integers(-(2**63), 2**63 - 40))
def test_rows_without_a_name_are_numbered(given: tuple[dict[type[Event], pa.RecordBatch], list[Event]], first: int) -> None:
    held, number, expected = Gathering(), first, list[Event]()
    for kind, table in given[0].items():
        rows = [event for event in given[1] if type(event) is kind]
        nameless = table.drop_columns(["id", "source", "arrival"])
        after = held.add_tables({kind: nameless}, "me", number, by_arrival=False)
        assert after == number + len(rows)
        expected += [replace(event, id=number + at, source="me") for at, event in enumerate(rows)]
        number = after
        assert held.add_tables({kind: table.drop_columns(["source", "arrival"])}, "us", 0, by_arrival=False) == 0
        expected += [replace(event, source="us") for event in rows]
    assert_leaves(held, expected, in_columns=False)


@pytest.mark.parametrize("source", ["s" * LONGEST_SOURCE, "\u00e9" * (LONGEST_SOURCE // 2)])
def test_the_longest_source_is_held_and_one_byte_more_is_not(source: str) -> None:
    held, event, longer = Gathering(), Gaps(ts=1, id=1, source=source), Gaps(ts=2, id=2, source=source + "s")
    assert held.add([event])
    assert not held.add([longer])
    for each, after in ((event, 7), (longer, None)):
        table = Block.from_events(Gaps, [each]).batch
        assert held.add_tables({Gaps: table}, "unused", 7, by_arrival=False) == after
        assert held.add_tables({Gaps: table.drop_columns(["source"])}, each.source, 7, by_arrival=False) == after
    assert_leaves(held, [event] * 3, in_columns=False)


def damaged(batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    return batch.set_column(batch.schema.get_field_index(name), name, column)


def unfit_tables() -> dict[str, pa.RecordBatch]:
    """What the core leaves to Python, which converts it, or says what is wrong with it."""
    events = [Whole(1, 1.0, "a", True, 0, ts=ts, id=ts, source="s") for ts in (1, 2)]
    good = Block.from_events(Whole, events).batch.append_column("arrival", pa.array([0, 1], pa.int64()))
    own = good.schema.names[0]
    return {
        "lacks a field": good.drop_columns([own]),
        "lacks ids": good.drop_columns(["id"]),
        "lacks times": good.drop_columns(["ts"]),
        "lacks arrival": good.drop_columns(["arrival"]),
        "a column of no field": good.append_column("other", pa.array([1, 2], pa.int64())),
        "a field twice": good.append_column(own, good.column(0)),
        "levels": good.append_column("level", pa.array([0, 0], pa.int64())),
        "a null": damaged(good, own, pa.array([1, None], pa.int64())),
        "narrow": damaged(good, own, pa.array([1, 2], pa.int32())),
        "unsigned": damaged(good, own, pa.array([1, 2], pa.uint64())),
        "texts": damaged(good, own, pa.array(["1", "2"])),
        "a time out of bounds": damaged(good, "ts", pa.array([1, 2**62], pa.int64())),
        "timestamps": damaged(good, "ts", pa.array([1, 2], pa.timestamp("ns"))),
        "a null id": damaged(good, "id", pa.array([None, 2], pa.int64())),
        "a null source": damaged(good, "source", pa.array(["s", None])),
        "a null name": damaged(good, "source", pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), ["s", None])),
        "short numbers of names": damaged(good, "source", pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int8()), ["s"])),
        "a long name": damaged(good, "source", pa.array(["s" * (LONGEST_SOURCE + 1), "s"])),
        "arrival falls": damaged(good, "arrival", pa.array([1, 0], pa.int64())),
    }


@pytest.mark.parametrize("what", unfit_tables())
def test_a_table_that_is_not_as_its_type_is_not_held(what: str) -> None:
    held, before = Gathering(), [Gaps(ts=1, id=1, source="s"), Gaps(ts=1, id=2, source="t")]
    first = Block.from_events(Gaps, before).batch.append_column("arrival", pa.array([0, 1], pa.int64()))
    assert held.add(before)
    assert held.add_tables({Gaps: first, Whole: unfit_tables()[what]}, "me", 0, by_arrival=True) is None
    assert held.add_tables({Listed: first}, "me", 0, by_arrival=True) is None
    assert_leaves(held, before, in_columns=False)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), cut=st.tuples(st.integers(0, 9), st.integers(0, 9)), is_spelled=st.booleans())
def test_columns_of_arrow_are_written_as_they_are(
    kind: type[Event], data: st.DataObject, cut: tuple[int, int], is_spelled: bool
) -> None:
    events = data.draw(st.lists(KINDS[kind], min_size=9, max_size=12))
    batch, reader = Block.from_events(kind, events).batch, reader_of(kind)
    if is_spelled:
        batch = with_sources_spelled_out(batch)
    start, stop = sorted(cut)
    assert reader is not None
    whole, own = Block(kind, batch), events[start:stop]
    parts = [(whole, start, stop), (whole.slice(start, stop), 0, stop - start)]
    for columns, first, last in parts:
        block = native.pack(reader, columns.in_core, first, last)
        assert block is not None
        assert list(map(repr, Block.of(kind, unpack_columns(block, len(own))).events())) == list(map(repr, own))
        read = reader.read_columns(block, len(own))
        assert read is not None and list(map(repr, read.events(0, len(own)))) == list(map(repr, own))
        assert set(read.sources()) == {event.source for event in own}, "no other names than those it needs"
    other = Gaps if kind is Whole else Whole
    of_other = reader_of(other)
    assert of_other is not None and native.pack(of_other, whole.in_core, 0, 9) is None


@pytest.mark.parametrize("bad", UNFIT)
def test_what_is_not_as_its_type_says_is_no_columns_of_the_core(bad: Event) -> None:
    reader = reader_of(bad.__class__)
    if reader is not None and not bad.level:
        assert native.in_columns(reader, [bad]) is None
    assert reader is None or native.in_columns(reader, [Event(ts=1, id=1, source="s")]) is None


def test_more_than_a_frame_may_hold_is_not_held() -> None:
    held, event = Gathering(), Gaps(name="x" * 1_000, ts=1, id=1, source="s")
    assert not held.add([event] * 5_000), "too many bytes"
    assert held.add([event] * 400) and held.is_full
    assert not held.add([Gaps(ts=1, id=1, source="s")] * 2**14), "too many events"
    table = Block.from_events(Gaps, [Gaps(ts=1, id=1, source="s")] * 2**14).batch
    assert held.add_tables({Gaps: table}, "s", 0, by_arrival=False) is None, "too many rows"
    table = Block.from_events(Gaps, [event] * 500).batch
    assert held.add_tables({Gaps: table}, "s", 0, by_arrival=False) is None, "too many bytes"
    assert len(held) == 400
