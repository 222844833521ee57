"""Expressions on the columns of a table, as mappings of recordings write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from detectors.language import parse_expression, tree
from detectors.language.code import Code, CodeFrame
from detectors.language.compiler import Attributes, analyse
from detectors.language.expression import ElementRead, Variable
from detectors.language.value_types import kind_of


class _Used(Attributes):
    """Columns by name; it notes which an expression reads, and where in a row they stand then."""

    def __init__(self, kinds: Mapping[str, type]) -> None:
        super().__init__({name: Code(Variable(name), kind_of(kind)) for name, kind in kinds.items()}, "the table")
        self.columns: list[str] = []

    def attribute(self, name: tree.Name) -> Code:
        code = super().attribute(name)
        if code.value not in self.columns:
            self.columns.append(code.value)
        return Code(ElementRead("e", self.columns.index(code.value)), code.kind)


def column_expression(text: str, kinds: Mapping[str, type]) -> tuple[tuple[str, ...], Callable[[tuple[Any, ...]], Any]]:
    """The columns that an expression reads, and the function from a tuple of their values to its value (None: NULL).

    ``kinds``: the types of the columns. Raises QueryError.
    """
    frame, used = CodeFrame(), _Used(kinds)
    code = analyse(parse_expression(text), used, frame)
    return tuple(used.columns), frame.function("e", code.value)
