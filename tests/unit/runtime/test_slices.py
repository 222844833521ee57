"""What a function writes comes a little at a time, and in between the function stands still."""

from __future__ import annotations

import gc
import pickle
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from middleware.durability.checkpoint import AtOnce, Bytes, PendingCheckpoint, StoredCheckpoint
from middleware.durability.state_encoding import encode_state
from middleware.model.event import EventTypes
from middleware.runtime.loop.slices import Slices


def taken(found: Bytes, size: int) -> bytes:
    return b"".join(iter(lambda: found.take(size), b""))


@given(chunks=st.lists(st.binary(min_size=1, max_size=9), max_size=9), size=st.integers(1, 30))
def test_all_that_is_written_comes_in_order(chunks: list[bytes], size: int) -> None:
    def write(file: Any) -> None:
        for chunk in chunks:
            assert file.write(chunk) == len(chunk)

    for slicing in (Slices, AtOnce):
        found = slicing(write)
        assert taken(found, size) == b"".join(chunks)
        assert found.take(size) == b"", "it stays at its end"


def test_between_two_takings_it_stands_still() -> None:
    reached = []

    def write(file: Any) -> None:
        for number in range(5):
            reached.append(number)
            file.write(b"12345")

    found = Slices(write)
    assert reached == []
    assert (found.take(1), reached) == (b"12345", [0])
    assert (found.take(6), reached) == (b"1234512345", [0, 1, 2])
    assert (taken(found, 1), reached) == (b"1234512345", [0, 1, 2, 3, 4])


@pytest.mark.parametrize("slicing", [Slices, AtOnce])
def test_what_is_raised_is_raised_where_bytes_are_taken(slicing: Any) -> None:
    def write(file: Any) -> None:
        raise ValueError("of what is written")

    found = slicing(write)
    with pytest.raises(ValueError, match="of what is written"):
        found.take(1)


def test_who_lets_go_ends_it() -> None:
    ended = threading.Event()

    def write(file: Any) -> None:
        try:
            while True:
                file.write(b"on and on")
        finally:
            ended.set()

    found = Slices(write)
    found.take(100)
    assert not ended.is_set()
    del found
    gc.collect()
    assert ended.wait(10)


def test_a_large_state_comes_in_pieces_and_things_in_it_stay_one() -> None:
    types = EventTypes()
    shared = list(range(100_000))
    state = {"one": shared, "other": shared, "rest": [str(number) for number in range(50_000)]}
    begun = PendingCheckpoint(1, state, lambda count: None, types, {}, Slices)
    pieces = [begun.next(100)]
    while not pieces[-1].is_last:
        pieces.append(begun.next(100))
    assert len(pieces) > 10
    assert max(piece.size for piece in pieces) < 150_000
    found = StoredCheckpoint([piece.data for piece in pieces], types).state()
    assert found == state and found["one"] is found["other"]
    assert encode_state(found, types) == pickle.dumps(state, protocol=5)
