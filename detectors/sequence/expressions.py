"""Expressions of a query, checked against the event types and turned into Python functions.

Logic is three-valued as in SQL: what rests on NULL is NULL, and a condition holds only if it is TRUE. Division by zero gives
NULL, and so does what cannot be computed at all. ``/`` is division of real numbers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, NamedTuple

from detectors.expressions.patterns import like
from detectors.sequence.errors import QueryError
from detectors.sequence.functions import AGGREGATES, ANYTHING, FUNCTIONS, NUMBER, Kind, aggregated
from detectors.sequence.schema import Column
from detectors.sequence.syntax import (
    Arithmetic,
    Call,
    Comparison,
    Expression,
    Field,
    Group,
    In,
    Index,
    IsNull,
    Junction,
    Like,
    Literal,
    Name,
    Not,
    Place,
)

_COMPARED = {"=": "==", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


class Variable(NamedTuple):
    """A component of the pattern as expressions see it. ``slot`` is its place in SEQ, from 0."""

    name: str
    slot: int
    columns: Mapping[str, Column]
    kleene: bool
    negated: bool
    types: str


class Code(NamedTuple):
    """A piece of Python source, what it gives, and whether that may be NULL (None)."""

    source: str
    kind: Kind
    nullable: bool
    type: Any = None


class Compiled(NamedTuple):
    """A function of the events in ``slots`` (for a Kleene component a sequence of them), and what it gives.

    ``each``, ``previous``
        slots of Kleene components of which it reads every event, or every event with the one before it.
    ``whole``
        slots of Kleene components of which it reads all events at once, or the first.
    """

    call: Callable[..., Any]
    slots: tuple[int, ...]
    code: Code
    each: frozenset[int]
    previous: frozenset[int]
    whole: frozenset[int]


class Expressions:
    """Compiles the expressions of one query. ``text`` is the query, to show mistakes in."""

    def __init__(self, variables: Mapping[str, Variable], text: str) -> None:
        self.variables = variables
        self.text = text

    def condition(self, node: Expression) -> Compiled:
        """A condition as a function that gives True where it holds: for every event that ``[i]`` may stand for."""
        one = _One(self)
        code = one.logical(node)
        source = code.source if not code.nullable else f"({code.source}) is True"
        for slot in sorted(one.each | one.previous):
            names = f"p{slot}, x{slot}" if slot in one.previous else f"x{slot}"
            events = f"pairwise(e{slot})" if slot in one.previous else f"e{slot}"
            source = f"all({source} for {names} in {events})"
        return one.compiled(source, code)

    def value(self, node: Expression) -> Compiled:
        """A value of RETURN as a function. Raises QueryError if it does not say which event of several it means."""
        one = _One(self)
        code = one.code(node)
        if one.each | one.previous:
            raise self.wrong(
                "this has a value for every event of the group", "write first(a[].x), last(a[].x) or another aggregate", node
            )
        return one.compiled(code.source, code)

    def wrong(self, message: str, hint: str, node: Expression | Place) -> QueryError:
        """The error that shows ``node`` in the text of the query."""
        at = node if isinstance(node, Place) else node.at
        return QueryError(message, hint=hint, text=self.text, line=at.line, column=at.column, length=at.length)


class _One:
    """Compiles one expression: ``e<slot>`` is an event, or several; ``x<slot>`` any of those, ``p<slot>`` the one before."""

    def __init__(self, expressions: Expressions) -> None:
        self.variables = expressions.variables
        self.wrong = expressions.wrong
        self.slots: set[int] = set()
        self.each: set[int] = set()
        self.previous: set[int] = set()
        self.whole: set[int] = set()
        self.constants: dict[str, Any] = {"pairwise": pairwise, "aggregated": aggregated, **_HELPERS}

    def compiled(self, source: str, code: Code) -> Compiled:
        slots = tuple(sorted(self.slots))
        names = ", ".join(f"e{slot}" for slot in slots)
        text = f"def call({names}):\n try:\n  return {source}\n except RecursionError:\n  raise\n"
        text += " except Exception:\n  return None\n"
        try:
            exec(compile(text, "<query>", "exec"), self.constants)
        except (SyntaxError, RecursionError, MemoryError):  # what Python says of too many parentheses
            raise QueryError("the query is nested too deeply", hint="name fewer things in one condition") from None
        each = frozenset(self.each | self.previous)
        return Compiled(self.constants["call"], slots, code, each, frozenset(self.previous), frozenset(self.whole))

    def logical(self, node: Expression) -> Code:
        code = self.code(node)
        if code.kind not in (Kind.BOOL, Kind.NULL):
            raise self.wrong(f"{node} is {_a(code.kind)}, not a condition", "compare it with something", node)
        return code

    def code(self, node: Expression) -> Code:
        method: Callable[[Any], Code] = getattr(self, f"_{type(node).__name__.lower()}")
        return method(node)

    def _constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def _literal(self, node: Literal) -> Code:
        kind = {bool: Kind.BOOL, int: Kind.INT, float: Kind.FLOAT, str: Kind.TEXT}.get(type(node.value), Kind.NULL)
        return Code(self._constant(node.value), kind, node.value is None, type(node.value))

    def _name(self, node: Name) -> Code:
        if node.name in self.variables:
            raise self.wrong(f"{node.name} is an event, not a value", f"name a field of it, such as {node.name}.ts", node)
        known = ", ".join(self.variables)
        hint = (
            f"fields are written variable.field; the variables are {known}"
            if known
            else "give the components variables: SEQ(A a)"
        )
        raise self.wrong(f"{node.name} is no variable", hint, node)

    def _same(self, node: Expression) -> Code:
        raise self.wrong(f"{node} can only stand by itself, or between ANDs", "write the comparisons one by one", node)

    def _group(self, node: Group) -> Code:
        raise self.wrong(f"{node} is several events, not a value", f"use an aggregate, such as count({node.variable}[])", node)

    def variable(self, name: str, node: Expression) -> Variable:
        """The variable of that name; also noted as read."""
        found = self.variables.get(name)
        if found is None:
            close = get_close_matches(name, self.variables, 1)
            hint = f"did you mean {close[0]}?" if close else f"the variables are {', '.join(self.variables)}"
            raise self.wrong(
                f"there is no variable {name}", hint if self.variables else "give the components variables: SEQ(A a)", node
            )
        self.slots.add(found.slot)
        return found

    def _column(self, variable: Variable, name: str, node: Expression) -> Column:
        column = variable.columns.get(name)
        if column is None:
            close = get_close_matches(name, variable.columns, 1)
            known = ", ".join(variable.columns)
            hint = f"did you mean {close[0]}? " if close else ""
            raise self.wrong(f"{variable.types} has no field {name}", f"{hint}its fields are {known}", node)
        return column

    def _field(self, node: Field) -> Code:
        variable = self.variable(node.variable, node)
        column = self._column(variable, node.name, node)
        slot, name = variable.slot, node.variable
        if variable.kleene and node.index is None:
            hint = f"write {name}[i].{node.name} for every one of them, or an aggregate such as last({name}[].{node.name})"
            raise self.wrong(f"{name} is several events", hint, node)
        if not variable.kleene and node.index is not None:
            raise self.wrong(f"{name} is one event", f"write {name}.{node.name}", node)
        if node.index is None:
            source = f"e{slot}.{node.name}"
        elif node.index is Index.FIRST:
            self.whole.add(slot)
            source = f"e{slot}[0].{node.name}"
        else:
            (self.previous if node.index is Index.PREVIOUS else self.each).add(slot)
            source = f"{'p' if node.index is Index.PREVIOUS else 'x'}{slot}.{node.name}"
        return Code(source, column.kind, column.nullable, column.type)

    def _call(self, node: Call) -> Code:
        if node.function in AGGREGATES:
            return self._aggregate(node)
        function = FUNCTIONS.get(node.function)
        if function is None:
            known = [*FUNCTIONS, *AGGREGATES]
            close = get_close_matches(node.function, known, 1)
            raise self.wrong(
                f"there is no function {node.function}",
                f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}",
                node,
            )
        arguments = [self.code(argument) for argument in node.arguments]
        takes = [*function.takes, *function.takes[-1:] * (len(arguments) - len(function.takes) if function.many else 0)]
        if len(takes) != len(arguments):
            raise self.wrong(f"{node.function} takes {len(takes)} values, not {len(arguments)}", "", node)
        for argument, code, wanted in zip(node.arguments, arguments, takes, strict=True):
            if not (
                wanted == ANYTHING
                or code.kind is Kind.NULL
                or wanted == code.kind
                or (wanted == NUMBER and code.kind.is_number)
            ):
                raise self.wrong(f"{node.function} takes {_a(wanted)}, but {argument} is {_a(code.kind)}", "", argument)
        kind = function.gives or self._joint(arguments, node)
        unknown = any(code.nullable for code in arguments)
        values = ", ".join(code.source for code in arguments)
        strict = unknown and node.function != "coalesce"
        source = (
            f"call_known({self._constant(function.call)}, {values})" if strict else f"{self._constant(function.call)}({values})"
        )
        nullable = all(code.nullable for code in arguments) if node.function == "coalesce" else unknown or function.partial
        return Code(source, kind, nullable, arguments[0].type)

    def _joint(self, many: list[Code], node: Expression) -> Kind:
        """The one kind of several values."""
        kinds = {code.kind for code in many} - {Kind.NULL}
        if len(kinds) > 1 and all(kind.is_number for kind in kinds):
            return Kind.FLOAT
        if len(kinds) > 1:
            raise self.wrong(f"{node} mixes {' and '.join(sorted(map(_a, kinds)))}", "give values of one kind", node)
        return kinds.pop() if kinds else Kind.NULL

    def _aggregate(self, node: Call) -> Code:
        aggregate = AGGREGATES[node.function]
        (group,) = node.arguments if len(node.arguments) == 1 else (None,)
        if isinstance(group, Name) and not aggregate.takes:
            group = Group(group.name, at=group.at)
        if not isinstance(group, Group):
            example = "count(a[])" if not aggregate.takes else f"{node.function}(a[].x)"
            extra = " (of several values: least, greatest)" if node.function in ("min", "max") else ""
            raise self.wrong(f"{node.function} takes all events of a Kleene variable", f"write {example}{extra}", node)
        variable = self.variable(group.variable, group)
        if not variable.kleene:
            raise self.wrong(
                f"{variable.name} is one event",
                f"aggregates are for several: SEQ(... {variable.types}+ {variable.name}[] ...)",
                group,
            )
        self.whole.add(variable.slot)
        if not aggregate.takes:
            return Code(f"len(e{variable.slot})", Kind.INT, False)
        if group.name is None:
            raise self.wrong(
                f"{node.function} takes values", f"name a field, such as {node.function}({variable.name}[].ts)", group
            )
        column = self._column(variable, group.name, group)
        if aggregate.takes == NUMBER and not column.kind.is_number:
            raise self.wrong(f"{node.function} takes numbers, but {group} is {_a(column.kind)}", "", group)
        call = self._constant(aggregate.call)
        values = f"[x.{group.name} for x in e{variable.slot}]"
        source = f"aggregated({call}, {values})" if column.nullable else f"{call}({values})"
        return Code(source, aggregate.gives or column.kind, column.nullable, column.type)

    def _arithmetic(self, node: Arithmetic) -> Code:
        sides = self.code(node.left), self.code(node.right)
        for side, code in zip((node.left, node.right), sides, strict=True):
            if not code.kind.is_number and code.kind is not Kind.NULL:
                hint = "texts are joined by concat(a, b)" if code.kind is Kind.TEXT and node.operator == "+" else ""
                raise self.wrong(f"{side} is {_a(code.kind)}, not a number", hint, side)
        left, right = sides
        divides = node.operator in "/%"
        safe = divides and isinstance(node.right, Literal) and bool(node.right.value)
        kind = Kind.INT if left.kind == right.kind == Kind.INT and node.operator != "/" else Kind.FLOAT
        nullable = left.nullable or right.nullable or (divides and not safe)
        if nullable:
            return Code(f"{_ARITHMETIC[node.operator]}({left.source}, {right.source})", kind, True)
        return Code(f"({left.source} {node.operator} {right.source})", kind, False)

    def _comparison(self, node: Comparison) -> Code:
        left, right = self.code(node.left), self.code(node.right)
        self._comparable(left, right, node, node.operator)
        sign = _COMPARED[node.operator]
        if left.nullable or right.nullable:
            return Code(f"{_COMPARISONS[sign]}({left.source}, {right.source})", Kind.BOOL, True)
        return Code(f"({left.source} {sign} {right.source})", Kind.BOOL, False)

    def _comparable(self, left: Code, right: Code, node: Expression, sign: str) -> None:
        if Kind.NULL in (left.kind, right.kind):
            raise self.wrong("nothing equals NULL, not even NULL", "write IS NULL, or IS NOT NULL", node)
        if left.kind != right.kind and not (left.kind.is_number and right.kind.is_number):
            raise self.wrong(f"{_a(left.kind)} cannot be compared with {_a(right.kind)}", "compare values of one kind", node)
        if left.kind is Kind.BOOL and sign not in ("=", "<>"):
            raise self.wrong("TRUE and FALSE have no order", "compare them with = or <>", node)

    def _in(self, node: In) -> Code:
        value, options = self.code(node.value), [self.code(option) for option in node.options]
        for option, code in zip(node.options, options, strict=True):
            self._comparable(value, code, option, "=")
        listed = ", ".join(code.source for code in options)
        if value.nullable or any(code.nullable for code in options):
            return Code(f"among({value.source}, {listed})", Kind.BOOL, True)
        return Code(f"({value.source} in ({listed},))", Kind.BOOL, False)

    def _like(self, node: Like) -> Code:
        value = self.code(node.value)
        if value.kind is not Kind.TEXT:
            raise self.wrong(f"LIKE is for texts, but {node.value} is {_a(value.kind)}", "", node)
        name = self._constant(like(node.pattern, escapes=False))
        if value.nullable:
            return Code(f"call_known({name}, {value.source})", Kind.BOOL, True)
        return Code(f"{name}({value.source})", Kind.BOOL, False)

    def _isnull(self, node: IsNull) -> Code:
        return Code(f"({self.code(node.value).source} is None)", Kind.BOOL, False)

    def _not(self, node: Not) -> Code:
        term = self.logical(node.term)
        return Code(f"{'negated' if term.nullable else 'not '}({term.source})", Kind.BOOL, term.nullable)

    def _junction(self, node: Junction) -> Code:
        terms = [self.logical(term) for term in node.terms]
        sources = [term.source for term in terms]
        if any(term.nullable for term in terms):
            name = "all_of" if node.operator == "AND" else "any_of"
            return Code(f"{name}({', '.join(f'lambda: {source}' for source in sources)})", Kind.BOOL, True)
        return Code("(" + f" {node.operator.lower()} ".join(sources) + ")", Kind.BOOL, False)


def _a(kind: str) -> str:
    names = {Kind.INT: "a number", Kind.FLOAT: "a number", Kind.BOOL: "TRUE or FALSE", Kind.TEXT: "a text", Kind.NULL: "NULL"}
    return names.get(kind, "a value of another type" if kind is Kind.OTHER else kind)  # type: ignore[call-overload, no-any-return]


def _known(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda left, right: None if left is None or right is None else function(left, right)


def _dividing(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda left, right: None if left is None or not right else function(left, right)


def _call_known(function: Callable[..., Any], *values: Any) -> Any:
    return None if any(value is None for value in values) else function(*values)


def _negated(value: bool | None) -> bool | None:
    return None if value is None else not value


def _all_of(*terms: Callable[[], bool | None]) -> bool | None:
    unknown = False
    for term in terms:
        value = term()
        if value is False:
            return False
        unknown = unknown or value is None
    return None if unknown else True


def _any_of(*terms: Callable[[], bool | None]) -> bool | None:
    unknown = False
    for term in terms:
        value = term()
        if value is True:
            return True
        unknown = unknown or value is None
    return None if unknown else False


def _among(value: Any, *options: Any) -> bool | None:
    if value is None:
        return None
    if value in [option for option in options if option is not None]:
        return True
    return None if any(option is None for option in options) else False


_ARITHMETIC = {"+": "plus", "-": "minus", "*": "times", "/": "divided", "%": "modulo"}
_COMPARISONS = {"==": "equal", "!=": "unequal", "<": "below", "<=": "up_to", ">": "above", ">=": "from_"}
_HELPERS: dict[str, Any] = {
    "plus": _known(operator.add),
    "minus": _known(operator.sub),
    "times": _known(operator.mul),
    "divided": _dividing(operator.truediv),
    "modulo": _dividing(operator.mod),
    "equal": _known(operator.eq),
    "unequal": _known(operator.ne),
    "below": _known(operator.lt),
    "up_to": _known(operator.le),
    "above": _known(operator.gt),
    "from_": _known(operator.ge),
    "call_known": _call_known,
    "negated": _negated,
    "all_of": _all_of,
    "any_of": _any_of,
    "among": _among,
}
