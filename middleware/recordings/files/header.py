"""The header lines of CSV files: the order of columns."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from middleware.model.errors import TraceError
from middleware.recordings.files.text import header_line


def columns_in(files: Sequence[Path], delimiter: str, needed: Sequence[str]) -> list[str]:
    """The column names that all ``files`` share. Raises TraceError if they differ, or a needed column is missing."""
    found: list[str] = []
    for file in files:
        names = names_in(file, delimiter)
        missing = [name for name in needed if name not in names]
        if missing:
            raise TraceError(f"{file} has no column {', '.join(missing)}; its first line names {', '.join(names) or 'nothing'}")
        if len(set(names)) < len(names):
            raise TraceError(f"{file} has two columns of the same name: {', '.join(names)}")
        if found and names != found:
            raise TraceError(f"{file} has other columns than {files[0]}: prepare them one by one")
        found = names
    return found


def names_in(file: Path, delimiter: str) -> list[str]:
    """The cells of a file's first line. Raises TraceError if they cannot be read."""
    line = header_line(file)
    try:
        return next(csv.reader([line.decode("utf-8-sig").rstrip("\r\n")], delimiter=delimiter), [])
    except UnicodeDecodeError:
        raise TraceError(f"{file} does not start with a header line: its first line is no text") from None
    except csv.Error as error:
        why = str(error)
        if b"\r" in line.rstrip(b"\r\n"):
            why = "it holds a carriage return; if all lines end in one alone, let them end in a line feed: tr '\\r' '\\n'"
        raise TraceError(f"{file}: its first line cannot be read as CSV: {why}") from None
