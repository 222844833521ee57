"""The header lines of CSV files: the order of columns."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from middleware.connect.files.text import header_line
from middleware.model.errors import TraceError


def columns_in(files: Sequence[Path], delimiter: str, needed: Sequence[str]) -> list[str]:
    """The column names that all ``files`` share. Raises TraceError if they differ, or a needed column is missing."""
    found: list[str] = []
    for file in files:
        try:
            line = header_line(file).decode("utf-8-sig").rstrip("\r\n")
        except UnicodeDecodeError:
            raise TraceError(f"{file} does not start with a header line: its first line is no text") from None
        names = next(csv.reader([line], delimiter=delimiter), [])
        missing = [name for name in needed if name not in names]
        if missing:
            raise TraceError(f"{file} has no column {', '.join(missing)}; its first line names {', '.join(names) or 'nothing'}")
        if len(set(names)) < len(names):
            raise TraceError(f"{file} has two columns of the same name: {', '.join(names)}")
        if found and names != found:
            raise TraceError(f"{file} has other columns than {files[0]}: prepare them one by one")
        found = names
    return found
