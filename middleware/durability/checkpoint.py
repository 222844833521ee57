"""A checkpoint in pieces: first the whole (the state not by key), a little at a time, then lanes by key, a few at a time.

All pieces show the state at the end of one record, however many steps are taken in between: the whole shares nothing with the
running state, and lanes are copied when they are touched. Each piece carries a checksum over itself and the pieces before it,
and the last one has a tag of its own: a damaged, missing or foreign piece is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BytesIO
from typing import Any, Protocol

import msgspec
import xxhash

from middleware.durability.state_encoding import (
    decode_state,
    encode_state,
    known_events,
    read_head,
    uncollected,
    unsaved,
    write_state,
    written_head,
)
from middleware.model.errors import StateError, UnsavedError
from middleware.model.event import EventTypes

_SUM = 8
_LANES, _LAST, _WHOLE = b"\0", b"\1", b"\2"

_LANE = 256
"""Bytes of the whole that stand for one lane: they take about as long to write down."""

_ADVICE = (
    "see that the disk is sound; start the node with --rebuild to take its whole log again, or, if the log does not reach back "
    "to its beginning, in a new state folder"
)


class Piece(msgspec.Struct):
    """Piece ``part`` (from 0) of the checkpoint of the state at the end of record ``number``. Pieces are to be stored in order;
    the checkpoint counts once the last one is stored."""

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
    """The pieces of a checkpoint that was written as one (format 2 of the log): the first piece has all of it."""
    total = _summed(0, _WHOLE, data)
    last = _summed(total, _LAST, b"")
    return [total.to_bytes(_SUM, "big") + _WHOLE + data, last.to_bytes(_SUM, "big") + _LAST]


class Bytes(Protocol):
    """Bytes that are made on demand."""

    def take(self, size: int) -> bytes:
        """The next bytes, about ``size`` of them; none at the end."""
        ...


Slicing = Callable[[Callable[[Any], None]], Bytes]
"""Makes on demand the bytes that a function writes to the file it is given."""


class AtOnce:
    """The ``Slicing`` in one piece: all is written when the first bytes are asked for."""

    def __init__(self, write: Callable[[Any], None]) -> None:
        self._write: Callable[[Any], None] | None = write

    def take(self, size: int) -> bytes:
        """All of them, then none."""
        write, self._write = self._write, None
        file = BytesIO()
        if write is not None:
            write(file)
        return file.getvalue()


class PendingCheckpoint:
    """A checkpoint that is being made.

    ``state``
        the whole: it may share nothing with the running state that ever changes.
    ``parts``
        returns the next lanes by key, about so many; nothing at the end.
    """

    def __init__(
        self,
        number: int,
        state: Any,
        parts: Callable[[int], Any],
        types: EventTypes,
        known: Mapping[str, str],
        slicing: Slicing = AtOnce,
    ) -> None:
        self._number, self._parts, self._types = number, parts, types
        self._part = self._sum = 0
        self._head = written_head(types, known)
        self._units: Mapping[str, Any] = state.get("units", {}).get("units", {})
        self._whole: Bytes | None = slicing(lambda file: write_state(state, file, types))

    def next(self, count: int) -> Piece:
        """The next piece: at most ``count`` lanes, or about as much of the whole. O(size of the piece).

        The first one is nearly empty. Raises UnsavedError if the state of some units cannot be written.
        """
        with uncollected():
            return self._piece(*self._next(count))

    def _next(self, count: int) -> tuple[bytes, bytes]:
        """Kind and body of the next piece. Objects made on the way are gone when it returns: no garbage collection sees
        them."""
        if self._head:
            head, self._head = self._head, b""
            return _WHOLE, head
        if self._whole is not None:
            try:
                data = self._whole.take(count * _LANE)
            except StateError as error:
                raise self._fault(self._units, error) from error
            if data:
                return _WHOLE, data
            self._whole, self._units = None, {}
        parts = self._parts(count)
        if not parts:
            return _LAST, b""
        try:
            return _LANES, encode_state(parts, self._types)
        except StateError as error:
            raise self._fault(parts, error) from error

    def _fault(self, units: Mapping[str, Any], error: StateError) -> StateError:
        """Return the error with the units whose state it is about; unchanged if it is about no unit. O(size)."""
        faults = {name: why for name, state in units.items() if (why := unsaved(state, self._types)) is not None}
        return UnsavedError(faults) if faults else error

    def _piece(self, kind: bytes, body: bytes) -> Piece:
        self._sum = _summed(self._sum, kind, body)
        piece = Piece(self._number, self._part, b"".join([self._sum.to_bytes(_SUM, "big"), kind, body]))
        self._part += 1
        return piece


class StoredCheckpoint:
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
        """The whole."""
        head, self._head = self._head, b""
        return decode_state(read_head(head), self._types)

    def parts(self) -> Iterator[Any]:
        """The lanes by key, once, in order."""
        for body in self._bodies:
            yield decode_state(body, self._types)


def bodies(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The bodies of the pieces, each once its checksum was found right; those of the whole as one."""
    total, number = 0, 0
    whole: list[bytes] = []
    for number, piece in enumerate(pieces, 1):
        kind, body = piece[_SUM : _SUM + 1], piece[_SUM + 1 :]
        total = _summed(total, kind, body)
        if int.from_bytes(piece[:_SUM], "big") != total:
            raise StateError(f"the checkpoint is damaged in piece {number}: {_ADVICE}")
        if kind == _WHOLE:
            whole.append(body)
            continue
        if whole:
            yield b"".join(whole)
            whole.clear()
        if kind == _LAST:
            return
        yield body
    raise StateError(f"the checkpoint ends behind piece {number}, before it is complete: {_ADVICE}")


def _summed(before: int, kind: bytes, body: bytes) -> int:
    return xxhash.xxh3_64_intdigest(body, xxhash.xxh3_64_intdigest(kind, before))
