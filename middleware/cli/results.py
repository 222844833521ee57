"""Final results as files: lines of JSON, CSV, Parquet, Arrow, SQLite, DuckDB or MCAP, by the end of the file's name."""

from __future__ import annotations

import csv
import io
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from middleware.cli.output import STANDARD_OUTPUT, check_output, results, write_file
from middleware.connect.tables.results import arrow_file, parquet_file, write_duckdb
from middleware.model.errors import SinkError
from middleware.model.event import IDENTITY, Event, Identity
from middleware.runtime.records import as_record
from middleware.runtime.sinks.sink import open_sink

KINDS = ".jsonl, .csv, .parquet, .arrow, .sqlite, .duckdb or .mcap"
"""The ends of files that results can be written to, in words."""

_SQLITE = (".sqlite", ".db")
_DATABASES = (*_SQLITE, ".duckdb")
_ENDLESS = (".jsonl", *_SQLITE)
"""The kinds that can be added to, event by event."""


def check_results(file: str) -> None:
    """Raise SlacklineError if results cannot be written to ``file``, by its end or its place. Touches nothing."""
    check_output(file)
    suffix = Path(file).suffix.lower()
    if file != STANDARD_OUTPUT and suffix not in _WRITERS and suffix not in _DATABASES:
        raise SinkError(f"{file}: results are not written as {suffix}: give a file that ends in {KINDS}")


def write_results(finals: Iterable[Event], file: str) -> None:
    """Write events in their order to ``file`` (``-``: standard output), in the form that the end of its name says.

    A name without an end, a pipe for instance, gets lines of JSON. The file is replaced, whole or not at all. Of several types,
    a table has the columns of all, and the type of each row. ``check_results`` was asked before. Raises SlacklineError if it
    cannot be written. O(events).
    """
    events = list(finals)
    suffix = Path(file).suffix.lower()
    if file == STANDARD_OUTPUT:
        out = results()
        out.write(_lines(events).decode())
        out.flush()
    elif suffix in _SQLITE:
        _replaced(file, events)
    elif suffix == ".duckdb":
        check_output(file)
        write_duckdb(events, Path(file))
    else:
        write_file(file, _WRITERS[suffix](events))


class FinalsFile:
    """A file that gets final results as they come. ``is_endless``: nothing says that these were all, so each is stored at once,
    unless the file has it from an earlier run.

    Raises SinkError for an endless run and a kind that is written whole. O(results that the file has) for an endless run.
    """

    def __init__(self, file: str, is_endless: bool) -> None:
        self._file, self._events = file, list[Event]()
        self._sink = None
        self._had: set[Identity] = set()
        if is_endless:
            if Path(file).suffix.lower() not in _ENDLESS:
                raise SinkError(f"{file} is written whole, at the end, and there is none: give one of {', '.join(_ENDLESS)}")
            self._sink = open_sink(file)
            self._had = _identities(file)

    def add(self, event: Event) -> None:
        """Take a final result. Raises SinkError."""
        if self._sink is None:
            self._events.append(event)
        elif IDENTITY(event) not in self._had:
            self._sink.take([event])

    def close(self) -> None:
        """Write what is to be written whole. Raises SlacklineError."""
        if self._sink is not None:
            self._sink.close()
        else:
            write_results(self._events, self._file)


def _identities(file: str) -> set[Identity]:
    """Those of the results that a sink has stored in a file."""
    if Path(file).suffix.lower() in _SQLITE:
        with closing(sqlite3.connect(file)) as connection:
            return set(connection.execute("SELECT source, id FROM finals"))
    with open(file, "rb") as lines:
        return {(record["source"], record["id"]) for record in map(msgspec.json.decode, lines)}


def _lines(events: Sequence[Event]) -> bytes:
    return b"".join(msgspec.json.encode(as_record(event)) + b"\n" for event in events)


def _csv(events: Sequence[Event]) -> bytes:
    records = [as_record(event) for event in events]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(dict.fromkeys(name for record in records for name in record)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue().encode()


def _replaced(file: str, events: Sequence[Event]) -> None:
    """A database in place of the one that is there."""
    check_output(file)
    for path in (Path(file), Path(f"{file}-wal"), Path(f"{file}-shm")):
        path.unlink(missing_ok=True)
    sink = open_sink(file)
    try:
        if events:
            sink.take(events)
    finally:
        sink.close()


def _mcap(events: Sequence[Event]) -> bytes:
    from middleware.connect.mcap_sink import mcap_file

    return mcap_file(events)


_WRITERS = {
    "": _lines,
    ".jsonl": _lines,
    ".ndjson": _lines,
    ".csv": _csv,
    ".parquet": parquet_file,
    ".arrow": arrow_file,
    ".feather": arrow_file,
    ".mcap": _mcap,
}
