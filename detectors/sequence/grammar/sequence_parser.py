"""From the text of a query to its syntax tree, with the expressions of ``detectors.language`` and ``query.lark``."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import TypeVar

from lark import Lark, Token, v_args

from detectors.language import grammar
from detectors.language.aggregate_functions import NAMES
from detectors.language.expression_builder import ExpressionBuilder, parse_text, plain, span_of
from detectors.language.functions import KNOWN
from detectors.language.parsers import parser_of
from detectors.language.query_errors import QueryError, TextSpan
from detectors.language.tree import Binary, Name, SyntaxNode
from detectors.language.value_types import Type
from detectors.sequence.grammar.syntax import (
    Component,
    DurationLiteral,
    FieldReference,
    Index,
    QueryTree,
    ResultConstructor,
    ReturnClause,
    ReturnItem,
    SameFields,
    Strategy,
)
from middleware.model.event import MAX_TS
from middleware.model.quantities import UNITS, nanoseconds_of, nearest_unit

T = TypeVar("T")
_Dotted = tuple[Token, ...]
_Types = tuple[_Dotted, ...]

FUNCTIONS = frozenset({*KNOWN, *NAMES})
"""All names of functions and aggregates, in lower case."""

_NO_UNIT = re.compile(r"\bWITHIN\s+(\d+(?:\.\d+)?)\s*(?=$|(RETURN|WHERE|USING)\b)", re.IGNORECASE)
_SQL = re.compile(r"\s*(SELECT|CREATE|INSERT|WITH)\b", re.IGNORECASE)
_WORDS = {"BANG": "!", "STRATEGY": ", ".join(Strategy)}


def parse(text: str) -> QueryTree:
    """The syntax tree of a query. Raises QueryError with line, column and what was expected. O(length of the text).

    >>> parse("EVENT SEQ(Shelf s, !(Checkout c), Exit e) WHERE [id] WITHIN 1 hour").components[1].types
    ('Checkout',)
    """
    if not text.strip():
        raise QueryError("the query is empty: write EVENT SEQ(A a, B b) WHERE a.x = b.x WITHIN 1 min")
    if sql := _SQL.match(text):
        raise QueryError(
            "this is SQL, and no sequence query, which begins with EVENT SEQ(...); 'slackline sql' takes SQL",
            TextSpan(*sql.span(1)),
        ).located(text)
    try:
        query: QueryTree = parse_text(_parser(), QueryBuilder(), text, _WORDS)
    except QueryError as error:
        if bare := _NO_UNIT.search(text):
            hint = f"a time needs a unit: write {bare[1]} min, say (units: {UNITS})"
            raise QueryError(hint, TextSpan(*bare.span(1))).located(text) from None
        raise error
    return QueryTree(query.components, query.where, query.within, query.result, query.strategy, text=text)


@cache
def _parser() -> Lark:
    text = grammar() + files("detectors.sequence.grammar").joinpath("query.lark").read_text(encoding="utf-8")
    return parser_of(text, __file__)


def check_duration(length: int, span: TextSpan) -> int:
    """The duration (ns) itself. Raises QueryError if it is longer than time lasts."""
    if length >= MAX_TS:
        raise QueryError("this is longer than time lasts: 146 years are the most", span)
    return length


def _duration(number: Token, unit: Token) -> int:
    """The nanoseconds of a number and a unit of time. Raises QueryError if the unit is unknown or the time too long."""
    name, span = plain(unit), span_of(unit)
    size = nanoseconds_of(name)
    if size is None:
        near = nearest_unit(name)
        raise QueryError(f"{name!r} is no unit of time{f'; did you mean {near}?' if near else ''} (units: {UNITS})", span)
    return check_duration(round(Decimal(number) * size), span)


@v_args(inline=True)
class QueryBuilder(ExpressionBuilder):
    """One method per rule of ``query.lark``."""

    def dotted(self, *parts: T) -> tuple[T, ...]:
        return parts

    deep = index = types = pattern = dotted

    def single(self, types: _Types, variable: Token | None) -> Component:
        return _component(types, variable)

    def negated(self, bang: Token, types: _Types, variable: Token | None) -> Component:
        return _component(types, variable, bang, negated=True)

    def kleene(self, types: _Types, plus: Token, variable: Token) -> Component:
        return _component(types, variable, kleene=True)

    def using(self, strategy: Token) -> Strategy:
        return Strategy(re.sub("[_ ]", "-", strategy.lower()))

    def where(self, condition: SyntaxNode) -> SyntaxNode:
        return condition

    def within(self, number: Token, unit: Token) -> int:
        return _duration(number, unit)

    def start(
        self,
        components: tuple[Component, ...],
        strategy: Strategy | None,
        where: SyntaxNode | None,
        within: int | None,
        result: ReturnClause | None,
    ) -> QueryTree:
        return QueryTree(components, where, within, result, strategy or Strategy.ANY)

    # what sequences add to expressions

    def qualified(self, qualifier: Token, name: Token) -> SyntaxNode:
        return FieldReference(plain(name), plain(qualifier), span=span_of(qualifier, name))

    def path(self, names: _Dotted) -> SyntaxNode:
        raise QueryError(f"{'.'.join(names)} has too many parts: a field is written variable.field", span_of(*names))

    def group(self, variable: Token, name: Token | None) -> SyntaxNode:
        return FieldReference((name and plain(name)) or "", plain(variable), Index.ALL, span=span_of(variable, name))

    def indexed(self, variable: Token, index: tuple[Token | None, ...], name: Token) -> SyntaxNode:
        written = [str(each) for each in index if each is not None]
        known = {"1": Index.FIRST, "-1": Index.PREVIOUS, "": Index.EACH}
        rest = "".join(written if written[0].isdigit() else written[1:])
        if rest not in known:
            hint = f"write {variable}[i], {variable}[i-1], {variable}[1], or last({variable}[].{name})"
            raise QueryError(f"[{''.join(written)}] is no index: {hint}", span_of(*index))
        return FieldReference(plain(name), plain(variable), known[rest], span=span_of(variable, name))

    def same(self, *fields: Token) -> SyntaxNode:
        return SameFields(tuple(map(plain, fields)), span=span_of(*fields))

    def duration(self, number: Token, unit: Token) -> SyntaxNode:
        return DurationLiteral(_duration(number, unit), Type.LONG, span=span_of(number, unit))

    def named(self, value: SyntaxNode, name: Token) -> ReturnItem:
        return ReturnItem(value, plain(name), span=span_of(value, name))

    def call(self, name: Token, *arguments: SyntaxNode | None) -> SyntaxNode:
        written = plain(name)
        is_function = written.lower() in FUNCTIONS and written in (written.lower(), written.upper())
        made = super().call if is_function or written.lower() in NAMES else self.made
        return made(name, *arguments)

    def made(self, *parts: Token | _Dotted | SyntaxNode | None) -> ResultConstructor:
        names = [
            token for part in parts for token in (part if isinstance(part, tuple) else (part,)) if isinstance(token, Token)
        ]
        arguments = tuple(part for part in parts if isinstance(part, SyntaxNode))
        name = ".".join(map(plain, names))
        return ResultConstructor(name.lower(), arguments, type=name, span=span_of(*names))

    def returning(self, first: SyntaxNode, *more: SyntaxNode) -> ReturnClause:
        if not more and isinstance(first, ResultConstructor):
            return ReturnClause(tuple(map(_item, first.arguments)), first.type, span=first.span)
        return ReturnClause(tuple(map(_item, (first, *more))), span=span_of(first, *more))


def _component(
    types: _Types, variable: Token | None, bang: Token | None = None, *, negated: bool = False, kleene: bool = False
) -> Component:
    names = tuple(".".join(map(plain, dotted)) for dotted in types)
    tokens = [token for dotted in types for token in dotted]
    return Component(names, variable and plain(variable), negated, kleene, span=span_of(bang, *tokens, variable))


def _item(node: SyntaxNode) -> ReturnItem:
    match node:
        case ReturnItem():
            return node
        case Binary("=", Name(name) as left, value) if not isinstance(left, FieldReference):
            return ReturnItem(value, name, span=node.span)
    return ReturnItem(node, span=node.span)
