"""Columns as plain lists, for the plain Python baseline."""

from __future__ import annotations

from collections.abc import Iterable

from detectors.window.aggregation.monoid import Place
from middleware.model.errors import WindowError
from middleware.model.event import Value


def listed(column: Iterable[Value]) -> list[Value]:
    """A column as a list of Python values; arrays and Arrow arrays are converted, and their times become nanoseconds."""
    if getattr(column, "null_count", 0):
        raise WindowError("the column has nulls: leave those rows out")
    if hasattr(column, "__array__") and not isinstance(column, list):
        array = column.__array__()
        if array.dtype.kind == "M":
            array = array.astype("datetime64[ns]").view("int64")
        values: list[Value] = array.tolist()
        return values
    return list(column)


def aligned(*columns: Iterable[Value]) -> list[list[Value]]:
    """Columns as lists. Raises WindowError if they differ in length."""
    lists = [listed(column) for column in columns]
    for one in lists[1:]:
        if len(one) != len(lists[0]):
            raise WindowError(f"the columns differ in length: {len(lists[0])} and {len(one)}")
    return lists


class _Behind:
    """Comes after everything."""

    def __lt__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return True

    __le__ = __lt__
    __ge__ = __gt__


BEHIND = _Behind()


def bounds(low: Place, high: Place) -> tuple[Place, Place]:
    """Bounds in the total order: a bare time includes all events at it."""
    return (low,) if isinstance(low, int) else low, (high, BEHIND) if isinstance(high, int) else high
