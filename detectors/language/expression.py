"""Compiled expressions: trees that are their own Python source, as text. The same tree is written for the core (``written``).

Python puts parentheses where a tree has a ``Parenthesis``. An ``Expression`` of no subclass is a piece of Python for which the
core has no node: it is run, and never read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self


class Expression(str):
    """The base of all nodes. It is compared, hashed and shown as its source."""

    __slots__: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[object, ...]:  # str would have a node made from its source alone
        return _restored, (type(self), str(self), *(getattr(self, name) for name in type(self).__slots__))


def _restored(kind: type[Expression], source: str, *parts: object) -> Expression:
    """A node as it was before it was pickled."""
    made = str.__new__(kind, source)
    for name, part in zip(kind.__slots__, parts, strict=True):
        setattr(made, name, part)
    return made


class ConstantValue(Expression):
    """A constant, under a name or as Python writes it."""

    __slots__ = ("value",)
    __match_args__ = ("value",)
    value: object

    def __new__(cls, source: str, value: object) -> Self:
        made = super().__new__(cls, source)
        made.value = value
        return made


class FieldRead(Expression):
    """A field of an event, which code calls ``event``."""

    __slots__ = ("event", "field")
    __match_args__ = ("event", "field")
    event: str
    field: str

    def __new__(cls, event: str, field: str) -> Self:
        made = super().__new__(cls, f"{event}.{field}")
        made.event, made.field = event, field
        return made


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

    __slots__ = ("name", "value")
    __match_args__ = ("name", "value")
    name: Variable
    value: Expression

    def __new__(cls, name: Variable, value: Expression) -> Self:
        made = super().__new__(cls, f"({name} := {value})")
        made.name, made.value = name, value
        return made


class Parenthesis(Expression):
    """The same expression in parentheses."""

    __slots__ = ("inner",)
    __match_args__ = ("inner",)
    inner: Expression

    def __new__(cls, inner: Expression) -> Self:
        made = super().__new__(cls, f"({inner})")
        made.inner = inner
        return made


class SignedValue(Expression):
    """``-x``, ``+x`` or ``~x``."""

    __slots__ = ("operand", "sign")
    __match_args__ = ("sign", "operand")
    sign: str
    operand: Expression

    def __new__(cls, sign: str, operand: Expression) -> Self:
        made = super().__new__(cls, f"{sign}{operand}")
        made.sign, made.operand = sign, operand
        return made


class Arithmetic(Expression):
    """Two numbers, or texts, with an operator of Python between them."""

    __slots__ = ("left", "right", "sign")
    __match_args__ = ("sign", "left", "right")
    sign: str
    left: Expression
    right: Expression

    def __new__(cls, sign: str, left: Expression, right: Expression) -> Self:
        made = super().__new__(cls, f"{left} {sign} {right}")
        made.sign, made.left, made.right = sign, left, right
        return made


class Comparison(Expression):
    """Two values compared, neither of them NULL: ``=``, ``<>``, ``<``, ``<=``, ``>`` or ``>=``."""

    __slots__ = ("left", "right", "sign")
    __match_args__ = ("sign", "left", "right")
    sign: str
    left: Expression
    right: Expression

    def __new__(cls, sign: str, left: Expression, right: Expression) -> Self:
        python = {"=": "==", "<>": "!="}.get(sign, sign)
        made = super().__new__(cls, f"{left} {python} {right}")
        made.sign, made.left, made.right = sign, left, right
        return made


class RangeTest(Expression):
    """Whether -limit <= value < limit. ``value`` is a variable, or the assignment of one."""

    __slots__ = ("limit", "value")
    __match_args__ = ("value", "limit")
    value: Variable | Assignment
    limit: int

    def __new__(cls, value: Variable | Assignment, limit: int) -> Self:
        made = super().__new__(cls, f"-{limit} <= {value} < {limit}")
        made.value, made.limit = value, limit
        return made


class SealedValue(Expression):
    """A whole number if -limit <= value < limit, else NULL. ``checked`` calculates it."""

    __slots__ = ("checked", "limit", "value")
    __match_args__ = ("checked", "value", "limit")
    checked: Expression
    value: Expression
    limit: int

    def __new__(cls, checked: Expression, value: Expression, limit: int) -> Self:
        made = super().__new__(cls, checked)
        made.checked, made.value, made.limit = checked, value, limit
        return made


class NullTest(Expression):
    """Whether a value is NULL, or, if ``negated``, is not."""

    __slots__ = ("negated", "operand")
    __match_args__ = ("operand", "negated")
    operand: Expression
    negated: bool

    def __new__(cls, operand: Expression, negated: bool) -> Self:
        made = super().__new__(cls, f"{operand} {'is not' if negated else 'is'} None")
        made.operand, made.negated = operand, negated
        return made


class FalseTest(Expression):
    """Whether a truth value is false, and not NULL."""

    __slots__ = ("operand",)
    __match_args__ = ("operand",)
    operand: Expression

    def __new__(cls, operand: Expression) -> Self:
        made = super().__new__(cls, f"({operand}) is False")
        made.operand = operand
        return made


class Negation(Expression):
    """``not x``."""

    __slots__ = ("operand",)
    __match_args__ = ("operand",)
    operand: Expression

    def __new__(cls, operand: Expression) -> Self:
        made = super().__new__(cls, f"not {operand}")
        made.operand = operand
        return made


class Conjunction(Expression):
    """Whether all of several tests hold."""

    __slots__ = ("operands",)
    __match_args__ = ("operands",)
    operands: tuple[Expression, ...]

    def __new__(cls, operands: Sequence[Expression]) -> Self:
        made = super().__new__(cls, " and ".join(operands))
        made.operands = tuple(operands)
        return made


class Disjunction(Expression):
    """Whether one of several tests holds."""

    __slots__ = ("operands",)
    __match_args__ = ("operands",)
    operands: tuple[Expression, ...]

    def __new__(cls, operands: Sequence[Expression]) -> Self:
        made = super().__new__(cls, " or ".join(operands))
        made.operands = tuple(operands)
        return made


class Conditional(Expression):
    """One value if a test holds, else the other. The test runs first: it may keep what the values read."""

    __slots__ = ("one", "other", "test")
    __match_args__ = ("test", "one", "other")
    test: Expression
    one: Expression
    other: Expression

    def __new__(cls, test: Expression, one: Expression, other: Expression) -> Self:
        made = super().__new__(cls, f"{one} if {test} else {other}")
        made.test, made.one, made.other = test, one, other
        return made


class FunctionCall(Expression):
    """A call of a function by its name in the frame: a helper of the language, or a function of users."""

    __slots__ = ("arguments", "name")
    __match_args__ = ("name", "arguments")
    name: str
    arguments: tuple[Expression, ...]

    def __new__(cls, name: str, arguments: Sequence[Expression]) -> Self:
        made = super().__new__(cls, f"{name}({', '.join(arguments)})")
        made.name, made.arguments = name, tuple(arguments)
        return made


class GroupAggregate(Expression):
    """An aggregate of a field of several events, which code calls ``events``, or their number. ``source`` calculates it."""

    __slots__ = ("events", "field", "name")
    __match_args__ = ("name", "events", "field")
    name: str
    events: str
    field: str | None

    def __new__(cls, source: Expression, name: str, events: str, field: str | None) -> Self:
        made = super().__new__(cls, source)
        made.name, made.events, made.field = name, events, field
        return made


class Membership(Expression):
    """Whether a value is among others, or, if ``negated``, is not."""

    __slots__ = ("negated", "operand", "values")
    __match_args__ = ("operand", "values", "negated")
    operand: Expression
    values: Expression
    negated: bool

    def __new__(cls, operand: Expression, values: Expression, negated: bool) -> Self:
        made = super().__new__(cls, f"{operand} {'not in' if negated else 'in'} {values}")
        made.operand, made.values, made.negated = operand, values, negated
        return made


class ValueTuple(Expression):
    """Several values as a tuple."""

    __slots__ = ("values",)
    __match_args__ = ("values",)
    values: tuple[Expression, ...]

    def __new__(cls, values: Sequence[Expression]) -> Self:
        made = super().__new__(cls, f"({', '.join(values)},)")
        made.values = tuple(values)
        return made


NULL = ConstantValue("None", None)
TRUE = ConstantValue("True", True)
FALSE = ConstantValue("False", False)
