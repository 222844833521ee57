"""What a checkpoint does beside its bytes."""

from __future__ import annotations

import gc
import random

import pytest

from middleware.durability.checkpoint import PendingCheckpoint, Piece, StoredCheckpoint
from middleware.durability.state_encoding import decode_state, encode_state, uncollected
from middleware.model.errors import StateError
from middleware.model.event import Event, EventTypes
from middleware.model.later import Later


class Hit(Event):
    ball: int


TYPES = EventTypes([Hit])


def pieces(number: int = 7, parts: int = 5) -> list[bytes]:
    """A checkpoint with this many parts behind what is small."""
    left = [{"Unit": [(part, Hit(part, ts=1))]} for part in range(parts)]
    known = {"Gone": "Gone(x: int)", "Hit": "Hit(ball: int)"}
    begun = PendingCheckpoint(
        number, {"number": number, "events": [Hit(1, ts=1)]}, lambda count: left.pop(0) if left else None, TYPES, known
    )
    made: list[Piece] = [begun.next(0)]
    while not made[-1].is_last:
        made.append(begun.next(1))
    assert [(piece.number, piece.part) for piece in made] == [(number, part) for part in range(len(made))]
    return [piece.data for piece in made]


def read(data: list[bytes]) -> list[object]:
    stored = StoredCheckpoint(data, TYPES)
    return [stored.state(), *stored.parts()]


def test_what_was_known_stays_known() -> None:
    assert StoredCheckpoint(pieces(), TYPES).known == {"Gone": "Gone(x: int)", "Hit": "Hit(ball: int)"}
    assert read(pieces()) == [
        {"number": 7, "events": [Hit(1, ts=1)]},
        *({"Unit": [(part, Hit(part, ts=1))]} for part in range(5)),
    ]


def test_a_damaged_piece_is_found() -> None:
    rng = random.Random(1)
    for _ in range(300):
        data = pieces()
        at = rng.randrange(len(data))
        place, bit = rng.randrange(len(data[at])), 1 << rng.randrange(8)
        data[at] = data[at][:place] + bytes([data[at][place] ^ bit]) + data[at][place + 1 :]
        with pytest.raises(StateError, match=rf"damaged in piece {at + 1}: .*--rebuild"):
            read(data)


def test_a_piece_that_is_missing_doubled_or_cut_is_found() -> None:
    whole = pieces()
    for at in range(len(whole)):
        for data in (whole[:at], whole[:at] + whole[at + 1 :], [*whole[:at], whole[at][:-1], *whole[at + 1 :]]):
            with pytest.raises(StateError, match=r"damaged in piece|before it is complete"):
                read(data)
        if at + 1 < len(whole):
            with pytest.raises(StateError, match="damaged in piece"):
                read([*whole[: at + 1], *whole[at:]])


def test_a_piece_of_another_checkpoint_is_found() -> None:
    one, other = pieces(), pieces(number=8)
    with pytest.raises(StateError, match="damaged in piece 6"):
        read([*one[:5], *other[5:]])


def test_what_is_made_later_is_read_as_a_list_with_its_events() -> None:
    for count in (0, 1, 255, 256, 257, 1_500):
        hits = [Hit(number, ts=number) for number in range(count)]
        made: list[int] = []
        state = {"hits": Later(lambda hits, made: (made.append(hit.ts) or hit for hit in hits), hits, made), "count": count}  # type: ignore[func-returns-value]
        assert made == []
        data = encode_state(state, TYPES)
        assert made == list(range(count))
        assert decode_state(data, TYPES) == {"hits": hits, "count": count}


def test_collections_continue_whatever_happens_meanwhile() -> None:
    assert gc.isenabled()
    with uncollected(), uncollected():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(KeyError), uncollected():
        raise KeyError
    assert gc.isenabled()
