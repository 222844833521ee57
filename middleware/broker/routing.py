"""Subscription tables: who subscribes to a type. A pattern is a type's exact name, ``prefix.*``, or ``*``."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import Generic, TypeVar

from middleware.model.errors import EventError

Subscriber = TypeVar("Subscriber", bound=Hashable)


def check_pattern(pattern: str) -> str:
    """The pattern itself. Raises EventError for a star anywhere but at the end, after a dot or alone."""
    stem = pattern.removesuffix("*")
    if not pattern or "*" in stem or (stem != pattern and stem and not stem.endswith(".")):
        raise EventError(f"{pattern!r} is no subscription: give a type name such as 'soccer.Hit', 'soccer.*', or '*'")
    return pattern


def matches(pattern: str, type_name: str) -> bool:
    """Whether a pattern covers a type name.

    >>> matches("soccer.*", "soccer.Hit"), matches("soccer.Hit", "soccer.HitBack"), matches("*", "Hit")
    (True, False, True)
    """
    if pattern.endswith("*"):
        return type_name.startswith(pattern[:-1])
    return pattern == type_name


def is_subscribed(patterns: Collection[str], type_name: str) -> bool:
    """Whether any of the patterns, best given as a set, covers the type name. O(dots in the name)."""
    if not patterns:
        return False
    if type_name in patterns or "*" in patterns:
        return True
    dot = type_name.find(".")
    while dot >= 0:
        if type_name[: dot + 1] + "*" in patterns:
            return True
        dot = type_name.find(".", dot + 1)
    return False


def fitted(patterns: Collection[str], most: int, most_bytes: int) -> list[str]:
    """At most ``most`` patterns, of ``most_bytes`` in all, that cover at least what the given ones do; sorted.

    If they are too many, they are widened, ``a.b.C`` to ``a.b.*``, then to ``a.*`` and ``*``: the deepest first, so that they
    cover as little as possible that no one asked for.

    >>> fitted(["b.x.C", "b.x.D", "A"], 2, 100)
    ['A', 'b.x.*']
    """
    found = frozenset(patterns)
    while len(found) > most or sum(map(len, found)) > most_bytes:
        deepest = max(map(_depth, found))
        found = frozenset(_widened(pattern) if _depth(pattern) == deepest else pattern for pattern in found)
    return sorted(pattern for pattern in found if not _is_covered_by_another(pattern, found))


def _depth(pattern: str) -> int:
    return 0 if pattern == "*" else 1 + pattern.count(".")


def _widened(pattern: str) -> str:
    stem, _, _ = pattern.removesuffix(".*").rpartition(".")
    return f"{stem}.*" if stem else "*"


def is_covered(pattern: str, patterns: frozenset[str]) -> bool:
    """Whether one of the patterns covers all that this one does."""
    return pattern in patterns or _is_covered_by_another(pattern, patterns)


def _is_covered_by_another(pattern: str, patterns: frozenset[str]) -> bool:
    """Whether another of the patterns covers all that this one does."""
    while pattern != "*":
        pattern = _widened(pattern)
        if pattern in patterns:
            return True
    return False


MOST_ROUTES = 65_536
"""Most types whose routes are kept; when there are more, all are looked up anew."""


class RoutingTable(Generic[Subscriber]):
    """Subscribers with their patterns. Looking a known type up is one dict access; a change forgets what was looked up."""

    def __init__(self) -> None:
        self._patterns: dict[Subscriber, frozenset[str]] = {}
        self._routes: dict[str, tuple[Subscriber, ...]] = {}

    def subscribe(self, subscriber: Subscriber, patterns: Iterable[str]) -> None:
        """Let ``subscriber`` subscribe to ``patterns``, and to nothing else, from now on; none at all removes it."""
        self._routes.clear()
        if kept := frozenset(patterns):
            self._patterns[subscriber] = kept
        else:
            self._patterns.pop(subscriber, None)

    def route(self, type_name: str) -> tuple[Subscriber, ...]:
        """The subscribers to this type, each once, in order of first subscription."""
        found = self._routes.get(type_name)
        if found is None:
            if len(self._routes) >= MOST_ROUTES:  # names come from outside: a flood of them must not fill the memory
                self._routes.clear()
            found = tuple(who for who, patterns in self._patterns.items() if is_subscribed(patterns, type_name))
            self._routes[type_name] = found
        return found

    def check(self) -> None:
        assert len(self._routes) <= MOST_ROUTES, "names that come from outside fill the memory"

    def patterns(self, subscribers: Iterable[Subscriber] | None = None) -> frozenset[str]:
        """All patterns of the given subscribers (default: all)."""
        chosen = self._patterns if subscribers is None else [who for who in subscribers if who in self._patterns]
        return frozenset().union(*(self._patterns[who] for who in chosen))
