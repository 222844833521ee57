"""The built-in monoids. Results of floats do not depend on the order of arrival, to the last bit: sums are kept exact.

Each is defined here in plain Python; the native core has its own version of most.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from operator import gt, lt
from typing import Any

from detectors.window.aggregation.monoid import Group, Monoid, Partial, named
from detectors.window.aggregation.ranks import MEDIAN
from middleware.model.event import Value

Combine = Callable[[Partial, Partial], Partial]

_SCALE = 2**1074
"""Every finite float is a whole multiple of 1 / _SCALE."""

Sum = tuple[int, float]
"""An exact sum: of the finite values, in units of 1 / _SCALE, and of infinities and NaNs."""


def _exact(value: float) -> Sum:
    value = float(value)
    if not math.isfinite(value):
        return 0, value
    numerator, denominator = value.as_integer_ratio()
    return numerator * (_SCALE // denominator), 0.0


def _rounded(total: Sum, count: int = 1) -> float:
    """Correctly rounded, then divided: as ``math.fsum(values) / count``."""
    if total[1]:
        return total[1] / count
    try:
        return total[0] / _SCALE / count
    except OverflowError:
        return math.inf if total[0] > 0 else -math.inf


def _added(a: Partial, b: Partial) -> Partial:
    return tuple([x + y for x, y in zip(a, b, strict=True)])


COUNT = Group(
    name="count",
    identity=0,
    lift=lambda value: 1,
    combine=lambda a, b: a + b,
    inverse=lambda a: -a,
    native=("count", "any"),
)
"""How many values. 0 for no values."""

_INTEGER_SUM = Group(name="sum", identity=0, combine=lambda a, b: a + b, inverse=lambda a: -a, native=("sum", "int"))

SUM = Monoid(
    name="sum",
    identity=(0, 0.0),
    lift=_exact,
    combine=_added,
    lower=_rounded,
    commutative=True,
    native=("sum", "float"),
    variants={int: _INTEGER_SUM},
)
"""The sum, of floats as ``math.fsum`` gives it; ``SUM.of(int)`` for integers. 0 for no values."""

_COUNTED_SUM = (0, 0, 0.0)


def _counted(value: float) -> tuple[int, int, float]:
    return (1, *_exact(value))


MEAN = Monoid(
    name="mean",
    identity=_COUNTED_SUM,
    lift=_counted,
    combine=_added,
    lower=lambda a: _rounded(a[1:], a[0]) if a[0] else None,
    commutative=True,
    native=("mean", "float"),
)
"""The arithmetic mean, as ``statistics.fmean``. None for no values."""


def _logarithm(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf if value == 0 else math.nan


GEOMEAN = Monoid(
    name="geomean",
    identity=_COUNTED_SUM,
    lift=lambda value: _counted(_logarithm(value)),
    combine=_added,
    lower=lambda a: math.exp(_rounded(a[1:], a[0])) if a[0] else None,
    commutative=True,
    native=("geomean", "float"),
)
"""The geometric mean, by the mean of logarithms. 0 if a value is 0, NaN if one is negative, None for no values."""


def _spread(value: float) -> tuple[int, Fraction, Fraction, float]:
    if not math.isfinite(value) or abs(value) > 2.0**400:
        return 1, Fraction(0), Fraction(0), math.nan
    exact = Fraction(value)
    return 1, exact, exact * exact, 0.0


def _variance(correction: int, root: bool) -> Callable[[Partial], float | None]:
    def lower(spread: tuple[int, Fraction, Fraction, float]) -> float | None:
        count, total, squares, special = spread
        if count <= correction:
            return None
        if special:
            return math.nan
        variance = float(count * squares - total * total) / (count * (count - correction))
        return math.sqrt(variance) if root else variance

    return lower


def _of_spread(name: str, correction: int, root: bool) -> Monoid:
    return Monoid(
        name=name,
        identity=(0, Fraction(0), Fraction(0), 0.0),
        lift=_spread,
        combine=_added,
        lower=_variance(correction, root),
        commutative=True,
        native=(name, "float"),
    )


VARIANCE = _of_spread("variance", 0, False)
"""The variance of a population, without cancellation. None for no values; NaN where squares would be out of range."""
STDDEV = _of_spread("stddev", 0, True)
SAMPLE_VARIANCE = _of_spread("sample_variance", 1, False)
"""The variance estimated from a sample: divided by count - 1. None of fewer than two."""
SAMPLE_STDDEV = _of_spread("sample_stddev", 1, True)


def _least(a: Partial, b: Partial) -> Partial:
    """The smaller; -0.0 before 0.0, and a NaN wins."""
    if a < b:
        return a
    if b < a:
        return b
    if a == b:
        return a if isinstance(a, float) and math.copysign(1, a) < 0 else b
    return math.nan


def _most(a: Partial, b: Partial) -> Partial:
    if a > b:
        return a
    if b > a:
        return b
    if a == b:
        return b if isinstance(a, float) and math.copysign(1, a) < 0 else a
    return math.nan


def _optional(combine: Combine) -> Combine:
    """``combine`` with None as its identity."""

    def combined(a: Partial, b: Partial) -> Partial:
        if a is None:
            return b
        return a if b is None else combine(a, b)

    return combined


def _family(name: str, combine: Combine, commutative: bool = True, **more: Any) -> Monoid:
    """A monoid over floats, with variants over integers and over any objects."""
    arguments = {"name": name, "identity": None, "combine": _optional(combine), "commutative": commutative, **more}
    integers = Monoid(**arguments, native=(name, "int"))
    objects = Monoid(**arguments | {"commutative": False})
    return Monoid(**arguments, native=(name, "float"), variants={int: integers, object: objects, str: objects})


def _chosen(name: str, is_better: Callable[[Any, Any], bool]) -> Monoid:
    def combine(one: Partial, other: Partial) -> Partial:
        if one[0] != one[0] or other[0] != other[0]:  # or what is chosen hangs on how values were put together
            return one if one[0] != one[0] else other
        return other if is_better(other[0], one[0]) else one

    return Monoid(name=name, identity=None, combine=_optional(combine), lift=_pair)


def _pair(value: tuple[Any, Any]) -> tuple[Any, Any] | None:
    """A pair that has a number; None for one that has none. Raises what it raises for anything else."""
    number, _ = value
    return None if number is None else value


MIN = _family("min", _least)
"""The smallest. None for no values; -0.0 before 0.0; a NaN wins."""
MAX = _family("max", _most)
"""The largest. None for no values; a NaN wins."""
RANGE = _family(
    "range",
    lambda a, b: (_least(a[0], b[0]), _most(a[1], b[1])),
    lift=lambda value: (value, value),
    lower=lambda a: None if a is None else a[1] - a[0],
)
"""Largest minus smallest. None for no values."""


def _max_count(a: tuple[Value, int], b: tuple[Value, int]) -> tuple[Value, int]:
    most = _most(a[0], b[0])
    return most, sum(often for value, often in (a, b) if value == most or (value != value and most != most))  # noqa: PLR0124


MAXCOUNT = _family("maxcount", _max_count, lift=lambda value: (value, 1))
"""The largest, and how often it occurs: (value, times). None for no values."""
FIRST = _family("first", lambda a, b: a, commutative=False)
"""The oldest value. None for no values."""
LAST = _family("last", lambda a, b: b, commutative=False)
"""The youngest value. None for no values."""

ARGMIN = _chosen("argmin", lt)
"""Of pairs (number, anything): the one with the smallest number, the oldest of them; a NaN wins. None for no values; a pair
without a number (None) is left out."""
ARGMAX = _chosen("argmax", gt)
"""Of pairs (number, anything): the one with the largest number, the oldest of them; a NaN wins. None for no values."""
CONCAT = Monoid(name="concat", identity=(), lift=lambda value: (value,), combine=lambda a, b: a + b)
"""All values in order, as a tuple."""

BUILT_IN = {
    monoid.name: monoid
    for monoid in (
        COUNT, SUM, MEAN, GEOMEAN, VARIANCE, STDDEV, SAMPLE_VARIANCE, SAMPLE_STDDEV, MIN, MAX, RANGE, MAXCOUNT, FIRST, LAST,
        ARGMIN, ARGMAX, CONCAT, MEDIAN,
    )
}  # fmt: skip
"""The built-in monoids by name."""


def built_in(name: str, kind: type | None = None) -> Monoid:
    """A monoid of this module by its name, or its variant over values of a type."""
    monoid: Monoid = globals()[name]
    return monoid if kind is None else monoid.of(kind)


for _name, _monoid in [(name, each) for name, each in globals().items() if isinstance(each, Monoid)]:
    named(_monoid, built_in, _name)
    for _kind, _variant in _monoid.variants.items():
        named(_variant, built_in, _name, _kind)
