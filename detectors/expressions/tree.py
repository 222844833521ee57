"""Expressions as trees. Spans do not count when two are compared: what is built by hand equals what was parsed."""

from __future__ import annotations

from dataclasses import dataclass, field

from detectors.expressions.errors import NOWHERE, Span
from detectors.expressions.types import Type

Value = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Node:
    """What all expressions have: where they stand in the text."""

    span: Span = field(default=NOWHERE, compare=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Literal(Node):
    """A value that is written down; ``type`` is that of its notation."""

    value: Value
    type: Type


@dataclass(frozen=True, slots=True)
class Name(Node):
    """An attribute: ``price``, or ``stream.price``."""

    name: str
    qualifier: str | None = None


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """``-x``, ``+x``, ``~x`` or ``NOT x``."""

    operator: str
    operand: Node


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """Arithmetic (+ - * / %), bitwise (& | ^ << >>), comparison (= <> < <= > >=), or || of texts."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Junction(Node):
    """``AND`` or ``OR`` of two and more."""

    operator: str
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class In(Node):
    """``x [NOT] IN (a, b, ...)``."""

    operand: Node
    items: tuple[Node, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Between(Node):
    """``x [NOT] BETWEEN low AND high``, bounds included."""

    operand: Node
    low: Node
    high: Node
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Match(Node):
    """``x [NOT] LIKE pattern`` (% and _), or ``x [NOT] REGEX pattern`` (searched for)."""

    operator: str
    operand: Node
    pattern: Node
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNull(Node):
    """``x IS [NOT] NULL``: never itself NULL."""

    operand: Node
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function of its arguments; ``is_star``: ``count(*)``."""

    name: str
    arguments: tuple[Node, ...] = ()
    is_star: bool = False


@dataclass(frozen=True, slots=True)
class Cast(Node):
    """``CAST(x AS type)``: NULL where x cannot be converted."""

    operand: Node
    type: Type


@dataclass(frozen=True, slots=True)
class Case(Node):
    """``CASE WHEN condition THEN value ... [ELSE value] END``."""

    branches: tuple[tuple[Node, Node], ...]
    otherwise: Node | None = None


def children(node: Node) -> tuple[Node, ...]:
    """The expressions directly below one, in the order of the text."""
    match node:
        case Unary(_, operand) | IsNull(operand, _) | Cast(operand, _):
            return (operand,)
        case Binary(_, left, right) | Match(_, left, right, _):
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


def calls(node: Node) -> list[Call]:
    """All function calls in an expression, outer before inner."""
    own = [node] if isinstance(node, Call) else []
    return own + [call for child in children(node) for call in calls(child)]


def names(node: Node) -> list[Name]:
    """All attributes that an expression reads, as often as it names them."""
    own = [node] if isinstance(node, Name) else []
    return own + [name for child in children(node) for name in names(child)]
