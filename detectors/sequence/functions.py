"""The functions that a query may call: on single values, and on all events of a Kleene variable."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, NamedTuple


class Kind(StrEnum):
    """What a value is; only like things can be compared."""

    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    TEXT = "text"
    OTHER = "other"
    NULL = "null"

    @property
    def is_number(self) -> bool:
        return self in (Kind.INT, Kind.FLOAT)


NUMBER, ANYTHING = "a number", "any value"


class Function(NamedTuple):
    """A function of single values; it gives NULL if one of them is NULL (``coalesce`` alone sees to that itself).

    ``takes``
        what each argument must be: ``NUMBER``, ``ANYTHING`` or a kind; the last one may come several times if ``many``.
    ``gives``
        the kind of the result; None: that of the arguments.
    ``partial``
        whether it may give NULL for arguments that are not.
    """

    call: Callable[..., Any]
    takes: tuple[str, ...]
    gives: Kind | None = None
    many: bool = False
    partial: bool = False


def _square_root(value: float) -> float | None:
    return math.sqrt(value) if value >= 0 else None


def _whole(rounding: Callable[[float], int]) -> Callable[[float], int | None]:
    """Rounding that gives NULL for what is no finite number."""
    return lambda value: rounding(value) if math.isfinite(value) else None


def _first_known(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


FUNCTIONS: dict[str, Function] = {
    "abs": Function(abs, (NUMBER,)),
    "round": Function(_whole(round), (NUMBER,), Kind.INT, partial=True),
    "floor": Function(_whole(math.floor), (NUMBER,), Kind.INT, partial=True),
    "ceil": Function(_whole(math.ceil), (NUMBER,), Kind.INT, partial=True),
    "sqrt": Function(_square_root, (NUMBER,), Kind.FLOAT, partial=True),
    "least": Function(min, (NUMBER, NUMBER), many=True),
    "greatest": Function(max, (NUMBER, NUMBER), many=True),
    "lower": Function(str.lower, (Kind.TEXT,), Kind.TEXT),
    "upper": Function(str.upper, (Kind.TEXT,), Kind.TEXT),
    "length": Function(len, (Kind.TEXT,), Kind.INT),
    "concat": Function(lambda *parts: "".join(parts), (Kind.TEXT, Kind.TEXT), Kind.TEXT, many=True),
    "coalesce": Function(_first_known, (ANYTHING, ANYTHING), many=True, partial=True),
}


class Aggregate(NamedTuple):
    """A function of the values of all events of a Kleene variable, oldest first; NULLs are left out.

    ``gives``
        the kind of the result; None: that of the values.
    ``takes``
        NUMBER, ANYTHING, or "" if it takes the variable alone.
    """

    call: Callable[[Sequence[Any]], Any]
    takes: str
    gives: Kind | None = None


def _average(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _total(values: Sequence[float]) -> float:
    return sum(values)


AGGREGATES: dict[str, Aggregate] = {
    "count": Aggregate(len, "", Kind.INT),
    "sum": Aggregate(_total, NUMBER),
    "avg": Aggregate(_average, NUMBER, Kind.FLOAT),
    "min": Aggregate(min, ANYTHING),
    "max": Aggregate(max, ANYTHING),
    "first": Aggregate(lambda values: values[0], ANYTHING),
    "last": Aggregate(lambda values: values[-1], ANYTHING),
}


def aggregated(call: Callable[[Sequence[Any]], Any], values: list[Any]) -> Any:
    """An aggregate of values some of which may be NULL; NULL if all are."""
    known = [value for value in values if value is not None]
    return call(known) if known else None
