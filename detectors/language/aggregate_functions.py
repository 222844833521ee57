"""Aggregates: the types they take and give, and how they fold values, which come in total order.

Each is a function of the values alone, to the last bit: sums are exact before they are rounded (``math.fsum``), so a result
does not depend on the history of late and withdrawn tuples behind it. If there is a NaN, the minimum, maximum and median are
NaN; all NaNs count as one value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from detectors.language.code import Code, CodeFrame
from detectors.language.expression import Expression
from detectors.language.query_errors import QueryError, TextSpan
from detectors.language.value_types import INTEGERS, LIMITS, NUMBERS, REALS, Type, ValueKind
from detectors.language.values import within
from detectors.window.aggregation.monoids import MEAN, SUM
from detectors.window.aggregation.ranks import middle, ranked
from detectors.window.aggregation.sketches import DISTINCT
from middleware.model.event import Value

Fold = Callable[[Sequence[Value]], Value]


class QueryAggregate(NamedTuple):
    """An aggregate in a query.

    ``fold``
        makes the aggregate of the values (NULLs skipped; pairs if it takes two arguments).
    ``kind``
        the kind of its result; NULL if no value is left.
    ``is_partial``
        whether the result may be NULL although a value is left.
    """

    name: str
    fold: Fold
    kind: ValueKind
    is_partial: bool = False


def _total(values: Sequence[int]) -> int | None:
    return within(sum(values), LIMITS[Type.LONG])


def _exact(values: Sequence[float]) -> float:
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):  # intermediate sums are too large, or there are infinities of both signs
        return SUM.fold(values)  # type: ignore[no-any-return]


def _mean(values: Sequence[float]) -> float:
    try:
        return math.fsum(values) / len(values)
    except (OverflowError, ValueError):
        return MEAN.fold(values)  # type: ignore[no-any-return]


PLACE = "place"
"""The last word in the names of aggregates that depend on places in a window, which trees do not give."""

SQUARED = 2.0**400
"""Beyond this, squares are not summed in a tree (``detectors.window.aggregation.monoids``)."""


def _moment(values: Sequence[float], free: int) -> float | None:
    """The variance, (n * sum of squares - square of the sum) / (n * (n - free)); ``free``: 1 for a sample, 0 for a population.

    The numerator is exact, and rounded once. NULL for too few values, or if one is not finite.
    """
    count = len(values)
    if count <= free or not all(map(math.isfinite, values)):
        return None
    ratios = [value.as_integer_ratio() for value in map(float, values)]
    scale = max(denominator for _, denominator in ratios)
    whole = [numerator * (scale // denominator) for numerator, denominator in ratios]
    numerator, divisor = count * sum([each * each for each in whole]) - sum(whole) ** 2, count * (count - free)
    try:
        if max(map(abs, values)) > SQUARED:
            return numerator / (scale**2 * divisor)
        return numerator / scale**2 / divisor
    except OverflowError:
        return None


def root(value: float | None) -> float | None:
    """The square root; NULL of NULL."""
    return None if value is None else math.sqrt(value)


def _nans(values: Sequence[float]) -> int:
    """How many values are NaN. Fast if none is."""
    total = sum(values)
    return sum(map(math.isnan, values)) if total != total else 0  # noqa: PLR0124 (NaN)


def _geometric(values: Sequence[float]) -> float | None:
    if any(value < 0 for value in values):
        return None
    if _nans(values):
        return math.nan
    if min(values) == 0:
        return 0.0
    try:
        return math.exp(_mean([math.log(value) for value in values]))
    except OverflowError:  # of the largest numbers, by the last bit of the exponent
        return max(values)


def _median(values: Sequence[float]) -> float:
    return math.nan if _nans(values) else middle(sorted(values))


def _arg(choose: Callable[..., Value]) -> Fold:
    """The first argument where the second is least or greatest; of several, the first in total order."""
    return lambda pairs: choose(pairs, key=lambda pair: pair[1])[0]


def _real_arg(choose: Callable[..., Value]) -> Fold:
    plain = _arg(choose)

    def fold(pairs: Sequence[tuple[Value, float]]) -> Value:
        if _nans([measure for _, measure in pairs]):
            return next(value for value, measure in pairs if math.isnan(measure))
        return plain(pairs)

    return fold


def _least(values: Sequence[float]) -> float:
    """As the monoid does, whatever the order of arrival: -0.0 before 0.0, and a NaN wins."""
    if _nans(values):
        return math.nan
    least = min(values)
    if least == 0:
        return next((value for value in values if value == 0 and math.copysign(1, value) < 0), least)
    return least


def _most(values: Sequence[float]) -> float:
    if _nans(values):
        return math.nan
    most = max(values)
    if most == 0:
        return next((value for value in values if value == 0 and math.copysign(1, value) > 0), most)
    return most


def _spread(values: Sequence[float]) -> float:
    return math.nan if _nans(values) else max(values) - min(values)


def _whole_spread(values: Sequence[int]) -> int | None:
    return within(max(values) - min(values), LIMITS[Type.LONG])


def _one_nan(values: Sequence[float]) -> Sequence[float]:
    """The values with one object for all NaNs: Python tells them apart by identity."""
    return [math.nan if math.isnan(value) else value for value in values] if _nans(values) else values


_REAL: dict[str, Fold] = {
    "avg": _mean,
    "stddev": lambda values: root(_moment(values, 1)),
    "stddev_pop": lambda values: root(_moment(values, 0)),
    "variance": lambda values: _moment(values, 1),
    "var_pop": lambda values: _moment(values, 0),
    "geomean": _geometric,
    "median": _median,
}


def _quantile(pairs: Sequence[tuple[Value, float]]) -> Value:
    """``ranked``; q is the second argument of the last tuple."""
    return ranked(sorted([value for value, _ in pairs]), pairs[-1][1])


def _real_quantile(pairs: Sequence[tuple[float, float]]) -> float | None:
    is_nan = _nans([value for value, _ in pairs]) and 0 <= pairs[-1][1] <= 1
    return math.nan if is_nan else _quantile(pairs)


def _distinct(values: Sequence[Value]) -> int:
    return len(set(values))


def _estimated(values: Sequence[Value]) -> int:
    return round(float(DISTINCT.fold(values)))


_COUNTS: dict[str, Fold] = {
    "count": len,
    "count_distinct": _distinct,
    "approx_count_distinct": _estimated,
    "max_count": lambda values: values.count(max(values)) if values else 0,
}
_CHOICE: dict[str, Fold] = {
    "min": min,
    "max": max,
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
}
_PAIRS: dict[str, Fold] = {"argmin": _arg(min), "argmax": _arg(max), "quantile": _quantile}
_FOLDS = _COUNTS | _CHOICE | _PAIRS
_OF_REALS: dict[str, Fold] = {
    **_FOLDS,
    "count_distinct": lambda values: _distinct(_one_nan(values)),
    "approx_count_distinct": lambda values: _estimated(_one_nan(values)),
    "max_count": lambda values: (_nans(values) or values.count(max(values))) if values else 0,
    "min": _least,
    "max": _most,
    "argmin": _real_arg(min),
    "argmax": _real_arg(max),
    "quantile": _real_quantile,
}
"""As ``_FOLDS``, for a deciding argument that may be NaN."""
SYNONYMS = {
    "ave": "avg",
    "mean": "avg",
    "stddev_samp": "stddev",
    "var_samp": "variance",
    "arg_min": "argmin",
    "arg_max": "argmax",
}
_INDIFFERENT = frozenset({"min", "max", "range", "first", "last", "count_distinct", "approx_count_distinct"})
"""Aggregates to which it makes no difference how often a value comes."""

NAMES = frozenset({"sum", "range", *_COUNTS, *_REAL, *_CHOICE, *_PAIRS, *SYNONYMS})
"""All names of aggregates, in lower case."""


def aggregate(name: str, arguments: list[Code], is_star: bool, span: TextSpan, is_distinct: bool = False) -> QueryAggregate:
    """The aggregate of that name for arguments of these types; ``is_distinct``: of their different values.

    Raises QueryError if they do not fit.
    """
    known = SYNONYMS.get(name, name)
    if not is_distinct or known in _INDIFFERENT:
        return _aggregate(known, name, arguments, is_star, span)
    if known in _PAIRS or known == "max_count":
        raise QueryError(f"{name}(DISTINCT ...) means nothing: leave DISTINCT out", span)
    if known == "count":
        return _aggregate("count_distinct", name, arguments, is_star, span)
    made = _aggregate(known, name, arguments, is_star, span)
    unique = _unique_reals if arguments[0].type in REALS else _unique
    return made._replace(name=f"{known} distinct", fold=lambda values: made.fold(unique(values)))


def _unique(values: Sequence[Value]) -> list[Value]:
    return list(dict.fromkeys(values))


def _unique_reals(values: Sequence[float]) -> list[float]:
    return list(dict.fromkeys(_one_nan(values)))


def _aggregate(known: str, name: str, arguments: list[Code], is_star: bool, span: TextSpan) -> QueryAggregate:
    expected = 2 if known in _PAIRS else 0 if is_star else 1
    if is_star and known != "count":
        raise QueryError(f"{name}(*) means nothing: name what is to be aggregated", span)
    if len(arguments) != expected:
        raise QueryError(f"{name} takes {expected or 'one'} argument{'s' * (expected == 2)}, not {len(arguments)}", span)
    decisive = arguments[known in ("argmin", "argmax")].type if arguments else Type.NULL
    folds = _OF_REALS if decisive in REALS else _FOLDS
    if known in _COUNTS:
        return QueryAggregate(known, folds[known], ValueKind(Type.LONG))
    kind = arguments[0].type
    if known == "quantile" and arguments[1].type not in NUMBERS:
        raise QueryError(f"quantile takes a number from 0 to 1, not a {arguments[1].type}: quantile(price, 0.9)", span)
    if known in _CHOICE or known in _PAIRS:
        return QueryAggregate(known, folds[known], ValueKind(kind, True), known == "quantile")
    if kind not in NUMBERS:
        raise QueryError(f"{name} aggregates numbers, and this is a {kind}: CAST it", span)
    if known in _REAL:
        return QueryAggregate(known, _REAL[known], ValueKind(Type.DOUBLE, True), known not in ("avg", "median"))
    whole, real = (_whole_spread, _spread) if known == "range" else (_total, _exact)
    if kind in INTEGERS:
        return QueryAggregate(known, whole, ValueKind(Type.LONG, True), is_partial=True)
    return QueryAggregate(known, real, ValueKind(Type.DOUBLE, True))


def values_code(frame: CodeFrame, arguments: Sequence[Code], variable: str, events: str) -> Expression:
    """The list of values that an aggregate takes from the events: NULLs skipped, pairs for two arguments.

    Arguments may assign names on the way, which Python allows in a comprehension's condition but not in its iterable.
    """
    if len(arguments) == 1 and not arguments[0].nullable:
        return Expression(f"[{arguments[0].value} for {variable} in {events}]")
    names = [frame.temporary() for _ in arguments]
    known = " and ".join(f"({name} := {code.value}) is not None" for name, code in zip(names, arguments, strict=True))
    shown = names[0] if len(names) == 1 else f"({', '.join(names)})"
    return Expression(f"[{shown} for {variable} in {events} if {known}]")
