"""Sequence queries on columns: where the native core finds what it reads of them, and matches as columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from detectors.operator_columns import KINDS, plain_kinds, stamping
from detectors.sequence.planning.sequence_plan import SequencePlan
from middleware.model.event import EventType
from middleware.model.schema import fields_of, is_optional

if TYPE_CHECKING:
    from middleware.native._core import Stamping

_STAMP: dict[str, type] = {"ts": int, "id": int, "source": str, "level": int}


def layout(plan: SequencePlan, kind: EventType, read: Sequence[Iterable[str]]) -> dict[str, int] | None:
    """The places of the columns that are read of a type, by field; None if a column does not say all of one of them.

    ``read``: the fields that conditions read, by slot.
    """
    names: set[str] = set()
    for step in plan.roles[kind]:
        names |= {*read[step.slot], *(step.key or ())}
        if not step.negated:
            names |= {name for place, name in plan.fields or () if place == step.place}
    kinds = plain_kinds(kind) | _STAMP
    if any(kinds[name] is None for name in names):
        return None
    return {name: kind.__struct_fields__.index(name) for name in names}


def gives(plan: SequencePlan, source: str, level: int) -> tuple[list[tuple[str, bool]], Stamping] | None:
    """The kinds of columns of results, whether their values may be missing, and what makes blocks of them; None if results are
    no columns: these have fields of their events as they are, of the same plain types."""
    results = stamping(plan.result, source, level)
    if plan.fields is None or results is None:
        return None
    found = []
    optional = fields_of(plan.result)
    for (field, kind), (place, name) in zip(plain_kinds(plan.result).items(), plan.fields, strict=True):
        may_miss = is_optional(optional[field])
        for each in plan.steps[place].types:
            is_own = name not in _STAMP
            given = plain_kinds(each)[name] if is_own else _STAMP[name]
            if kind is None or given is not kind or (is_own and is_optional(fields_of(each)[name]) and not may_miss):
                return None
        found.append((KINDS[kind], may_miss))
    return found, results
