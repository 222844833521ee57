"""Numbers whose hash by Spark is chosen, so that every partition has its share of the rows, and tasks run beside each other.

Spark puts a row into the partition ``pmod(hash(number), partitions)``; the hash of an int is MurmurHash3 with seed 42. Each of
its steps can be undone, so there is one number for each hash.
"""

from __future__ import annotations

from functools import cache

_WORD = 2**32
_SEED, _LENGTH = 42, 4
_FIRST, _SECOND, _MIXED, _LAST = 0xCC9E2D51, 0x1B873593, 0x85EBCA6B, 0xC2B2AE35
_ADDED = 0xE6546B64


@cache
def number_with_hash(hashed: int) -> int:
    """The int (32 bits) whose hash is ``hashed``: the numbers for as many successive hashes fill one partition each."""
    state = _unshifted(hashed % _WORD, 16)
    state = _unshifted(_divided(state, _LAST), 13)
    state = _unshifted(_divided(state, _MIXED), 16) ^ _LENGTH
    state = _rotated(_divided(state - _ADDED, 5), -13) ^ _SEED
    return _signed(_divided(_rotated(_divided(state, _SECOND), -15), _FIRST))


@cache
def hash_of(number: int) -> int:
    """The hash of an int: ``hash_of(number_with_hash(hashed)) == hashed``."""
    state = _SEED ^ _rotated(number * _FIRST % _WORD, 15) * _SECOND % _WORD
    state = (_rotated(state, 13) * 5 + _ADDED) % _WORD ^ _LENGTH
    state = (state ^ state >> 16) * _MIXED % _WORD
    state = (state ^ state >> 13) * _LAST % _WORD
    return _signed(state ^ state >> 16)


def _divided(word: int, factor: int) -> int:
    """The number that gives ``word`` if it is multiplied."""
    return word * pow(factor, -1, _WORD) % _WORD


def _unshifted(word: int, bits: int) -> int:
    """The number that gives ``word`` if it is combined with itself, shifted to the right by so many bits, 11 at least."""
    return word ^ word >> bits ^ word >> 2 * bits


def _rotated(word: int, bits: int) -> int:
    """A word with its bits moved to the left, those that leave it back in on the right."""
    return (word << bits % 32 | word >> -bits % 32) % _WORD


def _signed(word: int) -> int:
    return word - _WORD if word >= _WORD // 2 else word
