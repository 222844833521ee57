"""Projection and selection of columns: the code of ``mapping``, run by the core where it knows all of it."""

from __future__ import annotations

from collections.abc import Mapping as Names
from collections.abc import Sequence
from typing import Any

from detectors.cql.planning.query_plan import TuplePlan
from detectors.language.written import ExpressionWriter, NotPlainError, tuples_named
from detectors.operator_columns import KINDS, has_plain_columns, plain_kinds, stamping
from middleware import native
from middleware.model.block.block import Block
from middleware.model.event import EventType
from middleware.model.schema import fields_of, is_optional


class MappedColumns:
    """Maps columns to columns; ``hashes`` turns ids of tuples into ids of results, by source."""

    def __init__(self, plan: TuplePlan, hashes: Names[str, int], name: str, level: int) -> None:
        self._plan, self._hashes, self._stamp = plan, hashes, (name, level)
        self._streams: dict[EventType, _Stream | None] = {}

    def of(self, columns: Block) -> Block | None:
        """The results of tuples; None if the core cannot give them."""
        kind = columns.event_type
        if kind not in self._streams:
            self._streams[kind] = self._stream(kind)
        stream = self._streams[kind]
        return None if stream is None else stream.mapped(columns)

    def _stream(self, kind: EventType) -> _Stream | None:
        plan = self._plan
        found = [each for each in zip(plan.sources, (plan.columns, *plan.others), strict=True) if each[0].event_type is kind]
        if len(found) != 1 or plan.time is not None or not has_plain_columns(plan.target.event_type):
            return None
        one = TuplePlan(plan.name, plan.target, found[0][1], plan.frame, (found[0][0],), plan.where)
        try:
            return _Stream(one, self._hashes, *self._stamp)
        except NotPlainError:
            return None


def places(kind: EventType, fields: Sequence[str]) -> list[int]:
    """Where in columns of a type these fields lie. Raises NotPlainError if the core does not read the columns of one."""
    known: dict[str, type | None] = plain_kinds(kind) | {"ts": int, "id": int}
    if any(known.get(field) is None for field in fields):
        raise NotPlainError
    return list(map(kind.__struct_fields__.index, fields))


class _Stream:
    """The tuples of one stream, mapped in the core, one call a batch. Raises NotPlainError for code that it does not know."""

    def __init__(self, plan: TuplePlan, hashes: Names[str, int], name: str, level: int) -> None:
        self._hashes, self._target = hashes, plan.target.event_type
        kind, results = plan.sources[0].event_type, stamping(self._target, name, level)
        if results is None:
            raise NotPlainError
        given = plain_kinds(kind)
        writer = ExpressionWriter(tuples_named("e"))
        test = writer.written(plan.where.holds) if plan.where is not None else None
        wanted = fields_of(self._target)
        fields: list[tuple[Any, str, bool]] = []
        for code, (field, of) in zip(plan.ordered, plain_kinds(self._target).items(), strict=True):
            node = writer.written(code.value)
            if of is str and given.get(code.field_of("e") or "") is not str:
                raise NotPlainError
            fields.append((node, KINDS[of], is_optional(wanted[field])))
        self._core = native.Selection(test, fields, places(kind, writer.fields[0]), results)

    def mapped(self, given: Block) -> Block | None:
        found = self._core.of(given.in_core, self._hashes)
        return None if found is None else Block.from_core(self._target, found, in_time=True)
