"""The types of FlinkCQL and their implicit conversions (Vu 2015, Table 4.1), and the Python values that represent them."""

from __future__ import annotations

import types as python_types
from collections.abc import Iterable
from enum import Enum, StrEnum
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

from middleware.model.schema import is_optional, plain_type


class Type(StrEnum):
    """A type of the language.

    ``NULL``
        the type of the literal, which converts to any type.
    ``ANY``
        the type of fields that the language has no type for: they can only be compared, with anything, as in Python.
    """

    BOOLEAN = "Boolean"
    CHAR = "Char"
    BYTE = "Byte"
    SHORT = "Short"
    INT = "Int"
    LONG = "Long"
    FLOAT = "Float"
    DOUBLE = "Double"
    STRING = "String"
    DATETIME = "Datetime"
    NULL = "Null"
    ANY = "Any"


class ValueKind(NamedTuple):
    """A type, and whether values may be missing (NULL)."""

    type: Type
    nullable: bool = False

    def __str__(self) -> str:
        return str(self.type)


_WIDENING = (Type.BYTE, Type.SHORT, Type.INT, Type.LONG, Type.FLOAT, Type.DOUBLE)

CONVERTIBLE: dict[Type, frozenset[Type]] = {
    Type.CHAR: frozenset({Type.BYTE, Type.SHORT, Type.INT, Type.LONG, Type.DOUBLE}),
    **{kind: frozenset(_WIDENING[place + 1 :]) for place, kind in enumerate(_WIDENING)},
    Type.NULL: frozenset(Type),
}
"""Table 4.1: implicit conversions of each type. All others need CAST."""

INTEGERS = frozenset(_WIDENING[:4])
REALS = frozenset(_WIDENING[4:])
NUMBERS = INTEGERS | REALS
LIMITS = {Type.BYTE: 2**7, Type.SHORT: 2**15, Type.INT: 2**31, Type.LONG: 2**63}
"""Values of an integer type lie in [-limit, limit)."""

PYTHON: dict[Type, type] = {
    Type.BOOLEAN: bool,
    Type.CHAR: str,
    Type.STRING: str,
    Type.DATETIME: int,
    Type.FLOAT: float,
    Type.DOUBLE: float,
    **dict.fromkeys(INTEGERS, int),
}
"""The Python type of values; a Datetime is whole seconds since 1970 (UTC)."""

NAMES = {**{str(kind).lower(): kind for kind in Type if kind not in (Type.NULL, Type.ANY)}, "integer": Type.INT}
"""Types by their name in lower case."""


def converts(source: Type, target: Type) -> bool:
    """Whether a value of type ``source`` can stand where ``target`` is needed."""
    return source is target or target in CONVERTIBLE.get(source, ())


def common(one: Type, other: Type) -> Type | None:
    """The nearest type to which both convert, or None.

    >>> str(common(Type.INT, Type.DOUBLE)), common(Type.INT, Type.STRING)
    ('Double', None)
    """
    if converts(one, other):
        return other
    if converts(other, one):
        return one
    if one in CONVERTIBLE and other in CONVERTIBLE:
        return next((kind for kind in _WIDENING if converts(one, kind) and converts(other, kind)), None)
    return None


_OF_PYTHON: tuple[tuple[type, Type], ...] = ((bool, Type.BOOLEAN), (int, Type.LONG), (float, Type.DOUBLE), (str, Type.STRING))


def kind_of(annotation: object) -> ValueKind:
    """The kind of a field of a Python event type."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return kind_of(get_args(annotation)[0])
    if origin in (Union, python_types.UnionType):
        return joint(map(kind_of, get_args(annotation)))
    if origin is Literal:
        return joint(kind_of(type(value)) for value in get_args(annotation))
    if annotation is type(None):
        return ValueKind(Type.NULL, True)
    if isinstance(annotation, type) and not issubclass(annotation, Enum):
        for python, kind in _OF_PYTHON:
            if issubclass(annotation, python):
                return ValueKind(kind)
    return ValueKind(Type.ANY, annotation is Any or isinstance(annotation, TypeVar))


def kind_of_members(annotation: object) -> ValueKind | None:
    """The kind of what the members of an enum stand for, if a field has such; None if it has not."""
    of = plain_type(annotation)
    if not (isinstance(of, type) and issubclass(of, Enum)):
        return None
    return joint([*(kind_of(type(member.value)) for member in of), ValueKind(Type.NULL, is_optional(annotation))])


def joint(kinds: Iterable[ValueKind]) -> ValueKind:
    """The kind of a value that may have any of these kinds."""
    many = list(kinds)
    nullable = any(kind.nullable for kind in many)
    types = {kind.type for kind in many} - {Type.NULL}
    if len(types) == 1:
        return ValueKind(types.pop(), nullable)
    if not types:
        return ValueKind(Type.NULL, nullable)
    return ValueKind((Type.DOUBLE if types & REALS else Type.LONG) if types <= NUMBERS else Type.ANY, nullable)
