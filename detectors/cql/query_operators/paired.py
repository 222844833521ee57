"""Joins of columns: what the native core is told of a query, so that it takes tuples, and makes results, as columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from detectors.cql.planning.query_plan import JoinQueryPlan, Side
from detectors.language.written import ExpressionWriter, NotPlainError, Written, tuples_named
from detectors.operator_columns import KINDS, has_plain_columns, plain_kinds, stamping
from middleware import native
from middleware.model.block.block import Block
from middleware.model.block.rows import values
from middleware.model.event import EventType
from middleware.model.schema import fields_of, is_optional

if TYPE_CHECKING:
    from middleware.native._core import Met, Reading

    Fed = tuple[Block | None, Met | None]


class PairedColumns:
    """Tells ``native.Pairs`` how to join columns. Raises NotPlainError if it does not know some of the query's code."""

    def __init__(self, plan: JoinQueryPlan, name: str, level: int) -> None:
        target = plan.target.event_type
        results = stamping(target, name, level)
        if results is None or not has_plain_columns(target):
            raise NotPlainError
        writer, wanted = ExpressionWriter(tuples_named("ef")), fields_of(target)
        self._test = writer.written(plan.condition.holds) if plan.condition is not None else None
        self._fields = []
        for code, (field, kind) in zip(plan.ordered, plain_kinds(target).items(), strict=True):
            assert kind is not None
            node = writer.written(code.value)
            if kind is str and node[0] != "field":
                raise NotPlainError
            self._fields.append((node, KINDS[kind], is_optional(wanted[field])))
        sides = plan.left, plan.right
        before = [writer.written(side.before.holds) if side.before is not None else None for side in sides]
        self._keys = [_key_fields(side, variable) for side, variable in zip(sides, "ef", strict=True)]
        self._read = [_reading(*each) for each in zip(sides, writer.fields, self._keys, before, strict=True)]
        self._target = target
        self._stamping = results

    def attach(self, pairs: native.Pairs) -> None:
        """Have these pairs take columns."""
        left, right = self._read
        pairs.project(self._test, self._fields, left, right, self._stamping)

    def fed(self, pairs: native.Pairs, parts: Iterable[tuple[bool, Block]]) -> Fed | None:
        """Insert tuples of the left and of the right side: results as columns, and pairs whose results are for Python to make.

        None, and nothing is done, if it must be row by row.
        """
        found = pairs.feed([(is_left, columns, columns.in_core, self._keys_of(is_left, columns)) for is_left, columns in parts])
        if found is None:
            return None
        results, met = found
        return (Block.from_core(self._target, results, in_time=True) if results is not None else None), met

    def _keys_of(self, is_left: bool, columns: Block) -> list[Any] | None:
        """None if the native core reads them as they are."""
        if self._read[not is_left][3] is not None:
            return None
        parts = [values(columns.column(field)) for field in self._keys[not is_left]]
        return parts[0] if len(parts) == 1 else list(zip(*parts, strict=True)) if parts else [()] * len(columns)


def _key_fields(side: Side, variable: str) -> list[str]:
    """The fields that are the key, if they are no more, and of a type of which equal values are equal in columns, too."""
    kinds, found = plain_kinds(side.source.event_type), []
    for code in side.keys:
        field = code.field_of(variable)
        if field is None or kinds.get(field) not in (int, str, bool):
            raise NotPlainError
        found.append(field)
    return found


def _reading(side: Side, fields: list[str], keys: list[str], before: Written | None) -> Reading:
    kind: EventType = side.source.event_type
    kinds = plain_kinds(kind) | {"ts": int, "id": int}
    names = kind.__struct_fields__
    given = [KINDS.get(kinds.get(field)) for field in fields]
    if None in given:
        raise NotPlainError
    key = names.index(keys[0]) if len(keys) == 1 and kinds[keys[0]] is int else None
    return fields, list(filter(None, given)), list(map(names.index, fields)), key, before
