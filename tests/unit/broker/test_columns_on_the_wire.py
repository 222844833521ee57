"""Blocks in columns: round trips, what becomes of bytes that are wrong, and that ingress takes them as it takes rows."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable
from struct import pack_into
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.broker.ingress.checks import Ingress
from middleware.broker.ingress.publisher_rows import Bounds
from middleware.link.codec import FEWEST_ROWS, BlockHead, EventCodec, encode
from middleware.link.columnar import MOST_ROWS, pack_columns, unpack_columns
from middleware.link.encoding import as_rows, encode_delta
from middleware.model.block.block import Block
from middleware.model.change import Delta
from middleware.model.errors import WireError
from middleware.model.event import Event, EventTypes


class Wide(Event):
    number: int
    peak: float
    text: str
    flag: bool
    raw: bytes
    maybe: float | None = None
    path: tuple[int, ...] = ()


class Hit(Event):
    peak: float
    text: str | None = None


TYPES = EventTypes([Wide, Hit])
CODEC = EventCodec(TYPES)
int64 = st.integers(-(2**63), 2**63 - 1)
texts = st.text(max_size=3)
wides = st.builds(
    Wide,
    int64,
    st.floats(allow_nan=False),
    texts,
    st.booleans(),
    st.binary(max_size=3),
    st.none() | st.floats(allow_nan=False),
    st.lists(int64, max_size=2).map(tuple),
    ts=st.integers(1, 100),
    id=int64,
    source=st.sampled_from(["a", "b", "\u00e4"]),
    level=st.just(0),
)


def hits(count: int = FEWEST_ROWS, first: int = 0, source: str = "a") -> list[Event]:
    return [Hit(n / 2, "x" if n % 3 else None, ts=n + 1, id=n, source=source) for n in range(first, first + count)]


def columns_of(events: list[Event]) -> Block:
    return Block.from_events(type(events[0]), events)


def block_of(events: list[Event], **head: Any) -> tuple[BlockHead, bytes]:
    """Events as a block in columns, however few they are."""
    batch = columns_of(events).batch
    return BlockHead(type(events[0]).__name__, len(events), columns=True, **head), pack_columns(batch)


@settings(deadline=None)
@given(st.lists(wides, min_size=1, max_size=8))
def test_events_survive_the_wire_in_columns_and_as_rows_of_them(events: list[Event]) -> None:
    drops: Counter[str] = Counter()
    head, block = block_of(events)
    delta = CODEC.decode(head, block, drops)
    assert delta.columns is not None and delta.inserts == events
    former, rows = as_rows(head, block)
    assert not former.columns and CODEC.decode(former, rows, drops).inserts == events
    assert not drops


def test_few_events_go_as_rows_and_many_in_slices_that_flow() -> None:
    [(head, _)] = encode_delta("Hit", Delta(columns_of(hits(FEWEST_ROWS - 1))))
    assert not head.columns
    many = hits(40_000)
    blocks = encode_delta("Hit", Delta(columns_of(many), arrival_order=list(range(40_000))), raw=True)
    assert len(blocks) > 2 and all(head.columns and len(block) < 2**19 for head, block in blocks)
    decoded = [CODEC.decode(head, block, Counter()) for head, block in blocks]
    assert [event for delta in decoded for event in delta.inserts] == many
    assert [(head.oldest, head.newest) for head, _ in blocks] == [
        (delta.inserts[0].ts, delta.inserts[-1].ts) for delta in decoded
    ]


def test_a_slice_takes_only_the_sources_it_has() -> None:
    batch = pa.record_batch(
        {
            "peak": pa.array([0.5] * 1_000),
            "text": pa.array([None] * 1_000, pa.string()),
            "ts": pa.array(range(1, 1_001)),
            "id": pa.array(range(1_000)),
            "source": pa.array([f"a source with a long name {n}" for n in range(1_000)]).dictionary_encode(),
        }
    )
    columns = Block.of(Hit, batch).slice(500, 502)
    block = pack_columns(columns.batch)
    assert len(block) < 2_000 and Block.of(Hit, unpack_columns(block)).events() == columns.events()


# -- bytes that are wrong --------------------------------------------------------------------------------------------------


def stream(batch: pa.RecordBatch, **options: Any) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_batch(batch)
    return bytes(out.getvalue())


def with_column(name: str, values: pa.Array) -> pa.RecordBatch:
    batch = columns_of(hits()).batch
    return batch.set_column(batch.schema.get_field_index(name), name, values)


def several() -> bytes:
    out, batch = pa.BufferOutputStream(), columns_of(hits()).batch
    with pa.ipc.new_stream(out, batch.schema) as writer:
        writer.write_batch(batch)
        writer.write_batch(batch)
    return bytes(out.getvalue())


def bad_codes() -> bytes:
    names = pa.array(["a"])
    codes = pa.array([0] * (FEWEST_ROWS - 1) + [7], pa.int32())
    return stream(with_column("source", pa.DictionaryArray.from_arrays(codes, names, safe=False)))


def bad_offsets() -> bytes:
    good = stream(with_column("text", pa.array(["abc"] * FEWEST_ROWS)))
    offsets = pa.array(range(0, 3 * FEWEST_ROWS + 3, 3), pa.int32()).buffers()[1].to_pybytes()[: 4 * FEWEST_ROWS + 4]
    assert good.count(offsets) == 1
    return good.replace(offsets, offsets[:-4] + (2**30).to_bytes(4, "little"))


def bad_texts() -> bytes:
    return stream(with_column("text", pa.array([b"\xff\xfe"] * FEWEST_ROWS, pa.binary()).view(pa.string())))


def long_names() -> bytes:
    """64 KiB of a name, for each of many events: 4 GiB, if it were spelled out."""
    names = pa.DictionaryArray.from_arrays(pa.array([0] * MOST_ROWS, pa.int32()), pa.array(["x" * 2**16]))
    zeros = pa.array([1] * MOST_ROWS, pa.int64())
    columns = [pa.array([0.5] * MOST_ROWS), pa.nulls(MOST_ROWS, pa.string()), zeros, zeros, names]
    return stream(pa.record_batch(columns, names=["peak", "text", "ts", "id", "source"]))


NULLS = pa.nulls(FEWEST_ROWS, pa.int64())
WRONG: dict[str, tuple[Callable[[], bytes], int]] = {
    "nothing": (lambda: b"", FEWEST_ROWS),
    "rows": (lambda: encode(hits()), FEWEST_ROWS),
    "too few": (lambda: stream(columns_of(hits(10)).batch), FEWEST_ROWS),
    "two batches": (several, FEWEST_ROWS),
    "no batch": (lambda: bytes(columns_of(hits()).batch.schema.serialize()), FEWEST_ROWS),
    "cut off": (lambda: stream(columns_of(hits()).batch)[:-200], FEWEST_ROWS),
    "lz4": (lambda: stream(columns_of(hits()).batch, compression="lz4"), FEWEST_ROWS),
    "zstd": (lambda: stream(columns_of(hits()).batch, compression="zstd"), FEWEST_ROWS),
    "null ts": (lambda: stream(with_column("ts", NULLS)), FEWEST_ROWS),
    "null id": (lambda: stream(with_column("id", NULLS)), FEWEST_ROWS),
    "null source": (lambda: stream(with_column("source", NULLS.cast(pa.string()))), FEWEST_ROWS),
    "null field": (lambda: stream(with_column("peak", NULLS.cast(pa.float64()))), FEWEST_ROWS),
    "time out of bounds": (lambda: stream(with_column("ts", pa.array([2**62] * FEWEST_ROWS))), FEWEST_ROWS),
    "another type": (lambda: stream(with_column("peak", pa.array(["x"] * FEWEST_ROWS))), FEWEST_ROWS),
    "a type unknown": (lambda: stream(with_column("peak", pa.array([{"a": 1}] * FEWEST_ROWS))), FEWEST_ROWS),
    "a column less": (lambda: stream(columns_of(hits()).batch.drop_columns(["peak"])), FEWEST_ROWS),
    "no source": (lambda: stream(columns_of(hits()).batch.drop_columns(["source"])), FEWEST_ROWS),
    "codes out of range": (bad_codes, FEWEST_ROWS),
    "offsets out of range": (bad_offsets, FEWEST_ROWS),
    "texts that are none": (bad_texts, FEWEST_ROWS),
    "names of 4 GiB": (long_names, MOST_ROWS),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_refused_whole_and_counted_with_little_memory(wrong: str) -> None:
    make, rows = WRONG[wrong]
    block, drops = make(), Counter[str]()
    pool = pa.default_memory_pool()
    before = pool.bytes_allocated()
    head = BlockHead("Hit", rows, columns=True)
    assert not CODEC.decode(head, block, drops)
    assert drops == {"malformed block": rows} and CODEC.complaint(head, block)
    former, as_row = as_rows(head, block)
    if wrong not in ("null field", "time out of bounds", "another type", "a column less"):  # these, who knows the type refuses
        assert not CODEC.decode(former, as_row, drops)
    assert pool.bytes_allocated() - before < 2**22


@pytest.mark.parametrize("size", [2**31, 2**40, 2**62])
def test_claims_of_any_size_are_refused_before_memory_is_taken(size: int) -> None:
    block = bytearray(stream(columns_of(hits()).batch))
    for at in range(0, len(block) - 8, 4):
        claim = bytearray(block)
        pack_into("<q", claim, at, size)
        drops = Counter[str]()
        delta = CODEC.decode(BlockHead("Hit", FEWEST_ROWS, columns=True), bytes(claim), drops)
        assert drops == {"malformed block": FEWEST_ROWS} or len(delta.inserts) == FEWEST_ROWS
    assert pa.default_memory_pool().max_memory() < 2**30


def rows_in(block: bytes) -> int:
    """As many as it has, so that its head agrees; none if it is no block, which any head lets nothing of in."""
    try:
        return unpack_columns(block).num_rows
    except WireError:
        return 0


@pytest.mark.parametrize("seed", range(5))
def test_fuzzed_columns_are_refused_or_events_of_the_type(seed: int) -> None:
    rng = random.Random(seed)
    good = [block_of(hits(rng.randrange(1, 20)))[1] for _ in range(5)]
    good += [pack_columns(columns_of([Wide(1, 0.5, "x", True, b"y", None, (1, 2), ts=3, id=4, source="a")] * 3).batch)]
    taken = 0
    for _ in range(1_500):
        block = bytearray(rng.choice(good))
        for _ in range(rng.choice((1, 1, 2, 8))):
            at = rng.randrange(len(block))
            block[at : at + rng.choice((1, 1, 4, 8))] = rng.choice(
                (rng.randbytes(1), rng.randbytes(4), b"\xff" * 8, b"\0" * 8, b"")
            )
        for name in ("Hit", "Wide"):
            drops = Counter[str]()
            rows = rows_in(bytes(block))
            delta = CODEC.decode(BlockHead(name, rows, columns=True, raw=True, newest=60), bytes(block), drops)
            assert all(isinstance(event, TYPES[name]) and event.ts <= 60 and not event.level for event in delta.inserts)
            taken += bool(delta)
    assert taken, "some damage is to values alone"


def test_what_hides_behind_a_sound_header_never_reaches_arrow() -> None:
    with pytest.raises(WireError, match="compressed"):
        unpack_columns(stream(columns_of(hits()).batch, compression="zstd"))
    with pytest.raises(WireError, match="a block is one schema, one batch"):
        unpack_columns(several())
    with pytest.raises(WireError, match=f"{FEWEST_ROWS} rows where 5 are announced"):
        unpack_columns(block_of(hits())[1], 5)


# -- ingress ---------------------------------------------------------------------------------------------------------------

raws = st.builds(
    Hit,
    st.sampled_from([0.5, 1.5]),
    ts=st.integers(1, 20),
    id=st.integers(0, 12),
    source=st.sampled_from(["a", "a", "b", ""]),
    level=st.sampled_from([0, 0, 0, 0, 0, 1]),
)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.lists(raws, min_size=1, max_size=10), st.integers(0, 5), st.integers(12, 21), st.booleans()), max_size=6
    )
)
def test_ingress_takes_columns_as_it_takes_rows(blocks: list[tuple[list[Event], int, int, bool]]) -> None:
    both = []
    for in_columns in (False, True):
        ingress, outcomes = Ingress(TYPES, CODEC, Counter()), []
        for events, low, high, names_newest in blocks:
            newest = 15 if names_newest else None
            places = b"".join((2 * n).to_bytes(2, "little") for n in range(len(events)))
            if in_columns:
                head, block = block_of(events, raw=True, newest=newest, arrival_order=places)
            else:
                head, block = BlockHead("Hit", len(events), raw=True, newest=newest, arrival_order=places), encode(events)
            admitted = ingress.admit(head, block, True, Bounds(low, high))
            deltas = [delta for _, _, delta in admitted if delta is not None]
            assert sum(part.inserts for part, _, _ in admitted) == sum(len(delta) for delta in deltas)
            again = [EventCodec(TYPES).decode(part, data, Counter()) for part, data, _ in admitted]
            assert [delta.inserts for delta in again] == [delta.inserts for delta in deltas]
            rejected = Counter(
                (each.reason, each.bound, each.ts, each.id, each.source, each.record) for each in ingress.rejected
            )
            ingress.rejected.clear()
            outcomes.append(([event for delta in deltas for event in delta.inserts], rejected))
        both.append((outcomes, ingress.seen.state(), dict(ingress.drops)))
    assert both[0] == both[1]


def test_a_block_whose_identities_are_named_passes_unread() -> None:
    ingress = Ingress(TYPES, CODEC, Counter())
    head, block = block_of(hits(), runs=[("a", 0, FEWEST_ROWS - 1)], oldest=1, newest=FEWEST_ROWS)
    assert ingress.admit(head, block, False) == [(head, block, None)]
    again, block = block_of(hits(), runs=[("a", 0, FEWEST_ROWS - 1)], oldest=1, newest=FEWEST_ROWS)
    assert ingress.admit(again, block, False) == [] and ingress.drops == {"duplicate": FEWEST_ROWS}


def test_a_broker_that_knows_no_types_looks_for_repeats_in_columns_too() -> None:
    ingress = Ingress(EventTypes(), EventCodec(EventTypes()), Counter())
    assert len(ingress.admit(*block_of(hits(10)), False)) == 1
    ((head, block, _),) = ingress.admit(*block_of(hits(10, first=5)), False)
    assert CODEC.decode(head, block, Counter()).inserts == hits(5, first=10) and ingress.drops == {"duplicate": 5}


def test_a_node_loads_at_its_start_what_arrow_needs():
    """Nothing is left to be imported when the first columns come."""
    code = """
        import sys
        from slackline import Event, Block
        from middleware.link.columnar import load_arrow, pack_columns, unpack_columns

        load_arrow()
        before = {name for name in sys.modules if name.partition(".")[0] in ("numpy", "pandas", "pyarrow")}
        columns = Block.from_events(Event, [Event(ts=1, id=1, source="a")])
        assert Block.of(Event, unpack_columns(pack_columns(columns.batch))).filter(columns.times > 0).events()
        after = {name for name in sys.modules if name.partition(".")[0] in ("numpy", "pandas", "pyarrow")}
        assert before and after == before, after - before
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)
