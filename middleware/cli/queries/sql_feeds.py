"""Sources of tuples: files and hosts that statements name, the recording of a scenario, or a live mesh."""

from __future__ import annotations

import selectors
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from heapq import merge
from operator import itemgetter
from pathlib import Path
from typing import Protocol

from detectors.cql.catalog import CatalogStream
from detectors.cql.grammar import statements as s
from detectors.cql.line_reader import LineReader
from middleware.cli.output import STANDARD_OUTPUT, console
from middleware.cli.queries.inputs import FileInput
from middleware.cli.queries.query_feed import Repeats, batch_of
from middleware.model.change import Batch
from middleware.model.errors import NetworkError, TraceError
from middleware.model.event import END, NEVER, Event, EventTypes, type_name
from middleware.runtime.scenario import Scenario

_LINES = 1024
PATIENCE = 10.0
"""Seconds that a server, or a node, may take to answer."""

_PAUSE = 0.1
"""Seconds between two looks at what is shown while nothing comes."""


class TupleFeed(Protocol):
    """Batches as they arrive, empty ones now and then while nothing does; and what was not taken, by reason."""

    @property
    def types(self) -> frozenset[str]:
        """The names of the event types it brings."""

    def __iter__(self) -> Iterator[Batch]: ...

    def notes(self) -> list[str]:
        """Notes for readers of the results: tuples that were not taken, and why."""


class RawSources:
    """SOURCE FILE and SOURCE HOST. Files are read side by side in time: a tuple comes once the others have got as far."""

    def __init__(self, streams: list[CatalogStream], folder: Path) -> None:
        self._readers: list[tuple[LineReader, s.Host | s.File]] = []
        self._folder = folder
        for stream in streams:
            source = stream.source
            assert source is not None
            if isinstance(source, s.File):
                self._readers.append((LineReader(stream, source.path, source.delimiter, time.time_ns), source))
            else:
                self._readers.append((LineReader(stream, f"{source.host}:{source.port}", ",", time.time_ns), source))

    @property
    def types(self) -> frozenset[str]:
        return frozenset(_name(reader) for reader, _ in self._readers)

    def __iter__(self) -> Iterator[Batch]:
        left = Counter(_name(reader) for reader, _ in self._readers)

        def ends(reader: LineReader) -> Iterator[Batch]:
            left[_name(reader)] -= 1
            if not left[_name(reader)]:
                yield Batch({}, {_name(reader): END})

        with ExitStack() as stack:
            files = [
                _Ahead(reader, self._file(source, stack)) for reader, source in self._readers if isinstance(source, s.File)
            ]
            parts = [_in_time(files, ends)]
            for reader, source in self._readers:
                if isinstance(source, s.Host):
                    parts.append(_in_arrival_order(reader, _host(source, stack), ends))
            while parts:
                for part in list(parts):
                    batch = next(part, None)
                    if batch is None:
                        parts.remove(part)
                    else:
                        yield batch

    def _file(self, source: s.File, stack: ExitStack) -> Iterator[list[str]]:
        path = self._folder / source.path
        try:
            file = stack.enter_context(path.open(encoding="utf-8", errors="replace", newline=""))
        except OSError as error:
            raise TraceError(f"{path} cannot be read: {error.strerror}") from None
        while block := [line for _, line in zip(range(_LINES), file, strict=False)]:
            yield block

    def notes(self) -> list[str]:
        notes = []
        for reader, source in self._readers:
            for reason, count in reader.bad.items():
                name = source.path if isinstance(source, s.File) else f"{source.host}:{source.port}"
                notes.append(f"{name}: {count} lines not taken: {reason}")
            notes += reader.examples
        return notes


def _name(reader: LineReader) -> str:
    return type_name(reader.stream.event_type)


class _Ahead:
    """Tuples that were read ahead from a file, with the latest time up to each of them."""

    def __init__(self, reader: LineReader, lines: Iterator[list[str]]) -> None:
        self.reader, self._lines = reader, lines
        self.tuples: deque[tuple[int, Event]] = deque()
        self.has_more = True
        self._reached = NEVER

    def read(self) -> None:
        """Read on until there is a tuple, or no more."""
        while self.has_more and not self.tuples:
            block = next(self._lines, None)
            self.has_more = block is not None
            for event in self.reader.read(block) if block is not None else ():
                self._reached = max(self._reached, event.ts)
                self.tuples.append((self._reached, event))

    def take(self, until: int) -> list[tuple[int, Event]]:
        """The tuples up to this time."""
        taken = []
        while self.tuples and self.tuples[0][0] <= until:
            taken.append(self.tuples.popleft())
        return taken


def _in_time(files: list[_Ahead], ends: Callable[[LineReader], Iterator[Batch]]) -> Iterator[Batch]:
    """The tuples of files, each once all others have got as far in time. O(log files) each."""
    while files:
        for file in files:
            file.read()
        until = min((file.tuples[-1][0] for file in files if file.has_more), default=END)
        found = [event for _, event in merge(*(file.take(until) for file in files), key=itemgetter(0))]
        for at in range(0, len(found), _LINES):
            yield batch_of(found[at : at + _LINES])
        for file in files:
            if not file.has_more and not file.tuples:
                yield from ends(file.reader)
        files = [file for file in files if file.has_more or file.tuples]


def _in_arrival_order(
    reader: LineReader, blocks: Iterator[list[str]], ends: Callable[[LineReader], Iterator[Batch]]
) -> Iterator[Batch]:
    for block in blocks:
        events = reader.read(block)
        yield batch_of(events) if events else Batch()
    yield from ends(reader)


def _host(source: s.Host, stack: ExitStack) -> Iterator[list[str]]:
    """Lines from a TCP server, until it closes; empty lists while it is silent."""
    try:
        connection = stack.enter_context(closing(socket.create_connection((source.host, source.port), PATIENCE)))
    except OSError as error:
        raise NetworkError(f"cannot reach {source.host}:{source.port}: {error.strerror or error}") from None
    connection.setblocking(False)
    selector = stack.enter_context(closing(selectors.DefaultSelector()))
    selector.register(connection, selectors.EVENT_READ)
    rest = b""
    while True:
        if not selector.select(_PAUSE):
            yield []
            continue
        try:
            data = connection.recv(1 << 16)
        except OSError as error:
            raise NetworkError(f"lost {source.host}:{source.port}: {error.strerror or error}") from None
        if not data:
            if rest:
                yield [rest.decode(errors="replace")]
            return
        *lines, rest = (rest + data).split(b"\n")
        yield [line.decode(errors="replace") for line in lines]


class RecordingFeed:
    """The recording of a scenario, in the order of arrival, as fast as it can be taken.

    It is read from the scenario's trace, which is prepared unless it exists already (``slackline run`` and ``slackline query``
    use the same one). Raw types without events in the recording have ended. Raises SlacklineError if there is no recording, or
    it cannot be read.
    """

    def __init__(self, scenario: Scenario, types: EventTypes, batch: int = 256) -> None:
        self._scenario = scenario
        self._types = types
        self._size = batch
        self._repeats = Repeats()
        self._folder: Path | None = None

    def _trace(self) -> Path:
        from middleware.cli.runs.run import prepared

        if self._folder is None:
            self._folder = prepared(self._scenario, Path("out"), console(STANDARD_OUTPUT))  # reported on standard error
        return self._folder

    @property
    def _recorded(self) -> frozenset[str]:
        """The names of the types that the recording holds."""
        from middleware.recordings.traces import load_trace

        return frozenset(load_trace(self._trace()).types)

    @property
    def types(self) -> frozenset[str]:
        return self._recorded | (frozenset(self._scenario.types) - frozenset(self._scenario.derived))

    def __iter__(self) -> Iterator[Batch]:
        from middleware.recordings.traces import read_trace

        self._repeats = Repeats()
        yield from map(batch_of, self._repeats.without(read_trace(self._trace(), self._types), self._size))
        yield Batch({}, dict.fromkeys(self.types, END))

    def notes(self) -> list[str]:
        notes = self._repeats.notes()
        if empty := sorted(self.types - self._recorded):
            notes.append(f"the recording holds nothing of {', '.join(empty)}")
        return notes


class FileFeed:
    """Files of any format in order of arrival, or (``follow``) what is appended to them, without an end."""

    def __init__(self, files: FileInput, follow: bool = False, batch: int = 256) -> None:
        self._files, self._follow, self._size, self._repeats = files, follow, batch, Repeats()

    @property
    def types(self) -> frozenset[str]:
        return frozenset(self._files.types)

    def __iter__(self) -> Iterator[Batch]:
        self._repeats = Repeats()
        arrivals = self._files.follow() if self._follow else [self._files.events()]
        yield from map(batch_of, self._repeats.without(arrivals, self._size))
        yield Batch({}, dict.fromkeys(self.types, END))

    def notes(self) -> list[str]:
        return [*self._files.notes(), *self._repeats.notes(self._files.read)]
