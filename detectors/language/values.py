"""The NULL-aware helpers that compiled expressions call at run time. Nothing here raises for a value of the right type."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import Enum
from struct import Struct

from middleware.model.event import Value

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SINGLE = Struct("<f")  # in its own byte order Python lets what is too large become infinite
_FORMAT = "%Y-%m-%d %H:%M:%S"
FIRST_SECOND = int((datetime(1000, 1, 1, tzinfo=UTC) - _EPOCH).total_seconds())
LAST_SECOND = int((datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC) - _EPOCH).total_seconds())
"""A Datetime lies between these seconds since 1970 (Vu 2015, Table 4.1)."""


def enum_value(value: Value) -> Value:
    """The value that a member of an enum stands for; anything else as it is."""
    return value.value if isinstance(value, Enum) else value


def both(one: bool | None, other: bool | None) -> bool | None:
    """Three-valued AND."""
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def either(one: bool | None, other: bool | None) -> bool | None:
    """Three-valued OR."""
    if one or other:
        return True
    return None if one is None or other is None else False


def integer_quotient(one: int, other: int) -> int | None:
    """Integer division towards zero, as in SQL; NULL by zero."""
    if not other:
        return None
    quotient = abs(one) // abs(other)
    return quotient if (one < 0) == (other < 0) else -quotient


def integer_rest(one: int, other: int) -> int | None:
    """The rest of ``integer_quotient``, with the sign of ``one``; NULL by zero."""
    if not other:
        return None
    rest = abs(one) % abs(other)
    return -rest if one < 0 else rest


def quotient(one: float, other: float) -> float | None:
    """Division; NULL by zero, or if the result is not a number."""
    return finite(one / other) if other else None


def rest(one: float, other: float) -> float | None:
    """The rest of a division towards zero; NULL by zero."""
    return math.fmod(one, other) if other and math.isfinite(one) else None


def finite(value: float) -> float | None:
    """The number; NULL for NaN and infinities, which could not be compared or sent."""
    return value if value - value == 0 else None


def single(value: float) -> float | None:
    """The nearest 32-bit float; NULL out of their range."""
    try:
        return float(_SINGLE.unpack(_SINGLE.pack(value))[0])
    except OverflowError:
        return None


def single_number(text: str) -> float | None:
    """The 32-bit float that a text spells, or NULL."""
    number = text_number(text)
    return None if number is None else single(number)


def whole(value: float) -> int | None:
    """The whole part of a number; NULL if it has none."""
    return int(value) if value - value == 0 else None


def character(code: int) -> str | None:
    """The Char of a number; NULL for halves of surrogate pairs, which are no characters and cannot be sent."""
    return chr(code) if 0 <= code < 2**16 and not 0xD800 <= code < 0xE000 else None


def guarded(function: Callable[..., Value]) -> Callable[..., Value]:
    """The function, giving NULL where it is undefined (``sqrt(-1)``)."""

    def call(*arguments: Value) -> Value:
        try:
            result = function(*arguments)
        except (ValueError, OverflowError, ZeroDivisionError):
            return None
        return finite(result) if type(result) is float else result if type(result) is not complex else None

    return call


def is_in(value: Value, items: tuple[Value, ...]) -> bool | None:
    """Three-valued IN: NULL if the value is not found but an option is NULL. A NaN is never found: it equals nothing."""
    if value is None:
        return None
    is_found = value in items and value == value  # noqa: PLR0124 (Python finds a NaN by its identity)
    return True if is_found else None if None in items else False


def to_datetime(text: str) -> int | None:
    """Seconds since 1970 of ``YYYY-MM-DD HH:MM:SS`` (or only the date); NULL for any other text."""
    written = text.strip().replace("/", "-")
    if not re.fullmatch(r"\d{4}-\d{1,2}-\d{1,2}([ T]\d{1,2}:\d{2}:\d{2})?", written, re.ASCII):
        return None
    try:
        form = _FORMAT if ":" in written else "%Y-%m-%d"
        moment = datetime.strptime(written.replace("T", " "), form).replace(tzinfo=UTC)
    except ValueError:
        return None
    return in_calendar(int((moment - _EPOCH).total_seconds()))


def in_calendar(seconds: int) -> int | None:
    """The number; NULL if it is out of the range of Datetimes."""
    return seconds if FIRST_SECOND <= seconds <= LAST_SECOND else None


def moment(seconds: int) -> datetime:
    """A Datetime as Python's own; outside the calendar, its nearest end."""
    return _EPOCH + timedelta(seconds=min(max(seconds, FIRST_SECOND), LAST_SECOND))


def datetime_text(seconds: int) -> str:
    """``YYYY-MM-DD HH:MM:SS``."""
    return moment(seconds).strftime(_FORMAT)


def text_number(text: str) -> float | None:
    """The number that a text spells, or NULL."""
    written = text.strip()
    if len(written) > 400 or not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", written, re.ASCII):
        return None
    return finite(float(written))


def text_integer(text: str) -> int | None:
    """The whole number that a text spells (a fraction is cut off), or NULL."""
    written = text.strip()
    if len(written) < 40 and re.fullmatch(r"[+-]?\d+", written, re.ASCII):
        return int(written)
    number = text_number(text)
    return None if number is None else int(number)


def text_boolean(text: str) -> bool | None:
    """true or false in any case, or NULL."""
    return {"true": True, "false": False}.get(text.strip().lower())


def number_text(value: float) -> str:
    """A number as text: 81.37, 100.0."""
    return repr(value)


def within(value: int, limit: int) -> int | None:
    """The number; NULL if an integer type with that limit cannot hold it."""
    return value if -limit <= value < limit else None
