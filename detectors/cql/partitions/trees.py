"""Large windows: their aggregates come from trees (``detectors.window.Fiba``) that all windows of a partition share.

Folding is faster for a window of few tuples, and for one that shares few with the next; all others are looked up. Both ways
give the same bits; only the time differs, O(log n) instead of O(n) per window.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from detectors.cql.planning.query_plan import WindowQueryPlan
from detectors.cql.planning.window_plans import Shape, WindowPlan
from detectors.language.aggregate_functions import PLACE, SQUARED, QueryAggregate, root
from detectors.language.code import Code
from detectors.language.expression import NULL, Conditional, Expression, Parenthesis
from detectors.language.value_types import INTEGERS, LIMITS, REALS, Type
from detectors.language.values import within
from detectors.window.aggregation.fiba import Fiba
from detectors.window.aggregation.monoid import Monoid, Partial
from detectors.window.aggregation.monoids import (
    ARGMAX,
    ARGMIN,
    COUNT,
    FIRST,
    LAST,
    MAX,
    MAXCOUNT,
    MEAN,
    MIN,
    RANGE,
    SAMPLE_VARIANCE,
    SUM,
    VARIANCE,
)
from detectors.window.aggregation.moving import MovingContent, Ranks, ValueCounts
from detectors.window.aggregation.ranks import middle, ranked
from detectors.window.content import Forest
from middleware.model.event import ORDER, Event, Key, Order, Value

SMALL = 128
"""Windows of up to this many tuples are folded."""

STEPS = 32
"""Windows are folded, too, if each tuple is in at most this many."""

COSTLY = 16
"""The same limit as SMALL for sums of squares, which cost more to fold."""


class Refold(Exception):
    """A window holds numbers beyond the range of trees, so it must be folded."""


class TupleRange(NamedTuple):
    """A window that is looked up: its number of tuples, the first and the last."""

    size: int
    first: Event
    last: Event


class TreeContent(NamedTuple):
    """The content of a tree: a monoid, or the kind of a moving window's content; and the value a tuple adds (None: nothing)."""

    kind: Monoid | type[ValueCounts | Ranks]
    value: Callable[[Event], Value]

    def tree(self) -> Value:
        """An empty tree."""
        return Fiba(self.kind, ordered=True) if isinstance(self.kind, Monoid) else MovingContent(self.kind)


class TreeAggregate(NamedTuple):
    """An aggregate: the numbers of its trees, and a function of the window and their results."""

    sources: tuple[int, ...]
    finish: Callable[..., Value]


class TreePlan:
    """The trees that a query needs.

    ``first``
        the number of the tree that gives the first tuple that counts, if not all do.
    ``small``
        windows of up to this many tuples are folded.
    ``sums_up``
        whether tuples can be replaced by a partial aggregate.
    """

    def __init__(self, plan: WindowQueryPlan) -> None:
        self._frame, self._after = plan.frame, plan.after
        self.sources: list[TreeContent] = []
        self._known: dict[Key, int] = {}
        self.first = None if plan.after is None else self._source("event", FIRST.of(object), ("e",))
        self.parts = [self._part(aggregate, list(arguments)) for aggregate, arguments in plan.aggregates]
        names = {aggregate.name for aggregate, _ in plan.aggregates}
        self.small = min(SMALL, COSTLY) if names & _SQUARES.keys() else SMALL
        is_total = not names & {*_SQUARES, "geomean"} and all(isinstance(source.kind, Monoid) for source in self.sources)
        self.sums_up = is_total and plan.after is None

    def _source(self, name: str, kind: Value, shown: Sequence[str], arguments: Sequence[Code] = (), lift: Value = None) -> int:
        """The number of a tree of a kind over ``shown``, the value a tuple adds, with {0} and {1} for its known arguments."""
        key = (name, tuple(shown), tuple(arguments))
        if key not in self._known:
            text = shown[0] if len(shown) == 1 else f"({', '.join(shown)})"
            called = text if lift is None else f"{self._frame.constant(lift)}({text})"
            code = self._frame.strict(arguments, lambda *names: Expression(called.format(*names)))
            if self._after is not None:
                code = Parenthesis(Conditional(self._after.holds, code, NULL))
            self._known[key] = len(self.sources)
            self.sources.append(TreeContent(kind, self._frame.function("e", code)))
        return self._known[key]

    def _part(self, aggregate: QueryAggregate, arguments: list[Code]) -> TreeAggregate:
        name, kind = aggregate.name, arguments[0].type if arguments else Type.NULL
        is_partial = self._after is not None or any(code.nullable for code in arguments)

        def source(monoid: Value, *shown: str, lift: Value = None) -> int:
            label = monoid.name if isinstance(monoid, Monoid) else monoid.__name__
            return self._source(f"{label} {lift}", monoid, shown or ("{0}",), arguments, lift)

        def counted() -> int:
            return self._source("count", COUNT, ("1",), [code for code in arguments if code.nullable])

        if name == "count":
            return TreeAggregate((counted(),), _given) if is_partial else TreeAggregate((), lambda window: window.size)
        if name in ("first", "last"):
            if is_partial:
                return TreeAggregate((source((FIRST if name == "first" else LAST).of(object)),), _given)
            value = self._frame.function("e", arguments[0].value)
            return TreeAggregate((), lambda window: value(window.first if name == "first" else window.last))
        if name in _NUMBERS:
            monoid, finish = _NUMBERS[name]
            if is_partial and name == "sum":
                return TreeAggregate(
                    (source(_of(monoid, kind)), counted()), lambda window, total, n: finish(window, total) if n else None
                )
            return TreeAggregate((source(_of(monoid, kind)),), finish)
        if name == "avg":
            return TreeAggregate((source(MEAN, lift=float if kind in INTEGERS else None),), _given)
        if name in _SQUARES:
            return TreeAggregate(
                (source(_SQUARES[name], lift=_squared),), _deviation if name.startswith("stddev") else _variance
            )
        match name:
            case "geomean":
                return TreeAggregate((source(MEAN, lift=_logarithm),), _power)
            case "argmin" | "argmax":
                return TreeAggregate(
                    (source(_ARGS[name], "{1}", "{0}"),), lambda window, pair: None if pair is None else pair[1]
                )
            case "median":
                return TreeAggregate((source(Ranks),), _median)
            case "quantile":
                return TreeAggregate((source(Ranks, "{0}"), source(LAST.of(object), "{1}")), _quantile)
            case "count_distinct":
                return TreeAggregate((source(ValueCounts),), lambda window, counts: len(counts))
        raise AssertionError(f"no tree serves {name}: give it one, or have tree_plan fold it")


def tree_plan(plan: WindowQueryPlan) -> TreePlan | None:
    """The plan for aggregating large windows of a query, or None if all are folded."""
    if plan.group or not plan.aggregates or plan.ranking is not None or not _overlaps(plan.window):
        return None
    if any(name.endswith(("distinct", PLACE)) and name != "count_distinct" for (name, *_), _ in plan.aggregates):
        return None
    return TreePlan(plan)


def _overlaps(window: WindowPlan) -> bool:
    """Whether a tuple is in many windows."""
    if window.size is None or window.shape is not Shape.SIZE:
        return window.shape is Shape.LANDMARK
    return window.size.measure is not window.slide.measure or window.size.amount > STEPS * window.slide.amount


class Trees:
    """The trees of a partition that has had a large window. Raises OverflowError for numbers that no tree takes."""

    def __init__(self, plan: TreePlan, events: list[Event], orders: list[Order]) -> None:
        self._plan = plan
        self._forest = Forest(source.tree() for source in plan.sources)
        self._insert(events, orders)

    def _insert(self, events: list[Event], orders: list[Order]) -> None:
        self._forest.insert(orders, [list(map(source.value, events)) for source in self._plan.sources])

    def change(self, retracts: list[Event], inserts: list[Event]) -> None:
        """Remove and insert tuples. O(log d) each."""
        self._forest.evict(map(ORDER, retracts))
        if inserts:
            inserts = sorted(inserts, key=ORDER)
            self._insert(inserts, list(map(ORDER, inserts)))

    def forget(self, last: Order) -> None:
        """Forget all tuples up to one."""
        self._forest.drop(last)

    def values(self, events: list[Event], orders: list[Order], low: int, high: int) -> tuple[Event | None, tuple[Value, ...]]:
        """The first of the tuples [low, high) that counts (None: none does), and their aggregates. O(log n) each.

        Raises Refold if the window holds values that trees do not take.
        """
        found = self._forest.results(orders[low], orders[high - 1])
        window = TupleRange(high - low, events[low], events[high - 1])
        return window.first if self._plan.first is None else found[self._plan.first], _finished(self._plan, window, found)


class Prefix:
    """The final part of a landmark window's content: one partial aggregate instead of tuples."""

    def __init__(self, plan: TreePlan, state: tuple[TupleRange, list[Partial]] | None = None) -> None:
        self._plan = plan
        self._monoids = [source.kind.plain() for source in plan.sources if isinstance(source.kind, Monoid)]
        self.window = None if state is None else state[0]
        self.partials = [monoid.identity for monoid in self._monoids] if state is None else state[1]

    def add(self, events: list[Event]) -> None:
        """Add tuples that come after those it has. O(tuples)."""
        self.window, self.partials = self._with(events)

    def _with(self, events: list[Event]) -> tuple[TupleRange, list[Partial]]:
        combined = []
        for monoid, source, partial in zip(self._monoids, self._plan.sources, self.partials, strict=True):
            for event in events:
                value = source.value(event)
                partial = partial if value is None else monoid.combine(partial, monoid.lift(value))
            combined.append(partial)
        if self.window is None:
            return TupleRange(len(events), events[0], events[-1]), combined
        size, first, last = self.window
        return TupleRange(size + len(events), first, events[-1] if events else last), combined

    def values(self, events: list[Event]) -> tuple[Event, tuple[Value, ...]]:
        """The first tuple of all, and the aggregates of its content together with these later tuples. O(tuples)."""
        window, partials = self._with(events)
        found = [monoid.lower(partial) for monoid, partial in zip(self._monoids, partials, strict=True)]
        return window.first, _finished(self._plan, window, found)


def _finished(plan: TreePlan, window: TupleRange, found: list[Value]) -> tuple[Value, ...]:
    return tuple([part.finish(window, *[found[number] for number in part.sources]) for part in plan.parts])


# from the results of trees to values


def _of(monoid: Monoid, kind: Type) -> Monoid:
    """The monoid over values of a type."""
    return monoid if kind in REALS else monoid.of(int if kind in INTEGERS or kind is Type.DATETIME else object)


def _given(window: TupleRange, value: Value) -> Value:
    return value


def _whole(window: TupleRange, value: Value) -> Value:
    return within(value, LIMITS[Type.LONG]) if value.__class__ is int else value


def _squared(value: float) -> float:
    """A number whose square is exact in two, or NaN."""
    value = float(value)
    return value if value == 0 or 1 / SQUARED <= abs(value) <= SQUARED else math.nan


def _variance(window: TupleRange, value: float | None) -> float | None:
    if value is not None and math.isnan(value):
        raise Refold
    return value


def _deviation(window: TupleRange, value: float | None) -> float | None:
    return root(_variance(window, value))


def _logarithm(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf if value == 0 else math.nan


def _power(window: TupleRange, mean: float | None) -> float | None:
    if mean is None:
        return None
    if math.isnan(mean):
        raise Refold
    try:
        return math.exp(mean)
    except OverflowError:
        raise Refold from None


def _median(window: TupleRange, ranks: Ranks) -> float | None:
    return math.nan if ranks.nans else middle(ranks) if len(ranks) else None


def _quantile(window: TupleRange, ranks: Ranks, q: float | None) -> Value:
    if q is None:
        return None
    return math.nan if ranks.nans and 0 <= q <= 1 else ranked(ranks, q)


_ARGS = {"argmin": ARGMIN, "argmax": ARGMAX}
_SQUARES = {"variance": SAMPLE_VARIANCE, "stddev": SAMPLE_VARIANCE, "var_pop": VARIANCE, "stddev_pop": VARIANCE}
_NUMBERS: dict[str, tuple[Monoid, Callable[[TupleRange, Value], Value]]] = {
    "sum": (SUM, _whole),
    "min": (MIN, _given),
    "max": (MAX, _given),
    "range": (RANGE, _whole),
    "max_count": (MAXCOUNT, lambda window, found: found[1] if found else 0),
}
