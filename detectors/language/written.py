"""Compiled expressions as the native core takes them: nested tuples, an operator and its operands.

What the core does not know is left to Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from detectors.language.expression import (
    NULL,
    Arithmetic,
    Assignment,
    Comparison,
    Conditional,
    Conjunction,
    ConstantValue,
    Disjunction,
    Expression,
    FalseTest,
    FieldRead,
    FunctionCall,
    Negation,
    NullTest,
    Parenthesis,
    RangeTest,
    SignedValue,
    Variable,
)

Written = tuple[Any, ...]
"""An expression as nested tuples."""

_CALLS = {"quotient": 2, "float": 1}
"""Functions that the core knows, and how many arguments they take."""


class NotPlainError(Exception):
    """The expression does more than the core knows."""


class ExpressionWriter:
    """Writes expressions that read events under these names, for programs over columns.

    ``fields``: those they read, of each event.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._kept: dict[str, int] = {}
        self.fields: list[list[str]] = [[] for _ in names]

    def written(self, node: Expression) -> Written:  # noqa: PLR0912
        """Raises NotPlainError."""
        match node:
            case Parenthesis(inner):
                return self.written(inner)
            case FieldRead(event, field) if event in self._names:
                which = self._names.index(event)
                if field not in self.fields[which]:
                    self.fields[which].append(field)
                return "field", which, self.fields[which].index(field)
            case ConstantValue(str() as text) if any("\ud800" <= each <= "\udfff" for each in text):
                raise NotPlainError  # half a surrogate pair is no text of the core's
            case ConstantValue(value) if value is None or type(value) in (bool, int, float, str):
                return "constant", value
            case Assignment(name, value):
                return "keep", self._kept.setdefault(name, len(self._kept)), self.written(value)
            case Variable() if node in self._kept:
                return "kept", self._kept[node]
            case Arithmetic("+" | "-" | "*" as sign, left, right) | Comparison(sign, left, right):
                return sign, self.written(left), self.written(right)
            case SignedValue("-", operand):
                return "negate", self.written(operand)
            case Negation(operand):
                return "not", self.written(operand)
            case NullTest(operand, negated):
                is_there = "there", self.written(operand)
                return is_there if negated else ("not", is_there)
            case FalseTest(operand):
                return "=", self.written(operand), ("constant", False)
            case RangeTest(value, limit):
                again = value.name if isinstance(value, Assignment) else value
                least = "<=", ("constant", -limit), self.written(value)
                return "all", least, ("<", self.written(again), ("constant", limit))
            case Conjunction((one,)) | Disjunction((one,)):
                return self.written(one)
            case Conjunction(operands):
                return "all", *map(self.written, operands)
            case Disjunction(operands):
                return "any", *map(self.written, operands)
            case Conditional(test, one, other):  # as it runs: the test keeps what the values read
                return "choose", self.written(test), self.written(one), self.written(other)
            case FunctionCall(name, arguments) if _CALLS.get(name) == len(arguments):
                return name, *map(self.written, arguments)
        raise NotPlainError


class RowWriter(ExpressionWriter):
    """Writes expressions for rows: tests and plain arithmetic on fields that are there."""

    def written(self, node: Expression) -> Written:
        if not isinstance(node, _OF_ROWS) or node == NULL:
            raise NotPlainError
        return super().written(node)


_OF_ROWS = (Arithmetic, Comparison, Conjunction, ConstantValue, Disjunction, FieldRead, Negation, Parenthesis)
"""What the core's expressions over rows know, which have neither NULL nor intermediate values."""
