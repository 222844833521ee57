"""Results of operators: whether two are indistinguishable, what changes, and the handling of numbers beyond 64 bits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache

import msgspec
from msgspec.structs import astuple

from middleware.model.change import Delta
from middleware.model.errors import ENDING
from middleware.model.event import IDENTITY, Event, EventType, Identity, Value, converted, type_name
from middleware.model.operator import Operation
from middleware.model.values.state import exactly

Kept = Event | tuple[Value, ...]
"""An event, or the values of one whose type was made at run time."""

_PLAIN = frozenset({int, float, str, bytes, bool})


def same(one: Event, other: Event) -> bool:
    """Whether two results are indistinguishable: zeros differ by their sign, NaNs and enum members do not differ."""
    if one == other:
        return exactly(one, other) or repr(one) == repr(other)
    for a, b in zip(astuple(one), astuple(other), strict=False):
        if a != b and a == a and a.__class__ in _PLAIN:  # noqa: PLR0124 (NaN is not)
            return False  # mostly, and faster than by their texts
    return repr(one) == repr(other)


def difference(before: list[Event], after: list[Event]) -> Delta:
    """The change from results ``before`` to results ``after``, each by its id; all are of one operator. O(results)."""
    if not before:
        return Delta(after)
    was = {event.id: event for event in before}
    delta = Delta()
    for event in after:
        old = was.pop(event.id, None)
        if old is None:
            delta.inserts.append(event)
        elif not same(old, event):
            delta.revises.append((old, event))
    delta.retracts = list(was.values())
    return delta


def does_not_fit(value: object) -> bool:
    """Whether a value is a whole number beyond 64 bits."""
    return value.__class__ is int and not -(2**63) <= value < 2**63


def beyond(event: Event, fields: Iterable[str]) -> str | None:
    """The error of a result if one of these fields is a whole number beyond 64 bits, which no event can carry; else None."""
    for name in fields:
        value = getattr(event, name)
        if does_not_fit(value):
            return (
                f"OverflowError: {name} of a {type_name(event.__class__)} at {event.ts} ns is {value}, which does not fit into "
                "64 bits: it is not published; calculate with floats where numbers become that large"
            )
    return None


def misfit(event: Event, given: str) -> str | None:
    """The fault of a result that was made without checks, if its type does not take the values ``given``; else None."""
    try:
        converted(astuple(event), getattr(event.__class__, "stands_for", event.__class__))
    except msgspec.ValidationError as error:
        return f"{type_name(event.__class__)} does not take what {given} at {event.ts} ns: {error}"
    return None


def withheld(operation: Operation, delta: Delta, wrong: Callable[[Event], str | None]) -> Delta:
    """A change of results without those that are ``wrong`` (the reason, in a line): these are quarantined while they stand.

    For readers they were never published. Whether a result is wrong must depend on it alone. O(results).
    """

    def was_published(event: Event) -> bool:
        if wrong(event) is None:
            return True
        operation.failures.pop(IDENTITY(event), None)
        return False

    def is_published(event: Event) -> bool:
        reason = wrong(event)
        if reason is not None:
            operation.fail(event, reason)
        return reason is None

    out = Delta(retracts=[event for event in delta.retracts if was_published(event)])
    for old, new in delta.revises:
        match was_published(old), is_published(new):
            case True, True:
                out.revises.append((old, new))
            case True, False:
                out.retracts.append(old)
            case False, True:
                out.inserts.append(new)
    out.inserts.extend([event for event in delta.inserts if is_published(event)])
    return out


def unchecked(event_type: EventType, values: Iterable[Value]) -> Event:
    """An event from the values of all its fields, without checks; one that its class refuses to make is of ``_bare``."""
    fields = dict(zip(event_type.__struct_fields__, values, strict=True))
    try:
        return event_type(**fields)
    except ENDING:
        raise
    except BaseException:  # of __post_init__, which is user code
        return _bare(event_type)(**fields)


@cache
def _bare(event_type: EventType) -> EventType:
    """A class with the same name and fields, and no code that runs when an event is made."""
    names = {"__post_init__": lambda event: None, "__module__": event_type.__module__, "stands_for": event_type}
    made: EventType = type(event_type)(event_type.__name__, (event_type,), names)  # type: ignore[misc]
    return made


def event_of(event_type: EventType, values: tuple[Value, ...]) -> Event:
    """An event from the values of all its fields; without checks if its type does not take them (see ``misfit``)."""
    try:
        event: Event = converted(values, event_type)
    except msgspec.ValidationError:
        return unchecked(event_type, values)
    return event


Failures = Mapping[Identity, tuple[Event, str]]


def packed(failures: Failures, result: EventType) -> list[tuple[Kept, str]]:
    """Failures with results of this type as plain tuples: types made at run time have no module to be pickled by."""
    return [(astuple(event) if isinstance(event, result) else event, text) for event, text in failures.values()]


def unpacked(kept: Iterable[tuple[Kept, str]], result: EventType) -> dict[Identity, tuple[Event, str]]:
    """The failures that ``packed`` was given."""
    events = [(each if isinstance(each, Event) else unchecked(result, each), text) for each, text in kept]
    return {IDENTITY(event): (event, text) for event, text in events}
