"""Compiled expressions: trees that are their own Python source, as text. The core gets the tree in its own form (``written``).

Python puts parentheses where a tree has a ``Parenthesis``. An ``Expression`` of no subclass is a piece of Python for which the
core has no node: it is run, and never read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self


class Expression(str):
    """The base of all nodes. It is compared, hashed and shown as its source."""

    __slots__: tuple[str, ...] = ()

    @classmethod
    def _made(cls, source: str, *parts: object) -> Self:
        """A node with this source, and these values of its slots."""
        made = str.__new__(cls, source)
        for name, part in zip(cls.__slots__, parts, strict=True):
            setattr(made, name, part)
        return made

    def __reduce__(self) -> tuple[object, ...]:  # str would have a node made from its source alone
        return type(self)._made, (str(self), *(getattr(self, name) for name in type(self).__slots__))


class ConstantValue(Expression):
    """A constant, under a name or as Python writes it."""

    __slots__ = __match_args__ = ("value",)
    value: object

    def __new__(cls, source: str, value: object) -> Self:
        return cls._made(source, value)


class FieldRead(Expression):
    """A field of an event, which code calls ``event``."""

    __slots__ = __match_args__ = ("event", "field")
    event: str
    field: str

    def __new__(cls, event: str, field: str) -> Self:
        return cls._made(f"{event}.{field}", event, field)


class ElementRead(Expression):
    """An element of a tuple: the value of an aggregate, a bound of a window, a column of a row."""

    __slots__ = ()

    def __new__(cls, values: str, place: int) -> Self:
        return super().__new__(cls, f"{values}[{place}]")


class Variable(Expression):
    """A variable of Python, such as an intermediate value that an ``Assignment`` keeps."""

    __slots__ = ()


class Assignment(Expression):
    """Keeps the value under a name, and gives it."""

    __slots__ = __match_args__ = ("name", "value")
    name: Variable
    value: Expression

    def __new__(cls, name: Variable, value: Expression) -> Self:
        return cls._made(f"({name} := {value})", name, value)


class Parenthesis(Expression):
    """Put the expression in parentheses."""

    __slots__ = __match_args__ = ("inner",)
    inner: Expression

    def __new__(cls, inner: Expression) -> Self:
        return cls._made(f"({inner})", inner)


class SignedValue(Expression):
    """``-x``, ``+x`` or ``~x``."""

    __slots__ = __match_args__ = ("sign", "operand")
    sign: str
    operand: Expression

    def __new__(cls, sign: str, operand: Expression) -> Self:
        return cls._made(f"{sign}{operand}", sign, operand)


class Arithmetic(Expression):
    """Two numbers, or texts, with an operator of Python between them."""

    __slots__ = __match_args__ = ("sign", "left", "right")
    sign: str
    left: Expression
    right: Expression

    def __new__(cls, sign: str, left: Expression, right: Expression) -> Self:
        return cls._made(f"{left} {sign} {right}", sign, left, right)


class Comparison(Expression):
    """Two values compared, neither of them NULL: ``=``, ``<>``, ``<``, ``<=``, ``>`` or ``>=``."""

    __slots__ = __match_args__ = ("sign", "left", "right")
    sign: str
    left: Expression
    right: Expression

    def __new__(cls, sign: str, left: Expression, right: Expression) -> Self:
        python = {"=": "==", "<>": "!="}.get(sign, sign)
        return cls._made(f"{left} {python} {right}", sign, left, right)


class RangeTest(Expression):
    """Whether -limit <= value < limit. ``value`` is a variable, or the assignment of one."""

    __slots__ = __match_args__ = ("value", "limit")
    value: Variable | Assignment
    limit: int

    def __new__(cls, value: Variable | Assignment, limit: int) -> Self:
        return cls._made(f"-{limit} <= {value} < {limit}", value, limit)


class SealedValue(Expression):
    """A whole number if -limit <= value < limit, else NULL. ``checked`` calculates it."""

    __slots__ = __match_args__ = ("checked", "value", "limit")
    checked: Expression
    value: Expression
    limit: int

    def __new__(cls, checked: Expression, value: Expression, limit: int) -> Self:
        return cls._made(checked, checked, value, limit)


class NullTest(Expression):
    """Whether a value is NULL, or, if ``negated``, is not."""

    __slots__ = __match_args__ = ("operand", "negated")
    operand: Expression
    negated: bool

    def __new__(cls, operand: Expression, negated: bool) -> Self:
        return cls._made(f"{operand} {'is not' if negated else 'is'} None", operand, negated)


class FalseTest(Expression):
    """Whether a truth value is false, and not NULL."""

    __slots__ = __match_args__ = ("operand",)
    operand: Expression

    def __new__(cls, operand: Expression) -> Self:
        return cls._made(f"({operand}) is False", operand)


class Negation(Expression):
    """``not x``."""

    __slots__ = __match_args__ = ("operand",)
    operand: Expression

    def __new__(cls, operand: Expression) -> Self:
        return cls._made(f"not {operand}", operand)


class Conjunction(Expression):
    """Whether all of several tests hold."""

    __slots__ = __match_args__ = ("operands",)
    operands: tuple[Expression, ...]

    def __new__(cls, operands: Sequence[Expression]) -> Self:
        return cls._made(" and ".join(operands), tuple(operands))


class Disjunction(Expression):
    """Whether one of several tests holds."""

    __slots__ = __match_args__ = ("operands",)
    operands: tuple[Expression, ...]

    def __new__(cls, operands: Sequence[Expression]) -> Self:
        return cls._made(" or ".join(operands), tuple(operands))


class Conditional(Expression):
    """One value if a test holds, else the other. The test runs first: it may keep what the values read."""

    __slots__ = __match_args__ = ("test", "one", "other")
    test: Expression
    one: Expression
    other: Expression

    def __new__(cls, test: Expression, one: Expression, other: Expression) -> Self:
        return cls._made(f"{one} if {test} else {other}", test, one, other)


class NullableOperand(Expression):
    """A value that a ``StrictOperation`` takes, and that may be NULL."""

    __slots__ = __match_args__ = ("value",)
    value: Expression

    def __new__(cls, value: Expression) -> Self:
        return cls._made(value, value)


class StrictOperation(Expression):
    """An operation on values; ``otherwise``, NULL or false, if a nullable one is NULL. ``checked`` calculates it."""

    __slots__ = __match_args__ = ("checked", "operation", "otherwise")
    checked: Expression
    operation: Expression
    otherwise: ConstantValue

    def __new__(cls, checked: Expression, operation: Expression, otherwise: ConstantValue) -> Self:
        return cls._made(checked, checked, operation, otherwise)


class FunctionCall(Expression):
    """A call of a function by its name in the frame: a helper of the language, or a function of users."""

    __slots__ = __match_args__ = ("name", "arguments")
    name: str
    arguments: tuple[Expression, ...]

    def __new__(cls, name: str, arguments: Sequence[Expression]) -> Self:
        return cls._made(f"{name}({', '.join(arguments)})", name, tuple(arguments))


class GroupAggregate(Expression):
    """An aggregate of a field of several events, which code calls ``events``, or their number. ``source`` calculates it."""

    __slots__ = __match_args__ = ("name", "events", "field")
    name: str
    events: str
    field: str | None

    def __new__(cls, source: Expression, name: str, events: str, field: str | None) -> Self:
        return cls._made(source, name, events, field)


class Membership(Expression):
    """Whether a value is among others, or, if ``negated``, is not."""

    __slots__ = __match_args__ = ("operand", "values", "negated")
    operand: Expression
    values: Expression
    negated: bool

    def __new__(cls, operand: Expression, values: Expression, negated: bool) -> Self:
        return cls._made(f"{operand} {'not in' if negated else 'in'} {values}", operand, values, negated)


class ValueTuple(Expression):
    """Several values as a tuple."""

    __slots__ = __match_args__ = ("values",)
    values: tuple[Expression, ...]

    def __new__(cls, values: Sequence[Expression]) -> Self:
        return cls._made(f"({', '.join(values)},)", tuple(values))


NULL = ConstantValue("None", None)
TRUE = ConstantValue("True", True)
FALSE = ConstantValue("False", False)
