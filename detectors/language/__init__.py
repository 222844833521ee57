"""Typed expressions of query languages: parsed by one grammar, checked, and compiled to Python functions.

>>> expression = parse_expression("price * quantity > 1000 AND symbol LIKE 'I%'")
>>> reads = Attributes({"price": Code("e.price", ValueKind(Type.DOUBLE)), "quantity": Code("e.quantity", ValueKind(Type.INT)),
...                     "symbol": Code("e.symbol", ValueKind(Type.STRING, nullable=True))})
>>> frame = CodeFrame()
>>> is_large = frame.function("e", condition(expression, reads, frame).holds)
>>> from types import SimpleNamespace as Tick
>>> is_large(Tick(price=81.37, quantity=30, symbol="IBM")), bool(is_large(Tick(price=81.37, quantity=30, symbol=None)))
(True, False)
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from lark import Lark

from detectors.language.code import Code, CodeFrame
from detectors.language.compiler import Attributes, Scope, analyse, condition
from detectors.language.expression_builder import ExpressionBuilder, parse_text
from detectors.language.parsers import parser_of
from detectors.language.query_errors import QueryError
from detectors.language.tree import SyntaxNode
from detectors.language.value_types import Type, ValueKind

__all__ = [
    "Attributes",
    "Code",
    "CodeFrame",
    "QueryError",
    "Scope",
    "SyntaxNode",
    "Type",
    "ValueKind",
    "analyse",
    "condition",
    "grammar",
    "parse_expression",
]  # fmt: skip


@cache
def grammar() -> str:
    """The rules and terminals of expressions, for grammars that contain them."""
    return files("detectors.language").joinpath("grammar.lark").read_text(encoding="utf-8")


@cache
def _parser() -> Lark:
    return parser_of(grammar(), __file__, "expression")


def parse_expression(text: str) -> SyntaxNode:
    """The tree of an expression. Raises QueryError with its place in the text."""
    node: SyntaxNode = parse_text(_parser(), ExpressionBuilder(), text)
    return node
