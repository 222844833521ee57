"""Recordings that a mapping reads: any files of CSV, JSON lines, Parquet or Arrow, each type from its own."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from middleware.model.errors import TraceError
from middleware.model.words import listed
from middleware.recordings.files.expressions import ColumnExpression, computed
from middleware.recordings.files.formats import batches, format_of, head, is_text, json_object, texts_of
from middleware.recordings.files.header import columns_in
from middleware.recordings.files.mapping import Mapping, load_mappings
from middleware.recordings.files.moments import unit_warnings
from middleware.recordings.files.normal import MappedConversion
from middleware.recordings.files.quotes import Quotes
from middleware.recordings.files.recording import Chunk, NumberingByTime, Recording, RecordingPart
from middleware.recordings.files.salvage.line_parsers import LineParser, ParserOfCsv, ParserOfLines
from middleware.recordings.files.text import Split, TextReader, existing, header_line, part_of, splits

if TYPE_CHECKING:
    pass


def mapped_recording(
    paths: Sequence[str | Path], mapping: str | Path | Sequence[Mapping], read: Container[str] | None = None
) -> Recording:
    """The events of the types that a mapping (or the file that holds it) names, from files of any format.

    ``read``: the types that somebody reads; files of the others are left alone. Raises TraceError for a file that cannot be
    read as its mapping says, or that has none.
    """
    mappings = load_mappings(mapping) if isinstance(mapping, str | Path) else list(mapping)
    mapping_name = Path(mapping).name if isinstance(mapping, str | Path) else "found"
    files = existing(paths)
    _check_alike(mappings)
    chunks: list[Chunk] = []
    tables: list[_Table] = []
    found: dict[str, None] = {}
    for file, one in _assigned(files, mappings, read):
        tables.append(table := _table(one, file))
        chunks += [(len(tables) - 1, piece) for piece in table.pieces(len(chunks))]
        times = [(time.column, time.unit) for time in (one.ts, one.arrival if not one.align else None) if time]
        found |= dict.fromkeys(unit_warnings([file], times, one.delimiter, mapping_name, one.topics))
    return Recording(
        reader=f"mapping {mapping_name}",
        origin=[str(file) for file in files],
        chunks=chunks,
        read=_Reader(tables),
        file_of=[str(tables[number].file) for number, _ in chunks],
        measured=mappings[0].arrival is not None,
        number=None if all(one.id for one in mappings) else NumberingByTime(),
        align=mappings[0].align,
        warnings=tuple(found),
    )


def _assigned(files: Sequence[Path], mappings: Sequence[Mapping], read: Container[str] | None) -> list[tuple[Path, Mapping]]:
    """Each file with the first mapping that is for it (MCAP: with all). Raises TraceError if a file or a mapping has none."""
    found = []
    for file in files:
        some = [mapping for mapping in mappings if mapping.matches(file)]
        if not some:
            patterns = listed(pattern for mapping in mappings for pattern in mapping.files)
            raise TraceError(f"{file}: no mapping is for it; they are for {patterns}")
        found += [(file, one) for one in (some if format_of(file) == "mcap" else some[:1])]
    if read is not None:
        mappings = [mapping for mapping in mappings if mapping.type in read]
        found = [(file, one) for file, one in found if one.type in read]
    if idle := [mapping for mapping in mappings if not any(mapping is one for _, one in found)]:
        raise TraceError(f"there is no file for {idle[0].type}: {listed(idle[0].files)}")
    return found


def _check_alike(mappings: Sequence[Mapping]) -> None:
    """Raise TraceError if mappings disagree on what they must have in common."""
    if len({(one.arrival is not None, one.align) for one in mappings}) > 1:
        raise TraceError("arrival and align: give them for all events of a recording alike, or for none")
    forms: dict[str, Mapping] = {}
    for one in mappings:
        other = forms.setdefault(one.type, one)
        kinds = [{name: (field.type, field.optional) for name, field in each.fields.items()} for each in (one, other)]
        if kinds[0] != kinds[1] or list(kinds[0]) != list(kinds[1]) or (one.id is None) != (other.id is None):
            raise TraceError(f"{one.type} is mapped twice, with other fields or ids: give it the same ones")


def parser_of(file: Path, mapping: Mapping) -> tuple[LineParser, Quotes | None]:
    """The parser of whole lines of a text file, and how rows go over lines (CSV).

    Raises TraceError if columns are missing.
    """
    table = _table(mapping, file)
    table.pieces(0)
    return table.parser(), table.quotes()


def _table(mapping: Mapping, file: Path) -> _Table:
    is_computed = any(field.expression for field in mapping.fields.values())
    return _Table(mapping, file, computed(mapping, head(file, mapping.delimiter, topics=mapping.topics)) if is_computed else {})


@dataclass(frozen=True)
class _Table:
    """A file and its mapping."""

    mapping: Mapping
    file: Path
    expressions: AnyMapping[str, ColumnExpression]

    def pieces(self, first: int) -> Sequence[Split]:
        """The pieces of the file; ``first``: the number of the first, by which rows of all files have an order."""
        self._check()
        if not is_text(self.file):
            return [Split(str(self.file), first, 0, None)]
        found = splits([self.file], header=format_of(self.file) == "csv", quotes=self.quotes())
        return [piece._replace(number=first + piece.number) for piece in found]

    def read(self, piece: Split) -> Iterator[RecordingPart]:
        """The events of a piece. A header is counted as a line."""
        if not is_text(self.file):
            yield from self._rows(piece.number)
            return
        if format_of(self.file) == "csv" and piece.start <= len(header_line(self.file)):
            yield RecordingPart({}, 1, [])
        yield from TextReader(self.mapping.type, self.parser(), quotes=self.quotes())(piece)

    def _check(self) -> None:
        """Raise TraceError if columns are missing."""
        kind = format_of(self.file)
        if kind == "csv":
            columns_in([self.file], self.mapping.delimiter, self.mapping.columns())
        elif kind != "jsonl":
            names = head(self.file, rows=1, topics=self.mapping.topics).column_names
            if missing := [name for name in self.mapping.columns() if name not in names]:
                raise TraceError(f"{self.file} has no column {', '.join(missing)}; it has {', '.join(names)}")

    def _columns_used(self) -> list[str]:
        used = (column for one in self.expressions.values() for column in one.columns)
        return list(dict.fromkeys((*self.mapping.columns(), *used)))

    def _conversion(self) -> MappedConversion:
        return MappedConversion(self.mapping, str(self.file), self.expressions)

    def parser(self) -> LineParser:
        """Parses whole lines of the file."""
        import pyarrow as pa

        columns, delimiter = self._columns_used(), self.mapping.delimiter
        if format_of(self.file) == "jsonl":
            return ParserOfLines(json_object, partial(texts_of, columns=columns), self._conversion())
        names = columns_in([self.file], delimiter, columns)
        texts = dict.fromkeys(columns, pa.string())
        return ParserOfCsv(names, texts, self._conversion(), delimiter, '"', over_lines=True)

    def quotes(self) -> Quotes | None:
        """How rows of the file go over lines; None if it is no CSV."""
        if format_of(self.file) != "csv":
            return None
        return Quotes(self.mapping.delimiter, len(columns_in([self.file], self.mapping.delimiter, self._columns_used())))

    def _rows(self, number: int) -> Iterator[RecordingPart]:
        """The rows of a file that is not text; one that does not fit is skipped, and reported by its number."""
        import pyarrow as pa

        rows = 0
        for batch in batches(self.file, self._columns_used(), self.mapping.topics):
            found = self._conversion().fitted(pa.Table.from_batches([batch]))
            yield part_of(found, self.mapping.type, (number << 40) + rows, batch.num_rows)
            rows += batch.num_rows


@dataclass(frozen=True)
class _Reader:
    """Reads a piece of one of several files."""

    tables: Sequence[_Table]

    def __call__(self, chunk: tuple[int, Split]) -> Iterator[RecordingPart]:
        number, piece = chunk
        return self.tables[number].read(piece)
