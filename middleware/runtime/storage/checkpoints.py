"""Checkpoints in the file of a store: pieces in rows, stored as they come; a checkpoint counts once its last piece is there.

The checkpoint it replaces is deleted a few rows at a time: no transaction is long, so no record waits for one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter

from middleware.durability.checkpoint import Piece, bodies
from middleware.model.errors import StateError

SCHEMA = """
CREATE TABLE IF NOT EXISTS checkpoint (number INTEGER PRIMARY KEY, at INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS piece (id INTEGER PRIMARY KEY, number INTEGER NOT NULL, part INTEGER NOT NULL, data BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS piece_number ON piece (number);
"""

ROW = 512 * 2**10
"""The most bytes in one row: SQLite takes up to 10^9, and a record or a piece may have more."""

_DELETED_ROWS = 16
"""Rows deleted in one transaction."""


class Pieces:
    """Stores and deletes pieces, for a store's writer, within its transactions. ``stale``: there may be rows to delete."""

    def __init__(self) -> None:
        self.stale = True  # a former life may have left some

    def keep(self, connection: sqlite3.Connection, pieces: Iterable[Piece], now: int) -> bool:
        """Store pieces in order; returns whether they complete a checkpoint."""
        is_complete = False
        for piece in pieces:
            if piece.part == 0:  # a former life, whose last records were damaged, may have begun one of the same number
                connection.execute("DELETE FROM piece WHERE number >= ?", (piece.number,))
            rows = [(piece.number, piece.part, row) for row in rows_of(piece.data)]
            connection.executemany("INSERT INTO piece (number, part, data) VALUES (?, ?, ?)", rows)
            if piece.is_last:
                connection.execute("DELETE FROM checkpoint")
                connection.execute("INSERT INTO checkpoint VALUES (?, ?)", (piece.number, now))
                self.stale = is_complete = True
        return is_complete

    def forget_some(self, connection: sqlite3.Connection) -> None:
        """Delete a few rows from before the checkpoint that counts."""
        if self.stale:
            old = "SELECT id FROM piece WHERE number < (SELECT max(number) FROM checkpoint) LIMIT ?"
            self.stale = (
                connection.execute(f"DELETE FROM piece WHERE id IN ({old})", (_DELETED_ROWS,)).rowcount == _DELETED_ROWS
            )


def last(connection: sqlite3.Connection) -> Iterator[bytes] | None:
    """The pieces of the last complete checkpoint, in order, read on demand."""
    (number,) = connection.execute("SELECT max(number) FROM checkpoint").fetchone()
    if number is None:
        return None
    rows = connection.execute("SELECT part, data FROM piece WHERE number = ? ORDER BY id", (number,))
    return joined(iter(rows.fetchone, None))


def is_damaged(connection: sqlite3.Connection) -> bool:
    """Whether there is a checkpoint that is not as it was written. O(its size)."""
    pieces = last(connection)
    try:
        return pieces is not None and not all(True for _ in bodies(pieces))
    except StateError:
        return True


def joined(rows: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
    """The pieces stored in rows of (part, data), in order."""
    for _, group in groupby(rows, itemgetter(0)):
        yield b"".join(data for _, data in group)


def rows_of(data: bytes) -> list[memoryview]:
    """The data cut into rows; at least one."""
    view = memoryview(data)
    return [view[start : start + ROW] for start in range(0, len(data) or 1, ROW)]
