"""Checks on the first rows of a recording, before it is read, that its times plausibly have the unit its mapping says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from middleware.model.errors import TraceError
from middleware.model.quantities import UNIX_TIMES
from middleware.model.time import SECOND
from middleware.recordings.files.formats import head
from middleware.recordings.files.mapping import Unit

ROWS = 100
"""The number of rows to look at."""

UNITS: dict[Unit, int] = {"s": SECOND, "ms": 10**6, "us": 10**3, "ns": 1}
"""Nanoseconds in the units that are distinguished by the size of times."""

_YEAR = 31_556_952 * SECOND
_EARLY, _LATE = 10 * _YEAR, UNIX_TIMES.stop
"""Times before 1980 and after 2100 are doubted, if another unit makes them dates of our time."""


def first_values(file: Path, column: str, delimiter: str, topics: Sequence[str] = ()) -> list[object]:
    """The first values of a column of a file; none if they cannot be read: the reader gives the better error."""
    table = head(file, delimiter, ROWS, topics)
    return [value for value in table[column].to_pylist() if value] if column in table.column_names else []


def check_times(where: str, unit: Unit, values: Iterable[object]) -> str | None:
    """A warning about the unit of a column of times, in words; None if there is none.

    Times in 1970 may be intended, if a recording counts from its own start: they give a warning. Raises TraceError for times
    after 2100 that another unit would make dates of our time: nobody can mean them.
    """
    numbers = [number for value in values if (number := _number(value)) is not None]
    if unit not in UNITS or not numbers:
        return None
    value = sorted(numbers)[len(numbers) // 2]
    at = value * UNITS[unit]
    meant = [each for each, length in UNITS.items() if value * length in UNIX_TIMES]
    if _EARLY <= at < _LATE or at < 0 or not meant:
        return None
    found = _day(at) if at < _LATE else f"the year {1970 + at // _YEAR:,}"
    text = f"{where}: {value:,} is {found} in {unit}, and {_day(value * UNITS[meant[0]])} in {meant[0]}"
    if at >= _LATE:
        raise TraceError(f'{text}: write unit = "{meant[0]}"')
    return f'{text}; is unit = "{meant[0]}" meant?'


def _day(at: int) -> str:
    return f"{datetime.fromtimestamp(at // SECOND, UTC):%Y-%m-%d}"


def _number(value: object) -> int | None:
    try:
        return int(float(str(value)))
    except (TypeError, ValueError, OverflowError):
        return None


def unit_warnings(
    files: Sequence[Path],
    columns: Iterable[tuple[str, Unit]],
    delimiter: str,
    mapping: str,
    topics: Sequence[str] = (),
) -> tuple[str, ...]:
    """Warnings about the units of columns of times, from the values in the first file. Raises TraceError: see above."""
    found = (
        check_times(f"the mapping {mapping}: column {column}", unit, first_values(files[0], column, delimiter, topics))
        for column, unit in columns
    )
    return tuple(warning for warning in found if warning is not None)
