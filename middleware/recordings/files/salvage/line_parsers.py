"""Parsers of whole lines of text, to rows of events: all at once, or each row for itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from middleware.model.block.arrays import to_column
from middleware.recordings.files.quotes import Quotes, TextRow
from middleware.recordings.files.salvage.fitted_rows import (
    Conversion,
    FittedRows,
    broken_rows,
    fitted_cells,
    joined,
    reason_of,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from middleware.model.block.arrays import Array

_LONGEST_SHOWN = 100
"""Bytes of a row that pyarrow shows in an error; of a longer one, 96."""

_BLANKS = " \t"
"""Letters that pyarrow passes over before and after a number in CSV."""


class LineParser(Protocol):
    """Parses whole lines to a table with one row per line (none for a blank one)."""

    def whole(self, block: bytes) -> tuple[pa.Table, int]:
        """The rows of lines, and how many there are: more than those of the table, if a mapping passes over some.

        Raises ValueError if a line is broken.
        """
        ...

    def fitted(self, rows: Sequence[TextRow]) -> FittedRows:
        """The rows that fit, by their places in ``rows``: those of which ``whole`` of this row alone makes one row."""
        ...


def parsed(text: bytes, count: int, parser: LineParser) -> pa.Table:
    """The table of ``count`` rows. Raises ValueError if it has more or fewer, unless one is blank and alone."""
    table, rows = parser.whole(text)
    if count > 1 and _has_stray_return(text):  # a line of two rows, which a blank one would hide
        raise ValueError("a stray carriage return")
    if rows != count and (count > 1 or text.strip()):
        raise ValueError(f"{rows} rows in {count} lines: a stray quote or line break")
    return table


def _has_stray_return(text: bytes) -> bool:
    return b"\r" in text and text.count(b"\r") != text.count(b"\r\n")


def _one_by_one(rows: Sequence[TextRow], parser: LineParser) -> FittedRows:
    """The rows that fit, with a parse for each."""
    import numpy as np

    parts: list[tuple[Array, FittedRows]] = []
    for number, row in enumerate(rows):
        try:
            table = parsed(row.text, 1, parser)
            part = FittedRows(table, np.arange(table.num_rows), [])
        except ValueError as error:
            part = broken_rows({0: reason_of(error)})
        parts.append((np.array([number]), part))
    return joined(parts)


def _split(rows: Sequence[TextRow], is_alone: Callable[[TextRow], bool]) -> tuple[Array, Array]:
    """The places of rows that can be parsed together, and of those that cannot."""
    import numpy as np

    alone = np.fromiter(map(is_alone, rows), np.bool_, len(rows))
    return np.flatnonzero(~alone), np.flatnonzero(alone)


@dataclass(frozen=True)
class ParserOfLines:
    """Reads each line with ``read``, which raises ValueError if it is broken; ``tabulate`` makes cells of what was read."""

    read: Callable[[bytes], Any]
    tabulate: Callable[[Sequence[Any]], pa.Table]
    conversion: Conversion

    def whole(self, block: bytes) -> tuple[pa.Table, int]:
        """See LineParser."""
        cells = self.tabulate([self.read(line) for line in block.splitlines() if line.strip()])
        return self.conversion(cells), cells.num_rows

    def fitted(self, rows: Sequence[TextRow]) -> FittedRows:
        """See LineParser."""
        import numpy as np

        together, alone = _split(rows, lambda row: _has_stray_return(row.text))
        found, good, bad = [], list[int](), dict[int, str]()
        for place, number in enumerate(together.tolist()):
            try:
                found.append(self.read(rows[number].text.rstrip(b"\r\n")))
            except ValueError as error:
                bad[place] = reason_of(error)
            else:
                good.append(place)
        return joined(
            [
                (together[np.array(good, np.int64)], self.conversion.fitted(self.tabulate(found))),
                (together, broken_rows(bad)),
                (alone, _one_by_one([rows[number] for number in alone.tolist()], self)),
            ]
        )


@dataclass(frozen=True)
class ParserOfCsv:
    """Reads CSV lines with columns in the order of ``names``; ``types``: those that are needed (Arrow type by name).

    ``over_lines``: a quoted text may hold line breaks; else a quote that does not end on its line is an error.
    """

    names: Sequence[str]
    types: dict[str, pa.DataType]
    conversion: Conversion
    delimiter: str = ","
    quote: str | bool = False
    over_lines: bool = False

    def whole(self, block: bytes) -> tuple[pa.Table, int]:
        """See LineParser."""
        cells = self._cells(block)
        return self.conversion(cells), cells.num_rows

    def fitted(self, rows: Sequence[TextRow]) -> FittedRows:
        """See LineParser."""
        import numpy as np
        import pyarrow as pa

        together, alone = _split(rows, self._is_alone)
        wrong: dict[int, str] = {}
        raw = self._raw(b"".join(rows[number].text for number in together.tolist()), wrong)
        if raw.num_rows + len(wrong) != len(together):  # a quote of one row has hidden others
            return _one_by_one(rows, self)
        places = np.delete(np.arange(len(together)), list(wrong))
        columns, reasons = {}, dict[int, str]()
        for name, kind in self.types.items():
            columns[name], bad = self._column(raw.select([name]), name, kind)
            reasons = bad | reasons
        sound = np.delete(np.arange(raw.num_rows), list(reasons))
        return joined(
            [
                (together[places[sound]], self.conversion.fitted(pa.table(columns).take(to_column(sound)))),
                (together[places], broken_rows(reasons)),
                (together, broken_rows(wrong)),
                (alone, _one_by_one([rows[number] for number in alone.tolist()], self)),
            ]
        )

    def _is_alone(self, row: TextRow) -> bool:
        """Whether a row may hide others, or pyarrow cannot say what is wrong with it."""
        text = row.text
        if _has_stray_return(text):
            return True
        is_quoted = bool(self.quote) and b'"' in text
        if is_quoted and not self.over_lines and not Quotes(self.delimiter, len(self.names)).is_closed(text):
            return True
        if text.isascii():
            return False
        try:
            text.decode()
        except UnicodeDecodeError:
            return is_quoted or text.count(self.delimiter.encode()) != len(self.names) - 1
        return False

    def _cells(self, block: bytes) -> pa.Table:
        """The columns ``types`` of CSV lines. Raises ValueError if any line does not fit."""
        import pyarrow as pa
        import pyarrow.compute as pc

        table = self._read(block, self.types)
        if self.quote and not self.over_lines and b'"' in block:
            for column in table.columns:
                if pa.types.is_string(column.type) and pc.any(pc.match_substring(column, "\n"), min_count=0).as_py():
                    raise ValueError("a quote that does not end on its line")
        return table

    def _raw(self, block: bytes, wrong: dict[int, str]) -> pa.Table:
        """The cells of rows as they are; what is wrong with rows that have more cells, or fewer, goes to ``wrong``."""
        import pyarrow as pa

        def skipped(row: Any) -> str:
            text = row.text.encode()
            shown = text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 4] + b" ..."
            why = f"CSV parse error: Expected {row.expected_columns} columns, got {row.actual_columns}: "
            wrong[row.number - 1] = reason_of(ValueError(why + shown.decode(errors="replace")))
            return "skip"

        return self._read(block, dict.fromkeys(self.types, pa.binary()), skipped)

    def _read(self, block: bytes, types: dict[str, pa.DataType], invalid: Callable[[Any], str] | None = None) -> pa.Table:
        import pyarrow as pa
        from pyarrow import csv

        if not block.strip():
            return pa.table({name: pa.array([], kind) for name, kind in types.items()})
        return csv.read_csv(
            pa.BufferReader(block),
            csv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=list(self.names)),
            csv.ParseOptions(
                delimiter=self.delimiter,
                quote_char=self.quote,
                newlines_in_values=self.over_lines and b'"' in block,
                invalid_row_handler=invalid,
            ),
            csv.ConvertOptions(column_types=types, include_columns=list(types), null_values=[], strings_can_be_null=False),
        )

    def _column(self, cells: pa.Table, name: str, kind: pa.DataType) -> tuple[pa.ChunkedArray, dict[int, str]]:
        """A column of cells as pyarrow reads it from CSV; and the reasons why it cannot be, in its words, by row."""
        import pyarrow as pa

        where = f"In CSV column #{list(self.names).index(name)}: CSV conversion error to {kind}"
        column, bad = fitted_cells(cells, lambda some: some.column(0).cast(pa.string()), pa.string())
        if pa.types.is_string(kind):
            return column, dict.fromkeys(bad, f"{where}: invalid UTF8 data"[:200])
        column, others = fitted_cells(pa.table({name: column}), lambda some: _typed(some.column(0), kind), kind)
        bad |= others
        texts = {row: cells.column(0)[row].as_py().decode(errors="replace") for row in bad}
        return column, {row: reason_of(ValueError(f"{where}: {_fault(text, kind)}")) for row, text in texts.items()}


def _typed(texts: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Texts as pyarrow reads them from CSV, where blanks around a number do not count."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return (texts if pa.types.is_timestamp(kind) else pc.utf8_trim(texts, _BLANKS)).cast(kind)


def _fault(text: str, kind: pa.DataType) -> str:
    """The words of pyarrow for a text in CSV that it cannot read."""
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        try:
            pa.array([text]).cast(pa.timestamp("ns", "UTC"))
        except ValueError:
            pass
        else:
            return f"expected no zone offset in '{text}'"
        return f"invalid value '{text}'"
    return f"invalid value '{text.strip(_BLANKS)}'"
