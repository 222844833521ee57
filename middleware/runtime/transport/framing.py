"""Messages as ZeroMQ frames: ZeroMQ takes no large ones, so that a stranger cannot make it hold one before the handshake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

Bytes = bytes | memoryview

PIECE = 512 * 1024
"""The most bytes in one frame: enough for any message, except one with a single large event."""

_GATHERED_BYTES = 8 * 1024
"""Bytes that ZeroMQ gathers for one system call: parts that are no more in all cost nothing as frames of their own."""

_MAGIC = b"\xc1"
"""First byte of the frame with the sizes of parts. No msgpack value begins with it, so no link frame does."""

_decode = msgspec.msgpack.Decoder(list[Annotated[int, msgspec.Meta(ge=0, le=2**40)]]).decode


def frames_of(parts: Sequence[bytes]) -> list[Bytes]:
    """The parts of a small message; of a larger one the sizes of its parts, and their bytes in frames of PIECE. O(bytes).

    Large parts share a frame because ZeroMQ reads and writes each large one with system calls of its own.
    """
    if sum(map(len, parts)) <= _GATHERED_BYTES:
        return [*parts]
    body = b"".join(parts)
    head = _MAGIC + msgspec.msgpack.encode([len(part) for part in parts])
    if len(body) <= PIECE:
        return [head, body]
    view = memoryview(body)
    return [head, *(view[at : at + PIECE] for at in range(0, len(body), PIECE))]


def parts_of(frames: Sequence[Bytes]) -> list[bytes]:
    """The parts of a message. Frames whose sizes are missing, or are not these, are parts themselves: those make no link frame.

    >>> parts_of(frames_of([b"head", bytes(PIECE + 1)])) == [b"head", bytes(PIECE + 1)]
    True
    """
    sizes = _sizes_of_parts(frames)
    if sizes is None:
        return [bytes(frame) for frame in frames]
    body = memoryview(frames[1] if len(frames) == 2 else b"".join(frames[1:]))
    parts, start = [], 0
    for size in sizes:
        parts.append(bytes(body[start : start + size]))
        start += size
    return parts


def _sizes_of_parts(frames: Sequence[Bytes]) -> list[int] | None:
    """The sizes that the first frame gives; None if the frames are parts themselves."""
    if len(frames) < 2 or frames[0][:1] != _MAGIC:
        return None
    try:
        sizes = _decode(frames[0][1:])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return sizes if sum(sizes) == sum(map(len, frames)) - len(frames[0]) else None
