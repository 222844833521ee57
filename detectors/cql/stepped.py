"""Queries over aligned windows of time whose aggregates the native core keeps, for all keys at once (``detectors.window``).

The same results, to the last bit and to the identity, as ``windowed`` gives; it decides at the start which of the two runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from detectors.cql.aggregates import Aggregate
from detectors.cql.plan import Windowed
from detectors.cql.statements import Model
from detectors.cql.windows import Measure, Shape
from detectors.expressions.code import Code
from detectors.expressions.types import Type
from detectors.outcomes import difference
from middleware import native
from middleware.change import Delta
from middleware.event import IDENTITY, Event, stable_hash
from middleware.operator import Operation

_MOST_STEPS = 32
"""Each tuple counts in so many windows at most: beyond, what a window holds is better looked up than added up."""

_NARROW = frozenset({Type.BYTE, Type.SHORT, Type.INT})
_KEYS = frozenset({Type.STRING, Type.CHAR, Type.BOOLEAN, Type.DATETIME, Type.BYTE, Type.SHORT, Type.INT, Type.LONG})
_NAMES = {"sum": "sum", "avg": "mean", "min": "min", "max": "max", "range": "range"}

Column = tuple[str, bool]
"""A field, and whether it is a float to the native core."""


def can_run(plan: Windowed) -> bool:
    """Whether the native core can run these windows."""
    window = plan.window
    if not native.AVAILABLE or window.shape is not Shape.SIZE or window.model is not Model.TUPLE or window.start is not None:
        return False
    if window.size is None or {window.size.measure, window.slide.measure} != {Measure.TS}:
        return False
    if window.size.amount > _MOST_STEPS * window.slide.amount or max(window.size.amount, window.slide.amount) > 2**60:
        return False
    if plan.group or plan.after is not None or not plan.aggregates:
        return False
    keys = all(code.type in _KEYS and _field(code) is not None for code in plan.partition)
    return keys and all(_column(*each) is not None for each in plan.aggregates)


def _field(code: Code) -> str | None:
    """The field of an attribute that is read as it is."""
    name = code.value.removeprefix("e.")
    return name if code.value.startswith("e.") and name.isidentifier() else None


def _column(aggregate: Aggregate, arguments: tuple[Code, ...]) -> tuple[str, Column | None] | None:
    """What the native core calls an aggregate, and the column it reads; None if it cannot."""
    if aggregate.name == "count" and all(not code.nullable for code in arguments):
        return "count", None
    name = _NAMES.get(aggregate.name)
    if name is None or len(arguments) != 1 or arguments[0].nullable:
        return None
    field = _field(arguments[0])
    kind = arguments[0].type
    if field is None or kind not in _NARROW | {Type.DOUBLE, Type.FLOAT}:
        return None
    return name, (field, kind not in _NARROW or name == "mean")


def _shown(key: Any, known: Any) -> tuple[Any, ...]:
    """The columns of a key in results: as they are, zeros without a sign, so that it never shows which of two came first."""
    return tuple([part + 0.0 if part.__class__ is float else part for part in (key if isinstance(key, tuple) else (key,))])


class SteppedOperation(Operation):
    """Runs a query for which ``can_run``."""

    def __init__(self, plan: Windowed, name: str, level: int) -> None:
        super().__init__()
        self.plan = plan
        self._source, self._level = name, level
        parameters: dict[str, Any] = {"source_": name, "level_": level}
        test = f" if {plan.before.holds}" if plan.before is not None else ""
        self._enter: Callable[[list[Event]], list[Event]] | None = None
        if plan.before is not None:
            self._enter = plan.frame.define(f"def made(events):\n    return [e for e in events{test}]\n", parameters)
        self._made: Callable[[list[Any]], list[Event]] = self._plain() or plan.frame.define(*self._computed(parameters))
        self._windows = self._new()

    def _names(self) -> list[str]:
        """What the core gives of each result, in this order."""
        values = [f"a[{place}]" for place in range(len(self.plan.aggregates))]
        return [*(code.value for code in self.plan.partition), "w[0]", "w[1]", *values]

    def _plain(self) -> Callable[[list[Any]], list[Event]] | None:
        """Results straight from rows, if each column is one of the things that rows are made of."""
        names, columns = self._names(), [column.value for column in self.plan.ordered]
        self._layout = list(range(len(names) + 4))
        if any(column not in names for column in columns):
            return None
        self._layout = [*map(names.index, columns), *range(len(names), len(names) + 4)]
        results: Any = list[self.plan.target.event_type]  # type: ignore[name-defined]
        return lambda rows: msgspec.convert(rows, results)

    def _computed(self, parameters: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """Code of results from rows where columns are computed."""
        keys, values = len(self.plan.partition), len(self.plan.aggregates)
        fields = [code.value.removeprefix("e.") for code in self.plan.partition]
        key = msgspec.defstruct("Key", [(field, Any) for field in fields], gc=False)
        parts = (
            f"for r in rows for e in (Key_(*r[:{keys}]),) for w in (r[{keys}:{keys + 2}],) "
            f"for a in (r[{keys + 2}:{keys + 2 + values}],)"
        )
        result = self.plan.constructor("r[-4]", "r[-3]")
        return f"def made(rows):\n    return [{result} {parts}]\n", {**parameters, "Key_": key}

    def _new(self) -> native.KeyedWindows:
        plan, window = self.plan, self.plan.window
        assert window.size is not None
        columns: list[Column] = []
        aggregates: list[tuple[str, int | None]] = []
        for each in plan.aggregates:
            found = _column(*each)
            assert found is not None
            name, column = found
            if column is not None and column not in columns:
                columns.append(column)
            aggregates.append((name, None if column is None else columns.index(column)))
        return native.KeyedWindows(
            sizes=[window.size.amount],
            every=window.slide.amount,
            offset=window.phase,
            key=[code.value.removeprefix("e.") for code in plan.partition],
            columns=columns,
            aggregates=aggregates,
            layout=self._layout,
            source=self._source,
            level=self._level,
            seed=stable_hash(self._source),
            encode=msgspec.msgpack.Encoder().encode,
            show=_shown,
            at_once=False,
        )

    def apply(self, delta: Delta, emitted: int, final: int) -> Delta:
        inserts, retracts = delta.inserts, delta.retracts
        if self._enter is not None:
            inserts, retracts = self._enter(inserts), self._enter(retracts)
        if self.failures:
            retracts = [event for event in retracts if self.failures.pop(IDENTITY(event), None) is None]
        made = self._made
        inserted, old, new, withdrawn, _ = self._windows.apply(inserts, retracts, emitted, final, self._failed)
        if not old and not withdrawn:
            return Delta(made(inserted))
        return difference([*made(old), *made(withdrawn)], [*made(inserted), *made(new)])

    def _failed(self, event: Event, error: BaseException) -> None:
        self.fail(event, repr(error))

    @property
    def held(self) -> int:
        return self._windows.held

    @property
    def keys(self) -> int:
        return self._windows.keys

    def snapshot(self) -> Any:
        return self._windows.snapshot(), dict(self.failures)

    def restore(self, state: Any) -> None:
        content, failures = state
        self.failures = dict(failures)
        self._windows = self._new()
        self._windows.restore(*content)
