"""Compiled expressions as the native core takes them: nested tuples, an operator and its operands.

Python evaluates expressions that the core does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from detectors.language.expression import (
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
    GroupAggregate,
    Membership,
    Negation,
    NullableOperand,
    NullTest,
    Parenthesis,
    RangeTest,
    SealedValue,
    SignedValue,
    StrictOperation,
    ValueTuple,
    Variable,
)
from detectors.language.value_types import LIMITS, Type

Written = tuple[Any, ...]
"""An expression as nested tuples."""

_CALLS = {"quotient": 2, "rest": 2, "integer_quotient": 2, "integer_rest": 2, "float": 1, "both": 2, "either": 2}
"""Functions that the core knows, and how many arguments they take."""


class NotPlainError(Exception):
    """The expression does more than the core knows."""


def tuples_named(names: Sequence[str]) -> dict[str, tuple[str, int]]:
    """The fields that ``ExpressionWriter`` reads of tuples, which code calls by these names."""
    return {name: ("field", which) for which, name in enumerate(names)}


class ExpressionWriter:
    """Writes expressions, whether they are for rows or for columns.

    ``reads``: by the name of an event in code, the core's word for reading a field of it, and the number of what it is.
    ``fields``: those they read, by that number.
    """

    def __init__(self, reads: Mapping[str, tuple[str, int]]) -> None:
        self._reads = reads
        self._kept: dict[str, int] = {}
        self.fields: list[list[str]] = [[] for _ in {which for _, which in reads.values()}]

    def written(self, expression: Expression) -> Written:
        """Raises NotPlainError."""
        self._kept = {}
        return self._written(expression)

    def _written(self, node: Expression) -> Written:  # noqa: PLR0912
        match node:
            case Parenthesis(inner):
                return self._written(inner)
            case FieldRead(event, field) if event in self._reads:
                word, which = self._reads[event]
                return word, which, self._place(which, field)
            case GroupAggregate(name, events, field) if events in self._reads:
                word, which = self._reads[events]
                return word, name, which, None if field is None else self._place(which, field)
            case ConstantValue(value):
                return _constant(value)
            case Assignment(name, value):
                return "keep", self._kept.setdefault(name, len(self._kept)), self._written(value)
            case Variable() if node in self._kept:
                return "kept", self._kept[node]
            case Arithmetic("+" | "-" | "*" as sign, left, right) | Comparison(sign, left, right):
                return sign, self._written(left), self._written(right)
            case SignedValue("-", operand):
                return "negate", self._written(operand)
            case SealedValue(checked, value, limit):  # whole numbers of the core have 64 bits
                return ("whole", self._written(value)) if limit == LIMITS[Type.LONG] else self._written(checked)
            case Negation(operand):
                return "not", self._written(operand)
            case NullTest(operand, negated):
                return _negated(("there", self._written(operand)), not negated)
            case FalseTest(operand):
                return "=", self._written(operand), ("constant", False)
            case RangeTest(value, limit):
                again = value.name if isinstance(value, Assignment) else value
                least = "<=", ("constant", -limit), self._written(value)
                return "all", least, ("<", self._written(again), ("constant", limit))
            case StrictOperation(_, operation, otherwise):
                return "strict", _constant(otherwise.value), self._written(operation)
            case NullableOperand(value):
                return "nullable", self._written(value)
            case Conjunction((one,)) | Disjunction((one,)):
                return self._written(one)
            case Conjunction(operands):
                return "all", *map(self._written, operands)
            case Disjunction(operands):
                return "any", *map(self._written, operands)
            case Conditional(test, one, other):  # as it runs: the test keeps what the values read
                return "choose", self._written(test), self._written(one), self._written(other)
            case Membership(operand, values, negated):
                return _negated(("in", self._written(operand), *self._among(values)), negated)
            case FunctionCall("is_in", (operand, values)):
                return "is_in", self._written(operand), *self._among(values)
            case FunctionCall(name, arguments) if _CALLS.get(name) == len(arguments):
                return name, *map(self._written, arguments)
        raise NotPlainError

    def _place(self, which: int, field: str) -> int:
        if field not in self.fields[which]:
            self.fields[which].append(field)
        return self.fields[which].index(field)

    def _among(self, node: Expression) -> list[Written]:
        match node:
            case ConstantValue(tuple() | frozenset() as values):
                return list(map(_constant, values))
            case ValueTuple(values):
                return list(map(self._written, values))
        raise NotPlainError


def _constant(value: object) -> Written:
    if type(value) is str and any("\ud800" <= each <= "\udfff" for each in value):
        raise NotPlainError  # half a surrogate pair is no text of the core's
    if value is not None and type(value) not in (bool, int, float, str):
        raise NotPlainError
    return "constant", value


def _negated(test: Written, negated: bool) -> Written:
    return ("not", test) if negated else test
