"""Durations as people write them (``5ms``) and as the middleware counts them (whole nanoseconds)."""

from __future__ import annotations

import re

from middleware.errors import QuantityError

NANOSECONDS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "min": 60_000_000_000}
"""Nanoseconds in each unit of time."""

_DURATION = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*(ns|us|ms|s|min)\s*")


def parse_duration(text: str) -> int:
    """Nanoseconds of a duration such as ``250us``, ``5ms``, ``1.5s`` or ``2min``; QuantityError if it is none.

    >>> parse_duration("1.5s")
    1500000000
    """
    found = _DURATION.fullmatch(text)
    if not found:
        raise QuantityError(f"{text!r} is no duration: write a number and a unit (ns, us, ms, s, min), such as 5ms")
    return round(float(found[1]) * NANOSECONDS[found[2]])


def format_duration(nanoseconds: int) -> str:
    """A duration in the largest unit that leaves it at least 1, with up to three decimals.

    >>> format_duration(1_500_000_000), format_duration(-20_000)
    ('1.5s', '-20us')
    """
    for unit in ("s", "ms", "us"):
        if abs(nanoseconds) >= NANOSECONDS[unit]:
            return f"{nanoseconds / NANOSECONDS[unit]:.3f}".rstrip("0").rstrip(".") + unit
    return f"{nanoseconds}ns"
