"""The syntax tree of a sequence query: what the parser reads from text, and what the builder makes in Python.

Nodes compare equal wherever they say the same, whatever their place in a text. ``str(node)`` is the query again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from middleware.quantities import format_duration


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node stands in the text of the query: line and column from 1, and how many characters; line 0: nowhere."""

    line: int = 0
    column: int = 0
    length: int = 1


NOWHERE = Place()


class Strategy(StrEnum):
    """Which events a match may pass over (SASE+, Agrawal et al., SIGMOD 2008, section 2).

    ``ANY``
        skip-till-any-match: any; every combination that fits is a match.
    ``NEXT``
        skip-till-next-match: those that do not fit; the first that fits is taken.
    ``STRICT``
        strict contiguity: none; the events of a match follow each other directly (within their key).
    """

    ANY = "skip-till-any-match"
    NEXT = "skip-till-next-match"
    STRICT = "strict-contiguity"


class Index(StrEnum):
    """Which events of a Kleene variable a field is read from."""

    EACH = "i"
    PREVIOUS = "i-1"
    FIRST = "1"


@dataclass(frozen=True, slots=True)
class Expression:
    """A node of a condition, or of what RETURN gives."""

    at: Place = field(default=NOWHERE, compare=False, kw_only=True, repr=False)


@dataclass(frozen=True, slots=True)
class Literal(Expression):
    """A number, a text, TRUE, FALSE or NULL; a duration is a number of nanoseconds."""

    value: int | float | str | bool | None

    def __str__(self) -> str:
        if isinstance(self.value, str):
            return "'" + self.value.replace("'", "''") + "'"
        return "NULL" if self.value is None else str(self.value).upper() if isinstance(self.value, bool) else repr(self.value)


@dataclass(frozen=True, slots=True)
class Name(Expression):
    """A lone name: a variable where a function takes one (``count(a)``), else a mistake."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Field(Expression):
    """``s.id``, or ``a[i].id``, ``a[i-1].id``, ``a[1].id`` of a Kleene variable."""

    variable: str
    name: str
    index: Index | None = None

    def __str__(self) -> str:
        return f"{self.variable}{'' if self.index is None else f'[{self.index}]'}.{self.name}"


@dataclass(frozen=True, slots=True)
class Group(Expression):
    """``a[]`` or ``a[].x``: all events of a Kleene variable, as an argument of an aggregate."""

    variable: str
    name: str | None = None

    def __str__(self) -> str:
        return f"{self.variable}[]" + (f".{self.name}" if self.name else "")


@dataclass(frozen=True, slots=True)
class Call(Expression):
    """A function or an aggregate of its arguments."""

    function: str
    arguments: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True, slots=True)
class Arithmetic(Expression):
    """``left operator right`` with + - * / %; a sign is ``0 - right``."""

    operator: str
    left: Expression
    right: Expression

    def __str__(self) -> str:
        return f"({self.left} {self.operator} {self.right})"


@dataclass(frozen=True, slots=True)
class Comparison(Expression):
    """``left operator right`` with = <> < <= > >=."""

    operator: str
    left: Expression
    right: Expression

    def __str__(self) -> str:
        return f"{self.left} {self.operator} {self.right}"


@dataclass(frozen=True, slots=True)
class Junction(Expression):
    """Terms all of which (AND) or one of which (OR) must hold."""

    operator: str
    terms: tuple[Expression, ...]

    def __str__(self) -> str:
        return "(" + f" {self.operator} ".join(map(str, self.terms)) + ")"


@dataclass(frozen=True, slots=True)
class Not(Expression):
    term: Expression

    def __str__(self) -> str:
        return f"NOT ({self.term})"


@dataclass(frozen=True, slots=True)
class In(Expression):
    """``value IN (options)``."""

    value: Expression
    options: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"{self.value} IN ({', '.join(map(str, self.options))})"


@dataclass(frozen=True, slots=True)
class Like(Expression):
    """``value LIKE pattern``: ``%`` stands for any text, ``_`` for any one character."""

    value: Expression
    pattern: str

    def __str__(self) -> str:
        return f"{self.value} LIKE {Literal(self.pattern)}"


@dataclass(frozen=True, slots=True)
class IsNull(Expression):
    value: Expression

    def __str__(self) -> str:
        return f"{self.value} IS NULL"


@dataclass(frozen=True, slots=True)
class Same(Expression):
    """``[id, gate]``: these fields are equal in all events of a match, and in those that negation rules out."""

    fields: tuple[str, ...]

    def __str__(self) -> str:
        return f"[{', '.join(self.fields)}]"


@dataclass(frozen=True, slots=True)
class Component:
    """One component of SEQ: ``Shelf s``, ``!(Checkout c)``, ``Reading+ r[]`` or ``ANY(A, B) x``."""

    types: tuple[str, ...]
    variable: str | None = None
    negated: bool = False
    kleene: bool = False
    at: Place = field(default=NOWHERE, compare=False, kw_only=True, repr=False)

    def __str__(self) -> str:
        kinds = self.types[0] if len(self.types) == 1 else f"ANY({', '.join(self.types)})"
        if self.kleene:
            return f"{kinds}+ {self.variable or ''}[]"
        text = f"{kinds} {self.variable}" if self.variable else kinds
        return f"!({text})" if self.negated else text


@dataclass(frozen=True, slots=True)
class Item:
    """One value of RETURN: ``value AS name``; without a name that of its field."""

    value: Expression
    name: str | None = None

    def __str__(self) -> str:
        return f"{self.value} AS {self.name}" if self.name else str(self.value)


@dataclass(frozen=True, slots=True)
class Result:
    """RETURN: the type of the result (None: named after the query) and its values."""

    items: tuple[Item, ...]
    type: str | None = None
    at: Place = field(default=NOWHERE, compare=False, kw_only=True, repr=False)

    def __str__(self) -> str:
        items = ", ".join(map(str, self.items))
        return f"{self.type}({items})" if self.type else items


@dataclass(frozen=True, slots=True)
class Query:
    """A whole query. ``within`` is in nanoseconds; ``text`` is what it was read from."""

    components: tuple[Component, ...]
    where: Expression | None = None
    within: int | None = None
    result: Result | None = None
    strategy: Strategy = Strategy.ANY
    text: str = field(default="", compare=False, kw_only=True, repr=False)
    within_at: Place = field(default=NOWHERE, compare=False, kw_only=True, repr=False)

    def __str__(self) -> str:
        parts = [f"EVENT SEQ({', '.join(map(str, self.components))})"]
        if self.strategy is not Strategy.ANY:
            parts.append(f"USING {self.strategy}")
        if self.where is not None:
            parts.append(f"WHERE {self.where}")
        if self.within is not None:
            parts.append(f"WITHIN {_duration(self.within)}")
        if self.result is not None:
            parts.append(f"RETURN {self.result}")
        return " ".join(parts)


def _duration(nanoseconds: int) -> str:
    from middleware.quantities import parse_duration

    text = format_duration(nanoseconds)
    return text if parse_duration(text) == nanoseconds else f"{nanoseconds}ns"


def joined(operator: str, *terms: Expression) -> Junction:
    """One junction of terms; those that are junctions of the same kind are opened."""
    opened: list[Expression] = []
    for term in terms:
        opened += term.terms if isinstance(term, Junction) and term.operator == operator else (term,)
    return Junction(operator, tuple(opened))


def operands(node: Any) -> tuple[Expression, ...]:
    """The expressions directly below one."""
    match node:
        case Arithmetic(_, left, right) | Comparison(_, left, right):
            return (left, right)
        case Call(_, many) | Junction(_, many):
            return many
        case Not(one) | IsNull(one) | Like(one, _):
            return (one,)
        case In(value, options):
            return (value, *options)
    return ()
