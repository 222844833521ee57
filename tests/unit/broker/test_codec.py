"""Payloads and events as bytes: round trips, and what becomes of bytes that are wrong."""

from __future__ import annotations

import contextlib
from collections import Counter

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middleware.broker.merge import merged
from middleware.link.codec import MAX_FRAME, BlockHead, Changes, EventCodec, Interest, Ready, array_of, decode_payload, encode
from middleware.link.encoding import encode_delta
from middleware.link.frames import VERSION, Ack, Bye, Data, Hello, Refusal, decode_frame, encode_frame
from middleware.model.change import Batch, Delta, Insert, Retract, Revise, consolidate
from middleware.model.errors import WireError
from middleware.model.event import MAX_TS, MIN_TS, Event, EventTypes


class Hit(Event):
    peak: float
    text: str = ""


CODEC = EventCodec(EventTypes([Hit]))
hits = st.builds(
    Hit,
    st.floats(allow_nan=False),
    st.text(max_size=3),
    ts=st.integers(MIN_TS + 1, MAX_TS - 1),
    id=st.integers(-(2**63), 2**63 - 1),
    source=st.sampled_from(["a", "b"]),
    level=st.just(0),
)


def hit(number: int, text: str = "", level: int = 0) -> Hit:
    return Hit(0.5, text, ts=number + 1, id=number, source="a", level=level)


@settings(deadline=None)
@given(st.lists(hits), st.lists(hits), st.lists(hits), st.booleans())
def test_a_delta_survives_the_wire(inserts: list[Event], revised: list[Event], retracts: list[Event], premature: bool) -> None:
    delta = Delta(inserts, [(event, event) for event in revised], retracts, list(range(len(inserts))) if premature else None)
    [(head, block)] = encode_delta("Hit", delta, raw=True)
    drops: Counter[str] = Counter()
    assert CODEC.decode(head, block, drops) == delta
    assert not drops
    assert head.count == len(delta)


@pytest.mark.parametrize(
    "frame",
    [
        Hello(VERSION, "a", "node", 1, 2, 3, 4),
        Data(1, 2, 3, 4, b"head"),
        Ack(1, 2, 3, 4, True),
        Bye(1, 2, 3, 4, "why"),
        Refusal("why", True),
    ],
)
def test_link_frames_survive_the_wire(frame: msgspec.Struct) -> None:
    assert decode_frame(encode_frame(frame)) == frame


@pytest.mark.parametrize(
    "payload", [Changes(5, {"Hit": 4}, []), Interest(3, ["a.*"], "disconnect", ["r"], ["d"], ["p"]), Ready(7)]
)
def test_payloads_survive_the_wire(payload: Changes | Interest | Ready) -> None:
    assert decode_payload([encode(payload)]) == payload


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_a_frame_or_a_wire_error(data: bytes) -> None:
    for decode in (decode_frame, lambda data: decode_payload([data])):
        with contextlib.suppress(WireError):
            decode(data)
    drops: Counter[str] = Counter()
    for plain in (True, False):
        delta = CODEC.decode(BlockHead("Hit", 1, plain=plain), data, drops)
        assert all(isinstance(change.event, Hit) for change in delta.changes() if isinstance(change, Insert))


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ([], "malformed payload"),
        ([b"\x93"], "malformed payload"),
        ([encode(Changes(None, None, [BlockHead("Hit", 1)]))], "names 1 blocks, 0 follow"),
        ([encode(Ready(1)), b"x"], "names 0 blocks, 1 follow"),
        ([encode(Changes(None, None, [BlockHead("Hit", 1, 2**62)])), b"\x91\x00"], "2 bytes cannot hold 4611686018427387905"),
        ([encode(Changes(None, None, [BlockHead("Hit", 0), BlockHead("Hit", 2)])), b"\x90", b"x"], "1 bytes cannot hold 2"),
        ([encode(Ready(1)), b"x" * MAX_FRAME], "oversized frame"),
        ([encode([0, MAX_TS, None, []])], "malformed payload"),
        ([encode([0, None, {"Hit": MAX_TS + 1}, []])], "malformed payload"),
        ([b"\x91" * 100_000], "malformed payload"),
    ],
)
def test_bad_payloads_say_why(parts: list[bytes], reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        decode_payload(parts)


def test_one_bad_record_does_not_lose_the_good_ones() -> None:
    good = [encode(hit(1)), encode(hit(2))]
    bad = [
        encode(["x", "", 1, 1, "a", 0]),
        encode([0.5, "", 2**62, 1, "a", 0]),
        encode([0.5, "", float("nan"), 1, "a", 0]),
        encode({}),
    ]
    drops: Counter[str] = Counter()
    assert CODEC.decode(BlockHead("Hit", 6), array_of([good[0], *bad, good[1]]), drops) == Delta([hit(1), hit(2)])
    assert drops == {"malformed event": 4}
    drops.clear()
    raws = [msgspec.Raw(record) for record in good + bad]
    block = encode((raws, None, [(hit(3), hit(4)), (hit(3), None)], raws))
    assert CODEC.decode(BlockHead("Hit", 6, 2, 6, plain=False), block, drops) == Delta(
        [hit(1), hit(2)], [(hit(3), hit(4))], [hit(1), hit(2)]
    )
    assert drops == {"malformed event": 9}


def test_unknown_types_truncated_blocks_and_levels_are_counted() -> None:
    drops: Counter[str] = Counter()
    assert not CODEC.decode(BlockHead("Miss", 3), b"\x90", drops)
    assert not CODEC.decode(BlockHead("Hit", 2), encode([hit(1), hit(2)])[:-3], drops)
    [(head, block)] = encode_delta(
        "Hit", Delta([hit(1), hit(2, level=1)], [(hit(1), hit(1, level=2))], [hit(3, level=1)]), raw=True
    )
    assert CODEC.decode(head, block, drops) == Delta([hit(1)])
    assert drops == {"unknown type": 3, "malformed block": 2, "level of a derived event": 3}
    head.raw = False  # from a node, derived events may come
    assert len(CODEC.decode(head, block, drops)) == 4


def test_k_plus_that_does_not_fit_is_skipped() -> None:
    drops: Counter[str] = Counter()
    block = encode(([hit(1), hit(2)], [7], [], []))
    assert CODEC.decode(BlockHead("Hit", 2, plain=False), block, drops) == Delta([hit(1), hit(2)])


@pytest.mark.parametrize("count", [0, 1, 15, 16, 65_535, 65_536])
def test_records_become_one_array(count: int) -> None:
    assert msgspec.msgpack.decode(array_of([encode(1)] * count)) == [1] * count


def test_a_large_delta_becomes_several_blocks_in_an_order_that_keeps_its_meaning() -> None:
    text = "x" * 1_000
    inserts = [hit(n, text) for n in range(1_000)]
    revises = [(hit(n), hit(n, text)) for n in range(1_000, 2_000)]
    retracts = [hit(n, text) for n in range(2_000, 3_000)]
    delta = Delta(inserts, revises, retracts, list(range(1_000)))
    blocks = encode_delta("Hit", delta)
    drops: Counter[str] = Counter()
    parts = [CODEC.decode(head, block, drops) for head, block in blocks]
    assert len(parts) > 3
    assert max(len(block) for _, block in blocks) < MAX_FRAME
    assert [change for part in parts for change in part.changes()] == list(delta.changes())


changes = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["put", "take"]), st.integers(0, 2)), max_size=20)


@settings(deadline=None)
@given(changes, st.data())
def test_merging_deltas_nets_like_consolidating_their_changes(steps: list[tuple[int, str, int]], data: st.DataObject) -> None:
    there: dict[int, Event] = {}
    stream: list[Insert | Revise | Retract] = []
    for number, what, content in steps:
        event = hit(number, str(content))
        if what == "take" and number in there:
            stream.append(Retract(there.pop(number)))
        elif what == "put" and number in there:
            stream.append(Revise(event, there[number]))
            there[number] = event
        elif what == "put":
            stream.append(Insert(event))
            there[number] = event
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=4)))
    pieces = [stream[i:j] for i, j in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    net = merged([consolidate(piece) for piece in pieces])
    whole = consolidate(stream)
    assert sorted(net.inserts, key=repr) == sorted(whole.inserts, key=repr)
    assert (len(net.revises), len(net.retracts)) == (len(whole.revises), len(whole.retracts)) == (0, 0)
    assert sorted(e.id for e in net.inserts) == sorted(there)
    assert Batch({"Hit": net}).deltas["Hit"] is net
