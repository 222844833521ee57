"""Large windows: their aggregates come from finger B-trees (``detectors.window.Fiba``) that all windows of a partition share.

A window of few tuples is folded faster than it is looked up. Which way is taken depends on how many tuples it holds, and both
give the same bits, so nothing shows of it but the time it takes: O(log n) instead of O(n) a window.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from detectors.cql.plan import Windowed
from detectors.language.aggregates import Aggregate
from detectors.language.code import Code
from detectors.language.types import Type
from detectors.window.fiba import Aggregator, Fiba
from detectors.window.monoid import Monoid
from detectors.window.monoids import COUNT, FIRST, LAST, MAX, MEAN, MIN, RANGE, SUM
from middleware.event import ORDER, Event, Order

SMALL = 128
"""Windows of up to so many tuples are folded."""

_NARROW = frozenset({Type.BYTE, Type.SHORT, Type.INT})
_MONOIDS = {"sum": SUM, "avg": MEAN, "min": MIN, "max": MAX, "range": RANGE}
_Value = Callable[[Event], Any]


class TreePlan:
    """Which aggregates of a query come from trees, and how. ``parts``: for each aggregate, its tree's number, or a function."""

    def __init__(self, plan: Windowed) -> None:
        self.trees: list[tuple[Monoid, _Value]] = []
        self.parts: list[int | Callable[[list[Event], int, int], Any]] = []
        self.folds: list[tuple[Monoid, _Value]] = []
        for aggregate, arguments in plan.aggregates:
            self.parts.append(self._part(plan, aggregate, arguments))

    def _part(self, plan: Windowed, aggregate: Aggregate, arguments: tuple[Code, ...]) -> Any:
        if aggregate.name == "count":
            self.folds.append((COUNT, lambda event: event))
            return lambda events, low, high: high - low
        value = plan.frame.function("e", arguments[0].value)
        if aggregate.name == "first":
            self.folds.append((FIRST, value))
            return lambda events, low, high: value(events[low])
        if aggregate.name == "last":
            self.folds.append((LAST, value))
            return lambda events, low, high: value(events[high - 1])
        monoid = _MONOIDS[aggregate.name]
        is_whole = arguments[0].type in _NARROW
        if is_whole and aggregate.name == "avg":
            self.trees.append((monoid, lambda event: float(value(event))))
        else:
            self.trees.append((monoid.of(int) if is_whole else monoid, value))
        self.folds.append(self.trees[-1])
        return len(self.trees) - 1


def tree_plan(plan: Windowed) -> TreePlan | None:
    """How large windows of a query are aggregated, or None if they must be folded."""
    if plan.after is not None or plan.group or not plan.aggregates:
        return None
    for aggregate, arguments in plan.aggregates:
        if any(code.nullable for code in arguments):
            return None
        if aggregate.name in ("count", "first", "last"):
            continue
        if aggregate.name not in _MONOIDS or arguments[0].type not in _NARROW | {Type.DOUBLE, Type.FLOAT}:
            return None
    return TreePlan(plan)


class Trees:
    """The trees of one partition, once it has had a large window."""

    def __init__(self, plan: TreePlan, events: list[Event], orders: list[Order]) -> None:
        self._plan = plan
        self._trees: list[tuple[Aggregator, _Value]] = [(Fiba(monoid, ordered=True), value) for monoid, value in plan.trees]
        self._insert(events, orders)

    def _insert(self, events: list[Event], orders: list[Order]) -> None:
        for tree, value in self._trees:
            tree.bulk_insert(orders, list(map(value, events)))

    def change(self, retracts: list[Event], inserts: list[Event]) -> None:
        """Take tuples out and in. O(log d) each."""
        for event in retracts:
            order = ORDER(event)
            for tree, _ in self._trees:
                tree.evict(order)
        if inserts:
            inserts = sorted(inserts, key=ORDER)
            self._insert(inserts, list(map(ORDER, inserts)))

    def forget(self, last: Order) -> None:
        """Forget all tuples up to one."""
        for tree, _ in self._trees:
            tree.bulk_evict(last)

    def values(self, events: list[Event], orders: list[Order], low: int, high: int) -> tuple[Any, ...]:
        """The aggregates of the tuples [low, high). O(log n) each."""
        first, last = orders[low], orders[high - 1]
        found = [tree.range_query(first, last) for tree, _ in self._trees]
        return tuple([found[part] if isinstance(part, int) else part(events, low, high) for part in self._plan.parts])


class Prefix:
    """What a landmark window has held for so long that nothing can change it: one partial aggregate instead of tuples."""

    def __init__(self, plan: TreePlan, first: Event, partials: list[Any] | None = None) -> None:
        self.first = first
        self._folds = [(monoid.plain(), value) for monoid, value in plan.folds]
        self.partials = partials if partials is not None else [monoid.identity for monoid, _ in self._folds]

    def add(self, events: list[Event]) -> None:
        """Take in tuples that come behind those it has. O(tuples)."""
        self.partials = self._combined(events)

    def _combined(self, events: list[Event]) -> list[Any]:
        combined = []
        for (monoid, value), partial in zip(self._folds, self.partials, strict=True):
            for event in events:
                partial = monoid.combine(partial, monoid.lift(value(event)))
            combined.append(partial)
        return combined

    def values(self, events: list[Event]) -> tuple[Any, ...]:
        """The aggregates of what it has and of these tuples behind it. O(tuples)."""
        return tuple([monoid.lower(partial) for (monoid, _), partial in zip(self._folds, self._combined(events), strict=True)])
