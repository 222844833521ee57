"""Monoids that only estimate: Bloom filter, number of distinct values, quantiles. Deterministic, whatever the order."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import msgspec
import xxhash

from detectors.window.aggregation.monoid import Monoid, Partial, named
from middleware.model.errors import WindowError
from middleware.model.event import Value
from middleware.model.identity import canonical

_MASK = 2**64 - 1
_encode = msgspec.msgpack.Encoder().encode


def hashed(value: object) -> int:
    """64 pseudo-random bits of a value, the same in every process, and the same for equal numbers."""
    if isinstance(value, float) and not math.isnan(value):
        value = int(value) if value.is_integer() and abs(value) < 9.2e18 else value
    elif not isinstance(value, float):
        value = canonical(value)
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        bits = (value + 0x9E3779B97F4A7C15) & _MASK  # the mixer of SplitMix64
        bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _MASK
        return bits ^ (bits >> 31)
    return xxhash.xxh3_64_intdigest(_encode(str(value) if isinstance(value, int) else value))


_BITS = 2**14
_PLACES = 7


class Filter(msgspec.Struct, frozen=True, gc=False):
    """A Bloom filter (1970) of 16,384 bits. ``value in filter`` is never wrongly False; of 1,700 values, 1 % wrongly True."""

    bits: bytes

    def __contains__(self, value: object) -> bool:
        return all(self.bits[bit >> 3] >> (bit & 7) & 1 for bit in _places(value))

    @property
    def count(self) -> float:
        """An estimate of how many different values it holds (Swamidass and Baldi 2007)."""
        empty = 1 - int.from_bytes(self.bits).bit_count() / _BITS
        return -_BITS / _PLACES * math.log(empty) if empty else math.inf


def _places(value: object) -> list[int]:
    first = hashed(value)
    step = first >> 32 | 1
    return [((first + number * step) & _MASK) % _BITS for number in range(_PLACES)]


def _mask(value: object) -> int:
    mask = 0
    for place in _places(value):
        mask |= 1 << place
    return mask


@dataclass(frozen=True, kw_only=True)
class Sketch(Monoid):
    """A monoid over hashes of values. ``lower_native`` makes the result from the bytes that the core gives."""

    lower_native: Callable[[bytes], Value]
    lift_hash: Callable[[object], int] = hashed


BLOOM = Sketch(
    name="bloom",
    identity=0,
    lift=_mask,
    combine=lambda a, b: a | b,
    lower=lambda mask: Filter(mask.to_bytes(_BITS // 8, "little")),
    commutative=True,
    native=("bloom", "any"),
    lower_native=Filter,
)
"""The set of values, as a ``Filter``."""

_PRECISION = 12


def _register(value: object) -> bytes:
    bits = hashed(value)
    rest = (bits << _PRECISION) & _MASK | 1 << (_PRECISION - 1)
    registers = bytearray(1 << _PRECISION)
    registers[bits >> (64 - _PRECISION)] = 64 - rest.bit_length() + 1
    return bytes(registers)


def _estimate(registers: bytes) -> float:
    """HyperLogLog of Flajolet et al. (2007), with linear counting while registers are empty."""
    count = len(registers)
    empty = registers.count(0)
    raw = 0.7213 / (1 + 1.079 / count) * count**2 / sum(2.0**-rank for rank in registers)
    return count * math.log(count / empty) if raw <= 2.5 * count and empty else raw


DISTINCT = Sketch(
    name="distinct",
    identity=bytes(1 << _PRECISION),
    lift=_register,
    combine=lambda a, b: bytes(map(max, a, b)),
    lower=_estimate,
    commutative=True,
    native=("distinct", "any"),
    lower_native=_estimate,
)
"""How many different values there were, within 1.6 % (one standard error). 0 for no values."""


def quantile(q: float, accuracy: float = 0.01) -> Monoid:
    """The value below which a fraction q of the values lies, within a relative ``accuracy``. None if there are no values.

    DDSketch (Masson, Rim and Lee, VLDB 2019): counts in buckets that grow by a constant factor, so that merging is exact.
    Raises WindowError unless 0 <= q <= 1 and 0 < accuracy < 1.
    """
    if not (0 <= q <= 1 and 0 < accuracy < 1):
        raise WindowError(f"a quantile needs 0 <= q <= 1 and 0 < accuracy < 1, not {q} and {accuracy}")
    return _quantile(q, accuracy)


@cache
def _quantile(q: float, accuracy: float) -> Monoid:
    growth = (1 + accuracy) / (1 - accuracy)
    scale = 1 / math.log(growth)

    def lift(value: float) -> tuple[tuple[tuple[int, int], int], ...]:
        if not math.isfinite(value):
            raise WindowError(f"{value} has no place among quantiles")
        sign = (value > 0) - (value < 0)
        return (((sign, sign * math.ceil(math.log(abs(value)) * scale) if sign else 0), 1),)

    def combine(a: Partial, b: Partial) -> Partial:
        counts = dict(a)
        for bucket, count in b:
            counts[bucket] = counts.get(bucket, 0) + count
        return tuple(sorted(counts.items()))

    def lower(counts: Partial) -> float | None:
        rank = q * (sum(count for _, count in counts) - 1)
        seen = 0
        for (sign, number), count in counts:
            seen += count
            if seen > rank:
                return float(sign * 2 * growth ** (sign * number) / (growth + 1))
        return None

    monoid = Monoid(name=f"quantile({q})", identity=(), lift=lift, combine=combine, lower=lower, commutative=True)
    named(monoid, quantile, q, accuracy)
    return monoid


def sketch(name: str) -> Monoid:
    """A monoid of this module that has no parameters, by its name."""
    return {"bloom": BLOOM, "distinct": DISTINCT}[name]


for _each in (BLOOM, DISTINCT):
    named(_each, sketch, _each.name)
