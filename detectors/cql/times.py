"""``TIMESTAMP attribute FORMAT 'format'``: how the time of a line is written, where it is no number of seconds."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from detectors.language.query_errors import QueryError, TextSpan
from detectors.language.value_types import INTEGERS, Type, ValueKind
from middleware.model.quantities import nanoseconds_of

Read = Callable[[Any], int | None]
"""The Unix time (ns) of a value; None if it is none."""

_UNITS = ("s", "ms", "us", "ns")
_ISO = "ISO-8601"
_WORDS = {
    "YYYY": r"(?P<year>\d{4})",
    "MM": r"(?P<month>\d{1,2})",
    "DD": r"(?P<day>\d{1,2})",
    "HH": r"(?P<hour>\d{1,2})",
    "MI": r"(?P<minute>\d{2})",
    "SS": r"(?P<second>\d{2})",
    "F": r"(?P<fraction>\d{1,9})",
}
_WORD = re.compile("|".join(_WORDS))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_reader(form: str, kind: ValueKind, span: TextSpan) -> Read:
    """The function that reads times of a format from values of a type. Raises QueryError.

    Whole numbers are in a unit: ``s``, ``ms``, ``us``, ``ns``. Texts are in ``ISO-8601``, with up to nine decimals and a zone
    (UTC without), or in a pattern of YYYY MM DD HH MI SS and F (a fraction of the second), in UTC; what else is in it stands
    for itself.
    """
    if kind.type in INTEGERS and form in _UNITS:
        size = nanoseconds_of(form)
        assert size is not None
        return lambda value: value * size
    if kind.type is Type.STRING and form.upper() == _ISO:
        return _iso
    if kind.type is Type.STRING and (found := _WORD.findall(form)) and form not in _UNITS:
        if twice := [word for word in _WORDS if found.count(word) > 1]:
            raise QueryError(f"FORMAT {form!r} has {twice[0]} more than once", span)
        if not {"YYYY", "MM", "DD"} <= set(found):
            raise QueryError(f"FORMAT {form!r} has no whole date: it needs YYYY, MM and DD", span)
        return _pattern(form)
    raise QueryError(
        f"FORMAT {form!r} does not fit {kind}: a whole number has a unit ({', '.join(_UNITS)}); a String is in '{_ISO}' or "
        "in a pattern such as 'DD.MM.YYYY HH:MI:SS.F'",
        span,
    )


def _iso(value: Any) -> int | None:
    from middleware.connect.messages.reading import moment

    try:
        return moment(value)
    except (ValueError, OverflowError):
        return None


def _pattern(form: str) -> Read:
    parts = re.split(f"({_WORD.pattern})", form)
    shape = re.compile("".join(_WORDS.get(part) or re.escape(part) for part in parts), re.ASCII)

    def read(value: Any) -> int | None:
        found = shape.fullmatch(value)
        if found is None:
            return None
        numbers = {name: int(text) for name, text in found.groupdict().items() if name != "fraction"}
        try:
            since = datetime(**numbers, tzinfo=UTC) - _EPOCH
        except ValueError:
            return None
        fraction = found.groupdict().get("fraction") or "0"
        return since // timedelta(seconds=1) * 10**9 + int(fraction.ljust(9, "0"))

    return read
