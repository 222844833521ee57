"""The functions of the language: their parameters, results and implementations."""

from __future__ import annotations

import math
from calendar import monthrange
from collections.abc import Callable
from typing import NamedTuple

from detectors.language import values
from detectors.language.value_types import LIMITS, NAMES, Type
from middleware.model.event import Value

NUMBER = "number"
SAME = "same"

Parameter = Type | str
"""A type, ``NUMBER`` (any number, left as it is), or ``SAME`` (any type, but the same for all parameters with this mark)."""


class Function(NamedTuple):
    """A function: NULL if an argument is NULL; with ``is_lenient`` only if all are.

    ``result``
        its type; ``SAME`` and ``NUMBER`` stand for the type of the arguments with that mark.
    ``optional``
        how many of the last parameters may be omitted.
    ``is_variadic``
        whether the last parameter may be repeated.
    ``is_partial``
        whether the result may be NULL although no argument is.
    """

    parameters: tuple[Parameter, ...]
    result: Parameter
    call: Callable[..., Value]
    optional: int = 0
    is_variadic: bool = False
    is_partial: bool = False
    is_lenient: bool = False


def _round(value: float, digits: int = 0) -> float | None:
    if not math.isfinite(value):
        return value
    if not -400 < digits < 400:
        return value if digits > 0 else 0.0
    scale = 10.0**digits if digits < 300 else math.inf
    if not math.isfinite(scale) or not math.isfinite(value * scale) or not scale:
        return value if digits > 0 else 0.0
    scaled = abs(value) * scale
    whole = math.floor(scaled)
    whole += scaled - whole >= 0.5  # halves away from zero, as SQL rounds; scaled + 0.5 would be rounded itself
    return math.copysign(whole / scale, value)


def _substring(text: str, start: int, count: int | None = None) -> str:
    first = start - 1
    end = len(text) if count is None else first + max(count, 0)
    return text[max(first, 0) : max(end, 0)]


def _field(form: str) -> Function:
    return Function((Type.DATETIME,), Type.INT, lambda seconds: int(values.moment(seconds).strftime(form)))


_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}


def _unit(name: str) -> str:
    return name.strip().lower().removesuffix("s")


def _date_add(unit: str, count: int, seconds: int) -> int | None:
    size = _SECONDS.get(_unit(unit))
    if size is not None:
        return values.in_calendar(seconds + size * count)
    months = {"month": 1, "quarter": 3, "year": 12}.get(_unit(unit))
    if months is None:
        return None
    old = values.moment(seconds)
    year, month = divmod(old.year * 12 + old.month - 1 + months * count, 12)
    if not 1000 <= year <= 9999:
        return None
    last = monthrange(year, month + 1)[1]
    new = old.replace(year=year, month=month + 1, day=min(old.day, last))
    return values.in_calendar(seconds + round((new - old).total_seconds()))


def _date_diff(unit: str, start: int, end: int) -> int | None:
    size = _SECONDS.get(_unit(unit))
    return None if size is None else values.integer_quotient(end - start, size)


def _date_trunc(unit: str, seconds: int) -> int | None:
    name = _unit(unit)
    if name == "week":
        return values.in_calendar((seconds - 4 * 86400) // 604800 * 604800 + 4 * 86400)  # weeks start on Monday
    if name in _SECONDS:
        return seconds // _SECONDS[name] * _SECONDS[name]
    old = values.moment(seconds)
    month = {"month": old.month, "quarter": (old.month - 1) // 3 * 3 + 1, "year": 1}.get(name)
    return None if month is None else values.to_datetime(f"{old.year:04}-{month:02}-01")


def _format(seconds: int, form: str) -> str:
    at = values.moment(seconds)
    known = {"MM": at.month, "DD": at.day, "HH": at.hour, "MI": at.minute, "SS": at.second}
    form = form.replace("YYYY", f"{at.year:04}")
    for word, number in known.items():
        form = form.replace(word, f"{number:02}")
    return form


def _first_known(*arguments: Value) -> Value:
    return next((each for each in arguments if each is not None), None)


def _null_if(one: Value, other: Value) -> Value:
    return None if one is not None and one == other else one


_S, _I, _L, _D, _T = Type.STRING, Type.INT, Type.LONG, Type.DOUBLE, Type.DATETIME


def _whole(function: Callable[[float], int]) -> Function:
    return Function((_D,), _L, values.guarded(lambda x: values.within(function(x), LIMITS[_L])), is_partial=True)


def _real(function: Callable[..., Value], count: int = 1) -> Function:
    return Function((_D,) * count, _D, values.guarded(function), is_partial=True)


FUNCTIONS: dict[str, Function] = {
    # numbers
    "abs": Function((NUMBER,), NUMBER, abs),
    "sign": Function((NUMBER,), _I, lambda x: (x > 0) - (x < 0)),
    "ceil": _whole(math.ceil),
    "floor": _whole(math.floor),
    "round": Function((_D, _I), _D, _round, optional=1),
    "sqrt": _real(math.sqrt),
    "exp": _real(math.exp),
    "ln": _real(math.log),
    "log10": _real(math.log10),
    "power": _real(math.pow, 2),
    "sin": _real(math.sin),
    "cos": _real(math.cos),
    "tan": _real(math.tan),
    "atan2": _real(math.atan2, 2),
    "greatest": Function((SAME,), SAME, lambda *values: max(values), is_variadic=True),
    "least": Function((SAME,), SAME, lambda *values: min(values), is_variadic=True),
    # missing values
    "coalesce": Function((SAME,), SAME, _first_known, is_variadic=True, is_lenient=True),
    "nullif": Function((SAME, SAME), SAME, _null_if, is_partial=True, is_lenient=True),
    # texts
    "length": Function((_S,), _I, len),
    "upper": Function((_S,), _S, str.upper),
    "lower": Function((_S,), _S, str.lower),
    "trim": Function((_S,), _S, str.strip),
    "ltrim": Function((_S,), _S, str.lstrip),
    "rtrim": Function((_S,), _S, str.rstrip),
    "reverse": Function((_S,), _S, lambda text: text[::-1]),
    "concat": Function((_S,), _S, lambda *texts: "".join(texts), is_variadic=True),
    "replace": Function((_S, _S, _S), _S, lambda text, old, new: text.replace(old, new) if old else text),
    "substring": Function((_S, _I, _I), _S, _substring, optional=1),
    "left": Function((_S, _I), _S, lambda text, count: text[: max(count, 0)]),
    "right": Function((_S, _I), _S, lambda text, count: text[max(len(text) - count, 0) :] if count > 0 else ""),
    "position": Function((_S, _S), _I, lambda part, text: text.find(part) + 1),
    "starts_with": Function((_S, _S), Type.BOOLEAN, str.startswith),
    "ends_with": Function((_S, _S), Type.BOOLEAN, str.endswith),
    "contains": Function((_S, _S), Type.BOOLEAN, lambda text, part: part in text),
    # dates and times
    "year": _field("%Y"),
    "month": _field("%m"),
    "day": _field("%d"),
    "hour": _field("%H"),
    "minute": _field("%M"),
    "second": _field("%S"),
    "day_of_week": _field("%u"),
    "day_of_year": _field("%j"),
    "date_add": Function((_S, _I, _T), _T, _date_add, is_partial=True),
    "date_diff": Function((_S, _T, _T), _L, _date_diff, is_partial=True),
    "date_trunc": Function((_S, _T), _T, _date_trunc, is_partial=True),
    "date_format": Function((_T, _S), _S, _format),
    "epoch": Function((_T,), _L, lambda seconds: seconds),
    "from_epoch": Function((_L,), _T, values.in_calendar, is_partial=True),
}
"""By name in lower case. Conversions (``to_int`` and so on) are CAST by another name; see ``conversions``."""

SYNONYMS = {
    "ceiling": "ceil",
    "pow": "power",
    "ifnull": "coalesce",
    "len": "length",
    "char_length": "length",
    "substr": "substring",
    "dayofweek": "day_of_week",
    "dayofyear": "day_of_year",
}

KNOWN = (*FUNCTIONS, *SYNONYMS, *(f"to_{name}" for name in NAMES))
"""All names of functions, in lower case."""
