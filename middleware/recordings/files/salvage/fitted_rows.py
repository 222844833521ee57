"""The rows of a table that fit, beside the reasons why others do not."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from middleware.model.block.arrays import to_array, to_column

if TYPE_CHECKING:
    import pyarrow as pa

    from middleware.model.block.arrays import Array


_T = TypeVar("_T")

_PARTS = 8
"""The parts in which rows are divided that do not fit: where all are broken, halves would take twice the conversions."""

_ROW_NUMBER = re.compile(r"Row #\d+: ")


class FittedRows(NamedTuple):
    """The rows that fit, as events have them; the number of each; and the broken rows, in order, with reasons.

    ``lost``: the rows that fit with None for a cell that cannot be read, in order, with reasons.
    """

    table: pa.Table
    rows: Array
    bad: list[tuple[int, str]]
    lost: Sequence[tuple[int, str]] = ()


class Conversion(Protocol):
    """Makes the columns of events from the cells of a table."""

    def __call__(self, cells: pa.Table) -> pa.Table:
        """The rows, all of them. Raises ValueError if one does not fit."""
        ...

    def fitted(self, cells: pa.Table) -> FittedRows:
        """The rows that fit; a row fits if a table of this row alone is converted."""
        ...


@dataclass(frozen=True)
class ConversionOfRows:
    """A conversion of whole rows by a function that raises ValueError if one does not fit."""

    convert: Callable[[pa.Table], pa.Table]

    def __call__(self, cells: pa.Table) -> pa.Table:
        return self.convert(cells)

    def fitted(self, cells: pa.Table) -> FittedRows:
        """See Conversion."""
        import numpy as np
        import pyarrow as pa

        pieces, reasons = _pieces(cells, self.convert)
        if not pieces:
            return broken_rows(reasons)
        rows = [np.arange(first, first + table.num_rows) for first, table in pieces.items()]
        return FittedRows(pa.concat_tables(list(pieces.values())), np.concatenate(rows), sorted(reasons.items()))


def fitted_cells(
    cells: pa.Table, convert: Callable[[pa.Table], pa.ChunkedArray], kind: pa.DataType
) -> tuple[pa.ChunkedArray, dict[int, str]]:
    """A column computed from the columns of ``cells``, null where it cannot be; and the reasons, by row.

    Equal cells are converted once, and sorted: what is no number mostly stands together then, so a few hundred conversions
    find thousands of broken cells. O(rows), and O(log rows) conversions for each different broken cell.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return convert(cells), {}
    except ValueError:
        pass
    rows = np.arange(cells.num_rows)
    kept = cells
    first = cells.column(0).type
    if cells.num_columns == 1 and (pa.types.is_primitive(first) or pa.types.is_string(first) or pa.types.is_binary(first)):
        coded = cells.column(0).combine_chunks().dictionary_encode(null_encoding="encode")
        order = to_array(pc.sort_indices(coded.dictionary))
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        rows = ranks[to_array(coded.indices)]
        kept = pa.table({cells.column_names[0]: coded.dictionary.take(to_column(order))})
    pieces, reasons = _pieces(kept, lambda some: convert(some).cast(kind))
    found: dict[int, pa.ChunkedArray] = pieces | dict.fromkeys(reasons, pa.chunked_array([pa.nulls(1, kind)]))
    column = pa.chunked_array([chunk for first in sorted(found) for chunk in found[first].chunks], kind)
    is_bad = np.zeros(kept.num_rows, np.bool_)
    is_bad[list(reasons)] = True
    broken = np.flatnonzero(is_bad[rows])
    return column.combine_chunks().take(to_column(rows)), {row: reasons[int(rows[row])] for row in broken.tolist()}


def _pieces(cells: pa.Table, convert: Callable[[pa.Table], _T]) -> tuple[dict[int, _T], dict[int, str]]:
    """Convert rows, dividing what does not fit until each row that does not stands alone.

    Returns what was made, by its first row, in order; and the reasons, by row.
    """
    found: dict[int, _T] = {}
    reasons: dict[int, str] = {}
    todo = [(0, cells)]
    while todo:
        first, rows = todo.pop()
        count = rows.num_rows
        try:
            found[first] = convert(rows)
        except ValueError as error:
            if count == 1:
                reasons[first] = reason_of(error)
                continue
            step = -(-count // _PARTS)
            todo += [(first + at, rows.slice(at, step)) for at in reversed(range(0, count, step))]
    return found, reasons


def reason_of(error: ValueError) -> str:
    """The reason why a row is broken, in one line, without pyarrow's row number, which counts from the start of a block."""
    text = str(error).strip()
    return _ROW_NUMBER.sub("", text.splitlines()[0] if text else type(error).__name__)[:200]


def broken_rows(reasons: dict[int, str]) -> FittedRows:
    """No row that fits, and these that do not."""
    import numpy as np
    import pyarrow as pa

    return FittedRows(pa.table({}), np.empty(0, np.int64), sorted(reasons.items()))


def joined(parts: Sequence[tuple[Array, FittedRows]]) -> FittedRows:
    """The rows of several parts in order; each part with the numbers that its rows have in all."""
    import numpy as np
    import pyarrow as pa

    bad = sorted((int(numbers[row]), why) for numbers, part in parts for row, why in part.bad)
    lost = sorted((int(numbers[row]), why) for numbers, part in parts for row, why in part.lost)
    some = [(numbers[part.rows], part.table) for numbers, part in parts if part.table.num_rows]
    if not some:
        return broken_rows(dict(bad))
    if len(some) == 1:
        return FittedRows(some[0][1], some[0][0], bad, lost)
    rows = np.concatenate([numbers for numbers, _ in some])
    order = np.argsort(rows, kind="stable")
    return FittedRows(pa.concat_tables([table for _, table in some]).take(to_column(order)), rows[order], bad, lost)
