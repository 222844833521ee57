"""Messages in pieces: ZeroMQ takes no large parts, so that a stranger cannot make it hold one before the handshake."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import msgspec

PIECE = 512 * 1024
"""The most bytes in one piece: enough for any part, except one with a single large event."""

_CUT = b"\xc1"
"""First byte of a message whose parts are in pieces. No msgpack value begins with it, so no link frame does."""

_counts = msgspec.msgpack.Decoder(list[Annotated[int, msgspec.Meta(ge=1, le=2**16)]]).decode


def cut(parts: list[bytes]) -> list[bytes]:
    """A message with small enough parts: the number of pieces of each part, then the pieces. O(bytes)."""
    pieces = [part[at : at + PIECE] for part in parts for at in range(0, max(len(part), 1), PIECE)]
    counts = [max(1, -(-len(part) // PIECE)) for part in parts]
    return [_CUT + msgspec.msgpack.encode(counts), *pieces]


def joined(parts: list[bytes]) -> list[bytes]:
    """A message as it was before it was cut, if it was. One that only looks cut stays as it is: it is no link frame.

    >>> joined(cut([b"head", bytes(PIECE + 1)])) == [b"head", bytes(PIECE + 1)]
    True
    """
    if not parts or parts[0][:1] != _CUT:
        return parts
    try:
        counts = _counts(parts[0][1:])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return parts
    if sum(counts) != len(parts) - 1:
        return parts
    pieces = iter(parts[1:])
    return [b"".join(islice(pieces, count)) for count in counts]
