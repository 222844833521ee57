"""A checkpoint in pieces: the first has all that is small, the others lanes by key, a few at a time.

All of them show the state at the end of one record, however many steps are taken in between. Each piece carries a checksum
over itself and the pieces before it, and the last one says so: what is damaged, missing or from elsewhere is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
import xxhash

from middleware.durability.frozen import decode_state, encode_state, known_events, read_head, uncollected, written_head
from middleware.errors import StateError
from middleware.event import EventTypes

_SUM = 8
_MORE, _LAST = b"\0", b"\1"

_ADVICE = (
    "see that the disk is sound; start the node with --rebuild to take its whole log again, or, if the log does not reach back "
    "to its beginning, in a new state folder"
)


class Piece(msgspec.Struct):
    """Piece ``part`` (from 0) of the checkpoint of the state at the end of record ``number``. They are to be stored in order;
    the checkpoint counts once the last one is."""

    number: int
    part: int
    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def is_last(self) -> bool:
        """Whether the checkpoint is complete with it."""
        return self.data[_SUM : _SUM + 1] == _LAST


def whole(data: bytes) -> list[bytes]:
    """The pieces of a checkpoint that was written as one (format 2 of the log): it reads as a first piece that has all."""
    total = _summed(0, _MORE, data)
    last = _summed(total, _LAST, b"")
    return [total.to_bytes(_SUM, "big") + _MORE + data, last.to_bytes(_SUM, "big") + _LAST]


class Begun:
    """A checkpoint that is being made. ``parts``: gives the next of what there is by key, about so many; nothing at the end."""

    def __init__(
        self, number: int, state: Any, parts: Callable[[int], Any], types: EventTypes, known: Mapping[str, str]
    ) -> None:
        self._number, self._parts, self._types = number, parts, types
        self._part = self._sum = 0
        self._head = written_head(types, known) + encode_state(state, types)

    def first(self) -> Piece:
        """The first piece, to be taken before the next step."""
        head, self._head = self._head, b""
        return self._piece(_MORE, head)

    def next(self, count: int) -> Piece:
        """The next piece: at most so many lanes. O(lanes and what they hold)."""
        with uncollected():
            parts = self._parts(count)
            return self._piece(_MORE, encode_state(parts, self._types)) if parts else self._piece(_LAST, b"")

    def _piece(self, kind: bytes, body: bytes) -> Piece:
        self._sum = _summed(self._sum, kind, body)
        piece = Piece(self._number, self._part, b"".join([self._sum.to_bytes(_SUM, "big"), kind, body]))
        self._part += 1
        return piece


class Stored:
    """A checkpoint that is read, piece by piece. Raises StateError if it is damaged.

    ``known``
        the fields, by type, of all events that its log may hold.
    """

    def __init__(self, pieces: Iterable[bytes], types: EventTypes) -> None:
        self._types = types
        self._bodies = bodies(pieces)
        self._head = next(self._bodies)
        self.known = known_events(self._head, types)

    def state(self) -> Any:
        """What the first piece has."""
        head, self._head = self._head, b""
        return decode_state(read_head(head), self._types)

    def parts(self) -> Iterator[Any]:
        """What the others have, once, in order."""
        for body in self._bodies:
            yield decode_state(body, self._types)


def bodies(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """What the pieces hold, each once it is known to be what was written."""
    total, kind, number = 0, _MORE, 0
    for number, piece in enumerate(pieces, 1):
        kind, body = piece[_SUM : _SUM + 1], piece[_SUM + 1 :]
        total = _summed(total, kind, body)
        if int.from_bytes(piece[:_SUM], "big") != total:
            raise StateError(f"the checkpoint is damaged in piece {number}: {_ADVICE}")
        if kind == _LAST:
            return
        yield body
    raise StateError(f"the checkpoint ends behind piece {number}, before it is complete: {_ADVICE}")


def _summed(before: int, kind: bytes, body: bytes) -> int:
    return xxhash.xxh3_64_intdigest(body, xxhash.xxh3_64_intdigest(kind, before))
