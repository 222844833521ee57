"""The aggregates of a window: a monoid over a field of the events, or over a function of them."""

from __future__ import annotations

import typing
from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import attrgetter, index
from typing import Any

from detectors.window.monoid import Monoid
from detectors.window.sketches import Sketch, hashed
from middleware.model.errors import WindowError
from middleware.model.event import Event, EventType, Value, type_name
from middleware.model.schema import plain_type

Field = str | Callable[[Any], Value] | None


def _float(value: Value) -> float:
    """As a float; texts are none."""
    return value.__float__()  # type: ignore[no-any-return]


def _int64(value: Value) -> int:
    number = index(value)
    if not -(2**63) <= number < 2**63:
        raise OverflowError(f"{number} does not fit into 64 bits")
    return number


_CHECKS: dict[str, Callable[[Value], Value]] = {"float": _float, "int": _int64, "any": lambda value: value}


@dataclass(frozen=True)
class Aggregate:
    """``monoid`` over ``field``: a field's name, a function of an event, or None to count events only.

    A value of None is left out, as in SQL. Over integer fields, a monoid's integer variant is used, if it has one.
    """

    monoid: Monoid
    field: Field = None

    def value(self) -> Callable[[Event], Value]:
        """The function that takes the tree's value from an event. It may raise: then the event is at fault."""
        prepare = _CHECKS[self.monoid.native[1]] if self.monoid.native else self.monoid.lift
        if isinstance(self.monoid, Sketch):
            prepare = _hashable
        if self.field is None:
            return lambda event: 1
        get = attrgetter(self.field) if isinstance(self.field, str) else self.field

        def value(event: Event) -> Value:
            found = get(event)
            return None if found is None else prepare(found)

        return value

    @property
    def may_overflow(self) -> bool:
        """Whether results may be whole numbers beyond 64 bits although the aggregated values are not."""
        native = self.monoid.native
        return native is None or (native[1] == "int" and self.monoid.name in ("sum", "range"))

    def tree_monoid(self) -> Monoid:
        """The monoid over such values."""
        return self.monoid if self.monoid.native else replace(self.monoid, lift=_itself)


def _itself(value: Value) -> Value:
    return value


def _hashable(value: Value) -> Value:
    hashed(value)
    return value


def aggregate_of(given: Aggregate | Monoid | tuple[Monoid, Field], reads: tuple[EventType, ...]) -> Aggregate:
    """An aggregate as a user writes it, over these event types. Raises WindowError if it makes no sense."""
    if isinstance(given, Monoid):
        given = Aggregate(given)
    elif isinstance(given, tuple):
        given = Aggregate(*given)
    if not isinstance(given, Aggregate) or not isinstance(given.monoid, Monoid):
        raise WindowError(f"{given!r} is no aggregate: give a monoid, or a monoid and a field")
    if given.field is None and given.monoid.name != "count":
        raise WindowError(
            f"{given.monoid.name} of what? Only COUNT needs no field: give a pair ({given.monoid.name.upper()}, field)"
        )
    if not isinstance(given.field, str):
        return given
    kinds = set()
    for event_type in reads:
        if given.field not in event_type.__struct_fields__:
            raise WindowError(
                f"{type_name(event_type)} has no field {given.field!r}, which {given.monoid.name} is to be taken of"
            )
        kinds.add(plain_type(typing.get_type_hints(event_type).get(given.field)))
    (kind,) = kinds if len(kinds) == 1 else (None,)
    monoid = given.monoid
    return Aggregate(monoid.of(kind) if kind in (int, str) and kind in monoid.variants else monoid, given.field)
