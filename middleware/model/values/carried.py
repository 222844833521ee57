"""An event has the form that the wire gives it, wherever a detector runs (decision 123).

Each process reads the events of the others from msgpack, against their class: a tuple in a field of type Any is a list there, a
date a text, a whole number in a field of floats a float. Events get that form where they enter the engine, and where detectors
and operators make them, so no reader can tell where they were made. A value without such a form is an error there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import fields as fields_of_dataclass
from dataclasses import is_dataclass
from functools import cache
from itertools import chain
from typing import Any

import msgspec
from msgspec.structs import astuple

from middleware import native
from middleware.model.block.recipe import recipe
from middleware.model.errors import EventError
from middleware.model.event import Event, EventType, Value, type_name
from middleware.model.values.first_use import prepare
from middleware.model.values.nesting import check_nesting
from middleware.model.words import shown

LARGEST_EVENT = 2**22 - 2**16
"""Most bytes of an event that a detector makes: a revision carries two of them, and both must fit into one frame."""

_BASES: tuple[tuple[type, Callable[[Any], Value]], ...] = ((str, str.__str__), (int, int.__int__), (float, float.__float__))
_UNCHANGING = frozenset({int, float, str, bool, bytes, type(None)})
_NUMBERS = frozenset({"int", "long", "time", "float", "bool"})
"""The names that ``recipe`` has for fields of numbers."""
_NOT_ENCODED = (OverflowError, ValueError, TypeError, RecursionError)


def wire_form(value: Any) -> Value:
    """The form of a value that msgspec does not encode: numpy's, and subclasses of str, int and float, have one."""
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return value.tolist()
    for base, exact in _BASES:
        if isinstance(value, base):
            return exact(value)
    raise TypeError(f"{type(value).__module__}.{type(value).__qualname__} is unsupported")


encode = msgspec.msgpack.Encoder(enc_hook=wire_form).encode
"""The bytes of any value that may go over a wire."""

_encode_in_order = msgspec.msgpack.Encoder(enc_hook=wire_form, order="deterministic").encode
_decode = msgspec.msgpack.Decoder().decode


class Carrier:
    """Brings events of one class into the form in which every process reads them. Compiled once for each class.

    ``plain_fields``: what sees in the core that an event has that form already; None if a field is of no plain type.
    """

    def __init__(self, event_type: EventType) -> None:
        prepare(event_type)
        self._type = event_type
        try:
            self._decode = msgspec.msgpack.Decoder(event_type).decode
        except TypeError as error:
            raise EventError(f"{type_name(event_type)} has a field of a type that no process can read: {error}") from None
        self._takes_any = takes_any(event_type)
        self.plain_fields = native.PlainFields(made) if (made := recipe(event_type)) is not None else None

    def others(self, events: list[Event]) -> Sequence[int]:
        """The places of the events that may not have this form yet: mostly none, if all fields are plain. O(values)."""
        return range(len(events)) if self.plain_fields is None else self.plain_fields.others(events)

    def read(self, values: Sequence[Value], most: int | None = None) -> Event:
        """The event that other processes read for the values of all fields, in order. Raises EventError. O(bytes).

        ``most``: the bytes that it may take at most.
        """
        check_nesting(self._type, values)
        try:
            body = encode(list(map(settled, values)) if self._takes_any else values)
            if most is not None and len(body) > most:
                raise EventError(f"{type_name(self._type)} takes {len(body):,} bytes, at most {most:,} are sent")
            return self._decode(body)
        except msgspec.ValidationError as error:
            names = ", ".join(self._type.__struct_fields__)
            raise EventError(f"{type_name(self._type)}: {error} (fields: {names})") from None
        except _NOT_ENCODED as error:
            raise EventError(f"{type_name(self._type)}{self._fault(values) or f': {error}'}") from None

    def _fault(self, values: Sequence[Value]) -> str | None:
        """Which field cannot be encoded, and why."""
        for name, value in zip(self._type.__struct_fields__, values, strict=True):
            try:
                encode(settled(value))
            except _NOT_ENCODED as error:
                return f".{name} holds what no other process can read ({_reason(error)})"
        return None


def _reason(error: Exception) -> str:
    if isinstance(error, OverflowError):
        return "a whole number beyond 64 bits: calculate with floats where numbers become that large"
    if isinstance(error, UnicodeEncodeError):
        return "half of a surrogate pair is no text: decode the bytes with errors='replace'"
    return str(error)


carrier = cache(Carrier)
"""The carrier of a class."""


def carried(event: Event) -> Event:
    """A result as every process reads it, and with nothing that whoever made it may still change. Raises EventError."""
    return carrier(event.__class__).read(astuple(event), LARGEST_EVENT)


def all_carried(event_type: EventType, events: list[Event]) -> list[Event]:
    """Events of one class as every process reads them; the list itself if they have that form. Raises EventError."""
    own = carrier(event_type)
    if others := own.others(events):
        events = list(events)
        for at in others:
            events[at] = own.read(astuple(events[at]))
    return events


def stamped(event: Event, id: int, source: str, level: int) -> Event:  # noqa: A002
    """A copy of a derived event that carries its identity. Raises EventError if no process could read it."""
    own = carrier(event.__class__)
    made = own.plain_fields.stamped(event, id, source, level) if own.plain_fields is not None else None
    return made if made is not None else own.read([*astuple(event)[:-3], id, source, level], LARGEST_EVENT)


def legible(event: Event) -> Event:
    """The event with a text in place of each value that no other process can read: so it can be listed, and stored."""
    try:
        encode(event)
    except _NOT_ENCODED:
        event = copy(event)
        for name in event.__struct_fields__:
            try:
                encode(value := getattr(event, name))
            except _NOT_ENCODED:
                msgspec.structs.force_setattr(event, name, _as_text(value))
    return event


def _as_text(value: Value) -> str:
    try:
        return shown(value).encode(errors="backslashreplace").decode()
    except Exception:  # Python writes no number of more than 4,300 digits, and a user's class may raise anything
        return f"<{type(value).__name__}>"


def settled(value: Value) -> Value:
    """The value with each set in it as a sorted list: a set's own order differs between processes. Itself if it has no set.

    Structs and dataclasses are copied, without their checks: the result is to be encoded.
    """
    if type(value) in _UNCHANGING:
        return value
    if isinstance(value, set | frozenset):
        return sorted(map(settled, value), key=encode)
    if isinstance(value, list | tuple):
        return _if_changed(value, [settled(each) for each in value], value)
    if isinstance(value, dict):
        pairs = [each for key, item in value.items() for each in (_settled_key(key), settled(item))]
        own = _if_changed(value, pairs, chain.from_iterable(value.items()))
        return value if own is value else dict(zip(pairs[::2], pairs[1::2], strict=True))
    names = _names(type(value))  # type: ignore[arg-type]  # a class has a hash
    held = [getattr(value, name, None) for name in names]
    if (own := _if_changed(value, [settled(each) for each in held], held)) is value:
        return value
    made = copy(value)
    for name, each in zip(names, own, strict=True):
        if isinstance(made, msgspec.Struct):
            msgspec.structs.force_setattr(made, name, each)
        else:
            object.__setattr__(made, name, each)
    return made


def encode_alike(value: Value) -> bytes:
    """Bytes that do not depend on the order of sets and dicts, whatever these hold."""
    try:
        return _encode_in_order(value)
    except TypeError:  # msgspec sorts neither keys that are no texts, nor sets of several types
        return encode(_paired(_decode(encode(settled(value)))))


def _paired(value: Value) -> Value:
    """The value with each dict as a list of its pairs, in the order of their bytes."""
    if isinstance(value, dict):
        return sorted(([_paired(key), _paired(item)] for key, item in value.items()), key=encode)
    return list(map(_paired, value)) if isinstance(value, list | tuple) else value


def _if_changed(value: Value, items: list[Value], before: Iterable[Value]) -> Value:
    return value if all(one is other for one, other in zip(items, before, strict=True)) else items


def _settled_key(key: Value) -> Value:
    """A key as it goes over the wire, which must have a hash: a tuple where it is a set."""
    if isinstance(key, frozenset):
        return tuple(sorted(map(_settled_key, key), key=encode))
    return tuple(map(_settled_key, key)) if type(key) is tuple else key


@cache
def _names(kind: type) -> tuple[str, ...]:
    """The fields of a struct, a dataclass or a class of attrs; none of any other class."""
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    if is_dataclass(kind):
        return tuple(field.name for field in fields_of_dataclass(kind))
    return tuple(each.name for each in getattr(kind, "__attrs_attrs__", ()))


@cache
def takes_any(event_type: EventType) -> bool:
    """Whether a field of this class, or a part of one, may be of any type. Sets in it are sorted before they are encoded."""
    return any(map(_holds_any, msgspec.inspect.multi_type_info([field.type for field in msgspec.structs.fields(event_type)])))


@cache
def holds_numbers(event_type: EventType) -> bool:
    """Whether all its fields are for numbers and truth values: then no event is too large for a frame."""
    made = recipe(event_type)
    return made is not None and all(takes in _NUMBERS for name, takes, _ in made[1] if name != "source")


def _holds_any(kind: object, above: tuple[object, ...] = ()) -> bool:
    """Whether values of any type may be in a field: itself, or something that it holds. ``above``: what this is a part of."""
    if isinstance(kind, msgspec.inspect.AnyType | msgspec.inspect.CustomType | msgspec.inspect.RawType):
        return True
    own = getattr(kind, "cls", None)
    if own is not None and own in above:
        return False
    parts = [getattr(kind, name, None) for name in ("type", "item_type", "key_type", "value_type")]
    for several in ("types", "item_types", "fields"):
        parts += getattr(kind, several, None) or ()
    inner = [part for part in parts if isinstance(part, msgspec.inspect.Type | msgspec.inspect.Field)]
    return any(_holds_any(part, (*above, own)) for part in inner)
