"""A connection to PostgreSQL: how it is made, and whether another attempt may help if it fails."""

from __future__ import annotations

import time
from typing import Any

import psycopg
from psycopg import errors

from middleware.model.errors import SlacklineError, UnreachableError
from middleware.model.words import redacted

CONNECTING: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""How a connection is made, and known to be lost."""

_ENDING, _PAUSE = 1.0, 0.05
"""Seconds that a server may take to notice that a connection has been closed, and between two looks."""

_HOPELESS = (
    "password authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "does not exist",
    "not permitted",
    "connection is bad: invalid",  # a part of the address, such as its port
    "Servname not supported",  # a port that is no number
    "server does not support SSL",
    "certificate verify failed",
    "does not match host name",
)


def refused(error: psycopg.Error, who: str, hopeless: type[SlacklineError], address: str) -> SlacklineError:
    """Why ``who`` has no connection, by whether another attempt may help; libpq has no code then, only text."""
    text = redacted(f"PostgreSQL: {str(error).strip()}", address)
    if any(sign in text for sign in _HOPELESS):
        return hopeless(f"{text}; mend the address of {who}, PGPASSWORD or ~/.pgpass, or what the server allows")
    return UnreachableError(text)


def judged(error: psycopg.Error, hopeless: type[SlacklineError]) -> SlacklineError:
    """Whether another attempt may help: the connection is lost, or the server is out of something, or shuts down. Its limits
    (class 54) stay.
    """
    text = f"PostgreSQL: {str(error).strip() or type(error).__name__}"
    passes = isinstance(error, psycopg.OperationalError | errors.ObjectInUse) and (error.sqlstate or "")[:2] != "54"
    return UnreachableError(text) if passes else hopeless(text)


def is_alone(connection: psycopg.Connection[Any], lock: str, value: object) -> bool:
    """Whether this connection has an advisory lock now. One that has just been closed may hold it for a moment still.

    ``lock``: the SQL of its number, from ``value``.
    """
    take = f"SELECT pg_try_advisory_lock({lock})".encode()
    deadline = time.monotonic() + _ENDING
    while connection.execute(take, (value,)).fetchone() != (True,):
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE)
    return True
