"""Events as flat records: sinks store them, ``slackline sub`` prints them and ``slackline pub`` reads them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from middleware.model.event import Event, type_name

Record = dict[str, object]
"""The parts of an event or a change, by name."""


def as_record(event: Event, first: Mapping[str, object] | None = None) -> Record:
    """An event as a flat record: the entries of ``first``, its type name under ``type``, then all its fields.

    An event field that is itself called ``type`` gets the key ``type_`` (see ``key_of``). In JSON, NaN and infinities become
    null, since JSON does not have them.
    """
    record: Record = {**(first or {}), "type": type_name(event.__class__)}
    fields = msgspec.structs.asdict(event)
    if record.keys().isdisjoint(fields):
        return record | fields
    return record | {key_of(name, record, fields): value for name, value in fields.items()}


def key_of(name: str, reserved: Collection[str], names: Collection[str]) -> str:
    """The key of a field in a record where some keys are reserved: its name, with as many ``_`` appended as make it differ
    from them and from all fields.
    """
    key = name
    while key in reserved or (key != name and key in names):
        key += "_"
    return key
