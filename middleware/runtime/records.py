"""Events as flat records: what sinks keep, what ``slackline sub`` prints and ``slackline pub`` reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from middleware.model.event import Event, type_name

Record = dict[str, object]
"""What an event or a change is made of, by name."""


def as_record(event: Event, first: Mapping[str, object] | None = None) -> Record:
    """An event as a flat record: what is to stand first, under ``type`` its type name, then all its fields.

    A field of the event that is itself called ``type`` stands under ``type_`` (see ``key_of``). As JSON, NaN and infinities,
    which JSON does not have, become null.
    """
    record: Record = {**(first or {}), "type": type_name(event.__class__)}
    fields = msgspec.structs.asdict(event)
    if record.keys().isdisjoint(fields):
        return record | fields
    return record | {key_of(name, record, fields): value for name, value in fields.items()}


def key_of(name: str, reserved: Collection[str], names: Collection[str]) -> str:
    """Under which key a field stands in a record where some keys are reserved: with as many ``_`` behind it as make it
    differ from them and from all fields.
    """
    key = name
    while key in reserved or (key != name and key in names):
        key += "_"
    return key
