"""Expressions of a sequence query: the meaning of its variables in the expression language, and compiled functions.

A condition cannot fail in mid-stream: if it raises, because an event holds a value its type forbids, it is NULL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from detectors.language.aggregate_functions import NAMES, aggregate, values_code
from detectors.language.code import Code, CodeFrame, Made
from detectors.language.compiler import Analysis, analyse, condition
from detectors.language.expression import (
    NULL,
    Assignment,
    Conditional,
    Expression,
    FieldRead,
    FunctionCall,
    GroupAggregate,
    Parenthesis,
    Variable,
)
from detectors.language.query_errors import QueryError, TextSpan, nearest
from detectors.language.tree import Call, Name, SyntaxNode, names
from detectors.language.value_types import INTEGERS, Type, ValueKind
from detectors.sequence.grammar.syntax import FieldReference, Index
from detectors.sequence.planning.field_kinds import FieldKind
from middleware.model.event import MAX_TS

_KEPT = ("min", "max", "first", "last")
"""Aggregates that give one of the values."""

_OF_CORE = frozenset({"count", "sum", "avg", *_KEPT})
"""Aggregates of a group that the core knows."""


class PatternVariable(NamedTuple):
    """A component of the pattern as expressions see it. ``slot`` is its place in SEQ, from 0."""

    name: str
    slot: int
    columns: Mapping[str, FieldKind]
    kleene: bool
    negated: bool
    types: str


class CompiledExpression(NamedTuple):
    """A function of the events in ``slots`` (a sequence of events for a Kleene component), and the code of its value.

    ``each``, ``previous``
        slots of Kleene components of which it reads every event, or every event with the one before it.
    ``whole``
        slots of Kleene components of which it reads all events at once, or the first.
    """

    call: Made
    slots: tuple[int, ...]
    code: Code
    each: frozenset[int]
    previous: frozenset[int]
    whole: frozenset[int]


class Expressions:
    """Compiles the expressions of one query."""

    def __init__(self, variables: Mapping[str, PatternVariable]) -> None:
        self.variables = variables
        self.frame = CodeFrame()

    def condition(self, node: SyntaxNode) -> CompiledExpression:
        """A condition as a function that is true if it holds for every event that ``[i]`` may stand for."""
        scope = _Scope(self)
        code = condition(node, scope, self.frame)
        source: Expression = code.holds
        for slot in sorted(scope.each | scope.previous):
            variables = f"p{slot}, x{slot}" if slot in scope.previous else f"x{slot}"
            events = f"pairwise(e{slot})" if slot in scope.previous else f"e{slot}"
            source = Expression(f"all({source} for {variables} in {events})")
        return scope.compiled(source, code)

    def value(self, node: SyntaxNode) -> CompiledExpression:
        """A value of RETURN as a function. Raises QueryError if it leaves open which of several events it means."""
        scope = _Scope(self)
        code = self.frame.sealed(analyse(node, scope, self.frame))
        if scope.each | scope.previous:
            hint = "write first(a[].x), last(a[].x) or another aggregate"
            raise QueryError(f"this has a value for every event of the group: {hint}", node.span)
        return scope.compiled(code.value, code)


class _Scope:
    """The scope of one expression: ``e<slot>`` is one or more events, ``x<slot>`` any of them, ``p<slot>`` the one before."""

    def __init__(self, expressions: Expressions) -> None:
        self.variables = expressions.variables
        self.frame = expressions.frame
        self.slots: set[int] = set()
        self.each: set[int] = set()
        self.previous: set[int] = set()
        self.whole: set[int] = set()

    def compiled(self, source: Expression, code: Code) -> CompiledExpression:
        """The function with this body."""
        slots = tuple(sorted(self.slots))
        text = f"def made({', '.join(f'e{slot}' for slot in slots)}):\n try:\n  return {source}\n"
        text += " except RecursionError:\n  raise\n except Exception:\n  return None\n"
        try:
            call = self.frame.define(text, _BUILTINS)
        except (SyntaxError, RecursionError, MemoryError):  # Python's errors for too many parentheses
            raise QueryError("the query is nested too deeply: name fewer things in one condition") from None
        each = frozenset(self.each | self.previous)
        return CompiledExpression(call, slots, code, each, frozenset(self.previous), frozenset(self.whole))

    def attribute(self, name: Name) -> Code:
        """A field of an event."""
        if not isinstance(name, FieldReference):
            raise self._no_value(name)
        of, index = name.variable, name.index
        if index is Index.ALL:
            raise QueryError(f"{name} is several events, not a value: use an aggregate, such as count({of}[])", name.span)
        variable, column = self.column(name)
        slot = variable.slot
        if variable.kleene and index is None:
            hint = f"write {of}[i].{name.name} for every one of them, or an aggregate such as last({of}[].{name.name})"
            raise QueryError(f"{of} is several events: {hint}", name.span)
        if not variable.kleene and index is not None:
            raise QueryError(f"{of} is one event: write {of}.{name.name}", name.span)
        if index is Index.FIRST:
            self.whole.add(slot)
        elif index is not None:
            (self.previous if index is Index.PREVIOUS else self.each).add(slot)
        return _field_code(event_name(slot, index), name.name, column)

    def call(self, call: Call) -> Code | None:
        """An aggregate of all events of a Kleene variable; anything else has its usual meaning."""
        if call.name not in NAMES:
            return None
        variable = self._group(call)
        self.whole.add(variable.slot)
        events, event = event_name(variable.slot, Index.ALL), f"g{variable.slot}"
        if call.name == "count" and is_group(call.arguments[0]):
            count = FunctionCall("len", [Variable(events)])
            return Code(GroupAggregate(count, "count", events, None), ValueKind(Type.LONG))
        inside = Analysis(_Inside(self, event), self.frame)
        arguments = [self.frame.sealed(inside.visit(each)) for each in call.arguments]
        made = aggregate(call.name, arguments, False, call.span)
        fold, values = self.frame.constant(made.fold), values_code(self.frame, arguments, event, events)
        most = arguments[0].most if made.name in _KEPT else 0
        if not made.kind.nullable or not any(each.nullable for each in arguments):
            kind = ValueKind(made.kind.type, made.kind.nullable and made.is_partial)
            return Code(_aggregate_of(made.name, arguments, FunctionCall(fold, [values]), event, events), kind, most=most)
        known = self.frame.temporary()
        folded = Parenthesis(Conditional(Assignment(known, values), FunctionCall(fold, [known]), NULL))
        return Code(_aggregate_of(made.name, arguments, folded, event, events), made.kind, most=most)

    def _group(self, call: Call) -> PatternVariable:
        """The Kleene variable whose events are aggregated."""
        read = [name for each in call.arguments for name in names(each)]
        groups = [name for name in read if is_group(name) or (isinstance(name, FieldReference) and name.index is Index.ALL)]
        if len({variable_of(name) for name in groups}) != 1 or (call.name != "count" and is_group(call.arguments[0])):
            example = "count(a[])" if call.name == "count" else f"{call.name}(a[].x)"
            extra = "; of several values: least, greatest" if call.name in ("min", "max") else ""
            raise QueryError(f"{call.name} takes all events of a Kleene variable: write {example}{extra}", call.span)
        variable = self.variable(variable_of(groups[0]), groups[0].span)
        if not variable.kleene:
            hint = f"aggregates are for several: SEQ(... {variable.types}+ {variable.name}[] ...)"
            raise QueryError(f"{variable.name} is one event: {hint}", groups[0].span)
        return variable

    def variable(self, name: str, span: TextSpan) -> PatternVariable:
        """The variable of that name, which is recorded as read."""
        found = self.variables.get(name)
        if found is None:
            raise QueryError(f"there is no variable {name}{nearest(name, self.variables)} ({self._known()})", span)
        self.slots.add(found.slot)
        return found

    def column(self, field: FieldReference) -> tuple[PatternVariable, FieldKind]:
        """The variable and the column of a field."""
        variable = self.variable(field.variable, field.span)
        column = variable.columns.get(field.name)
        if column is None:
            near, known = nearest(field.name, variable.columns), ", ".join(variable.columns)
            raise QueryError(f"{variable.types} has no field {field.name}{near} (its fields are {known})", field.span)
        return variable, column

    def _no_value(self, name: Name) -> QueryError:
        if name.name in self.variables:
            return QueryError(f"{name} is an event, not a value: name a field of it, such as {name}.ts", name.span)
        return QueryError(f"{name} is no variable: fields are written variable.field ({self._known()})", name.span)

    def _known(self) -> str:
        if not self.variables:
            return "give the components variables: SEQ(A a)"
        return f"the variables are {', '.join(self.variables)}"


class _Inside:
    """The scope inside an aggregate: ``a[].x`` is a field of the current event, anything else means the same as outside."""

    def __init__(self, outside: _Scope, event: str) -> None:
        self._outside = outside
        self._event = event

    def attribute(self, name: Name) -> Code:
        if not isinstance(name, FieldReference) or name.index is not Index.ALL or not name.name:
            return self._outside.attribute(name)
        return _field_code(self._event, name.name, self._outside.column(name)[1])

    def call(self, call: Call) -> Code | None:
        if call.name in NAMES:
            raise QueryError(f"{call.name} stands inside another aggregate: one at a time", call.span)
        return None


def _field_code(event: str, name: str, column: FieldKind) -> Code:
    return Code(FieldRead(event, name), column.kind, most=MAX_TS - 1 if name == "ts" else 0)


def event_name(slot: int, index: Index | None) -> str:
    """The name in code of the event of a component; of all events of a Kleene component, or the one that an index says."""
    match index:
        case Index.EACH:
            return f"x{slot}"
        case Index.PREVIOUS:
            return f"p{slot}"
        case Index.FIRST:
            return f"e{slot}[0]"
    return f"e{slot}"


def _aggregate_of(name: str, arguments: Sequence[Code], folded: Expression, event: str, events: str) -> Expression:
    """An aggregate, as one that the core may know if it is of a plain field, and exact there."""
    field = arguments[0].field_of(event) if len(arguments) == 1 else None
    if field is None or (name in ("sum", "avg") and arguments[0].type not in INTEGERS) or name not in _OF_CORE:
        return folded
    return GroupAggregate(folded, name, events, field)


def is_group(node: SyntaxNode) -> bool:
    """Whether a node stands for the events of a Kleene variable themselves: ``a``, ``a[]``."""
    return isinstance(node, Name) and (not node.name or not isinstance(node, FieldReference))


def variable_of(name: Name) -> str:
    """The variable that a name reads."""
    return name.variable if isinstance(name, FieldReference) else name.name


_BUILTINS = {"all": all, "len": len, "pairwise": pairwise, "Exception": Exception, "RecursionError": RecursionError}
