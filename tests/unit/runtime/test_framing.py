"""A message comes out of its frames as it went in, in few of them; a stranger's frames stay what they are."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from middleware.link.codec import encode
from middleware.runtime.transport.framing import PIECE, frames_of, parts_of

PARTS = st.lists(st.binary(max_size=40), min_size=1, max_size=6).filter(lambda parts: parts[0][:1] != b"\xc1")


@given(PARTS)
@example([b"", b""])
@example([b"head", bytes(PIECE), b"", bytes(2 * PIECE + 1)])
@example([bytes(PIECE + 1)])
@example([b"head", bytes(9_000), b"", bytes(9_000)])
def test_a_message_comes_out_of_its_frames_as_it_went_in(parts: list[bytes]) -> None:
    frames = frames_of(parts)
    assert all(len(frame) <= PIECE for frame in frames)
    assert len(frames) <= max(len(parts), 2 + sum(map(len, parts)) // PIECE)
    assert parts_of([memoryview(frame) for frame in frames]) == parts


def test_small_parts_are_frames_of_their_own_and_large_ones_share_one() -> None:
    header, block = encode([2, 1, 5]), bytes(5_000)
    assert frames_of([header, block])[1] is block
    assert len(frames_of([header, *[block] * 20])) == 2


@pytest.mark.parametrize(
    "frames",
    [
        [],
        [b""],
        [b"\xc1"],
        [b"\xc1\x91\x05"],  # sizes, and nothing that has them
        [b"\xc1\x91\x05", b"four"],
        [b"\xc1\x91\x03", b"four"],
        [b"\xc1\x92\xff\x05", b"four"],  # less than none
        [b"\xc1not sizes", b"four"],
        [b"\xc1" + encode([2**50]), b"four"],
        [b"plain", b"parts"],
    ],
)
def test_frames_whose_sizes_are_not_theirs_are_parts_themselves(frames: list[bytes]) -> None:
    assert parts_of([memoryview(frame) for frame in frames]) == frames
