"""The events of columns, made some at a time: by the native core where it can, which takes a fourth of the time."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from middleware import native
from middleware.model.columns import EventColumns, source_codes, values
from middleware.model.event import Event
from middleware.model.making import recipe

if TYPE_CHECKING:
    import pyarrow as pa

_recipe = cache(recipe)


class Rows:
    """Makes the events of ``columns``: some at a time, or, where Python makes them, all at the first call."""

    def __init__(self, columns: EventColumns) -> None:
        self._columns = columns
        self._maker = _maker(columns) if native.AVAILABLE else None

    def events(self, start: int, stop: int) -> list[Event]:
        """Those from place ``start`` to before ``stop``, in a list of their own. O(values)."""
        if self._maker is not None:
            made: list[Event] = self._maker.events(start, stop)
            return made
        return self._columns.events()[start:stop]


def _maker(columns: EventColumns) -> native.EventMaker | None:
    """None if only Python can make such events."""
    making = _recipe(columns.event_type)
    return None if making is None else native.EventMaker.of(making, [_given(columns, name) for name, _, _ in making[1]])


def _given(columns: EventColumns, name: str) -> Any:
    """A column as the core takes it: an array of numbers, a list of values, with the places of theirs in it, or one for all."""
    if name == "level" and columns.levels is None:
        return 0
    if name == "source":
        names, codes = source_codes(columns.batch)
        return names[0] if len(names) == 1 else (names, codes.astype("int32", copy=False))
    column = columns.column(name)
    return column.to_numpy() if _is_numbers(column) else values(column)


def _is_numbers(column: pa.Array) -> bool:
    import pyarrow as pa

    return not column.null_count and (pa.types.is_int64(column.type) or pa.types.is_float64(column.type))
