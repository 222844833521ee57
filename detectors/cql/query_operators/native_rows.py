"""Projections of rows in the native core: tests and columns of which it knows all.

``native.Projection`` runs them a batch at a time. What it cannot decide just as Python would, it leaves to the comprehension
made of the same expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ParamSpec

from detectors.cql.planning.query_plan import JoinQueryPlan, TuplePlan
from detectors.language.written import ExpressionWriter, NotPlainError, tuples_named
from middleware import native
from middleware.model.block.recipe import recipe
from middleware.model.event import Event
from middleware.model.operator import Operation

P = ParamSpec("P")


def projection(plan: TuplePlan | JoinQueryPlan, names: Sequence[str], source: str, level: int) -> native.Projection | None:
    """The columns of a plan for tuples that pass its test, made in the native core; None if it cannot make them."""
    test = plan.where if isinstance(plan, TuplePlan) else plan.condition
    writer = ExpressionWriter(tuples_named(names))
    try:
        chosen = writer.written(test.holds) if test is not None else None
        columns = [writer.written(column.value) for column in plan.ordered]
    except NotPlainError:
        return None
    return native.Projection.of(recipe(plan.target.event_type), chosen, columns, writer.fields, source, level)


def in_core_else_compiled(
    operation: Operation, in_core: Callable[P, list[Event] | None], compiled: Callable[P, list[Event]]
) -> Callable[P, list[Event]]:
    """Makes the results of an operation in the native core, and by compiled code those that the core leaves to Python.

    A number that the core copies was checked when its event came in, and none that it calculates is beyond what others
    read: only what compiled code makes is still to be checked (``Operation.is_carried``).
    """

    def results_of(*args: P.args, **kwargs: P.kwargs) -> list[Event]:
        results = in_core(*args, **kwargs)
        if results is None:
            results = compiled(*args, **kwargs)
            operation.is_carried = False
        return results

    return results_of
