"""Plans joins: both sides need windows over time; equalities come from ON and USING, other conditions are tested on pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from detectors.cql.catalog import TS, Attribute
from detectors.cql.grammar import statements as s
from detectors.cql.planning.query_plan import Side
from detectors.cql.planning.scopes import RangeVariable, StreamScope, window_of
from detectors.cql.planning.window_plans import Measure, Shape, WindowExtent, WindowPlan
from detectors.language.code import Code, CodeFrame, converted
from detectors.language.compiler import condition
from detectors.language.expression import Conjunction, FieldRead, NullTest, Parenthesis
from detectors.language.query_errors import QueryError, TextSpan
from detectors.language.tree import Binary, Junction, Name, SyntaxNode, names
from detectors.language.value_types import NUMBERS, Type, ValueKind, common

_IN_JOIN = "{name} cannot stand in the condition of a join: aggregate in a sub-select first"
_Keys = list[tuple[Code, Code]]


class JoinPlan(NamedTuple):
    """The scope of joined tuples, both sides, and conditions: on pairs besides equal keys, and on results."""

    scope: StreamScope
    sides: tuple[Side, Side]
    condition: Code | None
    after: Code | None


def plan_join(select: s.Select, left: RangeVariable, right: RangeVariable, frame: CodeFrame) -> JoinPlan:
    """The parts of the plan of a join. Raises QueryError if it cannot be run."""
    assert select.join is not None
    if select.execution is not None:
        raise QueryError("joins are tuple-driven; leave EXECUTE out", select.execution.span)
    if left.alias.lower() == right.alias.lower():
        raise QueryError(f"both sides are named {left.alias!r}: give them aliases (AS ...)", select.join.other.span)
    join = select.join
    scope = StreamScope([left, right], _IN_JOIN, [each.name for each in join.using])
    windows = [_window(select, reference, source, frame)
               for reference, source in ((select.source, left), (join.other, right))]  # fmt: skip
    _check_pair(windows[0], windows[1], any(join.keeps), join.other.span)
    conditions = _Conditions(scope, _using(join.using, left, right, frame), frame)
    after = None
    if any(join.keeps):
        conditions.add(join.condition)
        after = condition(select.where, scope, frame) if select.where is not None else None
    else:  # what is filtered before it enters a window must not be what moves its clock
        pushed = [variable for variable, window in zip("ef", windows, strict=True) if window.clock is None]
        conditions.add(join.condition, pushed)
        conditions.add(select.where, pushed)
    sides = []
    for place, (reference, source) in enumerate(((select.source, left), (join.other, right))):
        before = conditions.before[place]
        assert reference.window is not None
        if reference.window.partition:
            raise QueryError("a join has no use for PARTITIONED BY: name the attribute in ON or USING", reference.window.span)
        if reference.window.where is not None:
            before.append(condition(reference.window.where, StreamScope([source], _IN_JOIN), frame))
        clock = windows[place].clock
        if clock is not None and clock.nullable:
            field = clock.field_of("e")
            assert field is not None, "a window is measured by an attribute"
            before.insert(0, Code(Parenthesis(NullTest(FieldRead("ef"[place], field), True)), ValueKind(Type.BOOLEAN)))
        keys = tuple(pair[place] for pair in conditions.keys)
        sides.append(Side(source.stream, windows[place], _all(before), keys))
    return JoinPlan(scope, (sides[0], sides[1]), _all(conditions.rest), after)


class LookupPlan(NamedTuple):
    """The scope of tuples with rows of a table, pairs of equal keys, and conditions: on pairs besides these, and on results."""

    scope: StreamScope
    keys: _Keys
    condition: Code | None
    after: Code | None


def plan_lookup(select: s.Select, left: RangeVariable, table: RangeVariable, frame: CodeFrame) -> LookupPlan:
    """The parts of the plan of a join with a table. Raises QueryError if it has no meaning."""
    join = select.join
    assert join is not None
    if join.keeps[1]:
        raise QueryError("a table has no time at which a row has no partner: JOIN or LEFT JOIN it", join.span)
    if select.source.window is not None or join.other.window is not None:
        raise QueryError("a table is looked up for each tuple, which needs no window: leave [...] out", join.span)
    if select.execution is not None:
        raise QueryError("the execution model is a matter of windows, and there is none here", select.execution.span)
    scope = StreamScope([left, table], _IN_JOIN, [each.name for each in join.using])
    conditions = _Conditions(scope, _using(join.using, left, table, frame), frame)
    conditions.add(join.condition)
    after = condition(select.where, scope, frame) if select.where is not None else None
    return LookupPlan(scope, conditions.keys, _all(conditions.rest), after)


class _Conditions:
    """The conditions of a join: pairs of equal keys, those on one side alone, and the rest."""

    def __init__(self, scope: StreamScope, keys: _Keys, frame: CodeFrame) -> None:
        self._scope, self._frame = scope, frame
        self.keys = keys
        self.before: tuple[list[Code], list[Code]] = ([], [])
        self.rest: list[Code] = []

    def add(self, node: SyntaxNode | None, pushed: Sequence[str] = ()) -> None:
        """Sort a condition's parts. Those on one side alone, if it is one of ``pushed``, are checked before it is joined."""
        for part in _conjuncts(node):
            code = condition(part, self._scope, self._frame)
            pair = _key(part, self._scope, self._frame)
            if pair is not None:
                self.keys.append(pair)
                continue
            read = {self._scope.resolve(name)[0].variable for name in names(part)}
            if len(read) == 1 and read <= set(pushed):
                self.before["ef".index(read.pop())].append(code)
            else:
                self.rest.append(code)


def _window(select: s.Select, reference: s.Reference, source: RangeVariable, frame: CodeFrame) -> WindowPlan:
    if reference.window is None:
        raise QueryError(
            f"a join of endless streams would have to keep them for ever: give {source.alias} a window over time, "
            f"such as [SIZE 10 seconds]",
            reference.span,
        )
    plan = window_of(reference.window, source, select.execution, frame)
    if plan.shape is not Shape.SIZE or plan.size is None or plan.size.measure is Measure.COUNT:
        raise QueryError("joins work on windows over time: [SIZE 10 seconds], or [SIZE 60 ON timestamp]", reference.window.span)
    if plan.size.measure is not plan.slide.measure and plan.slide != WindowExtent(Measure.COUNT, 1):
        raise QueryError("in a join, EVERY is measured as SIZE is, or it is EVERY 1 on both sides", reference.window.span)
    return plan


def _check_pair(left: WindowPlan, right: WindowPlan, is_outer: bool, span: TextSpan) -> None:
    counted = [plan.slide.measure is Measure.COUNT for plan in (left, right)]
    if not any(counted):
        return
    if not all(counted):
        raise QueryError(
            "a join takes each tuple as it comes (EVERY 1 on both sides), or windows: give both an EVERY in time", span
        )
    if left.clock is not None or right.clock is not None:
        raise QueryError(
            "EVERY 1 joins by the time that orders the streams: declare it (CREATE STREAM ... TIMESTAMP attribute), or give "
            "both an EVERY ON that attribute",
            span,
        )
    if is_outer:
        raise QueryError("whether a tuple has no partner is known when its window ends: give both sides an EVERY in time", span)


def _using(shared: tuple[Name, ...], left: RangeVariable, right: RangeVariable, frame: CodeFrame) -> _Keys:
    keys = []
    for name in shared:
        own = StreamScope([left], _IN_JOIN).resolve(name)[1]
        other = StreamScope([right], _IN_JOIN).resolve(name)[1]
        keys.append(_alike(own.code("e"), other.code("f"), name.span, frame))
    return keys


def _key(part: SyntaxNode, scope: StreamScope, frame: CodeFrame) -> tuple[Code, Code] | None:
    """The two attributes of ``a.x = b.y``, left one first."""
    if not (isinstance(part, Binary) and part.operator == "=" and isinstance(part.left, Name) and isinstance(part.right, Name)):
        return None
    resolved: dict[str, tuple[RangeVariable, Attribute]] = {}
    for name in (part.left, part.right):
        source, attribute = scope.resolve(name)
        resolved[source.variable] = source, attribute
    if len(resolved) < 2:
        return None
    codes = [resolved[variable][1].code(variable) for variable in "ef"]
    return _alike(codes[0], codes[1], part.span, frame)


def _alike(one: Code, other: Code, span: TextSpan, frame: CodeFrame) -> tuple[Code, Code]:
    if {one.type, other.type} <= NUMBERS or {one.type, other.type} == {Type.CHAR, Type.STRING}:
        return one, other  # Python compares numbers of any kind, and a Char is a text
    target = common(one.type, other.type)
    if target is None:
        raise QueryError(f"{one.type} and {other.type} are never equal: CAST one of them", span)
    return converted(frame, one, target), converted(frame, other, target)


def _conjuncts(node: SyntaxNode | None) -> list[SyntaxNode]:
    """The parts of a condition that must all hold."""
    if node is None:
        return []
    if isinstance(node, Junction) and node.operator == "AND":
        return [part for each in node.operands for part in _conjuncts(each)]
    return [node]


def _all(codes: list[Code]) -> Code | None:
    if not codes:
        return None
    return Code(Parenthesis(Conjunction([Parenthesis(code.holds) for code in codes])), ValueKind(Type.BOOLEAN))


# queries that make more of a join than its pairs


def all_joined(select: s.Select, scope: StreamScope) -> s.Select:
    """The join with all attributes, and the times that the query reads."""
    targets = [s.SelectItem(None, span=select.span)]
    for source in _read_times(select, scope):
        targets.append(s.SelectItem(Name(TS, source.name, span=select.span), f"{source.name}_ts", span=select.span))
    return replace(
        select, targets=tuple(targets), group_by=(), having=None, into=None, is_distinct=False, order_by=(), limit=None
    )


def renaming(scope: StreamScope, known: list[str]) -> Callable[[SyntaxNode], SyntaxNode | None]:
    """From attributes of the joined streams to those of the stream of ``all_joined``, which has these."""
    places: dict[tuple[str, str], str] = {}
    waiting = iter(known)
    for number, source in enumerate(scope.sources):
        for each in source.stream.schema:
            if each.name == TS:
                continue
            shared = number and each.name.lower() in scope.using
            places[source.variable, each.field] = places["e", each.field] if shared else next(waiting)

    def change(node: SyntaxNode) -> SyntaxNode | None:
        if not isinstance(node, Name) or (node.qualifier is None and node.name.lower() == TS):
            return None  # ts alone is the time of the result
        source, attribute = scope.resolve(node)
        if attribute.name == TS:
            return Name(f"{source.name}_ts", span=node.span)
        return Name(places[source.variable, attribute.field], span=node.span)

    return change


def _read_times(select: s.Select, scope: StreamScope) -> list[RangeVariable]:
    """The streams whose ``ts`` the query reads."""
    nodes = [each.expression for each in select.targets]
    nodes += [select.having, *select.group_by, *(each.key for each in select.order_by)]
    read = [name for node in nodes if node is not None for name in names(node) if name.qualifier and name.name.lower() == TS]
    return list(dict.fromkeys(scope.resolve(name)[0] for name in read))
