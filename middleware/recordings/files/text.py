"""Reads text files in parallel: cut at line ends, parsed block by block; a broken line never loses a good one."""

from __future__ import annotations

import bz2
import gzip
import io
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from random import Random
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

from middleware.model.block.arrays import scalar, to_column
from middleware.model.errors import TraceError
from middleware.model.event import MAX_TS, MIN_TS
from middleware.recordings.files.quotes import MAX_ROW_BYTES, Quotes, TextRow
from middleware.recordings.files.recording import Recording, RecordingPart

if TYPE_CHECKING:
    import pyarrow as pa

SPLIT_BYTES = 32 << 20
BLOCK_BYTES = 1 << 20
MAX_LINE_BYTES = 16 << 20
"""A longer line is a broken one, and is never in memory as a whole."""
BOM = b"\xef\xbb\xbf"
"""The mark that some programs put before a text in UTF-8."""
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
"""How a text in UTF-16 begins."""
PACKED = (".gz", ".bz2")
"""The ends of the names of compressed files."""

HOPELESS = 1_000
"""If this many lines are broken, in a row or drawn from a block, and none is good, the file has another format."""

_ROW_NUMBER = re.compile(r"Row #\d+: ")

Parse = Callable[[bytes], "pa.Table"]
"""Parses whole lines to a pyarrow.Table with one row per line (none for a blank one); a ValueError means a broken line."""


class Split(NamedTuple):
    """A piece of a text file: the lines that start in [start, end). ``end``: None for a compressed file, read as a whole."""

    path: str
    number: int
    start: int
    end: int | None


def expanded(path: Path) -> Path:
    """The path with a home for its ~; as it is, if there is no such user."""
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def existing(paths: Sequence[str | Path]) -> list[Path]:
    """The files at ``paths``, as absolute paths. Raises TraceError if one is missing, not a file, empty, or in UTF-16."""
    if not paths:
        raise TraceError("no recording given: name at least one file")
    found = []
    for path in paths:
        file = expanded(Path(path)).resolve()
        if not file.exists():
            raise TraceError(f"there is no recording at {file}")
        if not file.is_file():
            raise TraceError(f"{file} is no file: name the recording's files one by one")
        if file.stat().st_size == 0:
            raise TraceError(f"{file} is empty")
        with file.open("rb") as start:
            if start.read(2) in UTF_16:
                raise TraceError(
                    f"{file} is in UTF-16, not UTF-8: iconv -f UTF-16 -t UTF-8 {file.name} > {file.stem}-8{file.suffix}"
                )
        found.append(file)
    return found


def is_packed(file: Path) -> bool:
    """Whether a file is compressed, by the end of its name."""
    return file.suffix.lower() in PACKED


def open_text(path: str | Path) -> IO[bytes]:
    """A text file for reading, decompressed if its name ends in .gz or .bz2."""
    suffix = Path(path).suffix.lower()
    if suffix == ".gz":
        return cast(IO[bytes], gzip.open(path))
    return cast(IO[bytes], bz2.open(path)) if suffix == ".bz2" else Path(path).open("rb")


def splits(files: Sequence[Path], header: bool, size: int = SPLIT_BYTES, quotes: Quotes | None = None) -> list[Split]:
    """The pieces of ``files`` in order, ``size`` bytes each, without their first lines if those are headers.

    With ``quotes``, pieces start only where a row surely starts, and are longer where none does.
    """
    pieces: list[Split] = []
    for file in files:
        skipped = len(header_line(file)) if header else 0
        if is_packed(file):
            pieces.append(Split(str(file), len(pieces), skipped, None))
            continue
        end = file.stat().st_size
        starts: Sequence[int] = range(skipped, max(end, skipped + 1), size)
        if quotes:
            sure = (_sure_start(file, start, quotes) for start in starts[1:])
            starts = sorted({skipped, *(start for start in sure if start is not None and start < end)})
        for start, until in zip(starts, [*starts[1:], end], strict=True):
            pieces.append(Split(str(file), len(pieces), start, until))
    return pieces


def _sure_start(file: Path, start: int, quotes: Quotes) -> int | None:
    """Where a row surely starts, at ``start`` or after; None if that is not seen from the bytes that follow."""
    with _opened(file) as text:
        text.seek(start - 1)
        first = start - 1 + _line(text, 0)[1]
        at = quotes.sure_start(text.read(2 * MAX_ROW_BYTES))
    return None if at is None else first + at


def header_line(file: Path) -> bytes:
    """The first line of a text file, unchanged. Raises TraceError if it cannot be read, or is too long."""
    with _opened(file) as text:
        line, length = _line(text, MAX_LINE_BYTES)
    if line is None:
        raise TraceError(f"{file}: its first line has {length:,} bytes; the most is {MAX_LINE_BYTES:,}")
    return line


def first_lines(file: Path, count: int) -> list[bytes]:
    """The first lines of a text file, without those that are too long. Raises TraceError if it cannot be read."""
    found: list[bytes] = []
    with _opened(file) as text:
        while len(found) < count:
            line, length = _line(text, MAX_LINE_BYTES)
            if not length:
                break
            found += [] if line is None else [line]
    return [found[0].removeprefix(BOM), *found[1:]] if found else []


@contextmanager
def _opened(path: str | Path) -> Iterator[IO[bytes]]:
    """``open_text`` that raises TraceError if the file cannot be read, or is found to be damaged while it is read."""
    try:
        with open_text(path) as text:
            yield text
    except (OSError, EOFError, zlib.error) as error:
        raise TraceError(f"{path} cannot be read: {error}") from None


def _line(text: IO[bytes], most: int) -> tuple[bytes | None, int]:
    """The text up to the next line end, None if that is more than ``most`` bytes; and its length with the line end."""
    line = text.readline(most + 1)
    length = len(line)
    if length <= most or line.endswith(b"\n"):
        return line, length
    while not line.endswith(b"\n") and (line := text.readline(BLOCK_BYTES)):
        length += len(line)
    return None, length


def blocks(split: Split, size: int = BLOCK_BYTES, longest: int = MAX_LINE_BYTES) -> Iterator[bytes | None]:
    """Whole lines of a split, about ``size`` bytes at a time, without a BOM; None for a line of over ``longest`` bytes."""
    with _opened(split.path) as text:
        text.seek(split.start)
        position = split.start
        if split.end is not None and not _starts_line(text, split):
            position += _line(text, 0)[1]  # of a line that starts in the split before
        while split.end is None or position < split.end:
            most = size if split.end is None else min(size, split.end - position)
            block = text.read(min(most, longest))
            if not block:
                return
            last = block.rfind(b"\n") + 1
            rest, length = _line(text, longest - len(block) + last) if last < len(block) else (b"", 0)
            whole = block[:last] if rest is None else block + rest
            if whole:
                yield whole if position else whole.removeprefix(BOM)
            if rest is None:
                yield None
            position += len(block) + length


def _starts_line(text: IO[bytes], split: Split) -> bool:
    """Whether a line starts where the split does; leaves the file at the split's start."""
    if split.start == 0:
        return True
    text.seek(split.start - 1)
    return text.read(1) == b"\n"


@dataclass(frozen=True)
class TextReader:
    """Reads splits of text with one parser into events of one type, about ``block`` bytes at a time; see ``blocks``."""

    type_name: str
    parse: Parse
    block: int = BLOCK_BYTES
    longest: int = MAX_LINE_BYTES
    quotes: Quotes | None = None
    """How rows go over lines; None: each row is one line."""

    def __call__(self, split: Split) -> Iterator[RecordingPart]:
        import numpy as np

        good = lines = broken = 0
        found = blocks(split, self.block, self.longest)
        for block in self.quotes.whole(found) if self.quotes else found:
            count = 1 if block is None else _lines(block)
            if block is not None and not good and (reason := hopeless(block, self.parse, self.quotes)):
                raise _another_format(split, f"{HOPELESS} drawn from its first {lines + count}", reason)
            tables, bad = (
                ([], [(0, f"a line of more than {self.longest:,} bytes")])
                if block is None
                else salvage(block, self.parse, self.quotes)
            )
            for start, table in tables:
                positions = (split.number << 40) + lines + start + np.arange(table.num_rows)
                numbered = table.append_column("_position", to_column(positions))
                yield RecordingPart({self.type_name: numbered}, 0, [])
                good += table.num_rows
            yield RecordingPart({}, count, bad)
            lines += count
            broken += len(bad)
            if not good and broken >= HOPELESS:
                raise _another_format(split, f"its first {lines}", bad[0][1])


def text_recording(reader: str, files: Sequence[Path], pieces: Sequence[Split], read: TextReader, **options: Any) -> Recording:
    """The recording made of splits of text files; ``options``: those of ``Recording``."""
    origin, file_of = [str(file) for file in files], [piece.path for piece in pieces]
    return Recording(reader, origin, pieces, read, file_of, **options)


def _another_format(split: Split, among: str, reason: str) -> TraceError:
    where = "" if split.start == 0 else f" from byte {split.start} on"
    return TraceError(f"{split.path} has not one good line among {among}{where}: {reason}; is it another format?")


def _lines(block: bytes) -> int:
    return block.count(b"\n") + (not block.endswith(b"\n"))


def salvage(
    block: bytes, parse: Parse, quotes: Quotes | None = None
) -> tuple[list[tuple[int, pa.Table]], list[tuple[int, str]]]:
    """Parse a block; if that fails, halve it until each broken row stands alone. ``quotes``: how rows go over lines.

    Returns the tables, each with the number of its first line in the block, and the broken lines with reasons. Rows stay
    in order. O(lines), and O(log lines) parses for each broken row.
    """
    tables: list[tuple[int, pa.Table]] = []
    bad: list[tuple[int, str]] = []
    todo = [[TextRow(0, block, quotes is None or quotes.is_closed(_last_line(block)))]]
    is_first = True
    while todo:
        rows = todo.pop()
        first, text, is_closed = rows[0]
        count = _lines(text) if is_first else len(rows)
        try:
            if not is_closed:
                raise ValueError("a quote that does not end")
            table = _table_of(text if len(rows) == 1 else b"".join(row.text for row in rows), count, parse)
        except ValueError as error:
            if is_first and count > 1:
                todo += reversed(_runs(_rows(text, quotes)))
            elif len(rows) > 1:
                todo += [rows[len(rows) // 2 :], rows[: len(rows) // 2]]
            else:
                bad.append((first, _short(error)))
        else:
            if table.num_rows:
                tables.append((first, table.replace_schema_metadata(None)))
        is_first = False
    return tables, bad


def _table_of(text: bytes, count: int, parse: Parse) -> pa.Table:
    """The table of ``count`` rows. Raises ValueError if it has more or fewer, unless one is blank and alone."""
    table = parse(text)
    if count > 1 and text.count(b"\r") != text.count(b"\r\n"):  # a line of two rows, which a blank one would hide
        raise ValueError("a stray carriage return")
    if (rows := _rows_of(table)) != count and (count > 1 or text.strip()):
        raise ValueError(f"{rows} rows in {count} lines: a stray quote or line break")
    return table


def _rows(text: bytes, quotes: Quotes | None) -> Iterator[TextRow]:
    if quotes and b'"' in text:
        return quotes.rows(text)
    return (TextRow(number, line) for number, line in enumerate(io.BytesIO(text)))


def _runs(rows: Iterable[TextRow]) -> list[list[TextRow]]:
    """The rows in order: those whose quotes end together, each other alone."""
    found: list[list[TextRow]] = []
    for is_closed, some in groupby(rows, lambda row: row.is_closed):
        run = list(some)
        found += [run] if is_closed else [[row] for row in run]
    return found


def _last_line(block: bytes) -> bytes:
    return block[block.rfind(b"\n", 0, -1) + 1 :]


_ROWS = b"slackline:rows"


def of_rows(table: pa.Table, rows: int) -> pa.Table:
    """The answer of a parser that has skipped some rows: the others, and how many there were."""
    return table.replace_schema_metadata({_ROWS: str(rows)})


def _rows_of(table: pa.Table) -> int:
    """How many rows a parser has seen."""
    return int((table.schema.metadata or {}).get(_ROWS, table.num_rows))


def hopeless(block: bytes, parse: Parse, quotes: Quotes | None = None) -> str | None:
    """The fault of ``HOPELESS`` rows drawn from a block; None if one of them is good, or there are fewer.

    At most ``HOPELESS`` parses, and one if the first line is good; salvaging a block without a good line takes two per line.
    """
    rows = (row.text for row in _rows(block, quotes) if row.text.strip())
    first = next(rows, b"")
    _, broken = salvage(first, parse, quotes)
    if not broken:
        return None
    lines = [first, *rows]
    if len(lines) < HOPELESS:
        return None
    reasons = [broken[0][1]]
    # Drawn, not every n-th: where each 34th line is broken, a stride of 34 meets only those. The same in each run.
    for number in Random(0).sample(range(1, len(lines)), HOPELESS - 1):
        _, bad = salvage(lines[number], parse, quotes)
        if not bad:
            return None
        reasons.append(bad[0][1])
    return reasons[0]


def _short(error: ValueError) -> str:
    """The reason in one line, without pyarrow's row number, which counts from the start of a block."""
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return _ROW_NUMBER.sub("", text)[:200]


def parse_csv(
    block: bytes,
    names: Sequence[str],
    types: dict[str, pa.DataType],
    delimiter: str = ",",
    quote: str | bool = False,
    over_lines: bool = False,
) -> pa.Table:
    """The columns ``types`` (Arrow type by name) of CSV lines. Raises ValueError if any line does not fit.

    ``over_lines``: a quoted text may hold line breaks; else a quote that does not end on its line is an error.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import csv

    if not block.strip():
        return pa.table({name: pa.array([], kind) for name, kind in types.items()})
    table = csv.read_csv(
        pa.BufferReader(block),
        csv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=list(names)),
        csv.ParseOptions(delimiter=delimiter, quote_char=quote, newlines_in_values=over_lines and b'"' in block),
        csv.ConvertOptions(column_types=types, include_columns=list(types), null_values=[], strings_can_be_null=False),
    )
    if quote and not over_lines and b'"' in block:
        for column in table.columns:
            if pa.types.is_string(column.type) and pc.any(pc.match_substring(column, "\n"), min_count=0).as_py():
                raise ValueError("a quote that does not end on its line")
    return table


def nanoseconds(column: pa.ChunkedArray, numerator: int, denominator: int = 1) -> pa.ChunkedArray:
    """An int64 column times a fraction, as whole nanoseconds. Raises ValueError if a time is missing, or out of range."""
    import pyarrow.compute as pc

    if column.null_count:
        raise ValueError("is missing")
    scaled = pc.multiply_checked(column, scalar(numerator)) if numerator != 1 else column
    if denominator != 1:
        scaled = pc.divide(scaled, scalar(denominator))
    if len(scaled):
        bounds = pc.min_max(scaled).as_py()
        if bounds["min"] <= MIN_TS or bounds["max"] >= MAX_TS:
            raise ValueError("a time stamp outside the 146 years to either side of the epoch")
    return scaled


def finite(table: pa.Table, optional: Collection[str] = ()) -> pa.Table:
    """Returns the table itself. Raises ValueError if a number in it is NaN or infinite, or a value is missing in a column that
    is not ``optional``.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.null_count and name not in optional:
            raise ValueError(f"{name} is missing")
        if pa.types.is_floating(column.type) and not pc.all(pc.is_finite(column), min_count=0).as_py():
            raise ValueError(f"{name} is not a finite number")
    return table
