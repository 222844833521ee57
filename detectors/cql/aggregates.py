"""Aggregates: what they take, what they give, and how they fold the values of a window, which come in total order.

Each is a function of the values alone, to the last bit: sums are exact before they are rounded (``math.fsum``), so a result
does not depend on the history of late and withdrawn tuples behind it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from detectors.expressions.code import Code
from detectors.expressions.errors import QueryError, Span
from detectors.expressions.types import INTEGERS, LIMITS, NUMBERS, Kind, Type
from detectors.window.monoids import MEAN, SUM
from detectors.window.sketches import DISTINCT

Fold = Callable[[Sequence[Any]], Any]


class Aggregate(NamedTuple):
    """An aggregate in a query.

    ``fold``
        from the values of a window (NULLs left out; pairs where it takes two arguments) to its value.
    ``kind``
        what it gives; NULL where no value is left.
    """

    name: str
    fold: Fold
    kind: Kind


def _total(values: Sequence[int]) -> int | None:
    total = sum(values)
    return total if -LIMITS[Type.LONG] <= total < LIMITS[Type.LONG] else None


def _exact(values: Sequence[float]) -> float:
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):  # sums on the way are too large, or infinities of both signs
        return SUM.fold(values)  # type: ignore[no-any-return]


def _mean(values: Sequence[float]) -> float:
    try:
        return math.fsum(values) / len(values)
    except (OverflowError, ValueError):
        return MEAN.fold(values)  # type: ignore[no-any-return]


def _moment(values: Sequence[float], free: int) -> float | None:
    """The variance by two passes; ``free`` 1 for a sample, 0 for a population. NULL of too few, or of what is not finite."""
    if len(values) <= free:
        return None
    mean = _mean(values)
    if mean - mean != 0:
        return None
    try:
        return math.fsum([(value - mean) ** 2 for value in values]) / (len(values) - free)
    except OverflowError:
        return None


def _root(value: float | None) -> float | None:
    return None if value is None else math.sqrt(value)


def _geometric(values: Sequence[float]) -> float | None:
    if min(values) <= 0:
        return 0.0 if min(values) == 0 else None
    return math.exp(_mean([math.log(value) for value in values]))


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _arg(choose: Callable[..., Any]) -> Fold:
    """The first argument where the second is least or greatest; the first in total order of several."""
    return lambda pairs: choose(pairs, key=lambda pair: pair[1])[0]


def _least(values: Sequence[Any]) -> Any:
    """As the monoid has it, whatever the order of arrival: -0.0 before 0.0."""
    least = min(values)
    if least == 0 and isinstance(least, float):
        return next((value for value in values if value == 0 and math.copysign(1, value) < 0), least)
    return least


def _most(values: Sequence[Any]) -> Any:
    most = max(values)
    if most == 0 and isinstance(most, float):
        return next((value for value in values if value == 0 and math.copysign(1, value) > 0), most)
    return most


def _spread(values: Sequence[Any]) -> Any:
    return max(values) - min(values)


_REAL: dict[str, Fold] = {
    "avg": _mean,
    "stddev": lambda values: _root(_moment(values, 1)),
    "stddev_pop": lambda values: _root(_moment(values, 0)),
    "variance": lambda values: _moment(values, 1),
    "var_pop": lambda values: _moment(values, 0),
    "geomean": _geometric,
    "median": _median,
}


def _quantile(pairs: Sequence[tuple[Any, float]]) -> Any:
    """The least value that is not below a part q of the values; q is the second argument, as the last tuple has it."""
    q = pairs[-1][1]
    ordered = sorted([value for value, _ in pairs])
    return ordered[max(0, math.ceil(q * len(ordered)) - 1)] if 0 <= q <= 1 else None


_COUNTS: dict[str, Fold] = {
    "count": len,
    "count_distinct": lambda values: len(set(values)),
    "approx_count_distinct": lambda values: round(DISTINCT.fold(values)),
    "max_count": lambda values: values.count(max(values)) if values else 0,
}
_CHOICE: dict[str, Fold] = {
    "min": _least,
    "max": _most,
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
}
_PAIRS: dict[str, Fold] = {"argmin": _arg(min), "argmax": _arg(max), "quantile": _quantile}
SYNONYMS = {
    "ave": "avg",
    "mean": "avg",
    "stddev_samp": "stddev",
    "var_samp": "variance",
    "arg_min": "argmin",
    "arg_max": "argmax",
}
NAMES = frozenset({"sum", "range", *_COUNTS, *_REAL, *_CHOICE, *_PAIRS, *SYNONYMS})
"""All names of aggregates, in lower case."""


def aggregate(name: str, arguments: list[Code], is_star: bool, span: Span) -> Aggregate:
    """The aggregate of that name for arguments of these types. Raises QueryError where they do not fit."""
    known = SYNONYMS.get(name, name)
    wanted = 2 if known in _PAIRS else 0 if is_star else 1
    if is_star and known != "count":
        raise QueryError(f"{name}(*) means nothing: name what is to be aggregated", span)
    if len(arguments) != wanted:
        raise QueryError(f"{name} takes {wanted or 'one'} argument{'s' * (wanted == 2)}, not {len(arguments)}", span)
    if known in _COUNTS:
        return Aggregate(known, _COUNTS[known], Kind(Type.LONG))
    kind = arguments[0].type
    if known == "quantile" and arguments[1].type not in NUMBERS:
        raise QueryError(f"quantile takes a number from 0 to 1, not a {arguments[1].type}: quantile(price, 0.9)", span)
    if known in _CHOICE or known in _PAIRS:
        return Aggregate(known, (_CHOICE | _PAIRS)[known], Kind(kind, True))
    if kind not in NUMBERS:
        raise QueryError(f"{name} aggregates numbers, and this is a {kind}: CAST it", span)
    if known in _REAL:
        return Aggregate(known, _REAL[known], Kind(Type.DOUBLE, True))
    if known == "range":
        return Aggregate(known, _spread, Kind(Type.LONG if kind in INTEGERS else Type.DOUBLE, True))
    return Aggregate(known, _total if kind in INTEGERS else _exact, Kind(Type.LONG if kind in INTEGERS else Type.DOUBLE, True))
