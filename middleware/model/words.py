"""Names and values in messages: a few of many, the likely one for a wrong name, and no more of a value than one can read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches


def listed(names: Iterable[str], most: int = 12) -> str:
    """Names for a message, cut where they would be too many.

    >>> listed("abcd", 3)
    'a, b, c and 1 more'
    """
    each = list(names)
    return ", ".join(each[:most]) + (f" and {len(each) - most} more" if len(each) > most else "")


def counted(counts: Mapping[str, int]) -> str:
    """How many of what, for a message.

    >>> counted({"late": 1_200, "no source": 2})
    '1,200 x late, 2 x no source'
    """
    return ", ".join(f"{count:,} x {what}" for what, count in counts.items())


def shown(value: object, most: int = 200) -> str:
    """A value for a message, cut where it would be too long.

    >>> shown([1, 2, 3], 5)
    '[1, 2...'
    """
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}..."


def meant(name: str, known: Collection[str]) -> str:
    """The known name most like ``name``, compared in any case and without the namespace; "" if none is close.

    >>> meant("Plian", ["soccer.Plain", "Odd"]), meant("weather.odd", ["soccer.Plain", "Odd"]), meant("x", ["Odd"])
    ('soccer.Plain', 'Odd', '')
    """
    by_last: dict[str, list[str]] = {}
    for each in known:
        by_last.setdefault(each.rpartition(".")[2].lower(), []).append(each)
    near = get_close_matches(name.rpartition(".")[2].lower(), by_last, 1)
    return get_close_matches(name, by_last[near[0]], 1, 0.0)[0] if near else ""
