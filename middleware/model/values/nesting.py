"""How deep the values of an event may be nested: less than pickle, msgpack and Python's own recursion take, everywhere alike.

A value that one of them does not take ends in an error that names no event, at a checkpoint or at a reader. So it is refused
where it comes in: at publishers, inputs and nodes, in a run, and where detectors make results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import is_dataclass
from functools import cache
from itertools import chain
from typing import Any, TypeVar

import msgspec
from msgspec.structs import astuple

from middleware.model.errors import EventError
from middleware.model.event import Event, EventType, type_name

MOST_NESTED = 64
"""Collections, or structs, that may lie within each other in a field. Pickle takes some 300 of them, msgpack 900."""

_FLAT = frozenset({int, str, float, bool, bytes, type(None)})
_COLLECTIONS = (list, tuple, set, frozenset, dict)
_T = TypeVar("_T")


def check_nesting(event_type: EventType, values: Iterable[Any]) -> None:
    """Raise EventError if a value of a field is nested too deep. O(values), and nothing for types that cannot nest so deep."""
    if may_nest(event_type) and _is_too_deep(values):
        raise EventError(
            f"{type_name(event_type)}: a value is nested deeper than {MOST_NESTED} levels: send it as text, or in parts"
        )


def checked_nesting(event_type: EventType, decode: Callable[[bytes], _T]) -> Callable[[bytes], _T]:
    """A decoder of events, or of collections of them, that raises msgspec.ValidationError for a value nested too deep."""
    if not may_nest(event_type):
        return decode

    def decode_checked(data: bytes) -> _T:
        made = decode(data)
        if _is_too_deep(chain.from_iterable(map(astuple, _events_in(made)))):
            raise msgspec.ValidationError(f"a value is nested deeper than {MOST_NESTED} levels")
        return made

    return decode_checked


@cache
def may_nest(event_type: EventType) -> bool:
    """Whether a field may be nested without bounds: it takes any value, or a struct that holds others of its kind."""
    try:
        fields = msgspec.inspect.multi_type_info([field.type for field in msgspec.structs.fields(event_type)])
    except TypeError:  # a type without a form on the wire
        return True
    return any(_has_no_bound(kind) for kind in fields)


def _has_no_bound(kind: object, above: tuple[object, ...] = ()) -> bool:
    """Whether values of this kind may nest without bounds. ``above``: the classes that this is a part of."""
    if isinstance(kind, msgspec.inspect.AnyType | msgspec.inspect.CustomType | msgspec.inspect.RawType):
        return True
    own = getattr(kind, "cls", None)
    if own is not None and own in above:
        return True
    held = msgspec.structs.astuple(kind) if isinstance(kind, msgspec.Struct) else ()
    parts = chain.from_iterable(each if isinstance(each, tuple) else (each,) for each in held)
    inner = (part for part in parts if isinstance(part, msgspec.inspect.Type | msgspec.inspect.Field))
    return any(_has_no_bound(part, above if own is None else (*above, own)) for part in inner)


def _events_in(made: Any) -> list[Event]:
    """The events in what a decoder made: one, or lists and pairs of them."""
    if isinstance(made, Event):
        return [made]
    return [event for part in made if isinstance(part, Event | list | tuple) for event in _events_in(part)]


def _is_too_deep(values: Iterable[Any]) -> bool:
    """Whether one of these values of fields is nested too deep. Level by level, so its own recursion has no bound to meet."""
    level = [value for value in values if type(value) not in _FLAT]
    for _ in range(MOST_NESTED):
        level = [part for each in level for part in _parts(each) if type(part) not in _FLAT]
        if not level:
            return False
    return any(isinstance(each, _COLLECTIONS) or _parts(each) for each in level)


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return chain(value, value.values())
    if isinstance(value, _COLLECTIONS):
        return value
    if isinstance(value, msgspec.Struct):
        return astuple(value)
    return list(vars(value).values()) if is_dataclass(value) and hasattr(value, "__dict__") else ()
