"""Reads text files in parallel: cut at line ends, parsed block by block; a broken line never loses a good one."""

from __future__ import annotations

import bz2
import gzip
import io
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path
from random import Random
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

from middleware.model.block.arrays import scalar, to_array, to_column
from middleware.model.errors import TraceError
from middleware.model.event import MAX_TS, MIN_TS
from middleware.recordings.files.quotes import MAX_ROW_BYTES, Quotes, TextRow
from middleware.recordings.files.recording import Recording, RecordingPart
from middleware.recordings.files.salvage.fitted_rows import FittedRows, broken_rows, joined
from middleware.recordings.files.salvage.line_parsers import LineParser, parsed

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

_OPEN = "a quote that does not end"
"""The reason why a row with such a quote is broken."""


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
    """The files at ``paths``, as absolute paths, each once: files, folders (all in them), and patterns (``data/*.csv``).

    The files of a folder or a pattern are sorted by name. Raises TraceError if one is missing, not a file, empty, or in UTF-16.
    """
    if not paths:
        raise TraceError("no recording given: name at least one file")
    found = []
    for file in dict.fromkeys(file for path in paths for file in _files_at(expanded(Path(path)).resolve())):
        if file.stat().st_size == 0:
            raise TraceError(f"{file} is empty")
        with file.open("rb") as start:
            if start.read(2) in UTF_16:
                raise TraceError(
                    f"{file} is in UTF-16, not UTF-8: iconv -f UTF-16 -t UTF-8 {file.name} > {file.stem}-8{file.suffix}"
                )
        found.append(file)
    return found


def _files_at(path: Path) -> list[Path]:
    """The files that a path means, at least one. Raises TraceError."""
    if path.is_file():
        return [path]
    if path.is_dir():
        found = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith((".", "_")))
        if not found:
            raise TraceError(f"there is no file in the folder {path}: name one that holds a recording")
        return found
    if path.exists():
        raise TraceError(f"{path} is no file: name a file, a folder or a pattern")
    if not has_magic(str(path)):
        raise TraceError(f"there is no recording at {path}")
    found = [Path(name) for name in sorted(glob(str(path), recursive=True)) if Path(name).is_file()]
    if not found:
        raise TraceError(f"there is no recording at {path}: no file matches the pattern")
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
    parser: LineParser
    block: int = BLOCK_BYTES
    longest: int = MAX_LINE_BYTES
    quotes: Quotes | None = None
    """How rows go over lines; None: each row is one line."""

    def __call__(self, split: Split) -> Iterator[RecordingPart]:
        good = lines = broken = 0
        pieces = blocks(split, self.block, self.longest)
        for block in self.quotes.whole(pieces) if self.quotes else pieces:
            count = 1 if block is None else _lines(block)
            if block is not None and not good and (reason := hopeless(block, self.parser, self.quotes)):
                raise _another_format(split, f"{HOPELESS} drawn from its first {lines + count}", reason)
            found = (
                broken_rows({0: f"a line of more than {self.longest:,} bytes"})
                if block is None
                else salvage(block, self.parser, self.quotes)
            )
            yield part_of(found, self.type_name, (split.number << 40) + lines, count)
            good += found.table.num_rows
            lines += count
            broken += len(found.bad)
            if not good and broken >= HOPELESS:
                raise _another_format(split, f"its first {lines}", found.bad[0][1])


def part_of(found: FittedRows, type_name: str, first: int, lines: int) -> RecordingPart:
    """The rows of some lines as a part of a recording. ``first``: the position of the first line in it."""
    if not found.table.num_rows:
        return RecordingPart({}, lines, found.bad, found.lost)
    positions = to_column(first + found.rows)
    return RecordingPart({type_name: found.table.append_column("_position", positions)}, lines, found.bad, found.lost)


def text_recording(reader: str, files: Sequence[Path], pieces: Sequence[Split], read: TextReader, **options: Any) -> Recording:
    """The recording made of splits of text files; ``options``: those of ``Recording``."""
    origin, file_of = [str(file) for file in files], [piece.path for piece in pieces]
    return Recording(reader, origin, pieces, read, file_of, **options)


def _another_format(split: Split, among: str, reason: str) -> TraceError:
    where = "" if split.start == 0 else f" from byte {split.start} on"
    return TraceError(f"{split.path} has not one good line among {among}{where}: {reason}; is it another format?")


def _lines(block: bytes) -> int:
    return block.count(b"\n") + (not block.endswith(b"\n"))


def salvage(block: bytes, parser: LineParser, quotes: Quotes | None = None) -> FittedRows:
    """Parse a block of whole lines; if that fails, each row for itself. ``quotes``: how rows go over lines.

    Rows are numbered by their first line in the block. A broken row costs about what others cost.
    """
    import numpy as np

    count = _lines(block)
    try:
        if quotes is not None and not quotes.is_closed(_last_line(block)):
            raise ValueError(_OPEN)
        table = parsed(block, count, parser)
    except ValueError:
        pass
    else:
        return FittedRows(table, np.arange(table.num_rows), [])
    rows = [row for row in _rows(block, quotes) if row.text.strip()]
    closed = [row for row in rows if row.is_closed]
    lines = np.array([row.line for row in closed], np.int64)
    others = broken_rows({row.line: _OPEN for row in rows if not row.is_closed})
    return joined([(lines, parser.fitted(closed)), (np.arange(count), others)])


def _rows(text: bytes, quotes: Quotes | None) -> Iterator[TextRow]:
    if quotes and b'"' in text:
        return quotes.rows(text)
    return (TextRow(number, line) for number, line in enumerate(io.BytesIO(text)))


def _last_line(block: bytes) -> bytes:
    return block[block.rfind(b"\n", 0, -1) + 1 :]


def hopeless(block: bytes, parser: LineParser, quotes: Quotes | None = None) -> str | None:
    """The fault of ``HOPELESS`` rows drawn from a block; None if one of them is good, or there are fewer.

    At most ``HOPELESS`` parses, and one if the first line is good.
    """
    rows = (row.text for row in _rows(block, quotes) if row.text.strip())
    first = next(rows, b"")
    broken = salvage(first, parser, quotes).bad
    if not broken:
        return None
    lines = [first, *rows]
    if len(lines) < HOPELESS:
        return None
    reasons = [broken[0][1]]
    # Drawn, not every n-th: where each 34th line is broken, a stride of 34 meets only those. The same in each run.
    for number in Random(0).sample(range(1, len(lines)), HOPELESS - 1):
        bad = salvage(lines[number], parser, quotes).bad
        if not bad:
            return None
        reasons.append(bad[0][1])
    return reasons[0]


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
    for _, why in _unfit(table, optional):
        raise ValueError(why)
    return table


def unfit(table: pa.Table, optional: Collection[str] = ()) -> dict[int, str]:
    """Why rows are not ``finite``, by their numbers."""
    import numpy as np

    found: dict[int, str] = {}
    for is_unfit, why in _unfit(table, optional):
        found = dict.fromkeys(np.flatnonzero(to_array(is_unfit)).tolist(), why) | found
    return found


def _unfit(table: pa.Table, optional: Collection[str]) -> Iterator[tuple[pa.ChunkedArray, str]]:
    """Which rows have a value that no event may have, and what is wrong with it: column by column, only those that have one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.null_count and name not in optional:
            yield pc.is_null(column), f"{name} is missing"
        if pa.types.is_floating(column.type):
            is_finite = pc.fill_null(pc.is_finite(column), scalar(True))
            if not pc.all(is_finite, min_count=0).as_py():
                yield pc.invert(is_finite), f"{name} is not a finite number"
