"""From the parse tree of a query to its syntax tree: one method for each rule of the grammar."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

from lark import Token, Transformer, v_args
from lark.tree import Meta

from detectors.sequence.errors import QueryError
from detectors.sequence.syntax import (
    NOWHERE,
    Arithmetic,
    Call,
    Comparison,
    Component,
    Expression,
    Field,
    Group,
    In,
    Index,
    IsNull,
    Item,
    Junction,
    Like,
    Literal,
    Name,
    Not,
    Place,
    Query,
    Result,
    Same,
    Strategy,
    joined,
)
from middleware.event import MAX_TS
from middleware.quantities import UNITS, nanoseconds_of, nearest_unit


def place_of(meta: Meta | Token) -> Place:
    """Where a node of the parse tree stands."""
    if getattr(meta, "line", None) is None:
        return NOWHERE
    same_line = meta.end_line == meta.line
    return Place(meta.line or 0, meta.column or 0, (meta.end_column or 0) - (meta.column or 0) if same_line else 1)


def duration(number: str, unit: Token, text: str) -> int:
    """Nanoseconds of a number and a unit of time."""
    known = nanoseconds_of(unit)
    if known is None:
        close = nearest_unit(unit)
        hint = f"{f'did you mean {close}? ' if close else ''}units: {UNITS}"
        raise _wrong(f"{str(unit)!r} is no unit of time", hint, text, unit)
    nanoseconds = Decimal(number) * known
    if nanoseconds >= MAX_TS:
        raise _wrong("this is longer than time lasts", "146 years are the most", text, unit)
    return round(nanoseconds)


def number(token: Token, text: str) -> int | float:
    """The number that a token spells."""
    value = float(token)
    if math.isinf(value):
        raise _wrong("this number is too large", "", text, token)
    return int(token) if token.isdigit() else value


def _wrong(message: str, hint: str, text: str, at: Token) -> QueryError:
    return QueryError(message, hint=hint, text=text, line=at.line or 0, column=at.column or 0, length=len(at))


class _Components(Transformer[Token, Any]):
    """The pattern: SEQ and its components."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def dotted(self, names: list[Token]) -> list[Token]:
        return names

    def types(self, many: list[list[Token]]) -> tuple[str, ...]:
        return tuple(".".join(names) for names in many)

    @v_args(meta=True)
    def single(self, meta: Meta, children: list[Any]) -> Component:
        return Component(children[0], _optional(children[1:]), at=place_of(meta))

    @v_args(meta=True)
    def negated(self, meta: Meta, children: list[Any]) -> Component:
        return Component(children[0], _optional(children[1:]), negated=True, at=place_of(meta))

    @v_args(meta=True)
    def kleene(self, meta: Meta, children: list[Any]) -> Component:
        return Component(children[0], str(children[1]), kleene=True, at=place_of(meta))

    def pattern(self, components: list[Component]) -> tuple[Component, ...]:
        return tuple(components)

    def using(self, children: list[Token]) -> Strategy:
        return Strategy(children[0].lower().replace("_", "-").replace(" ", "-"))

    def where(self, children: list[Expression]) -> tuple[str, Expression]:
        return ("where", children[0])

    @v_args(meta=True)
    def within(self, meta: Meta, children: list[Token]) -> tuple[str, int, Place]:
        return ("within", duration(children[0], children[1], self.text), place_of(meta))

    def start(self, children: list[Any]) -> Query:
        where = within = result = None
        strategy, within_at = Strategy.ANY, NOWHERE
        for child in children[1:]:
            match child:
                case Strategy():
                    strategy = child
                case ("where", condition):
                    where = condition
                case ("within", length, place):
                    within, within_at = length, place
                case Result():
                    result = child
        return Query(children[0], where, within, result, strategy, text=self.text, within_at=within_at)


class TreeBuilder(_Components):
    """Expressions, and RETURN."""

    def _wrong(self, message: str, hint: str, at: Place) -> QueryError:
        return QueryError(message, hint=hint, text=self.text, line=at.line, column=at.column, length=at.length)

    @v_args(meta=True)
    def number(self, meta: Meta, children: list[Token]) -> Literal:
        return Literal(number(children[0], self.text), at=place_of(meta))

    @v_args(meta=True)
    def duration(self, meta: Meta, children: list[Token]) -> Literal:
        return Literal(duration(children[0], children[1], self.text), at=place_of(meta))

    @v_args(meta=True)
    def text_literal(self, meta: Meta, children: list[Token]) -> Literal:
        return Literal(_unquoted(children[0]), at=place_of(meta))

    @v_args(meta=True)
    def true(self, meta: Meta, _: list[Token]) -> Literal:
        return Literal(True, at=place_of(meta))

    @v_args(meta=True)
    def false(self, meta: Meta, _: list[Token]) -> Literal:
        return Literal(False, at=place_of(meta))

    @v_args(meta=True)
    def null(self, meta: Meta, _: list[Token]) -> Literal:
        return Literal(None, at=place_of(meta))

    @v_args(meta=True)
    def same(self, meta: Meta, children: list[Token]) -> Same:
        return Same(tuple(map(str, children)), at=place_of(meta))

    @v_args(meta=True)
    def path(self, meta: Meta, children: list[list[Token]]) -> Expression:
        names, at = [str(name) for name in children[0]], place_of(meta)
        if len(names) == 1:
            return Name(names[0], at=at)
        if len(names) > 2:
            raise self._wrong(f"{'.'.join(names)} has too many parts", "a field is written variable.field, such as s.id", at)
        return Field(names[0], names[1], at=at)

    @v_args(meta=True)
    def group(self, meta: Meta, children: list[Token]) -> Group:
        return Group(*map(str, children), at=place_of(meta))

    def index(self, children: list[Token]) -> tuple[list[str], Place]:
        first = place_of(children[0])
        return [str(child) for child in children], Place(first.line, first.column, sum(map(len, children)))

    @v_args(meta=True)
    def indexed(self, meta: Meta, children: list[Any]) -> Field:
        variable, (parts, at), name = children
        known = {"1": Index.FIRST, "-1": Index.PREVIOUS, "": Index.EACH}
        rest = "".join(parts) if parts[0].isdigit() else "".join(parts[1:])
        if rest not in known:
            hint = f"write {variable}[i], {variable}[i-1], {variable}[1], or last({variable}[].{name})"
            raise self._wrong(f"[{''.join(parts)}] is no index", hint, at)
        return Field(str(variable), str(name), known[rest], at=place_of(meta))

    @v_args(meta=True)
    def call(self, meta: Meta, children: list[Any]) -> Call:
        return _Arguments(".".join(children[0]), tuple(children[1:]), at=place_of(meta))

    @v_args(meta=True)
    def signed(self, meta: Meta, children: list[Any]) -> Expression:
        sign, value = children
        if sign == "+":
            return value  # type: ignore[no-any-return]
        if isinstance(value, Literal) and isinstance(value.value, int | float):
            return Literal(-value.value, at=place_of(meta))
        return Arithmetic("-", Literal(0), self._plain(value), at=place_of(meta))

    @v_args(meta=True)
    def arithmetic(self, meta: Meta, children: list[Any]) -> Arithmetic:
        left, operator, right = children
        return Arithmetic(str(operator), self._plain(left), self._plain(right), at=place_of(meta))

    @v_args(meta=True)
    def comparison(self, meta: Meta, children: list[Any]) -> Comparison:
        left, operator, right = children
        spelled = {"==": "=", "!=": "<>"}.get(operator, str(operator))
        return Comparison(spelled, self._plain(left), self._plain(right), at=place_of(meta))

    @v_args(meta=True)
    def conjunction(self, meta: Meta, children: list[Any]) -> Junction:
        return replace(joined("AND", *map(self._plain, children)), at=place_of(meta))

    @v_args(meta=True)
    def disjunction(self, meta: Meta, children: list[Any]) -> Junction:
        return replace(joined("OR", *map(self._plain, children)), at=place_of(meta))

    @v_args(meta=True)
    def negation(self, meta: Meta, children: list[Any]) -> Not:
        return Not(self._plain(children[-1]), at=place_of(meta))

    @v_args(meta=True)
    def among(self, meta: Meta, children: list[Any]) -> Expression:
        options = tuple(self._plain(child) for child in children[1:] if not isinstance(child, Token))
        return self._denied(children, In(self._plain(children[0]), options, at=place_of(meta)))

    @v_args(meta=True)
    def between(self, meta: Meta, children: list[Any]) -> Expression:
        at = place_of(meta)
        value, low, high = (self._plain(child) for child in children if not isinstance(child, Token))
        both = (Comparison(">=", value, low, at=at), Comparison("<=", value, high, at=at))
        return self._denied(children, Junction("AND", both, at=at))

    @v_args(meta=True)
    def like(self, meta: Meta, children: list[Any]) -> Expression:
        return self._denied(children[:-1], Like(self._plain(children[0]), _unquoted(children[-1]), at=place_of(meta)))

    @v_args(meta=True)
    def is_null(self, meta: Meta, children: list[Any]) -> Expression:
        return self._denied(children, IsNull(self._plain(children[0]), at=place_of(meta)))

    def _denied(self, children: list[Any], test: Expression) -> Expression:
        """The test, or its negation where NOT stands before it."""
        return Not(test, at=test.at) if any(isinstance(child, Token) for child in children) else test

    def item(self, children: list[Any]) -> Item:
        value = children[0]
        if len(children) == 1 and isinstance(value, Comparison) and value.operator == "=" and isinstance(value.left, Name):
            return Item(self._plain(value.right), value.left.name)
        return Item(value, *map(str, children[1:]))

    def _plain(self, value: Any) -> Any:
        """An expression in which calls have plain arguments: names for them are for RETURN alone."""
        if not isinstance(value, _Arguments):
            return value
        arguments = []
        for item in value.arguments:
            if item.name is not None:
                raise self._wrong(
                    f"{value.function} takes no names for its arguments",
                    "names belong to RETURN, whose type cannot be called like a function",
                    value.at,
                )
            arguments.append(self._plain(item.value))
        return Call(value.function.lower(), tuple(arguments), at=value.at)

    def where(self, children: list[Expression]) -> tuple[str, Expression]:
        return ("where", self._plain(children[0]))

    @v_args(meta=True)
    def returning(self, meta: Meta, items: list[Item]) -> Result:
        from detectors.sequence.functions import AGGREGATES, FUNCTIONS

        first, at = items[0].value, place_of(meta)
        if len(items) == 1 and isinstance(first, _Arguments) and first.function.lower() not in {*AGGREGATES, *FUNCTIONS}:
            made = tuple(Item(self._plain(item.value), item.name) for item in first.arguments)
            return Result(made, first.function, at=at)
        return Result(tuple(Item(self._plain(item.value), item.name) for item in items), at=at)


class _Arguments(Call):
    """A call as it was read: its arguments are items, for it may turn out to be the type of a result."""

    arguments: tuple[Any, ...]


def _unquoted(token: Token) -> str:
    quote = token[0]
    return str(token[1:-1]).replace(quote * 2, quote)


def _optional(tokens: list[Token]) -> str | None:
    return str(tokens[0]) if tokens else None
