"""Finds the part of a stage that a key belongs to."""

from __future__ import annotations

from middleware.model.event import Key, stable_hash
from middleware.model.identity import canonical


def part_of(key: Key, parts: int) -> int:
    """The part that has ``key``, from 0; the same on every node, and for keys that are equal.

    Raises DetectorError if the key contains anything but numbers, texts, bytes, None, enums, tuples and frozensets.

    >>> part_of("word", 8) == part_of("word", 8), part_of(1, 8) == part_of(1.0, 8)
    (True, True)
    """
    known = canonical(key)
    return stable_hash(known if known.__class__ is str else repr(known)) % parts
