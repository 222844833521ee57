"""The aggregates of a window: a monoid over a field of the events, or over a function of them."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, replace
from dataclasses import field as declared
from datetime import date, datetime, timedelta
from decimal import Decimal
from operator import attrgetter, index
from typing import Any

from detectors.window.aggregation.monoid import Monoid, is_named
from detectors.window.aggregation.sketches import Filter, Sketch, hashed
from middleware.model.errors import WindowError
from middleware.model.event import Event, EventType, Value, type_name
from middleware.model.schema import hints_of, plain_type

Field = str | Callable[[Any], Value] | None

_LESS = attrgetter("__lt__")

_ORDERING = ("min", "max", "maxcount", "range", "exact_quantile")
"""Computations that compare values."""


def _float(value: Value) -> float:
    """As a float; texts are none."""
    return value.__float__()  # type: ignore[no-any-return]


def _int64(value: Value) -> int:
    number = index(value)
    if not -(2**63) <= number < 2**63:
        raise OverflowError(f"{number} does not fit into 64 bits")
    return number


_DIFFERENCES = {int: int, float: float, bool: int, Decimal: Decimal, date: timedelta, datetime: timedelta, timedelta: timedelta}
"""The types of the differences between two values, by the type of the values."""

_CHECKS: dict[str, Callable[[Value], Value]] = {"float": _float, "int": _int64, "any": lambda value: value}


@dataclass(frozen=True)
class Aggregate:
    """``monoid`` over ``field``: a field's name, a function of an event, or None to count events only.

    A value of None is left out, as in SQL. Over integer fields, a monoid's integer variant is used, if it has one.
    """

    monoid: Monoid
    field: Field = None
    kind: str = ""
    """The variant of the monoid that the type of the field has chosen, where that is not one of floats, int64 or texts."""
    of: Any = declared(default=Any, compare=False)
    """The type that the field declares, if all event types declare the same."""

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
    def gives(self) -> Any:
        """The type of the results, so that a reader on another node gets the same values; Any where it is not known."""
        if not is_named(self.monoid):
            return Any  # of a user
        native = self.monoid.native[1] if self.monoid.native else None
        of = {"int": int, "float": float}.get(native or "", self.of)
        match _computation(self.monoid):
            case "count":
                return int
            case "sum":
                return of
            case "distinct":
                return float
            case "bloom":
                return Filter
            case "min" | "max" | "first" | "last" | "exact_quantile":
                return of | None
            case "argmin" | "argmax":
                return (tuple[Any, Any] if of is Any else of) | None
            case "range":
                return _DIFFERENCES.get(_kind_of(of) or object, Any) | None
            case "maxcount":
                return tuple[of, int] | None  # type: ignore[valid-type]
            case "concat":
                return tuple[of, ...]  # type: ignore[valid-type]
        return float | None

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
    hints: set[Any] = set()
    for event_type in reads:
        if given.field not in event_type.__struct_fields__:
            raise WindowError(
                f"{type_name(event_type)} has no field {given.field!r}, which {given.monoid.name} is to be taken of"
            )
        hints.add(plain_type(hints_of(event_type).get(given.field)))
    return _over(given.monoid, given.field, hints)


def _kind_of(plain: Any) -> type | None:
    """The class of the values of a field of this type; None if they may be of several."""
    while isinstance(plain, typing.NewType):
        plain = plain_type(plain.__supertype__)
    if typing.get_origin(plain) is typing.Literal:
        kinds = {type(value) for value in typing.get_args(plain)} - {type(None)}
        return kinds.pop() if len(kinds) == 1 else None
    plain = typing.get_origin(plain) or plain
    return plain if isinstance(plain, type) and plain not in (Any, object) else None


def _members(plain: Any) -> tuple[Any, ...]:
    """The types that a union is of, but for None; any other type by itself."""
    if typing.get_origin(plain) not in (types.UnionType, typing.Union):
        return (plain,)
    return tuple(each for each in typing.get_args(plain) if each is not type(None))


def _over(monoid: Monoid, field: str, hints: set[Any]) -> Aggregate:
    """A monoid over a field of these types: what is chosen of its values stays what it is, what is computed is a number.

    Raises WindowError if it takes no such values.
    """
    kinds = {_kind_of(member) for hint in hints for member in _members(hint)}
    kind = next(iter(kinds)) if len(kinds) == 1 else None
    of = next(iter(hints)) if len(hints) == 1 else Any
    if kind is not None:
        _check_takes(monoid, field, kind)
    elif _computation(monoid) in _ORDERING and not _have_order(kinds):
        told = " and ".join(sorted("others" if each is None else each.__name__ for each in kinds))
        raise WindowError(f"{monoid.name} takes what has an order, and {field} is of {told}: between them there is none")
    if kind is float or not monoid.variants:
        return Aggregate(monoid, field, of=of)
    is_whole = kind is int or (kind is not None and issubclass(kind, int) and monoid.name in ("sum", "range"))
    variant = int if is_whole else str if kind is str else object
    chosen = monoid.variants.get(variant, monoid)
    is_new = chosen is not monoid and not hints <= {int, str}  # of a NewType or a Literal, too: they were floats
    return Aggregate(chosen, field, variant.__name__ if is_new else "", of)


def _computation(monoid: Monoid) -> str:
    """What a monoid computes, by its name without what it was made with: "quantile" of "quantile(0.9)"."""
    return monoid.name.partition("(")[0]


def _have_order(kinds: set[type | None]) -> bool:
    """Whether values of these classes can be compared: numbers, or all of one of the classes. Of what may be anything, yes."""
    known = [kind for kind in kinds if kind is not None]
    is_one = any(all(issubclass(kind, base) for kind in known) for base in known)
    return is_one or all(hasattr(kind, "__float__") for kind in known)


def _check_takes(monoid: Monoid, field: str, kind: type) -> None:
    where = f"{field} is of {kind.__name__}"
    if monoid.name in ("argmin", "argmax") and not issubclass(kind, tuple):
        raise WindowError(
            f"{monoid.name} takes pairs (number, anything), and {where}: give a function, such as lambda e: (e.{field}, e)"
        )
    takes_floats = monoid.native is not None and monoid.native[1] == "float" and object not in monoid.variants
    takes_floats |= _computation(monoid) in ("median", "quantile")
    if takes_floats and not hasattr(kind, "__float__"):
        raise WindowError(f"{monoid.name} takes numbers, and {where}")
    if _computation(monoid) in _ORDERING and (_LESS(kind) is _LESS(object) or issubclass(kind, dict | complex)):
        raise WindowError(f"{monoid.name} takes what has an order, and {where}")
    if monoid.name == "range" and not hasattr(kind, "__sub__"):
        raise WindowError(f"{monoid.name} takes what has differences, and {where}")
