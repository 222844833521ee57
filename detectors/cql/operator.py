"""What the operators of all queries have in common."""

from __future__ import annotations

from typing import Generic, TypeVar

from detectors.cql.plan import Plan
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
