"""Final results as files: lines of JSON, CSV, Parquet, Arrow, SQLite, DuckDB or MCAP, by the end of the file's name."""

from __future__ import annotations

import csv
import io
import os
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from middleware.cli.output import STANDARD_OUTPUT, check_output, results, write_file
from middleware.model.errors import SinkError
from middleware.model.event import IDENTITY, Event, Identity
from middleware.recordings.tables.result_tables import arrow_file, parquet_file, write_duckdb
from middleware.runtime.json_records import as_record, flat
from middleware.runtime.sinks.sink import open_sink

KINDS = ".jsonl, .csv, .parquet, .arrow, .sqlite, .duckdb or .mcap"
"""The ends of files that results can be written to, in words."""

_SQLITE = (".sqlite", ".db")
_DATABASES = (*_SQLITE, ".duckdb")
_ENDLESS = (".jsonl", *_SQLITE)
"""The kinds that can be added to, event by event."""


def check_results(file: str) -> None:
    """Raise SlacklineError if results cannot be written to ``file``, by its end or its folder. Touches nothing."""
    check_output(file)
    suffix = Path(file).suffix.lower()
    if file != STANDARD_OUTPUT and suffix not in _WRITERS and suffix not in _DATABASES:
        raise SinkError(f"{file}: results are not written as {suffix}: give a file that ends in {KINDS}")


def check_not_read(outputs: Iterable[str | None], inputs: Iterable[str | Path]) -> None:
    """Raise SinkError if a file that is to be written is one that is read, or two are the same."""
    taken = {Path(each).resolve(): "is read" for each in inputs}
    for file in outputs:
        if file is None or file == STANDARD_OUTPUT:
            continue
        path = Path(file).resolve()
        if path in taken and (path.is_file() or taken[path] != "is read"):  # pipes and devices are written again and again
            raise SinkError(f"{file} {taken[path]}: give another file for the results")
        taken[path] = "is written already"


def write_results(finals: Iterable[Event], file: str) -> None:
    """Write events in their order to ``file`` (``-``: standard output), in the form that the end of its name says.

    A name without an end, a pipe for instance, gets lines of JSON. The file is replaced, whole or not at all. A table of
    several types has the columns of all, and the type of each row. ``check_results`` was asked before. Raises SlacklineError if
    it cannot be written. O(events).
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
    unless the file has it from an earlier run. Other results are written when all of them are there, and ``is_whole`` is set.

    Raises SinkError for an endless run and a kind that is written whole. O(results that the file has) for an endless run.
    """

    def __init__(self, file: str, is_endless: bool) -> None:
        self._file, self._events = file, list[Event]()
        self._sink = None
        self._had: dict[Identity, int] = {}
        self._others: list[Event] = []
        self.is_whole = False
        if is_endless:
            if Path(file).suffix.lower() not in _ENDLESS:
                raise SinkError(f"{file} is written whole, at the end, and there is none: give one of {', '.join(_ENDLESS)}")
            self._sink = open_sink(file)
            self._had = _stored(file)

    def add(self, event: Event) -> None:
        """Take a final result. Raises SinkError."""
        if self._sink is None:
            self._events.append(event)
        elif (had := self._had.get(IDENTITY(event))) is None:
            self._sink.take([event])
        elif had != _content(msgspec.json.decode(msgspec.json.encode(as_record(event)))):
            self._others.append(event)

    def close(self) -> list[str]:
        """Write what is to be written whole; returns what there is to know of the file. Raises SlacklineError."""
        if self._sink is not None:
            self._sink.close()
        elif self.is_whole:
            write_results(self._events, self._file)
        else:
            return [f"{self._file} is left as it was: the run did not come to its end"]
        if not self._others:
            return []
        first, count = self._others[0], len(self._others)
        return [
            f"{count:,} result{'s' * (count > 1)} not stored: {self._file} has others under their identities, the first "
            f"({first.source}, {first.id}), from a run over other events or of another query: give each a file of its own"
        ]


def _stored(file: str) -> dict[Identity, int]:
    """The results that a sink has stored in a file, by identity. Raises SinkError for a line that is none."""
    if Path(file).suffix.lower() in _SQLITE:
        with closing(sqlite3.connect(file)) as connection:
            records = [msgspec.json.decode(record) for (record,) in connection.execute("SELECT record FROM finals")]
    else:
        with open(file, "rb") as lines:
            records = list(map(msgspec.json.decode, lines))
    try:
        return {(record["source"], record["id"]): _content(record) for record in records}
    except (KeyError, TypeError):
        raise SinkError(f"{file} has lines that are no results: give another file") from None


def _content(record: dict[str, Any]) -> int:
    """A number for a record as it is read, in whatever order its sets, which are lists there, are written."""
    return hash(msgspec.json.encode(_ordered(record), order="sorted"))


def _ordered(value: Any) -> Any:
    if isinstance(value, list):
        return sorted(map(_ordered, value), key=msgspec.json.encode)
    return {name: _ordered(each) for name, each in value.items()} if isinstance(value, dict) else value


def _lines(events: Sequence[Event]) -> bytes:
    return b"".join(msgspec.json.encode(as_record(event)) + b"\n" for event in events)


def _csv(events: Sequence[Event]) -> bytes:
    records = [{name: flat(value) for name, value in as_record(event).items()} for event in events]
    text = io.StringIO(newline="")
    names = list(dict.fromkeys(name for record in records for name in record)) or ["type", *Event.__struct_fields__]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue().encode()


def _replaced(file: str, events: Sequence[Event]) -> None:
    """A database that replaces the one that is there, once it is complete."""
    check_output(file)
    target = Path(file)
    part = target.with_name(f".{os.getpid()}.{target.name}")
    try:
        with closing(open_sink(str(part))) as sink:
            if events:
                sink.take(events)
        for rest in (f"{file}-wal", f"{file}-shm"):
            Path(rest).unlink(missing_ok=True)
        part.replace(target)
    finally:
        for path in (part, Path(f"{part}-wal"), Path(f"{part}-shm")):
            path.unlink(missing_ok=True)


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
