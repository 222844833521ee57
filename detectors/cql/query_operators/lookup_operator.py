"""The operator of lookups in tables. The rows are read once, with the statement, and are part of the query: replays agree."""

from __future__ import annotations

from detectors.cql.planning.query_plan import LookupQueryPlan
from detectors.cql.query_operators.query_operator import QueryOperator
from detectors.cql.query_operators.relation import NOTHING, joining_keys
from detectors.language.expression import TRUE
from detectors.outcomes import difference
from middleware.model.change import Delta
from middleware.model.event import Event, Key
from middleware.model.operator import Operation, Origin, Snapshot


class LookupOperator(QueryOperator[LookupQueryPlan]):
    """The operator of a ``LookupQueryPlan``."""

    def start(self, name: str, level: int) -> Operation:
        return LookupOperation(self.plan, name, level)


class LookupOperation(Operation):
    """Keeps no state: a tuple meets the same rows whenever it comes. O(its rows)."""

    def __init__(self, plan: LookupQueryPlan, name: str, level: int) -> None:
        super().__init__()
        self.plan = plan
        origin = Origin(name, level)
        self._id = origin.id
        more: dict[str, object] = {"source_": origin.source, "level_": origin.level}
        after = f" if {plan.after.holds} else None" if plan.after is not None else ""
        self._result = plan.frame.define(
            f"def made(e, f, number):\n    return {plan.constructor('e.ts', 'number')}{after}\n", more
        )
        self._fits = plan.frame.function("e, f", plan.condition.holds if plan.condition is not None else TRUE)
        self._keys = plan.frame.define(joining_keys(plan.keys, "e"))
        self._rows: dict[Key, list[Event]] = {}
        row_keys = plan.frame.define(joining_keys(plan.row_keys, "f"))
        for key, row in zip(row_keys(plan.rows), plan.rows, strict=True):
            if key is not None:
                self._rows.setdefault(key, []).append(row)

    def apply(self, delta: Delta, emitted: int, final: int) -> Delta:
        return difference(self._joined(delta.retracts), self._joined(delta.inserts))

    def _joined(self, events: list[Event]) -> list[Event]:
        results: list[Event | None] = []
        for key, e in zip(self._keys(events), events, strict=True):
            rows = [row for row in self._rows.get(key, ()) if self._fits(e, row)]
            results += [self._result(e, row, self._id(e.source, e.id, row.id)) for row in rows]
            if self.plan.keeps and not rows:
                results.append(self._result(e, NOTHING, self._id(e.source, e.id)))
        return [each for each in results if each is not None]

    def snapshot(self) -> Snapshot:
        return None

    def restore(self, state: Snapshot) -> None:
        """There is no state."""
