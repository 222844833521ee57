"""Events: immutable typed records, their total order, and identities that every node computes alike."""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Iterable, Iterator
from copy import deepcopy
from datetime import UTC, datetime
from enum import Enum
from inspect import get_annotations
from itertools import chain
from operator import attrgetter, is_not
from typing import Annotated, Any, ClassVar, dataclass_transform

import msgspec
import xxhash
from msgspec.structs import astuple

from middleware.model.errors import EventError
from middleware.model.values.first_use import prepare

MIN_TS = -(2**62)
MAX_TS = 2**62
"""Occurrence times lie strictly between MIN_TS and MAX_TS: nanoseconds, 146 years to either side of the epoch."""

NEVER = MIN_TS
"""Watermark of a stream that has promised nothing yet."""

END = MAX_TS
"""Watermark of a stream that has ended: no further change will come."""

Timestamp = Annotated[int, msgspec.Meta(gt=MIN_TS, lt=MAX_TS)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


# Type checkers do not see that ``frozen=True`` is inherited: without this, each subclass would have to repeat it.
@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False, array_like=True):
    """Immutable record of a typed happening. Subclass it to declare an event type.

    ``ts``
        occurrence time, nanoseconds (int64).
    ``id``, ``source``
        identity: (source, id) is unique. For raw events the source's own sequence number; for derived events the
        middleware fills both in.
    ``level``
        0 for raw events, 1 + the highest level a detector reads for derived ones; filled in by the middleware.

    A type's name on the wire is its class name, with its ``namespace`` in front if it has one.

    >>> class Hit(Event):
    ...     ball: int
    ...     peak: float
    >>> Hit(4, 61.5, ts=1_000)
    Hit(ball=4, peak=61.5, ts=1000, id=0, source='', level=0)
    """

    namespace: ClassVar[str] = ""

    ts: Timestamp
    id: Int64 = 0
    source: str = ""
    level: Int64 = 0


EventType = type[Event]

TS = attrgetter("ts")
LEVEL = attrgetter("level")
ORDER = attrgetter("ts", "level", "source", "id")
"""The total order of events: results follow their causes at equal time, and every node breaks ties the same way."""

IDENTITY = attrgetter("source", "id")

LONGEST_SOURCE = 256
"""Most bytes (UTF-8) in the name of a source: nodes remember each source for as long as they live."""


def is_source(name: str) -> bool:
    """Whether a raw event may have this name as its source.

    >>> is_source("ball"), is_source(""), is_source("x" * 257), is_source("\u00e9" * 129)
    (True, False, False, False)
    """
    count = len(name)
    return 0 < count <= LONGEST_SOURCE and (
        4 * count <= LONGEST_SOURCE or len(name.encode(errors="surrogatepass")) <= LONGEST_SOURCE
    )


Value = Any
"""The value of an event's field, of whatever type it declares, or a value made from such values."""

Key = Hashable
"""Values of some fields of an event: events with different keys have nothing to do with each other."""

Order = tuple[int, int, str, int]
Identity = tuple[str, int]


def type_name(event_type: EventType) -> str:
    """The name of an event type for subscriptions and on the wire, such as ``soccer.Hit``."""
    return f"{event_type.namespace}.{event_type.__name__}" if event_type.namespace else event_type.__name__


def field_names(event_type: EventType) -> tuple[str, ...]:
    """The fields of its own that a type has, in order: all but ts, id, source and level."""
    return event_type.__struct_fields__[: -len(Event.__struct_fields__)]


def check_event_type(event_type: EventType) -> None:
    """Raise EventError unless this is an event type that can be stamped and sent: its own fields come first, by position."""
    if not (isinstance(event_type, type) and issubclass(event_type, Event)):
        raise EventError(f"{event_type!r} is not an event type: declare it as 'class Name(Event): ...'")
    declared = [name for each in event_type.__mro__[: event_type.__mro__.index(Event)] for name in get_annotations(each)]
    if taken := [name for name in Event.__struct_fields__ if name in declared]:
        raise EventError(
            f"event type {event_type.__name__} has a field of its own named {' and '.join(taken)}: every event has "
            f"{', '.join(Event.__struct_fields__)} already; give yours another name"
        )
    if event_type.__struct_fields__[-4:] != Event.__struct_fields__:
        raise EventError(f"event type {event_type.__name__} has keyword-only fields: declare it without kw_only=True")
    config = event_type.__struct_config__
    if not config.array_like or config.tag is not None:
        raise EventError(f"event type {event_type.__name__} is declared with array_like=False or a tag: leave that out")


def check_one_class_a_name(types: Iterable[EventType]) -> None:
    """Raise EventError if two classes have one name: a reader of one would leave events of the other unread."""
    EventTypes(dict.fromkeys(types))


class EventTypes:
    """The event types a process knows, by name: bytes from outside are decoded against them."""

    def __init__(self, types: Iterable[EventType] = ()) -> None:
        self._types: dict[str, EventType] = {}
        for event_type in types:
            self.add(event_type)

    def add(self, event_type: EventType) -> None:
        """Register a type. Raises EventError if it is no event type, or if another type has its name."""
        check_event_type(event_type)
        prepare(event_type)
        name = type_name(event_type)
        known = self._types.setdefault(name, event_type)
        if known is not event_type:
            one, other = known.__module__, event_type.__module__
            if one == other:
                hint = f"both of {one}: define it once; in a notebook, run the cells again that name the one before"
            else:
                hint = f"of {one} and of {other}: give one of them a namespace (namespace: ClassVar[str] = ...)"
            raise EventError(f"two event types are named {name!r}, {hint}")

    def __getitem__(self, name: str) -> EventType:
        try:
            return self._types[name]
        except KeyError:
            raise EventError(f"unknown event type {name!r}; known: {', '.join(sorted(self._types)) or 'none'}") from None

    def __contains__(self, name: object) -> bool:
        return name in self._types

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)

    def items(self) -> Iterable[tuple[str, EventType]]:
        return self._types.items()


def stable_hash(text: str) -> int:
    """64-bit hash of a text (XXH3), the same on every machine, in every process, for ever."""
    return xxhash.xxh3_64_intdigest(text.encode())


_pack = struct.Struct("<QqI").pack
_pack_time = struct.Struct("<qI").pack
_source_hashes: dict[str, int] = {}


def derived_id(origin: int, cause: Event, ordinal: int) -> int:
    """Identity of the ``ordinal``-th event that a detector derives from ``cause``: a signed 64-bit number.

    ``origin`` is the ``stable_hash`` that stands for detector and key. One cause gives one identity in every
    replay, on any node: recovery, re-delivery and exactly-once sinks all rest on that.
    """
    source = cause.source
    hashed = _source_hashes.get(source)
    if hashed is None:
        hashed = _source_hashes[source] = stable_hash(source)
    return _signed(xxhash.xxh3_64_intdigest(_pack(hashed, cause.id, ordinal), origin))


def timed_id(origin: int, ts: int, ordinal: int) -> int:
    """Identity of a derived event that depends on when it occurred, not on its cause (decision 013).

    ``ordinal`` tells several results of one cause apart.
    """
    return _signed(xxhash.xxh3_64_intdigest(_pack_time(ts, ordinal), origin))


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def plain(value: Any) -> Any:
    """A value as other processes read it: numpy's scalars as Python's, times with an offset in UTC; itself if it is that."""
    kind = type(value)
    if kind is datetime:
        return _in_utc(value)
    if kind.__module__ == "numpy" and getattr(value, "shape", None) == ():
        return value.item()
    return _rebuilt(value, kind, plain) if kind in _COLLECTIONS else value


def _in_utc(moment: datetime) -> datetime:
    if moment.tzinfo is None or moment.tzinfo is UTC:
        return moment
    try:
        return moment.astimezone(UTC)
    except OverflowError:  # in the first or the last hours of all
        return moment


_COLLECTIONS = (list, tuple, set, frozenset, dict)


def _rebuilt(value: Any, kind: type, replaced: Callable[[Any], Any]) -> Any:
    """A collection of this kind with what it holds replaced; the value itself if nothing was."""
    if kind is dict:
        pairs = [(replaced(key), replaced(item)) for key, item in value.items()]
        return dict(pairs) if any(map(is_not, chain.from_iterable(pairs), chain.from_iterable(value.items()))) else value
    items = list(map(replaced, value))
    return kind(items) if any(map(is_not, items, value)) else value


def as_it_is(event: Event) -> Event:
    """The event with copies of what whoever made it may still change; itself if it holds nothing of the kind."""
    values = astuple(event)
    if all(value.__class__ in _UNCHANGING for value in values):
        return event
    return _made(event.__class__, tuple(value if value.__class__ in _UNCHANGING else deepcopy(value) for value in values))


def _made(event_type: EventType, values: tuple[Any, ...]) -> Event:
    """An event from the values of its fields, in order."""
    *own, ts, number, source, level = values
    return event_type(*own, ts=ts, id=number, source=source, level=level)


_UNCHANGING = frozenset({int, float, str, bool, bytes, type(None), None})


def converted(value: Any, kind: Any) -> Any:
    """``msgspec.convert``, which by itself does not take members of an enum whose values are numbers."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        if (by_value := _by_value(value)) is value:
            raise
        return msgspec.convert(by_value, kind)


def _by_value(value: Any) -> Any:
    """A value with the members of enums in it replaced by their values; the value itself if it has none."""
    if isinstance(value, Enum):
        return value.value
    kind = type(value)
    return _rebuilt(value, kind, _by_value) if kind in _COLLECTIONS else value
