"""Monoids: the aggregations of windows. They must be associative; declared commutativity saves work."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from middleware.model.errors import WindowError
from middleware.model.event import Value

Place = Any
"""The place of an entry: a time (int), or a place in the total order; bare times can bound places, too."""

Partial = Any
"""A partial aggregate: made from values and combined, before it is lowered to a result."""


@dataclass(frozen=True, kw_only=True)
class Monoid:
    """lift, combine, lower: from a value to an aggregate, from two aggregates in order to one, from an aggregate to a result.

    ``combine``
        associative, with ``identity`` neutral on both sides; it must not change its arguments. The older comes first.
    ``commutative``
        declares that the order never affects an aggregate, to the last bit. It saves combines and is never required.
    ``native``
        the (name, type) under which the native core knows the same monoid, or None: then the core calls these functions.
    ``variants``
        the same aggregation over other types of values, as in ``SUM.of(int)``.

    >>> longest = Monoid(name="longest", identity="", lift=str, combine=lambda a, b: b if len(b) > len(a) else a)
    >>> longest.fold(["an", "event", "stream"])
    'stream'
    """

    name: str
    identity: Partial
    combine: Callable[[Partial, Partial], Partial]
    lift: Callable[[Value], Partial] = lambda value: value
    lower: Callable[[Partial], Value] = lambda aggregate: aggregate
    commutative: bool = False
    native: tuple[str, str] | None = None
    variants: dict[type, Monoid] = field(default_factory=dict, repr=False, compare=False)

    def of(self, kind: type) -> Monoid:
        """This aggregation over values of another type. Raises WindowError if there is none."""
        if self.native is None or self.native[1] in (kind.__name__, "any"):
            return self
        if kind not in self.variants:
            known = ", ".join(sorted({self.native[1], *(variant.__name__ for variant in self.variants)}))
            raise WindowError(f"{self.name} is not defined over {kind.__name__}: it takes {known}")
        return self.variants[kind]

    def plain(self) -> Monoid:
        """The same monoid, computed by these functions even if the native core knows it."""
        return replace(self, native=None)

    def fold(self, values: Iterable[Value]) -> Value:
        """The result for values in order, folded one by one: every window must equal this. O(n)."""
        aggregate = self.identity
        for value in values:
            aggregate = self.combine(aggregate, self.lift(value))
        return self.lower(aggregate)

    def __reduce__(self) -> str | tuple[object, ...]:
        """Built-in monoids are pickled by name; others must consist of functions that can be pickled."""
        return _NAMED.get(id(self)) or super().__reduce__()


_NAMED: dict[int, tuple[object, ...]] = {}
"""How to find monoids that live as long as the process, by their id."""


def named(monoid: Monoid, find: Callable[..., Monoid], *arguments: object) -> None:
    """Pickle a monoid that lives as long as the process as ``find(*arguments)``."""
    _NAMED.setdefault(id(monoid), (find, arguments))


def is_named(monoid: Monoid) -> bool:
    """Whether this is a built-in monoid, of which is known what it gives."""
    return id(monoid) in _NAMED


@dataclass(frozen=True, kw_only=True)
class Group(Monoid):
    """A commutative monoid with an inverse: values can be removed again. No window here needs that.

    ``inverse``
        combine(a, inverse(a)) is exactly the identity: sums of floats are kept exact, not rounded.
    """

    inverse: Callable[[Partial], Partial]
    commutative: bool = True
