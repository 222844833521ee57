"""Blocks that the native core reads, rows and columns, against the ways in which Python reads them."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from middleware import native
from middleware.link.codec import encode
from middleware.link.columnar import pack_columns, unpack_columns
from middleware.model.block.block import Block, has_own_form
from middleware.model.block.recipe import recipe
from middleware.model.errors import WireError
from middleware.model.event import Event, Timestamp


class Whole(Event):
    number: int
    part: float
    name: str
    is_on: bool
    seen: Timestamp


class Gaps(Event):
    number: int | None = None
    part: float | None = None
    name: str | None = None
    is_on: bool | None = None


INT64, NAMES = st.integers(-(2**63), 2**63 - 1), st.text(st.characters(codec="utf-8"), max_size=4)
TIMES = st.integers(-(2**62) + 1, 2**62 - 1) | st.integers(-40, 40)
FLOATS = st.floats(allow_nan=False)
STAMP = {
    "ts": TIMES,
    "id": INT64 | st.integers(0, 300),
    "source": st.sampled_from(["a", "ä", ""]),
    "level": st.sampled_from([0, 0, 0, 2]),
}
KINDS: dict[type[Event], st.SearchStrategy[Any]] = {
    Whole: st.builds(Whole, INT64, FLOATS, NAMES, st.booleans(), TIMES, **STAMP),
    Gaps: st.builds(Gaps, st.none() | INT64, st.none() | FLOATS, st.none() | NAMES, st.none() | st.booleans(), **STAMP),
}


def reader_of(kind: type[Event]) -> native.BlockReader:
    making = recipe(kind)
    assert making is not None
    reader = native.BlockReader.of(making)
    assert reader is not None
    return reader


def same(block: native.CoreBlock, kind: type[Event], events: list[Event]) -> None:
    """The block holds these events: as objects, in Arrow's columns, and in its figures."""
    assert list(map(repr, block.events(0, len(events)))) == list(map(repr, events))
    batch = pa.record_batch(block)
    batch.validate(full=True)
    assert has_own_form(kind, batch.schema)
    assert list(map(repr, Block(kind, batch).events())) == list(map(repr, events))
    assert memoryview(block.times()).cast("q").tolist() == [event.ts for event in events]
    assert block.has_levels == any(event.level for event in events)
    assert {event.source for event in events} <= set(block.sources())
    if events:
        assert (block.oldest, block.newest) == (min(event.ts for event in events), max(event.ts for event in events))


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_rows(kind: type[Event], data: st.DataObject) -> None:
    events = data.draw(st.lists(KINDS[kind], max_size=12))
    block = reader_of(kind).read(encode(events), len(events))
    assert block is not None
    same(block, kind, events)
    start, stop = sorted(data.draw(st.tuples(st.integers(0, 15), st.integers(0, 15))))
    assert block.events(start, stop) == events[start:stop]


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_rows_that_are_damaged(kind: type[Event], data: st.DataObject, seed: int) -> None:
    events = data.draw(st.lists(KINDS[kind], min_size=1, max_size=4))
    given, rng, reader = encode(events), random.Random(seed), reader_of(kind)
    decode = msgspec.msgpack.Decoder(list[kind]).decode  # type: ignore[valid-type]
    for _ in range(10):
        bad = bytearray(given)
        for _ in range(rng.randint(1, 3)):
            bad[rng.randrange(len(bad))] = rng.choice([rng.randrange(256), 0xC0, 0xCF, 0xA1, 0x96])
        cut = bytes(bad[: rng.choice([len(bad), len(bad), rng.randrange(len(bad))])])
        block = reader.read(cut, len(events))
        if block is not None:  # then it is what msgspec makes of it
            same(block, kind, decode(cut))


def columns_of(kind: type[Event], events: list[Event]) -> bytes:
    batch = Block.from_events(kind, events).batch
    at = batch.schema.get_field_index("source")
    return pack_columns(batch.set_column(at, "source", batch.column(at).dictionary_encode()))


def read_by_arrow(kind: type[Event], block: bytes, rows: int) -> list[Event] | None:
    """What Python reads of a block. None if Arrow finds bytes wrong that neither of the two needs."""
    try:
        return Block.of(kind, unpack_columns(block, rows)).events()
    except WireError as error:
        if "Invalid flatbuffers" in str(error):
            return None
        raise


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_columns(kind: type[Event], data: st.DataObject, seed: int) -> None:
    events = data.draw(st.lists(KINDS[kind], min_size=4, max_size=6))
    events = [msgspec.structs.replace(event, source="a") for event in events]
    given, reader, rng = columns_of(kind, events), reader_of(kind), random.Random(seed)
    assert reader.read_columns(given, len(events)) is None  # it does not know this schema
    reader.accept(given, any(event.level for event in events))
    block = reader.read_columns(given, len(events))
    assert block is not None
    same(block, kind, events)
    assert reader.read_columns(given, len(events) + 1) is None
    for _ in range(10):
        bad = bytearray(given)
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(bad))
            bad[place] = rng.choice([rng.randrange(256), 0, bad[place] ^ 1, 0xFF])
        cut = bytes(bad[: rng.choice([len(bad), len(bad), rng.randrange(len(bad))])])
        block = reader.read_columns(cut, len(events))
        if block is None:
            continue
        found = read_by_arrow(kind, cut, len(events))
        if found is not None:  # what the core takes, Arrow takes, and finds the same in it
            same(block, kind, found)


@given(
    ids=st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 12)), max_size=12),
    before=st.sets(st.integers(0, 12), max_size=4),
)
def test_identities_of_a_block(ids: list[tuple[str, int]], before: set[int]) -> None:
    events = [Gaps(ts=1, id=number, source=source) for source, number in ids]
    block = reader_of(Gaps).read(encode(events), len(events))
    assert block is not None
    seen = {name: native.Intervals() for name in block.sources()}
    for intervals in seen.values():
        for number in before:
            intervals.add(number)
    new = block.take_ids(list(seen.values()))
    if len(set(ids)) < len(ids):
        assert new is None
        assert all(len([number for number in range(13) if number in each]) == len(before) for each in seen.values())
    else:
        assert new == bytes(number not in before for _, number in ids)
