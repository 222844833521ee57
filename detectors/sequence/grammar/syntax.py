"""The syntax tree of a sequence query, which the parser reads from text and the builder makes in Python.

Expressions are those of ``detectors.language``, with additions for sequences. Nodes with the same content are equal, whatever
their place in a text. ``str(node)`` is the query again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from detectors.language.query_errors import NOWHERE, TextSpan
from detectors.language.tree import Call, Junction, Literal, Name, SyntaxNode
from middleware.model.quantities import format_duration, parse_duration


class Strategy(StrEnum):
    """Which events a match may pass over (SASE+, Agrawal et al., SIGMOD 2008, section 2).

    ``ANY``
        skip-till-any-match: any events; every combination that fits is a match.
    ``NEXT``
        skip-till-next-match: events that do not fit; the first that fits is taken.
    ``STRICT``
        strict contiguity: none; the events of a match follow each other directly (within their key).
    """

    ANY = "skip-till-any-match"
    NEXT = "skip-till-next-match"
    STRICT = "strict-contiguity"


class Index(StrEnum):
    """Which events of a Kleene variable a field is read from; ``ALL`` for aggregates alone."""

    EACH = "i"
    PREVIOUS = "i-1"
    FIRST = "1"
    ALL = ""


@dataclass(frozen=True, slots=True)
class FieldReference(Name):
    """``s.id`` (``s`` is the qualifier), or ``a[i].id``, ``a[i-1].id``, ``a[1].id``, ``a[].id`` of a Kleene variable.

    Without a name it stands for the events themselves: ``count(a[])``.
    """

    index: Index | None = None

    @property
    def variable(self) -> str:
        return self.qualifier or ""

    def __str__(self) -> str:
        name = f".{self.name}" if self.name else ""
        return f"{self.variable}{'' if self.index is None else f'[{self.index}]'}{name}"


@dataclass(frozen=True, slots=True)
class DurationLiteral(Literal):
    """``5 min``: a number of nanoseconds."""

    def __str__(self) -> str:
        return f"{self.value} ns"


@dataclass(frozen=True, slots=True)
class SameFields(SyntaxNode):
    """``[id, gate]``: these fields are equal in all events of a match, and in those that negation rules out."""

    fields: tuple[str, ...]

    def __str__(self) -> str:
        return f"[{', '.join(self.fields)}]"


@dataclass(frozen=True, slots=True)
class ReturnItem(SyntaxNode):
    """One value of RETURN: ``value AS name``; without a name it has its field's name."""

    value: SyntaxNode
    name: str | None = None

    def __str__(self) -> str:
        return f"{self.value} AS {self.name}" if self.name else str(self.value)


@dataclass(frozen=True, slots=True)
class ResultConstructor(Call):
    """``Theft(s.id AS id)``: it looks like a call; alone after RETURN, it makes a result of that ``type``."""

    type: str = ""


@dataclass(frozen=True, slots=True)
class Component:
    """One component of SEQ: ``Shelf s``, ``!(Checkout c)``, ``Reading+ r[]`` or ``ANY(A, B) x``."""

    types: tuple[str, ...]
    variable: str | None = None
    negated: bool = False
    kleene: bool = False
    span: TextSpan = field(default=NOWHERE, compare=False, kw_only=True, repr=False)

    def __str__(self) -> str:
        kinds = self.types[0] if len(self.types) == 1 else f"ANY({', '.join(self.types)})"
        if self.kleene:
            return f"{kinds}+ {self.variable or ''}[]"
        text = f"{kinds} {self.variable}" if self.variable else kinds
        return f"!({text})" if self.negated else text


@dataclass(frozen=True, slots=True)
class ReturnClause:
    """RETURN: the type of the result (None: named after the query) and its values."""

    items: tuple[ReturnItem, ...]
    type: str | None = None
    span: TextSpan = field(default=NOWHERE, compare=False, kw_only=True, repr=False)

    def __str__(self) -> str:
        items = ", ".join(map(str, self.items))
        return f"{self.type}({items})" if self.type else items


@dataclass(frozen=True, slots=True)
class QueryTree:
    """A whole query. ``within`` is in nanoseconds; ``text`` is the text it was read from."""

    components: tuple[Component, ...]
    where: SyntaxNode | None = None
    within: int | None = None
    result: ReturnClause | None = None
    strategy: Strategy = Strategy.ANY
    text: str = field(default="", compare=False, kw_only=True, repr=False)

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
    text = format_duration(nanoseconds)
    return text if parse_duration(text) == nanoseconds else f"{nanoseconds}ns"


def joined(operator: str, *terms: SyntaxNode) -> Junction:
    """One junction of terms; nested junctions of the same kind are flattened."""
    opened: list[SyntaxNode] = []
    for term in terms:
        opened += term.operands if isinstance(term, Junction) and term.operator == operator else (term,)
    return Junction(operator, tuple(opened))
