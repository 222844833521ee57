"""EXPLAIN: shows a statement's plan, operator by operator, in the order in which tuples pass them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from detectors.cql.catalog import Attribute
from detectors.cql.grammar import statements as s
from detectors.cql.planning.query_plan import (
    JoinQueryPlan,
    LookupQueryPlan,
    PatternPlan,
    Plan,
    Ranking,
    Side,
    TuplePlan,
    WindowQueryPlan,
)
from detectors.cql.planning.window_plans import Measure, Shape, WindowExtent, WindowPlan
from detectors.language.code import Code
from middleware.model.quantities import format_duration

_REACTS = {
    s.ExecutionModel.TUPLE: "tuple-driven: every tuple counts by itself, in total order",
    s.ExecutionModel.TIME: "time-driven: tuples of one moment count together; reports when the content has changed",
    s.ExecutionModel.BATCH: "batch-driven: tuples of one batch count together; reports when the content has changed",
}


def explained(plans: Iterable[Plan]) -> str:
    """The plans as text."""
    return "\n".join(line for plan in plans for line in _plan(plan))


def _plan(plan: Plan) -> Iterator[str]:
    attributes = ", ".join(f"{each.name} {each.kind}{'' if each.kind.nullable else ' NOT NULL'}" for each in plan.target.schema)
    match plan:
        case TuplePlan(sources=sources, where=where):
            yield f"{plan.name}: {' + '.join(stream.name for stream in sources)} -> {plan.target.name} ({attributes})"
            yield "  tuple by tuple, without state" if plan.time is None else f"  in order of arrival, by {plan.time.value}"
            yield from _code("where", where)
        case WindowQueryPlan():
            yield f"{plan.name}: {plan.source.name} -> {plan.target.name} ({attributes})"
            yield from _code("enters where", plan.before)
            yield from _codes("partitioned by", plan.partition)
            yield f"  window: {window_text(plan.window)}"
            yield f"  {_REACTS[plan.window.model]}"
            yield from _code("where", plan.after)
            yield from _codes("grouped by", plan.group)
            for aggregate, arguments in plan.aggregates:
                yield f"  {aggregate.name}({', '.join(code.value for code in arguments) or '*'})"
            yield from _code("having", plan.having)
            yield from _ranking(plan.ranking)
        case LookupQueryPlan(rows=rows):
            yield f"{plan.name}: {plan.source.name} -> {plan.target.name} ({attributes})"
            alone = ", and tuples without one" if plan.keeps else ""
            yield f"  looks up {len(rows)} rows, by {', '.join(code.value for code in plan.keys) or 'nothing'}{alone}"
            yield from _code("joined where", plan.condition)
            yield from _code("where", plan.after)
        case PatternPlan():
            yield f"{plan.name}: {plan.source.name} -> {plan.target.name} ({attributes})"
            yield from _codes("partitioned by", plan.partition)
            within = f", within {format_duration(plan.within)}" if plan.within is not None else ""
            yield f"  a pattern of {len(plan.steps) - 1} steps{within}; then skips {plan.skip}"
            for number, test in enumerate(plan.tests):
                yield from _code(f"variable {number} where", test)
        case JoinQueryPlan():
            yield f"{plan.name}: {plan.left.source.name} x {plan.right.source.name} -> {plan.target.name} ({attributes})"
            for side in (plan.left, plan.right):
                yield from _side(side)
            how = "at each boundary" if plan.is_aligned else "the current windows, as either ends"
            yield f"  {'each pair once, as the later comes' if plan.is_paired else how}"
            kept = [side.source.name for side, is_kept in zip((plan.left, plan.right), plan.keeps, strict=True) if is_kept]
            if kept:
                yield f"  without partners, too: {', '.join(kept)}"
            yield from _code("where", plan.after)
            yield from _code("joined where", plan.condition)
    yield from (f"  {own.name} = {code.value}" for own, code in zip(_named(plan), plan.columns, strict=True))


def _ranking(ranking: Ranking | None) -> Iterator[str]:
    if ranking is None:
        return
    if ranking.is_distinct:
        yield "  each different result once"
    order = ", ".join(f"{key.code.value}{' descending' * key.is_descending}" for key in ranking.keys)
    if ranking.count is not None:
        after = f" after {ranking.offset}" if ranking.offset else ""
        yield f"  the first {ranking.count}{after}, by {order or 'the total order'}"


def _named(plan: Plan) -> list[Attribute]:
    return [each for each in plan.target.schema if each.name != "ts"]


def _side(side: Side) -> Iterator[str]:
    yield f"  {side.source.name}: {window_text(side.window)}, by {', '.join(code.value for code in side.keys) or 'nothing'}"
    yield from _code("  enters where", side.before)


def _code(what: str, code: Code | None) -> Iterator[str]:
    if code is not None:
        yield f"  {what} {code.holds}"


def _codes(what: str, codes: tuple[Code, ...]) -> Iterator[str]:
    if codes:
        yield f"  {what} {', '.join(code.value for code in codes)}"


def window_text(plan: WindowPlan) -> str:
    """A window in words."""
    slide = _extent(plan.slide, plan.clock)
    if plan.is_over:
        size = "all before it" if plan.size is None else f"those up to {_extent(plan.size, plan.clock)} before its end"
        return f"over each tuple and {size}{', with all of its moment' * plan.has_peers}"
    match plan.shape:
        case Shape.LANDMARK:
            return f"landmark, from {plan.lower if plan.lower is not None else 'the beginning'} on, every {slide}"
        case Shape.FIXED:
            return f"fixed, ({plan.lower}, {plan.upper}]"
        case Shape.SESSION:
            return f"session, gaps of at most {slide}"
        case Shape.DELTA:
            return f"delta, tuples no farther than {plan.threshold:g} from the first"
    assert plan.size is not None
    size = _extent(plan.size, plan.clock)
    if plan.size == plan.slide:
        return f"tumbling, {size}"
    kind = "mixed"
    if plan.size.measure is plan.slide.measure:
        kind = "sliding" if plan.size.amount > plan.slide.amount else "jumping"
    return f"{kind}, {size} every {slide}"


def _extent(extent: WindowExtent, clock: Code | None) -> str:
    if extent.measure is Measure.COUNT:
        return f"{extent.amount} tuples"
    if extent.measure is Measure.TS:
        return format_duration(extent.amount)
    return f"{extent.amount} of {clock.value if clock is not None else 'its clock'}"
