"""The chain of a log: each record has a checksum that covers the one before it, so none can change or go missing unnoticed.

Pure. Records of a file that was written before there were checksums have none, up to the number ``unchained``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

import msgspec
import xxhash

_PLACE = struct.Struct("<qqqqq")
_SEED = 2**63 - 1


class Place(NamedTuple):
    """Where a record stands: its number, the positions that it spans (first, last], when it was stored, how long it is."""

    number: int
    first: int
    last: int
    at: int
    size: int


class Link(msgspec.Struct):
    """A record as it is found in the file: ``before``, the checksum of the one before it, ``sum``, its own; None without."""

    place: Place
    before: int | None
    sum: int | None
    data: bytes

    def is_intact(self, unchained: int) -> bool:
        """Whether it is as it was written. Whatever damage has made of its values, this does not raise. O(bytes)."""
        if self.sum is None:
            return self.place.number <= unchained
        try:
            return checksum(self.before or 0, self.place, self.data) == self.sum
        except (struct.error, TypeError, OverflowError):
            return False


def checksum(before: int, place: Place, data: bytes) -> int:
    """Of a record behind the one with the checksum ``before``: 63 bits. O(bytes)."""
    digest = xxhash.xxh3_64(_PLACE.pack(*place), seed=before & _SEED)
    digest.update(data)
    return digest.intdigest() & _SEED


def seal(number: int, data: bytes) -> int:
    """The checksum of what is stored by itself, such as a checkpoint: 63 bits. O(bytes)."""
    return xxhash.xxh3_64_intdigest(data, seed=number & _SEED) & _SEED


def sound_end(links: Iterable[Link], number: int, total: int | None, unchained: int) -> tuple[int, int | None, bool]:
    """How far records behind ``number``, which has the checksum ``total``, are all there and intact. O(bytes).

    The number and the checksum of the last one, and whether something else comes behind it.
    """
    for link in links:
        follows = link.place.number == number + 1 and (total is None or link.before is None or link.before == total)
        if not follows or not link.is_intact(unchained):
            return number, total, True
        number, total = link.place.number, link.sum
    return number, total, False
