"""What expressions mean, worked out node by node over unbounded numbers: no code is made, and none of the compiler is used.

Whole numbers are Ints (32 bits) or Longs; a chain of arithmetic of them is calculated exactly: NULL if its end does not fit.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

from detectors.language import tree

BITS = {"Int": 31, "Long": 63}
OF_LITERALS = {"Boolean": "Boolean", "Int": "Int", "Long": "Long", "Double": "Double", "String": "String", "Null": "Null"}


class Meaning:
    """The meaning of expressions over one row: values by name, None for NULL; types by name."""

    def __init__(self, row: dict[str, Any], types: dict[str, str]) -> None:
        self.row, self.types = row, types

    def of(self, node: Any) -> Any:
        """The value of an expression."""
        value, kind = self.chained(node), self.kind(node)
        if value is not None and kind in BITS and not -(2 ** BITS[kind]) <= value < 2 ** BITS[kind]:
            return None
        return value

    def kind(self, node: Any) -> str:
        match node:
            case tree.Literal(_, kind):
                return OF_LITERALS[str(kind)]
            case tree.Name(name):
                return self.types[name]
            case tree.Unary("NOT", _) | tree.Junction() | tree.In() | tree.Between() | tree.TextMatch() | tree.IsNull():
                return "Boolean"
            case tree.Unary(_, operand):
                return self.kind(operand)
            case tree.Binary("||", _, _):
                return "String"
            case tree.Binary(operator, left, right):
                return "Boolean" if operator in tree.COMPARISONS else self.wider([left, right])
            case tree.Cast(_, kind):
                return str(kind)
            case tree.Case(branches, otherwise):
                return self.wider([value for _, value in branches] + ([otherwise] if otherwise is not None else []))
            case tree.Call("abs" | "coalesce" | "greatest" | "least" | "nullif", arguments):
                return self.wider(arguments)
            case tree.Call(name, _):
                return {"length": "Int", "sign": "Int", "floor": "Long", "ceil": "Long", "upper": "String"}.get(name, "Double")
        raise AssertionError(node)

    def wider(self, nodes: Any) -> str:
        kinds = {self.kind(each) for each in nodes} - {"Null"}
        return next(kind for kind in ("Double", "Long", "Int", "String", "Boolean") if kind in kinds)

    def chained(self, node: Any) -> Any:
        """The value, of arithmetic of whole numbers before it is asked whether it fits."""
        match node:
            case tree.Literal(value, _):
                return value
            case tree.Name(name):
                return self.row[name]
            case tree.Unary("NOT", operand):
                value = self.of(operand)
                return None if value is None else not value
            case tree.Unary(operator, operand):
                value = self.exact(operand)
                return None if value is None else -value if operator == "-" else value if operator == "+" else ~value
            case tree.Junction(operator, operands):
                values = [self.of(each) for each in operands]
                decisive = operator == "OR"
                return decisive if decisive in values else None if None in values else not decisive
            case tree.In(operand, items, negated):
                return self.junction([self.compared("=", operand, item) for item in items], negated)
            case tree.Between(operand, low, high, negated):
                both = [self.compared(">=", operand, low), self.compared("<=", operand, high)]
                value = False if False in both else None if None in both else True
                return None if value is None else value is not negated
            case tree.IsNull(operand, negated):
                return (self.of(operand) is None) is not negated
            case tree.TextMatch(_, operand, pattern, negated):
                return self.liked(self.of(operand), self.of(pattern), negated)
            case tree.Case(branches, otherwise):
                chosen = next((value for test, value in branches if self.of(test) is True), otherwise)
                return self.as_kind(None if chosen is None else self.of(chosen), self.kind(node))
            case tree.Cast(operand, kind):
                return self.cast(self.of(operand), str(kind))
            case tree.Call(name, arguments):
                return self.called(name, [self.as_kind(self.of(each), self.kind(node)) for each in arguments], arguments)
            case tree.Binary("||", left, right):
                texts = [self.of(left), self.of(right)]
                return None if None in texts else "".join(texts)
            case tree.Binary(operator, left, right) if operator in tree.COMPARISONS:
                return self.compared(operator, left, right)
            case tree.Binary(operator, left, right):
                return self.calculated(operator, left, right, self.kind(node))
        raise AssertionError(node)

    def exact(self, node: Any) -> Any:
        """The value of an operand of arithmetic: what is arithmetic itself need not fit yet."""
        is_link = isinstance(node, tree.Unary | tree.Binary) or (isinstance(node, tree.Call) and node.name == "abs")
        return self.chained(node) if is_link else self.of(node)

    def junction(self, found: list[Any], negated: bool) -> Any:
        value = True if True in found else None if None in found else False
        return None if value is None else value is not negated

    def compared(self, operator: str, left: Any, right: Any) -> Any:
        one, other = self.of(left), self.of(right)
        if one is None or other is None:
            return None
        if operator in ("=", "<>"):
            return (one == other) is (operator == "=")
        return {"<": one < other, "<=": one <= other, ">": one > other, ">=": one >= other}[operator]

    def calculated(self, operator: str, left: Any, right: Any, kind: str) -> Any:
        is_real = kind == "Double"
        one, other = (self.of(each) if is_real else self.exact(each) for each in (left, right))
        if one is None or other is None or (operator in "/%" and other == 0):
            return None
        if not is_real:
            quotient = abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1) if operator in "/%" else 0
            return {
                "+": one + other, "-": one - other, "*": one * other, "/": quotient, "%": one - quotient * other,
                "&": one & other, "|": one | other, "^": one ^ other, "<<": one << other % 64, ">>": one >> other % 64,
            }[operator]  # fmt: skip
        one, other = float(one), float(other)
        if operator == "%":
            return math.fmod(one, other) if math.isfinite(one) else None
        value = {"+": one + other, "-": one - other, "*": one * other}.get(operator)
        return value if operator != "/" else one / other if math.isfinite(one / other) else None

    def liked(self, text: Any, pattern: Any, negated: bool) -> Any:
        if text is None or pattern is None:
            return None
        expression = "".join(".*" if each == "%" else "." if each == "_" else re.escape(each) for each in pattern)
        return (re.fullmatch(expression, text, re.DOTALL) is not None) is not negated

    def as_kind(self, value: Any, kind: str) -> Any:
        return float(value) if kind == "Double" and type(value) is int else value

    def cast(self, value: Any, kind: str) -> Any:
        if value is None or kind == "Boolean":
            return value if value is None else bool(value)
        if kind == "String":
            return ("true" if value else "false") if type(value) is bool else str(value)
        if kind == "Double":
            return float(value)
        return int(value) if math.isfinite(value) else None

    def called(self, name: str, values: list[Any], arguments: Any) -> Any:
        if name == "coalesce":
            return next((value for value in values if value is not None), None)
        if name == "nullif":
            return None if values[0] is not None and values[0] == values[1] else values[0]
        if None in values:
            return None
        match name:
            case "abs":
                return abs(values[0])
            case "greatest":
                return max(values)
            case "least":
                return min(values)
            case "length":
                return len(values[0])
            case "upper":
                return values[0].upper()
            case "sign":
                return (values[0] > 0) - (values[0] < 0)
            case "sqrt":
                return math.sqrt(values[0]) if values[0] >= 0 and math.isfinite(values[0]) else None
            case "round":
                return self.rounded(*values)
        return (math.floor if name == "floor" else math.ceil)(values[0]) if math.isfinite(values[0]) else None

    def rounded(self, value: float) -> float:
        """Halves away from zero; what is no finite number as it is."""
        if not math.isfinite(value):
            return value
        # exactly: near 2**53 the sum with a half would itself be rounded to a whole number
        return math.copysign(math.floor(Fraction(abs(value)) + Fraction(1, 2)), value)
