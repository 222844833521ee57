"""Sequence queries on columns: what the native core needs of them, and matches as columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from detectors.columnar import Given, ResultColumns, numbers, plain_kinds
from detectors.sequence.plan import Plan
from middleware.model.columns import EventColumns
from middleware.model.event import EventType
from middleware.model.rows import source_codes, values
from middleware.model.schema import fields_of, is_optional

_STAMP: dict[str, type] = {"ts": int, "id": int, "source": str, "level": int}


class SequenceColumns:
    """Columns in and out of the native core, for one operation. ``read``: the fields that conditions read, by slot."""

    def __init__(self, plan: Plan, read: Sequence[Iterable[str]], source: str, level: int) -> None:
        self._plan, self._stamp = plan, (source, level)
        self._needed = {kind: _needed(plan, kind, read) for kind in plan.types}
        self.gives = _gives(plan)
        """Whether matches can be columns."""
        self._results: ResultColumns | None = None

    def takes(self, event_type: EventType) -> bool:
        """Whether ``block`` takes columns of this type."""
        return self._needed.get(event_type) is not None

    def block(self, columns: EventColumns) -> tuple[Any, ...] | None:
        """Columns as ``native.SequenceMatcher.feed`` takes them; None if it cannot take one that it would read."""
        needed = self._needed.get(columns.event_type)
        if needed is None:
            return None
        sources, codes = source_codes(columns.batch)
        read = [(name, *_column(columns, name, kind)) for name, kind in needed.items()]
        return columns, columns.times, columns.ids, sources, codes if len(sources) > 1 else None, read

    def matches(self, fields: list[Given], times: Any, ids: Any) -> EventColumns:
        """Matches as columns, from what the native core gives, if it ``gives`` them."""
        if self._results is None:
            self._results = ResultColumns(self._plan.result, *self._stamp)
        return self._results.made(fields, times, ids)


def _needed(plan: Plan, kind: EventType, read: Sequence[Iterable[str]]) -> dict[str, type] | None:
    """The fields that are read of events of a type, and their types; None if a column does not say all of one of them."""
    names: dict[str, None] = {}
    for step in plan.roles[kind]:
        names |= dict.fromkeys((*read[step.slot], *(step.key or ())))
        if not step.negated:
            names |= dict.fromkeys(name for place, name in plan.fields or () if place == step.place)
    kinds = plain_kinds(kind) | _STAMP
    known = {name: found for name in names if (found := kinds[name]) is not None}
    return known if len(known) == len(names) else None


def _gives(plan: Plan) -> bool:
    """Whether results have fields of their events as they are, of the same plain types."""
    if plan.fields is None:
        return False
    wanted = list(plain_kinds(plan.result).items())
    optional = fields_of(plan.result)
    for (field, kind), (place, name) in zip(wanted, plan.fields, strict=True):
        for each in plan.steps[place].types:
            given = (plain_kinds(each) | _STAMP)[name]
            may_miss = name not in _STAMP and is_optional(fields_of(each)[name])
            if kind is None or given is not kind or (may_miss and not is_optional(optional[field])):
                return False
    return True


def _column(columns: EventColumns, name: str, kind: type) -> tuple[Any, Any]:
    if name in ("ts", "id"):
        return columns.times if name == "ts" else columns.ids, None
    if name == "level" and name not in columns.batch.schema.names:
        return [0] * len(columns), None
    return numbers(columns, name) if kind in (int, float) else (values(columns.column(name)), None)
