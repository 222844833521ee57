"""Identities read from blocks in columns by a broker that knows no types, against the same events as rows."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.broker.ingress.checks import Ingress
from middleware.broker.ingress.publisher_rows import Bounds
from middleware.link.codec import BlockHead, EventCodec, encode
from middleware.link.columnar import pack_columns
from middleware.link.identities import identities_in
from middleware.model.block.block import Block
from middleware.model.event import IDENTITY, Event, EventTypes
from middleware.native import Intervals, runs_of, take_ids
from tests.oracles import intervals as oracle


class Hit(Event):
    peak: float
    name: str


CODEC = EventCodec(EventTypes([Hit]))
HITS = st.builds(
    Hit,
    st.sampled_from([0.5, 1.5]),
    st.sampled_from(["", "x", "long enough"]),
    ts=st.integers(1, 20),
    id=st.integers(0, 12) | st.sampled_from([-(2**63), 2**63 - 1]),
    source=st.sampled_from(["a", "a", "ä", "b", ""]),
    level=st.sampled_from([0] * 12 + [1]),
)


def in_columns(events: list[Event]) -> bytes:
    batch = Block.from_events(Hit, events).batch
    at = batch.schema.get_field_index("source")
    names = pa.array(batch.column(at).to_pylist(), pa.string()).dictionary_encode()
    out = pa.BufferOutputStream()
    batch = batch.set_column(at, "source", names)
    with pa.ipc.new_stream(out, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(out.getvalue())


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.lists(HITS, min_size=1, max_size=10), st.integers(0, 3), st.integers(12, 21), st.booleans()), max_size=6
    )
)
def test_a_broker_without_types_takes_columns_as_it_takes_rows(blocks: list[tuple[list[Event], int, int, bool]]) -> None:
    both = []
    for as_columns in (False, True):
        ingress, outcomes = Ingress(EventTypes(), EventCodec(EventTypes()), Counter()), []
        for events, low, high, names_times in blocks:
            times = [event.ts for event in events]
            oldest, newest = (min(times), max(times)) if names_times else (None, None)
            places = b"".join((2 * n).to_bytes(2, "little") for n in range(len(events)))
            head = BlockHead(
                "Hit", len(events), raw=True, oldest=oldest, newest=newest, arrival_order=places, columns=as_columns
            )
            block = in_columns(events) if as_columns else encode(events)
            admitted = ingress.admit(head, block, False, Bounds(low, high))
            read = [(CODEC.decode(part, data, Counter()).inserts, part.arrival_order) for part, data, _ in admitted]
            assert [part.inserts for part, _, _ in admitted] == [len(inserts) for inserts, _ in read]
            turned = Counter((each.reason, each.bound, each.ts, each.id, each.source, each.record) for each in ingress.rejected)
            ingress.rejected.clear()
            outcomes.append((read, turned))
        seen = {source: bounds for source, bounds in ingress.seen.state().items() if bounds[0]}
        both.append((outcomes, seen, dict(ingress.drops)))
    assert both[0] == both[1]


@given(st.lists(HITS, max_size=6), st.integers(0, 2**32))
def test_identities_are_those_of_the_events_and_damage_does_no_harm(events: list[Event], seed: int) -> None:
    raw = [Hit(event.peak, event.name, ts=event.ts, id=event.id, source=event.source or "c") for event in events]
    block, rng = in_columns(raw), random.Random(seed)
    found = identities_in(block, len(raw))
    assert found is not None
    codes, ids = memoryview(found.codes).cast("I").tolist(), memoryview(found.ids).cast("q").tolist()
    assert [(found.names[code], number) for code, number in zip(codes, ids, strict=True)] == list(map(IDENTITY, raw))
    assert identities_in(block, len(raw) + 1) is None and identities_in(encode(raw), len(raw)) is None
    assert identities_in(pack_columns(pa.record_batch({"ts": [1.0], "id": [1], "source": ["a"]})), 1) is None
    for _ in range(30):
        bad = bytearray(block)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(bad))
            bad[at : at + rng.choice((1, 4, 8))] = rng.choice((rng.randbytes(1), rng.randbytes(4), b"\xff" * 8, b"\0" * 8, b""))
        ingress = Ingress(EventTypes(), EventCodec(EventTypes()), Counter())
        head = BlockHead("Hit", len(raw), raw=True, oldest=1, newest=20, columns=True)
        assert sum(part.inserts for part, _, _ in ingress.admit(head, bytes(bad), False)) <= len(raw)


RANGES = st.tuples(st.sampled_from([-(2**63), -70, 0, 1 << 40, 2**63 - 700]), st.integers(1, 700)).flatmap(
    lambda drawn: st.lists(st.integers(drawn[0], drawn[0] + drawn[1] - 1), min_size=1, max_size=80)
)


@given(st.lists(st.tuples(RANGES, st.booleans(), st.sampled_from([1, 1, 2])), max_size=6), st.integers(1, 40))
def test_ids_that_are_close_together_are_taken_as_others_are(drawn: list[tuple[list[int], bool, int]], most: int) -> None:
    """Those of one source are not sorted, but noted as bits."""
    plain, core = [oracle.Intervals(), oracle.Intervals()], [Intervals(), Intervals()]
    for ids, are_distinct, sources in drawn:
        numbers = list(dict.fromkeys(ids)) if are_distinct else ids
        given = b"".join(number.to_bytes(8, "little", signed=True) for number in numbers)
        codes = b"".join((at % sources).to_bytes(4, "little") for at in range(len(numbers)))
        assert take_ids(given, codes, core) == oracle.take_ids(given, codes, plain)
        assert [each.bounds() for each in core] == [each.bounds() for each in plain]
        events = [Event(ts=1, id=number, source=str(at % sources)) for at, number in enumerate(numbers)]
        assert runs_of(events, most) == oracle.runs_of(events, most)
        for each in core:
            each.check()


def test_a_code_that_names_no_source_takes_none() -> None:
    ids, codes = (5).to_bytes(8, "little") * 2, (0).to_bytes(4, "little") + (1).to_bytes(4, "little")
    for take, intervals in [(oracle.take_ids, oracle.Intervals()), (take_ids, Intervals())]:
        with pytest.raises(ValueError, match="one source for each id"):
            take(ids, codes, [intervals])
        assert not len(intervals)
