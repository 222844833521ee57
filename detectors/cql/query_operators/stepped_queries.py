"""Queries over aligned windows of time whose aggregates the native core keeps, for all keys at once (``detectors.window``).

It gives the same results as ``windowed``, to the last bit and the identity. ``windowed`` chooses between the two at the start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec.structs import replace

from detectors.cql.grammar.statements import ExecutionModel
from detectors.cql.planning.query_plan import WindowQueryPlan
from detectors.cql.planning.window_plans import Measure, Shape, WindowPlan
from detectors.cql.query_operators.tuple_columns import places
from detectors.language.aggregate_functions import QueryAggregate
from detectors.language.code import Code
from detectors.language.expression import ElementRead, Expression
from detectors.language.value_types import LIMITS, Type
from detectors.language.values import within
from detectors.language.written import ExpressionWriter, NotPlainError, tuples_named
from detectors.operator_columns import joined
from detectors.outcomes import difference
from detectors.window.kinds import Hopping
from detectors.window.steps import Column, Row, SteppedOperation, Steps, is_in_step
from middleware import native
from middleware.model.block.arrays import flags
from middleware.model.change import Delta
from middleware.model.event import Event, Key

_NARROW = frozenset({Type.BYTE, Type.SHORT, Type.INT})
_KEYS = frozenset({Type.STRING, Type.CHAR, Type.BOOLEAN, Type.DATETIME, Type.BYTE, Type.SHORT, Type.INT, Type.LONG})
_NAMES = {"sum": "total", "avg": "mean", "min": "min", "max": "max", "range": "range", "median": "median", "count": "count"}
"""The native core's names of aggregates that are NULL of no values, but for counts."""

Made = Callable[[list[Row]], list[Event]]
"""Makes results from rows."""


def can_run(plan: WindowQueryPlan) -> bool:
    """Whether the native core can run these windows."""
    window = plan.window
    if window.shape is not Shape.SIZE or window.model is not ExecutionModel.TUPLE or window.start is not None:
        return False
    if window.size is None or {window.size.measure, window.slide.measure} != {Measure.TS} or not is_in_step(_hopping(window)):
        return False
    if plan.group or plan.after is not None or not plan.aggregates or plan.ranking is not None:
        return False
    keys = all(code.type in _KEYS and code.field_of("e") is not None for code in plan.partition)
    return keys and all(_column(*each) is not None for each in plan.aggregates)


def _hopping(window: WindowPlan) -> Hopping:
    assert window.size is not None
    return Hopping(window.size.amount, window.slide.amount, window.phase)


def _column(aggregate: QueryAggregate, arguments: tuple[Code, ...]) -> tuple[str, Column | None] | None:
    """The native core's name of an aggregate, and the column it reads; None if it has no such aggregate."""
    if aggregate.name == "count" and all(not code.nullable for code in arguments):
        return "count", None
    name = _NAMES.get(aggregate.name)
    if name is None or len(arguments) != 1:
        return None
    field = arguments[0].field_of("e")
    kind = arguments[0].type
    if field is None or kind not in _NARROW | {Type.DOUBLE, Type.FLOAT}:
        return None
    return name, (field, kind not in _NARROW or name in ("mean", "median"))


def _shown(key: Key, known: Key) -> Row:
    """The columns of a key in results: unchanged, but zeros lose their sign, so that results never show which came first."""
    return tuple([part + 0.0 if part.__class__ is float else part for part in (key if isinstance(key, tuple) else (key,))])


def _keys_of(plan: WindowQueryPlan) -> list[str]:
    """The fields by which windows are keyed."""
    return [field for code in plan.partition if (field := code.field_of("e")) is not None]


def _plain(plan: WindowQueryPlan, names: list[Expression]) -> tuple[list[int], Made] | None:
    """The layout of rows that are results already, if each column is one of the parts of rows; else None."""
    columns = [column.value for column in plan.ordered]
    if plan.having is not None or any(column not in names for column in columns):
        return None
    results: Any = list[plan.target.event_type]  # type: ignore[name-defined]
    return [*map(names.index, columns), *range(len(names), len(names) + 4)], lambda rows: msgspec.convert(rows, results)


def _computed(plan: WindowQueryPlan, names: list[Expression], parameters: dict[str, object]) -> tuple[list[int], Made]:
    """The layout of rows with all parts, and code that makes results from them, for computed columns."""
    keys, values = len(plan.partition), len(plan.aggregates)
    key = msgspec.defstruct("Key", [(field, Any) for field in _keys_of(plan)], gc=False)
    parts = (
        f"for r in rows for e in (Key_(*r[:{keys}]),) for w in (r[{keys}:{keys + 2}],) "
        f"for a in (r[{keys + 2}:{keys + 2 + values}],)"
    )
    test = f" if {plan.having.holds}" if plan.having is not None else ""
    code = f"def made(rows):\n    return [{plan.constructor('r[-4]', 'r[-3]')} {parts}{test}]\n"
    return list(range(len(names) + 4)), plan.frame.define(code, {**parameters, "Key_": key})


def _test(before: Code, plan: WindowQueryPlan) -> native.ColumnCondition | None:
    """The test of tuples in columns; None if the core does not know all of it."""
    writer = ExpressionWriter(tuples_named("e"))
    try:
        return native.ColumnCondition(writer.written(before.holds), places(plan.source.event_type, writer.fields[0]))
    except NotPlainError:
        return None


class SteppedQuery(SteppedOperation):
    """Runs a query for which ``can_run``."""

    def __init__(self, plan: WindowQueryPlan, name: str, level: int) -> None:
        parameters: dict[str, object] = {"source_": name, "level_": level}
        self._enter: Callable[[list[Event]], list[Event]] | None = None
        if plan.before is not None:
            code = f"def made(events):\n    return [e for e in events if {plan.before.holds}]\n"
            self._enter = plan.frame.define(code, parameters)
            self._test = _test(plan.before, plan)
        values = [ElementRead("a", place) for place in range(len(plan.aggregates))]
        bounds = [ElementRead("w", place) for place in range(2)]
        names = [*(code.value for code in plan.partition), *bounds, *values]  # the parts of rows, in this order
        plain = _plain(plan, names)
        layout, self._made = plain or _computed(plan, names, parameters)
        keys = _keys_of(plan)
        aggregates = [found for each in plan.aggregates if (found := _column(*each)) is not None]
        first = len(keys) + 2
        sums = {first + at for at, (_, column) in enumerate(aggregates) if column is not None and not column[1]}
        self._sums = frozenset(at for at, part in enumerate(layout) if part in sums)
        steps = Steps(_hopping(plan.window), keys, aggregates, layout, _shown)
        super().__init__(steps, name, level, plan.source.event_type, plan.target.event_type if plain is not None else None)

    def apply(self, delta: Delta, emitted: int, final: int) -> Delta:
        if self._enter is not None:
            delta = self._entering(delta)
        rows, old, new, withdrawn, is_beyond, given = self._step(delta, emitted, final)
        if is_beyond:
            rows, old, new, withdrawn = (list(map(self._bounded, some)) for some in (rows, old, new, withdrawn))
        columns, made = self._columns_of(given), self._made
        if columns is not None and not rows:  # then rows are results as they are
            return Delta(columns, list(zip(made(old), made(new), strict=True)), made(withdrawn))
        inserted = joined(columns, made(rows))
        if not old and not withdrawn:
            return Delta(inserted)
        return difference([*made(old), *made(withdrawn)], [*inserted, *made(new)])

    def _bounded(self, row: Any) -> Any:
        """A row, or a result made of one, with NULL in place of whole numbers beyond 64 bits."""
        if not isinstance(row, Event):
            return tuple([within(part, LIMITS[Type.LONG]) if at in self._sums else part for at, part in enumerate(row)])
        values = {name: getattr(row, name) for at, name in enumerate(row.__struct_fields__) if at in self._sums}
        return replace(row, **{name: within(value, LIMITS[Type.LONG]) for name, value in values.items() if value is not None})

    def _entering(self, delta: Delta) -> Delta:
        """The part of a change that passes the test on single tuples."""
        assert self._enter is not None
        retracts, columns = self._enter(delta.retracts), delta.columns
        if columns is None or self._test is None or (holds := self._test.of(columns.in_core)) is None:
            return Delta(self._enter(delta.inserts), retracts=retracts)
        return Delta(columns.filter(flags(holds)), retracts=retracts)
