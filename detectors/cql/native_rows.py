"""Compiled code as the native core takes it: tests and columns that are plain arithmetic on fields, and nothing else.

Code fragments are Python (``detectors.language``), and are read as Python. ``native.Projection`` runs them a batch at a time.
What it cannot decide just as Python would, it leaves to the comprehension made of the same code.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from detectors.cql.plan import Joined, Mapping
from middleware import native
from middleware.model.making import recipe

Written = tuple[Any, ...]
"""A piece of code as nested tuples: an operator and its operands."""

_SIGNS = {ast.Eq: "=", ast.NotEq: "<>", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_ARITHMETIC = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_JUNCTIONS = {ast.And: "all", ast.Or: "any"}


class _NotPlainError(Exception):
    """The code does more than the core knows."""


class _Writer:
    """Writes code that reads tuples under these names, and constants; collects the fields it reads of each tuple."""

    def __init__(self, names: Sequence[str], constants: dict[str, Any]) -> None:
        self._names = names
        self._constants = constants
        self.fields: list[list[str]] = [[] for _ in names]

    def written(self, code: str) -> Written:
        """Raises _NotPlainError."""
        return self._node(ast.parse(code, mode="eval").body)

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
        raise _NotPlainError


def projection(plan: Mapping | Joined, names: Sequence[str], source: str, level: int) -> native.Projection | None:
    """The columns of a plan for tuples that pass its test, made in the native core; None if it cannot make them."""
    if not native.AVAILABLE:
        return None
    test = plan.where if isinstance(plan, Mapping) else plan.condition
    writer = _Writer(names, plan.frame.globals)
    try:
        chosen = writer.written(test.holds) if test is not None else None
        columns = [writer.written(column.value) for column in plan.ordered]
    except _NotPlainError:
        return None
    return native.Projection.of(recipe(plan.target.event_type), chosen, columns, writer.fields, source, level)
