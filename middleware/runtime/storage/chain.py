"""The chain of a log: each record's checksum covers the one before it, so none can change or go missing unnoticed. Pure."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

import msgspec
import xxhash

_POSITION = struct.Struct("<qqqqq")
_SEED = 2**63 - 1


class RecordPosition(NamedTuple):
    """The position of a record: its number, the offsets it spans (first, last], when it was stored, its length."""

    number: int
    first: int
    last: int
    at: int
    size: int


class ChainedRecord(msgspec.Struct):
    """A record as found in the file. ``before``: the checksum of the one before it; ``sum``: its own; None if damaged."""

    position: RecordPosition
    before: int | None
    sum: int | None
    data: bytes

    def is_intact(self) -> bool:
        """Whether it is as it was written. Never raises, whatever damage did to its values. O(bytes)."""
        try:
            return checksum(self.before or 0, self.position, self.data) == self.sum
        except (struct.error, TypeError, OverflowError):
            return False


def checksum(before: int, position: RecordPosition, data: bytes) -> int:
    """The checksum of a record that follows one with the checksum ``before``: 63 bits. O(bytes)."""
    digest = xxhash.xxh3_64(_POSITION.pack(*position), seed=before & _SEED)
    digest.update(data)
    return digest.intdigest() & _SEED


def seal(number: int, data: bytes) -> int:
    """The checksum of data outside the chain, such as a checkpoint: 63 bits. O(bytes)."""
    return xxhash.xxh3_64_intdigest(data, seed=number & _SEED) & _SEED


def sound_end(records: Iterable[ChainedRecord], number: int, total: int | None) -> tuple[int, int | None, bool]:
    """How far the records after ``number``, which has the checksum ``total``, are complete and intact. O(bytes).

    Returns the number and the checksum of the last such record, and whether anything else follows it.
    """
    for record in records:
        follows = record.position.number == number + 1 and total in (None, record.before)
        if not follows or not record.is_intact():
            return number, total, True
        number, total = record.position.number, record.sum
    return number, total, False
