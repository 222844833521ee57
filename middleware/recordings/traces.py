"""Traces: recordings as Parquet in arrival order, one folder per event type, described by ``trace.json``. No Spark needed.

A trace is a folder: ``type=<name>/part-00000.parquet`` and so on. The files of a type are in arrival order, each sorted
by arrival, with the columns arrival, ts (int64, ns), id (int64), source (string) and one column for each field of the
event type, in the type's order. ``trace.json`` is written last: a folder without it is not a trace.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from middleware.model.block.arrays import sound
from middleware.model.block.rows import values
from middleware.model.errors import TraceError
from middleware.model.event import Event, EventType, EventTypes, field_names
from middleware.recordings.files.recording import check_type_name
from middleware.recordings.files.tally import BadLines

if TYPE_CHECKING:
    import pyarrow as pa

DESCRIPTION = "trace.json"
UNITS = {"arrival": "ns", "ts": "ns", "distance": "m", "speed": "m/s", "acceleration": "m/s2"}


class TypeTrace(msgspec.Struct):
    """The contents of a trace for one event type. Late: ts below the running maximum in arrival order.

    ``fields``
        Arrow type by field name, in the order of the event type.
    ``duplicates``
        events whose (source, id) came before; None if there are too many events to count them. ``clashes``: those of them with
        another content.
    ``sources``
        events by source.
    """

    fields: dict[str, str]
    events: int
    duplicates: int | None
    first_ts: int
    last_ts: int
    first_arrival: int
    last_arrival: int
    late: int
    max_lateness: int
    sources: dict[str, int]
    clashes: int | None = None


class Trace(msgspec.Struct):
    """The description of a trace: the contents of ``trace.json``.

    ``delays``
        the model from which arrival times were drawn, as text, and ``seed``; None if they were measured.
    ``clock_offset``
        nanoseconds added to measured arrival times, because source and receiver count from different moments.
    ``bad_lines``, ``lost_cells``
        lines of the recording that were skipped; cells that could not be read, of fields that may be missing.
    ``warnings``
        what is likely to be wrong with the recording, or with how it was read.
    """

    reader: str
    origin: list[str]
    types: dict[str, TypeTrace]
    delays: str | None = None
    seed: int | None = None
    clock_offset: int = 0
    bad_lines: BadLines = msgspec.field(default_factory=BadLines)
    lost_cells: BadLines = msgspec.field(default_factory=BadLines)
    units: dict[str, str] = msgspec.field(default_factory=UNITS.copy)
    warnings: list[str] = msgspec.field(default_factory=list, name="doubts")
    version: int = 1

    @property
    def events(self) -> int:
        return sum(t.events for t in self.types.values())

    @property
    def first_arrival(self) -> int:
        return min(t.first_arrival for t in self.types.values())

    @property
    def last_arrival(self) -> int:
        return max(t.last_arrival for t in self.types.values())

    def sources(self) -> dict[str, int]:
        """Events by source, over all types."""
        totals: dict[str, int] = {}
        for one in self.types.values():
            for source, count in one.sources.items():
                totals[source] = totals.get(source, 0) + count
        return totals


def type_folder(path: Path, name: str) -> Path:
    """The folder where a trace keeps the events of one type."""
    return path / f"type={name}"


def load_trace(path: str | Path) -> Trace:
    """The description of the trace at ``path``. Raises TraceError if there is none, or if files are missing."""
    folder = Path(path)
    description = folder / DESCRIPTION
    try:
        trace = msgspec.json.decode(description.read_bytes(), type=Trace)
    except FileNotFoundError:
        here = "there is no such folder" if not folder.exists() else f"it has no {DESCRIPTION}, which a finished trace has"
        raise TraceError(f"{folder} is no trace: {here}; make one with 'slackline trace prepare'") from None
    except NotADirectoryError:
        raise TraceError(f"{folder} is no trace: it is a file; make a trace of it with 'slackline trace prepare'") from None
    except (msgspec.MsgspecError, OSError) as error:
        raise TraceError(f"{description} cannot be read: {error}; prepare the trace again") from None
    if trace.version != 1 or not trace.types:
        raise TraceError(f"{description}: version {trace.version} with {len(trace.types)} types; prepare the trace again")
    for name in trace.types:
        if not files(folder, check_type_name(name)):
            raise TraceError(f"{folder} lacks the events of {name} ({type_folder(folder, name)}); prepare the trace again")
    return trace


def files(path: Path, name: str) -> list[Path]:
    """The Parquet files of one type, in arrival order."""
    return sorted(type_folder(path, name).glob("part-*.parquet"))


def gaps(path: Path, name: str) -> set[str]:
    """The columns of one type that have nulls, or may have, by what its files say of themselves. O(files)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    found = set()
    for file in files(path, name):
        try:
            metadata = pq.read_metadata(file)
        except (pa.ArrowException, OSError) as error:
            raise TraceError(f"{file} cannot be read: {error}; prepare the trace again") from None
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            for column in map(group.column, range(group.num_columns)):
                statistics = column.statistics
                if statistics is None or not statistics.has_null_count or statistics.null_count:
                    found.add(column.path_in_schema)
    return found


def columns(path: Path, trace: Trace, name: str, names: Sequence[str], rows: int = 65_536) -> Iterator[pa.RecordBatch]:
    """Record batches of the ``names`` columns of one type, in arrival order. ``source`` is dictionary-encoded."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    read = 0
    for file in files(path, name):
        try:
            with pq.ParquetFile(file, read_dictionary=["source"]) as parquet:
                read += parquet.metadata.num_rows
                for batch in parquet.iter_batches(batch_size=rows, columns=list(names), use_threads=False):
                    yield sound(batch.select(list(names)))
        except (pa.ArrowException, OSError, KeyError, ValueError) as error:
            raise TraceError(f"{file} cannot be read: {error}; prepare the trace again") from None
    if read != trace.types[name].events:
        raise TraceError(
            f"{path}: {read} events of {name} where {DESCRIPTION} says {trace.types[name].events}; prepare it again"
        )


def wire_columns(trace: Trace, name: str) -> list[str]:
    """The columns of an event on the wire, in that order: fields, ts, id, source."""
    return [*trace.types[name].fields, "ts", "id", "source"]


def read_trace(path: str | Path, types: EventTypes) -> Iterator[list[Event]]:
    """The events of a trace in arrival order, all types merged, in lists of up to 65,536 per type.

    Raises TraceError if the trace does not fit the event types: every type in it must be among ``types``.
    """
    return (events for _, events in read_arrivals(path, types))


def read_arrivals(path: str | Path, types: EventTypes) -> Iterator[tuple[list[int], list[Event]]]:
    """Read the events in lists, each with the times (ns) at which its events arrived."""
    folder = Path(path)
    trace = load_trace(folder)
    for name, one in trace.types.items():
        if name not in types:
            raise TraceError(f"{folder} holds {name}, which is none of the known event types: {', '.join(types) or 'none'}")
        check_fields(folder, name, one.fields, types[name])
    streams = [_Stream(folder, trace, name, types[name]) for name in trace.types]
    if len(streams) == 1:
        while streams[0].fill():
            yield streams[0].take(None)
        return
    yield from _merged(streams)


def check_fields(where: str | Path, name: str, found: Iterable[str], event_type: EventType) -> None:
    """Raise TraceError unless ``found`` are the fields of the class, in its order."""
    declared, found = field_names(event_type), tuple(found)
    if declared != found:
        has, wants = (", ".join(some) or "none" for some in (found, declared))
        raise TraceError(f"{where}: {name} has the fields {has}, but its class has {wants}")


def named_misfit(error: msgspec.ValidationError, trace: Trace, name: str) -> str:
    """The error of rows, in a list, with the name of the field, of which msgspec knows only the number."""
    found = re.fullmatch(r"(.*) - at `\$\[\d+\]\[(\d+)\].*", str(error))
    return f"{wire_columns(trace, name)[int(found[2])]}: {found[1]}" if found else str(error)


class _Stream:
    """One type's events, decoded one batch ahead."""

    def __init__(self, folder: Path, trace: Trace, name: str, event_type: EventType) -> None:
        self._trace, self._name = trace, name
        self._type = event_type
        self._batches = columns(folder, trace, name, ["arrival", *wire_columns(trace, name)])
        self._arrivals: list[int] = []
        self._events: list[Event] = []

    def fill(self) -> bool:
        """Load events; returns False at the end of the stream."""
        if not self._arrivals:
            batch = next(self._batches, None)
            if batch is None:
                return False
            arrival, *rest = map(values, batch.columns)
            self._arrivals = cast(list[int], arrival)
            try:
                self._events = msgspec.convert(list(zip(*rest, strict=True)), list[self._type])  # type: ignore[name-defined]
            except msgspec.ValidationError as error:
                why = named_misfit(error, self._trace, self._name)
                raise TraceError(f"an event of {self._name} does not fit its class: {why}") from None
        return True

    @property
    def bound(self) -> int:
        return self._arrivals[-1]

    def take(self, bound: int | None) -> tuple[list[int], list[Event]]:
        """All loaded events that arrived up to ``bound``."""
        from bisect import bisect_right

        end = len(self._arrivals) if bound is None else bisect_right(self._arrivals, bound)
        taken = self._arrivals[:end], self._events[:end]
        self._arrivals, self._events = self._arrivals[end:], self._events[end:]
        return taken


def _merged(streams: list[_Stream]) -> Iterator[tuple[list[int], list[Event]]]:
    """Merge: up to the earliest end of the loaded batches, all events are known: one stable sort of these, and so on."""
    while streams := [stream for stream in streams if stream.fill()]:
        bound = min(stream.bound for stream in streams)
        arrivals: list[int] = []
        events: list[Event] = []
        for stream in streams:
            some_arrivals, some = stream.take(bound)
            arrivals += some_arrivals
            events += some
        order = sorted(range(len(arrivals)), key=arrivals.__getitem__)
        yield sorted(arrivals), [events[position] for position in order]
