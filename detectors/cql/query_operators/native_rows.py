"""Projections of rows in the native core: tests and columns of which it knows all.

``native.Projection`` runs them a batch at a time. What it cannot decide just as Python would, it leaves to the comprehension
made of the same expressions.
"""

from __future__ import annotations

from collections.abc import Sequence

from detectors.cql.planning.query_plan import JoinQueryPlan, TuplePlan
from detectors.language.written import ExpressionWriter, NotPlainError, tuples_named
from middleware import native
from middleware.model.block.recipe import recipe


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
