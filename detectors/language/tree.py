"""Expressions as trees. Comparisons ignore spans: a tree built by hand equals a parsed one.

``str`` of a tree is its text, fully parenthesised: parsing it gives the same tree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from math import copysign
from typing import Any

from detectors.language.query_errors import NOWHERE, TextSpan
from detectors.language.value_types import LIMITS, Type

Value = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class SyntaxNode:
    """The base of all expressions: their place in the text."""

    span: TextSpan = field(default=NOWHERE, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Literal(SyntaxNode):
    """A value written in the text; ``type`` follows from its notation."""

    value: Value
    type: Type

    def __str__(self) -> str:
        if isinstance(self.value, str):
            return "'" + self.value.replace("'", "''") + "'"
        return "NULL" if self.value is None else str(self.value).upper() if isinstance(self.value, bool) else repr(self.value)


@dataclass(frozen=True, slots=True)
class Name(SyntaxNode):
    """An attribute: ``price``, or ``stream.price``."""

    name: str
    qualifier: str | None = None

    def __str__(self) -> str:
        return f"{self.qualifier}.{self.name}" if self.qualifier else self.name


@dataclass(frozen=True, slots=True)
class Unary(SyntaxNode):
    """``-x``, ``+x``, ``~x`` or ``NOT x``."""

    operator: str
    operand: SyntaxNode

    def __str__(self) -> str:
        return f"NOT ({self.operand})" if self.operator == "NOT" else f"({self.operator}{_inner(self.operand)})"


@dataclass(frozen=True, slots=True)
class Binary(SyntaxNode):
    """Arithmetic (+ - * / %), bitwise (& | ^ << >>), comparison (= <> < <= > >=), or || of texts."""

    operator: str
    left: SyntaxNode
    right: SyntaxNode

    def __str__(self) -> str:
        text = f"{_inner(self.left)} {self.operator} {_inner(self.right)}"
        return text if self.operator in COMPARISONS else f"({text})"


@dataclass(frozen=True, slots=True)
class Junction(SyntaxNode):
    """``AND`` or ``OR`` of two or more conditions."""

    operator: str
    operands: tuple[SyntaxNode, ...]

    def __str__(self) -> str:
        return "(" + f" {self.operator} ".join(map(str, self.operands)) + ")"


@dataclass(frozen=True, slots=True)
class In(SyntaxNode):
    """``x [NOT] IN (a, b, ...)``."""

    operand: SyntaxNode
    items: tuple[SyntaxNode, ...]
    negated: bool = False

    def __str__(self) -> str:
        return f"{_inner(self.operand)}{_not(self)} IN ({', '.join(map(str, self.items))})"


@dataclass(frozen=True, slots=True)
class Between(SyntaxNode):
    """``x [NOT] BETWEEN low AND high``, bounds included."""

    operand: SyntaxNode
    low: SyntaxNode
    high: SyntaxNode
    negated: bool = False

    def __str__(self) -> str:
        return f"{_inner(self.operand)}{_not(self)} BETWEEN {_inner(self.low)} AND {_inner(self.high)}"


@dataclass(frozen=True, slots=True)
class TextMatch(SyntaxNode):
    """``x [NOT] LIKE pattern`` (% and _), or ``x [NOT] REGEX pattern`` (searched for)."""

    operator: str
    operand: SyntaxNode
    pattern: SyntaxNode
    negated: bool = False

    def __str__(self) -> str:
        return f"{_inner(self.operand)}{_not(self)} {self.operator} {_inner(self.pattern)}"


@dataclass(frozen=True, slots=True)
class IsNull(SyntaxNode):
    """``x IS [NOT] NULL``: never itself NULL."""

    operand: SyntaxNode
    negated: bool = False

    def __str__(self) -> str:
        return f"{_inner(self.operand)} IS{_not(self)} NULL"


@dataclass(frozen=True, slots=True)
class Call(SyntaxNode):
    """A function of its arguments; ``is_star``: ``count(*)``; ``is_distinct``: of different values, ``count(DISTINCT x)``."""

    name: str
    arguments: tuple[SyntaxNode, ...] = ()
    is_star: bool = False
    is_distinct: bool = field(default=False, kw_only=True)

    def __str__(self) -> str:
        distinct = "DISTINCT " if self.is_distinct else ""
        return f"{self.name}({'*' if self.is_star else distinct + ', '.join(map(str, self.arguments))})"


@dataclass(frozen=True, slots=True)
class Cast(SyntaxNode):
    """``CAST(x AS type)``: NULL where x cannot be converted."""

    operand: SyntaxNode
    type: Type

    def __str__(self) -> str:
        return f"CAST({self.operand} AS {self.type})"


@dataclass(frozen=True, slots=True)
class Case(SyntaxNode):
    """``CASE WHEN condition THEN value ... [ELSE value] END``."""

    branches: tuple[tuple[SyntaxNode, SyntaxNode], ...]
    otherwise: SyntaxNode | None = None

    def __str__(self) -> str:
        branches = " ".join(f"WHEN {test} THEN {value}" for test, value in self.branches)
        return f"CASE {branches}{'' if self.otherwise is None else f' ELSE {self.otherwise}'} END"


COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">="})
"""The operators of ``Binary`` that give a truth value."""


def _inner(node: SyntaxNode) -> str:
    """A node as an operand: conditions get parentheses; all other nodes have their own or need none."""
    is_bare = isinstance(node, In | Between | TextMatch | IsNull) or (isinstance(node, Binary) and node.operator in COMPARISONS)
    return f"({node})" if is_bare or (isinstance(node, Unary) and node.operator == "NOT") else str(node)


def _not(node: In | Between | TextMatch | IsNull) -> str:
    return " NOT" if node.negated else ""


def literal(value: Value) -> SyntaxNode:
    """The literal of a Python value; a negative number becomes a negation, as in a text."""
    if value is None:
        return Literal(None, Type.NULL)
    if isinstance(value, bool):
        return Literal(value, Type.BOOLEAN)
    if isinstance(value, str):
        return Literal(value, Type.STRING)
    if copysign(1, value) < 0:
        return Unary("-", literal(-value))
    return Literal(value, Type.DOUBLE if isinstance(value, float) else Type.INT if value < LIMITS[Type.INT] else Type.LONG)


def children(node: SyntaxNode) -> tuple[SyntaxNode, ...]:
    """The expressions directly below one, in the order of the text."""
    match node:
        case Unary(_, operand) | IsNull(operand, _) | Cast(operand, _):
            return (operand,)
        case Binary(_, left, right) | TextMatch(_, left, right, _):
            return (left, right)
        case Junction(_, operands) | Call(_, operands, _):
            return operands
        case In(operand, items, _):
            return (operand, *items)
        case Between(operand, low, high, _):
            return (operand, low, high)
        case Case(branches, otherwise):
            flat = tuple(each for branch in branches for each in branch)
            return flat if otherwise is None else (*flat, otherwise)
    return ()


def rewritten(node: SyntaxNode, change: Callable[[SyntaxNode], SyntaxNode | None]) -> SyntaxNode:
    """The expression with every node that ``change`` gives another one for (None: it stays) replaced, outer before inner."""
    found = change(node)
    if found is not None:
        return found

    def inside(part: object) -> object:
        if isinstance(part, SyntaxNode):
            return rewritten(part, change)
        return tuple(map(inside, part)) if isinstance(part, tuple) and not isinstance(part, TextSpan) else part

    parts: dict[str, Any] = {each.name: inside(getattr(node, each.name)) for each in fields(node)}
    return replace(node, **parts)


def calls(node: SyntaxNode) -> list[Call]:
    """All function calls in an expression, outer before inner."""
    own = [node] if isinstance(node, Call) else []
    return own + [call for child in children(node) for call in calls(child)]


def names(node: SyntaxNode) -> list[Name]:
    """All attributes that an expression reads, each as often as it is named."""
    own = [node] if isinstance(node, Name) else []
    return own + [name for child in children(node) for name in names(child)]
