"""Plans what a query makes of the content of its windows: filters, groups, aggregates, HAVING, DISTINCT, ORDER BY, LIMIT."""

from __future__ import annotations

from collections.abc import Sequence

from detectors.cql.catalog import Attribute
from detectors.cql.grammar import statements as s
from detectors.cql.grammar.rewriting import sort_keys
from detectors.cql.planning.over import over_calls
from detectors.cql.planning.query_plan import Ranking, SortKey
from detectors.cql.planning.scopes import NESTED, AggregateScope, BoundNames, RangeVariable, StreamScope, aggregates_of
from detectors.cql.planning.window_plans import Measure, Shape, WindowPlan
from detectors.language.aggregate_functions import QueryAggregate
from detectors.language.code import Code, CodeFrame
from detectors.language.compiler import analyse, condition
from detectors.language.expression import Conjunction, NullTest, Parenthesis
from detectors.language.query_errors import QueryError
from detectors.language.tree import Name, SyntaxNode, names
from detectors.language.value_types import Type, ValueKind

IN_WHERE = "{name} is not known yet where WHERE is decided: filter the result by HAVING, or in an outer SELECT"


class ContentPlan:
    """The parts of a ``Windowed`` plan that follow from the query behind the window. Raises QueryError.

    ``scope``
        the meaning of names in SELECT, HAVING and ORDER BY.
    """

    def __init__(self, select: s.Select, source: RangeVariable, plan: WindowPlan, frame: CodeFrame) -> None:
        assert select.source.window is not None
        self._select, self._frame = select, frame
        window = select.source.window
        bounds = BoundNames(plan, window.time is not None)
        inner = StreamScope([source], NESTED)
        partition = [inner.resolve(each)[1] for each in window.partition]
        keys = [key for each in select.group_by if bounds.column(key := key_name(each)) is None]
        group = [inner.resolve(each)[1] for each in keys]
        stays = bool(partition) or (plan.shape is Shape.SESSION and window.time is not None)
        self.partition = _codes(partition if stays else group)
        self.group = _codes(group if stays else [])
        self.before, self.after = self._filters(plan, source)
        if made := over_calls(select):
            raise QueryError("OVER and a window of the stream are two windows: write FROM without [...]", made[0].span)
        read = [each.expression for each in select.targets if each.expression is not None]
        read += [each.key for each in sort_keys(select)] + ([select.having] if select.having is not None else [])
        self.is_aggregated = bool(select.group_by) or any(aggregates_of(each) for each in read)
        self.scope: StreamScope | AggregateScope = StreamScope([source], NESTED, bounds=bounds)
        if self.is_aggregated:
            self._check_stars()
            self.scope = AggregateScope(inner, [(source, key) for key in [*partition, *group]], frame, bounds)

    def _filters(self, plan: WindowPlan, source: RangeVariable) -> tuple[Code | None, Code | None]:
        """The conditions for a tuple to enter a window, and for a tuple of a window to count."""
        assert self._select.source.window is not None
        inside, after = self._select.source.window.where, self._select.where
        before = [inside] if inside is not None else []
        if after is not None and is_pushed_down(plan):
            before, after = [*before, after], None
        scope = StreamScope([source], IN_WHERE)
        tests = [condition(each, scope, self._frame) for each in before]
        if plan.clock is not None and plan.clock.nullable:
            tests.insert(0, Code(Parenthesis(NullTest(plan.clock.value, True)), ValueKind(Type.BOOLEAN)))
        return conjunction(tests), condition(after, scope, self._frame) if after is not None else None

    def _check_stars(self) -> None:
        for each in self._select.targets:
            if each.expression is None:
                raise QueryError("* has many values in a window that is aggregated: name attributes of GROUP BY", each.span)

    @property
    def aggregates(self) -> tuple[tuple[QueryAggregate, tuple[Code, ...]], ...]:
        """All aggregates that the scope has met."""
        return tuple(self.scope.aggregates) if isinstance(self.scope, AggregateScope) else ()

    def having(self) -> Code | None:
        """The condition for a group to give a result."""
        node = self._select.having
        if node is None:
            return None
        if not self.is_aggregated:
            raise QueryError("HAVING chooses among groups, and there are none: use WHERE", node.span)
        return condition(node, self.scope, self._frame, "HAVING")

    def ranking(self) -> Ranking | None:
        """The use of the results of a window."""
        select = self._select
        if not is_ranked(select):
            return None
        keys = sort_keys(select)
        if keys and select.limit is None:
            raise QueryError(
                "the results of a window have one time and no order: ORDER BY needs LIMIT, which says how many of them count",
                keys[0].span,
            )
        shown = [each.expression for each in select.targets]
        for each in keys:
            if select.is_distinct and each.key not in shown and None not in shown:
                raise QueryError("with DISTINCT, ORDER BY takes selected columns: others have many values", each.span)
        codes = [self._frame.sealed(analyse(each.key, self.scope, self._frame)) for each in keys]
        sorts = tuple(
            SortKey(code, each.is_descending, not each.is_descending if each.nulls_first is None else each.nulls_first)
            for each, code in zip(keys, codes, strict=True)
        )
        limit = select.limit
        return Ranking(select.is_distinct, sorts, limit.offset if limit else 0, limit.count if limit else None)


def is_made_of_content(select: s.Select) -> bool:
    """Whether a query over a join makes more of the content of its windows than a result of each pair."""
    nodes = [each.expression for each in select.targets if each.expression is not None]
    nodes += [select.having] if select.having is not None else []
    return is_ranked(select) or bool(select.group_by or over_calls(select)) or any(aggregates_of(each) for each in nodes)


def is_ranked(select: s.Select) -> bool:
    """Whether not all results of a window count."""
    return select.is_distinct or bool(select.order_by) or select.limit is not None


def is_ranked_apart(select: s.Select, plan: WindowPlan) -> bool:
    """Whether a query ranks results of several partitions, which takes an operator more. Raises QueryError if it cannot."""
    assert select.source.window is not None
    columns = BoundNames(plan, select.source.window.time is not None).columns
    keys = [each for each in select.group_by if key_name(each).name.lower() not in columns]
    if not is_ranked(select) or not keys or select.source.window.partition or plan.shape is Shape.SESSION:
        return False
    if not is_pushed_down(plan):
        raise QueryError(
            "GROUP BY gives each group windows of its own here, which end apart: DISTINCT, ORDER BY and LIMIT need windows "
            "over time, such as [SIZE 10 seconds], or PARTITIONED BY to choose within each partition",
            select.span,
        )
    return True


def key_name(node: SyntaxNode) -> Name:
    """The attribute that a key of GROUP BY names. Raises QueryError if it is calculated."""
    if not isinstance(node, Name):
        raise QueryError(
            "GROUP BY takes attributes: calculate this in a sub-select, FROM (SELECT ... AS key FROM ...)", node.span
        )
    return node


def check_windowless(select: s.Select) -> None:
    """Refuse what only windows make sense of."""
    if select.having is not None:
        raise QueryError(
            "HAVING does not apply to streams: give the stream a window, such as FROM ... [SIZE 10 seconds]", select.having.span
        )
    if select.execution is not None:
        raise QueryError("the execution model is a matter of windows, and there is none here", select.execution.span)
    if select.is_distinct:
        raise QueryError(
            "DISTINCT would have to remember an endless stream: give the stream a window, such as FROM ... [SIZE 10 seconds]",
            select.span,
        )
    if select.order_by:
        raise QueryError(
            "ORDER BY: a stream comes in order of time, and never ends; ORDER BY ... LIMIT chooses in a window: [SIZE 9 s]",
            select.order_by[0].span,
        )
    if select.limit is not None:
        raise QueryError(
            "LIMIT: a stream has no first rows; LIMIT chooses in a window: FROM ... [SIZE 10 seconds]", select.limit.span
        )


def check_grouped(select: s.Select) -> None:
    """Refuse attributes that a query without a window is not grouped by: a group has many values of them."""
    grouped = {key_name(each).name.lower() for each in select.group_by}
    for target in select.targets if grouped else ():
        for name in names(target.expression) if target.expression is not None else ():
            if name.name.lower() not in grouped:
                raise QueryError(
                    f"{name.name!r} has many values in a group: aggregate it (max({name.name})), GROUP BY {name.name} as "
                    "well, or leave GROUP BY out",
                    name.span,
                )


def conjunction(codes: Sequence[Code]) -> Code | None:
    """These conditions joined by AND."""
    if len(codes) < 2:
        return codes[0] if codes else None
    true = Conjunction([Parenthesis(code.holds) for code in codes])
    return Code(Parenthesis(true), ValueKind(Type.BOOLEAN), constant=all(code.constant for code in codes))


def is_pushed_down(plan: WindowPlan) -> bool:
    """Whether WHERE may be checked before tuples enter the window, because that changes neither bounds nor reports."""
    timed = plan.is_timed and (plan.size is None or plan.size.measure is Measure.TS)
    return timed and plan.model is s.ExecutionModel.TUPLE and plan.shape in (Shape.SIZE, Shape.FIXED)


def _codes(attributes: Sequence[Attribute]) -> tuple[Code, ...]:
    return tuple(each.code() for each in attributes)
