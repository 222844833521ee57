"""Plans joins: both sides need windows over time; equalities come from ON and USING, other conditions are tested on pairs."""

from __future__ import annotations

from detectors.cql import statements as s
from detectors.cql.catalog import Attribute
from detectors.cql.plan import Side
from detectors.cql.scopes import Source, StreamScope, window_of
from detectors.cql.windows import Measure, Shape, WindowPlan
from detectors.language.code import Code, Frame, converted
from detectors.language.compiler import condition
from detectors.language.errors import QueryError, Span
from detectors.language.tree import Binary, Junction, Name, SyntaxNode, names
from detectors.language.types import NUMBERS, Type, ValueKind, common

_IN_JOIN = "{name} cannot stand in the condition of a join: aggregate in a sub-select first"
_Keys = list[tuple[Code, Code]]


def plan_join(
    select: s.Select, left: Source, right: Source, frame: Frame
) -> tuple[StreamScope, tuple[Side, Side], Code | None]:
    """The scope of the joined tuples, both sides, and the condition on pairs besides equal keys."""
    assert select.join is not None
    if select.group_by:
        raise QueryError("GROUP BY over a join: write SELECT ... FROM (SELECT ... JOIN ...) [window] GROUP BY ...", select.span)
    if select.execution is not None:
        raise QueryError("joins are tuple-driven; leave EXECUTE out", select.execution.span)
    if left.alias.lower() == right.alias.lower():
        raise QueryError(f"both sides are named {left.alias!r}: give them aliases (AS ...)", select.join.other.span)
    join = select.join
    scope = StreamScope([left, right], _IN_JOIN, [each.name for each in join.using])
    keys = _using(join.using, left, right, frame)
    rest: list[Code] = []
    before: tuple[list[Code], list[Code]] = ([], [])
    for part in [*_conjuncts(join.condition), *_conjuncts(select.where)]:
        code = condition(part, scope, frame)
        pair = _key(part, scope, frame)
        if pair is not None:
            keys.append(pair)
            continue
        read = {scope.resolve(name)[0].variable for name in names(part)}
        if len(read) == 1:  # checked before the tuple is joined
            before["ef".index(read.pop())].append(code)
        else:
            rest.append(code)
    windows = [_window(select, reference, source, frame)
               for reference, source in ((select.source, left), (join.other, right))]  # fmt: skip
    _check_pair(windows[0], windows[1], join.other.span)
    sides = []
    for place, (reference, source) in enumerate(((select.source, left), (join.other, right))):
        own = StreamScope([source], _IN_JOIN)
        assert reference.window is not None
        if reference.window.partition:
            raise QueryError("a join has no use for PARTITIONED BY: name the attribute in ON or USING", reference.window.span)
        if reference.window.where is not None:
            before[place].append(condition(reference.window.where, own, frame))
        sides.append(Side(source.stream, windows[place], _all(before[place]), tuple(pair[place] for pair in keys)))
    return scope, (sides[0], sides[1]), _all(rest)


def _window(select: s.Select, reference: s.Reference, source: Source, frame: Frame) -> WindowPlan:
    if reference.window is None:
        raise QueryError(
            f"a join of endless streams would have to keep them for ever: give {source.alias} a window over time, "
            f"such as [SIZE 10 seconds]",
            reference.span,
        )
    plan = window_of(reference.window, source, select.execution, frame)
    if plan.shape is not Shape.SIZE or plan.size is None or plan.size.measure is not Measure.TS:
        raise QueryError("joins work on windows over time: [SIZE 10 seconds], or [SIZE 60 ON timestamp]", reference.window.span)
    return plan


def _check_pair(left: WindowPlan, right: WindowPlan, span: Span) -> None:
    same = left.slide == right.slide and left.phase == right.phase
    if not same or left.slide.measure is Measure.CLOCK or (left.slide.measure is Measure.COUNT and left.slide.amount != 1):
        raise QueryError(
            "a join takes the current windows of both streams at the same moments: give both the same EVERY, as a time, or "
            "EVERY 1 on both to join each tuple as it comes",
            span,
        )


def _using(shared: tuple[Name, ...], left: Source, right: Source, frame: Frame) -> _Keys:
    keys = []
    for name in shared:
        own = StreamScope([left], _IN_JOIN).resolve(name)[1]
        other = StreamScope([right], _IN_JOIN).resolve(name)[1]
        keys.append(_alike(own.code("e"), other.code("f"), name.span, frame))
    return keys


def _key(part: SyntaxNode, scope: StreamScope, frame: Frame) -> tuple[Code, Code] | None:
    """The two attributes of ``a.x = b.y``, left one first."""
    if not (isinstance(part, Binary) and part.operator == "=" and isinstance(part.left, Name) and isinstance(part.right, Name)):
        return None
    resolved: dict[str, tuple[Source, Attribute]] = {}
    for name in (part.left, part.right):
        source, attribute = scope.resolve(name)
        resolved[source.variable] = source, attribute
    if len(resolved) < 2:
        return None
    codes = [resolved[variable][1].code(variable) for variable in "ef"]
    return _alike(codes[0], codes[1], part.span, frame)


def _alike(one: Code, other: Code, span: Span, frame: Frame) -> tuple[Code, Code]:
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
    return Code(f"({' and '.join(f'({code.holds})' for code in codes)})", ValueKind(Type.BOOLEAN))
