"""Rows of a block by halving: what does not fit is parsed again in two halves, until each broken row stands alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import groupby
from typing import Any

import pyarrow as pa

from middleware.recordings.files.quotes import Quotes
from middleware.recordings.files.salvage.line_parsers import LineParser

Rows = tuple[list[dict[str, Any]], list[tuple[int, str]]]
"""The rows that fit, and the numbers of the others with reasons."""


def halved_lines(block: bytes, parser: LineParser, quotes: Quotes | None = None) -> Rows:
    """The rows of whole lines, and the broken ones by the numbers of their first lines."""
    if quotes:
        rows = [(row.line, row.text, row.is_closed) for row in quotes.rows(block)]
    else:
        rows = [(number, line + b"\n", True) for number, line in enumerate(block.removesuffix(b"\n").split(b"\n"))]
    good: list[dict[str, Any]] = []
    bad: list[tuple[int, str]] = []

    def halve(some: list[tuple[int, bytes, bool]]) -> None:
        try:
            if not all(row[2] for row in some):
                raise ValueError("a quote that does not end")
            text = b"".join(row[1] for row in some)
            table, count = parser.whole(text)
            if len(some) > 1 and text.count(b"\r") != text.count(b"\r\n"):
                raise ValueError("a stray carriage return")
            if count != len(some) and (len(some) > 1 or text.strip()):
                raise ValueError(f"{count} rows in {len(some)} lines: a stray quote or line break")
        except ValueError as error:
            if len(some) == 1:
                first = str(error).strip().splitlines()[0]
                bad.append((some[0][0], re.sub(r"Row #\d+: ", "", first)[:200]))
                return
            halve(some[: len(some) // 2])
            halve(some[len(some) // 2 :])
        else:
            good.extend(table.to_pylist())

    for is_closed, run in groupby(rows, lambda row: row[2]):
        for some in [list(run)] if is_closed else [[row] for row in run]:
            halve(some)
    return good, bad


def halved_table(cells: pa.Table, convert: Callable[[pa.Table], pa.Table]) -> Rows:
    """The rows of a table."""
    good: list[dict[str, Any]] = []
    bad: list[tuple[int, str]] = []

    def halve(first: int, some: pa.Table) -> None:
        try:
            good.extend(convert(some).to_pylist())
        except ValueError as error:
            if some.num_rows == 1:
                bad.append((first, str(error).splitlines()[0][:200]))
                return
            middle = some.num_rows // 2
            halve(first, some.slice(0, middle))
            halve(first + middle, some.slice(middle))

    halve(0, cells)
    return good, bad
