"""Results as MCAP, the format of robotics recordings: Foxglove and others play them back on one line of time.

Each event type is a channel, each event a message of JSON with its schema. MCAP ends with an index, so a file of it cannot be
added to: what is taken is stored as lines of JSON beside it (``out.mcap.jsonl``), and the file is made of them when the sink
closes. The lines stay: they are what an interrupted run is taken up from.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from io import BytesIO
from pathlib import Path
from typing import IO

import msgspec
from mcap.writer import Writer

from middleware.link.codec import SinkPosition
from middleware.model.errors import SinkError
from middleware.model.event import Event, type_name
from middleware.recordings.schemas.convert import json_schema
from middleware.runtime.json_records import as_record
from middleware.runtime.sinks.sink import FileSink

Schemas = dict[str, bytes]
"""JSON Schemas by event type."""


class _Stamp(msgspec.Struct):
    """The fields by which a message is filed."""

    type: str
    ts: int


_stamp = msgspec.json.Decoder(_Stamp).decode


class McapSink:
    """Finals as MCAP, exactly once, whatever is killed and when; ``to``: FILE.mcap, which has one position (``name`` is not
    used).

    Log time and publish time are both the time of occurrence (ns), which cannot be below 0 there. Closing costs O(all events),
    those of earlier runs included; of types that only these had, the schema says no more than that they are objects.
    """

    def __init__(self, to: str, *, name: str = "finals") -> None:
        self._path = Path(to.removeprefix("mcap://"))
        self._lines = self._path.with_name(f"{self._path.name}.jsonl")
        if self._path.exists() and not self._lines.exists():
            raise SinkError(
                f"{self._path} exists, but not {self._lines.name}, of which it would be made anew: use another name"
            )
        self._schemas: Schemas = {}
        self._sink = FileSink(self._lines)
        self.position: SinkPosition | None = self._sink.position

    def take(self, events: Sequence[Event]) -> None:
        """See middleware.runtime.sinks.sink.Sink. The lines are safe on return; the file appears on close."""
        _check_times(events)
        self._sink.take(events)
        self._schemas |= _schemas_of(events)
        self.position = self._sink.position

    def close(self) -> None:
        """Make the file, of all that was taken; it appears whole or not at all. Raises SinkError if it cannot be written."""
        part = self._path.with_name(f".{self._path.name}.part")  # nobody else writes it: the lines are locked
        try:
            with self._lines.open("rb") as lines, part.open("wb") as out:
                _write(out, lines, self._schemas)
                out.flush()
                os.fsync(out.fileno())
            part.replace(self._path)
        except OSError as error:
            raise SinkError(f"{self._path} cannot be written: {error.strerror}; the results are in {self._lines}") from None
        finally:
            part.unlink(missing_ok=True)
            self._sink.close()


def mcap_file(events: Sequence[Event]) -> bytes:
    """The bytes of an MCAP file of events in total order. Raises SinkError if one lies before time 0."""
    _check_times(events)
    out = BytesIO()
    _write(out, (msgspec.json.encode(as_record(event)) for event in events), _schemas_of(events))
    return out.getvalue()


def _write(out: IO[bytes], records: Iterable[bytes], schemas: Schemas) -> None:
    """An MCAP file of records as JSON, one channel a type."""
    writer = Writer(out)
    writer.start(library="slackline")
    channels: dict[str, int] = {}
    for number, record in enumerate(records):
        stamp = _stamp(record)
        if stamp.type not in channels:
            schema = writer.register_schema(stamp.type, "jsonschema", schemas.get(stamp.type, b'{"type":"object"}'))
            channels[stamp.type] = writer.register_channel(stamp.type, "json", schema)
        writer.add_message(channels[stamp.type], stamp.ts, record.rstrip(b"\n"), stamp.ts, number & 0xFFFFFFFF)
    writer.finish()  # type: ignore[no-untyped-call]


def _schemas_of(events: Iterable[Event]) -> Schemas:
    return {type_name(kind): msgspec.json.encode(json_schema(kind)) for kind in {event.__class__ for event in events}}


def _check_times(events: Iterable[Event]) -> None:
    if early := next((event for event in events if event.ts < 0), None):
        raise SinkError(f"{type_name(early.__class__)} at ts {early.ts}: MCAP has no times before 0; shift them in the mapping")
