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
from middleware.broker.ingress.seen import plain_runs_of
from middleware.link import gathering
from middleware.link.codec import EventCodec, encode, places_of
from middleware.link.columnar import unpack_columns
from middleware.link.gathering import Gathering
from middleware.model.columns import EventColumns
from middleware.model.event import Event, EventTypes, type_name
from middleware.model.rows import reader_of
from tests.property.columns.test_blocks import KINDS, Gaps, Whole

pytestmark = pytest.mark.skipif(not native.AVAILABLE, reason="the native core is not built")


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
    Gaps(ts=1, id=1, source="x" * 600),
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
        assert head.runs == plain_runs_of(own, len(own) // 4 + 1)
        if head.columns:
            batch = unpack_columns(block, len(own))  # Arrow reads it, and finds it sound
            assert list(map(repr, EventColumns.of(kind, batch).events())) == list(map(repr, own))
        else:
            assert block == encode(own)
        places = places_of(head, len(own)) if len(blocks) > 1 else range(len(own))
        assert places is not None
        came += zip(places, own, strict=True)
    assert [event for _, event in sorted(came, key=lambda pair: pair[0])] == events


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), cut=st.tuples(st.integers(0, 9), st.integers(0, 9)), is_spelled=st.booleans())
def test_columns_of_arrow_are_written_as_they_are(
    kind: type[Event], data: st.DataObject, cut: tuple[int, int], is_spelled: bool
) -> None:
    events = data.draw(st.lists(KINDS[kind], min_size=9, max_size=12))
    batch, reader = EventColumns.from_events(kind, events).batch, reader_of(kind)
    if is_spelled:
        at = batch.schema.get_field_index("source")
        batch = batch.set_column(at, batch.schema.field(at).with_type(pa.string()), batch.column(at).cast(pa.string()))
    start, stop = sorted(cut)
    assert reader is not None
    whole, own = EventColumns(kind, batch), events[start:stop]
    parts = [(whole, start, stop), (whole.slice(start, stop), 0, stop - start)]
    for columns, first, last in parts:
        block = native.pack(reader, columns.in_core, first, last)
        assert block is not None
        assert list(map(repr, EventColumns.of(kind, unpack_columns(block, len(own))).events())) == list(map(repr, own))
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
    assert len(held) == 400
