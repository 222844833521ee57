"""Disks that fail, as SQLite meets them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

Fault = Callable[[str], Exception | None]
"""What becomes of a statement: the error that it meets, or nothing."""


def disk_where(monkeypatch: pytest.MonkeyPatch, fault: Fault) -> None:
    """From now on the statements of all databases that are opened fail where ``fault`` says so."""

    class Disk(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            error = fault(sql)
            if error is not None:
                raise error
            return super().execute(sql, *values)

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **options: connect(*args, factory=Disk, **options))


def limited(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """No value in a database that is opened from now on is larger than so many bytes."""
    connect = sqlite3.connect

    def connected(*args: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*args, **options)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, size)
        return connection

    monkeypatch.setattr(sqlite3, "connect", connected)
