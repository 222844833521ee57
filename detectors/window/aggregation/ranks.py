"""Order statistics: the median and exact quantiles, as monoids whose aggregates are the sorted values.

An aggregate is as large as what it covers, so a combine is a merge: O(values). Where a window only moves on, ``moving.Ranks``
is cheaper; where 1 % is near enough, ``sketches.quantile`` is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Protocol

from detectors.window.aggregation.monoid import Monoid, Partial, named
from middleware.model.errors import WindowError
from middleware.model.event import Value


class OrderedValues(Protocol):
    """Values in order."""

    def __len__(self) -> int: ...
    def __getitem__(self, rank: int, /) -> Value: ...


def middle(ordered: OrderedValues) -> float:
    """The median of numbers in order, zeros without a sign."""
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    half: float = (low + high) / 2
    return half + 0.0 if abs(half) != math.inf else float(low / 2 + high / 2)  # the sum may be too large, its half not


def ranked(ordered: OrderedValues, q: float) -> Value:
    """The least of the ordered values that is not below a fraction q of them; None unless 0 <= q <= 1. Zeros have no sign."""
    if not 0 <= q <= 1:
        return None
    found = ordered[max(0, math.ceil(q * len(ordered)) - 1)]
    return found + 0.0 if found.__class__ is float else found


def _lifted(value: Value) -> Partial:
    """How many NaNs there are, and the other values in order."""
    return (0, (value,)) if value == value else (1, ())  # noqa: PLR0124 (NaN)


def _merged(a: Partial, b: Partial) -> Partial:
    return a[0] + b[0], tuple(sorted(a[1] + b[1])) if a[1] and b[1] else a[1] or b[1]


def _monoid(name: str, lift: Callable[[Value], Value], lower: Callable[[OrderedValues], Value], commutative: bool) -> Monoid:
    return Monoid(
        name=name,
        identity=(0, ()),
        lift=lambda value: _lifted(lift(value)),
        combine=_merged,
        lower=lambda a: math.nan if a[0] else lower(a[1]) if a[1] else None,
        commutative=commutative,
    )


MEDIAN = _monoid("median", lambda value: float(value) + 0.0, middle, True)
"""The middle value, or the mean of the two in the middle. None for no values; a NaN wins."""


@cache
def exact_quantile(q: float) -> Monoid:
    """The least value that is not below a fraction q of the values, which may be of any ordered type.

    None for no values; a NaN wins. Raises WindowError unless 0 <= q <= 1.
    """
    if not 0 <= q <= 1:
        raise WindowError(f"a quantile needs 0 <= q <= 1, not {q}")
    monoid = _monoid(f"exact_quantile({q})", lambda value: value, lambda ordered: ranked(ordered, q), False)
    named(monoid, exact_quantile, q)
    return monoid
