"""Checks at the start that a log is as it was stored, by its own checksums and by the witness beside it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import structlog

from middleware.model.errors import StateError
from middleware.runtime.storage import checkpoints
from middleware.runtime.storage.chain import ChainedRecord, RecordPosition, seal, sound_end
from middleware.runtime.storage.witness import LogEnd, Witness

COLUMNS = "number, first, last, at, size, before, sum, data"

ADVICE = (
    "see that the disk is sound; if the file is damaged, move the folder away: the node begins anew, without what it knew, and "
    "readers get a gap. Put back no older copy of the folder: what that lacks is lost"
)

Lacks = Literal["", "end", "all"]
"""The missing part of a log: nothing; its end; or all, because it is another log than the last one here."""

_log = structlog.get_logger()


def chained_records(connection: sqlite3.Connection, which: str, bound: int) -> Iterator[ChainedRecord]:
    """The records as the file has them, in order."""
    rows = connection.execute(f"SELECT {COLUMNS} FROM log WHERE {which} ORDER BY number", (bound,))
    for *position, before, total, data in rows:
        found = RecordPosition(*position)
        whole = _joined([data])
        if isinstance(found.size, int) and found.size > len(whole):
            rest = connection.execute("SELECT data FROM log_rest WHERE number = ? ORDER BY part", (found.number,))
            whole = _joined([whole, *(part for (part,) in rest)])
        yield ChainedRecord(found, before, total, whole)


def _joined(parts: list[bytes]) -> bytes:
    """The data stored in parts; empty if damage has changed the type of a part."""
    return b"".join(parts) if all(isinstance(part, bytes) for part in parts) else b""


def identity(connection: sqlite3.Connection) -> int:
    """The checksum of the rows that say whose log this is."""
    rows = connection.execute("SELECT key, value FROM meta WHERE key = 'line'").fetchall()
    return seal(0, repr((rows, connection.execute("SELECT name FROM owner").fetchall())).encode())


def check_identity(connection: sqlite3.Connection, file: Path) -> None:
    """Raise StateError if these rows have changed."""
    found = connection.execute("SELECT value FROM meta WHERE key = 'identity'").fetchone()
    if found is not None and found[0] != identity(connection):
        raise StateError(f"{file} is damaged: what says whose log it is has changed; {ADVICE}")


class Examination:
    """Checks whether a log is complete, and logs what is wrong. Raises sqlite3.Error, OSError, StateError."""

    def __init__(self, file: Path, connection: sqlite3.Connection, witness: Witness, line: int) -> None:
        self._file, self._connection, self._witness, self._line = file, connection, witness, line

    def result(self, is_new: bool) -> tuple[Lacks, LogEnd]:
        """The missing part of the log, and the last record from which it can continue. Records after a hole are deleted.
        O(records after the checkpoint)."""
        checkpoint = self._total("SELECT max(number) FROM checkpoint")
        total = self._sum_of(checkpoint) if checkpoint else self._line
        behind = chained_records(self._connection, "number > ?", checkpoint)
        number, total, is_more = sound_end(behind, checkpoint, total)
        lacks: Lacks = "end" if is_more else ""
        seen = self._witness.seen
        if seen is None:
            if not is_new:
                what = "damaged" if self._witness.is_damaged else "gone"
                _log.warning(
                    f"the witness of the log is {what}: nothing shows whether the log lacks its end", file=str(self._file)
                )
        elif is_new:
            _log.error("the log was removed: this is a new beginning, and readers get a gap", file=str(self._file))
        elif seen.line != self._line or self._sum_of(seen.number) not in (None, seen.sum):
            lacks = "all"
        elif seen.number > number:
            lacks = "end"
        end = LogEnd(self._line, number, total if total is not None else self._line)
        if lacks:
            self._cut(number, lacks)
        else:
            self._witness.write(end)
        return lacks, end

    def _cut(self, number: int, lacks: Lacks) -> None:
        """End the log with record ``number``, though more was stored. The witness shows this until as many are stored."""
        seen, found = self._witness.seen, self._total("SELECT max(number) FROM log")
        had = max(seen.number if seen is not None else 0, found, number + 1)
        why = (
            "another log was here"
            if lacks == "all"
            else "a record is damaged or missing"
            if found > number
            else "it ends early"
        )
        details = {"why": why, "records": number, "had": had}
        _log.error(
            "the log is damaged, or an older copy: what it lacks is lost, readers get a gap", file=str(self._file), **details
        )
        if (state := self._connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise StateError(f"{self._file} is damaged: {state}; {ADVICE}")
        if checkpoints.is_damaged(self._connection):
            raise StateError(
                f"{self._file} is damaged, its checkpoint too: start the node with --rebuild to take its whole log again; if "
                "that does not reach back to its beginning, move the folder away: the node begins anew, without what it knew, "
                "and readers get a gap"
            )
        if lacks == "end" and (seen is None or seen.number <= number):
            self._witness.write(LogEnd(self._line, had, 0))
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute("DELETE FROM log WHERE number > ?", (number,))
        self._connection.execute("DELETE FROM log_rest WHERE number > ?", (number,))
        self._connection.execute("UPDATE meta SET value = (SELECT coalesce(sum(size), 0) FROM log) WHERE key = 'bytes'")
        self._connection.execute("COMMIT")

    def _total(self, query: str) -> int:
        return int(self._connection.execute(query).fetchone()[0] or 0)

    def _sum_of(self, number: int) -> int | None:
        """The checksum of a record; None if there is no such record, or it has none."""
        row = self._connection.execute("SELECT sum FROM log WHERE number = ?", (number,)).fetchone()
        return row[0] if row is not None else None
