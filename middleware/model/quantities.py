"""Durations as people write them (``5ms``) and as the middleware counts them (whole nanoseconds)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from difflib import get_close_matches
from functools import lru_cache
from math import isfinite
from numbers import Integral, Real
from typing import TypeAlias

from middleware.model.errors import QuantityError

_NAMES = {
    1: ("ns", "nanosecond"),
    1_000: ("us", "microsecond"),
    1_000_000: ("ms", "msec", "millisecond"),
    1_000_000_000: ("s", "sec", "second"),
    60_000_000_000: ("min", "minute"),
    3_600_000_000_000: ("h", "hour"),
    86_400_000_000_000: ("d", "day"),
    604_800_000_000_000: ("week",),
}
NANOSECONDS = {name: size for size, names in _NAMES.items() for each in names for name in (each, f"{each}s")}
"""Nanoseconds in each unit of time, by its names; the same wherever a duration is written."""

UNITS = ", ".join(names[0] for names in _NAMES.values())
"""The units as users see them."""

Duration: TypeAlias = int | str | timedelta
"""A duration as programs give it: a text such as "5s" or "250 ms", a timedelta, or a whole number of nanoseconds.

Where ``float`` is taken, too, a number is one of seconds, as in Python's own timeouts."""

_DURATION = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*([^\W\d]+)\s*")


def parse_duration(text: str) -> int:
    """Nanoseconds of a duration such as ``250us``, ``5ms``, ``1.5s`` or ``2 hours``; QuantityError for any other text.

    >>> parse_duration("1.5s")
    1500000000
    """
    found = _DURATION.fullmatch(text)
    size = nanoseconds_of(found[2]) if found else None
    if not found or size is None:
        meant = f"; did you mean {found[1]} {near}?" if found and (near := nearest_unit(found[2])) else ""
        raise QuantityError(f"{text!r} is no duration: write a number and a unit ({UNITS}), such as 5ms{meant}")
    return round(Decimal(found[1]) * size)


def duration_of(given: Duration | float, name: str, unit: int = 1) -> int:
    """Nanoseconds of a duration that a program gives for its parameter ``name``; a number counts units of ``unit`` ns.

    Every parameter that takes a duration is read here. QuantityError names the parameter.

    >>> duration_of("250 ms", "size"), duration_of(timedelta(seconds=5), "size"), duration_of(7, "size")
    (250000000, 5000000000, 7)
    >>> duration_of(0.5, "timeout", NANOSECONDS["s"])
    500000000
    """
    if isinstance(given, str):
        try:
            return parse_duration(given)
        except QuantityError as error:
            raise QuantityError(f"{name}: {error}") from None
    if isinstance(given, timedelta):
        whole = (given.days * 86_400 + given.seconds) * 10**9 + given.microseconds * 1_000
        return whole + int(getattr(given, "nanoseconds", 0))  # those of pandas count nanoseconds, too
    if isinstance(given, Integral) or (unit > 1 and isinstance(given, Real) and isfinite(given)):
        return round(given * unit)
    numbers = "a whole number of nanoseconds" if unit == 1 else "a number of seconds"
    raise QuantityError(f'{name}: {given!r} is no duration: give a text such as "5s", a timedelta, or {numbers}')


def seconds_of(given: Duration | float | None, name: str) -> float | None:
    """Seconds of a timeout, where a number is one of seconds; None stays None, which stands for no limit."""
    return duration_of(given, name) / NANOSECONDS["s"] if isinstance(given, str | timedelta) else given


def nanoseconds_of(unit: str) -> int | None:
    """Nanoseconds in a unit of time, in upper or lower case; None if there is no such unit."""
    return NANOSECONDS.get(unit.lower())


def nearest_unit(name: str) -> str:
    """The unit most like a wrong name; empty if no unit is close to it."""
    return next(iter(get_close_matches(name.lower(), NANOSECONDS, 1)), "")


def format_duration(nanoseconds: int) -> str:
    """A duration in the largest unit that leaves it at least 1, with up to three decimals.

    >>> format_duration(1_500_000_000), format_duration(-20_000)
    ('1.5s', '-20us')
    """
    for unit in ("s", "ms", "us"):
        if abs(nanoseconds) >= NANOSECONDS[unit]:
            return f"{nanoseconds / NANOSECONDS[unit]:.3f}".rstrip("0").rstrip(".") + unit
    return f"{nanoseconds}ns"


def two_digits_up(nanoseconds: int) -> int:
    """A duration of at least so much, in two digits: as one would write it down.

    >>> two_digits_up(4_210_000_001), two_digits_up(99)
    (4300000000, 99)
    """
    step: int = 10 ** max(len(str(nanoseconds)) - 2, 0)
    return -(-nanoseconds // step) * step


_LONG = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
UNIX_TIMES = range(631_152_000 * 10**9, 4_102_444_800 * 10**9)
"""Nanoseconds that are likely to be Unix time: 1990 to 2100."""

_EPOCH = datetime(1970, 1, 1)


def is_wall_clock(times: Iterable[int]) -> bool:
    """Whether event times are Unix time: most of them are likely to be (``UNIX_TIMES``). A few wrong ones change nothing.

    >>> is_wall_clock([1_700_000_000 * 10**9, 1_700_000_001 * 10**9, 5]), is_wall_clock([0, 75 * 10**9]), is_wall_clock([])
    (True, False, False)
    """
    are_likely = [ts in UNIX_TIMES for ts in times]
    return 2 * sum(are_likely) > len(are_likely)


def spoken_duration(nanoseconds: int) -> str:
    """A duration for people: as ``format_duration`` below a minute, in its two largest units above.

    >>> spoken_duration(-28_700_000_000), spoken_duration(7_265 * 10**9), spoken_duration(90_000 * 10**9)
    ('-28.7s', '2h 1min', '1d 1h')
    """
    seconds = round(abs(nanoseconds) / NANOSECONDS["s"])
    if seconds < 60:
        return format_duration(nanoseconds)
    parts = []
    for unit, length in _LONG:
        count, seconds = divmod(seconds, length)
        parts.append((count, unit))
    first = next(at for at, (count, _) in enumerate(parts) if count)
    text = " ".join(f"{count:,}{unit}" for count, unit in parts[first : first + 2] if count)
    return f"-{text}" if nanoseconds < 0 else text


def spoken_time(nanoseconds: int) -> str:
    """A moment for people: local date and time if it is likely to be Unix time, else seconds from zero.

    >>> spoken_time(75_250_000_000)
    '75.250 s'
    """
    if nanoseconds not in UNIX_TIMES:
        return f"{nanoseconds / NANOSECONDS['s']:,.3f} s"
    moment = _local(nanoseconds)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{nanoseconds % 10**9 // 10**6:03}{_offset(moment)}"


def local_time(at: int) -> str:
    """``exact_time`` for people: in the time zone of this machine, with its offset from UTC. Both can be given to commands."""
    if at not in UNIX_TIMES:
        return str(at)
    moment = _local(at)
    return f"{moment:%Y-%m-%dT%H:%M:%S}{_fraction(at)}{_offset(moment)}"


def local_day_time(at: int) -> int:
    """Nanoseconds since midnight in the time zone of this machine, as its clocks show them."""
    moment = _local(at)
    return (moment.hour * 3_600 + moment.minute * 60 + moment.second) * 10**9 + at % 10**9


def from_local(at: int) -> int:
    """Unix time (ns) of a local date and time that was read as if it were UTC; the first of two where clocks are set back."""
    moment = (_EPOCH + timedelta(seconds=at // 10**9)).astimezone()
    return at - (moment.utcoffset() or timedelta()) // timedelta(seconds=1) * 10**9


def _local(at: int) -> datetime:
    return datetime.fromtimestamp(at // 10**9, UTC).astimezone()


def _offset(moment: datetime) -> str:
    """The offset from UTC of a moment of whole seconds, as ISO 8601 has it."""
    return moment.isoformat()[len("2023-11-14T22:13:20") :].replace("+00:00", "Z")


def _fraction(at: int) -> str:
    digits = f"{at % 10**9:09}".rstrip("0")
    return f".{digits}" if digits else ""


def exact_time(at: int) -> str:
    """A moment (ns), exact enough to search for: UTC to the last digit if it is likely to be Unix time, else the plain number.

    >>> exact_time(1_700_000_000_500_000_000), exact_time(7)
    ('2023-11-14T22:13:20.5Z', '7')
    """
    if at not in UNIX_TIMES:
        return str(at)
    return f"{_second(at // 10**9)}{_fraction(at)}Z"


@lru_cache(256)
def _second(at: int) -> str:
    """A second of Unix time as a text; events of one second come together."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%S}"
