"""The write-ahead file of a log is folded beside the writer, and stays bounded however the threads are scheduled."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from middleware.runtime.storage.folding import Folding, fold


def opener(file: Path) -> Callable[[], sqlite3.Connection]:
    def opened() -> sqlite3.Connection:
        connection = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        return connection

    return opened


def write(connection: sqlite3.Connection, number: int) -> None:
    connection.execute("INSERT INTO log VALUES (?, ?)", (number, bytes(1_000)))


@pytest.mark.parametrize("works", [True, False])
def test_the_file_stays_bounded_whether_the_thread_gets_a_turn_or_not(tmp_path: Path, works: bool) -> None:
    connect = opener(tmp_path / "log")

    def refused() -> sqlite3.Connection:
        raise sqlite3.OperationalError("the thread cannot even open it")

    with closing(connect()) as connection, closing(Folding(connect if works else refused, 100_000, 500_000)) as work:
        connection.execute("CREATE TABLE log (number INTEGER PRIMARY KEY, data BLOB)")
        for number in range(3_000):
            write(connection, number)
            work.written(connection, 1_000)
        assert (tmp_path / "log-wal").stat().st_size < 4_000_000
        assert connection.execute("SELECT count(*) FROM log").fetchone() == (3_000,)
    assert not (tmp_path / "log-wal").exists()


def test_what_is_read_meanwhile_is_left(tmp_path: Path) -> None:
    connect = opener(tmp_path / "log")
    with closing(connect()) as connection, closing(connect()) as reader:
        connection.execute("CREATE TABLE log (number INTEGER PRIMARY KEY, data BLOB)")
        write(connection, 1)
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM log").fetchone() == (1,)
        write(connection, 2)
        assert fold(connection)[1] > 0
        reader.execute("COMMIT")
        assert fold(connection)[1] == 0
