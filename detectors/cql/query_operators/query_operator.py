"""What the operators of all queries have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from detectors.cql.planning.query_plan import PatternPlan, Plan, TuplePlan, WindowQueryPlan
from detectors.language.code import Code
from detectors.language.value_types import REALS
from middleware.model.event import EventType
from middleware.model.operator import Operator

PlanT = TypeVar("PlanT", bound=Plan)


class QueryOperator(Operator, Generic[PlanT]):
    """The operator of a plan: its name, streams and definition. Each kind of plan has its own ``start``."""

    def __init__(self, plan: PlanT) -> None:
        self.plan = plan
        self.name = plan.name
        self.subscribes: tuple[EventType, ...] = tuple(dict.fromkeys(stream.event_type for stream in plan.sources))
        self.publishes = (plan.target.event_type,)
        self.definition = plan.definition
        self.partition_key = _partition_key(plan, set.intersection(*(set(each.__struct_fields__) for each in self.subscribes)))


def _partition_key(plan: Plan, fields: set[str]) -> tuple[str, ...]:
    """The fields, of those that all tuples have, such that tuples which differ in one never meet in a result.

    Those of GROUP BY and PARTITION BY, as windows and patterns are those of a partition; and as a mapping looks at one tuple at
    a time, any: the source, which is cheap to tell.
    """
    if isinstance(plan, TuplePlan):
        return ("source",)
    return tuple(_plain(plan.partition, fields)) if isinstance(plan, WindowQueryPlan | PatternPlan) else ()


def _plain(codes: Iterable[Code], fields: set[str]) -> Iterable[str]:
    """The fields that these codes read as they are, but for those where a NaN is a key equal to NULL."""
    read = ((code.field_of("e"), code.type) for code in codes)
    return (field for field, kind in read if field is not None and field in fields and kind not in REALS)
