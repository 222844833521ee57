"""The results of detectors on columns, each with the row of the event that leads to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import index, itemgetter
from typing import TYPE_CHECKING, Any, Union

from middleware.model.errors import DetectorError
from middleware.model.event import Event, EventType, as_it_is, field_names, type_name

if TYPE_CHECKING:
    import pyarrow as pa

Row = tuple[int, Event]
"""A result, behind the number of the row (from 0) that leads to it."""

BatchResult = Union[Iterable[Row], Mapping[str, Any], "pa.Table", "pa.RecordBatch", None]

_ROW = itemgetter(0)


def rows_of(name: str, publishes: tuple[EventType, ...], length: int, result: BatchResult) -> list[Row]:
    """Return the results of ``on_batch`` of the detector ``name`` for ``length`` events, in order of rows. O(results).

    Raises DetectorError if it is nothing that ``Detector.on_batch`` may return, or a row is none of the batch.
    """
    if result is None:
        return []
    if isinstance(result, Mapping):
        found = list(_rows(name, publishes, dict(result)))
    elif (schema := getattr(result, "schema", None)) is not None:  # a table: asked so, because Arrow may not be there
        columns = getattr(result, "columns", ())
        found = list(_rows(name, publishes, dict(zip(schema.names, columns, strict=True))))
    elif isinstance(result, Iterable) and not isinstance(result, Event):
        found = []
        for row, event in (_row(name, each) for each in result):
            may_change = isinstance(result, Iterator) and isinstance(event, Event)  # a generator may change what it has given
            found.append((row, as_it_is(event) if may_change else event))
    else:
        raise DetectorError(
            f"{name} returned {result!r}; on_batch returns None, pairs (row, event), or a table with rows and ts"
        )
    found.sort(key=_ROW)  # stable: the results of one row stay in their order
    if found and not (found[0][0] >= 0 and found[-1][0] < length):
        stray = found[0][0] if found[0][0] < 0 else found[-1][0]
        raise DetectorError(f"{name} returned a result for row {stray}, but was given {length} events, from row 0 on")
    return found


def _row(name: str, given: Any) -> Row:
    try:
        row, event = given
        return index(row), event
    except (TypeError, ValueError):
        raise DetectorError(f"{name} returned {given!r} among its results; on_batch gives pairs (row, event)") from None


def _rows(name: str, publishes: tuple[EventType, ...], columns: dict[str, Any]) -> Iterator[Row]:
    """The rows of a table of results."""
    if len(publishes) != 1:
        raise DetectorError(f"{name} returned a table, but publishes {len(publishes)} types: return pairs (row, event)")
    event_type = publishes[0]
    expected = [*field_names(event_type), "ts", "row"]
    if sorted(columns) != sorted(expected):
        raise DetectorError(
            f"{name} returned a table with {', '.join(columns)}; for {type_name(event_type)} it has {', '.join(expected)}"
        )
    lists = [_listed(columns[each]) for each in expected]
    if len(set(map(len, lists))) > 1:
        lengths = ", ".join(f"{each} {len(values)}" for each, values in zip(expected, lists, strict=True))
        raise DetectorError(f"{name} returned columns that differ in length: {lengths}")
    for *values, ts, row in zip(*lists, strict=True):
        yield _row(name, (row, event_type(*values, ts=ts)))


def _listed(column: Any) -> list[Any]:
    """A column as Python values: one of Arrow, of numpy, or a sequence."""
    listed = column.to_pylist if hasattr(column, "to_pylist") else getattr(column, "tolist", None)
    return listed() if listed is not None else list(column)
