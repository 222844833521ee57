"""How a message becomes an event: JSON, whose fields are the event's by name or by a path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec.structs import astuple

from middleware.connect.blocks import TS_PLACE, Blocks, Row, frames
from middleware.connect.forms import NOT_READ, ReadMessage, fast
from middleware.connect.source import Message, matches
from middleware.link.codec import LARGEST_BLOCK, encode
from middleware.model.errors import EventError, ScenarioError
from middleware.model.event import NEVER, Event, EventType, EventTypes, type_name
from middleware.model.quantities import nanoseconds_of
from middleware.model.time import SECOND
from middleware.runtime.records import event_of, own_fields, sendable

READY = {
    "omlox": {
        "ts": "timestamp_generated",
        "x": "position.coordinates.0",
        "y": "position.coordinates.1",
        "z": "position.coordinates.2",
        "tag": "provider_id",
        "zone": "source",
        "trackable": "trackables.0",
    }
}
"""Mappings of well-known formats, by name. ``omlox``: locations as hubs for real-time location publish them (OMLOX API)."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ABSENT = object()
_MOST_TOPICS = 4_096
_IDENTITY = ("id", "source")


class Unread(NamedTuple):
    """A message that is no event, the name of the type it should have been, and why it is none."""

    message: Message
    type: str
    reason: str


class Reader(Protocol):
    """Makes events of messages."""

    @property
    def types(self) -> list[EventType]:
        """The types that messages may become."""
        ...

    def blocks(self, messages: Sequence[Message], reached: dict[str, int] | None = None) -> tuple[list[Blocks], list[Unread]]:
        """The events in order, as blocks, and the messages that are none. ``reached``: gets the latest time of each source."""
        ...


class MessageReader:
    """Makes events of messages.

    ``types``
        the event type (its name) for each pattern of topics; the first that fits counts.
    ``known``
        the types by name.
    ``fields``
        where a field of the event is found, as a path: keys and, in lists, positions, with dots between. A field that is not
        named here is found under its own name; one that has a default may be missing. With paths for ``id`` and ``source``,
        messages name their own identity; else it is that of the message.
    ``mapping``
        the name of a ready mapping (``READY``), which ``fields`` adds to.
    ``unit``
        unit of ``ts`` where it is a number. A text is read as ISO 8601 (UTC, if it names no offset). Without a ``ts``, it is
        the message's own time.
    """

    def __init__(
        self,
        types: Mapping[str, str],
        known: EventTypes,
        fields: Mapping[str, str] | None = None,
        mapping: str | None = None,
        unit: str = "ns",
    ) -> None:
        if mapping is not None and mapping not in READY:
            raise ScenarioError(f"mapping {mapping!r}: there are {', '.join(READY)}; or give fields")
        size = nanoseconds_of(unit)
        if size is None:
            raise ScenarioError(f"unit {unit!r}: give ns, us, ms or s")
        self._unit: int = size
        self._type_of = lru_cache(_MOST_TOPICS)(self._first_that_fits)
        self._way_of = lru_cache(_MOST_TOPICS)(self._way)
        self._types = [(pattern, known[name]) for pattern, name in types.items()]
        there = {name for _, event_type in self._types for name in event_type.__struct_fields__}
        if stray := sorted((fields or {}).keys() - there):
            raise ScenarioError(f"fields.{stray[0]}: no type that it may become has such a field")
        paths = (READY[mapping] if mapping is not None else {}) | dict(fields or {})
        self._paths = {name: tuple(path.split(".")) for name, path in paths.items()}
        self._ways = {
            each: fast(each, self._paths, self._time, partial(self._with_care, each))
            for each in {each for _, each in self._types}
        }

    @property
    def has_own_times(self) -> bool:
        """Whether every message is to name its time: then two with the same content are one."""
        return "ts" in self._paths

    @property
    def types(self) -> list[EventType]:
        """The types that messages may become."""
        return list(self._ways)

    def read(self, messages: Sequence[Message]) -> tuple[list[Event], list[Unread]]:
        """The events in order, and the messages that are none."""
        types, rows, unread = self._rows(messages)
        return [msgspec.convert(row, event_type) for event_type, row in zip(types, rows, strict=True)], unread

    def blocks(self, messages: Sequence[Message], reached: dict[str, int] | None = None) -> tuple[list[Blocks], list[Unread]]:
        """The same events as blocks, and the messages that are none. ``reached``: gets the latest time of each source."""
        types, rows, unread = self._rows(messages, reached)
        return list(frames(types, rows)), unread

    def _rows(
        self, messages: Sequence[Message], reached: dict[str, int] | None = None, one_by_one: bool = False
    ) -> tuple[list[EventType], list[Row], list[Unread]]:
        """The types and rows of events, in order, and the messages that are none. ``one_by_one``: some cannot be sent."""
        types: list[EventType] = []
        rows: list[Row] = []
        unread: list[Unread] = []
        for message in messages:
            try:
                event_type, read = self._way_of(message.topic)
                row = read(message)
                if one_by_one:
                    sendable(msgspec.convert(row, event_type))
            except NOT_READ as error:
                told = self._type_of(message.topic)
                unread.append(Unread(message, "" if told is None else type_name(told), str(error)))
            else:
                types.append(event_type)
                rows.append(row)
                if reached is not None:
                    reached[message.source] = max(row[TS_PLACE], reached.get(message.source, NEVER))
        if one_by_one or _fit_in_a_block(rows):
            return types, rows, unread
        return self._rows(messages, reached, one_by_one=True)

    def _first_that_fits(self, topic: str) -> EventType | None:
        return next((each for pattern, each in self._types if matches(pattern, topic)), None)

    def _way(self, topic: str) -> tuple[EventType, ReadMessage]:
        """What messages of a topic become, and how they are read. Raises EventError."""
        event_type = self._type_of(topic)
        if event_type is None:
            raise EventError(f"nothing is said of the topic {topic!r}")
        return event_type, self._ways[event_type]

    def _with_care(self, event_type: EventType, message: Message) -> Row:
        """By way of a dict, any event type can be read; here it is said why a message is no event."""
        record = msgspec.json.decode(message.body)
        if not isinstance(record, dict):
            raise EventError(f"{type_name(event_type)}: the message is no object with fields by name")
        found = [(name, path, _found(record, path)) for name, path in self._paths.items()]
        fields: dict[str, Any] = own_fields(record, event_type)
        fields["id"], fields["source"], fields["level"] = message.id, message.source, 0
        for name, path, value in found:
            if value is not _ABSENT:
                fields[name] = value
            elif name == "ts" or name in _IDENTITY:
                raise EventError(f"{type_name(event_type)}: the message has no {'.'.join(path)}, for {name}")
            else:
                fields.pop(name, None)
        fields["ts"] = self._time(fields["ts"]) if "ts" in fields else message.at
        return astuple(event_of(event_type, fields))

    def _time(self, value: object) -> int:
        """Unix time (ns). Raises EventError."""
        if isinstance(value, int) and not isinstance(value, bool):
            return value * self._unit
        try:
            if isinstance(value, float):
                return round(value * self._unit)
            if isinstance(value, str):
                return moment(value)
        except (ValueError, OverflowError):
            pass
        raise EventError(f"ts: {value!r} is no time: give a number, or a text such as 2026-03-01T12:00:00.25Z")


def moment(text: str) -> int:
    """Unix time (ns) of a text in ISO 8601, with up to nine decimals. Raises ValueError."""
    head, dot, tail = text.partition(".")
    digits = tail[: len(tail) - len(tail.lstrip("0123456789"))]
    read = datetime.fromisoformat(head + tail[len(digits) :])
    since = (read if read.tzinfo is not None else read.replace(tzinfo=UTC)) - _EPOCH
    if (dot and not digits) or len(digits) > 9:
        raise ValueError(text)
    return (since.days * 86_400 + since.seconds) * SECOND + int(digits.ljust(9, "0"))


def _fit_in_a_block(rows: list[Row]) -> bool:
    """Whether all of them can be sent, asked at once; if not, each is to be asked by itself (``sendable``)."""
    try:
        return len(encode(rows)) <= LARGEST_BLOCK
    except (OverflowError, UnicodeEncodeError):
        return False


def _found(record: object, path: tuple[str, ...]) -> Any:
    """What stands at a path; _ABSENT if nothing does."""
    for part in path:
        if isinstance(record, dict) and part in record:
            record = record[part]
        elif isinstance(record, list) and part.isdecimal() and int(part) < len(record):
            record = record[int(part)]
        else:
            return _ABSENT
    return record
