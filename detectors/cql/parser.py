"""From text to statements, by one grammar: ``cql.lark`` with the expressions behind it."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from lark import Lark, Token

from detectors.cql import statements as s
from detectors.cql.foreign import check_foreign
from detectors.language import grammar
from detectors.language.builder import ExpressionBuilder, parse_text, plain, span_of, text_of, whole_number
from detectors.language.errors import QueryError, Span, nearest
from detectors.language.tree import Name, SyntaxNode
from middleware.model.quantities import NANOSECONDS, UNITS, nanoseconds_of

DEEPEST = 20
"""How deep sub-selects may be nested."""


def parse_statements(text: str) -> list[s.Statement]:
    """The statements of a text. Raises QueryError with line, column and what was expected."""
    check_foreign(text)
    found: list[s.Statement] = parse_text(_parser(), text)
    try:
        for statement in found:
            _check_nesting(statement)
    except QueryError as error:
        raise error.located(text) from None
    return found


@cache
def _parser() -> Lark:
    text = files("detectors.cql").joinpath("cql.lark").read_text(encoding="utf-8") + grammar()
    return Lark(text, parser="lalr", maybe_placeholders=True, transformer=StatementBuilder())


def _check_nesting(statement: object) -> None:
    pending = [(statement, 1)]
    while pending:
        here, depth = pending.pop()
        if depth > 2 * DEEPEST:  # each sub-select is a reference and a query
            span = here.span if isinstance(here, s.Part) else Span(0, 0)
            raise QueryError(f"sub-selects are nested more than {DEEPEST} deep: give some of them a name", span)
        below: tuple[object, ...] = ()
        match here:
            case s.Select(_, source, join):
                below = (source,) if join is None else (source, join.other)
            case s.Reference(s.Select() as base):
                below = (base,)
            case s.CreateStream(source=source) | s.Insert(source=source):
                below = (source,)
            case s.Explain(inner):
                below = (inner,)
        pending += [(each, depth + 1) for each in below]


def _span(*parts: Any) -> Span:
    """From the first to the last of tokens, expressions and parts of statements."""
    spans = [each.span if isinstance(each, s.Part | SyntaxNode) else span_of(each) for each in parts if each is not None]
    return Span(spans[0].start, spans[-1].end) if spans else Span(0, 0)


class StatementBuilder(ExpressionBuilder):
    """One method a rule of ``cql.lark``."""

    def start(self, parts: list[Any]) -> list[s.Statement]:
        return [part for part in parts if part is not None]

    def explain(self, parts: list[Any]) -> s.Explain:
        return s.Explain(parts[0], span=_span(parts[0]))

    def stream(self, parts: list[Any]) -> s.Ident:
        return s.Ident(".".join(map(plain, parts)), span=_span(*parts))

    def attribute(self, parts: list[Any]) -> Name:
        first, second = parts
        if second is None:
            return Name(plain(first), span=_span(first))
        return Name(plain(second), plain(first), span=_span(first, second))

    def attributes(self, parts: list[Any]) -> tuple[Name, ...]:
        return tuple(parts)

    # data definition

    def typed_attribute(self, parts: list[Any]) -> s.TypedAttribute:
        from detectors.language.builder import type_named

        name, kind, negated, _ = parts
        return s.TypedAttribute(plain(name), type_named(kind), negated is None, span=_span(name, kind))

    def anonymous_schema(self, parts: list[Any]) -> s.AnonymousSchema:
        return s.AnonymousSchema(tuple(parts), span=_span(*parts))

    def create_schema(self, parts: list[Any]) -> s.CreateSchema:
        name, schema, parent = parts
        return s.CreateSchema(_ident(name), _schema(schema), parent and _ident(parent), span=_span(name))

    def create_stream(self, parts: list[Any]) -> s.CreateStream:
        name, schema, timestamp, source = parts
        return s.CreateStream(name, schema and _schema(schema), timestamp and plain(timestamp), source, span=_span(name))

    def host(self, parts: list[Any]) -> s.Host:
        host, port = parts
        if not 0 < whole_number(port) < 65536:
            raise QueryError("a port is a number from 1 to 65535", span_of(port))
        return s.Host(text_of(host), int(port), span=_span(host, port))

    def file(self, parts: list[Any]) -> s.File:
        path, delimiter = parts
        if not text_of(delimiter):
            raise QueryError('the delimiter must not be empty: write ","', span_of(delimiter))
        return s.File(text_of(path), text_of(delimiter).replace("\\t", "\t"), span=_span(path, delimiter))

    # data manipulation

    def insert(self, parts: list[Any]) -> s.Insert:
        return s.Insert(parts[0], parts[1], span=_span(*parts))

    def merge(self, parts: list[Any]) -> s.Merge:
        *streams, into = parts
        return s.Merge(tuple(streams), into, span=_span(*streams))

    def insert_clause(self, parts: list[Any]) -> s.InsertClause:
        target, targets, where = parts
        return s.InsertClause(target, targets, where, span=_span(target))

    def split(self, parts: list[Any]) -> s.Split:
        return s.Split(parts[0], tuple(each for each in parts[1:] if isinstance(each, s.InsertClause)), span=_span(parts[0]))

    def select(self, parts: list[Any]) -> s.Select:
        targets, source, join, where, group_by, having, into, execution = parts
        span = _span(targets[0], source)
        return s.Select(targets, source, join, where, group_by or (), having, into, execution, span=span)

    def where(self, parts: list[Any]) -> SyntaxNode:
        return parts[0]  # type: ignore[no-any-return]

    having = into = where

    def group_by(self, parts: list[Any]) -> tuple[Name, ...]:
        return parts[0]  # type: ignore[no-any-return]

    partitioned = group_by

    def execute(self, parts: list[Any]) -> s.Execution:
        model, by = parts
        return s.Execution(s.Model(model.lower()), by and plain(by), span=_span(model, by))

    def targets(self, parts: list[Any]) -> tuple[s.Target, ...]:
        return tuple(parts)

    def target(self, parts: list[Any]) -> s.Target:
        expression, alias = parts
        return s.Target(expression, alias and plain(alias), span=_span(expression, alias))

    def all_attributes(self, parts: list[Any]) -> s.Target:
        return s.Target(None, span=_span(parts[0]))

    def all_of(self, parts: list[Any]) -> s.Target:
        return s.Target(None, None, plain(parts[0]), span=_span(*parts))

    def reference(self, parts: list[Any]) -> s.Reference:
        base, alias, window = parts
        return s.Reference(base, alias and plain(alias), window, span=_span(base))

    def reference_after(self, parts: list[Any]) -> s.Reference:
        base, window, alias = parts
        return self.reference([base, alias, window])

    def cross_join(self, parts: list[Any]) -> s.Join:
        return s.Join(parts[0], span=_span(parts[0]))

    def inner_join(self, parts: list[Any]) -> s.Join:
        other, how = parts
        if isinstance(how, tuple):
            return s.Join(other, None, how, span=_span(other, *how))
        return s.Join(other, how, span=_span(other, how))

    # windows

    def window(self, parts: list[Any]) -> s.Window:
        kind, partition, where = parts
        return s.Window(kind, partition or (), where, span=_span(kind, *(partition or ()), where))

    def size(self, parts: list[Any]) -> s.Size:
        size, slide, start = parts
        return s.Size(size, slide, start, span=_span(size, slide))

    def landmark(self, parts: list[Any]) -> s.Landmark:
        return s.Landmark(*parts, span=_span(*parts))

    def fixed(self, parts: list[Any]) -> s.Fixed:
        lower, upper, attribute = parts
        return s.Fixed(lower, upper, attribute and plain(attribute), span=_span(lower, upper))

    def delta(self, parts: list[Any]) -> s.Delta:
        threshold, measure = parts
        return s.Delta(float(threshold), measure, span=_span(threshold, measure))

    def number(self, parts: list[Any]) -> Token:
        if float(parts[0]) == float("inf"):
            raise QueryError("this number is too large", span_of(parts[0]))
        return parts[0]  # type: ignore[no-any-return]

    def instant(self, parts: list[Any]) -> s.Instant:
        token = parts[0]
        value = text_of(token) if token.type == "STRING" else whole_number(token)
        return s.Instant(value, span=_span(token))

    def spec_on(self, parts: list[Any]) -> s.Spec:
        amount, attribute = parts
        return s.Spec(s.Axis.APPLICATION, _amount(amount), plain(attribute), span=_span(*parts))

    def spec_time(self, parts: list[Any]) -> s.Spec:
        amount, unit = parts
        size = nanoseconds_of(plain(unit))
        if size is None:
            hint = nearest(plain(unit).lower(), NANOSECONDS)
            raise QueryError(f"unknown time unit {plain(unit)!r}{hint}; units: {UNITS}", span_of(unit))
        return s.Spec(s.Axis.SYSTEM, _amount(amount, size), span=_span(*parts))

    def spec_count(self, parts: list[Any]) -> s.Spec:
        return s.Spec(s.Axis.COUNT, _amount(parts[0]), span=_span(parts[0]))


def _amount(token: Token, unit: int = 1) -> int:
    amount = whole_number(token) * unit
    if not 0 < amount < 2**62:
        raise QueryError(
            "a window is at least 1 and at most 146 years long" if amount else "a window cannot be empty", span_of(token)
        )
    return amount


def _ident(name: Token) -> s.Ident:
    return s.Ident(plain(name), span=_span(name))


def _schema(part: Token | s.AnonymousSchema) -> s.Schema:
    return _ident(part) if isinstance(part, Token) else part
