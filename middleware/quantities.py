"""Durations as people write them (``5ms``) and as the middleware counts them (whole nanoseconds)."""

from __future__ import annotations

import re
from difflib import get_close_matches

from middleware.errors import QuantityError

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
"""The units as they are told to people."""

_DURATION = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*([^\W\d]+)\s*")


def parse_duration(text: str) -> int:
    """Nanoseconds of a duration such as ``250us``, ``5ms``, ``1.5s`` or ``2 hours``; QuantityError if it is none.

    >>> parse_duration("1.5s")
    1500000000
    """
    found = _DURATION.fullmatch(text)
    size = nanoseconds_of(found[2]) if found else None
    if not found or size is None:
        meant = f"; did you mean {found[1]} {near}?" if found and (near := nearest_unit(found[2])) else ""
        raise QuantityError(f"{text!r} is no duration: write a number and a unit ({UNITS}), such as 5ms{meant}")
    return round(float(found[1]) * size)


def nanoseconds_of(unit: str) -> int | None:
    """Nanoseconds in a unit of time, in any case; None if it is none."""
    return NANOSECONDS.get(unit.lower())


def nearest_unit(name: str) -> str:
    """The unit that is most like a name that is none; empty if none is."""
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
