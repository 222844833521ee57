"""Projection and selection of columns: the code of ``mapping``, run by the native core, or on arrays, where they can do it."""

from __future__ import annotations

from collections.abc import Mapping as Names
from typing import Any

from detectors.columnar import KINDS, Given, Later, ResultColumns, has_plain_columns, plain_kinds, stamping
from detectors.cql.plan import Mapping
from detectors.language.vectors import Columns, Vector
from detectors.language.written import NotPlainError, ProgramWriter
from middleware import native
from middleware.model.columns import EventColumns
from middleware.model.event import EventType
from middleware.model.rows import source_codes
from middleware.model.schema import fields_of, is_optional


class MappedColumns:
    """Maps columns to columns; ``hashes`` turns ids of tuples into ids of results, by source."""

    def __init__(self, plan: Mapping, hashes: Names[str, int], name: str, level: int) -> None:
        self._plan, self._hashes, self._stamp = plan, hashes, (name, level)
        self._streams: dict[EventType, _Native | _Stream | None] = {}

    def of(self, columns: EventColumns) -> EventColumns | None:
        """The results of tuples; None if arrays cannot give them."""
        kind = columns.event_type
        if kind not in self._streams:
            self._streams[kind] = self._stream(kind)
        stream = self._streams[kind]
        return None if stream is None else stream.mapped(columns)

    def _stream(self, kind: EventType) -> _Native | _Stream | None:
        plan = self._plan
        found = [each for each in zip(plan.sources, (plan.columns, *plan.others), strict=True) if each[0].event_type is kind]
        if len(found) != 1 or plan.time is not None or not has_plain_columns(plan.target.event_type):
            return None
        one = Mapping(plan.name, plan.target, found[0][1], plan.frame, (found[0][0],), plan.where)
        made = _Native if native.AVAILABLE else _Stream
        try:
            return made(one, self._hashes, *self._stamp)
        except NotPlainError:
            return None


class _Native:
    """The tuples of one stream, mapped in the core, one call a batch. Raises NotPlainError for code that it does not know."""

    def __init__(self, plan: Mapping, hashes: Names[str, int], name: str, level: int) -> None:
        self._hashes, self._target = hashes, plan.target.event_type
        kind, results = plan.sources[0].event_type, stamping(self._target, name, level)
        if results is None:
            raise NotPlainError
        given: dict[str, type | None] = plain_kinds(kind) | {"ts": int, "id": int}
        writer = ProgramWriter("e", plan.frame.globals)
        test = writer.written(plan.where.holds) if plan.where is not None else None
        wanted = fields_of(self._target)
        fields: list[tuple[Any, str, bool]] = []
        for code, (field, of) in zip(plan.ordered, plain_kinds(self._target).items(), strict=True):
            node = writer.written(code.value)
            if of is str and (node[0] != "field" or given.get(code.value.removeprefix("e.")) is not str):
                raise NotPlainError
            fields.append((node, KINDS[of], is_optional(wanted[field])))
        names = kind.__struct_fields__
        if any(given.get(name) is None for name in writer.fields[0]):
            raise NotPlainError
        self._core = native.Selection(test, fields, list(map(names.index, writer.fields[0])), results)

    def mapped(self, given: EventColumns) -> EventColumns | None:
        found = self._core.of(given.in_core, self._hashes)
        return None if found is None else EventColumns.from_block(self._target, found, in_time=True)


class _Stream:
    """The tuples of one stream."""

    def __init__(self, plan: Mapping, hashes: Names[str, int], name: str, level: int) -> None:
        names = plan.frame.globals
        wanted = fields_of(plan.target.event_type)
        self._test = Vector(plan.where.holds, names) if plan.where is not None else None
        self._fields = [Vector(code.value, names) for code in plan.ordered]
        self._kinds = list(plain_kinds(plan.target.event_type).values())
        self._optional = list(map(is_optional, wanted.values()))
        self._hashes, self._results = hashes, ResultColumns(plan.target.event_type, name, level)

    def mapped(self, given: EventColumns) -> EventColumns | None:
        columns = Columns(given)
        if self._test is not None:
            holds = self._test.holds(columns)
            if holds is None:
                return None
            columns = columns.choose(_in_time(given, holds.nonzero()[0]))
        fields = []
        for vector, kind, may_miss in zip(self._fields, self._kinds, self._optional, strict=True):
            found = _field(columns, vector, kind, may_miss)
            if found is None:
                return None
            fields.append(found)
        return self._results.made(fields, columns.field("ts").values, self._ids(columns))

    def _ids(self, columns: Columns) -> Any:
        import numpy as np

        ids, (sources, places) = columns.field("id").values, source_codes(columns.given.batch)
        known = [self._hashes[each] for each in sources]
        if len(known) == 1:
            return ids ^ known[0]
        return ids ^ np.array(known, np.int64)[places if columns.chosen is None else places[columns.chosen]]


def _in_time(given: EventColumns, places: Any) -> Any:
    """The places in order of time, as results go out: sorting numbers is cheaper than sorting columns."""
    times = given.times[places]
    return places if (times[1:] >= times[:-1]).all() else places[times.argsort(kind="stable")]


def _field(columns: Columns, vector: Vector, kind: type | None, may_miss: bool) -> Given | Later | None:
    """A field of all results, as it comes or calculated; None if its type does not take it as it is."""
    import numpy as np

    found = vector.values(columns)
    if found is None:
        return None
    values, there = found
    if kind is str and hasattr(values, "null_count"):
        return (lambda: values) if may_miss or not values.null_count else None
    if not isinstance(values, np.ndarray):
        values = np.full(len(columns), values)
    if values.dtype.kind != KINDS.get(kind):
        return None
    if there is True:
        return values, None
    there = np.ascontiguousarray(np.broadcast_to(there, len(columns)))
    return (values, there) if may_miss or there.all() else None
