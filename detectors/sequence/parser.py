"""From the text of a query to its syntax tree: the expressions of ``detectors.language``, and ``query.lark``."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any

from lark import Lark, Token

from detectors.language import grammar
from detectors.language.aggregates import NAMES
from detectors.language.builder import ExpressionBuilder, parse_text, plain, span_of
from detectors.language.errors import QueryError, Span
from detectors.language.functions import KNOWN
from detectors.language.tree import Binary, Name, SyntaxNode
from detectors.language.types import Type
from detectors.sequence.syntax import Component, Duration, Field, Index, Item, Made, Query, Result, Same, Strategy
from middleware.model.event import MAX_TS
from middleware.model.quantities import UNITS, nanoseconds_of, nearest_unit

FUNCTIONS = frozenset({*KNOWN, *NAMES})
"""All names of functions and aggregates, in lower case."""

_NO_UNIT = re.compile(r"\bWITHIN\s+(\d+(?:\.\d+)?)\s*(?=$|(RETURN|WHERE|USING)\b)", re.IGNORECASE)
_SQL = re.compile(r"\s*(SELECT|CREATE|INSERT|WITH)\b", re.IGNORECASE)
_WORDS = {"BANG": "!", "STRATEGY": ", ".join(Strategy)}


def parse(text: str) -> Query:
    """The syntax tree of a query. Raises QueryError with line, column and what was expected. O(length of the text).

    >>> parse("EVENT SEQ(Shelf s, !(Checkout c), Exit e) WHERE [id] WITHIN 1 hour").components[1].types
    ('Checkout',)
    """
    if not text.strip():
        raise QueryError("the query is empty: write EVENT SEQ(A a, B b) WHERE a.x = b.x WITHIN 1 min")
    if sql := _SQL.match(text):
        raise QueryError(
            "this is SQL, and no sequence query, which begins with EVENT SEQ(...); 'slackline sql' takes SQL",
            Span(*sql.span(1)),
        ).located(text)
    try:
        query: Query = parse_text(_parser(), text, _WORDS)
    except QueryError as error:
        if bare := _NO_UNIT.search(text):
            hint = f"a time needs a unit: write {bare[1]} min, say (units: {UNITS})"
            raise QueryError(hint, Span(*bare.span(1))).located(text) from None
        raise error
    return Query(query.components, query.where, query.within, query.result, query.strategy, text=text)


@cache
def _parser() -> Lark:
    text = grammar() + files("detectors.sequence").joinpath("query.lark").read_text(encoding="utf-8")
    return Lark(text, parser="lalr", maybe_placeholders=True, transformer=QueryBuilder())


def duration(number: str, unit: str, span: Span) -> int:
    """Nanoseconds of a number and a unit of time. Raises QueryError if it is no unit, or too long."""
    known = nanoseconds_of(unit)
    if known is None:
        near = nearest_unit(unit)
        raise QueryError(f"{unit!r} is no unit of time{f'; did you mean {near}?' if near else ''} (units: {UNITS})", span)
    nanoseconds = Decimal(number) * known
    if nanoseconds >= MAX_TS:
        raise QueryError("this is longer than time lasts: 146 years are the most", span)
    return round(nanoseconds)


def _duration(number: Token, unit: Token) -> int:
    return duration(str(number), plain(unit), span_of(unit))


class QueryBuilder(ExpressionBuilder):
    """One method a rule of ``query.lark``."""

    def dotted(self, parts: list[Token]) -> list[Token]:
        return parts

    deep = index = types = dotted

    def single(self, parts: list[Any], **what: bool) -> Component:
        *before, types, variable = parts
        names = tuple(".".join(map(plain, dotted)) for dotted in types)
        tokens = [token for dotted in types for token in dotted]
        return Component(names, variable and plain(variable), span=span_of(*before, *tokens, variable), **what)

    def negated(self, parts: list[Any]) -> Component:
        return self.single(parts, negated=True)

    def kleene(self, parts: list[Any]) -> Component:
        types, _, variable = parts
        return self.single([types, variable], kleene=True)

    def pattern(self, parts: list[Component]) -> tuple[Component, ...]:
        return tuple(parts)

    def using(self, parts: list[Token]) -> Strategy:
        return Strategy(re.sub("[_ ]", "-", parts[0].lower()))

    def where(self, parts: list[SyntaxNode]) -> SyntaxNode:
        return parts[0]

    def within(self, parts: list[Token]) -> int:
        return _duration(*parts)

    def start(self, parts: list[Any]) -> Query:
        components, strategy, where, within, result = parts
        return Query(components, where, within, result, strategy or Strategy.ANY)

    # what sequences add to expressions

    def qualified(self, parts: list[Token]) -> SyntaxNode:
        return Field(plain(parts[1]), plain(parts[0]), span=span_of(*parts))

    def path(self, parts: list[list[Token]]) -> SyntaxNode:
        raise QueryError(f"{'.'.join(parts[0])} has too many parts: a field is written variable.field", span_of(*parts[0]))

    def group(self, parts: list[Any]) -> SyntaxNode:
        variable, name = parts
        return Field((name and plain(name)) or "", plain(variable), Index.ALL, span=span_of(variable, name))

    def indexed(self, parts: list[Any]) -> SyntaxNode:
        variable, index, name = parts
        written = [str(each) for each in index if each is not None]
        known = {"1": Index.FIRST, "-1": Index.PREVIOUS, "": Index.EACH}
        rest = "".join(written if written[0].isdigit() else written[1:])
        if rest not in known:
            hint = f"write {variable}[i], {variable}[i-1], {variable}[1], or last({variable}[].{name})"
            raise QueryError(f"[{''.join(written)}] is no index: {hint}", span_of(*index))
        return Field(plain(name), plain(variable), known[rest], span=span_of(variable, name))

    def same(self, parts: list[Token]) -> SyntaxNode:
        return Same(tuple(map(plain, parts)), span=span_of(*parts))

    def duration(self, parts: list[Token]) -> SyntaxNode:
        return Duration(_duration(*parts), Type.LONG, span=span_of(*parts))

    def named(self, parts: list[Any]) -> Item:
        value, name = parts
        return Item(value, plain(name), span=span_of(value, name))

    def call(self, parts: list[Any]) -> SyntaxNode:
        name = plain(parts[0])
        is_function = name.lower() in FUNCTIONS and name in (name.lower(), name.upper())
        return super().call(parts) if is_function or name.lower() in NAMES else self.made(parts)

    def made(self, parts: list[Any]) -> Made:
        names = [token for part in parts for token in (part if isinstance(part, list) else [part]) if isinstance(token, Token)]
        arguments = tuple(part for part in parts if isinstance(part, SyntaxNode))
        name = ".".join(map(plain, names))
        return Made(name.lower(), arguments, type=name, span=span_of(*names))

    def returning(self, parts: list[SyntaxNode]) -> Result:
        first = parts[0]
        if len(parts) == 1 and isinstance(first, Made):
            return Result(tuple(map(_item, first.arguments)), first.type, span=first.span)
        return Result(tuple(map(_item, parts)), span=span_of(*parts))


def _item(node: SyntaxNode) -> Item:
    match node:
        case Item():
            return node
        case Binary("=", Name(name) as left, value) if not isinstance(left, Field):
            return Item(value, name, span=node.span)
    return Item(node, span=node.span)
