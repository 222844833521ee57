"""Forms of messages: a struct made for an event type, into which JSON is decoded at once, without a dict in between.

Where a form gives a row, the careful way (``MessageReader``) would give the same; where it does not, that way is asked, and
says why there is none.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import astuple

from middleware.connect.blocks import Row
from middleware.connect.source import Message
from middleware.model.errors import EventError
from middleware.model.event import MAX_TS, MIN_TS, EventType, Int64
from middleware.runtime.records import own_key

ReadMessage = Callable[[Message], Row]
"""The row of the event that a message is. Raises NOT_READ."""

NOT_READ = (EventError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""The errors of a message that is no event."""

_PLAIN = (int, float, str, bool, type(None))
_STAMP = (("ts", int | float | str, UNSET), ("id", Int64, 0), ("source", str, ""), ("level", Literal[0], 0))
_STAMP_KEYS = {"ts": "ts", "id": "slackline:id", "source": "slackline:source", "level": "slackline:level"}
"""Identities come from paths, or from the connector: then what a message has under these keys is replaced."""


def fast(
    event_type: EventType, paths: Mapping[str, tuple[str, ...]], time: Callable[[object], int], careful: ReadMessage
) -> ReadMessage:
    """The fast way to read messages of a type: ``careful`` itself, where fields are neither plain values nor lists of them, and
    where paths lead into objects.

    ``paths``: as ``MessageReader`` has them. ``time``: Unix time (ns) of what stands for ``ts``; raises EventError.
    """
    if (decode := _decoder(event_type, paths)) is None:
        return careful
    has_id, has_source = "id" in paths, "source" in paths

    def read(message: Message) -> Row:
        try:
            form = decode(message.body)
            form.ts = message.at if form.ts is UNSET else time(form.ts)
        except NOT_READ:
            return careful(message)
        if not MIN_TS < form.ts < MAX_TS:
            return careful(message)
        if not has_id:
            form.id = message.id
        if not has_source:
            form.source = message.source
        return astuple(form)

    return read


def _decoder(event_type: EventType, paths: Mapping[str, tuple[str, ...]]) -> Callable[[bytes], Any] | None:
    """Decodes a message into a struct with the fields of a type, in their order; None if that would be something else."""
    *own, _, _, _, _ = msgspec.structs.fields(event_type)
    wanted = {name: path for name, path in paths.items() if name in event_type.__struct_fields__}
    if event_type.__struct_config__.tag is not None or hasattr(event_type, "__post_init__"):
        return None
    if any(len(path) > 1 for path in wanted.values()) or not all(_is_plain(each.type) for each in own):
        return None
    keys = {each.name: own_key(each.name, event_type) for each in own} | _STAMP_KEYS
    keys |= {name: path[0] for name, path in wanted.items()}
    if len(set(keys.values())) < len(keys):
        return None
    field: Any = msgspec.field  # its overloads do not know that both may be NODEFAULT
    slots: list[Any] = [
        (each.name, each.type, field(default=each.default, default_factory=each.default_factory)) for each in own
    ]
    for name, kind, default in _STAMP:
        slots.append((name, kind) if name in wanted else (name, kind | UnsetType, default))
    form = msgspec.defstruct(f"{event_type.__name__}Form", slots, rename=keys, kw_only=True, gc=False)
    return msgspec.json.Decoder(form).decode


def _is_plain(annotation: Any) -> bool:
    """Whether values of this type mean the same to msgspec in JSON as in Python."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return _is_plain(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return all(map(_is_plain, arguments))
    if origin in (list, tuple):
        return all(each is ... or _is_plain(each) for each in arguments)
    return annotation in _PLAIN
