"""Lines of text as a source: a TCP server that sends them, or a file that grows. Neither can know what was stored.

So what was received and not acknowledged is kept here, and given again by the next attempt of the same process. After a restart
a file is read from its first line again, and the node knows what it has had; a server sends what it sends.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Protocol

import structlog
from msgspec.structs import astuple

from middleware.connect.messages.line_arrivals import LineArrivals
from middleware.connect.messages.message_blocks import Blocks, frames
from middleware.connect.messages.reading import UnreadableMessage
from middleware.connect.messages.source import Message, Messages
from middleware.model.errors import EventError, SourceError, UnreachableError
from middleware.model.event import NEVER, Event, EventType, type_name
from middleware.model.operator import LineSource

BLOCK = 1 << 16
"""Bytes that are read at once."""

LONGEST = 1 << 20
"""Bytes that a line may have."""

_PATIENCE = 5.0
"""Seconds that a server may take to accept a connection."""

_PAUSE = 0.05
"""Seconds between two looks at a file that has not grown."""

_QUIET = 2.0
"""Seconds after which the log reports a line that waits for its end."""

_log = structlog.get_logger()


class LineEvents:
    """The events of lines; a line that is no event is reported with the reason."""

    def __init__(self, plan: LineSource) -> None:
        self._event_type, self._type = plan.event_type, type_name(plan.event_type)
        self._parse = plan.parser()

    @property
    def types(self) -> list[EventType]:
        """The one type that lines may become."""
        return [self._event_type]

    def blocks(self, messages: Messages, reached: dict[str, int] | None = None) -> tuple[list[Blocks], list[UnreadableMessage]]:
        """See Reader and ``read``."""
        events, unread = self.read(messages)
        if reached is not None:
            for event in events:
                reached[event.source] = max(event.ts, reached.get(event.source, NEVER))
        return list(frames([self._event_type] * len(events), [astuple(event) for event in events])), unread

    def read(self, messages: Iterable[Message]) -> tuple[list[Event], list[UnreadableMessage]]:
        """The events in order, and the lines that are none. Blank lines and headers are neither. Raises TraceError."""
        events: list[Event] = []
        unread: list[UnreadableMessage] = []
        for message in messages:
            try:
                if message.handle is not None:
                    raise EventError(message.handle)
                event = self._parse(message.body.decode(), message.source, message.id, message.at)
            except (EventError, UnicodeDecodeError) as error:
                unread.append(UnreadableMessage(message, self._type, str(error)))
            else:
                if event is not None:
                    events.append(event)
        return events, unread


class _Text(Protocol):
    """Where bytes come from. Its methods raise UnreachableError, SourceError."""

    def open(self) -> None: ...

    def read(self, timeout: float) -> bytes:
        """The next bytes; none if none came within ``timeout`` seconds."""
        ...

    def has_ended(self) -> bool:
        """Whether nothing follows what was read last, not even the rest of a line."""
        ...

    def close(self) -> None: ...


class Lines:
    """See Source. One object for all attempts: it keeps what was not acknowledged. Lines are numbered by position, from 1.

    ``arrivals``: knows when each came.
    """

    def __init__(self, source: str, text: _Text, arrivals: LineArrivals) -> None:
        self._source, self._text, self._arrivals = source, text, arrivals
        self._number = 0
        self._rest = b""
        self._is_skipping = False
        """Whether the rest of a line that is too long is skipped."""
        self._unacknowledged: deque[Message] = deque()
        self._given = 0
        """How many of them this attempt gave."""
        self._quiet_since: float | None = None

    def opened(self) -> Lines:
        """Itself, connected; first it gives again what was not acknowledged."""
        self._given = 0
        self._text.open()
        return self

    def receive(self, timeout: float) -> Messages:
        """See Source."""
        if self._given == len(self._unacknowledged):
            block = self._text.read(timeout)
            self._unacknowledged.extend(self._split(block))
            self._report_rest(block)
        found = Messages.of(islice(self._unacknowledged, self._given, None))
        self._given = len(self._unacknowledged)
        return found

    def _split(self, block: bytes) -> list[Message]:
        """The whole lines so far. Raises UnreachableError: then the block waits for the next attempt."""
        *whole, rest = (self._rest + block).split(b"\n")
        lines: list[tuple[bytes, str | None]] = [(line, None) for line in whole]
        is_skipping, has_ended = self._is_skipping, self._text.has_ended()
        if is_skipping and lines:
            is_skipping = False
            del lines[0]
        if is_skipping:
            rest = b""
        elif len(rest) > LONGEST:
            lines.append((rest[:LONGEST], f"the line has more than {LONGEST:,} bytes"))
            rest, is_skipping = b"", True
        elif rest and has_ended:
            lines.append((rest, "the connection ended in the middle of this line"))
            rest = b""
        first = self._number + 1
        try:
            times = self._arrivals.times(first, len(lines))
        except UnreachableError:
            self._rest += block
            raise
        self._rest, self._is_skipping, self._number = rest, is_skipping and not has_ended, self._number + len(lines)
        numbered = enumerate(zip(lines, times, strict=True), first)
        return [Message("", line, self._source, number, at, why) for number, ((line, why), at) in numbered]

    def _report_rest(self, block: bytes) -> None:
        """Log once that a line waits for its end."""
        if block or not self._rest:
            self._quiet_since = time.monotonic() if block else None
        elif self._quiet_since is not None and time.monotonic() - self._quiet_since > _QUIET:
            self._quiet_since = None
            _log.warning("the last line has no end yet: it waits for one", source=self._source, line=self._number + 1)

    def acknowledge(self, messages: Messages) -> None:
        """See Source; they are the oldest of those received."""
        for _ in messages:
            self._unacknowledged.popleft()
        self._given -= len(messages)

    def close(self) -> None:
        """See Source."""
        self._text.close()


class _Host:
    """A TCP server."""

    def __init__(self, host: str, port: int) -> None:
        self._address = host, port
        self._connection: socket.socket | None = None
        self._is_over = False

    def open(self) -> None:
        host, port = self._address
        try:
            self._connection = socket.create_connection(self._address, _PATIENCE)
        except OSError as error:
            raise UnreachableError(f"cannot reach {host}:{port}: {error.strerror or error}") from None
        self._connection.setblocking(False)
        self._is_over = False

    def read(self, timeout: float) -> bytes:
        host, port = self._address
        assert self._connection is not None
        if self._is_over:
            raise UnreachableError(f"{host}:{port} has closed the connection")
        if not select.select([self._connection], [], [], timeout)[0]:
            return b""
        try:
            block = self._connection.recv(BLOCK)
        except BlockingIOError:
            return b""
        except OSError:
            block = b""
        self._is_over = not block
        return block

    def has_ended(self) -> bool:
        return self._is_over

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


class _File:
    """A file that others append to. Its lines are known by their numbers, so it must stay the one that it was."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self._inode: int | None = None
        self._file: int | None = None

    def open(self) -> None:
        try:
            self._file = os.open(self._path, os.O_RDONLY)
        except OSError as error:
            raise UnreachableError(f"{self._path} cannot be read: {error.strerror}") from None

    def read(self, timeout: float) -> bytes:
        assert self._file is not None
        deadline = time.monotonic() + timeout
        while True:
            self._check(self._file)
            try:
                block = os.pread(self._file, BLOCK, self._at)
            except OSError as error:
                raise UnreachableError(f"{self._path} cannot be read: {error.strerror}") from None
            if block or time.monotonic() >= deadline:
                self._at += len(block)
                return block
            time.sleep(_PAUSE)

    def _check(self, file: int) -> None:
        try:
            found, named = os.fstat(file), self._path.stat()
        except OSError as error:
            raise UnreachableError(f"{self._path} cannot be read: {error.strerror}") from None
        self._inode = found.st_ino if self._inode is None else self._inode
        if named.st_ino != self._inode or found.st_size < self._at:
            raise SourceError(
                f"{self._path} was replaced or cut short: its lines are known by their numbers; let it grow, or read a new "
                "file as another stream"
            )

    def has_ended(self) -> bool:
        return False

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def opener(plan: LineSource, state: Path | None = None) -> Callable[[], Lines]:
    """The connector to the lines of a plan, called as often as it is needed. Raises SourceError.

    Lines of a file keep their numbers, so their source is the same in every process; and, where events depend on it, the times
    at which they came, in the folder ``state``. Lines of a server are numbered anew by each process, under a source that names
    the moment at which it began.
    """
    if isinstance(plan.place, tuple):
        return Lines(f"{plan.source}@{time.time_ns()}", _Host(*plan.place), LineArrivals()).opened
    try:
        arrivals = LineArrivals(state / "arrivals" if plan.by_arrival and state is not None else None)
    except OSError as error:
        raise SourceError(f"when lines of {plan.place} came cannot be kept: {error}") from None
    return Lines(plan.source, _File(plan.place), arrivals).opened
