"""Compiled code as the native core takes it: nested tuples, an operator and its operands.

Code fragments are Python (``code``), and are read as Python. What the core does not know is left to Python.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

Written = tuple[Any, ...]
"""A piece of code as nested tuples."""

_SIGNS = {ast.Eq: "=", ast.NotEq: "<>", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_ARITHMETIC = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_JUNCTIONS = {ast.And: "all", ast.Or: "any"}
_CALLS = {"quotient": 2, "float": 1}


class NotPlainError(Exception):
    """The code does more than the core knows."""


class ConditionWriter:
    """Writes code that reads tuples under these names, and constants: tests and plain arithmetic on fields that are there.

    ``fields``: those it reads, of each tuple.
    """

    def __init__(self, names: Sequence[str], constants: Mapping[str, Any]) -> None:
        self._names = names
        self._constants = constants
        self.fields: list[list[str]] = [[] for _ in names]

    def written(self, code: str) -> Written:
        """Raises NotPlainError."""
        try:
            return self._node(ast.parse(code.strip(), mode="eval").body)
        except (SyntaxError, RecursionError) as error:
            raise NotPlainError from error

    def _node(self, node: ast.expr) -> Written:
        match node:
            case ast.Attribute(ast.Name(name), field) if name in self._names:
                which = self._names.index(name)
                if field not in self.fields[which]:
                    self.fields[which].append(field)
                return "field", which, self.fields[which].index(field)
            case ast.Constant(bool() | int() | float() | str() as value):
                return "constant", value
            case ast.Name(name) if type(self._constants.get(name)) in (bool, int, float, str):
                return "constant", self._constants[name]
            case ast.UnaryOp(ast.Not(), operand):
                return "not", self._node(operand)
            case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
                return "constant", -value
            case ast.BoolOp(junction, operands):
                return _JUNCTIONS[type(junction)], *map(self._node, operands)
            case ast.Compare(left, [sign], [right]) if type(sign) in _SIGNS:
                return _SIGNS[type(sign)], self._node(left), self._node(right)
            case ast.BinOp(left, operator, right) if type(operator) in _ARITHMETIC:
                return _ARITHMETIC[type(operator)], self._node(left), self._node(right)
        raise NotPlainError


class ProgramWriter(ConditionWriter):
    """Writes all that programs over columns know (``native``): NULL, intermediate values, choices and division as well."""

    def __init__(self, names: Sequence[str], constants: Mapping[str, Any]) -> None:
        super().__init__(names, constants)
        self._kept: dict[str, int] = {}

    def _node(self, node: ast.expr) -> Written:
        match node:
            case ast.Constant(None):
                return "constant", None
            case ast.NamedExpr(ast.Name(name), value):
                return "keep", self._kept.setdefault(name, len(self._kept)), self._node(value)
            case ast.Name(name) if name in self._kept:
                return "kept", self._kept[name]
            case ast.UnaryOp(ast.USub(), operand) if not isinstance(operand, ast.Constant):
                return "negate", self._node(operand)
            case ast.Compare(left, [ast.IsNot()], [ast.Constant(None)]):
                return "there", self._node(left)
            case ast.Compare(left, [ast.Is()], [ast.Constant(None)]):
                return "not", ("there", self._node(left))
            case ast.Compare(left, [ast.Is()], [ast.Constant(bool() as truth)]):
                return "=", self._node(left), ("constant", truth)
            case ast.Compare(left, [first, second], [ast.NamedExpr() | ast.Name() as middle, right]):
                again = middle.target if isinstance(middle, ast.NamedExpr) else middle
                return "all", *map(self._node, (ast.Compare(left, [first], [middle]), ast.Compare(again, [second], [right])))
            case ast.IfExp(test, body, otherwise):  # as it runs: the test keeps what the body reads
                return "choose", self._node(test), self._node(body), self._node(otherwise)
            case ast.Call(ast.Name(name), arguments) if _CALLS.get(name) == len(arguments):
                return name, *map(self._node, arguments)
        return super()._node(node)
