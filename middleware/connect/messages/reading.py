"""How a message becomes an event: JSON, or what else is decoded, whose fields are the event's by name or by a path."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Decimal
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import UNSET
from msgspec.structs import astuple

from middleware.connect.messages.forms import NOT_IN_BLOCKS, NOT_READ, ReadBlock, form
from middleware.connect.messages.message_blocks import TS_INDEX, Blocks, Row, frames
from middleware.connect.messages.source import Message, Messages, MissingMessage, matches
from middleware.link.codec import LARGEST_BLOCK, encode
from middleware.model.errors import EventError, ScenarioError
from middleware.model.event import MAX_TS, MIN_TS, NEVER, Event, EventType, EventTypes, type_name
from middleware.model.quantities import nanoseconds_of
from middleware.model.schema import fields_of
from middleware.model.time import SECOND
from middleware.model.values.nesting import check_nesting, may_nest
from middleware.runtime.json_records import event_of, own_fields, own_key, sendable

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

_decode = msgspec.json.Decoder(float_hook=Decimal).decode
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ABSENT = object()
_MOST_TOPICS = _MOST_SECONDS = 4_096
_IDENTITY = ("id", "source")


class UnreadableMessage(NamedTuple):
    """A message that is no event, the name of the type it should have been, and why it is none."""

    message: Message
    type: str
    reason: str


class EventReader(Protocol):
    """Makes events of messages."""

    @property
    def types(self) -> list[EventType]:
        """The types that messages may become."""
        ...

    def blocks(self, messages: Messages, reached: dict[str, int] | None = None) -> tuple[list[Blocks], list[UnreadableMessage]]:
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
    ``decode``
        gives a message's fields, or raises EventError (``Avro.decode``); None: they are JSON.
    """

    def __init__(
        self,
        types: Mapping[str, str],
        known: EventTypes,
        fields: Mapping[str, str] | None = None,
        mapping: str | None = None,
        unit: str = "ns",
        decode: Callable[[bytes], object] | None = None,
    ) -> None:
        if mapping is not None and mapping not in READY:
            raise ScenarioError(f"mapping {mapping!r}: there are {', '.join(READY)}; or give fields")
        size = nanoseconds_of(unit)
        if size is None:
            raise ScenarioError(f"unit {unit!r}: give ns, us, ms or s")
        self._unit: int = size
        self._type_of = lru_cache(_MOST_TOPICS)(self._first_that_fits)
        self._types = [(pattern, known[name]) for pattern, name in types.items()]
        there = {name for _, event_type in self._types for name in event_type.__struct_fields__}
        if stray := sorted((fields or {}).keys() - there):
            raise ScenarioError(f"fields.{stray[0]}: no type that it may become has such a field")
        paths = (READY[mapping] if mapping is not None else {}) | dict(fields or {})
        self._paths = {name: tuple(path.split(".")) for name, path in paths.items()}
        self._decode = decode if decode is not None else _decode
        self._ways: dict[EventType, ReadBlock] = {
            each: (decode is None and form(each, self._paths, self._times)) or partial(self._all_with_care, each)
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

    def read(self, messages: Iterable[Message]) -> tuple[list[Event], list[UnreadableMessage]]:
        """The events in order, and the messages that are none."""
        types, rows, unread = self._rows(Messages.of(messages))
        return [msgspec.convert(row, event_type) for event_type, row in zip(types, rows, strict=True)], unread

    def blocks(self, messages: Messages, reached: dict[str, int] | None = None) -> tuple[list[Blocks], list[UnreadableMessage]]:
        """Return the events as blocks, and the messages that are none. ``reached``: gets the latest time of each source."""
        types, rows, unread = self._rows(messages, reached)
        return list(frames(types, rows)), unread

    def _rows(
        self, messages: Messages, reached: dict[str, int] | None = None
    ) -> tuple[Sequence[EventType], Sequence[Row], list[UnreadableMessage]]:
        """The types and rows of events, in order, and the messages that are none."""
        unread: list[UnreadableMessage] = []
        type_of = {topic: self._type_of(topic) for topic in set(messages.topics)}
        kinds = [type_of[topic] for topic in messages.topics]
        found: list[Row | None] = []
        for kind in (several := dict.fromkeys(kinds)):
            if len(several) == 1:
                found = self._read(kind, messages, unread)
            else:
                found = found or [None] * len(messages)
                indexes = [index for index, each in enumerate(kinds) if each is kind]
                for index, row in zip(indexes, self._read(kind, messages.select(indexes), unread), strict=True):
                    found[index] = row
        if reached is not None:
            for source, row in zip(messages.sources, found, strict=True):
                if row is not None:
                    reached[source] = max(row[TS_INDEX], reached.get(source, NEVER))
        types = [kind for kind, row in zip(kinds, found, strict=True) if kind is not None and row is not None]
        return types, [row for row in found if row is not None], unread

    def _read(self, kind: EventType | None, messages: Messages, unread: list[UnreadableMessage]) -> list[Row | None]:
        """The rows of messages of one type, None for one that is no event: it is reported. A block that cannot be read as it
        is, or would be too large to be sent, is cut in halves. O(n) if all are events, O(n log n) for any.
        """
        if kind is None:
            unread += [UnreadableMessage(each, "", f"no event type is given for the topic {each.topic!r}") for each in messages]
            return [None] * len(messages)
        try:
            rows = self._ways[kind](messages)
            for row in rows if may_nest(kind) else ():
                check_nesting(kind, row)
            if len(encode(rows)) <= LARGEST_BLOCK:
                return list(rows)
        except NOT_IN_BLOCKS:
            pass
        if len(messages) > 1:
            indexes, middle = range(len(messages)), len(messages) // 2
            halves = (messages.select(indexes[:middle]), messages.select(indexes[middle:]))
            return [row for half in halves for row in self._read(kind, half, unread)]
        try:
            row = self._with_care(kind, messages[0])
            sendable(msgspec.convert(row, kind))
        except NOT_READ as error:
            unread.append(UnreadableMessage(messages[0], type_name(kind), str(error)))
            return [None]
        return [row]

    def _first_that_fits(self, topic: str) -> EventType | None:
        return next((each for pattern, each in self._types if matches(pattern, topic)), None)

    def _all_with_care(self, event_type: EventType, messages: Messages) -> list[Row]:
        return [self._with_care(event_type, message) for message in messages]

    def _with_care(self, event_type: EventType, message: Message) -> Row:
        """By way of a dict, any event type can be read; here a message that is no event gets its reason."""
        if isinstance(message.body, MissingMessage):
            raise EventError(message.body.decode())
        record = self._decode(message.body)
        if not isinstance(record, dict):
            raise EventError(f"{type_name(event_type)}: the message is no object with fields by name")
        found = [(name, path, _found(record, path)) for name, path in self._paths.items()]
        fields: dict[str, Any] = own_fields(record, event_type)
        fields |= {name: record[name] for name in _as_written(event_type) if name in record and name not in fields}
        fields["id"], fields["source"], fields["level"] = message.id, message.source, 0
        for name, path, value in found:
            if value is not _ABSENT:
                fields[name] = value
            elif name == "ts" or name in _IDENTITY:
                raise EventError(f"{type_name(event_type)}: the message has no {'.'.join(path)}, for {name}")
            else:
                fields.pop(name, None)
        fields["ts"] = self._time(fields["ts"]) if "ts" in fields else message.at
        check_nesting(event_type, fields.values())
        exact = _decimals(event_type)
        fields = {name: value if name in exact else _with_floats(value) for name, value in fields.items()}
        return astuple(event_of(event_type, fields))

    def _times(self, found: Sequence[Any], ats: Sequence[int]) -> Sequence[int]:
        """Unix times (ns) of what stands for ``ts``. Raises EventError."""
        if set(map(type, found)) != {int}:
            found = [at if value is UNSET else self._time(value) for value, at in zip(found, ats, strict=True)]
        elif self._unit != 1:
            found = [value * self._unit for value in found]
        if found and not MIN_TS < min(found) <= max(found) < MAX_TS:
            raise EventError("ts: out of range")
        return found

    def _time(self, value: object) -> int:
        """Unix time (ns). Raises EventError."""
        if isinstance(value, int) and not isinstance(value, bool):
            return value * self._unit
        try:
            if isinstance(value, float | Decimal):  # what was written, which a float of our days is not, to the nanosecond
                written = Decimal(repr(value)) if isinstance(value, float) else value
                return int((written * self._unit).to_integral_value(ROUND_HALF_EVEN))
            if isinstance(value, str):
                return moment(value)
        except (ValueError, ArithmeticError):
            pass
        raise EventError(f"ts: {value!r} is no time: give a number, or a text such as 2026-03-01T12:00:00.25Z")


@cache
def _as_written(event_type: EventType) -> list[str]:
    """Fields that records of Slackline's own call otherwise, but messages of others do not."""
    return [name for name in event_type.__struct_fields__ if own_key(name, event_type) != name]


@cache
def _decimals(event_type: EventType) -> frozenset[str]:
    """The fields in which a number with a point is not a float."""
    hints = fields_of(event_type)
    return frozenset(name for name, hint in hints.items() if "DecimalType" in repr(msgspec.inspect.type_info(hint)))


def _with_floats(value: Any) -> Any:
    """Floats for decimals. Raises EventError for a number that is none."""
    match value:
        case Decimal():
            if not math.isfinite(number := float(value)) and value.is_finite():
                raise EventError(f"{value} is out of range")
            return number
        case dict():
            return {name: _with_floats(each) for name, each in value.items()}
        case list():
            return list(map(_with_floats, value))
        case _:
            return value


def moment(text: str) -> int:
    """Unix time (ns) of a text in ISO 8601, with up to nine decimals behind a point or a comma. Raises ValueError."""
    head, dot, tail = text.replace(",", ".", 1).partition(".")
    digits = tail[: len(tail) - len(tail.lstrip("0123456789"))]
    if (dot and not digits) or len(digits) > 9:
        raise ValueError(text)
    return _second(head + tail[len(digits) :]) + int(digits.ljust(9, "0"))


@lru_cache(_MOST_SECONDS)
def _second(text: str) -> int:
    """Unix time (ns) of a text in ISO 8601 without a fraction; events of one second come together. Raises ValueError."""
    read = datetime.fromisoformat(text)
    since = (read if read.tzinfo is not None else read.replace(tzinfo=UTC)) - _EPOCH
    return (since.days * 86_400 + since.seconds) * SECOND


def _found(record: object, path: tuple[str, ...]) -> Any:
    """The value at a path; _ABSENT if there is none."""
    for part in path:
        if isinstance(record, dict) and part in record:
            record = record[part]
        elif isinstance(record, list) and part.isdecimal() and int(part) < len(record):
            record = record[int(part)]
        else:
            return _ABSENT
    return record
