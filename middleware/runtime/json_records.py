"""Events as flat records: sinks store them, ``slackline sub`` prints them and ``slackline pub`` reads them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

import msgspec

from middleware.link.codec import LARGEST_BLOCK, encode, name_of
from middleware.model.errors import EventError
from middleware.model.event import Event, EventType, type_name

_SCALARS = frozenset({int, float, str, bool, type(None)})

Record = dict[str, object]
"""The parts of an event or a change, by name."""


def as_record(event: Event, first: Mapping[str, object] | None = None) -> Record:
    """An event as a flat record: the entries of ``first``, its type name under ``type``, then all its fields.

    An event field that is itself called ``type`` gets the key ``type_`` (see ``key_of``). In JSON, NaN and infinities become
    null, since JSON does not have them.
    """
    fields = msgspec.structs.asdict(event)
    if first is None and "type" not in fields:
        return {"type": type_name(event.__class__), **fields}
    record: Record = {**(first or {}), "type": type_name(event.__class__)}
    if record.keys().isdisjoint(fields):
        return record | fields
    return record | {key_of(name, record, fields): value for name, value in fields.items()}


def flat(value: object) -> object:
    """A value as one cell holds it: numbers, texts and None as they are, others as in JSON, lists and records in its notation.

    >>> flat(2.5), flat(b"x"), flat({"a": (1, None)})
    (2.5, 'eA==', '{"a":[1,null]}')
    """
    if type(value) in _SCALARS:
        return value
    builtins = msgspec.to_builtins(value, enc_hook=repr)
    try:
        return builtins if type(builtins) in _SCALARS else msgspec.json.encode(builtins).decode()
    except (TypeError, ValueError):  # keys that JSON does not have
        return str(builtins)


def key_of(name: str, reserved: Collection[str], names: Collection[str]) -> str:
    """The key of a field in a record where some keys are reserved: its name, with as many ``_`` appended as make it differ
    from them and from all fields.
    """
    key = name
    while key in reserved or (key != name and key in names):
        key += "_"
    return key


def sendable(event: Event) -> Event:
    """The event, if it has a form on the wire. Raises EventError."""
    try:
        size = len(encode([event]))
    except (OverflowError, UnicodeEncodeError) as error:  # whole numbers beyond 64 bits, lone surrogates
        raise EventError(f"{name_of(event)}: {error}") from None
    if size > LARGEST_BLOCK:
        raise EventError(f"{name_of(event)} takes {size} bytes, at most {LARGEST_BLOCK} go at once")
    return event


_RESERVED = ("change", "type")


def own_key(name: str, event_type: EventType) -> str:
    """The key of a type's field in a record of its events."""
    return key_of(name, _RESERVED, event_type.__struct_fields__)


def own_fields(record: Record, event_type: EventType) -> Record:
    """A record's fields by their own names: see ``described``."""
    names = event_type.__struct_fields__
    if not (clashing := set(_RESERVED).intersection(names)):
        return record
    own = {name: record[key] for name in clashing if (key := own_key(name, event_type)) in record}
    return {name: value for name, value in record.items() if name not in clashing} | own


def event_of(event_type: EventType, fields: Record) -> Event:
    """An event from its fields by name; names it does not have are ignored. Raises EventError."""
    values = []
    for name, is_required, default, factory in _fields(event_type):
        if name in fields:
            values.append(fields[name])
        elif is_required:
            raise EventError(f"{type_name(event_type)} needs a field {own_key(name, event_type)!r}")
        else:
            values.append(default if factory is msgspec.NODEFAULT else factory())
    try:
        return msgspec.convert(values, event_type)
    except msgspec.ValidationError as error:
        names = event_type.__struct_fields__
        message = re.sub(r"\$\[(\d+)\]", lambda match: f"$.{names[int(match[1])]}", str(error), count=1)
        raise EventError(f"{type_name(event_type)}: {message}") from None


@cache
def _fields(event_type: EventType) -> list[tuple[str, bool, Any, Any]]:
    """Name, whether it is required, default and default factory of each field."""
    return [(each.name, each.required, each.default, each.default_factory) for each in msgspec.structs.fields(event_type)]
