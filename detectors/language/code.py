"""Compiled expressions with their kind, and functions of Python made of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any

from detectors.language.expression import (
    FALSE,
    NULL,
    Assignment,
    Conditional,
    Conjunction,
    ConstantValue,
    Disjunction,
    Expression,
    FalseTest,
    FieldRead,
    FunctionCall,
    Negation,
    NullableOperand,
    NullTest,
    Parenthesis,
    RangeTest,
    SealedValue,
    StrictOperation,
    Variable,
)
from detectors.language.value_types import LIMITS, Type, ValueKind
from detectors.language.values import enum_value, single
from middleware.model.event import Value

Made = Callable[..., Any]
"""A function made of generated code."""


NO_TEST = Expression()
"""The test follows from the value."""


@dataclass(frozen=True, slots=True)
class Code:
    """A compiled expression.

    ``value``
        its value; None stands for NULL.
    ``true``, ``false``
        for Booleans: tests of whether the expression is true, or false. Neither test holds for NULL. Both are cheaper
        than the value, since a WHERE need not know whether a condition is false or NULL.
    ``constant``
        whether the expression reads no attribute.
    ``most``
        for whole numbers: the largest magnitude, if it is known to differ from that of the type; else 0.
    """

    value: Expression
    kind: ValueKind
    true: Expression = NO_TEST
    false: Expression = NO_TEST
    constant: bool = False
    most: int = 0

    @property
    def type(self) -> Type:
        return self.kind.type

    @property
    def nullable(self) -> bool:
        return self.kind.nullable

    @property
    def magnitude(self) -> int:
        """The largest absolute value of a whole number."""
        return self.most or LIMITS[self.type]

    @property
    def is_loose(self) -> bool:
        """Whether this is whole-number arithmetic whose result may lie outside its type; ``sealed`` makes that NULL."""
        return self.type in LIMITS and self.most >= LIMITS[self.type]

    @property
    def holds(self) -> Expression:
        """A test that is true exactly when this Boolean is true."""
        return self.true or self.value

    @property
    def fails(self) -> Expression:
        """A test that is true exactly when this Boolean is false."""
        return self.false or (FalseTest(self.value) if self.nullable else Negation(Parenthesis(self.value)))

    def field_of(self, event: str) -> str | None:
        """The field of the event of that name which is the value, unchanged; None if it is another value."""
        read = self.value
        return read.field if isinstance(read, FieldRead) and read.event == event else None


class CodeFrame:
    """The names that the functions of one query share: constants, helpers and intermediate values."""

    def __init__(self) -> None:
        self.globals: dict[str, Any] = {"__builtins__": {}}
        self._named: dict[int, str] = {}
        self._temporaries = 0

    def constant(self, value: object) -> str:
        """A name for a value that code can refer to."""
        name = self._named.get(id(value))
        if name is None:
            name = self._named[id(value)] = f"c{len(self._named)}"
            self.globals[name] = value  # kept here, so its id stays its own
        return name

    def temporary(self) -> Variable:
        """A fresh name for an intermediate value."""
        self._temporaries += 1
        return Variable(f"t{self._temporaries}")

    def known(self, operands: Sequence[Code], is_null: bool) -> tuple[list[Expression], list[Expression]]:
        """Tests of whether operands that may be NULL are, or are not; and what reads all operands after these tests."""
        tests: list[Expression] = []
        names: list[Expression] = []
        for operand in operands:
            if operand.nullable:
                name = self.temporary()
                tests.append(NullTest(Assignment(name, operand.value), not is_null))
                names.append(name)
            else:
                names.append(operand.value)
        return tests, names

    def strict(self, operands: Sequence[Code], build: Callable[..., Expression]) -> Expression:
        """The result of ``build`` on the operands' values; NULL if an operand is."""
        tests, names = self.known(operands, True)
        made = build(*names)
        if not tests:
            return Parenthesis(made)
        return _strict(Parenthesis(Conditional(Disjunction(tests), NULL, made)), operands, build, NULL)

    def strict_test(self, operands: Sequence[Code], build: Callable[..., Expression]) -> Expression:
        """The test that ``build`` makes of the operands' values, which fails if an operand is NULL."""
        tests, names = self.known(operands, False)
        checked = Parenthesis(Conjunction([*tests, build(*names)]))
        return _strict(checked, operands, build, FALSE) if tests else checked

    def sealed(self, code: Code) -> Code:
        """The value of code, but NULL for whole numbers that its type cannot hold. (Doubles follow IEEE 754.)"""
        if not code.is_loose:
            return code
        name, limit = self.temporary(), LIMITS[code.type]
        first = Assignment(name, code.value)
        fits = Conjunction([NullTest(first, True), RangeTest(name, limit)]) if code.nullable else RangeTest(first, limit)
        value = SealedValue(Parenthesis(Conditional(fits, name, NULL)), code.value, limit)
        return Code(value, ValueKind(code.type, True), constant=code.constant)

    def function(self, parameters: str, body: Expression) -> Made:
        """A function of ``parameters`` that returns the value of ``body``."""
        return self.define(f"def made({parameters}):\n    return {body}\n")

    def define(self, source: str, more: Mapping[str, object] | None = None) -> Made:
        """The function ``made`` that the source defines. Its globals are this frame's and ``more``, and no builtins.

        ``enum_value`` is there for any code, and none of the frame's: all of those are part of a query's definition.
        """
        local: dict[str, Any] = {}
        exec(_compiled(source), {"enum_value": enum_value, **self.globals, **(more or {})}, local)
        made: Made = local["made"]
        return made


def _strict(
    checked: Expression, operands: Sequence[Code], build: Callable[..., Expression], otherwise: ConstantValue
) -> StrictOperation:
    values = [NullableOperand(each.value) if each.nullable else each.value for each in operands]
    return StrictOperation(checked, build(*values), otherwise)


@lru_cache
def _compiled(source: str) -> CodeType:
    """Queries that are planned again, as a run is made again or a node restarts its detectors, have the same source."""
    with warnings.catch_warnings(action="ignore", category=SyntaxWarning):  # "1 IS NULL" is odd, but no mistake
        return compile(source, "<query>", "exec")


def converted(frame: CodeFrame, code: Code, target: Type) -> Code:
    """The code with its value as ``target``, to which its type converts (Table 4.1)."""
    if code.type is target or code.type is Type.NULL:
        return Code(code.value, ValueKind(target, code.nullable), code.true, code.false, code.constant, code.most)
    code = frame.sealed(code)
    value: Expression = code.value
    if code.type is Type.CHAR:
        frame.globals["number_of"] = number_of
        value = frame.strict([code], lambda name: FunctionCall("number_of", [name]))
        code = Code(value, ValueKind(Type.INT, True), constant=code.constant)
    if target in (Type.DOUBLE, Type.FLOAT) and code.type not in (Type.DOUBLE, Type.FLOAT):
        make = "float" if target is Type.DOUBLE else "single"
        frame.globals.update(float=float, single=single)
        value = frame.strict([code], lambda name: FunctionCall(make, [name]))
    return Code(value, ValueKind(target, code.nullable), constant=code.constant)


def number_of(character: str) -> int | None:
    """The number of a Char; NULL for a text that others sent as one but that is none."""
    return ord(character) if len(character) == 1 else None


def literal(frame: CodeFrame, value: object, kind: Type) -> Code:
    """A constant."""
    if value is None:
        return Code(NULL, ValueKind(Type.NULL, True), FALSE, FALSE, constant=True)
    if isinstance(value, bool):
        return Code(ConstantValue(str(value), value), ValueKind(kind), constant=True)
    if isinstance(value, float | int) and value - value == 0:
        read = ConstantValue(f"({value!r})" if value < 0 else repr(value), value)
        return Code(read, ValueKind(kind), constant=True, most=abs(value) if kind in LIMITS else 0)  # type: ignore[arg-type]
    return Code(ConstantValue(frame.constant(value), value), ValueKind(kind), constant=True)


def constant_value(frame: CodeFrame, code: Code) -> Value:
    """The value of code that reads no attribute."""
    return frame.function("", code.value)()
