"""Results of operators: whether two are the same to everyone, and what becomes of numbers that cannot go out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import astuple

from middleware.change import Delta
from middleware.event import IDENTITY, Event, EventType, Identity, type_name
from middleware.operator import Operation
from middleware.state import exactly


def same(one: Event, other: Event) -> bool:
    """Whether nobody could tell two results apart: zeros by their sign, NaNs not at all."""
    return exactly(one, other) if one == other else repr(one) == repr(other)


def is_beyond(value: Any) -> bool:
    """Whether a value is a whole number beyond 64 bits, which no event can carry to another node."""
    return value.__class__ is int and not -(2**63) <= value < 2**63


def withheld(operation: Operation, delta: Delta, fields: Iterable[str]) -> Delta:
    """A change of results without those that have a number beyond 64 bits in one of these fields: these are quarantined.

    They count as never published, and leave quarantine when they are withdrawn. O(results).
    """
    names = tuple(fields)

    def beyond(event: Event) -> str | None:
        return next((name for name in names if is_beyond(getattr(event, name))), None)

    return _without(operation, delta, beyond)


def _without(operation: Operation, delta: Delta, beyond: Callable[[Event], str | None]) -> Delta:
    def gone(event: Event) -> bool:
        """Whether a result that is withdrawn had been published."""
        if beyond(event) is None:
            return True
        operation.failures.pop(IDENTITY(event), None)
        return False

    def comes(event: Event) -> bool:
        field = beyond(event)
        if field is None:
            return True
        operation.fail(event, _reason(event, field))
        return False

    out = Delta(retracts=[event for event in delta.retracts if gone(event)])
    for old, new in delta.revises:
        match gone(old), comes(new):
            case True, True:
                out.revises.append((old, new))
            case True, False:
                out.retracts.append(old)
            case False, True:
                out.inserts.append(new)
    out.inserts += [event for event in delta.inserts if comes(event)]
    return out


def _reason(event: Event, field: str) -> str:
    """In one line, for reports."""
    return (
        f"OverflowError: {field} of a {type_name(event.__class__)} at {event.ts} ns is {getattr(event, field)}, which does not "
        f"fit into 64 bits: it is not published; calculate with floats where numbers become that large"
    )


Failures = Mapping[Identity, tuple[Event, str]]


def packed(failures: Failures, result: EventType) -> list[tuple[Any, str]]:
    """Failures with results of this type as plain tuples: types that are made have no module that they could be pickled by."""
    return [(astuple(event) if event.__class__ is result else event, text) for event, text in failures.values()]


def unpacked(kept: Iterable[tuple[Any, str]], result: EventType) -> dict[Identity, tuple[Event, str]]:
    """What ``packed`` was given."""
    names = result.__struct_fields__
    events = [(each if isinstance(each, Event) else result(**dict(zip(names, each, strict=True))), text) for each, text in kept]
    return {IDENTITY(event): (event, text) for event, text in events}
